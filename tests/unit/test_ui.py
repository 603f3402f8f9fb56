"""`make ui`: pages of this machine for a database, an address for a server."""

import contextlib
import shutil
import signal
import socket
import subprocess
import webbrowser
from pathlib import Path

import pytest

from equiset.errors import EquisetError
from equiset.tracking import tracker as tracking
from equiset.tracking import ui

CONFIG = Path(__file__).parents[2] / "config.yaml"


class Commands(list):
    """Those of processes and of the browser; the environments of the processes; the experiments that have runs."""


@pytest.fixture
def started(monkeypatch, tmp_path):
    """The commands that would have been started. The server answers at once, and has one experiment with runs."""
    commands, environments = Commands(), []
    commands.environments = environments
    monkeypatch.setattr(socket.socket, "bind", lambda *_: None)

    class Process(contextlib.nullcontext):
        def __init__(self, command, **options):
            super().__init__(self)
            commands.append(command)
            environments.append(options.get("env"))

        def wait(self):
            pass

        def terminate(self):
            pass

    monkeypatch.setattr(subprocess, "Popen", Process)
    monkeypatch.setattr(ui, "wait_for", lambda address, server: address)
    found = {"mnist_sums": "/#/experiments/7/runs"}
    monkeypatch.setattr(
        tracking, "runs_addresses", lambda uri, server: {name: server + path for name, path in found.items()}
    )
    commands.found = found
    monkeypatch.setattr(webbrowser, "open", lambda address: commands.append(["browser", address]))
    monkeypatch.setattr(signal, "signal", lambda *handler: None)
    shutil.copy(CONFIG, tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "mlflow.db").touch()
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_TRACKING_URI", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    return commands


def test_a_database_is_shown_on_this_machine(started, capsys):
    ui.main(["--port", "5011"])
    (server,) = started
    assert server[1:8] == ["-m", "mlflow", "server", "--host", "127.0.0.1", "--port", "5011"]
    assert started.environments[0]["MLFLOW_BACKEND_STORE_URI"] == "sqlite:///results/mlflow.db"
    assert "http://127.0.0.1:5011/#/experiments/7/runs" in capsys.readouterr().out


def test_where_there_is_a_screen_the_page_opens(started, monkeypatch):
    monkeypatch.setenv("DISPLAY", ":0")
    ui.main([])
    assert started[-1] == ["browser", "http://127.0.0.1:5000/#/experiments?workflowType=machine_learning"]


def test_the_password_of_a_database_is_on_no_command_line(started, capsys, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri := "postgresql://me:secret@database.example.org/mlflow")
    ui.main([])
    assert "secret" not in str(started[0]) + capsys.readouterr().out
    assert started.environments[0]["MLFLOW_BACKEND_STORE_URI"] == uri


def test_without_a_database_there_are_no_runs_and_one_line_says_so(started):
    Path("results/mlflow.db").unlink()
    with pytest.raises(EquisetError, match=r"there are no runs yet: .*snakemake --cores all"):
        ui.main([])
    assert not started


def test_without_runs_the_pages_wait_for_them(started, capsys):
    started.found.clear()
    ui.main([])
    assert "No runs yet; they will appear here:" in capsys.readouterr().out


def test_a_port_in_use_is_not_taken_for_ours():
    """A server of somebody else would answer there."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(EquisetError, match=f"port {port} is in use by another program.*make ui PORT="):
            ui.start_pages("sqlite:///results/mlflow.db", port)


def test_a_server_is_only_named(started, capsys, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://mlflow.example.org")
    ui.main([])
    assert "https://mlflow.example.org" in capsys.readouterr().out
    assert not started


def test_the_config_comes_before_the_environment(started, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://elsewhere.example.org")
    (tmp_path / "config.yaml").write_text(CONFIG.read_text().replace("uri: null", "uri: http://127.0.0.1:5999"))
    ui.main([])
    assert "http://127.0.0.1:5999" in capsys.readouterr().out
    assert not started
