"""ModelNet40, or other meshes in its layout: where they come from, and the points that training reads."""

import logging
import re
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal

from pydantic import Field

from equiset.data.archive import unpack
from equiset.data.download import download
from equiset.data.source import Address, SourceSettings, Space
from equiset.errors import EquisetError
from equiset.files import digest
from equiset.fingerprint import fingerprint
from equiset.settings import Settings

log = logging.getLogger(__name__)

ARCHIVE = "ModelNet40.zip"
ARCHIVE_BYTES = 2_039_180_837
ARCHIVE_SHA256 = "42dc3e656932e387f554e25a4eb2cc0e1a1bd3ab54606e2a9eae444c60e536ac"
UNPACKED_AT_MOST = 20 * 2**30
TWIN_COMMAND = "snakemake --cores all --config 'datasets={modelnet40: {source: twin}}'"
STAND_IN = "stand-in.txt"
"""A file beside the classes of the stand-in, so that it is never taken for the real data."""

# Meshes of each class for training and test: the official split.
CLASS_SIZES = {
    name: (int(train), int(test))
    for name, train, test in re.findall(
        r"(\w+) (\d+)/(\d+)",
        """
        airplane 626/100, bathtub 106/50, bed 515/100, bench 173/20, bookshelf 572/100, bottle 335/100, bowl 64/20,
        car 197/100, chair 889/100, cone 167/20, cup 79/20, curtain 138/20, desk 200/86, door 109/20, dresser 200/86,
        flower_pot 149/20, glass_box 171/100, guitar 155/100, keyboard 145/20, lamp 124/20, laptop 149/20,
        mantel 284/100, monitor 465/100, night_stand 200/86, person 88/20, piano 231/100, plant 240/100,
        radio 104/20, range_hood 115/100, sink 128/20, sofa 680/100, stairs 124/20, stool 90/20, table 392/100,
        tent 163/20, toilet 344/100, tv_stand 267/100, vase 475/100, wardrobe 87/20, xbox 103/20
        """,
    )
}


class TwinSize(Settings):
    """How much of the stand-in to make."""

    train: int = Field(889, ge=1)
    """Most training meshes of a class; no class gets more than it has in ModelNet40."""
    test: int = Field(100, ge=1)
    """Most test meshes of a class."""
    seed: int = Field(0, ge=0)
    """Seed of all that is random in the meshes."""


class ModelNetSettings(SourceSettings):
    """Where the meshes come from, and how points are drawn from them."""

    name: ClassVar[str] = "modelnet40"
    holds: ClassVar[str] = "the classes"
    preparing: ClassVar[frozenset[str]] = frozenset({"pool", "sampling", "seed"})

    folder: str | None = None
    """With `source: folder`, a folder with `<class>/train/*.off` and `<class>/test/*.off`, whatever the classes."""
    mirrors: list[Address] = Field(["https://modelnet.cs.princeton.edu/ModelNet40.zip"])
    """Addresses of the archive, tried in this order."""
    attempts: int = Field(5, ge=1)
    """Attempts in a row at one mirror; the files are large."""
    pool: int = Field(10_000, ge=1, le=1_000_000)
    """Points that are drawn from each mesh once; training and test take theirs from these."""
    sampling: Literal["area", "poisson-disk"] = "area"
    """`area`: every point of the surface is equally likely; `poisson-disk`: points keep a distance (slow)."""
    seed: int = Field(0, ge=0)
    """Seed of the points."""
    on_bad_mesh: Literal["stop", "skip"] = "stop"
    """What to do about a mesh that cannot be used: stop with its name, or leave it out and count it."""
    twin: TwinSize = TwinSize()
    """Size and seed of the stand-in."""

    def space(self) -> Space:
        sizes = CLASS_SIZES.values()
        if self.source == "twin":
            sizes = [(min(train, self.twin.train), min(test, self.twin.test)) for train, test in sizes]
        meshes = sum(map(sum, sizes))
        # Of meshes as text a zip file makes a fifth; of a folder nothing is copied, and its meshes are not yet counted.
        raw = {"twin": 40_000 * meshes, "folder": 0, "download": 6 * ARCHIVE_BYTES}
        return Space(raw[self.source], meshes * (12 * self.pool + 200))


SETTINGS = ModelNetSettings


def fetch(settings: ModelNetSettings, cache: Path) -> dict[str, Any]:
    """Bring, find or make the meshes, and return the manifest that names them."""
    files: dict[str, Any] = {}
    if settings.source == "download":
        root, files = _download(settings, cache)
    elif settings.source == "folder":
        root = Path(settings.folder).expanduser().absolute()
    else:
        root = _make_twin(settings.twin, cache)
    meshes = _find(root)
    real, description = _recognise(root, meshes)
    if settings.source == "folder" and not real:
        log.warning("%s: these meshes are not ModelNet40's; results on them are not the paper's", root)
    return {
        "dataset": "modelnet40",
        "source": settings.source,
        "kind": "whole" if real else "stand-in" if "stand-in" in description else "own",
        "share": float(real),
        "description": description,
        "root": str(root),
        "meshes": meshes,
        "files": files,
    }


