"""MLflow away, broken, crowded: the results are files and stay whole, and what was not sent is sent later.

A server that is never there is held by tests/unit/test_tracking.py.
"""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request

import pytest

from equiset.experiments import EXPERIMENTS
from equiset.files import read_json
from equiset.results.runs import Run
from equiset.tracking import track
from equiset.tracking.tracker import open_experiment, open_store
from tests.faults.sending import command, send
from tests.unit.test_tracking import empty_database, uri, write_run
from tests.workflow.conftest import ROOT

__all__ = ["empty_database", "uri"]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src")}


@pytest.mark.slow_fault
def test_a_process_killed_while_it_makes_the_database_leaves_none(tmp_path, monkeypatch):
    """Half of MLflow's tables would be a database that nobody can open."""
    program = (
        "import os, sys; from sqlalchemy import Table, event\n"
        "made = []\n"
        "event.listen(Table, 'after_create', lambda *a, **k: (made.append(1), len(made) > 3 and os._exit(9)))\n"
        "from equiset.tracking.tracker import open_store; open_store(sys.argv[1])"
    )
    address = f"sqlite:///{tmp_path / 'mlflow.db'}"
    done = subprocess.run([sys.executable, "-c", program, address], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 9, done.stderr
    assert not (tmp_path / "mlflow.db").exists()
    assert open_store(address).search_experiments(max_results=1)


@pytest.mark.slow_fault
def test_a_database_deleted_between_two_runs_is_made_anew(uri, tmp_path):
    runs = [write_run(tmp_path, seed=seed) for seed in range(2)]
    before = {path: path.read_bytes() for run in runs for path in run.iterdir()}
    send(uri, runs, tmp_path / "tracked.json")
    (tmp_path / "mlflow.db").unlink()
    sending = command(uri, runs, tmp_path / "tracked.json")
    done = subprocess.run(sending, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(read_json(tmp_path / "tracked.json")["sent"]) == 2
    assert {path: path.read_bytes() for path in before} == before


def test_a_database_deleted_in_the_middle_costs_no_result(uri, tmp_path, monkeypatch):
    """The connection is open when the file goes away: what is left is pending, and the next time all is sent."""
    runs = [write_run(tmp_path, seed=seed) for seed in range(3)]
    sent = []
    whole = track.open_experiment("sqlite:///" + str(tmp_path / "mlflow.db"), "mnist_sums").__class__.send_run

    def delete_after_the_first(self, run, findings):
        if len(sent) == 1:
            with sqlite3.connect(tmp_path / "mlflow.db") as database:
                for (name,) in database.execute("select name from sqlite_master where type = 'table'").fetchall():
                    database.execute("pragma foreign_keys = off")
                    database.execute(f"drop table if exists '{name}'") if name != "sqlite_sequence" else None
            database.close()
        sent.append(run)
        return whole(self, run, findings)

    monkeypatch.setattr("equiset.tracking.tracker.Tracker.send_run", delete_after_the_first)
    send(uri, runs, tmp_path / "tracked.json")
    told = read_json(tmp_path / "tracked.json")
    assert len(told["sent"]) == 1
    assert told["pending"] == [str(run) for run in runs[1:]]
    assert told["fault"]


def locked(path):
    database = sqlite3.connect(path)
    database.execute("begin exclusive")
    return database


DAMAGES = {
    "garbage": lambda path: path.write_bytes(b"no database" * 1000),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:20_000]),
    "overwritten": lambda path: path.write_bytes(path.read_bytes()[:8192] + b"\xff" * 100_000),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "locked": locked,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_or_locked_database_stops_no_result(uri, tmp_path, monkeypatch, caplog, damage):
    monkeypatch.setattr("equiset.tracking.tracker._PATIENCE_S", 0.1)
    run, database = write_run(tmp_path, seed=0), tmp_path / "mlflow.db"
    held = DAMAGES[damage](database)
    started = time.monotonic()
    send(uri, [run], tmp_path / "tracked.json")
    assert time.monotonic() - started < 30, "MLflow's own patience is longer"
    told = read_json(tmp_path / "tracked.json")
    assert told["pending"] == [str(run)]
    assert "\n" not in told["fault"]
    assert f"Close what else uses {database}; if it is damaged, delete it" in caplog.text
    if damage == "locked":
        held.close()


@pytest.mark.parametrize("address", ["http://[", "https://me:secret@127.0.0.1:9/?token=secret", "nonsense://there"])
def test_an_address_that_leads_nowhere_stops_no_result_and_shows_no_password(tmp_path, monkeypatch, caplog, address):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    run = write_run(tmp_path)
    send(address, [run], tmp_path / "tracked.json")
    told = read_json(tmp_path / "tracked.json")
    assert told["pending"] == [str(run)]
    assert told["fault"].startswith(f"cannot reach {told['uri']}: ")
    assert "The results are complete. Send them later: make track" in caplog.text
    assert "secret" not in (tmp_path / "tracked.json").read_text() + caplog.text


def test_a_folder_whose_name_has_quotation_marks(tmp_path, monkeypatch, caplog, empty_database):
    """One kind works. With both, MLflow's own SQL fails, and what to do is said."""
    folder = tmp_path / "it's"
    folder.mkdir()
    monkeypatch.chdir(folder)
    shutil.copy(empty_database, "mlflow.db")
    arguments = ("sqlite:///mlflow.db", [write_run(folder)], tmp_path / "tracked.json")
    send(*arguments)
    assert read_json(tmp_path / "tracked.json")["pending"] == []
    monkeypatch.setattr(track, "open_experiment", lambda *_: 1 / 0)
    send(*arguments)
    assert "Rename the folder of the project" in caplog.text


def serve(folder, port):
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += [
        "--backend-store-uri",
        f"sqlite:///{folder}/server.db",
        "--artifacts-destination",
        str(folder / "files"),
    ]
    with (folder / "server.log").open("ab") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    deadline = time.monotonic() + 240
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                return server
        except OSError:
            assert server.poll() is None, (folder / "server.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.2)


def stop(server):
    os.killpg(server.pid, signal.SIGKILL)
    server.wait()


@pytest.mark.slow_fault
def test_a_server_that_goes_down_in_the_middle_and_comes_back(tmp_path, monkeypatch, unused_port):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    address = f"http://127.0.0.1:{unused_port}"
    runs = [write_run(tmp_path, seed=seed) for seed in range(3)]
    before = {path: path.read_bytes() for run in runs for path in run.iterdir()}
    server = serve(tmp_path, unused_port)
    tracker = open_experiment(address, "mnist_sums")
    whole = type(tracker).send_run
    sent = []

    def down_after_the_first(self, run, findings):
        if len(sent) == 1:
            stop(server)
        sent.append(run)
        return whole(self, run, findings)

    monkeypatch.setattr("equiset.tracking.tracker.Tracker.send_run", down_after_the_first)
    send(address, runs, tmp_path / "tracked.json")
    told = read_json(tmp_path / "tracked.json")
    assert (len(told["sent"]), len(told["pending"])) == (1, 2)
    monkeypatch.setattr("equiset.tracking.tracker.Tracker.send_run", whole)
    server = serve(tmp_path, unused_port)
    try:
        send(address, runs, tmp_path / "tracked.json")
        told = read_json(tmp_path / "tracked.json")
        assert told["pending"] == []
        assert len(set(told["sent"].values())) == 3
        known = tracker.client.search_runs([tracker.experiment.experiment_id], "attributes.status = 'FINISHED'")
        assert {run.info.run_name for run in known} >= {f"IV-N3/seed{seed}" for seed in range(3)}
    finally:
        stop(server)
    assert {path: path.read_bytes() for path in before} == before


@pytest.fixture
def unused_port():
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.mark.slow_fault
def test_eight_jobs_at_once_on_a_new_database(tmp_path):
    """None of them finds the tables there: one makes them, the others wait."""
    address = f"sqlite:///{tmp_path / 'mlflow.db'}"
    jobs = []
    for number in range(8):
        runs = [write_run(tmp_path / str(number), seed=seed, epochs=50) for seed in range(2)]
        sending = command(address, runs, tmp_path / f"{number}.json", list(EXPERIMENTS)[number % 4])
        jobs.append(subprocess.Popen(sending, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT))
    for job in jobs:
        assert job.wait(600) == 0, job.stderr.read()
        job.stderr.close()
    for number in range(8):
        assert read_json(tmp_path / f"{number}.json")["pending"] == []
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        # Of two jobs that send the same runs, one finds them there.
        assert database.execute("select count(*) from runs where status = 'FINISHED'").fetchone() == (8,)
        assert database.execute("select count(*) from metrics where key = 'validation_accuracy'").fetchone() == (400,)
    database.close()
    assert Run(runs[0]).metrics["epoch"].max() == 50
