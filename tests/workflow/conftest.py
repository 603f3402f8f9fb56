"""The real workflow at `smoke` scale, in a folder of its own: the real config, shrunk by its own switch."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from filelock import FileLock

ROOT = Path(__file__).parents[2]
RUN = "results/smoke/mnist_sums/runs/IV-N3/seed0"
"""A run of the finished project."""


class Project:
    """A copy of the project to run and to change."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir()
        for name in ("Snakefile", "workflow", "src", "profiles", "environment.yml"):
            (folder / name).symlink_to(ROOT / name)
        shutil.copy(ROOT / "config.yaml", folder)
        self.edit("tracking", "live", value=False)  # nobody looks at them

    @classmethod
    def found(cls, folder: Path) -> "Project":
        """Return a copy that is there already."""
        project = cls.__new__(cls)
        project.folder = folder
        return project

    def snakemake(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "snakemake", "--cores", "2", *arguments, "--config", "scale=smoke"]
        inherited = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
        return subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=7200, env=inherited | environment
        )

    def planned(self, *arguments: str, **environment: str) -> dict[str, int]:
        """Return how many jobs of each rule a dry run would do. What it says of them is in `said`."""
        done = self.snakemake(*arguments, "--dry-run", **environment)
        assert done.returncode == 0, done.stderr
        self.said = done.stdout + done.stderr
        rows = [line.split() for line in self.said.splitlines()]
        rows = [row for row in rows if len(row) == 2 and row[0].isidentifier() and row[1].isdigit()]
        return {name: int(count) for name, count in rows if name != "total"}

    @contextmanager
    def own_source(self) -> Iterator[Path]:
        """Yield a folder with the project's code, which can be changed. Afterwards the code is as it was."""
        source, link = self.folder / "src", self.folder / "src-as-it-is"
        source.rename(link)
        try:
            shutil.copytree(link / "equiset", source / "equiset", ignore=shutil.ignore_patterns("__pycache__"))
            yield source / "equiset"
        finally:
            shutil.rmtree(source)
            link.rename(source)

    @contextmanager
    def own_config(self) -> Iterator[None]:
        """Let config.yaml be changed. Afterwards it is as it was."""
        file = self.folder / "config.yaml"
        original = file.read_text()
        try:
            yield
        finally:
            file.write_text(original)

    def edit(self, *path: str, value: object) -> None:
        """Change one value of config.yaml."""
        file = self.folder / "config.yaml"
        config = node = yaml.safe_load(file.read_text())
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = value
        file.write_text(yaml.safe_dump(config, sort_keys=False))


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path / "project")


@pytest.fixture(scope="session")
def finished(tmp_path_factory, worker_id):
    """A project whose smoke run is done: made by the process that needs it first, and copied by each."""
    shared = tmp_path_factory.getbasetemp()
    made = (shared if worker_id == "master" else shared.parent) / "finished"
    with FileLock(f"{made}.lock"):
        if not (made / "output.txt").exists():
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir()
            done = Project(made / "project").snakemake()
            assert done.returncode == 0, done.stderr
            (made / "output.txt").write_text(done.stdout + done.stderr)
    folder = tmp_path_factory.mktemp("workflow") / "project"
    project = Project.found(shutil.copytree(made / "project", folder, symlinks=True))
    project.output = (made / "output.txt").read_text()
    return project
