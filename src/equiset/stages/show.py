"""Write one table or figure of an experiment, from the files that its runs left."""

import argparse
from pathlib import Path

from equiset.experiments import EXPERIMENTS, experiment_module
from equiset.process import run_stage
from equiset.results.runs import Material


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("item", help="name of a table or figure of the experiment")
    parser.add_argument("--runs", required=True, nargs="+", type=Path, help="folders of the runs, in table order")
    parser.add_argument("--store", required=True, type=Path, help="folder that the stage `prepare` wrote")
    parser.add_argument("--analyses", nargs="*", default=[], type=Path, help="files that the stage `analyse` wrote")
    parser.add_argument("--output", required=True, nargs="+", type=Path, help="files; the suffix decides the format")
    arguments = parser.parse_args(argv)
    material = Material(arguments.runs, arguments.store, {path.stem: path for path in arguments.analyses})
    shown = experiment_module(arguments.experiment, "results").SHOWN[arguments.item](material)
    for path in arguments.output:
        shown.write(path)


if __name__ == "__main__":
    run_stage(main)
