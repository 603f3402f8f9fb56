"""CelebA, or other images in its layout: where they come from, and the arrays that training reads."""

import logging
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field

from equiset.data.celeba.annotations import PARTS, read_annotations
from equiset.data.celeba.images import SIZE, ImageSource, convert
from equiset.data.download import download
from equiset.data.image_files import is_image
from equiset.data.manifest import (
    RawFiles,
    about,
    make_manifest,
    of_the_paper,
    own_folder,
    paths_in,
    stand_in_advice,
)
from equiset.data.source import Address, SourceSettings, StandIn
from equiset.errors import EquisetError
from equiset.files import digest, digest_json, write_json

log = logging.getLogger(__name__)

IMAGES = 202_599
_DRIVE = "https://drive.usercontent.google.com/download?export=download&confirm=t&id="
_NAMED = 20  # images that are missing, broken or not CelebA's are all counted; so many are named


class RawFile(NamedTuple):
    name: str
    bytes: int
    md5: str
    drive_id: str


FILES = {
    "images": RawFile(
        "img_align_celeba.zip", 1443490838, "00d2c5bc6d35e252742224ab0c1e8fcb", "0B7EVK8r0v71pZjFTYXZWM3FlRnM"
    ),
    "attributes": RawFile(
        "list_attr_celeba.txt", 26721026, "75e246fa4810816ffd6ee81facbd244c", "0B7EVK8r0v71pblRyaVFSWGxPY0U"
    ),
    "identities": RawFile(
        "identity_CelebA.txt", 3424458, "32bd1bd63d3c78cd57e08160ec5ed1e2", "1_ee_0u7vcNLOfNLegJRHmolfH5ICW-XS"
    ),
    "partition": RawFile(
        "list_eval_partition.txt", 2836386, "d32c9cbf5e040fd4025c592c306e6668", "0B7EVK8r0v71pY0NSMzRuSXJEVkk"
    ),
}
# Where CelebA's own folders, torchvision and Kaggle put them.
_FOLDERS = ("", "Img", "Anno", "Eval", "celeba", "celeba/img_align_celeba", "img_align_celeba")


class StandInSize(StandIn):
    """How much of the stand-in to make."""

    train: int = Field(16_000, ge=20)
    """Number of training images."""
    validation: int = Field(2_000, ge=20)
    """Number of validation images."""
    test: int = Field(2_000, ge=20)
    """Number of test images."""


class CelebaSettings(SourceSettings):
    """Where CelebA comes from."""

    name: ClassVar[str] = "celeba"
    holds: ClassVar[str] = "the files"

    folder: str | None = None
    """With `source: folder`, the folder of the three annotation files and of the images: `img_align_celeba.zip`, or a
    folder `img_align_celeba`. It may hold only some of the images: then these are a part of CelebA, and the others are
    named in the store."""
    image_mirrors: list[Address] = Field([_DRIVE + FILES["images"].drive_id])
    """Addresses of the zip file of images, tried in this order."""
    timeout_s: float = Field(60.0, gt=0)
    """Seconds that a server may be silent before it counts as out of reach."""
    attempts: int = Field(5, ge=1)
    """Attempts in a row at one mirror; the files are large."""
    decoding: Literal["draft", "full"] = "draft"
    """`draft` decodes JPEGs at half their size before they are scaled to 64x64: faster, and within two grey levels of
    `full` on average."""
    stand_in: StandInSize = StandInSize()
    """Size and seed of the stand-in."""


SETTINGS = CelebaSettings


def find(folder: Path) -> RawFiles:
    """Find the images and the three annotation files below a folder."""
    places = [folder / name for name in _FOLDERS]
    files = [(role, place / known.name) for place in reversed(places) for role, known in FILES.items()]
    found = {role: [path] for role, path in files if path.is_file()}
    for place in [*(place / "img_align_celeba" for place in places), *places]:
        if place.is_dir() and (images := [path for path in place.iterdir() if is_image(path.name)]):
            found["images"] = sorted(images)
            break
    for role, known in FILES.items():
        if role not in found:
            also = f"also in {', '.join(name for name in _FOLDERS if name)}"
            if role == "images":
                also = "or a folder img_align_celeba with files such as 000001.jpg"
            raise EquisetError(f"datasets.celeba.folder: {folder} lacks {known.name} ({also})")
    return found


def fetch(settings: CelebaSettings, cache: Path) -> dict[str, Any]:
    """Download, find or make the images and the three annotation files, and return their manifest.

    Whether the images of a folder have CelebA's size shows when they are read: `prepare` settles `kind` and `share`.
    """
    if settings.source == "download":
        files, kind = _download(settings, cache), of_the_paper("CelebA", IMAGES, IMAGES, "images")
    elif settings.source == "folder":
        files = find(own_folder(settings))
        names = ImageSource(_images_of(files["images"])).names()
        kind, _ = _recognise({role: paths[0] for role, paths in files.items()}, names, len(names))
    else:
        files = _make_stand_in(settings.stand_in, cache)
        kind = {"kind": "stand-in", "description": "stand-in for CelebA: drawn faces with its forty attributes"}
    return make_manifest(settings, cache, files, **kind)


