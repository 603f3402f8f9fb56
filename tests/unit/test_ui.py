"""`make ui`: pages of this machine for a database, an address for a server."""

import os
from pathlib import Path

import pytest

from equiset import ui

CONFIG = Path(__file__).parents[2] / "config.yaml"


@pytest.fixture
def started(monkeypatch):
    """The commands that would have replaced this process."""
    commands = []
    monkeypatch.setattr(os, "execve", lambda program, command, environment: commands.append(command))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return commands


def test_a_database_is_shown_on_this_machine(started):
    ui.main(["--config", str(CONFIG), "--port", "5011"])
    (command,) = started
    assert command[1:6] == ["-m", "mlflow", "server", "--host", "127.0.0.1"]
    assert command[6:] == ["--port", "5011", "--workers", "1", "--backend-store-uri", "sqlite:///results/mlflow.db"]


def test_a_server_is_named_without_its_password(started, capsys, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://me:secret@mlflow.example.org")
    ui.main(["--config", str(CONFIG)])
    assert "secret" not in capsys.readouterr().out


def test_a_server_is_only_named(started, capsys, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://mlflow.example.org")
    ui.main(["--config", str(CONFIG)])
    assert "https://mlflow.example.org" in capsys.readouterr().out
    assert not started


def test_the_config_comes_before_the_environment(started, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://elsewhere.example.org")
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.read_text().replace("uri: null", "uri: http://127.0.0.1:5999"))
    ui.main(["--config", str(config)])
    assert "http://127.0.0.1:5999" in capsys.readouterr().out
    assert not started
