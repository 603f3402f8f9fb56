"""A training is seen in MLflow while it runs, and goes on without it."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from mlflow import MlflowClient

from equiset.experiments import EXPERIMENTS
from equiset.files import read_json
from equiset.tracking import create_database, store_uri
from equiset.tracking.live import live
from equiset.tracking.tracker import SHOWN
from equiset.training.loop import Progress

from ..tracked_runs import history, runs_in, track, watched, write_run

CONFIG = Path(__file__).parents[2] / "config.yaml"
pytestmark = pytest.mark.usefixtures("no_server")


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


WATCH = """
import sys
from pathlib import Path
from equiset.tracking import live
from tests.tracked_runs import watched, write_run
live.AFTER_S = 0
watched(sys.argv[1], write_run(Path(sys.argv[2]), seed=int(sys.argv[3])), 20)
"""


def test_trainings_at_once_on_a_new_database(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(CONFIG.parent), *sys.path]))
    create_database(None)
    uri, before = store_uri(None), Path("results/mlflow.db").read_bytes()
    assert {experiment.name for experiment in MlflowClient(uri).search_experiments()} >= {*EXPERIMENTS, SHOWN}
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "run", None)
        create_database(None)  # which is there
    assert Path("results/mlflow.db").read_bytes() == before
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


def test_a_database_that_cannot_be_created_is_a_warning(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    Path("results").write_text("a file where a folder should be", encoding="utf-8")
    create_database(None)
    assert caplog.text.count("MLflow cannot create results/mlflow.db") == 1
