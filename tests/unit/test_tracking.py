"""MLflow shows what the files say, once, and never stands in the way."""

import json
import shlex
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import BAD_REQUEST

from equiset.files import read_json, write_json
from equiset.results.runs import Run
from equiset.stages import track
from equiset.tracking import open_experiment, open_store


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory):
    """A database with its tables; making one takes seconds, copying it none."""
    path = tmp_path_factory.mktemp("mlflow") / "empty.db"
    open_store(f"sqlite:///{path}")
    return path


@pytest.fixture
def uri(empty_database, tmp_path):
    shutil.copy(empty_database, tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path / 'mlflow.db'}"


def write_run(folder, seed=0, accuracy=0.5, epochs=3, training=None, **sets):
    run = folder / "IV-N3" / f"seed{seed}"
    run.mkdir(parents=True, exist_ok=True)
    write_json(
        run / "run.json",
        {
            "spec": {
                "experiment": "mnist_sums",
                "variant": "IV-N3",
                "seed": seed,
                "scale": "demo",
                "settings": {"model": "IV", "training": {"epochs": epochs, "optimizer": {"learning_rate": 0.1}}},
            },
            "spec_hash": "abc",
            **({"training": training} if training else {}),
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


def test_a_run_arrives_whole(uri, tmp_path):
    tracker = open_experiment(uri, "mnist_sums")
    run_id = tracker.send_run(Run(write_run(tmp_path, epochs=1500)))
    run = tracker.client.get_run(run_id)
    assert run.info.run_name == "IV-N3/seed0"
    assert run.info.status == "FINISHED"
    assert run.data.params["training.optimizer.learning_rate"] == "0.1"
    assert run.data.tags["equiset.git_commit"] == "c0ffee"
    assert run.data.tags["equiset.spec_hash"] == "abc"
    assert run.data.tags["equiset.data_kind"] == "whole"
    assert run.data.tags["equiset.data_share"] == "1.0000"
    assert run.inputs.dataset_inputs[0].dataset.digest == "d" * 36
    history = tracker.client.get_metric_history(run_id, "validation_accuracy")
    assert sorted(metric.step for metric in history) == list(range(1, 1501))
    assert [file.path for file in tracker.client.list_artifacts(run_id)] == ["run.json"]


def test_sending_twice_changes_nothing_and_a_new_result_supersedes_the_old(uri, tmp_path):
    tracker = open_experiment(uri, "mnist_sums")
    first = tracker.send_run(Run(write_run(tmp_path)))
    assert tracker.send_run(Run(write_run(tmp_path))) == first
    second = tracker.send_run(Run(write_run(tmp_path, accuracy=0.6)))
    assert second != first
    assert tracker.client.get_run(first).data.tags["equiset.superseded_by"] == second
    assert "equiset.superseded_by" not in tracker.client.get_run(second).data.tags
    names = {run_id: tracker.client.get_run(run_id).info.run_name for run_id in (first, second)}
    assert names == {first: "superseded: IV-N3/seed0", second: "IV-N3/seed0"}
    assert (
        tracker.client.get_run(first).data.tags["mlflow.note.content"].startswith(f"**Superseded** by run `{second}`")
    )
    # The first result, when it comes back, is a run of its own: the superseded one stays what it is.
    assert tracker.send_run(Run(write_run(tmp_path))) not in (first, second)


def test_a_run_says_what_it_was_made_of_and_how_to_repeat_it(uri, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = Run(write_run(Path("results/demo/mnist_sums/runs")))
    tracker = open_experiment(uri, "mnist_sums")
    note = tracker.client.get_run(tracker.send_run(run)).data.tags["mlflow.note.content"]
    assert "**the paper's data, whole: MNIST.**" in note
    assert "s" * 64 in note
    assert "d" * 64 in note
    assert "git checkout c0ffee" in note
    assert "snakemake --cores all --force -- results/demo/mnist_sums/runs/IV-N3/seed0/run.json" in note
    command = next(line for line in note.splitlines() if line.startswith("python -m equiset.stages.train"))
    words = shlex.split(command)
    assert json.loads(words[words.index("--spec") + 1]) == run.info["spec"]
    assert words[words.index("--store") + 1] == "results/demo/data/mnist/store"


def test_every_kind_of_data_is_named_in_tags_and_note(uri, tmp_path):
    tracker = open_experiment(uri, "mnist_sums")
    kinds = {
        "whole": (1.0, "**the paper's data, whole: MNIST.**"),
        "part": (0.25, "**the paper's data, in PART: MNIST.** The other items are absent"),
        "own": (0.0, "**OWN data, not the paper's: MNIST.** These numbers are not comparable"),
        "stand-in": (0.0, "**STAND-IN data: MNIST.** These numbers show that the code works."),
    }
    for seed, (kind, (share, words)) in enumerate(kinds.items()):
        run = Run(write_run(tmp_path, seed=seed, kind=kind, share=share))
        tags = tracker.client.get_run(tracker.send_run(run)).data.tags
        assert (tags["equiset.data_kind"], float(tags["equiset.data_share"])) == (kind, share)
        assert words in tags["mlflow.note.content"]


def test_an_experiment_says_what_it_is(uri, tmp_path):
    track.main(["--uri", uri, "--experiment", "mnist_sums", "--scale", "demo"])
    tags = open_experiment(uri, "mnist_sums").experiment.tags
    assert "sum of the digits" in tags["mlflow.note.content"]
    assert tags["mlflow.experimentKind"] == "custom_model_development"


def test_a_run_that_was_sent_without_a_description_gets_one(uri, tmp_path):
    tracker = open_experiment(uri, "mnist_sums")
    run = Run(write_run(tmp_path))
    sent = tracker.send_run(run)
    tracker.client.set_tag(sent, "mlflow.note.content", "")
    assert tracker.send_run(run) == sent
    assert "the paper's data, whole: MNIST" in tracker.client.get_run(sent).data.tags["mlflow.note.content"]


def test_a_new_result_leaves_the_runs_of_others_alone(uri, tmp_path, monkeypatch):
    tracker = open_experiment(uri, "mnist_sums")
    table = tmp_path / "accuracy.md"
    for user in ("alice", "bob"):
        monkeypatch.setenv("LOGNAME", user)
        table.write_text(user)
        tracker.send_run(Run(write_run(tmp_path, accuracy=len(user) / 10)))
        tracker.send_shown([table], "demo")
    runs = tracker.client.search_runs([tracker.experiment.experiment_id])
    assert sorted(run.data.tags["mlflow.user"] for run in runs) == ["alice", "alice", "bob", "bob"]
    assert not any("equiset.superseded_by" in run.data.tags for run in runs)


def test_equal_runs_of_two_senders_at_once_become_one(uri, tmp_path, monkeypatch):
    """The second sender looks before the first has sent anything, and ends last."""
    tracker = open_experiment(uri, "mnist_sums")
    run = Run(write_run(tmp_path))
    first = tracker.send_run(run)
    search, answers = tracker._runs_named, [[]]
    monkeypatch.setattr(tracker, "_runs_named", lambda *query: answers.pop() if answers else search(*query))
    kept = tracker.send_run(run)
    (left,) = search("IV-N3/seed0", "demo")
    assert left.info.run_id == kept <= first


def test_an_experiment_that_another_sender_created_meanwhile_is_used(uri, monkeypatch):
    first = open_experiment(uri, "mnist_sums").experiment.experiment_id
    find, answers = MlflowClient.get_experiment_by_name, [None]
    monkeypatch.setattr(
        MlflowClient, "get_experiment_by_name", lambda *query: answers.pop() if answers else find(*query)
    )
    assert open_experiment(uri, "mnist_sums").experiment.experiment_id == first


def test_tables_and_figures_are_artifacts(uri, tmp_path):
    tracker = open_experiment(uri, "mnist_sums")
    table = tmp_path / "tables" / "accuracy.md"
    table.parent.mkdir()
    table.write_text("one")
    first = tracker.send_shown([table], "demo")
    assert tracker.send_shown([table], "demo") == first
    table.write_text("two")
    second = tracker.send_shown([table], "demo")
    assert second != first
    assert [file.path for file in tracker.client.list_artifacts(second, "tables")] == ["tables/accuracy.md"]


def test_an_unreachable_server_costs_no_result(tmp_path, caplog, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    run = write_run(tmp_path)
    arguments = ["--experiment", "mnist_sums", "--scale", "demo", "--runs", str(run)]
    output = tmp_path / "tracked.json"
    track.main(["--uri", "http://127.0.0.1:9", *arguments, "--output", str(output)])
    assert read_json(output)["pending"] == [str(run)]
    assert "cannot reach http://127.0.0.1:9" in caplog.text
    assert "make track" in caplog.text


def test_runs_are_sent_later(uri, tmp_path):
    run = write_run(tmp_path)
    output = tmp_path / "tracked.json"
    arguments = ["--experiment", "mnist_sums", "--scale", "demo", "--runs", str(run), "--output", str(output)]
    track.main(["--uri", uri, *arguments])
    assert read_json(output)["pending"] == []
    assert list(read_json(output)["sent"]) == [str(run)]


def test_two_jobs_in_parallel_do_not_break_the_database(uri, tmp_path):
    """Two processes send to two experiments of one database at once."""
    jobs = []
    for name in ("first", "second"):
        runs = [str(write_run(tmp_path / name, seed=seed, epochs=50)) for seed in range(3)]
        command = [sys.executable, "-m", "equiset.stages.track", "--uri", uri, "--experiment", name, "--scale", "demo"]
        command += ["--runs", *runs, "--output", str(tmp_path / f"{name}.json")]
        jobs.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
    for job in jobs:
        assert job.wait(120) == 0, job.stderr.read()
        job.stderr.close()
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        assert database.execute("select count(*) from runs where status = 'FINISHED'").fetchone() == (8,)
        assert database.execute("select count(*) from metrics").fetchone() == (300,)
    database.close()


def test_data_that_another_sender_enters_at_the_same_moment_do_not_stop_a_run(uri, tmp_path, monkeypatch):
    """MLflow looks the data up and then inserts them; here the other sender comes between the two."""
    tracker = open_experiment(uri, "mnist_sums")
    enter, refused = tracker.client.log_inputs, []

    def slower(run_id, data):
        enter(run_id, data)
        if not refused:
            refused.append(run_id)
            raise MlflowException("UNIQUE constraint failed", BAD_REQUEST)

    monkeypatch.setattr(tracker.client, "log_inputs", slower)
    run_id = tracker.send_run(Run(write_run(tmp_path)))
    run = tracker.client.get_run(run_id)
    assert refused == [run_id]
    assert run.info.status == "FINISHED"
    assert [one.dataset.name for one in run.inputs.dataset_inputs] == ["mnist"]
