"""Show the runs in MLflow: start its pages for a database of this machine, and print the address of each experiment."""

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import webbrowser
from pathlib import Path

from equiset.config.resolve import read_config, resolve
from equiset.errors import EquisetError, one_line_errors
from equiset.tracking import database_file, store_uri

_SECONDS = 120  # in which the pages must have started


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=5000, help="port of the pages on this machine")
    port = parser.parse_args(argv).port
    uri = store_uri(resolve(read_config(Path("config.yaml"))).tracking.uri)
    if uri.startswith("http"):
        show(uri, uri.rstrip("/"))
        return
    if (file := database_file(uri)) and not file.exists():
        raise EquisetError(f"there are no runs yet: {file} is not there. Start some: snakemake --cores all")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # or the server would be left behind
    with start_pages(uri, port) as server:
        try:
            show(uri, wait_for(f"http://127.0.0.1:{port}", server))
            server.wait()
        except KeyboardInterrupt:
            pass  # which the server has got, too
        finally:
            server.terminate()


def start_pages(uri: str, port: int) -> subprocess.Popen:
    """Start MLflow's server for a database."""
    with socket.socket() as probe:
        # As the server does it: a port that was in use a moment ago is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise EquisetError(
                f"port {port} is in use by another program. Choose another one: make ui PORT=5001"
            ) from None
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--app-name", "equiset", "--uvicorn-opts", "--log-level warning"]  # or each request prints a line
    # By the environment: everybody on the machine can read the arguments of a command, and this may have a password.
    environment = {"MLFLOW_BACKEND_STORE_URI": uri, "MLFLOW_DISABLE_TELEMETRY": "true"}
    environment["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"
    return subprocess.Popen(command, env=os.environ | environment)


def wait_for(address: str, server: subprocess.Popen) -> str:
    """Return the address when the server answers there."""
    deadline = time.monotonic() + _SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5):
                return address
        except OSError:
            time.sleep(0.2)
    raise EquisetError(f"MLflow did not start at {address}; its messages are above")


def show(uri: str, address: str) -> None:
    """Print the address of each experiment, and open the first page where there is a browser with windows."""
    # MLflow takes seconds to import, in which the pages start.
    from equiset.tracking.tracker import runs_addresses

    home = f"{address}/#/experiments?workflowType=machine_learning"
    found = runs_addresses(uri, address)
    lines = [f"  {name:<20}{link}" for name, link in {**found, "all": home}.items()]
    print(
        "\n".join(["The runs, by experiment:" if found else "No runs yet; they will appear here:", *lines]), flush=True
    )
    if sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(home)


if __name__ == "__main__":
    with one_line_errors():
        main()
