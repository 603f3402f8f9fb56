"""Judge the paper's claims by the published runs alone: their files hold all that is needed, nothing is trained."""

import argparse
from pathlib import Path

from equiset.process import run_stage
from equiset.results.measures import Measures
from equiset.stages.judge import write_verdicts
from equiset.stages.measure_runs import LAYERS, measured

SCALE = "paper"
"""That of everything that is published."""


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reference", type=Path, help="folder of the published results")
    parser.add_argument("--claims", required=True, type=Path, help="the claims file, YAML")
    arguments = parser.parse_args(argv)
    folders = [
        path for path in sorted(arguments.reference.iterdir()) if (path / "runs").exists() or path.name == LAYERS
    ]
    files = [measure_folder(folder) for folder in folders]
    write_verdicts(arguments.claims, Measures.read(*files), arguments.reference / "claims")


def measure_folder(folder: Path) -> Path:
    """Measure what a published folder holds, whose name is that of the experiment, and return the file."""
    runs = [path.parent for path in sorted(folder.glob("runs/*/seed*/run.json"))]
    measured(folder.name, runs, sorted(folder.glob("analyses/*.parquet")), SCALE).write(folder / "measures.parquet")
    return folder / "measures.parquet"


if __name__ == "__main__":
    run_stage(main)
