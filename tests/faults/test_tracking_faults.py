"""MLflow away, broken, crowded: the results are files and stay whole, and what was not sent is sent later.

A server that is never there is held by tests/unit/test_tracking.py.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request

import pytest

from equiset.files import read_json
from equiset.tracking import send as sending
from equiset.tracking.tracker import open_experiment, open_store
from tests.faults.sending import command, send
from tests.tracked_runs import write_run
from tests.workflow.conftest import ROOT

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
    again = command(uri, runs, tmp_path / "tracked.json")
    done = subprocess.run(again, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(read_json(tmp_path / "tracked.json")["sent"]) == 2
    assert {path: path.read_bytes() for path in before} == before


def after_the_first(monkeypatch, happens):
    """Let something happen after the first run was sent."""
    sent, whole = [], sending.send_run

    def send_run(*arguments):
        if len(sent) == 1:
            happens()
        sent.append(arguments)
        return whole(*arguments)

    monkeypatch.setattr(sending, "send_run", send_run)


def test_a_database_deleted_in_the_middle_costs_no_result(uri, tmp_path, monkeypatch):
    """The connection is open when its tables go away: what is left is pending, and the next time all is sent."""
    run, others = (write_run(tmp_path / variant, variant=variant) for variant in ("IV-N3", "IV-N6"))

    def drop_tables():
        with sqlite3.connect(tmp_path / "mlflow.db") as database:
            for (name,) in database.execute("select name from sqlite_master where type = 'table'").fetchall():
                database.execute("pragma foreign_keys = off")
                database.execute(f"drop table if exists '{name}'") if name != "sqlite_sequence" else None
        database.close()

    after_the_first(monkeypatch, drop_tables)
    send(uri, [run, others], tmp_path / "tracked.json")
    noted = read_json(tmp_path / "tracked.json")
    assert list(noted["sent"]) == [str(run)]
    assert noted["pending"] == [str(others)]
    assert noted["fault"]


def locked(path):
    database = sqlite3.connect(path)
    database.execute("begin exclusive")
    return database


DAMAGES = {
    "garbage": lambda path: path.write_bytes(b"no database" * 1000),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:20_000]),
    "overwritten": lambda path: path.write_bytes(path.read_bytes()[:8192] + b"\xff" * 100_000),
    "locked": locked,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_or_locked_database_stops_no_result(uri, tmp_path, caplog, damage):
    run, database = write_run(tmp_path, seed=0), tmp_path / "mlflow.db"
    held = DAMAGES[damage](database)
    started = time.monotonic()
    send(uri, [run], tmp_path / "tracked.json")
    assert time.monotonic() - started < 30
    noted = read_json(tmp_path / "tracked.json")
    assert noted["pending"] == [str(run)]
    assert "\n" not in noted["fault"]
    assert "The results are complete. Send them later: make track" in caplog.text
    if damage == "locked":
        held.close()


@pytest.mark.parametrize("address", ["http://[", "nonsense://there"])
def test_an_address_that_leads_nowhere_stops_no_result(tmp_path, caplog, address):
    run = write_run(tmp_path)
    send(address, [run], tmp_path / "tracked.json")
    noted = read_json(tmp_path / "tracked.json")
    assert noted["pending"] == [str(run)]
    assert noted["fault"].startswith(f"cannot send to {address}: ")
    assert "The results are complete. Send them later: make track" in caplog.text


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
    variants = ("I-N3", "II-N3", "III-N3")
    runs = [write_run(tmp_path / variant, variant=variant) for variant in variants]
    before = {path: path.read_bytes() for run in runs for path in run.iterdir()}
    server = serve(tmp_path, unused_port)
    tracker = open_experiment(address, "mnist_sums")
    with monkeypatch.context() as patched:
        after_the_first(patched, lambda: stop(server))
        send(address, runs, tmp_path / "tracked.json")
    noted = read_json(tmp_path / "tracked.json")
    assert (len(noted["sent"]), len(noted["pending"])) == (1, 2)
    server = serve(tmp_path, unused_port)
    try:
        send(address, runs, tmp_path / "tracked.json")
        noted = read_json(tmp_path / "tracked.json")
        assert noted["pending"] == []
        assert len(set(noted["sent"].values())) == 3
        known = tracker.client.search_runs([tracker.experiment.experiment_id], "attributes.status = 'FINISHED'")
        assert {run.info.run_name for run in known} == {f"{variant}/seed0 (demo)" for variant in variants}
    finally:
        stop(server)
    assert {path: path.read_bytes() for path in before} == before


@pytest.fixture
def unused_port():
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
