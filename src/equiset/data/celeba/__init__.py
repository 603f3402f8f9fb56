"""CelebA, or other images in its layout: where they come from, and the arrays that training reads."""

import logging
import re
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pandas as pd
import PIL
from pydantic import Field

from equiset.data.celeba.annotations import PARTS, ROLES, Annotations, read_annotations
from equiset.data.celeba.images import ENDINGS, SIZE, ImageSource, convert
from equiset.data.download import download, limits
from equiset.data.inventory import contents
from equiset.data.manifest import checked, make_manifest, of_the_paper, own_folder, read_manifest, stand_in_advice
from equiset.data.manifest import identify as identify_file
from equiset.data.source import Address, SourceSettings, StandIn
from equiset.errors import EquisetError
from equiset.files import digest, digest_json, write_json

log = logging.getLogger(__name__)

IMAGES = 202_599
_DRIVE = "https://drive.usercontent.google.com/download?export=download&confirm=t&id="
_NAMED = 20  # images that are missing, broken or not CelebA's are all counted; so many are named
_FORMAT = 2  # of the store: a change makes earlier unfinished passes useless


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
    preparing: ClassVar[frozenset[str]] = frozenset({"decoding"})
    endings: ClassVar[tuple[str, ...]] = (*ENDINGS, ".txt", ".zip")
    depth: ClassVar[int] = 4  # celeba/img_align_celeba/img_align_celeba/

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


def fetch(settings: CelebaSettings, cache: Path) -> dict[str, Any]:
    """Bring, find or make the images and the three annotation files, and return the manifest that names them.

    Whether the images of a folder have CelebA's size shows when they are read: `prepare` settles `kind` and `share`.
    """
    if settings.source == "download":
        paths, about = _download(settings, cache), of_the_paper("CelebA", IMAGES, IMAGES, "images")
    elif settings.source == "folder":
        paths = _find(own_folder(settings))
        names = ImageSource(paths["images"]).list()
        about, _ = _recognise(paths, names, len(names))
    else:
        paths = _make_stand_in(settings.stand_in, cache)
        about = {"kind": "stand-in", "description": "stand-in for CelebA: drawn faces with its forty attributes"}
    manifest = make_manifest(settings, paths, **about, identify=lambda path: _identify(path, cache))
    # Beside the downloads, so that a pass over the images that was interrupted is found again.
    return manifest | {"work": str((cache / "unfinished").absolute())}


def prepare(manifest: dict[str, Any], folder: Path, settings: CelebaSettings | None = None, threads: int = 1) -> None:
    """Write `images.npy`, `faces.parquet` (a row for each usable image, with its row there) and `store.json`.

    `absent.txt` names all images that are annotated and not among these, in ranges.
    """
    settings = settings or CelebaSettings()
    with read_manifest(manifest, "celeba"):
        work = Path(manifest["work"])
    about, paths = checked(manifest, "celeba", FILES, lambda path: _identify(path, work.parent))
    annotations = read_annotations(paths)
    source = ImageSource(paths["images"])
    sizes = source.list()
    present = np.flatnonzero(np.isin(annotations.files, list(sizes)))
    if not len(present):
        raise EquisetError(
            f"{paths['images']} holds none of the {len(annotations.files)} images that {paths['attributes'].name} "
            f"names, such as {annotations.files[0]}"
        )
    missing = np.setdiff1d(np.arange(len(annotations.files)), present)
    if len(missing):
        some = f"{len(missing)} of {len(annotations.files)} annotated images are not in {paths['images']}"
        log.warning("%s (the first: %s); they are left out", some, annotations.files[missing[0]])
    here = annotations.take(present)
    key = [_FORMAT, PIL.__version__, settings.decoding, manifest["files"]["images"]["sha256"], here.files.tolist()]
    task = work / digest_json(key)[:32]
    images, found = convert(source, here.files.tolist(), task, threads, settings.decoding == "draft")
    faults = found.faults
    for name, fault in list(faults.items())[:_NAMED]:
        log.warning("%s in %s cannot be read and is left out: %s", name, paths["images"], fault)
    usable = np.flatnonzero(~np.isin(here.files, list(faults)))
    if not len(usable):
        raise EquisetError(f"{paths['images']}: none of its {len(here.files)} images can be read; fetch it again")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.move(images, folder / "images.npy")
    shutil.rmtree(task)
    _write_faces(here.take(usable), usable, folder / "faces.parquet")
    counts = np.bincount(here.partition[usable], minlength=len(PARTS))
    _write_absent(annotations.files, here.files[usable], folder / "absent.txt")
    foreign: dict[str, str] = {}
    if about["kind"] != "stand-in":
        whose, foreign = _recognise(paths, sizes, len(usable), found.sizes)
        about |= whose
    store = {
        **about,
        "foreign": {"count": len(foreign), "first": dict(sorted(foreign.items())[:_NAMED])},
        "attributes": list(annotations.names),
        "annotated": len(annotations.files),
        "images": len(usable),
        "parts": dict(zip(PARTS, counts.tolist(), strict=True)),
        "missing": {"count": len(missing), "first": annotations.files[missing[:_NAMED]].tolist()},
        "broken": {"count": len(faults), "first": dict(sorted(faults.items())[:_NAMED])},
        "decoding": settings.decoding,
    }
    store["digest"] = digest_json([digest(folder / name) for name in ("images.npy", "faces.parquet")])
    write_json(folder / "store.json", store)
    log.info("%s: %d usable, %d missing, %d broken", about["description"], len(usable), len(missing), len(faults))


