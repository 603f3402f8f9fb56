"""Bring the raw files of a data set to this machine, check them, and write a manifest that names them."""

import argparse
from pathlib import Path

from equiset.data import read_spec
from equiset.errors import EquisetError
from equiset.files import write_json
from equiset.process import run_stage


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m equiset.stages.fetch", description=__doc__)
    parser.add_argument("--spec", required=True, help='JSON: {"dataset": name, "settings": {...}}')
    parser.add_argument("--cache", required=True, type=Path, help="folder for downloads that lasts from run to run")
    parser.add_argument("--output", required=True, type=Path, help="the manifest to write, a JSON file")
    args = parser.parse_args(argv)
    module, settings = read_spec(args.spec)
    try:
        write_json(args.output, module.fetch(settings, args.cache))
    except OSError as error:  # no space, no permission
        raise EquisetError(f"the data cannot be stored: {error}") from error


if __name__ == "__main__":
    run_stage(main)
