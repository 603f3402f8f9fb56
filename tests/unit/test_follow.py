"""A training is seen in MLflow while it runs, and is there what it truly is: running, finished, failed or killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from mlflow import MlflowClient

from equiset.files import read_json
from equiset.progress import telling
from equiset.stages import follow
from equiset.stages.follow import Follower

from .test_tracking import empty_database, uri, write_run

__all__ = ["empty_database", "uri"]

TRAINING = """
import json, sys, time
from pathlib import Path
from equiset.progress import telling
with telling(Path(sys.argv[1]), json.loads(sys.argv[2])) as tell:
    tell([{"epoch": 1, "train_loss": 0.5}], [1.0])
    print("told", flush=True)
    time.sleep(60)
"""
ROWS = [{"epoch": epoch, "train_loss": 1 / epoch, "validation_accuracy": 0.5} for epoch in range(1, 6)]


@pytest.fixture
def about(tmp_path):
    """What a training says of itself, and the run that it would leave."""
    folder = write_run(tmp_path / "done" / "demo" / "mnist_sums" / "runs", epochs=5)
    info = read_json(folder / "run.json")
    return info | {"folder": str(tmp_path / "results/demo/mnist_sums/runs/IV-N3/seed0")}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results" / "demo" / "mnist_sums" / "checkpoints" / "t1.jsonl"


def seen(uri):
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("mnist_sums")
    runs = client.search_runs([experiment.experiment_id]) if experiment else []
    return [
        (run.info.run_id, run.info.status, len(client.get_metric_history(run.info.run_id, "train_loss")))
        for run in runs
    ]


def test_a_training_is_seen_while_it_runs_and_when_it_has_ended(uri, path, about, tmp_path):
    follower = Follower(uri, tmp_path / "results")
    assert follower.look(over=False) is False
    with telling(path, about) as tell:
        tell(ROWS[:2], [1.0, 1.0])
        assert follower.look(over=False) is True
        ((run, status, epochs),) = seen(uri)
        assert (status, epochs) == ("RUNNING", 2)
        tell(ROWS, [1.0] * 5)
        follower.look(over=False)
        assert seen(uri) == [(run, "RUNNING", 5)]
    follower.look(over=False)
    assert seen(uri) == [(run, "FINISHED", 5)]


def test_a_training_that_failed_says_why(uri, path, about, tmp_path):
    follower = Follower(uri, tmp_path / "results")
    with telling(path, about):
        follower.look(over=False)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + '{"end": "failed", "why": "training broke down in epoch 3"}\n')
    follower.look(over=False)
    ((run, status, _),) = seen(uri)
    assert status == "FAILED"
    assert "broke down in epoch 3" in MlflowClient(uri).get_run(run).data.tags["equiset.failure"]


def test_a_killed_training_says_so_and_is_the_same_run_when_it_goes_on(uri, path, about, tmp_path):
    follower = Follower(uri, tmp_path / "results")
    process = subprocess.Popen(
        [sys.executable, "-c", TRAINING, str(path), json.dumps(about)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "told\n"
    follower.look(over=False)
    ((run, status, _),) = seen(uri)
    assert status == "RUNNING"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    follower.look(over=False)
    assert seen(uri) == [(run, "KILLED", 1)]
    # It goes on under another workflow, whose follower knows nothing of the first.
    with telling(path, about | {"started": "2026-01-02T00:00:00+00:00"}) as tell:
        tell([{"epoch": 1, "train_loss": 0.5}, *ROWS[1:3]], [1.0] * 3)
        other = Follower(uri, tmp_path / "results")
        other.look(over=False)
        assert seen(uri) == [(run, "RUNNING", 3)]
    other.look(over=False)
    assert seen(uri) == [(run, "FINISHED", 3)]


def test_what_was_killed_together_with_its_follower_is_found_out_later(uri, path, about, tmp_path):
    with telling(path, about):
        Follower(uri, tmp_path / "results").look(over=False)
    path.write_text(path.read_text().splitlines(keepends=True)[0])  # no last word, and no lock
    Follower(uri, tmp_path / "results").look(over=False)
    assert [status for _, status, _ in seen(uri)] == ["KILLED"]


def test_what_ended_before_is_left_alone(uri, path, about, tmp_path):
    with telling(path, about):
        pass
    Follower(uri, tmp_path / "results").look(over=False)
    assert seen(uri) == []


def test_the_result_of_a_followed_training_arrives_in_the_same_run(uri, path, about, tmp_path):
    follower = Follower(uri, tmp_path / "results")
    with telling(path, about) as tell:
        tell(ROWS[:2], [1.0, 1.0])
        follower.look(over=False)
        ((run, _, _),) = seen(uri)
        write_run(tmp_path / "results" / "demo" / "mnist_sums" / "runs", epochs=5)
    follower.look(over=False)
    assert [(one, status) for one, status, _ in seen(uri)] == [(run, "FINISHED")]
    before = MlflowClient(uri).get_run(run)
    assert before.data.metrics["cost/training_seconds"] == 5
    # What was made of the network meanwhile comes at the end, also if the workflow failed elsewhere.
    predictions = {"split": ["train", "validation", "validation"], "label": [1, 2, 3], "predicted": [1, 2, 4]}
    pd.DataFrame(predictions | {"probability": 0.5}).to_parquet(
        tmp_path / "results/demo/mnist_sums/runs/IV-N3/seed0/predictions.parquet"
    )
    follower.look(over=True)
    after = MlflowClient(uri).get_run(run)
    assert after.data.metrics["result/validation_accuracy"] == 0.5
    assert after.info.end_time == before.info.end_time


def test_one_damaged_file_hides_no_other_training(uri, path, about, tmp_path):
    path.parent.mkdir(parents=True)
    path.with_name("a.jsonl").write_text("no JSON\n")
    with telling(path, about), pytest.raises(ValueError, match="Expecting value"):
        Follower(uri, tmp_path / "results").look(over=False)
    assert [status for _, status, _ in seen(uri)] == ["RUNNING"]


def test_the_process_ends_with_the_one_that_started_it(uri, path, about, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(follow.__file__).parents[2]))
    process = follow.start(uri, tmp_path / "results")
    with telling(path, about):
        deadline = time.monotonic() + 60
        while not seen(uri):
            assert time.monotonic() < deadline, (tmp_path / "results" / "mlflow-live.log").read_text()
            time.sleep(0.2)
    process.stdin.close()
    assert process.wait(60) == 0
    assert [status for _, status, _ in seen(uri)] == ["FINISHED"]


def test_a_server_that_is_away_is_said_and_asked_again(path, about, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    answers = iter([False, False, True])
    monkeypatch.setattr(follow, "_over", lambda pause: next(answers))
    with telling(path, about):
        follow.follow(Follower("http://me:secret@127.0.0.1:9", tmp_path / "results"))
    assert caplog.text.count("not everything was sent") == 3
    assert "secret" not in caplog.text
