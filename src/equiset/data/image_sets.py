"""Sets of images as people keep them: a folder is a set."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from equiset.data.celeba.images import ENDINGS
from equiset.errors import EquisetError


def find_sets(source: Path) -> dict[str, list[Path]]:
    """Return the images of each set, by its name: a folder of images is one set, a folder of such folders several."""
    if not source.is_dir():
        raise EquisetError(f"{source}: there is no such folder of images")
    folders = [source, *sorted(path for path in source.iterdir() if path.is_dir())]
    found = {folder.name: _images(folder) for folder in folders}
    found = {name: images for name, images in found.items() if images}
    if not found:
        raise EquisetError(f"{source} holds no image ({', '.join(ENDINGS)}), and no folder of images")
    return found


def _images(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in ENDINGS and not path.name.startswith("."))


def read_images(
    paths: list[Path], read: Callable[[bytes], np.ndarray], bad: Callable[[str], None]
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield name and pixels of those images that can be read; the others are told to `bad`."""
    for path in paths:
        try:
            yield path.name, read(path.read_bytes())
        except Exception as error:  # whatever the bytes make a decoder stumble over
            bad(f"{path} cannot be read: {' '.join(str(error).split())[:200]}")
