"""ModelNet40, or other meshes in its layout: where they come from, and the points that training reads."""

import logging
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from equiset.data.download import download, unpack
from equiset.data.manifest import RawFiles, about, make_manifest, own_folder, paths_in, stand_in_advice
from equiset.data.modelnet40.mesh_files import SUFFIXES, Up
from equiset.data.modelnet40.official import CLASS_SIZES, name_of, recognise, some
from equiset.data.source import Address, SourceSettings, StandIn
from equiset.errors import EquisetError
from equiset.fingerprint import fingerprint

log = logging.getLogger(__name__)

ARCHIVE = "ModelNet40.zip"
ARCHIVE_BYTES = 2_039_180_837
ARCHIVE_CHECKSUM = "sha256:42dc3e656932e387f554e25a4eb2cc0e1a1bd3ab54606e2a9eae444c60e536ac"
MARKER = "stand-in.txt"
"""A file beside the classes of the stand-in, so that they are never taken for the real data. Its first line describes
them."""


class StandInSize(StandIn):
    """How much of the stand-in to make."""

    train: int = Field(889, ge=1)
    """Most training meshes of a class; no class gets more than it has in ModelNet40."""
    test: int = Field(100, ge=1)
    """Most test meshes of a class."""


class ModelNetSettings(SourceSettings):
    """Where the meshes come from, and how points are drawn from them."""

    name: ClassVar[str] = "modelnet40"
    holds: ClassVar[str] = "the classes"

    folder: str | None = None
    """With `source: folder`, a folder with meshes in `<class>/train/` and `<class>/test/`, whatever the classes: files
    of the formats OFF, PLY, OBJ, STL, GLB and glTF, also mixed."""
    mirrors: list[Address] = Field(["https://modelnet.cs.princeton.edu/ModelNet40.zip"])
    """Addresses of the archive, tried in this order."""
    attempts: int = Field(5, ge=1)
    """Attempts in a row at one mirror; the files are large."""
    pool: int = Field(10_000, ge=1, le=1_000_000)
    """Points that are drawn from each training mesh once; the particles of every epoch are some of them."""
    test_pool: int = Field(15_000, ge=1, le=1_000_000)
    """The same for test meshes: enough for all draws of test particles, so that no two draws share a point."""
    sampling: Literal["area", "poisson-disk"] = "area"
    """`area`: every point of the surface is equally likely; `poisson-disk`: points keep a distance (slow)."""
    up: Up = "z"
    """With `source: folder`, the axis that points up in your files. With `y` all of them are turned when they are read,
    so that z points up everywhere else, as in ModelNet40."""
    seed: int = Field(0, ge=0)
    """Seed of the points."""
    on_bad_mesh: Literal["stop", "skip"] = "stop"
    """What to do about a mesh that cannot be used: stop with its name, or leave it out and count it."""
    stand_in: StandInSize = StandInSize()
    """Size and seed of the stand-in."""

    @model_validator(mode="after")
    def _turns_own_meshes_only(self) -> "ModelNetSettings":
        if self.up != "z" and self.source == "download":
            raise ValueError("up is 'y', but source is 'download': ModelNet40 has z up. Remove datasets.modelnet40.up")
        return self


SETTINGS = ModelNetSettings


