"""A trained network as a model of MLflow: its weights and its run.json, put together again when it is loaded.

`mlflow.pyfunc.load_model("models:/mnist_sums-IV-N3/1").predict(sets)` takes sets of any size that the network takes. A
pickled module would need the same code, and an exported graph would freeze the size.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from equiset.config.specs import run_settings
from equiset.experiments import experiment_module
from equiset.training.load_run import load_run

FILES = ("run.json", "weights.safetensors")


class Network:
    """A network in evaluation, from arrays to arrays."""

    def __init__(self, folder: Path):
        self.module = load_run(folder).network

    @torch.no_grad()
    def predict(self, model_input: np.ndarray, params: Any = None) -> np.ndarray:
        """Return the network's output for a batch of sets, in the form that its experiment's task feeds them."""
        return self.module(torch.from_numpy(np.ascontiguousarray(model_input, np.float32))).numpy()


def _load_pyfunc(path: str) -> Network:
    """Load a model; MLflow calls it by this name."""
    return Network(Path(path))


def input_shape(info: dict[str, Any]) -> tuple[int, ...]:
    """Return the shape of what a network takes, -1 where it is free, from the content of its run.json."""
    module = experiment_module(info["spec"]["experiment"], "networks")
    return module.input_shape(run_settings(info["spec"]), info["sets"])
