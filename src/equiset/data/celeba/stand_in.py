"""A stand-in for CelebA: drawn faces with its forty attributes, in its files.

Each person has several pictures, which share face, skin and most attributes; nobody is in two parts of the data.
Every picture depends on the seed and its own number alone, so any number of processes draws the same ones.
"""

import io
import os
import zipfile
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd

from equiset.data.celeba.annotations import write_annotations
from equiset.data.celeba.stand_in_attributes import NAMES, draw_attributes
from equiset.data.celeba.stand_in_faces import Person, draw_face
from equiset.files import atomic_path

_PICTURES_PER_PERSON = 20  # about as in CelebA, where most have 1 to 30
_BLOCK = 100
_PEOPLE, _ATTRIBUTES, _PERSON, _PICTURE = range(4)  # keep the streams of random numbers apart


def annotate(sizes: tuple[int, ...], seed: int) -> pd.DataFrame:
    """Make the annotations of a training, a validation and a test part of these sizes."""
    rng = np.random.default_rng([seed, _PEOPLE])
    identities: list[np.ndarray] = []
    first = 1
    for size in sizes:
        # At least one picture each; how many more differs a lot from person to person.
        people = max(1, round(size / _PICTURES_PER_PERSON))
        drawn = rng.choice(people, size=max(size - people, 0), p=rng.dirichlet(np.full(people, 2.0)))
        part = first + np.concatenate([np.arange(people), drawn])[:size]
        identities.append(rng.permutation(part))
        first += people
    identity = np.concatenate(identities)
    attributes = draw_attributes(identity, np.random.default_rng([seed, _ATTRIBUTES]))
    files = [f"{number:06d}.jpg" for number in range(1, len(identity) + 1)]
    columns = {"file": files, "identity": identity, "partition": np.repeat(np.arange(len(sizes)), sizes)}
    return pd.DataFrame(columns | dict(zip(NAMES, attributes.T, strict=True)))


def draw_picture(attributes: np.ndarray, identity: int, number: int, seed: int) -> bytes:
    """Return picture `number`, which shows a person with some attributes, as a JPEG file."""
    has = dict(zip(NAMES, map(bool, attributes), strict=True))
    person = Person.draw(np.random.default_rng([seed, _PERSON, identity]))
    image = draw_face(has, person, np.random.default_rng([seed, _PICTURE, number]))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=90)
    return file.getvalue()


def write(paths: Mapping[str, Path], sizes: tuple[int, ...], seed: int, processes: int | None = None) -> None:
    """Write the zip of images and the three annotation files to `paths`, by role."""
    annotations = annotate(sizes, seed)
    write_annotations(annotations, paths)
    write_images(annotations, paths["images"], seed, processes)


def write_images(annotations: pd.DataFrame, path: Path, seed: int, processes: int | None = None) -> None:
    """Draw the pictures that the annotations describe into a zip file."""
    numbers = np.arange(len(annotations))
    blocks = np.split(numbers, range(_BLOCK, len(numbers), _BLOCK))
    attributes, identity = annotations[list(NAMES)].to_numpy(), annotations["identity"].to_numpy()
    parts = [(attributes[block], identity[block], block) for block in blocks]
    processes = min(processes or os.cpu_count() or 1, 1 + len(numbers) // 1000)
    draw = partial(_draw_block, seed=seed)
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn")) if processes > 1 else nullcontext()
    with atomic_path(path) as partial_path, zipfile.ZipFile(partial_path, "w", zipfile.ZIP_STORED) as archive, pool:
        archive.writestr(zipfile.ZipInfo("img_align_celeba/"), b"")
        blocks = pool.map(draw, parts) if processes > 1 else map(draw, parts)
        for name, content in zip(annotations["file"], chain.from_iterable(blocks), strict=True):
            # ZipInfo carries 1980 as its date, so that equal pictures make an equal file.
            archive.writestr(zipfile.ZipInfo(f"img_align_celeba/{name}"), content)


def _draw_block(part: tuple[np.ndarray, np.ndarray, np.ndarray], seed: int) -> list[bytes]:
    rows = zip(*part, strict=True)
    return [draw_picture(attributes, int(identity), int(number), seed) for attributes, identity, number in rows]
