"""Show the runs in MLflow: start its pages for a database of this machine, or say where a server has them."""

import argparse
import os
import sys
from pathlib import Path

import yaml

from equiset.config import resolve


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, default=Path("config.yaml"), help="the workflow's config")
    parser.add_argument("--port", type=int, default=5000, help="port of the pages on this machine")
    arguments = parser.parse_args(argv)
    uri = resolve(yaml.safe_load(arguments.config.read_text())).tracking.address()
    if uri.startswith(("http://", "https://")):
        print(f"The runs are on a tracking server: open {uri} in a browser.")
        return
    pages = ["mlflow", "ui", "--host", "127.0.0.1", "--port", str(arguments.port), "--backend-store-uri", uri]
    os.execv(sys.executable, [sys.executable, "-m", *pages])


if __name__ == "__main__":
    main()
