"""The training loop: seeds, checkpoints, resume. It knows nothing of any experiment.

Every epoch seeds its own random numbers from the run's seed and the epoch's number. A run that was killed and
goes on from its last checkpoint therefore takes exactly the steps, bit for bit, that it would have taken
without the interruption.
"""

import hashlib
import io
import logging
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from equiset.config.training import DESCRIPTIVE, Optimizer, Training
from equiset.errors import EquisetError, MissingFileError
from equiset.files import atomic_path, digest, digest_json
from equiset.training.devices import arithmetic, fix_arithmetic

Batch = Any
Sums = dict[str, Any]
"""Sums over the sets of a batch, by metric, and under `sets` their number."""
Listener = Callable[["Progress"], None]
"""Is called when a training starts or goes on, and after each epoch."""

log = logging.getLogger(__name__)


class Task(Protocol):
    """What an experiment gives to the loop."""

    def build_model(self) -> nn.Module: ...

    def train_batches(self, generator: torch.Generator) -> Iterator[Batch]:
        """Yield one epoch of batches in the order that `generator` decides."""

    def validation_batches(self) -> dict[str, Iterator[Batch]]:
        """Return what a network is measured on after an epoch, by the word that the names of its metrics begin with."""

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Sums]:
        """Return the loss to minimise, a mean over `sums["sets"]`, and the sums that the metrics are made of."""

    def predict(self, model: nn.Module) -> pd.DataFrame:
        """Return one row per prediction that the results need."""


@dataclass
class Progress:
    """What a finished or interrupted training has to show."""

    epochs: int = 0
    metrics: list[dict[str, float]] = field(default_factory=list)
    epoch_seconds: list[float] = field(default_factory=list)


def fix_seeds(*numbers: int) -> None:
    """Seed torch on all devices from a tuple of numbers, such as (seed, epoch)."""
    torch.manual_seed(int(digest_json(numbers)[:15], 16))


def make_optimizer(settings: Optimizer, model: nn.Module) -> torch.optim.Optimizer:
    """Return an optimizer that moves all weights of a network by few launches, if they are on a GPU."""
    parameters = list(model.parameters())
    on_card = parameters[0].device.type != "cpu"
    kind, quick = {"adam": (torch.optim.Adam, "fused"), "adamax": (torch.optim.Adamax, "foreach")}[settings.name]
    options = {"betas": settings.betas, "eps": settings.eps, "weight_decay": settings.weight_decay}
    return kind(parameters, lr=settings.learning_rate, **options, **({quick: True} if on_card else {}))


def checkpoint_key(spec: dict[str, Any], sets: dict[str, Any], code: str) -> str:
    """Identify what a checkpoint may be used for: the same run, data, code and torch, up to its length.

    The number of epochs is left out, so that a run that is to become longer goes on from where it ended.

    Args:
        spec: the run's.
        sets: the content of `sets.json`; what only describes the data is left out.
        code: what identifies the code that trains.
    """
    settings = {**spec["settings"], "training": {**spec["settings"]["training"], "epochs": None}}
    drawn = {key: value for key, value in sets.items() if key not in DESCRIPTIVE}
    spec = {**spec, "settings": settings, "scale": None}
    return digest_json([spec, drawn, code, torch.__version__, torch.get_num_threads()])[:32]


def train(
    task: Task,
    settings: Training,
    seed: int,
    device: torch.device,
    checkpoint: Path,
    listener: Listener = lambda progress: None,
) -> tuple[nn.Module, Progress]:
    """Train a network, going on from `checkpoint` if it exists, and return it with its metrics.

    Args:
        task: of an experiment.
        settings: of the training.
        seed: of the run.
        device: where to train.
        checkpoint: file that is written after each epoch.
        listener: is called at the beginning and after each epoch.
    """
    fix_arithmetic(settings.precision, device)
    fix_seeds(seed)
    model = task.build_model().to(device)
    optimizer = make_optimizer(settings.optimizer, model)
    progress = _resume(checkpoint, model, optimizer, settings.epochs)
    _settle_validation(progress, task, model, settings, device)
    listener(progress)
    epochs = range(progress.epochs + 1, settings.epochs + 1)
    # The bar is silent when stderr is not a terminal; the log has one line per epoch anyway.
    bar = tqdm(epochs, initial=progress.epochs, total=settings.epochs, unit="epoch", disable=None)
    for epoch in bar:
        started = time.perf_counter()
        trained = _train_epoch(task, settings, model, optimizer, seed, epoch, device)
        _require_finite(epoch, trained, model, optimizer)
        row = {"epoch": epoch, **{f"train_{name}": value for name, value in trained.items()}}
        if _validates(settings, epoch):
            row |= evaluate(task, model, settings.precision, device)
        progress.epochs = epoch
        progress.metrics.append(row)
        progress.epoch_seconds.append(round(time.perf_counter() - started, 3))
        _save(checkpoint, model, optimizer, progress)
        listener(progress)
        figures = " ".join(f"{name}={value:.4f}" for name, value in row.items() if name != "epoch")
        with logging_redirect_tqdm():
            log.info("epoch %d/%d %s seconds=%.1f", epoch, settings.epochs, figures, progress.epoch_seconds[-1])
    return model, progress


def _validates(settings: Training, epoch: int) -> bool:
    return epoch % settings.validate_every == 0 or epoch == settings.epochs


