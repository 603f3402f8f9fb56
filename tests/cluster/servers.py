"""PostgreSQL and an MLflow server on loopback, in folders of their own."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from importlib.util import find_spec
from pathlib import Path

from .slurm import free_port, wait_until

# Debian keeps PostgreSQL's programs apart, one folder for each version.
_POSTGRES_PATH = os.pathsep.join([os.environ.get("PATH", ""), *glob("/usr/lib/postgresql/*/bin")])


def missing() -> str | None:
    """Say why no MLflow server with PostgreSQL can be started here, if none can."""
    if not shutil.which("initdb", path=_POSTGRES_PATH):
        return "PostgreSQL is not installed: apt-get install postgresql"
    if find_spec("psycopg2") is None:
        return "no driver for PostgreSQL: pip install psycopg2-binary"
    return None


@contextmanager
def postgres() -> Iterator[str]:
    """Start PostgreSQL and return the address of an empty database."""
    port = free_port()
    # It refuses to run as root, and its user must reach the folder.
    user = "postgres" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="equiset-postgres-"))
    if user:
        shutil.chown(folder, user)
    data = folder / "data"
    make = [shutil.which("initdb", path=_POSTGRES_PATH), "--pgdata", str(data), "--auth=trust", "--username=mlflow"]
    options = {"user": user, "cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(make, check=True, timeout=120, **options)
    serve = [shutil.which("postgres", path=_POSTGRES_PATH), "-D", str(data), "-k", str(folder), "-p", str(port)]
    process = subprocess.Popen([*serve, "-c", "listen_addresses=127.0.0.1"], **options)
    ask = [shutil.which("pg_isready", path=_POSTGRES_PATH), "--host=127.0.0.1", f"--port={port}"]
    try:
        wait_until(lambda: subprocess.run(ask, stdout=subprocess.DEVNULL).returncode == 0, "PostgreSQL", 60)
        yield f"postgresql://mlflow@127.0.0.1:{port}/postgres"
    finally:
        _end(process, signal.SIGINT)
        shutil.rmtree(folder)


@contextmanager
def mlflow_server(database: str, artifacts: Path, log: Path) -> Iterator[str]:
    """Start MLflow's server and return its address."""
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "2"]
    command += ["--backend-store-uri", database, "--artifacts-destination", str(artifacts)]
    with log.open("w", encoding="utf-8") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
    address = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert process.poll() is None, log.read_text(encoding="utf-8")
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    try:
        wait_until(answers, "MLflow's server", 300)
        yield address
    finally:
        _end(process, signal.SIGTERM)


def _end(process: subprocess.Popen, by: signal.Signals) -> None:
    process.send_signal(by)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
