"""`make ui`: pages of this machine for a database, an address for a server."""

import contextlib
import signal
import subprocess
import webbrowser
from pathlib import Path

import pytest

from equiset.tracking import tracker as tracking
from equiset.tracking import ui

CONFIG = Path(__file__).parents[2] / "config.yaml"


@pytest.fixture
def started(monkeypatch):
    """The commands that would have been started. The server answers at once, and has one experiment."""
    commands = []

    class Process(contextlib.nullcontext):
        def __init__(self, command, **options):
            super().__init__(self)
            commands.append(command)

        def wait(self):
            pass

        def terminate(self):
            pass

    monkeypatch.setattr(subprocess, "Popen", Process)
    monkeypatch.setattr(ui, "wait_for", lambda address, server: address)
    monkeypatch.setattr(tracking, "addresses", lambda uri, shown: {"mnist_sums": f"{shown}/#/experiments/7/runs"})
    monkeypatch.setattr(webbrowser, "open", lambda address: commands.append(["browser", address]))
    monkeypatch.setattr(signal, "signal", lambda *handler: None)
    monkeypatch.chdir(CONFIG.parent)
    for name in ("MLFLOW_TRACKING_URI", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    return commands


def test_a_database_is_shown_on_this_machine(started, capsys):
    ui.main(["--port", "5011"])
    (server,) = started
    assert server[1:8] == ["-m", "mlflow", "server", "--host", "127.0.0.1", "--port", "5011"]
    assert server[-2:] == ["--backend-store-uri", "sqlite:///results/mlflow.db"]
    assert "http://127.0.0.1:5011/#/experiments/7/runs" in capsys.readouterr().out


def test_where_there_is_a_screen_the_page_opens(started, monkeypatch):
    monkeypatch.setenv("DISPLAY", ":0")
    ui.main([])
    assert started[-1] == ["browser", "http://127.0.0.1:5000/#/experiments?workflowType=machine_learning"]


def test_a_server_is_named_without_its_password(started, capsys, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://me:secret@mlflow.example.org")
    ui.main([])
    assert "secret" not in capsys.readouterr().out


def test_a_server_is_only_named(started, capsys, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://mlflow.example.org")
    ui.main([])
    assert "https://mlflow.example.org" in capsys.readouterr().out
    assert not started


def test_the_config_comes_before_the_environment(started, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://elsewhere.example.org")
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.read_text().replace("uri: null", "uri: http://127.0.0.1:5999"))
    monkeypatch.chdir(tmp_path)
    ui.main([])
    assert "http://127.0.0.1:5999" in capsys.readouterr().out
    assert not started
