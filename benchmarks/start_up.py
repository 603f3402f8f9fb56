"""What a job spends before its work begins: python benchmarks/start_up.py

Ours imports what a job needs, when it needs it. The rival is a job that imports all its tools at the top and makes an
optimizer the usual way, which imports torch.compile.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from instrument import Benchmark, Form, Step, main

EVERYTHING = """
import astropy.table, matplotlib.pyplot, mlflow, pandas, pyarrow.parquet, scipy.sparse, sklearn, torch, trimesh
torch.optim.Adam(torch.nn.Linear(2, 2).parameters())
"""


def command(*arguments: str) -> Callable[[Path], Step]:
    def prepare(_: Path) -> Step:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        call = [sys.executable, *arguments]
        return lambda: subprocess.run(call, check=True, env=environment, stdout=subprocess.DEVNULL)

    return prepare


BENCHMARKS = [
    Benchmark(
        "start of a job",
        (
            Form("job train", command("-c", "import equiset.training.run, equiset.tracking.live")),
            Form("everything imported at the top", command("-W", "ignore", "-c", EVERYTHING)),
            Form("job show", command("-c", "import equiset.experiments.jobs")),
            Form("job track", command("-c", "import equiset.tracking.send")),
            Form("python alone", command("-c", "")),
            Form("import torch alone", command("-c", "import torch")),
        ),
        rounds=3,
        memory=False,
    )
]

if __name__ == "__main__":
    main(BENCHMARKS)
