"""The commands `fetch` and `prepare`: what they write, and how they fail."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from equiset.errors import EquisetError
from equiset.files import read_json
from equiset.stages import fetch, prepare

STAND_IN = json.dumps(
    {"dataset": "mnist", "settings": {"source": "stand-in", "stand_in": {"train": 30, "test": 10, "seed": 0}}}
)


def run(stage: str, *arguments: str | Path) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", f"equiset.stages.{stage}", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def fetched(folder: Path) -> Path:
    manifest = folder / "results" / "manifest.json"
    fetch.main(["--spec", STAND_IN, "--cache", str(folder / "cache"), "--output", str(manifest)])
    return manifest


def test_both_stages(tmp_path):
    manifest, store = fetched(tmp_path), tmp_path / "results" / "store"
    assert read_json(manifest)["source"] == "stand-in"
    (store / "stale").mkdir(parents=True)
    prepare.main(["--spec", STAND_IN, "--manifest", str(manifest), "--output", str(store)])
    assert sorted(path.name for path in store.iterdir()) == ["images.npy", "labels.npy", "store.json"]
    assert len(np.load(store / "images.npy", mmap_mode="r")) == 40
    assert sorted(path.name for path in store.parent.iterdir()) == ["manifest.json", "store"]


def test_fetch_fails_in_one_line(tmp_path):
    spec = json.dumps({"dataset": "mnist", "settings": {"source": "folder", "folder": str(tmp_path / "absent")}})
    done = run("fetch", "--spec", spec, "--cache", tmp_path / "cache", "--output", tmp_path / "manifest.json")
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "ERROR datasets.mnist.folder: there is no folder" in line
    assert list(tmp_path.iterdir()) == []


def test_prepare_fails_in_one_line(tmp_path):
    manifest = fetched(tmp_path)
    damaged = Path(read_json(manifest)["files"]["test_images"]["path"])
    damaged.write_bytes(damaged.read_bytes()[:-1])
    done = run("prepare", "--spec", STAND_IN, "--manifest", manifest, "--output", tmp_path / "results" / "store")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "t10k-images-idx3-ubyte.gz has changed" in line
    assert [path.name for path in manifest.parent.iterdir()] == ["manifest.json"]


def test_stages_import_nothing_heavy():
    code = "import sys, equiset.stages.fetch, equiset.stages.prepare, equiset.data.mnist\n"
    code += "print([name for name in ('torch', 'mlflow', 'equiset.nn', 'sklearn') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("content", [None, "", "{", "[]"])
def test_manifest_that_is_none(tmp_path, content):
    path = tmp_path / "manifest.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(EquisetError, match="manifest"):
        prepare.main(["--spec", STAND_IN, "--manifest", str(path), "--output", str(tmp_path / "store")])
    assert not (tmp_path / "store").exists()


def test_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("in the way")
    taken, manifest = str(tmp_path / "file" / "below"), tmp_path / "manifest.json"
    with pytest.raises(EquisetError, match="the data cannot be stored"):
        fetch.main(["--spec", STAND_IN, "--cache", taken, "--output", str(manifest)])
    assert not manifest.exists()
    manifest = fetched(tmp_path)
    with pytest.raises(EquisetError, match="the arrays cannot be stored"):
        prepare.main(["--spec", STAND_IN, "--manifest", str(manifest), "--output", taken])


@pytest.mark.parametrize("stage", [fetch, prepare])
def test_help_and_usage(stage, capsys):
    with pytest.raises(SystemExit) as caught:
        stage.main(["--help"])
    assert caught.value.code == 0
    assert "--spec" in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        stage.main([])
    assert caught.value.code == 2
