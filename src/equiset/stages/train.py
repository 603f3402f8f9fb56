"""Train one network: one variant of an experiment, with one seed."""

import argparse
import logging
import sys
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import torch

from equiset import launch, parallel
from equiset.config.experiment import Variant
from equiset.experiments import experiment_module
from equiset.files import digest_json, write_json
from equiset.given import RunSpec, data_for, json_object, number, settings_of
from equiset.parquet import write_parquet
from equiset.placement import take_cards
from equiset.process import keep_freed_memory, run_stage
from equiset.progress import silent, telling
from equiset.training import provenance
from equiset.training.devices import choose_device, describe
from equiset.training.loop import checkpoint_key, save_weights, train

log = logging.getLogger(__name__)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True, type=json_object, help="JSON: what decides a run; see `RunSpec`")
    parser.add_argument("--store", required=True, type=Path, help="folder that the stage `prepare` wrote")
    parser.add_argument("--sets", required=True, type=Path, help="folder that the stage `make_sets` wrote")
    parser.add_argument(
        "--checkpoints", required=True, type=Path, help="folder for checkpoints, which outlive a failure"
    )
    parser.add_argument("--output", required=True, type=Path, help="folder for metrics, weights and run.json")
    parser.add_argument("--threads", type=number, default=1, help="CPU threads; results depend on it in the last bits")
    parser.add_argument("--processes", type=number, default=1, help="processes that train together and share threads")
    arguments = parser.parse_args(argv)
    settings = settings_of(arguments.spec, RunSpec)
    if not launch.started():
        take_cards(arguments.spec["device"], arguments.processes)
    if arguments.processes > 1 and not launch.started():
        launch.launch(arguments.processes, "equiset.stages.train", sys.argv[1:] if argv is None else argv)
        return
    with launch.joined(choose_device(arguments.spec["device"])) as device:
        _train(arguments, settings, device)


def _train(arguments: argparse.Namespace, settings: Variant, device: torch.device) -> None:
    started = datetime.now(UTC)
    spec = arguments.spec
    kept = keep_freed_memory()
    torch.set_num_threads(max(1, arguments.threads // parallel.processes()))
    data_for(spec["experiment"], arguments.store)
    sets = data_for(spec["experiment"], arguments.sets, "sets.json")
    task = experiment_module(spec["experiment"], "task").Task(settings, arguments.store, arguments.sets, device)
    key = checkpoint_key({**spec, "device": device.type}, sets)
    log.info(
        "%s/seed%d on %s, %d process(es) of %d thread(s), checkpoint %s",
        *(spec["variant"], spec["seed"], device, parallel.processes(), torch.get_num_threads(), key),
    )
    about = {
        "spec": spec,
        "spec_hash": digest_json(spec),
        "training": digest_json([key, spec])[:32],
        "sets": sets,
        "started": started.isoformat(timespec="seconds"),
        **describe(device),
        "threads": torch.get_num_threads(),
        "processes": parallel.processes(),
        "keeps_freed_memory": kept,
        "git_commit": provenance.git_commit(),
        "versions": provenance.versions(),
        "machine": provenance.machine() | {"instructions": torch.backends.cpu.get_cpu_capability()},
    }
    told = arguments.checkpoints / f"{about['training']}.jsonl"
    first = parallel.is_first()
    with telling(told, about | {"folder": str(arguments.output)}) if first else nullcontext(silent) as tell:
        checkpoint = arguments.checkpoints / f"{key}.pt"
        model, progress = train(task, settings.training, spec["seed"], device, checkpoint, tell)
        if not first:
            return
        save_weights(model, arguments.output / "weights.safetensors")
        write_parquet(arguments.output / "metrics.parquet", pd.DataFrame(progress.metrics))
        measured = {
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "ended": datetime.now(UTC).isoformat(timespec="seconds"),
            "epoch_seconds": progress.epoch_seconds,
            "peak_memory_mb": provenance.peak_memory_mb(),
            **describe(device),
        }
        write_json(arguments.output / "run.json", about | measured)


if __name__ == "__main__":
    run_stage(main)
