"""Measure something on trained networks beyond their predictions."""

import argparse
from pathlib import Path

import torch

from equiset.errors import choose
from equiset.experiments import EXPERIMENTS, experiment_module
from equiset.given import data_for, json_object, number
from equiset.parquet import write_parquet
from equiset.placement import take_cards
from equiset.process import keep_freed_memory, run_stage
from equiset.results.material import Material
from equiset.results.runs import runs_of


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("item", help="name of an analysis of the experiment")
    parser.add_argument("--runs", required=True, nargs="+", type=Path, help="folders of the runs that it needs")
    parser.add_argument("--store", required=True, type=Path, help="folder that the stage `prepare` wrote")
    parser.add_argument("--settings", required=True, type=json_object, help="JSON: what the config says about it")
    parser.add_argument("--output", required=True, type=Path, help="Parquet file")
    parser.add_argument("--threads", type=number, default=1, help="CPU threads")
    arguments = parser.parse_args(argv)

    keep_freed_memory()
    torch.set_num_threads(arguments.threads)
    known = experiment_module(arguments.experiment, "settings").ExperimentSettings.analyses
    choose(known, arguments.item, f"analysis of {arguments.experiment}")
    analyse = experiment_module(arguments.experiment, "analyses").ANALYSES[arguments.item]
    data_for(arguments.experiment, arguments.store)
    runs = runs_of(arguments.experiment, arguments.runs)
    take_cards("cpu" if {run.info["spec"]["device"] for run in runs} == {"cpu"} else "auto")
    table = analyse(Material(arguments.runs, arguments.store), arguments.settings)
    write_parquet(arguments.output, table)


if __name__ == "__main__":
    run_stage(main)
