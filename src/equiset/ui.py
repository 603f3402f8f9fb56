"""Show the runs in MLflow: start its pages for a database of this machine, or say where a server has them."""

import argparse
import os
import sys
from pathlib import Path

from equiset.config import read_config, resolve
from equiset.errors import EquisetError
from equiset.masking import without_secrets


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, default=Path("config.yaml"), help="the workflow's config")
    parser.add_argument("--port", type=int, default=5000, help="port of the pages on this machine")
    arguments = parser.parse_args(argv)
    uri = resolve(read_config(arguments.config)).tracking.address()
    if uri.startswith(("http://", "https://")):
        print(f"The runs are on a tracking server: open {without_secrets(uri)} in a browser.")
        return
    print(
        f"When it has started: http://127.0.0.1:{arguments.port}/#/experiments?workflowType=machine_learning",
        flush=True,
    )
    pages = ["--host", "127.0.0.1", "--port", str(arguments.port), "--workers", "1", "--backend-store-uri", uri]
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    os.execve(sys.executable, [sys.executable, "-m", "mlflow", "server", *pages], os.environ | quiet)


if __name__ == "__main__":
    try:
        main()
    except EquisetError as error:
        sys.exit(str(error))
