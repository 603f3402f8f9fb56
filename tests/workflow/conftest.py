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

ROOT = Path(__file__).parents[2]


class Project:
    """A copy of the project to run and to change."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir()
        for name in ("Snakefile", "workflow", "src", "profiles", "environment.yml"):
            (folder / name).symlink_to(ROOT / name)
        shutil.copy(ROOT / "config.yaml", folder)
        self.edit("tracking", "live", value=False)  # nobody looks at them

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
def finished(tmp_path_factory):
    """A project whose smoke run is done."""
    project = Project(tmp_path_factory.mktemp("workflow") / "project")
    done = project.snakemake()
    assert done.returncode == 0, done.stderr
    project.output = done.stdout + done.stderr
    return project
