"""Images in files: opened by name of their format, and folders of them as sets."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image

from equiset.errors import EquisetError

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp")
_FORMATS = ("JPEG", "PNG", "BMP")  # Pillow would hand others to programs such as Ghostscript
_EIGHT_BITS = ("1", "L", "P", "RGB", "CMYK", "YCbCr", "LA", "PA", "RGBA")
_LARGEST_SIDE = 4096


def is_image(name: str) -> bool:
    # macOS leaves files such as `._000001.jpg` that have an image's ending but are not images.
    return name.lower().endswith(ENDINGS) and not name.startswith(".")


@contextmanager
def open_image(content: bytes) -> Iterator[Image.Image]:
    """Open an image; one whose pixels would not become what they look like is refused by a `ValueError`."""
    with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
        if max(image.size) > _LARGEST_SIDE:
            raise ValueError("{} x {} pixels are too many".format(*image.size))
        if image.mode not in _EIGHT_BITS:
            raise ValueError(f"its pixels are of the kind {image.mode}; save it with 8 bits for each colour")
        if image.has_transparency_data and image.convert("RGBA").getextrema()[3][0] < 255:
            raise ValueError("some of its pixels are transparent; save it with a background")
        yield image


def find_sets(source: Path) -> dict[str, list[Path]]:
    """Return the images of each set, by its name: a folder of images is one set, a folder of such folders several."""
    if not source.is_dir():
        raise EquisetError(f"{source}: there is no such folder of images")
    folders = [source, *sorted(path for path in source.iterdir() if path.is_dir() and path.name[0] != ".")]
    found = {folder.name: sorted(path for path in folder.iterdir() if is_image(path.name)) for folder in folders}
    if deeper := next((path for folder in folders[1:] for path in folder.glob("*/*") if is_image(path.name)), None):
        raise EquisetError(f"{deeper} is too deep: images are looked for in {source} and in the folders in it")
    found = {name: images for name, images in found.items() if images}
    if not found:
        raise EquisetError(f"{source} holds no image ({', '.join(ENDINGS)}), and no folder of images")
    return found


def read_images(
    paths: list[Path], read: Callable[[bytes], np.ndarray], bad: Callable[[str], None]
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield name and pixels of those images that can be read; the others are reported to `bad`."""
    for path in paths:
        try:
            yield path.name, read(path.read_bytes())
        except Exception as error:  # whatever the bytes make a decoder stumble over
            bad(f"{path} cannot be read: {' '.join(str(error).split())[:200]}")
