"""One pass over the face images: decoded, cropped to the middle square, scaled to 64x64, into one array on disk.

Images are read straight out of the zip file, or from a folder. Several processes share the work; the array does not
depend on their number.
"""

import logging
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import starmap
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps
from tqdm import tqdm

from equiset.data.download import is_web_page
from equiset.data.image_files import is_image, open_image
from equiset.errors import EquisetError

log = logging.getLogger(__name__)

SIDE = 64
SIZE = (178, 218)
"""Width and height of every image of CelebA."""
_BLOCK = 256  # images
_LARGEST_FILE = 2**24
_LOG_EVERY_S = 30.0
# What an image, or its entry in the zip file, may raise. RuntimeError: an encrypted entry, or a strange compression.
_UNREADABLE = (OSError, ValueError, SyntaxError, KeyError, EOFError, RuntimeError)
_UNREADABLE += (zipfile.BadZipFile, zlib.error, Image.DecompressionBombError)


@dataclass(frozen=True)
class Findings:
    """What a pass found about images, by their names."""

    faults: dict[str, str] = field(default_factory=dict)
    """What is wrong with those that could not be read."""
    sizes: dict[str, str] = field(default_factory=dict)
    """The sizes of those that are not as large as CelebA's."""


@dataclass(frozen=True)
class ImageSource:
    """A zip file or a folder of images; each process opens it for itself."""

    path: Path

    def names(self) -> list[str]:
        """Return the names of all images, whatever folder of the zip file they are in."""
        if self.path.is_dir():
            found = [path.name for path in self.path.iterdir() if is_image(path.name)]
        else:
            with _open_zip(self.path) as archive:
                found = list(_entries(archive))
        if not found:
            raise EquisetError(f"{self.path} holds no image; expected files such as 000001.jpg")
        return sorted(found)

    def open(self) -> Callable[[str], bytes]:
        """Return a function that reads images by name."""
        archive = None if self.path.is_dir() else _open_zip(self.path)
        entries = _entries(archive) if archive else {}

        def read(name: str) -> bytes:
            size = entries[name].file_size if archive else (self.path / name).stat().st_size
            if size > _LARGEST_FILE:
                raise ValueError(f"more than {_LARGEST_FILE} bytes")
            return archive.read(entries[name]) if archive else (self.path / name).read_bytes()

        return read


def _open_zip(path: Path) -> zipfile.ZipFile:
    """Open a zip file, or say what it really is."""
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile:
        with path.open("rb") as file:
            page = is_web_page(file.read(512))
        what = "a web page, the quota or login page of a server" if page else "damaged or cut off"
        raise EquisetError(
            f"{path} is {what} and no zip file. Delete it and download it again, later or by hand"
        ) from None


def _entries(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    found: dict[str, zipfile.ZipInfo] = {}
    for entry in archive.infolist():
        folder, _, name = entry.filename.rpartition("/")
        if not is_image(name) or folder.startswith("__MACOSX"):
            continue
        if (other := found.setdefault(name, entry)) is not entry:
            raise EquisetError(f"{archive.filename}: {name} is there twice, as {other.filename} and {entry.filename}")
    return found


def decode(content: bytes, draft: bool = True) -> tuple[np.ndarray, tuple[int, int]]:
    """Return the middle square of an image file, scaled to 64x64 RGB bytes, and the width and height of the whole.

    With `draft`, a JPEG is decoded at half its size where that is still large enough, which takes a third of the time
    and changes a pixel by less than two grey levels on average.
    """
    with open_image(content) as image:
        width, height = image.size
        if draft and min(width, height) >= 2 * SIDE:
            # It takes the smallest scale that is not below the size it is given.
            image.draft("RGB", (-(-width // 2), -(-height // 2)))
        if "exif" in image.info:  # a camera that was held upright notes a quarter turn
            ImageOps.exif_transpose(image, in_place=True)
        side = min(image.size)
        left, top = ((length - side) / 2 for length in image.size)
        colours = image if image.mode == "RGB" else image.convert("RGB")
        small = colours.resize((SIDE, SIDE), Image.Resampling.BILINEAR, (left, top, left + side, top + side))
    return np.asarray(small), (width, height)


def convert(source: ImageSource, names: list[str], path: Path, threads: int = 1, draft: bool = True) -> Findings:
    """Decode the named images into the file of an array of shape (images, 64, 64, 3), and return what was found.

    The rows of images that could not be read are black. For `draft` see `decode`.
    """
    np.lib.format.open_memmap(path, "w+", np.uint8, (len(names), SIDE, SIDE, 3)).flush()
    blocks = [(start, names[start : start + _BLOCK]) for start in range(0, len(names), _BLOCK)]
    found = Findings()
    logged = time.monotonic()
    with tqdm(total=len(names), unit="image", disable=None) as bar:
        for (_, block), part in zip(blocks, _filled(source, path, blocks, threads, draft), strict=True):
            found.faults.update(part.faults)
            found.sizes.update(part.sizes)
            bar.update(len(block))
            if bar.disable and time.monotonic() - logged > _LOG_EVERY_S:  # there is no terminal
                logged = time.monotonic()
                log.info("%d of %d images", bar.n, len(names))
    return found


def _filled(
    source: ImageSource, path: Path, blocks: list[tuple[int, list[str]]], threads: int, draft: bool
) -> Iterator[Findings]:
    if threads == 1 or len(blocks) < 4:
        _begin(source, path, draft)
        yield from starmap(_fill, blocks)
        return
    with ProcessPoolExecutor(threads, get_context("spawn"), _begin, (source, path, draft)) as pool:
        yield from pool.map(_fill, *zip(*blocks, strict=True))


_process: tuple = ()  # what a process keeps open


def _begin(source: ImageSource, path: Path, draft: bool) -> None:
    global _process
    _process = (source.open(), np.load(path, mmap_mode="r+"), draft)


def _fill(start: int, names: list[str]) -> Findings:
    read, images, draft = _process
    found = Findings()
    for row, name in enumerate(names, start):
        try:
            images[row], size = decode(read(name), draft)
            if size != SIZE:
                found.sizes[name] = "{} x {} pixels".format(*size)
        except _UNREADABLE as error:
            found.faults[name] = f"{type(error).__name__}: {error}".replace("\n", " ")[:200]
    images.flush()
    return found
