"""Trained networks put together again from the files of their runs: `load_run`."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
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

Bad = Callable[[str], None]
"""Takes what is wrong with an input: it stops by an error, or notes that the input is left out."""
Tables = tuple[int, Iterator[pd.DataFrame]]
"""How many rows are to be expected, and the rows, block by block."""


@dataclass(frozen=True)
class Trained:
    """A trained network, and what belongs to it. Called with raw inputs, it returns the network's output."""

    network: nn.Module
    """In evaluation."""
    preprocess: Callable[..., Any]
    """Turns raw inputs into what the network takes, in main memory. Its docstring says what raw inputs are."""
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

    @torch.no_grad()
    def __call__(self, *raw: Any) -> Tensor:
        """Return the network's output for raw inputs, as float32 in main memory."""
        inputs = self.preprocess(*raw).to(self.device)
        with arithmetic(self.settings.training.precision, self.device):
            return self.network(inputs).float().cpu()

    def predict(self, source: str | Path, on_bad: Literal["stop", "skip"] = "stop") -> pd.DataFrame:
        """Return what the network says of the files that somebody brings: see docs/predict.md.

        Args:
            source: meshes, faces, digits or a catalogue, as the experiment of the run takes them.
            on_bad: what to do about a file that cannot be used.
        """
        return pd.concat(predict_with([self], Path(source), on_bad, [])[1], ignore_index=True)


def predict_with(runs: list[Trained], source: Path, on_bad: str, left_out: list[str]) -> Tables:
    """Return the number of rows to expect, and block by block what runs that differ by their seed say together.

    `left_out` gets what is wrong with each file that was skipped.
    """
    if not source.exists():
        raise EquisetError(f"{source} is not there")

    def bad(reason: str) -> None:
        if on_bad == "stop":
            raise EquisetError(f"{reason}. Mend or remove it, or go on without it: --on-bad skip")
        log.warning("left out: %s", reason)
        left_out.append(reason)

    return experiment_module(runs[0].info["spec"]["experiment"], "predict").predict(runs, source, bad)


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
    store = _store(folder, info["sets"])
    preprocess = experiment_module(experiment, "predict").preprocessing(settings, info["sets"], store)
    return Trained(network.to(device).eval(), preprocess, settings, info, store, device)


def _store(folder: Path, sets: dict[str, Any]) -> Path | None:
    """Find the prepared data of a run where the workflow keeps them, if they are the very ones."""
    for parent in folder.absolute().parents[3:4]:
        store = parent / "data" / sets["dataset"] / "store"
        if (store / "store.json").is_file() and read_json(store / "store.json")["digest"] == sets["store_digest"]:
            return store
    return None


def checked(raw: Any, what: str, *shape: int | None) -> np.ndarray:
    """Return a raw input as an array of numbers if it has a shape, in which None stands for any size above zero.

    Args:
        raw: the input.
        what: it should be, with its shape, for the message.
        shape: behind the first dimension, which may have any size.
    """
    array = np.asarray(raw)
    sizes = array.shape[1:]
    if (
        array.dtype.kind not in "uif"
        or array.ndim != 1 + len(shape)
        or any(size == 0 or wanted not in (None, size) for size, wanted in zip(sizes, shape, strict=True))
    ):
        raise EquisetError(f"expected {what}, got {array.dtype} of shape {array.shape}")
    return array


def checked_pixels(raw: Any, what: str, *shape: int | None) -> Tensor:
    """Return images with values from 0 to 255 as float32."""
    array = checked(raw, what, *shape)
    least, most = (array.min(), array.max()) if array.size else (0, 255)
    from_0_to_1 = array.dtype.kind == "f" and 0 < most <= 1
    if from_0_to_1 or not 0 <= least <= most <= 255:  # so that NaN fails as well
        remedy = ": multiply them by 255" if from_0_to_1 else ""
        raise EquisetError(f"expected {what} with values from 0 to 255, got some from {least} to {most}{remedy}")
    return torch.from_numpy(np.ascontiguousarray(array, np.float32))


def mean_over_runs(runs: list[Trained], *raw: Any, chances: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the mean over networks of what `chances` makes of their outputs; of one, that itself to the last bit."""
    return torch.stack([chances(run(*raw)) for run in runs]).mean(0)


def alike(items: Iterable[tuple[Any, np.ndarray]], most: int) -> Iterator[tuple[list[Any], list[np.ndarray]]]:
    """Yield names and arrays of those in a row that have one shape, so many at a time."""
    names: list[Any] = []
    arrays: list[np.ndarray] = []
    for name, array in items:
        if arrays and (len(arrays) == most or array.shape != arrays[0].shape):
            yield names, arrays
            names, arrays = [], []
        names.append(name)
        arrays.append(array)
    if arrays:
        yield names, arrays
