"""What a queue is asked for, without one: the profile of Slurm, and a stand-in that takes every job and runs none."""

import os
import subprocess
import sys
from pathlib import Path

import yaml

from equiset.data import DATASETS

from .conftest import ROOT

NETWORKS = {"train", "evaluate", "analyse"}
"""Rules that run a network."""


def queued(project, *options, **config):
    """Return what each job asks a queue for, by rule."""
    profile = yaml.safe_load((ROOT / "profiles/slurm/profile.yaml").read_text())
    profile = {key: value for key, value in profile.items() if not key.startswith("slurm-")}
    (project.folder / "profile.yaml").write_text(yaml.safe_dump(profile | {"executor": "standin"}))
    command = [sys.executable, "-m", "snakemake", "--profile", "profile.yaml", *options]
    # Only what is sent: from this rule on, jobs run on the machine of Snakemake.
    command += ["--omit-from", "track", "track_report", "--config", "scale=smoke"]
    command += [f"{key}={value}" for key, value in config.items()]
    paths = os.pathsep.join([str(ROOT / "src"), str(Path(__file__).parent)])
    environment = os.environ | {"PYTHONPATH": paths}
    done = subprocess.run(command, cwd=project.folder, capture_output=True, text=True, timeout=120, env=environment)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    jobs = {}
    for _, rule, *asked in (line.split() for line in said.splitlines() if line.startswith("queued ")):
        jobs.setdefault(rule, []).append(dict(pair.split("=") for pair in asked))
    return jobs


def test_every_job_can_be_sent_to_a_queue_without_naming_cores(project):
    """The nodes have the cores, so `profiles/slurm` has no `--cores`; a dry run is planned as for one core."""
    jobs = queued(project, "--set-threads", "prepare=8")
    assert [job["threads"] for job in jobs["prepare"]] == ["8"] * len(DATASETS)
    assert {job["threads"] for rule, all_of in jobs.items() if rule != "prepare" for job in all_of} == {"1"}
    profile = yaml.safe_load((ROOT / "profiles/slurm/profile.yaml").read_text())["set-resources"]
    assert set(profile) <= set(jobs)
    assert all(job["runtime"] == str(profile[rule]["runtime"]) for rule in profile for job in jobs[rule])
    assert {job["mem_mb"] for job in jobs["train"]} == {"4000"}
    assert {job["gpu"] for rule in NETWORKS for job in jobs[rule]} == {"0"}


def test_jobs_with_a_network_claim_a_gpu_if_the_config_says_so(project):
    jobs = queued(project, device="cuda")
    assert set(jobs) > NETWORKS
    assert {job["gpu"] for rule in NETWORKS for job in jobs[rule]} == {"1"}
    assert {job["gpu"] for rule in set(jobs) - NETWORKS for job in jobs[rule]} == {"None"}
