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
from equiset.experiments import EXPERIMENTS
from equiset.experiments.mnist_sums.networks import SumNet
from equiset.files import read_json, write_json
from equiset.results.measures import Measures, Number
from equiset.results.runs import Run
from equiset.tracking import create_database, database_file, send, store_uri
from equiset.tracking.live import live
from equiset.tracking.send import Findings, track_report, track_runs
from equiset.tracking.tracker import SHOWN, open_experiment, open_store
from equiset.training.loop import Progress, save_weights

CONFIG = Path(__file__).parents[2] / "config.yaml"


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory):
    """A database with its tables; making one takes seconds, copying it none."""
    path = tmp_path_factory.mktemp("mlflow") / "empty.db"
    open_store(f"sqlite:///{path}")
    return path


@pytest.fixture(autouse=True)
def no_server(monkeypatch):
    """Nothing is sent elsewhere. MLflow sets the variable, too, so that its child processes have it."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    mlflow.set_tracking_uri(None)


@pytest.fixture
def uri(empty_database, tmp_path):
    shutil.copy(empty_database, tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path / 'mlflow.db'}"


def write_run(folder, seed=0, accuracy=0.5, epochs=3, training="t0", variant="IV-N3", **sets):
    run = folder / variant / f"seed{seed}"
    run.mkdir(parents=True, exist_ok=True)
    write_json(
        run / "run.json",
        {
            "spec": {
                "experiment": "mnist_sums",
                "variant": variant,
                "seed": seed,
                "scale": "demo",
                "settings": {"model": "IV", "training": {"epochs": epochs, "optimizer": {"learning_rate": 0.1}}},
            },
            "spec_hash": "abc",
            "training": f"{training}-{seed}",
            "sets": {
                "dataset": "mnist",
                "source": "download",
                "kind": "whole",
                "share": 1.0,
                "data": "MNIST",
                "store_digest": "s" * 64,
                "digest": "d" * 64,
                **sets,
            },
            "parameters": 10,
            "threads": 1,
            "device": "cpu",
            "git_commit": "c0ffee",
            "started": "2026-01-01T00:00:00+00:00",
            "ended": "2026-01-01T01:00:00+00:00",
            "epoch_seconds": [1.0] * epochs,
            "accuracy": accuracy,
        },
    )
    rows = range(1, epochs + 1)
    pd.DataFrame({"epoch": rows, "validation_accuracy": [accuracy] * epochs}).to_parquet(run / "metrics.parquet")
    return run


def track(uri, folder, runs=(), shown=(), scale="demo"):
    """Send runs on which nothing was found, and return what is noted of it."""
    Measures([]).write(folder / "measures.parquet")
    for name in ("claims", "conditions"):
        (folder / f"{name}.csv").write_text("claim\n")
    found = {"measures": folder / "measures.parquet", "claims": folder, "roles": {}}
    output = folder / "tracked.json"
    mirror = "https://example.org/mnist/"
    track_runs("mnist_sums", scale, uri, list(runs), list(shown), **found, mirror=mirror, output=output)
    return read_json(output)


def runs_in(uri, experiment="mnist_sums"):
    """Return the runs of an experiment by their names."""
    client = MlflowClient(uri)
    found = client.search_runs([client.get_experiment_by_name(experiment).experiment_id])
    assert len(found) == len({run.info.run_name for run in found})
    return {run.info.run_name: run for run in found}


def history(uri, run, metric="epoch/validation_accuracy"):
    found = MlflowClient(uri).get_metric_history(run.info.run_id, metric)
    return sorted((one.step, one.value) for one in found)


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
CLAIM = {"claim": "M2", "paper": "> 80 %", "verdict": "not tested", "reason": "scale"}


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
    assert data.tags["claim.M2"] == "not tested (scale)"
    assert data.tags["equiset.verdicts"] == "M2 not tested"
    assert data.tags["equiset.paper"] == "> 80 %"
    assert data.tags["equiset.title"] == "set layer"
    # Whoever knows less takes nothing away.
    track(uri, tmp_path, [folder])
    assert runs_in(uri)["IV-N3/seed0 (demo)"].data.tags["claim.M2"] == "not tested (scale)"


def test_the_seeds_of_a_variant_are_nested_in_a_run_with_their_mean(uri, tmp_path):
    send_found(uri, [evaluated(write_run(tmp_path, seed=seed)) for seed in (0, 1)])
    runs = runs_in(uri)
    summary = runs.pop("IV-N3/all seeds (demo)")
    assert sorted(runs) == ["IV-N3/seed0 (demo)", "IV-N3/seed1 (demo)"]
    assert summary.info.status == "FINISHED"
    assert summary.data.metrics["result/validation_accuracy_low95"] == 0.4
    assert summary.data.metrics["result/validation_accuracy_paper"] == 0.8
    assert summary.data.tags["equiset.verdicts"] == "M2 not tested"
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
    spec = info["spec"] | {"device": "cpu", "settings": settings.model_dump(mode="json")}
    write_json(folder / "run.json", info | {"spec": spec, "versions": {"torch": torch.__version__}})
    save_weights(network, folder / "weights.safetensors")
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
from tests.unit.test_tracking import track
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


WATCH = """
import sys
from pathlib import Path
from equiset.tracking import live
from tests.unit.test_tracking import watched, write_run
live.AFTER_S = 0
watched(sys.argv[1], write_run(Path(sys.argv[2]), seed=int(sys.argv[3])), 20)
"""


def test_trainings_at_once_on_a_new_database(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(CONFIG.parent), *sys.path]))
    create_database(None)
    uri = store_uri(None)
    commands = [[sys.executable, "-c", WATCH, uri, str(tmp_path), str(seed)] for seed in range(3)]
    jobs = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    for job in jobs:
        _, printed = job.communicate(timeout=300)
        assert job.returncode == 0, printed
        assert "MLflow shows this training" not in printed
    runs = runs_in(uri)
    assert sorted(runs) == [f"IV-N3/seed{seed} (demo)" for seed in range(3)]
    for run in runs.values():
        assert run.info.status == "FINISHED"
        assert len(history(uri, run)) == 20


def test_a_new_database_has_every_experiment_and_is_created_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    create_database(None)
    names = {experiment.name for experiment in MlflowClient(store_uri(None)).search_experiments()}
    assert names >= {*EXPERIMENTS, SHOWN}
    before = Path("results/mlflow.db").read_bytes()
    monkeypatch.setattr(subprocess, "run", None)
    create_database(None)
    assert Path("results/mlflow.db").read_bytes() == before


def test_a_database_that_cannot_be_created_is_a_warning(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    Path("results").write_text("a file where a folder should be", encoding="utf-8")
    create_database(None)
    assert caplog.text.count("MLflow cannot create results/mlflow.db") == 1


# While a training runs


def watched(uri, folder, epochs, error=None, known=0):
    """Let a training go from some epochs to others, and then fail if there is an error."""
    info = read_json(folder / "run.json")
    with live(uri) as watch:
        listener = watch(info)
        for done in range(known, epochs + 1):
            rows = [{"epoch": epoch, "validation_accuracy": epoch / 10} for epoch in range(1, done + 1)]
            listener(Progress(done, rows, [1.0] * done))
        if error:
            raise error


def test_a_short_training_is_left_to_the_end(uri, tmp_path):
    watched(uri, write_run(tmp_path, epochs=3), 3)
    assert runs_in(uri) == {}


def test_a_training_logs_one_batch_an_epoch(uri, tmp_path, monkeypatch):
    monkeypatch.setattr("equiset.tracking.live.AFTER_S", 0)
    batches, log_batch = [], MlflowClient.log_batch

    def count(self, run_id, metrics=(), *more, **others):
        batches.extend([len(metrics)] if metrics else [])
        return log_batch(self, run_id, metrics, *more, **others)

    monkeypatch.setattr(MlflowClient, "log_batch", count)
    watched(uri, write_run(tmp_path, epochs=4), 4)
    assert batches == [1, 1, 1, 1]


def test_a_training_is_seen_while_it_runs_fails_and_goes_on(uri, tmp_path, monkeypatch):
    monkeypatch.setattr("equiset.tracking.live.AFTER_S", 0)
    folder = write_run(tmp_path, epochs=3)
    with pytest.raises(ValueError, match="no more"):
        watched(uri, folder, 2, ValueError("no more"))
    (run,) = runs_in(uri).values()
    assert run.info.status == "FAILED"
    assert run.data.tags["equiset.failure"] == "ValueError: no more"
    assert history(uri, run) == [(1, 0.1), (2, 0.2)]
    first = run.info.run_id

    class KilledError(BaseException):
        """Like a signal: no handler sets the status."""

    with pytest.raises(KilledError):
        watched(uri, folder, 2, KilledError(), known=2)
    (run,) = runs_in(uri).values()
    assert (run.info.run_id, run.info.status) == (first, "RUNNING")
    assert "equiset.failure" not in run.data.tags, "it goes on"
    watched(uri, folder, 3, known=2)
    (run,) = runs_in(uri).values()
    assert (run.info.run_id, run.info.status) == (first, "FINISHED")
    assert history(uri, run) == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert track(uri, tmp_path, [folder])["sent"] == {str(folder): first}


def test_a_killed_training_whose_settings_were_changed_runs_no_more(uri, tmp_path, monkeypatch):
    monkeypatch.setattr("equiset.tracking.live.AFTER_S", 0)
    with pytest.raises(KeyboardInterrupt):
        watched(uri, write_run(tmp_path), 2, KeyboardInterrupt())
    assert runs_in(uri)["IV-N3/seed0 (demo)"].info.status == "RUNNING"
    watched(uri, write_run(tmp_path, training="other"), 2)
    status = {name: run.info.status for name, run in runs_in(uri).items()}
    assert status == {"superseded: IV-N3/seed0 (demo)": "KILLED", "IV-N3/seed0 (demo)": "FINISHED"}


def test_a_training_that_failed_and_then_ended_soon_has_no_failure_left(uri, tmp_path):
    folder = write_run(tmp_path)
    with pytest.raises(ValueError, match="no more"):
        watched(uri, folder, 2, ValueError("no more"))
    assert runs_in(uri)["IV-N3/seed0 (demo)"].data.tags["equiset.failure"] == "ValueError: no more"
    watched(uri, folder, 3)
    track(uri, tmp_path, [folder])
    run = runs_in(uri)["IV-N3/seed0 (demo)"]
    assert run.info.status == "FINISHED"
    assert "equiset.failure" not in run.data.tags


def test_a_server_that_is_away_costs_a_training_one_warning(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("equiset.tracking.live.AFTER_S", 0)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    watched("http://127.0.0.1:9", write_run(tmp_path), 3)
    assert caplog.text.count("MLflow shows this training when all is done") == 1


def test_a_database_that_goes_away_costs_a_training_one_warning(uri, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("equiset.tracking.live.AFTER_S", 0)
    info = read_json(write_run(tmp_path) / "run.json")
    with live(uri) as watch:
        listener = watch(info)
        for epoch in range(1, 6):
            if epoch == 3:
                with sqlite3.connect(tmp_path / "mlflow.db") as database:
                    database.execute("drop table metrics")
            rows = [{"epoch": one, "validation_accuracy": 0.5} for one in range(1, epoch + 1)]
            listener(Progress(epoch, rows, [1.0] * epoch))
    assert caplog.text.count("MLflow shows this training when all is done") == 1
