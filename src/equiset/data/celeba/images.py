"""One pass over the face images: decoded, cropped to the middle square, scaled to 64x64, into one array on disk.

Images are read straight out of the zip file, or from a folder. Blocks of them go to several processes; each one that
is finished is noted in a journal, so that a pass that was interrupted goes on where it ended. The array does not depend
on any of that.
"""

import io
import json
import logging
import os
import shutil
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps
from tqdm import tqdm

from equiset.errors import EquisetError

log = logging.getLogger(__name__)

SIDE = 64
SIZE = (178, 218)
"""Width and height of every image of CelebA."""
_BLOCK = 256  # images
_LARGEST_FILE = 2**24
_LARGEST_SIDE = 4096
_LOG_EVERY_S = 30.0
ENDINGS = (".jpg", ".jpeg", ".png")
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

    def add(self, other: "Findings") -> None:
        self.faults.update(other.faults)
        self.sizes.update(other.sizes)


@dataclass(frozen=True)
class ImageSource:
    """A zip file or a folder of images; each process opens it for itself."""

    path: Path

    def list(self) -> dict[str, int]:
        """Return the name and the size of every image, whatever folder of the zip file it is in."""
        if self.path.is_dir():
            with os.scandir(self.path) as entries:
                found = {entry.name: entry.stat().st_size for entry in entries if _is_image(entry.name)}
        else:
            with open_zip(self.path) as archive:
                found = {name: info.file_size for name, info in _images_in(archive).items()}
        if not found:
            raise EquisetError(f"{self.path} holds no image; expected files such as 000001.jpg")
        return found

    def open(self) -> Callable[[str], bytes]:
        """Return a function that reads images by name."""
        archive = None if self.path.is_dir() else open_zip(self.path)
        entries = _images_in(archive) if archive else {}

        def read(name: str) -> bytes:
            size = entries[name].file_size if archive else (self.path / name).stat().st_size
            if size > _LARGEST_FILE:
                raise ValueError(f"more than {_LARGEST_FILE} bytes")
            return archive.read(entries[name]) if archive else (self.path / name).read_bytes()

        return read


def open_zip(path: Path) -> zipfile.ZipFile:
    """Open a zip file, or say what it is in truth."""
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile:
        with path.open("rb") as file:
            head = file.read(512).lstrip().lower()
        if head.startswith((b"<!doctype html", b"<html")):
            raise EquisetError(
                f"{path} is a web page and not a zip file: the server has sent its quota or login page in place of the "
                "images. Wait a day or take another mirror, delete the file, and download it again"
            ) from None
        raise EquisetError(
            f"{path} is damaged or cut off: it is no zip file. Delete it and download it again"
        ) from None


def _images_in(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    return {
        info.filename.rsplit("/", 1)[-1]: info
        for info in archive.infolist()
        if _is_image(info.filename.rsplit("/", 1)[-1]) and not info.filename.startswith("__MACOSX")
    }


def _is_image(name: str) -> bool:
    # macOS leaves files such as `._000001.jpg` that have an image's extension but are not images.
    return name.endswith(ENDINGS) and not name.startswith(".")


def decode(content: bytes, draft: bool = True) -> tuple[np.ndarray, tuple[int, int]]:
    """Return the middle square of an image file, scaled to 64x64 RGB bytes, and the width and height of the whole.

    With `draft`, a JPEG is decoded at half its size where that is still large enough, which takes a third of the time
    and changes a pixel by less than two grey levels on average.
    """
    with Image.open(io.BytesIO(content)) as image:
        width, height = image.size
        if max(width, height) > _LARGEST_SIDE:
            raise ValueError(f"{width} x {height} pixels")
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


def convert(
    source: ImageSource, names: list[str], work: Path, threads: int = 1, draft: bool = True
) -> tuple[Path, Findings]:
    """Decode the named images into an array of shape (images, 64, 64, 3), and return its file with what was found.

    The rows of images that could not be read are black. `work` is a folder of this very task, where an interrupted pass
    is found again; for `draft` see `decode`.
    """
    work.mkdir(parents=True, exist_ok=True)
    path, journal = work / "images.npy", work / "journal.jsonl"
    blocks = {start: names[start : start + _BLOCK] for start in range(0, len(names), _BLOCK)}
    done = _journal(journal, path, blocks)
    if not done:
        needed = len(names) * SIDE * SIDE * 3
        if shutil.disk_usage(work).free < needed + 2**26:
            raise EquisetError(
                f"{work.absolute()}: {len(names)} images need {needed >> 20} MiB, and there is less space"
            )
        np.lib.format.open_memmap(path, "w+", np.uint8, (len(names), SIDE, SIDE, 3)).flush()
    elif len(done) < len(blocks):
        log.info("going on after %d of %d blocks of images", len(done), len(blocks))
    todo = {start: block for start, block in blocks.items() if start not in done}
    found = Findings()
    for earlier in done.values():
        found.add(earlier)
    finished = sum(len(blocks[start]) for start in done)
    started = logged = time.monotonic()
    with (
        journal.open("a", encoding="utf-8") as notes,
        tqdm(total=len(names), initial=finished, unit="image", disable=None) as bar,
    ):
        for start, block in _run(source, path, todo, threads, draft):
            notes.write(json.dumps({"start": start, **asdict(block)}) + "\n")
            notes.flush()
            found.add(block)
            finished += len(blocks[start])
            bar.update(len(blocks[start]))
            if bar.disable and time.monotonic() - logged > _LOG_EVERY_S:
                logged = time.monotonic()
                log.info("%d of %d images, %.0f s", finished, len(names), logged - started)
    return path, found


def _journal(journal: Path, path: Path, blocks: dict[int, list[str]]) -> dict[int, Findings]:
    """Return the blocks that an earlier pass has finished, with what it found."""
    done = {}
    if journal.is_file() and path.is_file():
        for line in journal.read_text(encoding="utf-8").splitlines():
            try:
                note = json.loads(line)
                if note["start"] in blocks:
                    done[note["start"]] = Findings(note["faults"], note["sizes"])
            except (ValueError, KeyError, TypeError):
                continue  # the last line of a process that was killed
    else:
        journal.unlink(missing_ok=True)
    return done


def _run(
    source: ImageSource, path: Path, todo: dict[int, list[str]], threads: int, draft: bool
) -> Iterator[tuple[int, Findings]]:
    if threads == 1 or len(todo) < 4:
        _begin(source, path, draft)
        for start, names in todo.items():
            yield start, _fill(start, names)
        return
    with ProcessPoolExecutor(threads, get_context("spawn"), _begin, (source, path, draft)) as pool:
        waiting: dict[Future, int] = {}
        ahead = iter(todo.items())
        while True:
            # A bounded queue: names of 200,000 images need not wait in pipes.
            while len(waiting) < 4 * threads and (job := next(ahead, None)):
                waiting[pool.submit(_fill, *job)] = job[0]
            if not waiting:
                return
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                yield waiting.pop(future), future.result()


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
            images[row] = 0
            found.faults[name] = f"{type(error).__name__}: {error}".replace("\n", " ")[:200]
    images.flush()
    return found
