"""Sums of digits that somebody brings."""

import io
import logging
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image
from torch import Tensor

from equiset.data.image_sets import find_sets, read_images
from equiset.data.mnist.idx import read_idx
from equiset.errors import EquisetError
from equiset.experiments.mnist_sums.networks import SIDE
from equiset.experiments.mnist_sums.settings import MnistVariant
from equiset.experiments.mnist_sums.task import mean_and_sd
from equiset.experiments.mnist_sums.task import preprocess as preprocess_pixels
from equiset.files import read_json
from equiset.training.load_run import Bad, Tables, Trained, alike, checked_pixels, mean_over_runs

log = logging.getLogger(__name__)

_AT_ONCE = 256  # sets, as in an evaluation


def preprocessing(settings: MnistVariant, sets: dict[str, Any], store: Path | None) -> Callable[[np.ndarray], Tensor]:
    members = sets["members"] if settings.model in ("I", "II") else None
    what = f"digits (sets, {members or 'members'}, {SIDE}, {SIDE})"

    @cache
    def scale() -> tuple[float, float]:
        if settings.pixels == "unit":
            return 0.0, 255.0
        if store is None:
            raise EquisetError(
                "this network sees standardised pixels. Mean and deviation are those of its training images, and the "
                "prepared data are not beside the run: leave the run where the workflow made it"
            )
        training = read_json(store / "store.json")["train"] - sets.get("holdout", 0)
        return mean_and_sd(np.load(store / "images.npy", mmap_mode="r")[:training])

    def preprocess(images: np.ndarray) -> Tensor:
        """Take values from 0 to 255 (sets, members, 28, 28): white digits on black."""
        return preprocess_pixels(checked_pixels(images, what, members, SIDE, SIDE), *scale())

    return preprocess


def predict(runs: list[Trained], source: Path, bad: Bad) -> Tables:
    """Return the number of sets and, block by block, their sums.

    A folder of images is one set, a folder of such folders several. An IDX file holds sets of as many images as the
    network has learnt from, one after the other.
    """
    members = runs[0].sets["members"]
    if source.is_file():
        images = read_idx(source)
        if images.shape[1:] != (SIDE, SIDE) or len(images) % members:
            raise EquisetError(
                f"{source} holds {' x '.join(map(str, images.shape))} bytes, not sets of {members} images"
            )
        sets = images.reshape(-1, members, SIDE, SIDE)
        return len(sets), _sums(runs, ((str(number), one) for number, one in enumerate(sets)))
    found = find_sets(source)
    return len(found), _sums(runs, _read_sets(runs[0], found, bad))


def _read_sets(run: Trained, found: dict[str, list[Path]], bad: Bad) -> Iterator[tuple[str, np.ndarray]]:
    members = run.sets["members"]
    for name, paths in found.items():
        images = [image for _, image in read_images(paths, _read, bad)]
        if len(images) < len(paths):
            continue  # a sum that lacks a digit is none
        if len(images) != members and run.settings.model in ("I", "II"):
            bad(f"{paths[0].parent} holds {len(images)} images; this network takes {members}")
            continue
        if len(images) > members:
            log.warning("%s: %d digits, and the network knows no sum above %d", name, len(images), 9 * members)
        yield name, np.stack(images)


def _read(content: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(content)) as image:
        if image.size != (SIDE, SIDE):
            raise ValueError("{} x {} pixels, not {} x {}".format(*image.size, SIDE, SIDE))
        return np.asarray(image.convert("L"))


def _sums(runs: list[Trained], sets: Iterator[tuple[str, np.ndarray]]) -> Iterator[pd.DataFrame]:
    for names, images in alike(sets, _AT_ONCE):
        chances = mean_over_runs(runs, np.stack(images), chances=lambda logits: logits.softmax(1))
        probability, predicted = chances.max(1)
        yield pd.DataFrame({"set": names, "sum": predicted.numpy(), "probability": probability.numpy()})