def _write_faces(annotations: Annotations, rows: np.ndarray, path: Path) -> None:
    columns = {
        "row": rows.astype(np.int32),
        "file": annotations.files,
        "identity": annotations.identity,
        "partition": annotations.partition,
        **dict(zip(annotations.names, annotations.attributes.T, strict=True)),
    }
    pd.DataFrame(columns).to_parquet(path, index=False)


def _write_absent(annotated: np.ndarray, usable: np.ndarray, path: Path) -> None:
    """Write a line for each run of absent images: its first, or its first and its last."""
    rows = np.flatnonzero(~np.isin(annotated, usable))
    begins = np.flatnonzero(np.diff(rows, prepend=-2) > 1)
    ends = np.append(begins[1:], len(rows)) - 1
    pairs = zip(annotated[rows[begins]], annotated[rows[ends]], strict=True) if len(rows) else ()
    lines = [f"{first}\n" if first == last else f"{first} to {last}\n" for first, last in pairs]
    path.write_text("".join(lines), encoding="utf-8")


def _download(settings: CelebaSettings, folder: Path) -> dict[str, Path]:
    paths = {role: folder / known.name for role, known in FILES.items()}
    for role, known in FILES.items():
        addresses = settings.image_mirrors if role == "images" else [_DRIVE + known.drive_id]
        sums = {"md5": known.md5}
        try:
            download(known.name, addresses, paths[role], checksums=sums, size=known.bytes, **limits(settings))
        except EquisetError as error:
            raise EquisetError(
                f"{error}. The server may have a daily quota: try again tomorrow, add an address to "
                "datasets.celeba.image_mirrors, or download the four files by hand and set datasets.celeba.source "
                f"to folder. {stand_in_advice(settings)}"
            ) from None
    return paths


def _find(folder: Path) -> dict[str, Path]:
    """Find the images and the three annotation files below a folder."""
    places = [folder / name for name in _FOLDERS]
    files = [(role, place / known.name) for place in reversed(places) for role, known in FILES.items()]
    paths = {role: path for role, path in files if path.is_file()}
    folders = [place / "img_align_celeba" for place in places] + places
    if images := next((path for path in folders if path.is_dir() and any(path.glob("*.jpg"))), None):
        paths["images"] = images
    for role, known in FILES.items():
        if role not in paths:
            also = f"also in {', '.join(name for name in _FOLDERS if name)}"
            if role == "images":
                also = "or a folder img_align_celeba with files such as 000001.jpg"
            raise EquisetError(f"datasets.celeba.folder: {folder} lacks {known.name} ({also})")
    return paths


def _recognise(
    paths: dict[str, Path], names: Collection[str], usable: int, other_sizes: dict[str, str] | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Say whose images these are, and why files are not CelebA's: these have its names, size and annotations."""
    foreign = {
        FILES[role].name: "not CelebA's annotations" for role in ROLES if digest(paths[role], "md5") != FILES[role].md5
    }
    own = "own data in the layout of CelebA"
    if not foreign:
        foreign = {name: "no name of CelebA's" for name in names if not _is_official(name)}
        foreign |= {name: f"{size}, not {SIZE[0]} x {SIZE[1]}" for name, size in (other_sizes or {}).items()}
        own = f"own images with CelebA's annotations, {len(foreign):,} of {len(names):,} not CelebA's"
    if foreign:
        first = ", ".join(f"{name} ({reason})" for name, reason in sorted(foreign.items())[:_NAMED])
        count = f"{len(foreign)} file(s) not CelebA's; results are not the paper's"
        log.warning("%s: %s: %s", paths["images"], count, first)
        return {"kind": "own", "share": 0.0, "description": own}, foreign
    return of_the_paper("CelebA", usable, IMAGES, "images"), {}


def _is_official(name: str) -> bool:
    return re.fullmatch(r"[0-9]{6}\.jpg", name) is not None and 1 <= int(name[:6]) <= IMAGES


def _make_stand_in(size: StandInSize, cache: Path) -> dict[str, Path]:
    # Imported here: a run on real images has no use for scipy.
    from equiset.data.celeba import stand_in

    sizes = (size.train, size.validation, size.test)
    folder = cache / f"celeba-stand-in-{'-'.join(map(str, sizes))}-{size.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    paths = {role: folder / known.name for role, known in FILES.items()}
    log.info("drawing a stand-in of %d images", sum(sizes))
    stand_in.write(paths, sizes, size.seed)
    return paths


def _identify(path: Path, cache: Path) -> dict[str, Any]:
    if path.is_dir():
        found = contents(path, ImageSource(path).list(), cache)
        return {"bytes": sum(image.bytes for image in found.values()), "sha256": digest_json(found)}
    return identify_file(path)
