"""`fetch_dataset` and `prepare_dataset`: what they write, and how they fail."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from equiset.data import fetch_dataset, prepare_dataset
from equiset.errors import EquisetError
from equiset.files import read_json

STAND_IN = {"dataset": "mnist", "settings": {"source": "stand-in", "stand_in": {"train": 30, "test": 10, "seed": 0}}}


def fetched(folder: Path) -> Path:
    manifest = folder / "results" / "manifest.json"
    fetch_dataset(**STAND_IN, cache=folder / "cache", manifest=manifest)
    return manifest


def test_from_a_source_to_arrays(tmp_path):
    manifest, store = fetched(tmp_path), tmp_path / "results" / "store"
    assert read_json(manifest)["source"] == "stand-in"
    (store / "stale").mkdir(parents=True)
    prepare_dataset(**STAND_IN, manifest=manifest, output=store)
    assert sorted(path.name for path in store.iterdir()) == ["images.npy", "labels.npy", "store.json"]
    assert len(np.load(store / "images.npy", mmap_mode="r")) == 40
    assert sorted(path.name for path in store.parent.iterdir()) == ["manifest.json", "store"]


def test_a_folder_that_is_absent_leaves_nothing_behind(tmp_path):
    settings = {"source": "folder", "folder": str(tmp_path / "absent")}
    with pytest.raises(EquisetError, match=r"datasets\.mnist\.folder: there is no folder .*absent"):
        fetch_dataset("mnist", settings, cache=tmp_path / "cache", manifest=tmp_path / "manifest.json")
    assert list(tmp_path.iterdir()) == []


def test_a_raw_file_that_is_damaged_or_gone_is_named_and_no_store_is_left(tmp_path):
    manifest = fetched(tmp_path)
    damaged = Path(read_json(manifest)["files"]["test_images"]["path"])
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(EquisetError, match=r"t10k-images-idx3-ubyte\.gz is cut off"):
        prepare_dataset(**STAND_IN, manifest=manifest, output=tmp_path / "results" / "store")
    damaged.unlink()
    with pytest.raises(EquisetError, match=r"t10k-images-idx3-ubyte\.gz cannot be read: No such file"):
        prepare_dataset(**STAND_IN, manifest=manifest, output=tmp_path / "results" / "store")
    assert [path.name for path in manifest.parent.iterdir()] == ["manifest.json"]


def test_they_import_nothing_heavy():
    code = "import sys, equiset.data, equiset.data.mnist, equiset.data.redmapper\n"
    heavy = ("torch", "mlflow", "equiset.nn", "sklearn", "astropy", "pandas", "pyarrow")
    code += f"print([name for name in {heavy} if name in sys.modules])"
    environment = {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize("content", [None, "", "{"])
def test_a_manifest_that_is_missing_or_damaged(tmp_path, content):
    path = tmp_path / "manifest.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(EquisetError, match="manifest"):
        prepare_dataset(**STAND_IN, manifest=path, output=tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("in the way")
    taken, manifest = tmp_path / "file" / "below", tmp_path / "manifest.json"
    with pytest.raises(EquisetError, match="the data cannot be stored"):
        fetch_dataset(**STAND_IN, cache=taken, manifest=manifest)
    assert not manifest.exists()
    with pytest.raises(EquisetError, match="the data cannot be stored"):
        fetch_dataset(**STAND_IN, cache=tmp_path / "cache", manifest=taken)
    manifest = fetched(tmp_path)
    with pytest.raises(EquisetError, match="the arrays cannot be stored"):
        prepare_dataset(**STAND_IN, manifest=manifest, output=taken)
