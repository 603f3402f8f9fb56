"""Two runs of the workflow in two folders, file by file and bit for bit."""

from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from equiset.files import digest, digest_json, read_json

# What tells when and where a run took place. Everything else under results/<scale> must be equal.
NOT_COMPARED = {
    "logs/*": "times of day",
    "benchmarks/*": "seconds and memory of each job",
    "*/checkpoints/*": "hold the seconds of each epoch; superseded by the weights",
    "*/tracked.json": "ids that MLflow draws",
    "laws/analyses/time_*": "processor time",
    "laws/measures.parquet": "exponent and ratio of those times; the rest is made of files that are compared",
    "claims/*": "quotes those times; all else in it is in files that are compared",
    "report.html": "shows those times",
}
_STORY = ("started", "ended", "epoch_seconds", "processor_seconds", "peak_memory_mb", "path", "work")


def contents(folder: Path) -> dict[str, str]:
    """Return a digest of every file that is compared, by its name below `folder`."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not any(fnmatch(name, pattern) for pattern in NOT_COMPARED):
            found[name] = digest_json(_without_story(read_json(path))) if path.suffix == ".json" else digest(path)
    return found


def _without_story(value: Any) -> Any:
    """Return JSON without the times of a run, and without the places of raw files."""
    if not isinstance(value, dict):
        return value
    return {key: _without_story(item) for key, item in value.items() if key not in _STORY}


def differences(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """Return the names of files that differ or that only one side has."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
