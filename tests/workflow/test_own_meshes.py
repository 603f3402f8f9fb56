"""The example with own meshes, from a folder to predictions, in a copy of the project."""

import subprocess
import sys

from tests.workflow.conftest import ROOT, Project


def test_own_meshes_are_learnt_and_predicted(tmp_path):
    project = Project(tmp_path / "project")
    program = ROOT / "examples" / "own_meshes.py"
    done = subprocess.run([sys.executable, str(program)], cwd=project.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "new meshes are named right" in done.stdout