def prepare(manifest: dict[str, Any], folder: Path, settings: ModelNetSettings, threads: int = 1) -> None:
    """Draw the points of every mesh: `pool.f32`, `meshes.parquet` and `store.json` in `folder`."""
    from equiset.data.meshes import write_store  # pyarrow and pandas, which nobody needs to read a config

    remedy = "Delete the manifest and run again, so that the data are fetched anew."
    try:
        if manifest["dataset"] != "modelnet40":
            raise EquisetError(f"the manifest is one of {manifest['dataset']}, not of modelnet40. {remedy}")
        about = {key: manifest[key] for key in ("dataset", "source", "kind", "share", "description")}
        root, meshes = Path(manifest["root"]), manifest["meshes"]
        sizes = {mesh["file"]: mesh["bytes"] for mesh in meshes}
    except (KeyError, TypeError) as error:
        raise EquisetError(f"the manifest is not complete ({error!r}). {remedy}") from None
    for name, size in sizes.items():
        path = root / name
        if not path.is_file():
            raise EquisetError(f"{path}, which the manifest names, is gone. {remedy}")
        if path.stat().st_size != size:
            raise EquisetError(f"{path} has changed since the manifest was written. {remedy}")
    write_store(
        root, meshes, folder, about, settings.pool, settings.seed, settings.sampling, settings.on_bad_mesh, threads
    )


def _download(settings: ModelNetSettings, cache: Path) -> tuple[Path, dict[str, Any]]:
    archive, folder = cache / ARCHIVE, cache / "ModelNet40"
    # The unpacked folder appears only when it is complete, so that it may stand for the archive.
    if not folder.is_dir():
        try:
            download(
                ARCHIVE,
                settings.mirrors,
                archive,
                checksums={"sha256": ARCHIVE_SHA256},
                size=ARCHIVE_BYTES,
                timeout_s=settings.timeout_s,
                attempts=settings.attempts,
            )
        except EquisetError as error:
            raise EquisetError(f"{error}. To run on a stand-in: {TWIN_COMMAND}") from None
        unpack(archive, folder, most_bytes=UNPACKED_AT_MOST, wanted=lambda name: name.lower().endswith(".off"))
    origin = f"{ARCHIVE}, sha256 {ARCHIVE_SHA256}"
    root = folder / "ModelNet40" if (folder / "ModelNet40").is_dir() else folder
    return root, {"archive": {"path": str(archive), "bytes": ARCHIVE_BYTES, "sha256": ARCHIVE_SHA256, "origin": origin}}


def _find(root: Path) -> list[dict[str, Any]]:
    """Return file, class, split and size of all meshes, in the order of their names."""
    where = f"datasets.modelnet40: {root}"
    if not root.is_dir():
        raise EquisetError(f"{where}: there is no such folder")
    meshes = []
    for path in sorted(root.glob("*/*/*"), key=lambda path: path.relative_to(root).as_posix()):
        relative = PurePosixPath(path.relative_to(root).as_posix())
        kind, split, name = relative.parts
        hidden = any(part.startswith((".", "__MACOSX")) for part in relative.parts)
        if hidden or split not in ("train", "test") or not name.lower().endswith(".off") or not path.is_file():
            continue
        meshes.append({"file": str(relative), "class": kind, "split": split, "bytes": path.stat().st_size})
    classes = {split: {mesh["class"] for mesh in meshes if mesh["split"] == split} for split in ("train", "test")}
    if not meshes:
        raise EquisetError(f"{where} holds no meshes; expected <class>/train/*.off and <class>/test/*.off")
    if lonely := sorted(classes["train"] ^ classes["test"]):
        lacking = "train" if lonely[0] in classes["test"] else "test"
        raise EquisetError(f"{where}: the class {lonely[0]!r} has no meshes in {lonely[0]}/{lacking}")
    if len(classes["train"]) < 2:
        raise EquisetError(f"{where} holds one class only; there is nothing to tell apart")
    return meshes


def _recognise(root: Path, meshes: list[dict[str, Any]]) -> tuple[bool, str]:
    """Say whether these are ModelNet40's meshes, by classes and their sizes, and describe them."""
    if (root / STAND_IN).exists():
        return False, (root / STAND_IN).read_text().splitlines()[0]
    sizes: dict[str, list[int]] = {}
    for mesh in meshes:
        sizes.setdefault(mesh["class"], [0, 0])[mesh["split"] == "test"] += 1
    if {name: tuple(size) for name, size in sizes.items()} == CLASS_SIZES:
        return True, "ModelNet40"
    return False, f"user meshes in the layout of ModelNet40, {len(sizes)} classes"


def _make_twin(size: TwinSize, cache: Path) -> Path:
    from equiset.twins import modelnet40 as twin

    code = fingerprint(twin.__name__, without="equiset.data")[:8]
    folder = cache / f"modelnet40-twin-{size.train}-{size.test}-{size.seed}-{code}"
    if not folder.is_dir():
        sizes = {name: (min(size.train, train), min(size.test, test)) for name, (train, test) in CLASS_SIZES.items()}
        log.info("making a stand-in of %d training and %d test meshes", *map(sum, zip(*sizes.values(), strict=True)))
        twin.write(folder, sizes, size.seed)
    log.info("the stand-in has the digest %s", digest(folder / STAND_IN)[:12])
    return folder
