"""What a queue is asked for, without one: the profile of Slurm, and a stand-in that takes every job and runs none."""

import os
import subprocess
import sys
from pathlib import Path

import yaml

from equiset.data import DATASETS

from .conftest import ROOT


def test_every_job_can_be_sent_to_a_queue_without_naming_cores(project):
    """The nodes have the cores, so `profiles/slurm` has no `--cores`; a dry run is planned as for one core."""
    profile = yaml.safe_load((ROOT / "profiles/slurm/profile.yaml").read_text())
    profile = {key: value for key, value in profile.items() if not key.startswith("slurm-")}
    (project.folder / "profile.yaml").write_text(yaml.safe_dump(profile | {"executor": "standin"}))
    command = [sys.executable, "-m", "snakemake", "--profile", "profile.yaml", "--config", "scale=smoke"]
    # Only what is sent: from this rule on, jobs run on the machine of Snakemake.
    command += ["--printshellcmds", "--omit-from", "track"]
    paths = os.pathsep.join([str(ROOT / "src"), str(Path(__file__).parent)])
    environment = os.environ | {"PYTHONPATH": paths}
    done = subprocess.run(command, cwd=project.folder, capture_output=True, text=True, timeout=120, env=environment)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    prepare = [line for line in said.splitlines() if "equiset.stages.prepare" in line]
    assert len(prepare) == len(DATASETS)
    assert all("--threads 8 " in line for line in prepare)


def test_jobs_claim_gpus_and_take_turns_on_those_that_there_are(project, tmp_path):
    """With stand-ins for four cards and for a torch that can use them; two jobs may share a card."""
    (tmp_path / "fake" / "torch").mkdir(parents=True)
    (tmp_path / "fake" / "torch" / "__init__.py").touch()
    (tmp_path / "fake" / "torch" / "version.py").write_text("cuda: str = '12.8'\n")
    project.edit("jobs_per_card", value=2)
    (project.folder / "Seen").write_text(
        """
configfile: "config.yaml"
include: "workflow/rules/common.smk"
rule seen:
    resources: gpu=gpus(SimpleNamespace(scale="smoke"))
    shell: "echo claimed {resources.gpu}, shared by $EQUISET_JOBS_PER_CARD"
onstart:
    let_jobs_take_turns_on_the_gpus()
    print("limit", workflow.global_resources["gpu"].value)
"""
    )
    stand_ins = {"PYTHONPATH": str(tmp_path / "fake"), "CUDA_VISIBLE_DEVICES": "0,1,2,3"}
    done = project.snakemake("--snakefile", "Seen", "seen", **stand_ins)
    assert done.returncode == 0, done.stderr
    assert "limit 8" in done.stdout
    assert "claimed 1, shared by 2" in done.stdout


def test_on_one_machine_a_core_is_left_to_other_jobs(project):
    store = "results/smoke/data/mnist/store"
    done = project.snakemake("--dry-run", "--printshellcmds", store)  # with two cores
    assert f"--output {store} --threads 1 " in done.stdout + done.stderr