def find(folder: Path) -> RawFiles:
    """Find the meshes in `<class>/train/` and `<class>/test/`, and the file that marks a stand-in."""
    where = f"datasets.modelnet40: {folder}"
    found: dict[str, Path] = {}
    others, misplaced = [], []
    for path in sorted(folder.rglob("*")):
        relative = PurePosixPath(path.relative_to(folder).as_posix())
        if any(part.startswith((".", "__MACOSX")) for part in relative.parts) or not path.is_file():
            continue
        if path.suffix.lower() not in SUFFIXES:
            others.append(str(relative))
        elif len(relative.parts) != 3 or relative.parts[1] not in ("train", "test"):
            misplaced.append(str(relative))
        # What decides a mesh's points is its name without the format, so that must be its own.
        elif (other := found.setdefault(name_of(str(relative)), path)) != path:
            raise EquisetError(f"{where}: {other.name} and {relative} have the same name; remove or rename one of them")
    if misplaced:
        raise EquisetError(
            f"{where}: {some(misplaced)}: not in <class>/train/ or <class>/test/, where meshes are looked for. Move "
            f"these {len(misplaced)} files there, or out of the folder"
        )
    if not found:
        raise EquisetError(f"{where} holds no meshes; expected <class>/train/*.off (.ply, ...) and <class>/test/*.off")
    classes = {split: {name.split("/")[0] for name in found if f"/{split}/" in name} for split in ("train", "test")}
    if lonely := sorted(classes["train"] ^ classes["test"]):
        lacking = "train" if lonely[0] in classes["test"] else "test"
        raise EquisetError(f"{where}: the class {lonely[0]!r} has no meshes in {lonely[0]}/{lacking}")
    if len(classes["train"]) < 2:
        raise EquisetError(f"{where} holds one class only; there is nothing to tell apart")
    if others := [name for name in others if name != MARKER]:
        kinds = ", ".join(suffix[1:].upper() for suffix in SUFFIXES)
        log.warning("%s: %d files are not read (%s); meshes are files of %s", folder, len(others), some(others), kinds)
    marker = folder / MARKER
    meshes = [found[name] for name in sorted(found, key=lambda name: name.split("/"))]
    return {"meshes": meshes, **({"marker": [marker]} if marker.is_file() else {})}


def fetch(settings: ModelNetSettings, cache: Path) -> dict[str, Any]:
    """Download, find or make the meshes, and return their manifest."""
    if settings.source == "download":
        root = _download(settings, cache)
    elif settings.source == "folder":
        root = own_folder(settings)
    else:
        root = _make_stand_in(settings.stand_in, cache)
    files = find(root)
    if "marker" in files:
        kind = {"kind": "stand-in", "share": 0.0, "description": _first_line(root / MARKER)}
    else:  # by their names; `prepare` settles it when it has read them
        kind = recognise({name_of(str(path.relative_to(root))): None for path in files["meshes"]}).about
    return make_manifest(settings, cache, files, **kind)


def prepare(manifest: dict[str, Any], folder: Path, settings: ModelNetSettings, threads: int = 1) -> None:
    """Draw the points of every mesh: `pool.f32`, `meshes.parquet` and `store.json` in `folder`."""
    from equiset.data.modelnet40.meshes import write_store  # pyarrow and pandas, which nobody needs to read a config

    root = paths_in(manifest)["meshes"]
    meshes = [str(path.relative_to(root)) for path in find(root)["meshes"]]
    write_store(root, meshes, folder, about(manifest), settings, threads)


def _first_line(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return lines[0] if lines and lines[0].strip() else "stand-in for ModelNet40"


def _download(settings: ModelNetSettings, cache: Path) -> Path:
    archive, folder = cache / ARCHIVE, cache / "ModelNet40"
    # The unpacked folder appears only when it is complete, so that it may stand for the archive.
    if not folder.is_dir():
        try:
            download(settings, settings.mirrors, archive, ARCHIVE_CHECKSUM, ARCHIVE_BYTES)
        except EquisetError as error:
            raise EquisetError(f"{error}. {stand_in_advice(settings)}") from None
        unpack(archive, folder, wanted=lambda name: name.lower().endswith(".off"))
    return folder / "ModelNet40" if (folder / "ModelNet40").is_dir() else folder


def _make_stand_in(size: StandInSize, cache: Path) -> Path:
    from equiset.data.modelnet40 import stand_in

    code = fingerprint("data/modelnet40/stand_in*")[:8]
    folder = cache / f"modelnet40-stand-in-{size.train}-{size.test}-{size.seed}-{code}"
    if not folder.is_dir():
        sizes = {name: (min(size.train, train), min(size.test, test)) for name, (train, test) in CLASS_SIZES.items()}
        log.info("making a stand-in of %d training and %d test meshes", *map(sum, zip(*sizes.values(), strict=True)))
        stand_in.write(folder, sizes, size.seed)
    return folder
