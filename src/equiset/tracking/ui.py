"""Show the runs in MLflow: start its pages for a database of this machine, and say where each experiment is."""

import argparse
import os
import signal
import subprocess
import sys
import time
import urllib.request
import webbrowser
from pathlib import Path

from equiset.config.resolve import read_config, resolve
from equiset.errors import one_line_errors
from equiset.tracking import store_uri, without_password

_SECONDS = 120  # in which the pages must have started


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=5000, help="port of the pages on this machine")
    arguments = parser.parse_args(argv)
    uri = store_uri(resolve(read_config(Path("config.yaml"))).tracking.uri)
    if uri.startswith(("http://", "https://")):
        show(uri)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # or the server would be left behind
    with start_pages(uri, arguments.port) as server:
        try:
            address = wait_for(f"http://127.0.0.1:{arguments.port}", server)
            show(address)
            server.wait()
        except KeyboardInterrupt:
            pass  # which the server has got, too
        finally:
            server.terminate()


def start_pages(uri: str, port: int) -> subprocess.Popen:
    """Start MLflow's server for a database."""
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--uvicorn-opts", "--log-level warning"]  # or a line for each request hides what is said here
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    command += ["--app-name", "equiset", "--backend-store-uri", uri]
    return subprocess.Popen(command, env=os.environ | quiet)


def wait_for(address: str, server: subprocess.Popen) -> str:
    """Return the address when the server answers there."""
    deadline = time.monotonic() + _SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5):
                return address
        except OSError:
            time.sleep(0.2)
    sys.exit(f"MLflow did not start at {address}; what it said is above. Another port: make ui PORT=5001")


def show(uri: str) -> None:
    """Print the way to each experiment, and open the first page where there is a browser with windows."""
    # MLflow takes two seconds to import, which the pages need to start.
    from equiset.tracking.tracker import addresses

    address = without_password(uri).rstrip("/")
    home = f"{address}/#/experiments?workflowType=machine_learning"
    lines = [f"  {name:<20}{link}" for name, link in addresses(uri, address).items()]
    print("\n".join(["The runs, by experiment:", *lines, f"  {'all':<20}{home}"]), flush=True)
    if sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(home)


if __name__ == "__main__":
    with one_line_errors():
        main()
