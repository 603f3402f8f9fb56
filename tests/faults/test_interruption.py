"""A workflow that was killed goes on by the same command, once it is unlocked; a living one is not disturbed."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.faults.comparison import contents, differences
from tests.faults.kill_anywhere import kill_anywhere
from tests.workflow.conftest import Project

MANIFEST = "results/smoke/data/celeba/manifest.json"


def start(project, *arguments):
    command = [sys.executable, "-m", "snakemake", "--cores", "1", *arguments, "--config", "scale=smoke"]
    return subprocess.Popen(command, cwd=project.folder, stderr=subprocess.PIPE, text=True, start_new_session=True)


def wait_for(condition, process, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow_fault
def test_a_living_run_holds_the_folder_and_a_killed_one_is_unlocked_by_hand(project):
    """By Snakemake's own lock."""
    log = project.folder / "results/smoke/logs/fetch/celeba.log"
    first = start(project, MANIFEST)
    wait_for(log.exists, first)
    os.killpg(first.pid, signal.SIGSTOP)  # or it ends before the second one has begun
    # While it is there, a second one is refused, and told why.
    second = project.snakemake(MANIFEST)
    assert first.poll() is None, "the first run ended before the second one could be refused"
    assert second.returncode == 1
    assert "LockException" in second.stderr
    assert "--unlock" in second.stderr
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    assert project.snakemake(MANIFEST).returncode == 1, "Snakemake has learned to clean up: --unlock is not needed"
    assert project.snakemake("--unlock").returncode == 0
    third = project.snakemake(MANIFEST)
    assert third.returncode == 0, third.stderr
    assert (project.folder / MANIFEST).exists()
    assert not list((project.folder / "results").rglob("*.partial"))


@pytest.mark.slow_fault
def test_another_folder_and_other_cores_give_the_same_bits(tmp_path):
    """All that preprocessing makes, and a network: with one core, and with two in another folder."""
    stores = [f"results/smoke/data/{name}/store/store.json" for name in ("mnist", "modelnet40", "celeba", "redmapper")]
    runs = ["results/smoke/redshift/runs/set/seed0/predictions.parquet", "results/smoke/redshift/tables/scatter.csv"]
    made = []
    for cores in ("1", "2"):
        project = Project(tmp_path / cores)
        done = project.snakemake(*stores, *runs, "--cores", cores)
        assert done.returncode == 0, done.stderr
        made.append(contents(project.folder / "results" / "smoke"))
    assert len(made[0]) > 20
    assert differences(*made) == []


@pytest.mark.slow_fault
def test_thirty_kills(tmp_path):
    said = kill_anywhere(tmp_path, kills=30, seed=0)
    assert said.startswith("30 of 30 recovered, files identical")
