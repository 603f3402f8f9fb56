"""The workflow from another folder, as a part of another workflow, and on the published runs."""

import re
import shutil
import subprocess
import sys

import pytest

from equiset.data import DATASETS
from equiset.experiments import EXPERIMENTS

from .conftest import ROOT, Project

MEASURES = "results/smoke/mnist_sums/measures.parquet"
MODULE = """
module equiset:
    snakefile: "{workflow}"
    config: {config}

use rule * from equiset{names}
"""


def dry_run(folder, *arguments):
    """Return how many jobs of each rule there would be."""
    return Project.found(folder).planned(*arguments)


@pytest.mark.parametrize("option", ["--directory", "--snakefile"])
def test_another_folder_gets_the_whole_run(project, tmp_path, option):
    """The files are planned there, with the code and the config of the project."""
    project.edit("scales", "smoke", "experiments", "mnist_sums", "run", value=["IV-N3"])
    here = project.planned()
    assert here["fetch"] == len(DATASETS)
    assert here["track"] == len(EXPERIMENTS)
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    snakefile = ("--snakefile", str(project.folder / "Snakefile"))
    if option == "--directory":
        found = dry_run(project.folder, "--directory", str(elsewhere), *snakefile)
    else:
        found = dry_run(elsewhere, *snakefile)
    assert found == here
    assert [path.name for path in elsewhere.iterdir()] in ([], [".snakemake"])


def test_another_folder_gets_the_results(finished, tmp_path):
    """Files in the working folder, by scripts of the project."""
    store = "results/smoke/data/mnist/store/store.json"
    done = finished.snakemake("--directory", str(tmp_path), "--snakefile", str(finished.folder / "Snakefile"), store)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / store).read_bytes() == (finished.folder / store).read_bytes()
    assert (tmp_path / "data" / "mnist").is_dir()


@pytest.mark.parametrize("names", ["", " as equiset_*"])
def test_another_workflow_takes_the_rules(project, tmp_path, names):
    folder = tmp_path / "other"
    folder.mkdir()
    module = MODULE.format(workflow=project.folder / "workflow" / "Snakefile", config="{}", names=names)
    (folder / "Snakefile").write_text(module)
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--dry-run", MEASURES]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    rule = names.removeprefix(" as ").removesuffix("*") + "measure_runs"
    assert re.search(rf"^{rule} +1$", said, re.MULTILINE)


def test_another_workflow_decides_the_config(project, tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    module = MODULE.format(workflow=project.folder / "workflow" / "Snakefile", config='{"scale": "smoke"}', names="")
    (folder / "Snakefile").write_text(module)
    planned = dry_run(folder, MEASURES)
    seeds_and_variants = project.planned(MEASURES)
    assert planned == seeds_and_variants


def test_all_that_is_published_can_be_made_again(project):
    """Runs first, and then what is measured on them once they are published."""
    (project.folder / "results").mkdir()
    (project.folder / "results" / "reference").symlink_to(ROOT / "results" / "reference")
    settings = ("--configfile", "workflow/reference.yaml")
    runs = list((ROOT / "results" / "reference").glob("*/runs/*/*/run.json"))
    made = project.planned("reference_runs", *settings)
    assert made["train"] >= len(runs) > 20
    assert "analyse_published" not in made
    measured = project.planned("reference_analyses", *settings)
    published = list((ROOT / "results" / "reference" / "point_clouds" / "analyses").glob("*.parquet"))
    assert measured["analyse_published"] == len(published)
    assert "train" not in measured


def test_judging_the_published_runs_again_changes_no_verdict(project):
    """From their own files, all of them anew."""
    reference = project.folder / "results" / "reference"
    shutil.copytree(ROOT / "results" / "reference", reference)
    committed = {path: path.read_bytes() for path in reference.rglob("*") if path.is_file()}
    claims = reference / "claims" / "claims.csv"
    (reference / "claims" / "conditions.csv").unlink()
    done = project.snakemake("judge", "--forceall")
    assert done.returncode == 0, done.stderr
    assert "23 claims of the paper: " in done.stdout + done.stderr
    assert "All claims: results/reference/claims/claims.md" in done.stdout + done.stderr
    assert claims.read_bytes() == committed[claims]
    conditions = reference / "claims" / "conditions.csv"
    assert conditions.read_bytes() == committed[conditions]
    runs = [path for path in committed if "runs" in path.parts or "analyses" in path.parts]
    assert len(runs) > 20
    assert all(path.read_bytes() == committed[path] for path in runs)
    # Beside prepared data, as `make verify` leaves them, figures are drawn as well, and nothing is fetched.
    store = project.folder / "results" / "paper" / "data" / "mnist" / "store" / "store.json"
    store.parent.mkdir(parents=True)
    store.write_text("{}")
    figure = reference / "mnist_sums" / "figures" / "memorised.png"
    figure.unlink()
    done = project.snakemake("--forceall", str(figure.relative_to(project.folder)))
    assert done.returncode == 0, done.stderr
    assert figure.read_bytes() == committed[figure]
    assert store.read_text() == "{}"
