"""The outliers among a user's own faces."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from torch import Tensor

from equiset.data.celeba.images import SIDE, decode
from equiset.data.image_files import find_sets, read_images
from equiset.experiments.outlier_faces import task
from equiset.files import read_json
from equiset.training.load_run import Reject, Tables, Trained, batch_equal_shapes, check_pixels, mean_probabilities


def preprocess(run: Trained, pixels: np.ndarray) -> Tensor:
    """Take values from 0 to 255 (sets, members, 64, 64, 3), as `equiset.data.celeba.images.decode` makes them."""
    members = run.sets["members"] if run.settings.model == "set-pooling" else None
    expected = f"faces (sets, {members or 'members'}, {SIDE}, {SIDE}, 3)"
    return task.preprocess(check_pixels(pixels, expected, members, SIDE, SIDE, 3))


def predict(runs: list[Trained], source: Path, reject: Reject) -> Tables:
    """Return the number of faces and, block by block, how likely each is the one that does not belong.

    A folder of images is one set, a folder of such folders several.
    """
    found = find_sets(source)
    return sum(map(len, found.values())), _outliers(runs, _read_sets(runs[0], found, reject))


def _read_sets(
    run: Trained, found: dict[str, list[Path]], reject: Reject
) -> Iterator[tuple[tuple[str, list[str]], np.ndarray]]:
    draft = run.store is None or read_json(run.store / "store.json")["decoding"] == "draft"
    members = run.sets["members"]
    for name, paths in found.items():
        faces = list(read_images(paths, lambda content: decode(content, draft)[0], reject))
        if len(faces) < members or (len(faces) > members and run.settings.model == "set-pooling"):
            fewest = "exactly" if run.settings.model == "set-pooling" else "at least"
            reject(f"{paths[0].parent} holds {len(faces)} faces; this network takes {fewest} {members}")
            continue
        files, pixels = zip(*faces, strict=True)
        yield (name, files), np.stack(pixels)


def _outliers(runs: list[Trained], sets: Iterator[tuple[tuple[str, list[str]], np.ndarray]]) -> Iterator[pd.DataFrame]:
    one = runs[0].settings.output == "softmax"
    for names, pixels in batch_equal_shapes(sets, task.EVALUATED):
        activation = lambda logits: logits.softmax(1) if one else logits.sigmoid()  # noqa: E731
        found = mean_probabilities(runs, np.stack(pixels), activation=activation).numpy()
        outlier = found == found.max(1, keepdims=True) if one else found > 0.5
        where, files = zip(*((name, file) for name, files in names for file in files), strict=True)
        yield pd.DataFrame({"set": where, "file": files, "probability": found.ravel(), "outlier": outlier.ravel()})
