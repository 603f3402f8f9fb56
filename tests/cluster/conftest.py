"""Engines beyond one machine, real ones on loopback. Slow, so apart from the other tests: `make test-cluster`."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from ..workflow.conftest import Project
from . import slurm

EXPERIMENT = "results/smoke/mnist_sums"
RUN = f"{EXPERIMENT}/runs/IV-N3/seed0"


class SmallProject(Project):
    """One run of one experiment: long enough to be killed in its middle, else as small as the smoke scale."""

    def __init__(self, folder):
        super().__init__(folder)
        smoke = ("scales", "smoke", "experiments", "mnist_sums")
        self.edit(*smoke, "seeds", value=[0])
        self.edit(*smoke, "run", value=["IV-N3"])
        self.edit(*smoke, "defaults", "training", "epochs", value=150)

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen:
        """Start Snakemake; what it says goes to snakemake.log."""
        command = [sys.executable, "-m", "snakemake", "--config", "scale=smoke", *arguments]
        inherited = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
        with (self.folder / "snakemake.log").open("w") as log:
            return subprocess.Popen(
                command, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT, env=inherited | environment
            )

    @property
    def log(self) -> str:
        return (self.folder / "snakemake.log").read_text()


def needs_plugin(name: str):
    module = f"snakemake_executor_plugin_{name.replace('-', '_')}"
    reason = f"no plugin: pip install snakemake-executor-plugin-{name}"
    return pytest.mark.skipif(find_spec(module) is None, reason=reason)


@pytest.fixture(scope="session")
def local(tmp_path_factory):
    """The same project, run on this machine."""
    project = SmallProject(tmp_path_factory.mktemp("local") / "project")
    assert project.start("--cores", "2", f"{EXPERIMENT}/tracked.json").wait(900) == 0, project.log
    return project


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    one = slurm.Slurm(tmp_path_factory.mktemp("slurm"))
    try:
        one.start()
        yield one
    finally:
        one.stop()
