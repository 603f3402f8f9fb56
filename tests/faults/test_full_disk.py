"""A disk that fills up stops a job in one line, and the same command goes on when there is room."""

import errno
import json
import os
import subprocess
import sys

import pytest
import torch
import yaml
from safetensors import SafetensorError

from equiset.errors import EquisetError
from equiset.files import atomic_path
from tests.workflow.conftest import ROOT, Project

SMALL = {"train": 200, "validation": 20, "test": 20}  # 3 MB
RAW = yaml.safe_load((ROOT / "config.yaml").read_text())
FETCH = """
import json, sys
from pathlib import Path
from equiset.data import fetch_dataset
from equiset.errors import one_line_errors

with one_line_errors():
    fetch_dataset("celeba", json.loads(sys.argv[1]), *map(Path, sys.argv[2:]))
"""


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
def test_a_run_that_fills_the_disk_says_so_and_goes_on_when_there_is_room(small_disk):
    folder, enlarge = small_disk
    enlarge("2m")
    project = Project(folder / "project")
    target = "results/smoke/data/redmapper/store/store.json"
    (folder / "ballast").write_bytes(bytes(1_500_000))
    done = project.snakemake(target)
    assert done.returncode == 1
    assert "no space is left" in done.stderr.lower()
    assert "Traceback" not in done.stderr
    assert not (project.folder / target).exists()
    enlarge("60m")
    done = project.snakemake(target)
    assert done.returncode == 0, done.stderr
    assert (project.folder / target).is_file()
    assert not list(project.folder.rglob("*.partial"))


def test_a_disk_that_fills_up_stops_the_job_in_one_line(small_disk):
    folder, enlarge = small_disk
    settings = json.dumps({"source": "stand-in", "stand_in": SMALL})
    command = [sys.executable, "-c", FETCH, settings, folder / "cache", folder / "manifest.json"]
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
