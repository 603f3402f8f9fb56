"""A real browser, if there is one, and the real MLflow server on this machine."""

import shutil
import socket

import pytest

from equiset.experiments import EXPERIMENTS
from equiset.files import read_json, write_json
from equiset.tracking import ui

from ..faults.sending import send
from ..report_folder import write_results
from .devtools import Browser

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
    """The address of the server that `make ui` starts, with the runs of all experiments; one of them twice."""
    project = results.parents[1]
    uri = f"sqlite:///{project / 'results' / 'mlflow.db'}"
    for experiment in EXPERIMENTS:
        run = results / experiment / "runs" / "one" / "seed0"
        arguments = (uri, [run], results / experiment / "tracked.json", experiment)
        shown = [path for part in ("tables", "figures") for path in sorted((results / experiment / part).iterdir())]
        send(*arguments, shown)
        assert read_json(arguments[2])["pending"] == []
    write_json(run / "run.json", read_json(run / "run.json") | {"training": "another"})
    send(*arguments)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = ui.start_pages(uri, port)
    try:
        yield ui.wait_for(f"http://127.0.0.1:{port}", server)
    finally:
        server.terminate()
        server.wait(60)
