"""Every variant of the config on the smallest stand-ins of the data, for tests that go over all of them."""

from functools import cache
from pathlib import Path
from typing import Any

import torch
import yaml

from equiset.config import resolve
from equiset.data import dataset_module
from equiset.experiments import EXPERIMENTS, experiment_module

DATA = {
    "mnist": {"twin": {"train": 60, "test": 20}},
    "modelnet40": {"twin": {"train": 1, "test": 1}, "pool": 64},
    "celeba": {"twin": {"train": 40, "validation": 40, "test": 40}},
    "redmapper": {"twin": {"clusters": 20}},
}
FEWER = {
    "mnist_sums": {"train": 4, "validation": 2},
    "point_clouds": {"particles": 12},
    "outlier_faces": {"members": 4, "train": 2, "validation": 1, "test": 1},
    "redshift": {},
}
RAW = yaml.safe_load((Path(__file__).parents[2] / "config.yaml").read_text())
CONFIG = resolve(RAW, "smoke", {"datasets": DATA})
VARIANTS = [(name, variant) for name in EXPERIMENTS for variant in CONFIG.experiment(name).variants]


class Tasks:
    """Makes tasks; stores and sets are made once, when they are first asked for."""

    def __init__(self, folder: Path):
        self.folder = folder

    @cache  # noqa: B019, as long as the tests
    def store(self, dataset: str) -> Path:
        folder = self.folder / dataset
        settings, module = CONFIG.dataset(dataset), dataset_module(dataset)
        module.prepare(module.fetch(settings, folder / "cache"), folder / "store", settings)
        return folder / "store"

    @cache  # noqa: B019
    def sets(self, experiment: str, name: str) -> Path:
        settings = CONFIG.experiment(experiment)
        folder = self.folder / experiment / name
        sets = settings.sets[name].model_copy(update=FEWER[experiment])
        experiment_module(experiment, "sets").make_sets(sets, 0, self.store(settings.dataset), folder)
        return folder

    def make(self, experiment: str, variant: str, device: torch.device, **training: Any) -> Any:
        """Make the task of a variant, with `training` changed: one epoch of one batch, if nothing else is said."""
        settings = CONFIG.experiment(experiment)
        chosen = settings.variants[variant]
        changed = chosen.training.model_copy(update={"epochs": 1, "batch_size": 1000} | training)
        chosen = chosen.model_copy(update={"training": changed} | ({"width": 8} if hasattr(chosen, "width") else {}))
        store, sets = self.store(settings.dataset), self.sets(experiment, chosen.sets)
        return experiment_module(experiment, "task").Task(chosen, store, sets, device)
