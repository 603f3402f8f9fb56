"""Digests of what the workflow produced, to compare before and after a change that must not alter results.

    python tests/golden.py RESULTS > before.json   of a finished scale such as results/smoke, or of results/reference
    python tests/golden.py RESULTS before.json     names what differs, and exits with 1 if anything does

Contents are compared, not bytes of files: weights by name, shape and value, tables by column. The digests hold on
one kind of processor and one version of torch, so they are made where they are compared and not kept.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from safetensors.numpy import load_file

# Measured in processor time, which no two runs share.
_TIMED = {"measure": ["exponent", "ratio"], "claim": ["L2", "P10"]}


def table(path: Path) -> str:
    """Return a digest of the values of a table."""
    content = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    for column, names in _TIMED.items():
        if column in content:
            content = content[~content[column].isin(names)]
    return hashlib.sha256(content.to_json(orient="split", index=False, double_precision=15).encode()).hexdigest()[:16]


def weights(path: Path) -> str:
    """Return a digest of the tensors of a file."""
    found = hashlib.sha256()
    for name, values in sorted(load_file(path).items()):
        found.update(f"{name} {values.dtype} {values.shape}".encode() + np.ascontiguousarray(values).tobytes())
    return found.hexdigest()[:16]


def digests(results: Path) -> dict[str, str]:
    """Return a digest of each weights file, each table of predictions or measures, and the verdicts."""
    found = {
        str(path.relative_to(results)): weights(path) for path in sorted(results.glob("*/runs/*/*/weights.safetensors"))
    }
    names = ("*/runs/*/*/predictions.parquet", "*/runs/*/*/metrics.parquet", "*/measures.parquet", "claims/claims.csv")
    return found | {
        str(path.relative_to(results)): table(path) for name in names for path in sorted(results.glob(name))
    }


if __name__ == "__main__":
    now = digests(Path(sys.argv[1]))
    if len(sys.argv) == 2:
        print(json.dumps(now, indent=1))
        sys.exit()
    before = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    different = [name for name in sorted({*now, *before}) if now.get(name) != before.get(name)]
    print("\n".join(f"{name}: {before.get(name)} -> {now.get(name)}" for name in different))
    print(f"{len({*now, *before}) - len(different)} the same, {len(different)} different")
    sys.exit(bool(different))
