"""The workflow through a real Slurm: every job by slurmd, a cancelled one again, the same bits as on one machine."""

import re
import subprocess
import time

import pandas as pd
import pytest

from equiset.files import digest

from .conftest import EXPERIMENT, RUN, SmallProject, needs_plugin

pytestmark = needs_plugin("slurm")

LIMIT_S = 1500


@pytest.fixture(scope="module")
def finished(cluster, tmp_path_factory):
    """A project whose training was cancelled in its middle on the cluster, and which finished all the same."""
    project = SmallProject(tmp_path_factory.mktemp("slurm_run") / "project")
    arguments = ["--profile", "profiles/slurm", "--slurm-init-seconds-before-status-checks", "3"]
    process = project.start(*arguments, f"{EXPERIMENT}/tracked.json", **cluster.environment)
    try:
        project.cancelled = _cancel_training(cluster, project, process)
        assert process.wait(LIMIT_S) == 0, project.log
    finally:
        process.terminate()
        process.wait()
    project.jobs = cluster.jobs()
    print("\nslurmd ran:")
    for job in project.jobs:
        print(f"  job {job['id']:>3}  {job['state']:<10} {job['time']:>6}  on {job['node']}  {job['rule']}")
    return project


def _cancel_training(cluster, project, process) -> str:
    """Cancel the training as soon as it has left a checkpoint, and return the number of its job."""
    deadline = time.monotonic() + LIMIT_S
    while not list((project.folder / EXPERIMENT).glob("checkpoints/*.pt")):
        assert process.poll() is None, project.log
        assert time.monotonic() < deadline, project.log
        time.sleep(0.05)
    (job,) = [job["id"] for job in cluster.jobs() if job["rule"].startswith("rule_train")]
    subprocess.run(["scancel", job], check=True, env=cluster.environment)
    assert not (project.folder / RUN / "run.json").exists(), "the training ended before it could be cancelled"
    return job


def test_every_heavy_job_was_started_by_slurmd(finished, cluster):
    submitted = dict(re.findall(r"SLURM jobid (\d+) \(log: \S*/rule_([a-z_]+)/", finished.log))
    assert set(submitted.values()) == {"fetch", "prepare", "make_sets", "train", "evaluate", "tabulate", "plot"}
    assert set(submitted) == cluster.launched()


def test_the_cancelled_training_was_sent_again_and_went_on_from_its_checkpoint(finished):
    trainings = [job for job in finished.jobs if job["rule"].startswith("rule_train")]
    assert [(job["id"], job["state"]) for job in trainings] == [
        (finished.cancelled, "CANCELLED"),
        (trainings[-1]["id"], "COMPLETED"),
    ]
    assert "Trying to restart" in finished.log
    log = finished.folder / "results/smoke/logs/train/mnist_sums/IV-N3/seed0.log"
    assert "going on after epoch" in log.read_text()


def test_the_results_are_those_of_a_local_run_bit_for_bit(finished, local):
    for name in ("weights.safetensors", "metrics.parquet", "predictions.parquet"):
        assert digest(finished.folder / RUN / name) == digest(local.folder / RUN / name), name
    here, there = (
        pd.read_csv(one.folder / EXPERIMENT / "tables/accuracy.csv").drop(columns="minutes_mean")
        for one in (local, finished)
    )
    pd.testing.assert_frame_equal(there, here, check_exact=True)
