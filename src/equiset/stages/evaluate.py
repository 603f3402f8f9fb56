"""Let a trained network predict, from its weights file alone."""

import argparse
import logging
from pathlib import Path

import torch
from safetensors.torch import load_file

from equiset.experiments import experiment_module
from equiset.files import atomic_path, read_json
from equiset.process import keep_freed_memory, run_stage
from equiset.training import arithmetic, choose_device

log = logging.getLogger(__name__)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", required=True, type=Path, help="folder that the stage `train` wrote")
    parser.add_argument("--store", required=True, type=Path, help="folder that the stage `prepare` wrote")
    parser.add_argument("--sets", required=True, type=Path, help="folder that the stage `make_sets` wrote")
    parser.add_argument("--output", required=True, type=Path, help="Parquet file for the predictions")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    arguments = parser.parse_args(argv)

    keep_freed_memory()
    torch.set_num_threads(arguments.threads)
    spec = read_json(arguments.run / "run.json")["spec"]
    settings_module = experiment_module(spec["experiment"], "settings")
    settings = settings_module.ExperimentSettings.variant_class().model_validate(spec["settings"])
    device = choose_device(spec["device"])
    task = experiment_module(spec["experiment"], "task").Task(settings, arguments.store, arguments.sets, device)
    model = task.build_model().to(device).eval()
    model.load_state_dict(load_file(arguments.run / "weights.safetensors", device=str(device)))
    with arithmetic(settings.training.precision, device):
        predictions = task.predict(model)
    with atomic_path(arguments.output) as partial:
        predictions.to_parquet(partial, index=False)
    log.info("%d predictions in %s", len(predictions), arguments.output)


if __name__ == "__main__":
    run_stage(main)
