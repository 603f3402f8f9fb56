"""The tutorial, block by block, in a copy of the project."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd

from tests.workflow.conftest import ROOT, Project

BLOCK = re.compile(r"(?:^\*\*`(?P<file>[^`]+)`\*\*\n\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.M | re.S)


def test_the_tutorial_does_what_it_says(tmp_path):
    project = Project(tmp_path / "project").folder
    (project / "src").unlink()
    shutil.copytree(ROOT / "src", project / "src", ignore=shutil.ignore_patterns("__pycache__"))
    (project / "examples").symlink_to(ROOT / "examples")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(project / "src")}
    blocks = list(BLOCK.finditer((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")))
    assert {block["kind"] for block in blocks} == {"sh", "yaml", "python"}
    said = ""
    for block in blocks:
        if block["kind"] == "sh":
            command = ["bash", "-ec", block["text"]]
            done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, block["text"] + done.stdout[-2000:] + done.stderr[-3000:]
            said += done.stdout
        else:
            file = project / block["file"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block["text"], encoding="utf-8")
    assert "OWN data" in said
    assert "two layers" in said
    classes = pd.read_csv(project / "classes.csv")
    assert (classes["class"] == classes["file"].str.split("_").str[0]).mean() > 0.7
    errors = pd.read_csv(project / "results/smoke/surface_area/tables/errors.csv").set_index("variant")
    assert errors.loc["set layers", "relative_error"] < 0.7 * errors.loc["mean area", "relative_error"]
