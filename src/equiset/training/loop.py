"""The training loop: seeds, checkpoints, resume. It knows nothing of any experiment.

Every epoch seeds its own random numbers from the run's seed and the epoch's number. A run that was killed and
goes on from its last checkpoint therefore takes exactly the steps, bit for bit, that it would have taken
without the interruption.
"""

import hashlib
import inspect
import io
import logging
import math
import os
import time
from collections.abc import Iterator
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

from equiset import parallel
from equiset.config.training import SAID, Optimizer, Training
from equiset.errors import DamagedError, EquisetError
from equiset.files import BLANK_SEAL, SEAL, atomic_path, check_seal, digest_json, seal
from equiset.fingerprint import training_code
from equiset.progress import Tell, silent
from equiset.training.devices import arithmetic, fix_arithmetic

Batch = Any
Sums = dict[str, Any]
"""Sums over the sets of a batch, by metric, and under `sets` their number."""

log = logging.getLogger(__name__)


class Task(Protocol):
    """What an experiment gives to the loop."""

    def build_model(self) -> nn.Module: ...

    def train_batches(self, generator: torch.Generator) -> Iterator[Batch]:
        """Yield one epoch of batches in the order that `generator` decides, of each the part that is `share`d."""

    def validation_batches(self) -> Iterator[Batch]: ...

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
    return _without_guards(kind)(parameters, lr=settings.learning_rate, **options, **({quick: True} if on_card else {}))


def _without_guards(kind: type[torch.optim.Optimizer]) -> type[torch.optim.Optimizer]:
    """Return an optimizer without its guards against torch.compile, which is never on here.

    On first use they import all of it, 1.7 s for every job.
    """
    names = ("add_param_group", "load_state_dict", "state_dict", "step", "zero_grad")
    methods = {name: inspect.unwrap(getattr(kind, name)) for name in names}
    return type(kind.__name__, (kind,), methods | {"step": torch.no_grad()(methods["step"])})


def checkpoint_key(spec: dict[str, Any], sets: dict[str, Any]) -> str:
    """Identify what a checkpoint may be used for: the same run, data, code and torch, up to its length.

    The number of epochs is left out, so that a run that is to become longer goes on from where it ended.

    Args:
        spec: the run's.
        sets: the content of `sets.json`; what it only says of the data is left out.
    """
    settings = {**spec["settings"], "training": {**spec["settings"]["training"], "epochs": None}}
    drawn = {key: value for key, value in sets.items() if key not in SAID}
    code = training_code(spec["experiment"])
    spec = {**spec, "settings": settings, "scale": None}
    return digest_json([spec, drawn, code, torch.__version__, torch.get_num_threads()])[:32]


def train(
    task: Task, settings: Training, seed: int, device: torch.device, checkpoint: Path, tell: Tell = silent
) -> tuple[nn.Module, Progress]:
    """Train a network, going on from `checkpoint` if it exists, and return it with its metrics.

    Args:
        task: of an experiment.
        settings: of the training.
        seed: of the run.
        device: where to train.
        checkpoint: file that is written after each epoch.
        tell: is called with what there is to show, at the beginning and after each epoch.
    """
    fix_arithmetic(settings.precision, device)
    fix_seeds(seed)
    model = parallel.share_layers(task.build_model().to(device))
    optimizer = make_optimizer(settings.optimizer, model)
    progress = _resume(checkpoint, model, optimizer, settings.epochs)
    parallel.require_same(progress.epochs, "checkpoint", device)
    _settle_validation(progress, task, model, settings, device)
    tell(progress.metrics, progress.epoch_seconds)
    epochs = range(progress.epochs + 1, settings.epochs + 1)
    # The bar is silent when stderr is not a terminal; the log has one line per epoch anyway.
    silent = None if parallel.is_first() else True
    bar = tqdm(epochs, initial=progress.epochs, total=settings.epochs, unit="epoch", disable=silent)
    learner = parallel.averaging(model)
    for epoch in bar:
        started = time.perf_counter()
        trained = _train_epoch(task, settings, learner, optimizer, seed, epoch, device)
        _require_finite(epoch, trained, model, optimizer)
        row = {"epoch": epoch, **{f"train_{name}": value for name, value in trained.items()}}
        if _validates(settings, epoch):
            row |= _validation(task, model, settings, device)
        progress.epochs = epoch
        progress.metrics.append(row)
        progress.epoch_seconds.append(round(time.perf_counter() - started, 3))
        _save(checkpoint, model, optimizer, progress)
        tell(progress.metrics, progress.epoch_seconds)
        figures = " ".join(f"{name}={value:.4f}" for name, value in row.items() if name != "epoch")
        with logging_redirect_tqdm():
            log.info("epoch %d/%d %s seconds=%.1f", epoch, settings.epochs, figures, progress.epoch_seconds[-1])
    return model, progress


