"""Nothing is done twice, and what is done again has the same bits."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pandas as pd
import yaml

from equiset.config.resolve import resolve
from equiset.config.specs import run_spec
from equiset.experiments import EXPERIMENTS
from equiset.files import digest, read_json

from ..rewriting import other_number, other_words
from .conftest import ROOT, RUN, Project

# One training without Snakemake: what decides it, then the folders of data, sets, checkpoints and run.
TRAIN = """
import json, sys
from pathlib import Path
from equiset.errors import one_line_errors
from equiset.training.run import train_run

with one_line_errors():
    train_run(json.loads(sys.argv[1]), *map(Path, sys.argv[2:]))
"""


def test_a_second_run_has_nothing_to_do(finished):
    done = finished.snakemake()
    assert done.returncode == 0
    assert "Nothing to be done" in done.stdout + done.stderr


def test_what_was_deleted_is_made_again(finished):
    deleted = ("point_clouds/tables/table1.md", "mnist_sums/figures/figure1.pdf", "claims/claims.tex")
    paths = [finished.folder / "results" / "smoke" / name for name in deleted]
    contents = {path: path.read_bytes() for path in paths}
    for path in paths:
        path.unlink()
    try:
        planned = finished.planned()
        assert (planned["tabulate"], planned["plot"], planned["judge_claims"]) == (1, 1, 1)
    finally:
        for path, content in contents.items():
            path.write_bytes(content)


def test_editing_a_variant_reruns_that_variant_and_what_depends_on_it(finished):
    with finished.own_config():
        finished.edit("experiments", "mnist_sums", "variants", "IV-N3", "dropout", value=0.3)
        once = ("measure_runs", "tabulate", "judge_claims", "judge_claims_of_one", "write_report")
        once += ("track", "track_report", "default")
        assert finished.planned() == {"train": 2, "evaluate": 2, "plot": 2, **dict.fromkeys(once, 1)}


def test_editing_the_sets_reruns_what_learns_from_them(finished):
    with finished.own_config():
        finished.edit("scales", "smoke", "experiments", "mnist_sums", "sets", "N6", "validation", value=40)
        planned = finished.planned()
        assert (planned["make_sets"], planned["train"]) == (2, 2)
        assert "fetch" not in planned


# Of each folder that a rule names, a module that others import by its name.
RENAMED = ["nn.norm", "training.feeding", "results.intervals", "tracking.views", "data.mnist.idx"]
RENAMED += ["data.modelnet40.surface", "experiments.laws.measurements", "experiments.point_clouds.pool"]


def test_words_and_names_of_modules_repeat_nothing_and_a_checkpoint_goes_on(finished, tmp_path):
    with finished.own_source() as source:
        for path in source.rglob("*.py"):
            text = other_words(path.read_text())
            for name in RENAMED:
                text = re.sub(rf"\b(from|import) equiset\.{re.escape(name)}\b", rf"\1 equiset.{name}_renamed", text)
            path.write_text(text)
        for name in RENAMED:
            path = source / f"{name.replace('.', '/')}.py"
            path.rename(path.with_stem(f"{path.stem}_renamed"))
        assert finished.planned() == {}
        smoke = finished.folder / "results" / "smoke"
        folders = [smoke / "data/mnist/store", smoke / "mnist_sums/sets/N3/seed0", smoke / "mnist_sums/checkpoints"]
        spec = json.dumps(read_json(finished.folder / RUN / "run.json")["spec"])
        command = [sys.executable, "-c", TRAIN, spec, *folders, tmp_path / "run"]
        environment = os.environ | {"PYTHONPATH": str(source.parent)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert "going on after epoch 2" in done.stderr
    weights = "weights.safetensors"
    assert (tmp_path / "run" / weights).read_bytes() == (finished.folder / RUN / weights).read_bytes()


def test_a_number_in_a_network_repeats_the_trainings_of_its_experiment(finished):
    with finished.own_source() as source:
        network = source / "experiments" / "mnist_sums" / "networks.py"
        network.write_text(other_number(network.read_text()))
        judged = ("measure_runs", "judge_claims", "judge_claims_of_one")
        once = dict.fromkeys((*judged, "tabulate", "track", "write_report", "track_report", "default"), 1)
        assert finished.planned() == {"train": 4, "evaluate": 4, "plot": 2, **once}
    assert set(re.findall(r"results/smoke/logs/train/(\w+)/", finished.said)) == {"mnist_sums"}


def test_another_mirror_or_time_limit_repeats_nothing(finished):
    with finished.own_config():
        for dataset, key in {"mnist": "mirrors", "celeba": "image_mirrors"}.items():
            finished.edit("datasets", dataset, key, value=["https://example.org/"])
            finished.edit("datasets", dataset, "timeout_s", value=7)
            finished.edit("datasets", dataset, "attempts", value=9)
        assert finished.planned() == {}


def test_a_tracking_server_gets_the_runs_and_nothing_else_is_repeated(finished):
    """As soon as the environment names one. The password of a database is in no plan."""
    sent = {"track": len(EXPERIMENTS), "track_report": 1, "default": 1}
    address = "postgresql://me:secret@tracking.example.org/mlflow"
    assert finished.planned(MLFLOW_TRACKING_URI=address) == sent
    assert "secret" not in finished.said
    with finished.own_config():
        finished.edit("tracking", "live", value=True)
        assert finished.planned() == {}
        finished.edit("tracking", "uri", value="https://tracking.example.org")
        assert finished.planned() == sent


def test_a_copied_project_has_nothing_to_do(finished, tmp_path):
    """Whatever the order in which its files were copied: here what is made of something is older than that."""
    subprocess.run(["cp", "-r", finished.folder, tmp_path / "copy"], check=True)
    results = [path for path in (finished.folder / "results").rglob("*") if path.is_file()]
    for age, path in enumerate(sorted(results, key=lambda path: path.stat().st_mtime_ns)):
        copy = tmp_path / "copy" / path.relative_to(finished.folder)
        os.utime(copy, (copy.stat().st_mtime - age,) * 2)
    assert Project.found(tmp_path / "copy").planned() == {}


def test_a_new_variant_is_one_line_of_the_config(finished):
    with finished.own_config():
        finished.edit("experiments", "mnist_sums", "variants", "II-N6", value={"model": "II", "sets": "N6"})
        finished.edit("scales", "smoke", "experiments", "mnist_sums", "run", value=["IV-N3", "I-N6", "II-N6"])
        planned = finished.planned()
        assert (planned["train"], planned["evaluate"]) == (2, 2)
        assert "make_sets" not in planned


def test_results_are_equal_bit_for_bit_on_a_rerun(finished):
    """Deleting a run and its checkpoints and running again gives the same files."""
    run = finished.folder / RUN
    names = ("metrics.parquet", "weights.safetensors", "predictions.parquet")
    before = {name: digest(run / name) for name in names}
    table = finished.folder / "results/smoke/mnist_sums/tables/accuracy.csv"
    numbers = table.read_bytes()
    shutil.rmtree(run)
    shutil.rmtree(finished.folder / "results/smoke/mnist_sums/checkpoints")
    done = finished.snakemake(f"{RUN}/predictions.parquet", str(table.relative_to(finished.folder)))
    assert done.returncode == 0, done.stderr
    assert {name: digest(run / name) for name in names} == before
    assert table.read_bytes() == numbers


def test_a_training_killed_in_the_middle_ends_with_the_same_metrics(finished, tmp_path):
    raw = yaml.safe_load((ROOT / "config.yaml").read_text())
    change = {"experiments": {"mnist_sums": {"variants": {"IV-N3": {"training": {"epochs": 30}}}}}}
    spec = json.dumps(run_spec(resolve(raw, "smoke", change), "mnist_sums", "IV-N3", 0))
    smoke = finished.folder / "results" / "smoke"
    inputs = [smoke / "data/mnist/store", smoke / "mnist_sums/sets/N3/seed0"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}

    def start(name):
        command = [sys.executable, "-c", TRAIN, spec, *inputs, tmp_path / name / "checkpoints", tmp_path / name / "run"]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)

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
    assert "epoch 30/30" not in said
    assert not (tmp_path / "killed" / "run").exists()
    assert "going on after epoch" in finish("killed")
    for name in ("metrics.parquet", "weights.safetensors"):
        assert (tmp_path / "killed" / "run" / name).read_bytes() == (tmp_path / "whole" / "run" / name).read_bytes()
    assert len(pd.read_parquet(tmp_path / "killed" / "run" / "metrics.parquet")) == 30
