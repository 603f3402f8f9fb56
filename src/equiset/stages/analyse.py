"""Measure something on trained networks beyond their predictions."""

import argparse
import json
from pathlib import Path

import torch

from equiset.experiments import EXPERIMENTS, experiment_module
from equiset.files import check_folder
from equiset.parquet import write_parquet
from equiset.placement import take_cards
from equiset.process import keep_freed_memory, run_stage
from equiset.results.material import Material


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("item", help="name of an analysis of the experiment")
    parser.add_argument("--runs", required=True, nargs="+", type=Path, help="folders of the runs that it needs")
    parser.add_argument("--store", required=True, type=Path, help="folder that the stage `prepare` wrote")
    parser.add_argument("--settings", required=True, help="JSON: what the config says about the analysis")
    parser.add_argument("--output", required=True, type=Path, help="Parquet file")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    arguments = parser.parse_args(argv)

    keep_freed_memory()
    torch.set_num_threads(arguments.threads)
    analyse = experiment_module(arguments.experiment, "analyses").ANALYSES[arguments.item]
    check_folder(arguments.store, "store.json")
    material = Material(arguments.runs, arguments.store)
    devices = {run.info["spec"]["device"] for runs in material.runs.values() for run in runs}
    take_cards("cpu" if devices == {"cpu"} else "auto")
    table = analyse(material, json.loads(arguments.settings))
    write_parquet(arguments.output, table)


if __name__ == "__main__":
    run_stage(main)
