"""Every variant of every experiment trains in bfloat16, automatic mixed precision."""

from pathlib import Path

import pytest
import torch
import yaml

from equiset.config import resolve
from equiset.data import dataset_module
from equiset.experiments import EXPERIMENTS, experiment_module
from equiset.training import train

CPU = torch.device("cpu")
DATA = {
    "mnist": {"twin": {"train": 60, "test": 20}},
    "modelnet40": {"twin": {"train": 1, "test": 1}, "pool": 64},
    "celeba": {"twin": {"train": 40, "validation": 40, "test": 40}},
    "redmapper": {"twin": {"clusters": 20}},
}
RAW = yaml.safe_load((Path(__file__).parents[2] / "config.yaml").read_text())
CONFIG = resolve(RAW, "smoke", {"datasets": DATA})
FEWER = {
    "mnist_sums": {"train": 4, "validation": 2},
    "point_clouds": {"particles": 12},
    "outlier_faces": {"members": 4, "train": 2, "validation": 1, "test": 1},
    "redshift": {},
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Give the store of an experiment's data, the smallest stand-in, made when it is first asked for."""
    made = {}

    def store(dataset: str) -> Path:
        if dataset not in made:
            folder = tmp_path_factory.mktemp(dataset)
            settings = CONFIG.dataset(dataset)
            module = dataset_module(dataset)
            module.prepare(module.fetch(settings, folder / "cache"), folder / "store", settings)
            made[dataset] = folder / "store"
        return made[dataset]

    return store


@pytest.mark.parametrize(
    ("experiment", "variant"), [(name, variant) for name in EXPERIMENTS for variant in CONFIG.experiment(name).variants]
)
def test_it_takes_a_step(experiment, variant, stores, tmp_path):
    settings = CONFIG.experiment(experiment)
    chosen = settings.variants[variant]
    training = chosen.training.model_copy(update={"precision": "bfloat16", "epochs": 1, "batch_size": 1000})
    chosen = chosen.model_copy(update={"training": training} | ({"width": 8} if hasattr(chosen, "width") else {}))
    store = stores(settings.dataset)
    sets = settings.sets[chosen.sets].model_copy(update=FEWER[experiment])
    experiment_module(experiment, "sets").make_sets(sets, 0, store, tmp_path / "sets")
    task = experiment_module(experiment, "task").Task(chosen, store, tmp_path / "sets", CPU)
    model, progress = train(task, training, 0, CPU, tmp_path / "checkpoint.pt")
    assert torch.tensor(progress.metrics[0]["train_loss"]).isfinite()
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    assert all(parameter.grad.any() for parameter in model.parameters() if parameter.ndim > 1)
