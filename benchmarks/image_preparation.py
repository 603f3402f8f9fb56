"""Time the preparation of face images: python benchmarks/image_preparation.py [--images N] [--processes N]

The rival is the plain way: one process, one image after the other with Pillow, decoded in full. Both take turns, so
that whatever else the machine does falls on both alike. Images are drawn faces in the format of CelebA.
"""

import argparse
import io
import statistics
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

from equiset.data.celeba_images import SIDE, ImageSource, convert
from equiset.twins.celeba import annotate, draw_picture

DISTINCT = 300  # drawing takes longer than all the rest, so each image serves several times


def make_zip(path: Path, count: int) -> list[str]:
    annotations = annotate((DISTINCT,), seed=0)
    rows = zip(annotations.attributes, annotations.identity, strict=True)
    pictures = [draw_picture(has, int(person), number, 0) for number, (has, person) in enumerate(rows)]
    names = [f"{number:06d}.jpg" for number in range(1, count + 1)]
    with zipfile.ZipFile(path, "w") as archive:
        for number, name in enumerate(names):
            archive.writestr(f"img_align_celeba/{name}", pictures[number % DISTINCT])
    return names


def plain_loop(path: Path, names: list[str]) -> np.ndarray:
    images = np.empty((len(names), SIDE, SIDE, 3), dtype=np.uint8)
    with zipfile.ZipFile(path) as archive:
        for row, name in enumerate(names):
            image = Image.open(io.BytesIO(archive.read(f"img_align_celeba/{name}"))).convert("RGB")
            width, height = image.size
            top = (height - width) // 2
            images[row] = image.crop((0, top, width, top + width)).resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    return images


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=12_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        names = make_zip(folder / "images.zip", options.images)
        times: dict[str, list[float]] = {}

        def timed(form: str, run):
            start = time.perf_counter()
            result = run()
            times.setdefault(form, []).append(time.perf_counter() - start)
            return result

        differences = {}
        for turn in range(options.repeats):
            plain = timed("one process, decoded in full", lambda: plain_loop(folder / "images.zip", names))
            for draft, processes in ((True, options.processes), (True, 1), (False, options.processes)):
                form = f"equiset, {'draft' if draft else 'full'} decoding, {processes} process(es)"
                work = folder / f"{turn}-{draft}-{processes}"
                source = ImageSource(folder / "images.zip")
                path, _ = timed(form, lambda: convert(source, names, work, processes, draft))  # noqa: B023
                difference = np.abs(np.load(path)[:DISTINCT].astype(int) - plain[:DISTINCT])
                differences[form] = difference.mean()
                path.unlink()
    first = next(iter(times))
    print(f"| {options.images} images | median s | images/s | times faster | mean difference, grey levels |")
    print("|---|---|---|---|---|")
    for form, taken in times.items():
        ratio = statistics.median(plain / own for plain, own in zip(times[first], taken, strict=True))
        median = statistics.median(taken)
        difference = f"{differences[form]:.2f}" if form in differences else "—"
        print(f"| {form} | {median:.2f} | {options.images / median:.0f} | {ratio:.2f} | {difference} |")


if __name__ == "__main__":
    main()
