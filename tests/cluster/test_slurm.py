"""The workflow through a real Slurm: every job by slurmd, a cancelled one again, the same bits as on one machine."""

import re
import subprocess
import time

import pandas as pd
import pytest
import yaml

from equiset.files import digest

from ..workflow.conftest import ROOT
from . import slurm
from .conftest import EXPERIMENT, RUN, SmallProject, needs_plugin

pytestmark = [
    pytest.mark.skipif(slurm.missing() is not None, reason=str(slurm.missing())),
    needs_plugin("slurm"),
]

LIMIT_S = 1500


@pytest.fixture(scope="module")
def finished(cluster, tmp_path_factory):
    """A project whose training was cancelled in its middle on the cluster, and which finished all the same."""
    project = SmallProject(tmp_path_factory.mktemp("slurm_run") / "project")
    profile = yaml.safe_load((ROOT / "profiles/slurm/profile.yaml").read_text())
    profile["set-resources"]["train"]["gpu"] = 1  # as `device: cuda` would ask for, which needs a real one
    (project.folder / "profile.yaml").write_text(yaml.safe_dump(profile))
    arguments = ["--profile", "profile.yaml", "--slurm-init-seconds-before-status-checks", "3"]
    process = project.start(*arguments, f"{EXPERIMENT}/tracked.json", **cluster.environment)
    try:
        project.cancelled = _cancel_training(cluster, project, process)
        assert process.wait(LIMIT_S) == 0, project.log
    finally:
        process.terminate()
        process.wait()
    project.jobs, project.launched = cluster.jobs(), cluster.launched()
    print("\nslurmd ran:")
    for job in project.jobs:
        job["gpu"] = cluster.has_gpu(job["id"])
        where = f"on {job['node']}{' with a GPU' if job['gpu'] else ''}"
        print(f"  job {job['id']:>3}  {job['state']:<10} {job['time']:>6}  {job['rule']} {where}")
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


def test_every_heavy_job_was_started_by_slurmd(finished):
    submitted = dict(re.findall(r"SLURM jobid (\d+) \(log: \S*/rule_([a-z_]+)/", finished.log))
    made = {"fetch", "prepare", "make_sets", "train", "evaluate"}
    assert set(submitted.values()) == made | {"measure_runs", "judge_claims_of_one", "tabulate", "plot"}
    assert set(submitted) == finished.launched


def test_slurm_gave_a_gpu_to_the_training_alone(finished):
    assert {job["rule"].split("_wildcards")[0] for job in finished.jobs if job["gpu"]} == {"rule_train"}


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
        pd.read_csv(one.folder / EXPERIMENT / "tables/accuracy.csv").drop(columns="minutes_mean", errors="ignore")
        for one in (local, finished)
    )
    pd.testing.assert_frame_equal(there, here, check_exact=True)


@needs_plugin("cluster-generic")
def test_any_other_queue_needs_only_its_submit_command(cluster, local, tmp_path):
    """Here that of Slurm, as docs/cluster.md has it; the job's end is seen by files."""
    project = SmallProject(tmp_path / "project")
    submit = "sbatch --parsable --output=/dev/null --cpus-per-task={threads} --mem={resources.mem_mb}"
    arguments = ["--executor", "cluster-generic", "--jobs", "4", "--latency-wait", "60"]
    arguments += ["--cluster-generic-submit-cmd", f"{submit} --time={{resources.runtime}}"]
    sets = f"{EXPERIMENT}/sets/N3/seed0"
    process = project.start(*arguments, f"{sets}/sets.json", **cluster.environment)
    assert process.wait(LIMIT_S) == 0, project.log
    submitted = re.findall(r"external jobid '(\d+)'", project.log)
    assert len(submitted) == 3
    assert set(submitted) <= cluster.launched()
    files = sorted(path.name for path in (local.folder / sets).iterdir())
    assert files == sorted(path.name for path in (project.folder / sets).iterdir())
    for name in files:
        assert digest(project.folder / sets / name) == digest(local.folder / sets / name), name
