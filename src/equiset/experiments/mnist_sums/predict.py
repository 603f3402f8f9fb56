"""Sums of a user's own digits."""

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from torch import Tensor

from equiset.data.image_files import find_sets, open_image, read_images
from equiset.data.mnist.idx import read_idx
from equiset.errors import EquisetError
from equiset.experiments.mnist_sums import task
from equiset.experiments.mnist_sums.networks import SIDE
from equiset.training.load_run import Reject, Tables, Trained, batch_equal_shapes, check_pixels, mean_probabilities

log = logging.getLogger(__name__)

_AT_ONCE = 256  # sets, as in an evaluation


def preprocess(run: Trained, images: np.ndarray) -> Tensor:
    """Take values from 0 to 255 (sets, members, 28, 28): white digits on black."""
    members = run.sets["members"] if run.settings.model in ("I", "II") else None
    pixels = check_pixels(images, f"digits (sets, {members or 'members'}, {SIDE}, {SIDE})", members, SIDE, SIDE)
    return task.preprocess(pixels, *task.pixel_scale(run.settings, run.sets, run.store))


def predict(runs: list[Trained], source: Path, reject: Reject) -> Tables:
    """Return the number of sets and, block by block, their sums.

    A folder of images is one set, a folder of such folders several. An IDX file holds sets of as many images as the
    network was trained on, one after the other.
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
    return len(found), _sums(runs, _read_sets(runs[0], found, reject))


def _read_sets(run: Trained, found: dict[str, list[Path]], reject: Reject) -> Iterator[tuple[str, np.ndarray]]:
    members = run.sets["members"]
    for name, paths in found.items():
        images = [image for _, image in read_images(paths, _read, reject)]
        if len(images) < len(paths):
            continue  # a sum that lacks a digit is none
        if len(images) != members and run.settings.model in ("I", "II"):
            reject(f"{paths[0].parent} holds {len(images)} images; this network takes {members}")
            continue
        if len(images) > members:
            log.warning("%s: %d digits, and the network knows no sum above %d", name, len(images), 9 * members)
        yield name, np.stack(images)


def _read(content: bytes) -> np.ndarray:
    with open_image(content) as image:
        if image.size != (SIDE, SIDE):
            raise ValueError("{} x {} pixels, not {} x {}".format(*image.size, SIDE, SIDE))
        return np.asarray(image.convert("L"))


def _sums(runs: list[Trained], sets: Iterator[tuple[str, np.ndarray]]) -> Iterator[pd.DataFrame]:
    for names, images in batch_equal_shapes(sets, _AT_ONCE):
        probabilities = mean_probabilities(runs, np.stack(images), activation=lambda logits: logits.softmax(1))
        probability, predicted = probabilities.max(1)
        yield pd.DataFrame({"set": names, "sum": predicted.numpy(), "probability": probability.numpy()})
