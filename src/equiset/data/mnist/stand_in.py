"""A stand-in for MNIST: handwritten digits that scikit-learn carries, redrawn as 28x28 images in MNIST's files.

The 1797 originals are 8x8. Each image here is one of them, smoothly enlarged, bent a little, with a stroke of
random width, fitted into a 20x20 box and centred by its mass, as MNIST's own images are. No original serves
both the training and the test images.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter1d, zoom
from sklearn.datasets import load_digits

from equiset.data.mnist.idx import write_idx

SIDE, BOX = 28, 20
# The originals are in the order in which they were collected, so blocks of them also keep most writers apart.
TEST_SHARE = 0.2

_CANVAS = 40  # the side on which digits are drawn before they are fitted into the box
_KNOTS = 5  # per axis, of the random bending
_BATCH = 2000
_INK = 0.25  # from this on a pixel belongs to the digit's box


def originals(split: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return positions in scikit-learn's file, 8x8 images in [0, 1] and labels of the originals of a split."""
    digits = load_digits()
    first_test = round(len(digits.target) * (1 - TEST_SHARE))
    block = slice(0, first_test) if split == "train" else slice(first_test, None)
    return (
        np.arange(len(digits.target))[block],
        digits.images[block].astype(np.float32) / 16,
        digits.target[block].astype(np.uint8),
    )


def draw(split: str, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw `count` images (uint8, count x 28 x 28) and their labels for "train" or "test"."""
    rng = np.random.default_rng([seed, ("train", "test").index(split)])
    _, small, labels = originals(split)
    canvases = _enlarge(small)
    # Whole rounds through the originals: each is used equally often, give or take one.
    rounds = -(-count // len(labels))
    chosen = np.concatenate([rng.permutation(len(labels)) for _ in range(rounds)])[:count]
    images = np.empty((count, SIDE, SIDE), dtype=np.uint8)
    for start in range(0, count, _BATCH):
        part = slice(start, start + _BATCH)
        images[part] = _fit(_stroke(_bend(canvases, chosen[part], rng), rng))
    return images, labels[chosen]


def write(paths: Mapping[str, Path], train: int, test: int, seed: int) -> None:
    """Write the four IDX files to `paths`, whose keys are "train_images", "train_labels" and the same for test."""
    for split, count in (("train", train), ("test", test)):
        images, labels = draw(split, count, seed)
        write_idx(paths[f"{split}_images"], images)
        write_idx(paths[f"{split}_labels"], labels)


def _enlarge(small: np.ndarray) -> np.ndarray:
    """Enlarge 8x8 images smoothly and put them in the middle of a canvas with room to turn."""
    # Splines and blur act on each axis alone, so one matrix does both for all images.
    axis = zoom(np.eye(small.shape[1]), (3.5, 1), order=3, mode="grid-constant", grid_mode=True)
    margin = (_CANVAS - len(axis)) // 2
    axis = gaussian_filter1d(np.pad(axis, ((margin, margin), (0, 0))), 0.8, axis=0).astype(np.float32)
    return axis @ small @ axis.T


def _bend(canvases: np.ndarray, chosen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the chosen canvases after a random rotation, shear, stretch and smooth displacement."""
    n = len(chosen)
    angle, shear, log_x, log_y = rng.normal(0, [[0.1], [0.12], [0.07], [0.07]], (4, n)).clip(-0.35, 0.35)
    cos, sin = np.cos(angle), np.sin(angle)
    turn = np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2)
    lean = np.zeros((n, 2, 2))  # rows (y) keep their place, columns (x) lean
    lean[:, 0, 0], lean[:, 1, 1], lean[:, 1, 0] = np.exp(log_y), np.exp(log_x), shear
    matrix = (turn @ lean).astype(np.float32)

    middle = (_CANVAS - 1) / 2
    grid = (np.mgrid[:_CANVAS, :_CANVAS].reshape(2, -1) - middle).astype(np.float32)
    weights = _knot_weights()
    knots = 1.3 * rng.standard_normal((n, 2, _KNOTS, _KNOTS), dtype=np.float32)
    shift = (weights @ knots @ weights.T).reshape(n, 2, -1)
    where = (matrix @ grid + shift + middle).clip(0, _CANVAS - 1.001)

    corner = where.astype(np.int32)
    (fy, fx) = np.moveaxis(where - corner, 1, 0)
    index = chosen[:, None] * _CANVAS**2 + corner[:, 0] * _CANVAS + corner[:, 1]
    flat = canvases.reshape(-1)
    upper = flat[index] * (1 - fx) + flat[index + 1] * fx
    lower = flat[index + _CANVAS] * (1 - fx) + flat[index + _CANVAS + 1] * fx
    return (upper * (1 - fy) + lower * fy).reshape(n, _CANVAS, _CANVAS)


def _knot_weights() -> np.ndarray:
    """Return the canvas x knots matrix of a smooth interpolation: Gaussian bumps that sum to one everywhere."""
    gap = (_CANVAS - 1) / (_KNOTS - 1)
    distance = np.arange(_CANVAS)[:, None] / gap - np.arange(_KNOTS)
    bumps = np.exp(-0.5 * (distance / 0.6) ** 2)
    return (bumps / bumps.sum(axis=1, keepdims=True)).astype(np.float32)


def _stroke(soft: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Turn soft grey blobs into strokes: a steep step at a level of the digit's own ink, at random width."""
    level = rng.uniform(0.38, 0.58, len(soft)).astype(np.float32) * soft.max(axis=(1, 2))
    return 1 / (1 + np.exp((level[:, None, None] - soft) * 14))


def _fit(drawn: np.ndarray) -> np.ndarray:
    """Scale each drawing so that its longer side fills the box, and centre it by mass, to the nearest pixel."""
    ink = drawn > _INK
    rows, columns = _span(ink.any(axis=2)), _span(ink.any(axis=1))
    longer = np.maximum(rows[1] - rows[0], columns[1] - columns[0])
    scale = (longer / BOX).astype(np.float32)  # canvas pixels for each pixel of the image
    mass = drawn.sum(axis=(1, 2))
    position = np.arange(_CANVAS, dtype=np.float32) + 0.5
    pixels = np.arange(SIDE, dtype=np.float32) + 0.5 - SIDE / 2
    matrices = []
    for (low, high), profile in ((rows, drawn.sum(axis=2)), (columns, drawn.sum(axis=1))):
        box_middle = ((low + high) / 2).astype(np.float32)
        offset = np.rint((box_middle - profile @ position / mass) / scale)
        # The box may not leave the image, wherever the mass is.
        room = ((SIDE - (high - low) / scale) / 2).clip(0)
        offset = offset.clip(-np.floor(room), np.floor(room))
        centres = (pixels - offset[:, None]) * scale[:, None] + box_middle[:, None]
        width = np.maximum(scale, 1)[:, None, None]
        matrix = (1 - np.abs(centres[:, :, None] - position) / width).clip(0)
        matrices.append(matrix / matrix.sum(axis=2, keepdims=True).clip(1))
    images = matrices[0] @ drawn @ matrices[1].transpose(0, 2, 1)
    brightest = images.max(axis=(1, 2), keepdims=True)
    return np.rint(images / brightest * 255).astype(np.uint8)


def _span(occupied: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where each row of a boolean array begins and ends to be true."""
    return occupied.argmax(axis=1), occupied.shape[1] - occupied[:, ::-1].argmax(axis=1)