def _validates(settings: Training, epoch: int) -> bool:
    return epoch % settings.validate_every == 0 or epoch == settings.epochs


def _validation(task: Task, model: nn.Module, settings: Training, device: torch.device) -> dict[str, float]:
    validated = evaluate(task, model, settings.precision, device)
    return {f"validation_{name}": value for name, value in validated.items()}


def _settle_validation(
    progress: Progress, task: Task, model: nn.Module, settings: Training, device: torch.device
) -> None:
    """Let a run that goes on have the validations of one made at once: its length decides which epoch is the last."""
    for row in progress.metrics:
        if not _validates(settings, row["epoch"]):
            for name in [name for name in row if name.startswith("validation_")]:
                del row[name]
    # Interrupted on the way to a later epoch, a run may have come to the end of this one without a validation.
    if progress.metrics and progress.epochs == settings.epochs:
        last = progress.metrics[-1]
        if not any(name.startswith("validation_") for name in last):
            last |= _validation(task, model, settings, device)


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
        group["lr"] = settings.optimizer.learning_rate * 0.1 ** sum(epoch > last for last in settings.lower_after)
    model.train()
    batches = task.train_batches(torch.Generator().manual_seed(torch.initial_seed()))
    totals: Sums = {}
    for batch in parallel.each(batches):
        with arithmetic(settings.precision, device):
            loss, sums = task.loss(model, batch)
        optimizer.zero_grad(set_to_none=True)
        parallel.mean_over_all(loss, sums["sets"]).backward()
        if settings.gradient_clip:
            nn.utils.clip_grad_norm_(model.parameters(), settings.gradient_clip)
        optimizer.step()
        _add(totals, parallel.counted(sums))
    return _means(parallel.add_up(totals, device))


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
    """Return the validation metrics of a network."""
    model.eval()
    totals: Sums = {}
    with arithmetic(precision, device):
        for batch in parallel.each(task.validation_batches()):
            _add(totals, parallel.counted(task.loss(model, batch)[1]))
    return _means(parallel.add_up(totals, device))


def _add(totals: Sums, sums: Sums) -> None:
    for name, value in sums.items():
        totals[name] = totals.get(name, 0) + value


def _means(totals: Sums) -> dict[str, float]:
    sets = totals.pop("sets", 0)
    return {name: float(value) / sets for name, value in totals.items()}


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Return what `_save` wrote, in main memory; every byte counts."""
    digest, content = (whole := path.read_bytes())[:32], memoryview(whole)[32:]
    if hashlib.sha256(content).digest() != digest:
        raise DamagedError(path, "is damaged: its content does not match its digest")
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


def _save(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    if not parallel.is_first():
        return
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
    except DamagedError as error:
        log.warning("%s: starting anew", error)
        return Progress()
    progress = Progress(**state["progress"])
    if progress.epochs > epochs:
        log.info("the checkpoint is past epoch %d: starting anew", epochs)
        return Progress()
    # What belongs on a GPU goes there. Counters of steps stay, unless the optimizer is fused: it would wait for each of
    # them in each step.
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    log.info("going on after epoch %d from %s", progress.epochs, os.path.relpath(path))
    return progress


def save_weights(model: nn.Module, path: Path) -> None:
    """Write the weights of a network, atomically and sealed."""
    weights = {name: tensor.contiguous().cpu() for name, tensor in model.state_dict().items()}
    with atomic_path(path) as partial:
        save_file(weights, partial, metadata={SEAL: BLANK_SEAL})
        seal(partial)


def load_weights(model: nn.Module, path: Path) -> nn.Module:
    """Give a network the weights of a file, and return it."""
    try:
        check_seal(path)
        model.load_state_dict(load_file(path))
    except FileNotFoundError:
        raise EquisetError(f"{path} is not there. Run snakemake again: it makes what is missing") from None
    except (OSError, SafetensorError, RuntimeError) as error:
        raise DamagedError(path, f"does not hold the weights of this network: {str(error).splitlines()[0]}") from None
    return model
