"""Let a trained network predict, from its weights file alone."""

import argparse
import logging
from pathlib import Path

import torch

from equiset.experiments import experiment_module
from equiset.given import RunSpec, data_for, number, settings_of
from equiset.parquet import write_parquet
from equiset.placement import take_cards
from equiset.process import keep_freed_memory, run_stage
from equiset.results.runs import Run
from equiset.training.devices import arithmetic, choose_device, fix_arithmetic
from equiset.training.loop import load_weights

log = logging.getLogger(__name__)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", required=True, type=Path, help="folder that the stage `train` wrote")
    parser.add_argument("--store", required=True, type=Path, help="folder that the stage `prepare` wrote")
    parser.add_argument("--sets", required=True, type=Path, help="folder that the stage `make_sets` wrote")
    parser.add_argument("--output", required=True, type=Path, help="Parquet file for the predictions")
    parser.add_argument("--threads", type=number, default=1, help="CPU threads")
    arguments = parser.parse_args(argv)

    keep_freed_memory()
    torch.set_num_threads(arguments.threads)
    spec = Run(arguments.run).info["spec"]
    settings = settings_of(spec, RunSpec)
    data_for(spec["experiment"], arguments.store)
    data_for(spec["experiment"], arguments.sets, "sets.json")
    take_cards(spec["device"])
    device = choose_device(spec["device"])
    fix_arithmetic(settings.training.precision, device)
    task = experiment_module(spec["experiment"], "task").Task(settings, arguments.store, arguments.sets, device)
    model = task.build_model().to(device).eval()
    load_weights(model, arguments.run / "weights.safetensors")
    with arithmetic(settings.training.precision, device):
        predictions = task.predict(model)
    write_parquet(arguments.output, predictions)
    log.info("%d predictions in %s", len(predictions), arguments.output)


if __name__ == "__main__":
    run_stage(main)
