"""ModelNet40, or other meshes in its layout: where they come from, and the points that training reads."""

import logging
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal

from pydantic import Field

from equiset.data.archive import unpack
from equiset.data.download import download, limits
from equiset.data.inventory import contents
from equiset.data.manifest import check_raw, make_manifest, read_manifest, stand_in_advice
from equiset.data.modelnet40.official import CLASS_SIZES, name_of, recognise, some
from equiset.data.source import Address, SourceSettings, StandIn
from equiset.errors import EquisetError
from equiset.files import digest
from equiset.fingerprint import fingerprint

log = logging.getLogger(__name__)

ARCHIVE = "ModelNet40.zip"
ARCHIVE_BYTES = 2_039_180_837
ARCHIVE_SHA256 = "42dc3e656932e387f554e25a4eb2cc0e1a1bd3ab54606e2a9eae444c60e536ac"
UNPACKED_AT_MOST = 20 * 2**30
SUFFIXES = (".off", ".ply", ".obj", ".stl", ".glb", ".gltf")
STAND_IN = "stand-in.txt"
"""A file beside the classes of the stand-in, so that it is never taken for the real data."""


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
    preparing: ClassVar[frozenset[str]] = frozenset({"pool", "test_pool", "sampling", "seed", "on_bad_mesh"})
    endings: ClassVar[tuple[str, ...]] = (*SUFFIXES, STAND_IN)
    depth: ClassVar[int] = 3

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
    seed: int = Field(0, ge=0)
    """Seed of the points."""
    on_bad_mesh: Literal["stop", "skip"] = "stop"
    """What to do about a mesh that cannot be used: stop with its name, or leave it out and count it."""
    stand_in: StandInSize = StandInSize()
    """Size and seed of the stand-in."""


SETTINGS = ModelNetSettings


def fetch(settings: ModelNetSettings, cache: Path) -> dict[str, Any]:
    """Bring, find or make the meshes, and return the manifest that names them."""
    files: dict[str, Any] = {}
    if settings.source == "download":
        root, files = _download(settings, cache)
    elif settings.source == "folder":
        root = Path(settings.folder).expanduser().absolute()
    else:
        root = _make_stand_in(settings.stand_in, cache)
    meshes = _find(root, cache)
    manifest = make_manifest(settings, {}, **_recognise(root, meshes))
    return manifest | {"root": str(root), "meshes": meshes, "files": files}


def prepare(manifest: dict[str, Any], folder: Path, settings: ModelNetSettings, threads: int = 1) -> None:
    """Draw the points of every mesh: `pool.f32`, `meshes.parquet` and `store.json` in `folder`."""
    from equiset.data.modelnet40.meshes import write_store  # pyarrow and pandas, which nobody needs to read a config

    with read_manifest(manifest, "modelnet40") as about:
        root, meshes = Path(manifest["root"]), manifest["meshes"]
        expected = {mesh["file"]: (mesh["bytes"], mesh["sha256"]) for mesh in meshes}
    for name, (size, _) in expected.items():  # their digests when they are read
        check_raw(root / name, lambda path, size=size: path.is_file() and path.stat().st_size == size)
    write_store(root, meshes, folder, about, settings, threads)


def _download(settings: ModelNetSettings, cache: Path) -> tuple[Path, dict[str, Any]]:
    archive, folder = cache / ARCHIVE, cache / "ModelNet40"
    # The unpacked folder appears only when it is complete, so that it may stand for the archive.
    if not folder.is_dir():
        try:
            sums = {"sha256": ARCHIVE_SHA256}
            download(ARCHIVE, settings.mirrors, archive, checksums=sums, size=ARCHIVE_BYTES, **limits(settings))
        except EquisetError as error:
            raise EquisetError(f"{error}. {stand_in_advice(settings)}") from None
        unpack(archive, folder, most_bytes=UNPACKED_AT_MOST, wanted=lambda name: name.lower().endswith(".off"))
    origin = f"{ARCHIVE}, sha256 {ARCHIVE_SHA256}"
    root = folder / "ModelNet40" if (folder / "ModelNet40").is_dir() else folder
    return root, {"archive": {"path": str(archive), "bytes": ARCHIVE_BYTES, "sha256": ARCHIVE_SHA256, "origin": origin}}


def _find(root: Path, cache: Path) -> list[dict[str, Any]]:
    """Return file, class, split, size and digest of all meshes, in the order of their names."""
    where = f"datasets.modelnet40: {root}"
    if not root.is_dir():
        raise EquisetError(f"{where}: there is no such folder")
    found: dict[tuple[str, str, str], PurePosixPath] = {}
    unread = []
    for path in sorted(root.glob("*/*/*")):
        relative = PurePosixPath(path.relative_to(root).as_posix())
        kind, split, _ = relative.parts
        hidden = any(part.startswith((".", "__MACOSX")) for part in relative.parts)
        if hidden or split not in ("train", "test") or not path.is_file():
            continue
        if relative.suffix.lower() not in SUFFIXES:
            unread.append(str(relative))
            continue
        # What decides a mesh's points is its name without the format, so that must be its own.
        if (other := found.setdefault((kind, split, relative.stem), relative)) != relative:
            raise EquisetError(f"{where}: {other} and {relative} have the same name; remove or rename one of them")
    if unread:
        read = ", ".join(suffix[1:].upper() for suffix in SUFFIXES)
        log.warning("%s: %d files are not read (%s); meshes are files of %s", root, len(unread), some(unread), read)
    known = contents(root, map(str, found.values()), cache)
    meshes = [
        {"file": str(file), "class": kind, "split": split, **known[str(file)]._asdict()}
        for (kind, split, _), file in sorted(found.items())
    ]
    classes = {split: {mesh["class"] for mesh in meshes if mesh["split"] == split} for split in ("train", "test")}
    if not meshes:
        raise EquisetError(f"{where} holds no meshes; expected <class>/train/*.off (.ply, ...) and <class>/test/*.off")
    if lonely := sorted(classes["train"] ^ classes["test"]):
        lacking = "train" if lonely[0] in classes["test"] else "test"
        raise EquisetError(f"{where}: the class {lonely[0]!r} has no meshes in {lonely[0]}/{lacking}")
    if len(classes["train"]) < 2:
        raise EquisetError(f"{where} holds one class only; there is nothing to tell apart")
    return meshes


def _recognise(root: Path, meshes: list[dict[str, Any]]) -> dict[str, Any]:
    """Say whose meshes these are by their names; `prepare` settles it when it has read them."""
    if (root / STAND_IN).exists():
        text = (root / STAND_IN).read_text(encoding="utf-8").splitlines()[0]
        return {"kind": "stand-in", "share": 0.0, "description": text}
    return recognise({name_of(mesh["file"]): None for mesh in meshes}).about


def _make_stand_in(size: StandInSize, cache: Path) -> Path:
    from equiset.data.modelnet40 import stand_in

    code = fingerprint("data/modelnet40/stand_in*")[:8]
    folder = cache / f"modelnet40-stand-in-{size.train}-{size.test}-{size.seed}-{code}"
    if not folder.is_dir():
        sizes = {name: (min(size.train, train), min(size.test, test)) for name, (train, test) in CLASS_SIZES.items()}
        log.info("making a stand-in of %d training and %d test meshes", *map(sum, zip(*sizes.values(), strict=True)))
        stand_in.write(folder, sizes, size.seed)
    log.info("the stand-in has the digest %s", digest(folder / STAND_IN)[:12])
    return folder
