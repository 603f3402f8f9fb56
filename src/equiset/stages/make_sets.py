"""Draw an experiment's sets from the prepared data."""

import argparse
from pathlib import Path

from equiset.experiments import experiment_module
from equiset.files import atomic_path, seal_folder
from equiset.given import SetsSpec, data_for, json_object, settings_of
from equiset.process import run_stage


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True, type=json_object, help="JSON: experiment, sets, seed, settings")
    parser.add_argument("--store", required=True, type=Path, help="folder that the stage `prepare` wrote")
    parser.add_argument("--output", required=True, type=Path, help="folder for the sets")
    arguments = parser.parse_args(argv)
    spec = arguments.spec
    settings = settings_of(spec, SetsSpec)
    data_for(spec["experiment"], arguments.store)
    with atomic_path(arguments.output) as folder:
        experiment_module(spec["experiment"], "sets").make_sets(settings, spec["seed"], arguments.store, folder)
        seal_folder(folder, "sets.json")


if __name__ == "__main__":
    run_stage(main)
