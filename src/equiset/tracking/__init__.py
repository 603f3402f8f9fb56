"""The runs in MLflow. No other folder imports mlflow, and this module does not either, as the workflow imports it."""

import logging
import os
import subprocess
import sys
from pathlib import Path

from equiset.errors import EquisetError

log = logging.getLogger(__name__)

DATABASE = "sqlite:///results/mlflow.db"


def store_uri(configured: str | None) -> str:
    """Return where the runs are kept: as the config says, else the environment, else beside the results."""
    uri = configured or os.environ.get("MLFLOW_TRACKING_URI") or DATABASE
    if uri.startswith("http") and uri != without_password(uri):
        raise EquisetError(
            "MLFLOW_TRACKING_URI has a user, a password or options, which would end up in logs: set "
            "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD instead"
        )
    return uri


def without_password(uri: str) -> str:
    """Return an address as logs and results may show it. The one of a database may have a password."""
    before, separator, after = uri.partition("://")
    host, slash, path = after.partition("/")
    return before + separator + host.rpartition("@")[2] + slash + path.partition("?")[0]


def database_file(uri: str) -> Path | None:
    """Return the file of an SQLite database; None if the runs are kept elsewhere."""
    return Path(uri.removeprefix("sqlite:///")) if uri.startswith("sqlite:///") else None


def reason(error: Exception, uri: str) -> str:
    """Return the first line of an error of a store, without the query that databases add."""
    line = next(iter(str(error).splitlines()), "") or type(error).__name__
    return line.replace(uri, without_password(uri))


def create_database(configured: str | None) -> None:
    """Create the project's SQLite file if it is not there, before several trainings would create it at once."""
    uri = store_uri(configured)
    if not (file := database_file(uri)) or file.exists():
        return
    # A process of its own: MLflow takes a second to import, and sets up logging anew.
    program = "import sys; from equiset.tracking.tracker import open_store; open_store(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", program, uri], capture_output=True, text=True)
    if done.returncode:
        log.warning("MLflow cannot create %s: %s", file, (done.stderr.strip().splitlines() or ["no reason"])[-1])
