"""What goes wrong is said in one clear message, with exit code 1, and leaves no half file."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest
import yaml

from equiset.config import resolve, run_spec
from equiset.files import canonical_json

from .conftest import ROOT

MANIFEST = "results/smoke/data/mnist/manifest.json"


def test_a_typo_in_the_config_is_named_before_anything_runs(project):
    project.edit("experiments", "mnist_sums", "defaults", "droput", value=0.1)
    done = project.snakemake()
    assert done.returncode == 1
    assert "variants.I-N3.droput' is unknown; did you mean 'dropout'?" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (project.folder / "results").exists()


def test_unreachable_mirrors_are_listed_with_the_way_out(project):
    project.edit("datasets", "mnist", "mirrors", value=["http://127.0.0.1:9/mnist/", "http://localhost.invalid/"])
    project.edit("scales", "smoke", "datasets", "mnist", value={"source": "download", "attempts": 1, "timeout_s": 2})
    done = project.snakemake()
    assert done.returncode == 1
    assert "http://127.0.0.1:9/mnist/" in done.stderr
    assert "http://localhost.invalid/" in done.stderr
    assert "snakemake --cores all --config 'datasets={mnist: {source: twin}}'" in done.stderr
    assert not (project.folder / MANIFEST).exists()


@pytest.fixture(scope="module")
def mnist_files(tmp_path_factory):
    """Good files in MNIST's layout."""
    folder = tmp_path_factory.mktemp("mnist")
    spec = {"dataset": "mnist", "settings": {"source": "twin", "twin": {"train": 60, "test": 30}}}
    command = [sys.executable, "-m", "equiset.stages.fetch", "--spec", json.dumps(spec)]
    command += ["--cache", str(folder), "--output", str(folder / "manifest.json")]
    subprocess.run(command, check=True, capture_output=True)
    return next(folder.rglob("train-images-idx3-ubyte.gz")).parent


def damage_gzip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def truncate_idx(path):
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-100]))


def drop_labels(path):
    content = bytearray(gzip.decompress(path.read_bytes()))[:-5]
    content[4:8] = (len(content) - 8).to_bytes(4, "big")
    path.write_bytes(gzip.compress(content))


@pytest.mark.parametrize(
    ("file", "damage", "words"),
    [
        ("train-images-idx3-ubyte.gz", damage_gzip, "gz"),
        ("train-images-idx3-ubyte.gz", truncate_idx, "bytes"),
        ("train-labels-idx1-ubyte.gz", drop_labels, "55"),
    ],
)
def test_a_damaged_file_is_named_and_nothing_is_left(project, mnist_files, tmp_path, file, damage, words):
    folder = tmp_path / "mine"
    folder.mkdir()
    for path in mnist_files.glob("*.gz"):
        (folder / path.name).write_bytes(path.read_bytes())
    damage(folder / file)
    project.edit("scales", "smoke", "datasets", "mnist", value={"source": "folder", "folder": str(folder)})
    done = project.snakemake()
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if " ERROR " in line]
    assert len(said) == 1
    assert file in said[0]
    assert words in said[0]
    assert "Traceback" not in done.stderr
    assert not (project.folder / "results/smoke/data/mnist/store").exists()
    assert not list((project.folder / "results").rglob("*.partial"))


def test_a_training_killed_in_the_middle_ends_with_the_same_metrics(finished, tmp_path):
    raw = yaml.safe_load((ROOT / "config.yaml").read_text())
    change = {"experiments": {"mnist_sums": {"variants": {"IV-N3": {"training": {"epochs": 60}}}}}}
    spec = canonical_json(run_spec(resolve(raw, "smoke", change), "mnist_sums", "IV-N3", 0))
    smoke = finished.folder / "results" / "smoke"

    def start(name):
        command = [sys.executable, "-m", "equiset.stages.train", "--spec", spec, "--threads", "1"]
        command += ["--store", str(smoke / "data/mnist/store"), "--sets", str(smoke / "mnist_sums/sets/N3/seed0")]
        command += ["--checkpoints", str(tmp_path / name / "checkpoints"), "--output", str(tmp_path / name / "run")]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})

    def finish(name):
        process = start(name)
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        return said

    finish("whole")
    process = start("killed")
    deadline = time.monotonic() + 60
    while not list((tmp_path / "killed" / "checkpoints").glob("*.pt")):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    _, said = process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert "epoch 60/60" not in said
    assert not (tmp_path / "killed" / "run").exists()
    assert "going on after epoch" in finish("killed")
    for name in ("metrics.parquet", "weights.safetensors"):
        assert (tmp_path / "killed" / "run" / name).read_bytes() == (tmp_path / "whole" / "run" / name).read_bytes()
    assert len(pd.read_parquet(tmp_path / "killed" / "run" / "metrics.parquet")) == 60
