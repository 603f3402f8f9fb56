"""Measure everything on the runs of an experiment, or on what was found of the layers themselves: every number once."""

import argparse
from pathlib import Path

from equiset.experiments import EXPERIMENTS, experiment_module
from equiset.experiments.laws.measures import measure_layers
from equiset.process import run_stage
from equiset.results.measures import Measures, measure_runs
from equiset.results.runs import by_variant, runs_of

LAYERS = "laws"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", choices=[*EXPERIMENTS, LAYERS])
    parser.add_argument("--scale", required=True, help="scale of the runs")
    parser.add_argument("--runs", nargs="*", default=[], type=Path, help="folders of the runs, in table order")
    parser.add_argument("--analyses", nargs="*", default=[], type=Path, help="files of `analyse` or `measure_layers`")
    parser.add_argument("--output", required=True, type=Path, help="Parquet file")
    arguments = parser.parse_args(argv)
    measured(arguments.experiment, arguments.runs, arguments.analyses, arguments.scale).write(arguments.output)


def measured(experiment: str, runs: list[Path], analyses: list[Path], scale: str) -> Measures:
    """Return all numbers of an experiment, or of the layers themselves."""
    files = {path.stem: path for path in analyses}
    if experiment == LAYERS:
        return measure_layers(files, scale)
    runs_of(experiment, runs)
    return measure_runs(experiment, by_variant(runs, files), experiment_module(experiment, "measures").MEASURES)


if __name__ == "__main__":
    run_stage(main)
