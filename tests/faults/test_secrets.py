"""Passwords and tokens in the address of a tracking server stay where the user put them."""

import logging
import sys

import pytest

from equiset import masking
from equiset.stages import track
from tests.unit.test_tracking import write_run


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("sqlite:///results/mlflow.db", "sqlite:///results/mlflow.db"),
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000"),
        ("https://me:pa%20ss@host:5000/a", "https://***@host:5000/a"),
        ("https://token@host", "https://***@host"),
        ("postgresql://u:p@db/mlflow?sslmode=require", "postgresql://***@db/mlflow?sslmode=***"),
        ("http://host/?token=abc&x=1#f", "http://host/?token=***&x=***"),
        ("http://u:p@ss@host", "http://***@host"),
    ],
)
def test_what_is_shown_of_an_address(uri, shown, monkeypatch):
    assert masking.without_secrets(uri) == shown
    monkeypatch.setenv(masking.VARIABLE, uri)
    assert masking.with_secrets(shown) == uri
    assert masking.with_secrets("sqlite:///other.db") == "sqlite:///other.db"


def test_messages_are_scrubbed():
    uri = "https://me:hush%21@host?token=abcdef"
    text = f"API request to {uri}/api failed; user me:hush!, token 'abcdef'"
    said = masking.scrub(text, uri)
    assert not any(secret in said for secret in ("hush", "abcdef"))
    assert "https://***@host" in said


def test_no_secret_in_what_the_stage_says_and_writes(tmp_path, capfd, caplog, monkeypatch):
    """MLflow itself puts the whole address into its error messages."""
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    monkeypatch.setattr(sys, "stderr", sys.stderr)
    uri = "http://someone:correct-horse@127.0.0.1:9/?token=battery-staple"
    run = write_run(tmp_path)
    arguments = ["mnist_sums", "--uri", masking.without_secrets(uri), "--scale", "demo"]
    monkeypatch.setenv(masking.VARIABLE, uri)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    track.main([*arguments, "--runs", str(run), "--output", str(tmp_path / "tracked.json")])
    assert "cannot reach http://***@127.0.0.1:9" in caplog.text
    said = "".join([caplog.text, *capfd.readouterr(), *(path.read_text() for path in tmp_path.rglob("*.json"))])
    assert not any(secret in said for secret in ("someone", "correct-horse", "battery-staple"))


def test_tracebacks_are_scrubbed(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stderr", sys.stderr)
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    handler = logging.StreamHandler(sys.stderr)
    logging.getLogger().addHandler(handler)
    try:
        masking.keep_secrets_of("http://me:correct-horse@host")
        logging.warning("at %s", "http://me:correct-horse@host")
        sys.excepthook(ValueError, ValueError("http://me:correct-horse@host"), None)
    finally:
        logging.getLogger().removeHandler(handler)
    said = capsys.readouterr()
    assert "correct-horse" not in said.out + said.err
    assert said.err.count("***@host") == 2


@pytest.mark.slow_fault
def test_no_secret_in_a_whole_run(project):
    """Neither what Snakemake prints nor any file that a run leaves, Snakemake's own included."""
    uri = "http://someone:correct-horse@127.0.0.1:9/?token=battery-staple"
    done = project.snakemake(
        "results/smoke/mnist_sums/tracked.json",
        "--printshellcmds",
        "--verbose",
        MLFLOW_TRACKING_URI=uri,
        MLFLOW_HTTP_REQUEST_MAX_RETRIES="0",
    )
    assert done.returncode == 0, done.stderr
    assert "http://***@127.0.0.1:9" in done.stdout + done.stderr
    secrets = (b"someone", b"correct-horse", b"battery-staple")
    assert not any(secret.decode() in done.stdout + done.stderr for secret in secrets)
    for folder in ("results", ".snakemake"):
        for path in (project.folder / folder).rglob("*"):
            assert not path.is_file() or not any(secret in path.read_bytes() for secret in secrets), path