def _settle_validation(
    progress: Progress, task: Task, model: nn.Module, settings: Training, device: torch.device
) -> None:
    """Let a run that goes on have the validations of one made at once: its length decides which epoch is the last."""
    for row in progress.metrics:
        if not _validates(settings, row["epoch"]):
            for name in [name for name in row if not _of_training(name)]:
                del row[name]
    # Interrupted on the way to a later epoch, a run may have come to the end of this one without a validation.
    if progress.metrics and progress.epochs == settings.epochs:
        last = progress.metrics[-1]
        if all(map(_of_training, last)):
            last |= evaluate(task, model, settings.precision, device)


def _of_training(name: str) -> bool:
    return name == "epoch" or name.startswith("train_")


def _train_epoch(
    task: Task,
    settings: Training,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    seed: int,
    epoch: int,
    device: torch.device,
) -> dict[str, float]:
    fix_seeds(seed, epoch)
    for group in optimizer.param_groups:
        lowered = sum(epoch > last for last in settings.lower_after)
        group["lr"] = settings.optimizer.learning_rate * settings.lower_by**lowered
    model.train()
    batches = task.train_batches(torch.Generator().manual_seed(torch.initial_seed()))
    totals: Sums = {}
    for batch in batches:
        with arithmetic(settings.precision, device):
            loss, sums = task.loss(model, batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if settings.gradient_clip:
            nn.utils.clip_grad_norm_(model.parameters(), settings.gradient_clip)
        optimizer.step()
        _add(totals, sums)
    return _means(totals)


def _require_finite(epoch: int, metrics: dict[str, float], model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Stop if an epoch broke down. Once an epoch: looking at each step's loss would make a GPU wait for the host.

    Nothing that is not finite becomes finite again, neither in a sum over the epoch nor in a weight or its moments. So
    it is found here, and never saved.
    """
    broken = [f"{name} {value}" for name, value in metrics.items() if not math.isfinite(value)]
    moments = (value for state in optimizer.state.values() for value in state.values())
    tensors = [each for each in (*model.state_dict().values(), *moments) if each.is_floating_point() and each.ndim]
    if not torch.stack([each.isfinite().all() for each in tensors]).all():
        broken.append("weights that are not finite")
    if broken:
        raise EquisetError(
            f"training broke down in epoch {epoch}: {', '.join(broken)}. "
            "Lower training.optimizer.learning_rate or set training.gradient_clip"
        )


@torch.no_grad()
def evaluate(task: Task, model: nn.Module, precision: str, device: torch.device) -> dict[str, float]:
    """Return the metrics of a network on all that the task validates with."""
    model.eval()
    metrics = {}
    with arithmetic(precision, device):
        for kind, batches in task.validation_batches().items():
            totals: Sums = {}
            for batch in batches:
                _add(totals, task.loss(model, batch)[1])
            metrics |= {f"{kind}_{name}": value for name, value in _means(totals).items()}
    return metrics


def _add(totals: Sums, sums: Sums) -> None:
    for name, value in sums.items():
        totals[name] = totals.get(name, 0) + value


def _means(totals: Sums) -> dict[str, float]:
    sets = totals.pop("sets", 0)
    return {name: float(value) / sets for name, value in totals.items()}


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Return what `_save` wrote, in main memory; every byte counts."""
    expected, content = (whole := path.read_bytes())[:32], memoryview(whole)[32:]
    if hashlib.sha256(content).digest() != expected:
        raise EquisetError(f"{path} is damaged: its content does not match its digest")
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


def _save(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "progress": vars(progress)}
    content = io.BytesIO()
    torch.save(state, content)
    with atomic_path(path) as partial, partial.open("wb") as file:
        file.write(hashlib.sha256(content.getbuffer()).digest())
        file.write(content.getbuffer())


def _resume(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, epochs: int) -> Progress:
    if not path.exists():
        return Progress()
    try:
        state = read_checkpoint(path)
    except EquisetError as error:
        log.warning("%s: starting from the beginning", error)
        return Progress()
    progress = Progress(**state["progress"])
    if progress.epochs > epochs:
        log.info("the checkpoint is past epoch %d: starting from the beginning", epochs)
        return Progress()
    # What belongs on a GPU goes there. Counters of steps stay, unless the optimizer is fused: it would wait for each of
    # them in each step.
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    log.info("going on after epoch %d from %s", progress.epochs, os.path.relpath(path))
    return progress


def save_weights(model: nn.Module, path: Path) -> None:
    """Write the weights of a network, atomically."""
    weights = {name: tensor.contiguous().cpu() for name, tensor in model.state_dict().items()}
    with atomic_path(path) as partial:
        save_file(weights, partial)


def load_weights(model: nn.Module, path: Path, sha256: str | None = None) -> nn.Module:
    """Give a network the weights of a file, and return it.

    Args:
        model: the network.
        path: of the file.
        sha256: the digest that the file must have, if it is known.
    """
    try:
        if sha256 and digest(path) != sha256:
            raise EquisetError(f"{path} is damaged: its digest is not the one in run.json. Train or download it again")
        model.load_state_dict(load_file(path))
    except FileNotFoundError:
        raise MissingFileError(path) from None
    except (OSError, SafetensorError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise EquisetError(f"{path} does not hold the weights of this network: {reason}") from None
    return model
