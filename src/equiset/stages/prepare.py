"""Turn the raw files that a manifest names into a folder of arrays, ready to be memory-mapped."""

import argparse
from pathlib import Path

from equiset.data import read_spec
from equiset.errors import EquisetError
from equiset.files import atomic_path, read_json, seal_folder
from equiset.given import number
from equiset.process import run_stage


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m equiset.stages.prepare", description=__doc__)
    parser.add_argument("--spec", required=True, help='JSON: {"dataset": name, "settings": {...}}')
    parser.add_argument("--manifest", required=True, type=Path, help="what the fetch stage wrote")
    parser.add_argument("--output", required=True, type=Path, help="the folder to write")
    parser.add_argument("--threads", type=number, default=1, help="processes or threads; never changes the result")
    args = parser.parse_args(argv)
    module, settings = read_spec(args.spec)
    manifest = read_json(args.manifest)
    try:
        with atomic_path(args.output) as folder:
            module.prepare(manifest, folder, settings, args.threads)
            seal_folder(folder, "store.json")
    except OSError as error:  # no space, no permission
        raise EquisetError(f"the arrays cannot be stored: {error}") from error


if __name__ == "__main__":
    run_stage(main)