def prepare(manifest: dict[str, Any], folder: Path, settings: CelebaSettings | None = None, threads: int = 1) -> None:
    """Write `images.npy`, `faces.parquet` (a row for each usable image, with its row there) and `store.json`.

    `absent.txt` names all images that are annotated and not among these, in ranges.
    """
    settings = settings or CelebaSettings()
    store, paths = about(manifest), paths_in(manifest)
    annotated = read_annotations(paths)
    source = ImageSource(_images_of([paths["images"]]))
    names = source.names()
    present = annotated["file"].isin(names)
    missing = annotated["file"][~present].tolist()
    if len(missing) == len(annotated):
        raise EquisetError(
            f"{source.path} holds none of the {len(annotated)} images that {paths['attributes'].name} names, such as "
            f"{missing[0]}"
        )
    if missing:
        some = f"{len(missing)} of {len(annotated)} annotated images are not in {source.path}"
        log.warning("%s (the first: %s); they are left out", some, missing[0])
    faces = annotated[present].reset_index(drop=True)
    folder.mkdir(parents=True, exist_ok=True)
    found = convert(source, faces["file"].tolist(), folder / "images.npy", threads, settings.decoding == "draft")
    for name, fault in list(found.faults.items())[:_NAMED]:
        log.warning("%s in %s cannot be read and is left out: %s", name, source.path, fault)
    faces.insert(0, "row", np.arange(len(faces), dtype=np.int32))
    faces = faces[~faces["file"].isin(list(found.faults))]
    if not len(faces):
        raise EquisetError(f"{source.path}: none of its {present.sum()} images can be read; download them again")
    faces.to_parquet(folder / "faces.parquet", index=False)
    _write_absent(annotated["file"], faces["file"], folder / "absent.txt")
    foreign: dict[str, str] = {}
    if store["kind"] != "stand-in":
        whose, foreign = _recognise(paths, names, len(faces), found.sizes)
        store |= whose
    store |= {
        "foreign": {"count": len(foreign), "first": dict(sorted(foreign.items())[:_NAMED])},
        "attributes": list(faces)[4:],
        "annotated": len(annotated),
        "images": len(faces),
        "parts": {name: int((faces["partition"] == number).sum()) for number, name in enumerate(PARTS)},
        "missing": {"count": len(missing), "first": missing[:_NAMED]},
        "broken": {"count": len(found.faults), "first": dict(sorted(found.faults.items())[:_NAMED])},
        "decoding": settings.decoding,
        "digest": digest_json([digest(folder / name) for name in ("images.npy", "faces.parquet")]),
    }
    write_json(folder / "store.json", store)
    log.info("%s: %d usable, %d missing, %d broken", store["description"], len(faces), len(missing), len(found.faults))


def _images_of(paths: list[Path]) -> Path:
    """Return the zip file or the folder that images are in."""
    return paths[0].parent if is_image(paths[0].name) else paths[0]


def _write_absent(annotated: pd.Series, usable: pd.Series, path: Path) -> None:
    """Write a line for each run of absent images: its first, or its first and its last."""
    rows = np.flatnonzero(~annotated.isin(usable))
    begins = np.flatnonzero(np.diff(rows, prepend=-2) > 1)
    ends = np.append(begins[1:], len(rows)) - 1
    pairs = zip(annotated.iloc[rows[begins]], annotated.iloc[rows[ends]], strict=True) if len(rows) else ()
    lines = [f"{first}\n" if first == last else f"{first} to {last}\n" for first, last in pairs]
    path.write_text("".join(lines), encoding="utf-8")


def _download(settings: CelebaSettings, folder: Path) -> RawFiles:
    for role, known in FILES.items():
        urls = settings.image_mirrors if role == "images" else [_DRIVE + known.drive_id]
        try:
            download(settings, urls, folder / known.name, f"md5:{known.md5}", known.bytes)
        except EquisetError as error:
            raise EquisetError(
                f"{error}. The server may have a daily quota: try again tomorrow, add an address to "
                "datasets.celeba.image_mirrors, or download the four files by hand and set datasets.celeba.source "
                f"to folder. {stand_in_advice(settings)}"
            ) from None
    return {role: [folder / known.name] for role, known in FILES.items()}


def _recognise(
    paths: dict[str, Path], names: Collection[str], usable: int, other_sizes: dict[str, str] | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Say whose images these are, and why files are not CelebA's: these have its names, size and annotations."""
    annotations = {role: known for role, known in FILES.items() if role != "images"}
    foreign = {
        known.name: "not CelebA's annotations"
        for role, known in annotations.items()
        if digest(paths[role], "md5") != known.md5
    }
    own = "own data in the layout of CelebA"
    if not foreign:
        foreign = {name: "no name of CelebA's" for name in names if not _is_official(name)}
        foreign |= {name: f"{size}, not {SIZE[0]} x {SIZE[1]}" for name, size in (other_sizes or {}).items()}
        own = f"own images with CelebA's annotations, {len(foreign):,} of {len(names):,} not CelebA's"
    if foreign:
        first = ", ".join(f"{name} ({reason})" for name, reason in sorted(foreign.items())[:_NAMED])
        count = f"{len(foreign)} file(s) not CelebA's; results are not the paper's"
        log.warning("%s: %s: %s", _images_of([paths["images"]]), count, first)
        return {"kind": "own", "share": 0.0, "description": own}, foreign
    return of_the_paper("CelebA", usable, IMAGES, "images"), {}


def _is_official(name: str) -> bool:
    return re.fullmatch(r"[0-9]{6}\.jpg", name) is not None and 1 <= int(name[:6]) <= IMAGES


def _make_stand_in(size: StandInSize, cache: Path) -> RawFiles:
    # Imported here: a run on real images has no use for scipy.
    from equiset.data.celeba import stand_in

    sizes = (size.train, size.validation, size.test)
    folder = cache / f"celeba-stand-in-{'-'.join(map(str, sizes))}-{size.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    paths = {role: folder / known.name for role, known in FILES.items()}
    log.info("drawing a stand-in of %d images", sum(sizes))
    stand_in.write(paths, sizes, size.seed)
    return {role: [path] for role, path in paths.items()}
