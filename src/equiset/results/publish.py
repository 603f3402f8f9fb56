"""Copies runs that have ended to the published ones, which are committed."""

import shutil
from pathlib import Path

from equiset.errors import EquisetError
from equiset.results.runs import Run

LARGEST = 5_000_000
"""Bytes of a file, other than weights and checkpoints."""
LARGEST_IN_ALL = 100_000_000
"""Bytes of all published weights and checkpoints."""
_FILES = ("run.json", "metrics.parquet", "predictions.parquet", "weights.safetensors")


def publish(source: Path, analyses: Path, checkpoints: Path, output: Path) -> None:
    """Copy the runs and analyses of an experiment, or what was measured on the layers, that are there.

    Args:
        source: folder of the experiment at the paper's scale.
        analyses: folder of what was measured on its published runs, or on the layers.
        checkpoints: folder of its checkpoints. That of a run is published with it, so that it can be made longer.
        output: folder to add to.
    """
    copies = {path: output / "analyses" / path.name for path in analyses.glob("*")}
    for path in sorted(source.glob("runs/*/*/predictions.parquet")):
        run, target = Run(path.parent), output / path.parent.relative_to(source)
        if (run.info["git_commit"] or "-dirty").endswith("-dirty"):
            raise EquisetError(f"{run.folder}/run.json: the code was not committed. Commit it, then run again")
        copies |= {run.folder / name: target / name for name in _FILES}
        if (checkpoint := checkpoints / f"{run.info.get('checkpoint')}.pt").exists():
            copies[checkpoint] = target / "checkpoint.pt"
    for path, target in copies.items():
        large = path.suffix in (".safetensors", ".pt")
        if path.stat().st_size > (LARGEST_IN_ALL if large else LARGEST):
            raise EquisetError(f"{path}: {path.stat().st_size:,} bytes are too many to publish")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    kept = [path for ending in ("safetensors", "pt") for path in output.parent.rglob(f"*.{ending}")]
    if (size := sum(path.stat().st_size for path in kept)) > LARGEST_IN_ALL:
        raise EquisetError(
            f"{output.parent}: {size:,} bytes of weights and checkpoints are too many to publish. "
            "Delete checkpoint.pt of runs that will not be made longer"
        )
