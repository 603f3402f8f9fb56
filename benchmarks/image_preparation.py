"""Face images to arrays: python benchmarks/image_preparation.py

The rival is the plain way: one process, one image after the other with Pillow, decoded in full. Images are drawn faces
in the format of CelebA. Ours takes two processes, so this is wall time on two free cores; beside it, one process.
"""

import importlib
import io
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from instrument import Benchmark, Form, Step, main
from PIL import Image

from equiset.data.celeba.images import SIDE, ImageSource, convert
from equiset.data.celeba.stand_in import annotate, draw_picture

DISTINCT, IMAGES = 100, 12_000  # drawing takes longer than all the rest, so each image serves several times


def make_zip(folder: Path) -> None:
    annotations = annotate((DISTINCT,), seed=0)
    rows = zip(annotations.attributes, annotations.identity, strict=True)
    pictures = [draw_picture(has, int(person), number, 0) for number, (has, person) in enumerate(rows)]
    with zipfile.ZipFile(folder / "images.zip", "w") as archive:
        for number, name in enumerate(names()):
            archive.writestr(f"img_align_celeba/{name}", pictures[number % DISTINCT])


def names() -> list[str]:
    return [f"{number:06d}.jpg" for number in range(1, IMAGES + 1)]


def plain_loop(folder: Path) -> Step:
    def step() -> np.ndarray:
        images = np.empty((IMAGES, SIDE, SIDE, 3), dtype=np.uint8)
        with zipfile.ZipFile(folder / "images.zip") as archive:
            for row, name in enumerate(names()):
                image = Image.open(io.BytesIO(archive.read(f"img_align_celeba/{name}"))).convert("RGB")
                width, height = image.size
                top = (height - width) // 2
                images[row] = image.crop((0, top, width, top + width)).resize((SIDE, SIDE), Image.Resampling.BILINEAR)
        return images

    return step


def ours(processes: int, draft: bool = True) -> Callable[[Path], Step]:
    def prepare(folder: Path) -> Step:
        # Worker processes import the main module again: let it be a small one, and not this program.
        sys.modules["__main__"] = importlib.import_module("equiset.data")
        source = ImageSource(folder / "images.zip")
        place = folder / f"{processes}-{draft}"

        def step() -> None:
            convert(source, names(), place, processes, draft)[0].unlink()

        return step

    return prepare


BENCHMARKS = [
    Benchmark(
        f"image preparation, {IMAGES} faces",
        (
            Form("draft decoding, two processes", ours(2)),
            Form("Pillow, one image after the other", plain_loop),
            Form("draft decoding, one process", ours(1)),
            Form("full decoding, two processes", ours(2, draft=False)),
        ),
        bar=2,
        rounds=3,
        clock="wall",
        warm=False,
        prepare=make_zip,
        memory=False,
    )
]

if __name__ == "__main__":
    main(BENCHMARKS)
