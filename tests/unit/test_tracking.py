"""MLflow shows what the files have, once, and stops nothing."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
import torch
from mlflow import MlflowClient

from equiset.config.resolve import REFERENCE, read_config, resolve
from equiset.config.roles import Role
from equiset.errors import EquisetError
from equiset.experiments.mnist_sums.networks import SumNet
from equiset.files import digest, read_json, write_json
from equiset.results.measures import Measures, Number
from equiset.results.runs import Run
from equiset.tracking import database_file, send, store_uri
from equiset.tracking.send import Findings, track_report
from equiset.tracking.tracker import SHOWN, open_experiment
from equiset.training.loop import save_weights

from ..tracked_runs import history, runs_in, track, write_run

CONFIG = Path(__file__).parents[2] / "config.yaml"
pytestmark = pytest.mark.usefixtures("no_server")


def dump(uri):
    """Return all that is in a database."""
    with sqlite3.connect(database_file(uri)) as database:
        return list(database.iterdump())


def test_a_run_arrives_whole(uri, tmp_path):
    track(uri, tmp_path, [write_run(tmp_path, epochs=1500)])
    run = runs_in(uri)["IV-N3/seed0 (demo)"]
    assert run.info.status == "FINISHED"
    assert run.data.params["training.optimizer.learning_rate"] == "0.1"
    expected = {"scale": "demo", "spec_hash": "abc", "data_kind": "whole", "data_share": "1.0000"}
    assert {key: run.data.tags[f"equiset.{key}"] for key in expected} == expected
    assert run.data.tags["mlflow.source.git.commit"] == "c0ffee"
    assert run.data.tags["mlflow.source.name"] == "workflow/scripts/train.py"
    assert [step for step, _ in history(uri, run)] == list(range(1, 1501))
    files = [file.path for file in MlflowClient(uri).list_artifacts(run.info.run_id)]
    assert files == ["metrics.parquet", "run.json"]
    assert run.data.metrics["usage/training_seconds"] == 1500


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("download", ("http", {"url": "https://example.org/mnist/"})),
        ("stand-in", ("local", {"uri": "results/demo/data/mnist/store"})),
    ],
)
def test_the_data_of_a_run_have_a_source_that_mlflows_page_understands(uri, tmp_path, source, expected):
    track(uri, tmp_path, [write_run(tmp_path, source=source)])
    (data,) = runs_in(uri)["IV-N3/seed0 (demo)"].inputs.dataset_inputs
    assert (data.dataset.name, data.dataset.digest) == ("mnist", "d" * 36)
    assert (data.dataset.source_type, json.loads(data.dataset.source)) == expected
    assert json.loads(data.dataset.profile)["data"] == "MNIST"


def test_sending_twice_changes_nothing(uri, tmp_path):
    runs = [write_run(tmp_path, seed=seed) for seed in (0, 1)]
    (table := tmp_path / "accuracy.md").write_text("one")
    track(uri, tmp_path, runs, [table])
    before = dump(uri)
    track(uri, tmp_path, runs, [table])
    assert dump(uri) == before


def test_another_training_supersedes_the_first_and_the_first_comes_back(uri, tmp_path):
    names = {"IV-N3/seed0 (demo)": "yes", "superseded: IV-N3/seed0 (demo)": "no"}
    for training, count in (("t0", 1), ("t1", 2), ("t0", 2)):
        track(uri, tmp_path, [write_run(tmp_path, training=training)])
        runs = runs_in(uri)
        assert len(runs) == count
        assert {name: run.data.tags["equiset.current"] for name, run in runs.items()}.items() <= names.items()
        assert runs["IV-N3/seed0 (demo)"].data.tags["equiset.identity"] == f"{training}-0"


def test_two_scales_are_told_apart(uri, tmp_path):
    run = write_run(tmp_path)
    for scale in ("demo", REFERENCE):
        track(uri, tmp_path, [run], scale=scale)
    runs = runs_in(uri)
    assert sorted(runs) == ["IV-N3/seed0 (demo)", "IV-N3/seed0 (reference)"]
    note = "mlflow.note.content"
    assert "--configfile workflow/reference.yaml" in runs["IV-N3/seed0 (reference)"].data.tags[note]
    assert "--configfile" not in runs["IV-N3/seed0 (demo)"].data.tags[note]


def test_a_run_has_the_data_it_used_and_the_command_that_repeats_it(uri, tmp_path):
    track(uri, tmp_path, [write_run(tmp_path)])
    note = runs_in(uri)["IV-N3/seed0 (demo)"].data.tags["mlflow.note.content"]
    assert "**The paper's data, whole: MNIST.**" in note
    assert "s" * 64 in note
    assert "d" * 64 in note
    assert "commit `c0ffee`" in note
    assert "snakemake --cores all --force -- results/demo/mnist_sums/runs/IV-N3/seed0/run.json" in note


def test_every_kind_of_data_is_named_in_tags_and_note(uri, tmp_path):
    kinds = {
        "whole": (1.0, "**The paper's data, whole: MNIST.**"),
        "part": (0.25, "**The paper's data, in PART: MNIST.** The other items are absent"),
        "own": (0.0, "**OWN data, not the paper's: MNIST.** These numbers are not comparable"),
        "stand-in": (0.0, "**STAND-IN data: MNIST.** These numbers show that the code works."),
    }
    values = enumerate(kinds.items())
    runs = [write_run(tmp_path, seed=seed, kind=kind, share=share) for seed, (kind, (share, _)) in values]
    track(uri, tmp_path, runs)
    found = runs_in(uri)
    for seed, (kind, (share, words)) in enumerate(kinds.items()):
        tags = found[f"IV-N3/seed{seed} (demo)"].data.tags
        assert (tags["equiset.data_kind"], float(tags["equiset.data_share"])) == (kind, share)
        assert words in tags["mlflow.note.content"]


def test_an_experiment_has_a_description_and_views(uri, tmp_path):
    assert track(uri, tmp_path) == {"uri": uri, "sent": {}, "pending": [], "fault": None}
    tags = open_experiment(uri, "mnist_sums").experiment.tags
    assert "sum of the digits" in tags["mlflow.note.content"]
    assert tags["mlflow.experimentKind"] == "custom_model_development"
    assert {"mlflow.sharedViewState.results", "mlflow.sharedViewState.curves"} <= tags.keys()


def test_an_unreachable_server_costs_no_result(tmp_path, caplog, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    run = write_run(tmp_path)
    assert track("http://127.0.0.1:9", tmp_path, [run])["pending"] == [str(run)]
    assert "cannot send to http://127.0.0.1:9" in caplog.text
    assert "make track" in caplog.text


def test_a_new_result_leaves_the_runs_of_others_alone(uri, tmp_path, monkeypatch):
    (table := tmp_path / "accuracy.md").write_text("one")
    for user in ("alice", "bob"):
        monkeypatch.setenv("LOGNAME", user)
        track(uri, tmp_path, [write_run(tmp_path, training=user)], [table])
    client = MlflowClient(uri)
    for experiment in ("mnist_sums", SHOWN):
        runs = client.search_runs([client.get_experiment_by_name(experiment).experiment_id])
        assert sorted(run.data.tags["mlflow.user"] for run in runs) == ["alice", "bob"]
        assert not any(run.info.run_name.startswith("superseded") for run in runs)


def test_tables_figures_and_report_have_an_experiment_of_their_own(uri, tmp_path):
    files = [tmp_path / name for name in ("tables/accuracy.md", "claims/claims.csv", "report.html")]
    for file in files:
        file.parent.mkdir(exist_ok=True)
    for content in ("one", "two"):
        for file in files:
            file.write_text(content)
        track(uri, tmp_path, shown=files[:1])
        track_report("demo", uri, files[1:], tmp_path / "report.json")
    assert read_json(tmp_path / "report.json") == {"uri": uri, "fault": None}
    shown, client = runs_in(uri, SHOWN), MlflowClient(uri)
    assert sorted(shown) == ["mnist_sums (demo)", "report (demo)"]
    for name, file in (("mnist_sums (demo)", "tables/accuracy.md"), ("report (demo)", "claims/claims.csv")):
        back = client.download_artifacts(shown[name].info.run_id, file, str(tmp_path))
        assert Path(back).read_text(encoding="utf-8") == "two"
    page = client.download_artifacts(shown["report (demo)"].info.run_id, "report.html", str(tmp_path))
    assert Path(page).read_text(encoding="utf-8") == "two"
    assert runs_in(uri) == {}
    assert "two" in open_experiment(uri, "mnist_sums").experiment.tags["mlflow.note.content"]


def measured(value, low, high):
    """Return the measures of IV-N3, as they are when its runs were measured."""
    facts = dict.fromkeys(("seed_sd", "draw_sd"), 0.0) | {
        "method": "",
        "seeds": 2,
        "items": 9,
        "answers": 9,
        "doubt": "",
    }
    names = {"experiment": "mnist_sums", "variant": "IV-N3", "measure": "validation_accuracy", "unit": "%"}
    return Measures([Number(value=value, low=low, high=high, spread=0.1, **facts, **names)])


CONDITION = {"claim": "M2", "experiment": "mnist_sums", "measure": "validation_accuracy", "less": ""}
CONDITION |= {"variant": "IV-N3", "expected": json.dumps({"kind": "paper-value", "value": 0.8})}
CLAIM = {"claim": "M2", "paper": "> 80 %", "verdict": "too short", "reason": "scale"}


def evaluated(folder):
    predictions = {"split": ["train", "validation", "validation"], "label": [1, 2, 3], "predicted": [1, 2, 4]}
    pd.DataFrame(predictions | {"probability": 0.5}).to_parquet(folder / "predictions.parquet")
    return folder


def send_found(uri, runs):
    """Send runs of which everything is known, as `track_runs` does."""
    roles = {"IV-N3": Role(title="set layer", claim="M2")}
    findings = Findings(measured(0.5, 0.4, 0.6), [CLAIM], [CONDITION], roles)
    tracker = open_experiment(uri, "mnist_sums")
    opened = [send.send_run(tracker, Run(run), findings, "demo", len(runs) == 1, "") for run in runs]
    if len(runs) > 1:
        send.send_summary(tracker, [Run(run) for run in runs], opened, findings, "demo")


def test_a_run_has_its_results_the_papers_and_the_verdicts(uri, tmp_path):
    folder = evaluated(write_run(tmp_path))
    track(uri, tmp_path, [folder])
    send_found(uri, [folder])
    data = runs_in(uri)["IV-N3/seed0 (demo)"].data
    expected = {"": 0.5, "_low95": 0.4, "_high95": 0.6, "_paper": 0.8}
    assert {end: data.metrics[f"result/validation_accuracy{end}"] for end in expected} == expected
    assert data.tags["claim.M2"] == "too short (scale)"
    assert data.tags["equiset.verdicts"] == "M2 too short"
    assert data.tags["equiset.paper"] == "> 80 %"
    assert data.tags["equiset.title"] == "set layer"
    # Whoever knows less takes nothing away.
    track(uri, tmp_path, [folder])
    assert runs_in(uri)["IV-N3/seed0 (demo)"].data.tags["claim.M2"] == "too short (scale)"


def test_the_seeds_of_a_variant_are_nested_in_a_run_with_their_mean(uri, tmp_path):
    send_found(uri, [evaluated(write_run(tmp_path, seed=seed)) for seed in (0, 1)])
    runs = runs_in(uri)
    summary = runs.pop("IV-N3/all seeds (demo)")
    assert sorted(runs) == ["IV-N3/seed0 (demo)", "IV-N3/seed1 (demo)"]
    assert summary.info.status == "FINISHED"
    assert summary.data.metrics["result/validation_accuracy_low95"] == 0.4
    assert summary.data.metrics["result/validation_accuracy_paper"] == 0.8
    assert summary.data.tags["equiset.verdicts"] == "M2 too short"
    for run in runs.values():
        assert run.data.tags["mlflow.parentRunId"] == summary.info.run_id
        assert "result/validation_accuracy_low95" not in run.data.metrics, "the interval is of all seeds"


@pytest.fixture
def trained(tmp_path):
    """A run with weights, and its network."""
    settings = resolve(read_config(CONFIG), "smoke").experiment("mnist_sums").variants["IV-N3"]
    torch.manual_seed(172)  # weights with no output below .02, where rounding would show in a relative difference
    network = SumNet(settings, 3).eval()
    folder = evaluated(write_run(tmp_path, members=3))
    info = read_json(folder / "run.json")
    save_weights(network, weights := folder / "weights.safetensors")
    spec = info["spec"] | {"device": "cpu", "settings": settings.model_dump(mode="json")}
    more = {"spec": spec, "versions": {"torch": torch.__version__}, "weights_sha256": digest(weights)}
    write_json(folder / "run.json", info | more)
    return folder, network


def test_a_network_is_registered_and_loaded_again_with_any_set_size(uri, tmp_path, trained):
    folder, network = trained
    track(uri, tmp_path, [folder])
    mlflow.set_tracking_uri(uri)
    loaded = mlflow.pyfunc.load_model("models:/mnist_sums-IV-N3/1")
    for members in (3, 5):
        images = np.random.default_rng(0).random((2, members, 28, 28), np.float32)
        with torch.no_grad():
            expected = network(torch.from_numpy(images)).numpy()
        np.testing.assert_allclose(loaded.predict(images), expected, rtol=1e-5)


def test_the_page_of_a_network_has_the_results_and_a_published_one_its_alias(uri, tmp_path, trained):
    for scale in ("demo", REFERENCE, REFERENCE):
        track(uri, tmp_path, [trained[0]], scale=scale)
    client = MlflowClient(uri)
    versions = {version.tags["equiset.scale"]: version for version in client.search_model_versions()}
    assert len(client.search_model_versions()) == 2, "sent twice, it is registered once"
    assert client.get_model_version_by_alias("mnist_sums-IV-N3", "published").version == versions[REFERENCE].version
    (model,) = runs_in(uri)["IV-N3/seed0 (demo)"].outputs.model_outputs
    found = {metric.key: metric.value for metric in client.get_logged_model(model.model_id).metrics}
    assert found["result/validation_accuracy"] == 0.5
    # A number that is measured later reaches the model as well.
    send_found(uri, [trained[0]])
    found = {metric.key: metric.value for metric in client.get_logged_model(model.model_id).metrics}
    assert found["result/validation_accuracy_low95"] == 0.4


# The store


@pytest.mark.parametrize("user", ["me:secret@", "me@"])
def test_a_server_with_a_password_in_its_address_is_refused(monkeypatch, user):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"https://{user}mlflow.example.org")
    with pytest.raises(EquisetError, match="MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD") as caught:
        store_uri(None)
    assert "secret" not in str(caught.value)


def test_a_database_may_have_a_password_in_the_environment(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri := "postgresql://me:secret@database.example.org/mlflow")
    assert store_uri(None) == uri


SEND = """
import sys
from pathlib import Path
from equiset.tracking import store_uri
from tests.tracked_runs import track
track(store_uri(None), Path(sys.argv[1]), [Path(sys.argv[2])], [Path(sys.argv[3])])
"""
PREDICT = """
import mlflow, numpy
mlflow.set_tracking_uri("sqlite:///results/mlflow.db")
print(mlflow.pyfunc.load_model("models:/mnist_sums-IV-N3/1").predict(numpy.zeros((1, 3, 28, 28), "float32")).shape)
"""


def python(folder, program, *arguments):
    """Run a program in a folder, and return what it prints."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(CONFIG.parent), *sys.path])}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_copied_project_keeps_its_artifacts_to_itself(tmp_path, trained):
    """MLflow alone would write them into the original, by an absolute path in its database."""
    original, copied, sent = tmp_path / "original", tmp_path / "copied", tmp_path / "sent"
    original.mkdir()
    sent.mkdir()
    (table := tmp_path / "accuracy.md").write_text("new")
    python(original, SEND, sent, trained[0], table)
    shutil.copytree(original, copied)
    before = {path: path.read_bytes() for path in original.rglob("*") if path.is_file()}
    python(copied, SEND, sent, write_run(tmp_path / "other", training="another"), table)
    assert {path: path.read_bytes() for path in original.rglob("*") if path.is_file()} == before
    assert len(list(original.rglob("artifacts/run.json"))) == 1
    assert len(list(copied.rglob("artifacts/run.json"))) == 2
    shutil.rmtree(original)
    assert "(1, 28)" in python(copied, PREDICT)
