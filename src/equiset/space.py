"""How much disk space a run needs, so that a small disk is reported before the run starts and not a day later."""

import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from equiset.config.experiment import Experiment, Variant
from equiset.config.resolve import Config
from equiset.data import DATASETS
from equiset.errors import EquisetError
from equiset.experiments import EXPERIMENTS

_MARGIN = 1.1
_EACH_RUN = 2**20  # predictions, metrics, logs, and what MLflow keeps of them
_EACH_SHOWN = 2**19  # a table or a figure in all its formats, and a copy for MLflow
_EACH_SETS = 2**20
_WORKFLOW = 2**23  # MLflow's database and what Snakemake notes


@dataclass(frozen=True)
class Need:
    """The space that one part of a run needs below one folder."""

    what: str
    folder: Path
    needed: int


def needs_of(config: Config, results: Path, parts: Collection[str]) -> list[Need]:
    """Return the space that some data sets and experiments need below their folders."""
    found = []
    for name in set(DATASETS) & set(parts):
        space, cache, store = config.dataset(name).space(), Path(config.data_folder) / name, results / "data" / name
        passing = space.passing if _disk(cache) != _disk(store) else 0
        found += [Need(f"{name}, raw", cache, space.raw + passing), Need(f"{name}, prepared", store, space.store)]
    for name in set(EXPERIMENTS) & set(parts):
        found.append(Need(name, results / name, _of_experiment(config.experiment(name))))
    return [*found, Need("logs and MLflow", results / "logs", _WORKFLOW)]


def _of_experiment(experiment: Experiment) -> int:
    """Count weights, and a checkpoint of three times their size that is written beside the previous one."""
    runs = sum(_EACH_RUN + 7 * _weight_bytes(experiment.variants[name]) for name in experiment.running)
    shown = _EACH_SHOWN * (len(experiment.tables) + len(experiment.figures) + len(experiment.analyses))
    return len(experiment.seeds) * (runs + _EACH_SETS * len(experiment.sets)) + shown


def _weight_bytes(variant: Variant) -> int:
    """Estimate from the widths that a variant names; a convolution has nine weights per pair of channels."""
    weights = 0
    for name, value in variant.model_dump().items():
        if isinstance(value, list) and all(isinstance(width, int) for width in value):
            weights += (1 if name.startswith("set") else 9) * sum(one * other for one, other in pairwise([3, *value]))
        elif name in ("width", "dense", "hidden"):
            weights += 4 * value**2 + 512 * value
    return 4 * weights


def check_space(config: Config, results: Path, parts: Collection[str]) -> None:
    """Raise if a disk has less space than some data sets and experiments still need. Existing files count as done."""
    disks: dict[Any, list[tuple[int, Need]]] = {}
    for need in needs_of(config, results, parts):
        left = int(_MARGIN * need.needed) - _taken(need.folder)
        if left > 0:
            disks.setdefault(_disk(need.folder), []).append((left, need))
    for needs in disks.values():
        folder = _existing(needs[0][1].folder)
        total, free = sum(left for left, _ in needs), shutil.disk_usage(folder).free
        if total > free:
            most = sorted(needs, key=lambda pair: -pair[0])[:4]
            listed = ", ".join(f"{need.what} {_size(left)}" for left, need in most)
            raise EquisetError(
                f"The disk of {folder.resolve()} has {_size(free)} free, and this run at scale '{config.scale}' still "
                f"needs about {_size(total)} there ({listed}, ...). Make room, let data_folder in config.yaml name a "
                "folder on another disk, or choose a smaller scale; then run the same command again. (--no-hooks skips "
                "this estimate.)"
            )


def _taken(folder: Path) -> int:
    files = (os.lstat(os.path.join(root, name)) for root, _, names in os.walk(folder) for name in names)
    return sum(file.st_size for file in files)


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


def _disk(folder: Path) -> int:
    return _existing(folder).stat().st_dev


def _size(count: int) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.1f} {unit}" if unit == "GB" else f"{count:.0f} {unit}"
        count /= 1000
    raise AssertionError
