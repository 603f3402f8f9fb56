"""A disk that is too small is named before anything starts; one that fills up stops a job in one line."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from safetensors import SafetensorError

from equiset import space
from equiset.config.resolve import SCALES, resolve
from equiset.data import DATASETS
from equiset.errors import EquisetError
from equiset.experiments import EXPERIMENTS
from equiset.files import atomic_path, canonical_json
from tests.workflow.conftest import ROOT, Project

SMALL = {"train": 200, "validation": 20, "test": 20}  # 3 MB
PARTS = [*DATASETS, *EXPERIMENTS]
RAW = yaml.safe_load((ROOT / "config.yaml").read_text())


@pytest.fixture
def small_disk(tmp_path):
    """A file system in memory, 1 MB at first, and a way to enlarge it."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(*options):
        done = subprocess.run(["mount", *options, str(folder)], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")

    mount("-t", "tmpfs", "-o", "size=1m", "tmpfs")
    try:
        yield folder, lambda size: mount("-o", f"remount,size={size}")
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.slow_fault
def test_a_run_starts_only_with_enough_room_and_goes_on_when_it_is_made(small_disk):
    folder, enlarge = small_disk
    project = Project(folder / "project")
    target = "results/smoke/data/redmapper/store"
    done = project.snakemake(target)
    assert done.returncode == 1
    assert "this run at scale 'smoke' still needs about" in done.stderr
    assert "redmapper, prepared" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (project.folder / "results").exists()
    enlarge("60m")
    done = project.snakemake(target)
    assert done.returncode == 0, done.stderr
    assert (project.folder / target).is_dir()


def test_a_disk_that_fills_up_stops_the_job_in_one_line(small_disk):
    folder, enlarge = small_disk
    spec = canonical_json({"dataset": "celeba", "settings": {"source": "stand-in", "stand_in": SMALL}})
    command = [sys.executable, "-m", "equiset.stages.fetch", "--spec", spec, "--cache", str(folder / "cache")]
    command += ["--output", str(folder / "manifest.json")]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 1
    assert "no space is left" in done.stderr.lower()
    assert "Traceback" not in done.stderr
    assert not (folder / "manifest.json").exists()
    assert not list(folder.rglob("*.partial"))
    enlarge("200m")
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def test_checkpoints_on_a_full_disk(small_disk):
    """torch reports a full disk as an internal error of its own; the checkpoint before stays."""
    path = small_disk[0] / "checkpoint.pt"
    with atomic_path(path) as partial:
        torch.save({"a": torch.zeros(10)}, partial)
    with (
        pytest.raises(EquisetError, match=r"no space is left to write .*checkpoint\.pt\. Make room"),
        atomic_path(path) as partial,
    ):
        torch.save({"a": torch.zeros(2**20)}, partial)
    assert torch.load(path, weights_only=True)["a"].shape == (10,)
    assert [file.name for file in path.parent.iterdir()] == ["checkpoint.pt"]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        SafetensorError("I/O error: No space left on device (os error 28)"),
    ],
)
def test_every_library_says_it_in_its_own_words(tmp_path, error):
    with pytest.raises(EquisetError, match="no space is left"), atomic_path(tmp_path / "file"):
        raise error
    with pytest.raises(ValueError, match="other"), atomic_path(tmp_path / "file"):
        raise ValueError("other")


@pytest.mark.parametrize("scale", SCALES)
def test_every_scale_has_an_estimate(scale, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = resolve(RAW, scale)
    needs = space.needs_of(config, Path("results") / scale, PARTS)
    assert {need.what.split(",")[0] for need in needs} == {*PARTS, "logs and MLflow"}
    assert all(need.needed > 0 for need in needs)
    least, most = {"smoke": (3e7, 2e8), "demo": (3e8, 2e9), "paper": (1e10, 5e10)}[scale]
    assert least < sum(need.needed for need in needs) < most


def test_the_command_line_and_what_is_there_count(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def needed(**datasets):
        config = resolve(RAW, "paper", {"datasets": datasets})
        return {need.what: need.needed for need in space.needs_of(config, Path("results/paper"), PARTS)}

    stand_in = needed(
        modelnet40={"source": "stand-in", "stand_in": {"train": 2, "test": 1}, "pool": 100, "test_pool": 300}
    )
    assert stand_in["modelnet40, raw"] < 1e7 < 1e10 < needed()["modelnet40, raw"]
    assert stand_in["modelnet40, prepared"] == 80 * 12 * 100 + 40 * 12 * 300 + 120 * 200
    assert needed(celeba={"source": "folder", "folder": "mine"})["celeba, raw"] == 0

    config = resolve(RAW, "demo")
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10_000_000))
    with pytest.raises(EquisetError, match=r"10 MB free.*scale 'demo' still needs about \d+ MB.*mnist, prepared"):
        space.check_space(config, Path("results/demo"), ["mnist"])
    for folder in ("data/mnist", "results/demo/data/mnist", "results/demo/logs"):
        Path(folder).mkdir(parents=True)
        with open(f"{folder}/file", "wb") as file:
            file.truncate(100_000_000)
    space.check_space(config, Path("results/demo"), ["mnist"])
