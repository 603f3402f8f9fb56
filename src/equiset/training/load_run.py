"""Trained networks, rebuilt from the files of their runs: `load_run`. The only way in which they are rebuilt."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MethodType
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from equiset.config.specs import run_settings
from equiset.errors import EquisetError
from equiset.experiments import experiment_module
from equiset.files import read_json
from equiset.training.devices import arithmetic
from equiset.training.loop import load_weights

__all__ = ["Trained", "load_run"]

log = logging.getLogger(__name__)

Reject = Callable[[str], None]
"""Is called with what is wrong with an input. It raises an error, or notes that the input is skipped."""
Tables = tuple[int, Iterator[pd.DataFrame]]
"""How many rows to expect, and the rows, block by block."""


@dataclass(frozen=True)
class Trained:
    """A trained network, and what belongs to it. Called with raw inputs, it returns the network's output."""

    network: nn.Module
    """In evaluation mode."""
    settings: Any
    """The typed settings of the variant that was trained."""
    info: dict[str, Any]
    """The content of run.json: what was trained, on which sets, with which code and versions."""
    store: Path | None
    """The prepared data that it learnt from, if they are still where the workflow made them."""
    device: torch.device

    @property
    def sets(self) -> dict[str, Any]:
        """How the sets it learnt from were drawn, and what was measured on them."""
        return self.info["sets"]

    @property
    def preprocess(self) -> Callable[..., Any]:
        """Turns raw inputs into what the network takes, in main memory. Its docstring says what raw inputs are."""
        return MethodType(experiment_module(self.info["spec"]["experiment"], "predict").preprocess, self)

    @torch.no_grad()
    def __call__(self, *raw: Any) -> Tensor:
        """Return the network's output for raw inputs, as float32 in main memory."""
        inputs = self.preprocess(*raw).to(self.device)
        with arithmetic(self.settings.training.precision, self.device):
            return self.network(inputs).float().cpu()

    def predict(self, source: str | Path, on_bad: Literal["stop", "skip"] = "stop") -> pd.DataFrame:
        """Return the predictions for a user's own files: see docs/predict.md.

        Args:
            source: meshes, faces, digits or a catalogue, as the experiment of the run takes them.
            on_bad: what to do about a file that cannot be read.
        """
        return pd.concat(predict_with([self], Path(source), on_bad, [])[1], ignore_index=True)


def predict_with(runs: list[Trained], source: Path, on_bad: str, left_out: list[str]) -> Tables:
    """Return the number of rows to expect, and block by block the predictions of runs that differ by their seed.

    `left_out` gets what is wrong with each file that was skipped.
    """
    if not source.exists():
        raise EquisetError(f"{source} is not there")

    def reject(reason: str) -> None:
        if on_bad == "stop":
            raise EquisetError(f"{reason}. Fix or remove it, or go on without it: --on-bad skip")
        log.warning("left out: %s", reason)
        left_out.append(reason)

    return experiment_module(runs[0].info["spec"]["experiment"], "predict").predict(runs, source, reject)


def load_run(folder: str | Path, device: str | torch.device = "cpu") -> Trained:
    """Return the network of a run with its preprocessing and settings.

    Args:
        folder: of a finished run, `results/<scale>/<experiment>/runs/<variant>/seed<n>`, of a published one below
            `results/reference`, or any other that holds its `run.json` and `weights.safetensors`.
        device: where the network is to compute.
    """
    folder, device = Path(folder), torch.device(device)
    for name in ("run.json", "weights.safetensors"):
        if not (folder / name).is_file():
            raise EquisetError(f"{folder} is not the folder of a run with its weights: it has no {name}")
    info = read_json(folder / "run.json")
    if not (isinstance(info, dict) and {"spec", "sets"} <= info.keys()):
        raise EquisetError(f"{folder / 'run.json'} is damaged: it is not what equiset writes")
    settings, experiment = run_settings(info["spec"]), info["spec"]["experiment"]
    network = experiment_module(experiment, "networks").build_network(settings, info["sets"])
    load_weights(network, folder / "weights.safetensors", info.get("weights_sha256"))
    return Trained(network.to(device).eval(), settings, info, _find_store(folder, info["sets"]), device)


def _find_store(folder: Path, sets: dict[str, Any]) -> Path | None:
    """Return the prepared data of a run if they are where the workflow keeps them, and still the same."""
    for parent in folder.absolute().parents[3:4]:
        store = parent / "data" / sets["dataset"] / "store"
        if (store / "store.json").is_file() and read_json(store / "store.json")["digest"] == sets["store_digest"]:
            return store
    return None


def check_array(raw: Any, expected: str, *shape: int | None) -> np.ndarray:
    """Return a raw input as an array, or raise an error if it is not of numbers and of this shape.

    Args:
        raw: the input.
        expected: what it should be, with its shape, for the message.
        shape: sizes after the first dimension, which may have any size; None is any size above zero.
    """
    try:
        array = np.asarray(raw)
    except (ValueError, TypeError, RuntimeError):  # lists of different lengths, tensors that need a gradient, ...
        raise EquisetError(f"expected {expected}, got a {type(raw).__name__} that is no array") from None
    sizes = array.shape[1:]
    if (
        array.dtype.kind not in "uif"
        or array.ndim != 1 + len(shape)
        or any(size == 0 or wanted not in (None, size) for size, wanted in zip(sizes, shape, strict=True))
    ):
        raise EquisetError(f"expected {expected}, got {array.dtype} of shape {array.shape}")
    return array


def check_pixels(raw: Any, expected: str, *shape: int | None) -> Tensor:
    """Return images as float32, or raise an error if they do not have this shape and values from 0 to 255."""
    array = check_array(raw, expected, *shape)
    least, most = (array.min(), array.max()) if array.size else (0, 255)
    from_0_to_1 = array.dtype.kind == "f" and 0 < most <= 1
    if from_0_to_1 or not 0 <= least <= most <= 255:  # so that NaN fails as well
        remedy = ": multiply them by 255" if from_0_to_1 else ""
        raise EquisetError(f"expected {expected} with values from 0 to 255, got some from {least} to {most}{remedy}")
    return torch.from_numpy(np.ascontiguousarray(array, np.float32))


def mean_probabilities(runs: list[Trained], *raw: Any, activation: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the mean over networks of `activation(output)`; of one network, that itself to the last bit."""
    return torch.stack([activation(run(*raw)) for run in runs]).mean(0)


def batch_equal_shapes(
    items: Iterable[tuple[Any, np.ndarray]], size: int
) -> Iterator[tuple[list[Any], list[np.ndarray]]]:
    """Yield names and arrays in batches of at most `size` neighbours whose arrays have the same shape."""
    names: list[Any] = []
    arrays: list[np.ndarray] = []
    for name, array in items:
        if arrays and (len(arrays) == size or array.shape != arrays[0].shape):
            yield names, arrays
            names, arrays = [], []
        names.append(name)
        arrays.append(array)
    if arrays:
        yield names, arrays
