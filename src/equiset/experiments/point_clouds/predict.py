"""Classes of a user's own meshes."""

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from equiset.data.modelnet40 import SUFFIXES, ModelNetSettings
from equiset.data.modelnet40.mesh_files import BadMeshError
from equiset.data.modelnet40.meshes import points_of
from equiset.data.modelnet40.official import CLASS_SIZES, name_of
from equiset.errors import EquisetError
from equiset.experiments.point_clouds.task import ROWS
from equiset.files import read_json
from equiset.nn import SetNorm
from equiset.training.load_run import Reject, Tables, Trained, batch_equal_shapes, check_array, mean_probabilities

log = logging.getLogger(__name__)


def preprocess(run: Trained, clouds: np.ndarray) -> Tensor:
    """Take points (clouds, particles, 3) in any unit and place: the network itself centres and scales a cloud."""
    points = check_array(clouds, "points (clouds, particles, 3)", None, 3).astype(np.float64)
    if not np.isfinite(points).all():
        raise EquisetError("expected points of finite numbers, got some that are not")
    # The network works in float32. Clouds that would lose digits there are centred and scaled before.
    spread = np.ptp(points, axis=1).max(1, initial=0)
    farthest = np.abs(points).max((1, 2), initial=0)
    coarse = (spread < 1e-3) | (spread > 1e3) | (farthest > 1e3 * spread)
    points[coarse] = SetNorm(eps=1e-150)(torch.from_numpy(points[coarse])).numpy()
    return torch.from_numpy(points.astype(np.float32))


def classes_of(run: Trained) -> list[str]:
    """Return the names of the classes: those of the run's own data, or of ModelNet40."""
    if run.store is not None:
        return read_json(run.store / "store.json")["classes"]
    count = run.sets["classes"]
    if run.sets["kind"] != "own" and count == len(CLASS_SIZES):
        return sorted(CLASS_SIZES)
    log.warning("the data that the run learnt from are gone, and the names of its classes with them: these are numbers")
    return [str(number) for number in range(count)]


def predict(runs: list[Trained], source: Path, reject: Reject) -> Tables:
    """Return the number of meshes in a folder and all below it and, block by block, their classes."""
    files = sorted(
        (path for path in source.rglob("*") if path.suffix.lower() in SUFFIXES) if source.is_dir() else [source],
        key=lambda path: (path.parent.parts, path.stem),
    )
    if not files:
        raise EquisetError(f"{source} holds no mesh ({', '.join(SUFFIXES)})")
    return len(files), _classes(runs, _read_meshes(runs[0], source, files, reject))


def _read_meshes(run: Trained, source: Path, files: list[Path], reject: Reject) -> Iterator[tuple[str, np.ndarray]]:
    """Yield name and points (draws, particles, 3) of each mesh, drawn as in an evaluation."""
    settings = ModelNetSettings(source="folder", folder=str(source))
    draws, particles = run.sets["draws"], run.sets["particles"]
    store = read_json(run.store / "store.json") if run.store else {}
    pool = max(store.get("test_pool", settings.test_pool), draws * particles)
    sampling = store.get("sampling", settings.sampling)
    up = run.sets.get("up", settings.up)
    rng = np.random.default_rng([run.sets["seed"], 1])
    for path in files:
        name = path.relative_to(source if source.is_dir() else source.parent).as_posix()
        try:
            points = points_of(path, name_of(name), pool, settings.seed, sampling, up).cloud.points
        except BadMeshError as error:
            reject(str(error))
            continue
        yield name, points[rng.permutation(pool)[: draws * particles]].reshape(draws, particles, 3)


def _classes(runs: list[Trained], meshes: Iterator[tuple[str, np.ndarray]]) -> Iterator[pd.DataFrame]:
    classes = classes_of(runs[0])
    for names, clouds in batch_equal_shapes(meshes, max(1, ROWS // runs[0].sets["particles"])):
        draws = np.stack(clouds, 1)
        each = [mean_probabilities(runs, draw, activation=lambda logits: logits.softmax(1)) for draw in draws]
        probabilities = torch.stack(each).mean(0)
        probability, predicted = probabilities.max(1)
        table = {"file": names, "class": [classes[number] for number in predicted], "probability": probability.numpy()}
        columns = zip(classes, probabilities.T, strict=True)
        yield pd.DataFrame(table | {f"p_{name}": column.numpy() for name, column in columns})
