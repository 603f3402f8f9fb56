"""A real browser, if there is one, and the real MLflow server on this machine."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from equiset.files import seal
from equiset.stages import track

from ..report_folder import write_results
from .devtools import SECONDS, Browser

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("no Chromium here: the pages were not looked at (Debian: apt install chromium)")
    browser = Browser(CHROMIUM, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    return write_results(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="session")
def mlflow_server(browser, results):
    """The address of the server that `make ui` starts, with the runs of two experiments; one of them twice."""
    project = results.parents[1]
    uri = f"sqlite:///{project / 'results' / 'mlflow.db'}"
    for experiment in ("mnist_sums", "redshift"):
        run = results / experiment / "runs" / "one" / "seed0"
        arguments = ["--uri", uri, "--experiment", experiment, "--scale", "demo", "--runs", str(run)]
        figures = [str(path) for path in sorted((results / experiment / "figures").iterdir())]
        track.main([*arguments, "--shown", *figures])
    text = (run / "run.json").read_text()
    (run / "run.json").write_text(text.replace("A processor", "Another processor"))
    seal(run / "run.json")
    track.main(arguments)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    log = project / "server.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            [*command, "--backend-store-uri", uri],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | quiet,
            cwd=project,
            start_new_session=True,
        )
    address = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + SECONDS
    while not _answers(address):
        assert server.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    yield address
    # The server and its worker are a group of their own.
    os.killpg(server.pid, 15)
    server.wait(30)


def _answers(address):
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False
