"""The odd one out among faces that somebody brings."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from equiset.data.celeba.images import SIDE, decode
from equiset.data.image_sets import find_sets, read_images
from equiset.experiments.outlier_faces.settings import FaceVariant
from equiset.experiments.outlier_faces.task import _EVALUATED
from equiset.experiments.outlier_faces.task import preprocess as preprocess_pixels
from equiset.files import read_json
from equiset.training.load_run import Bad, Tables, Trained, alike, checked_pixels, mean_over_runs


def preprocessing(settings: FaceVariant, sets: dict[str, Any], store: Path | None) -> Callable[[np.ndarray], Tensor]:
    members = sets["members"] if settings.model == "set-pooling" else None
    what = f"faces (sets, {members or 'members'}, {SIDE}, {SIDE}, 3)"

    def preprocess(pixels: np.ndarray) -> Tensor:
        """Take values from 0 to 255 (sets, members, 64, 64, 3), as `equiset.data.celeba.images.decode` makes them."""
        return preprocess_pixels(checked_pixels(pixels, what, members, SIDE, SIDE, 3))

    return preprocess


def predict(runs: list[Trained], source: Path, bad: Bad) -> Tables:
    """Return the number of faces and, block by block, how likely each is the one that does not belong.

    A folder of images is one set, a folder of such folders several.
    """
    found = find_sets(source)
    return sum(map(len, found.values())), _outliers(runs, _read_sets(runs[0], found, bad))


def _read_sets(
    run: Trained, found: dict[str, list[Path]], bad: Bad
) -> Iterator[tuple[tuple[str, list[str]], np.ndarray]]:
    draft = run.store is None or read_json(run.store / "store.json")["decoding"] == "draft"
    members = run.sets["members"]
    for name, paths in found.items():
        faces = list(read_images(paths, lambda content: decode(content, draft)[0], bad))
        if len(faces) < members or (len(faces) > members and run.settings.model == "set-pooling"):
            fewest = "exactly" if run.settings.model == "set-pooling" else "at least"
            bad(f"{paths[0].parent} holds {len(faces)} faces; this network takes {fewest} {members}")
            continue
        files, pixels = zip(*faces, strict=True)
        yield (name, files), np.stack(pixels)


def _outliers(runs: list[Trained], sets: Iterator[tuple[tuple[str, list[str]], np.ndarray]]) -> Iterator[pd.DataFrame]:
    one = runs[0].settings.output == "softmax"
    for names, pixels in alike(sets, _EVALUATED):
        stacked = np.stack(pixels)
        chances = mean_over_runs(runs, stacked, chances=lambda x: x.softmax(1) if one else x.sigmoid()).numpy()
        outlier = chances == chances.max(1, keepdims=True) if one else chances > 0.5
        where, files = zip(*((name, file) for name, files in names for file in files), strict=True)
        yield pd.DataFrame({"set": where, "file": files, "probability": chances.ravel(), "outlier": outlier.ravel()})
