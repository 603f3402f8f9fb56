"""A workflow that was killed goes on by the same command, without a hand; a living one is not disturbed."""

import os
import signal
import subprocess
import sys
import time

import pytest

from equiset import occupancy
from tests.faults.comparison import NOT_COMPARED, contents, differences
from tests.faults.kill_anywhere import kill_anywhere
from tests.workflow.conftest import ROOT, Project

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
def test_a_stale_lock_needs_no_hand_and_a_living_one_holds(project):
    locks = project.folder / ".snakemake" / "locks"
    log = project.folder / "results/smoke/logs/fetch/celeba.log"
    first = start(project, MANIFEST)
    wait_for(log.exists, first)
    os.killpg(first.pid, signal.SIGSTOP)  # or it ends before the second one has begun
    # While it is there, a second one is refused, and told why.
    second = project.snakemake(MANIFEST)
    assert first.poll() is None, "the first run ended before the second one could be refused"
    assert second.returncode == 1
    assert "is active in this folder" in second.stderr
    assert list(locks.glob("*.lock"))
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    assert list(locks.glob("*.lock")), "Snakemake has learned to clean up: this module is no longer needed"
    third = project.snakemake(MANIFEST)
    assert third.returncode == 0, third.stderr
    assert (project.folder / MANIFEST).exists()
    assert not list((project.folder / "results").rglob("*.partial"))


@pytest.fixture
def held():
    """Give back what `begin_run` holds until the process ends."""
    yield
    while occupancy._held:
        occupancy._held.pop().close()


def test_a_job_that_outlives_its_run_keeps_the_folder(tmp_path, held):
    """The run itself is killed, and one of its jobs is not."""
    leftover = tmp_path / ".snakemake" / "locks" / "0.output.lock"
    assert occupancy.begin_run(tmp_path) is None
    occupancy._held.pop().close()
    program = "from equiset.occupancy import begin_job; begin_job(); print('in', flush=True); input()"
    job = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )
    assert job.stdout.readline() == "in\n"
    leftover.parent.mkdir()
    leftover.write_text("results/x")
    assert "left over" in occupancy.begin_run(tmp_path)
    assert leftover.exists()
    job.communicate("\n")
    occupancy._held.pop().close()
    assert occupancy.begin_run(tmp_path) is None
    assert not leftover.exists()


def test_folders_without_locks_work(tmp_path, held, monkeypatch):
    """Some network file systems have none."""

    def refuse(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(occupancy.fcntl, "flock", refuse)
    leftover = tmp_path / ".snakemake" / "locks" / "0.output.lock"
    leftover.parent.mkdir(parents=True)
    leftover.write_text("results/x")
    occupancy.begin_run(tmp_path)
    assert leftover.exists()
    occupancy.begin_job(tmp_path)


def test_what_is_not_compared_says_why():
    assert all(NOT_COMPARED.values())


@pytest.mark.slow_fault
def test_another_folder_and_other_cores_give_the_same_bits(tmp_path):
    """All that preprocessing makes, and a network: with one core, and with two in another folder."""
    stores = [f"results/smoke/data/{name}/store" for name in ("mnist", "modelnet40", "celeba", "redmapper")]
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
