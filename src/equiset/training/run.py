"""One run: a variant of an experiment, trained with one seed, and evaluated."""

import logging
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from equiset.config.specs import run_settings
from equiset.errors import EquisetError
from equiset.experiments import experiment_module
from equiset.files import atomic_path, digest, digest_json, read_json, read_parquet, write_json, write_parquet
from equiset.fingerprint import training_code
from equiset.training import provenance
from equiset.training.devices import arithmetic, choose_device, describe, fix_arithmetic
from equiset.training.load_run import load_run
from equiset.training.loop import Listener, Progress, checkpoint_key, save_weights, train

log = logging.getLogger(__name__)

ROUNDING = 1e-4
"""How much a probability or a redshift may differ on another kind of processor."""


def train_run(
    spec: dict[str, Any],
    store: Path,
    sets: Path,
    checkpoints: Path,
    output: Path,
    threads: int = 1,
    watch: Callable[[dict[str, Any]], Listener] | None = None,
    published: Path | None = None,
) -> None:
    """Train a network and write its metrics, weights and `run.json`. Killed, it goes on from its last checkpoint.

    Args:
        spec: what decides the run, see `RunSpec`.
        store: folder of the prepared data.
        sets: folder of the sets.
        checkpoints: folder for checkpoints, which outlive a failure.
        output: folder of the run.
        threads: of the CPU; results depend on it in the last bits.
        watch: takes what is known at the start, and returns a function that is called after each epoch.
        published: folder of the published run of the same name, which is made longer if there is nothing newer.
    """
    started = datetime.now(UTC)
    torch.set_num_threads(threads)
    settings, about_sets = run_settings(spec), read_json(sets / "sets.json")
    device = choose_device(spec["device"])
    task = experiment_module(spec["experiment"], "task").Task(settings, store, sets, device)
    placed = {**spec, "device": device.type}
    key = checkpoint_key(placed, about_sets, training_code(spec["experiment"]))
    without_code = checkpoint_key(placed, about_sets, "")
    checkpoint = checkpoints / f"{key}.pt"
    if published and not checkpoint.exists():
        _take_published(published, without_code, checkpoint)
    log.info("%s/seed%d on %s, %d thread(s), checkpoint %s", spec["variant"], spec["seed"], device, threads, key)
    about = {
        "spec": spec,
        "spec_hash": digest_json(spec),
        "training": digest_json([key, spec])[:32],
        "checkpoint": key,
        "checkpoint_without_code": without_code,
        "sets": about_sets,
        "started": started.isoformat(timespec="seconds"),
        **describe(device),
        "threads": torch.get_num_threads(),
        "git_commit": provenance.git_commit(),
        "versions": provenance.versions(),
        "machine": provenance.machine() | {"instructions": torch.backends.cpu.get_cpu_capability()},
    }
    listener = watch(about) if watch else _ignore
    model, progress = train(task, settings.training, spec["seed"], device, checkpoint, listener)
    save_weights(model, output / "weights.safetensors")
    write_parquet(output / "metrics.parquet", pd.DataFrame(progress.metrics))
    measured = {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "epoch_seconds": progress.epoch_seconds,
        "peak_memory_mb": provenance.peak_memory_mb(),
        "weights_sha256": digest(output / "weights.safetensors"),
        **describe(device),
    }
    write_json(output / "run.json", about | measured)


def _take_published(run: Path, key: str, checkpoint: Path) -> None:
    """Take over the checkpoint of a published run of the same settings and data."""
    if not (run / "checkpoint.pt").exists():
        return
    info = read_json(run / "run.json")
    if info.get("checkpoint_without_code") != key:
        return
    if info["checkpoint"] != checkpoint.stem:
        log.warning("%s was trained by other code, of commit %s, and goes on with this one", run, info["git_commit"])
    with atomic_path(checkpoint) as partial:
        shutil.copyfile(run / "checkpoint.pt", partial)


def _ignore(progress: Progress) -> None:
    """Tell nobody."""


def evaluate_run(run: Path, store: Path, sets: Path, output: Path, threads: int = 1) -> pd.DataFrame:
    """Let a trained network predict, from its weights file alone, and write and return its predictions."""
    torch.set_num_threads(threads)
    spec = read_json(run / "run.json")["spec"]
    settings, device = run_settings(spec), choose_device(spec["device"])
    fix_arithmetic(settings.training.precision, device)
    task = experiment_module(spec["experiment"], "task").Task(settings, store, sets, device)
    with arithmetic(settings.training.precision, device):
        predictions = task.predict(load_run(run, device).network)
    write_parquet(output, predictions)
    log.info("%d predictions in %s", len(predictions), output)
    return predictions


def verify_run(run: Path, store: Path, sets: Path, output: Path, threads: int = 1) -> None:
    """Let a published network predict again, and compare its answers with the published ones."""
    known, drawn = read_json(run / "run.json")["sets"], read_json(sets / "sets.json")
    if drawn["digest"] != known["digest"]:
        raise EquisetError(f"{sets} are not the sets of {run}, which had {known['data']}")
    again = evaluate_run(run, store, sets, output, threads)
    log.info("%s: %s", run, compare(read_parquet(run / "predictions.parquet"), again))


def compare(published: pd.DataFrame, again: pd.DataFrame) -> str:
    """Say in what two tables of predictions differ; raise an `EquisetError` if it is in more than rounding."""
    if list(published) != list(again) or len(published) != len(again):
        raise EquisetError(f"{len(again)} predictions of other things than the {len(published)} that were published")
    largest = 0.0
    for name in published:
        one, other = (np.stack(table[name].to_numpy()) for table in (published, again))
        if one.dtype.kind == "f":
            largest = max(largest, float(np.abs(one - other).max()))
        elif wrong := int((one != other).sum()):
            raise EquisetError(f"{wrong} of {len(one)} predictions have another {name} than was published")
    if not largest <= ROUNDING:
        raise EquisetError(f"predictions differ by up to {largest:.2g} from what was published")
    return f"all {len(published):,} predictions are as published, numbers to within {largest:.2g}"
