"""The measurements on the layers themselves. Each returns a table; the claims file says which column counts."""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from equiset.config.settings import validate
from equiset.experiments.laws.settings import (
    CommutingMaps,
    DeepStack,
    Laws,
    SharedDropout,
    TimeBySetSize,
    TimeOfGraphLayer,
)
from equiset.experiments.point_clouds.graphs import make_graph
from equiset.experiments.point_clouds.networks import GraphLayer
from equiset.files import write_json, write_parquet
from equiset.nn import SetDropout, SetLayer, SetPool
from equiset.training import provenance
from equiset.training.loop import fix_seeds, make_optimizer

log = logging.getLogger(__name__)


def commuting_maps(settings: CommutingMaps) -> pd.DataFrame:
    """Find the linear maps on N members that commute with all permutations, and hold our layer against them.

    A map commutes with all permutations if it does so with two that generate them: a swap and a cycle. The maps that do
    are a null space. Columns: members, excess_dimensions (beyond two), outside (the part of I and 1 1^T that is not
    in the space), layer_error (how far the layer of eq. 2 is from random maps of the space, with the two weights that
    the theorem gives it).
    """
    rows = []
    for members in settings.sizes:
        one = np.eye(members)
        swap, cycle = one[[1, 0, *range(2, members)]], np.roll(one, 1, axis=0)
        # P T - T P = 0, where T is read row by row.
        constraints = np.concatenate([np.kron(p, one) - np.kron(one, p.T) for p in (swap, cycle)])
        _, sizes, directions = np.linalg.svd(constraints)
        space = directions[(np.pad(sizes, (0, len(directions) - len(sizes))) < 1e-9)]
        known = np.stack([one.ravel() / np.sqrt(members), np.full(members**2, 1 / members)])
        outside = np.linalg.norm(known - known @ space.T @ space, axis=1).max()
        some = np.random.default_rng(members).normal(size=(8, len(space))) @ space
        errors = [_layer_error(map.reshape(members, members)) for map in some]
        rows.append((members, len(space) - 2, outside, max(errors)))
    return pd.DataFrame(rows, columns=["members", "excess_dimensions", "outside", "layer_error"])


@torch.no_grad()
def _layer_error(map: np.ndarray) -> float:
    """Return how far a layer with gamma and lambda read off the map's first row is from the map."""
    layer = SetLayer(1, 1, "sum", bias=False, dtype=torch.float64)
    gamma = map[0, 1]
    layer.set_weight.fill_(gamma)
    layer.weight.fill_(map[0, 0] - gamma)
    # The images of the unit vectors are the columns of the map.
    columns = layer(torch.eye(len(map), dtype=torch.float64).unsqueeze(2)).squeeze(2)
    return float(np.abs(columns.numpy().T - map).max())


class _Normalised(nn.Module):
    """A set layer with batch normalisation, over sets and members, before its activation."""

    def __init__(self, before: int, after: int):
        super().__init__()
        self.layer, self.norm = SetLayer(before, after), nn.BatchNorm1d(after)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.norm(self.layer(x).flatten(0, 1)).view(*x.shape[:2], -1))


def deep_stack(settings: DeepStack) -> pd.DataFrame:
    """Train a deep stack of eq. 5 layers with tanh to tell how far the members of a set are from its centre.

    The task needs the other members and is easy otherwise; every step draws new sets, so that only training can fail.
    Columns: seed, relative_loss (squared error on new sets over that of the best constant), relative_loss_first (the
    same after `first_steps`), relative_loss_normalised (the same with batch normalisation, as a control).
    """
    rows = []
    widths = [3] + [settings.width] * settings.layers
    for seed in range(settings.seeds):
        losses = []
        for make in (lambda *sizes: SetLayer(*sizes, activation="tanh"), _Normalised):
            fix_seeds(seed)
            layers = [make(before, after) for before, after in pairwise(widths)]
            model = nn.Sequential(*layers, nn.Linear(settings.width, 1))
            optimizer = make_optimizer(settings.optimizer, model)
            fix_seeds(seed, 2)
            for number in range(settings.steps):
                if number == min(settings.first_steps, settings.steps - 1):
                    losses.append(_relative_loss(model, settings))
                x, y = _distances(settings.batch_size, settings.members)
                _descend(optimizer, (model(x) - y).square().mean())
            losses.append(_relative_loss(model, settings))
        rows.append((seed, losses[1], losses[0], losses[3]))
    return pd.DataFrame(rows, columns=["seed", "relative_loss", "relative_loss_first", "relative_loss_normalised"])


@torch.no_grad()
def _relative_loss(model: nn.Module, settings: DeepStack) -> float:
    """Return the squared error on fixed sets over their variance, without a trace in the random numbers."""
    with torch.random.fork_rng(devices=[]):
        fix_seeds(1)
        x, y = _distances(1000, settings.members)
    model.eval()
    loss = float((model(x) - y).square().mean() / y.var())
    model.train()
    return loss


def _distances(count: int, members: int) -> tuple[Tensor, Tensor]:
    x = torch.randn(count, members, 3)
    return x, (x - x.mean(1, keepdim=True)).norm(dim=2, keepdim=True)


def _descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def shared_dropout(settings: SharedDropout) -> pd.DataFrame:
    """Learn from few noisy sets whose members are nearly the same, with dropout at once or for each member alone.

    A set has hidden features; its members are these with a little noise, and the label is a linear function of them
    with as much noise again. Without regularisation a wide network learns the noise. The layers have the mean form of
    eq. 2, because eq. 5 subtracts what all members share, which here is everything. Both ways start from the same
    weights and see the same sets. Columns: seed, loss_at_once, loss_alone, loss_without (dropout), each the squared
    error on new sets without label noise over the variance of their labels; relative_gain, what dropping at once saves
    of loss_alone.
    """
    rows = []
    for seed in range(settings.seeds):
        fix_seeds(seed)
        weights = torch.randn(settings.features) / settings.features**0.5
        x, y = _similar_members(settings, settings.train, weights)
        y = y + torch.randn_like(y)
        test_x, test_y = _similar_members(settings, settings.test, weights)
        losses = {}
        for name, rate, at_once in (("at_once", None, True), ("alone", None, False), ("without", 0.0, True)):
            fix_seeds(seed, 1)
            model = _regressor(settings, settings.dropout if rate is None else rate, at_once)
            optimizer = make_optimizer(settings.optimizer, model)
            fix_seeds(seed, 2)
            for _ in range(settings.steps):
                chosen = torch.randint(len(x), (settings.batch_size,))
                _descend(optimizer, (model(x[chosen]) - y[chosen]).square().mean())
            model.eval()
            with torch.no_grad():
                losses[name] = float((model(test_x) - test_y).square().mean() / test_y.var())
        rows.append((seed, *losses.values(), 1 - losses["at_once"] / losses["alone"]))
    names = ["seed", "loss_at_once", "loss_alone", "loss_without", "relative_gain"]
    return pd.DataFrame(rows, columns=names)


def _similar_members(settings: SharedDropout, count: int, weights: Tensor) -> tuple[Tensor, Tensor]:
    shared = torch.randn(count, 1, settings.features)
    x = shared + 0.1 * torch.randn(count, settings.members, settings.features)
    return x, (shared @ weights)


def _regressor(settings: SharedDropout, rate: float, at_once: bool) -> nn.Module:
    return nn.Sequential(
        SetLayer(settings.features, settings.width, "mean", activation="tanh"),
        SetDropout(rate, simultaneous=at_once),
        SetLayer(settings.width, settings.width, "mean", activation="tanh"),
        SetDropout(rate, simultaneous=at_once),
        SetPool("mean"),
        nn.Linear(settings.width, 1),
    )


def time_by_set_size(settings: TimeBySetSize) -> pd.DataFrame:
    """Time a step (forward and backward) of an eq. 5 layer for each set, by its size.

    Batches of all sizes have equally many members, so that what a call costs by itself weighs the same in all of them.
    One row per repetition, in which all sizes are timed in turn. Columns: repetition, exponent (slope of log time per
    set by log size), seconds_per_set_<size>.
    """
    fix_seeds(0)
    layer = SetLayer(settings.width, settings.width, activation="tanh")
    batches = {size: _batch(max(1, settings.rows // size), size, settings.width) for size in settings.sizes}
    actions = {size: lambda x=x: layer(x).sum().backward() for size, x in batches.items()}
    rows = []
    for repetition, times in enumerate(_timed_in_turn(actions, settings.repetitions)):
        each = {size: seconds / len(batches[size]) for size, seconds in times.items()}
        slope = np.polyfit(np.log(list(each)), np.log(list(each.values())), 1)[0]
        rows.append({"repetition": repetition, "exponent": slope})
        rows[-1] |= {f"seconds_per_set_{size}": seconds for size, seconds in each.items()}
    return pd.DataFrame(rows)


def _batch(sets: int, members: int, width: int) -> Tensor:
    return torch.randn(sets, members, width, requires_grad=True)


def _timed_in_turn(actions: dict[Any, Callable[[], object]], repetitions: int) -> list[dict[Any, float]]:
    """Return the processor seconds of every action, all once per repetition, after one that is not counted."""
    found = []
    for _ in range(repetitions + 1):
        times = {}
        for name, action in actions.items():
            start = time.process_time()
            action()
            times[name] = time.process_time() - start
        found.append(times)
    return found[1:]


def time_of_graph_layer(settings: TimeOfGraphLayer) -> pd.DataFrame:
    """Time a step (forward and backward) of a hidden graph layer (ELU) and of a hidden eq. 5 layer (tanh).

    The graphs are made beforehand, as in the paper. One row per repetition, in which both are timed in turn. Columns:
    repetition, set_seconds, graph_seconds, ratio.
    """
    fix_seeds(0)
    graph = make_graph(torch.randn(settings.clouds, settings.points, 3), settings.neighbours)
    x = _batch(settings.clouds, settings.points, settings.width)
    set_layer = SetLayer(settings.width, settings.width, activation="tanh")
    graph_layer = GraphLayer(settings.width, settings.width)
    actions = {
        "set_seconds": lambda: set_layer(x).sum().backward(),
        "graph_seconds": lambda: nn.functional.elu(graph_layer(x.flatten(0, 1), graph)).sum().backward(),
    }
    table = pd.DataFrame(_timed_in_turn(actions, settings.repetitions))
    table.insert(0, "repetition", range(len(table)))
    return table.assign(ratio=table["graph_seconds"] / table["set_seconds"])


MEASUREMENTS = {
    "commuting_maps": commuting_maps,
    "deep_stack": deep_stack,
    "shared_dropout": shared_dropout,
    "time_by_set_size": time_by_set_size,
    "time_of_graph_layer": time_of_graph_layer,
}


def measure_layers(settings: dict[str, Any], output: Path, threads: int) -> None:
    """Make all measurements, and write their tables and a `run.json` into a folder."""
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    laws, seconds = validate(Laws, settings, "laws"), {}
    for name, measurement in MEASUREMENTS.items():
        started = time.process_time()
        table = measurement(getattr(laws, name))
        write_parquet(output / f"{name}.parquet", table)
        seconds[name] = round(time.process_time() - started, 3)
        log.info("%s: %d rows, %.1f s of processor time", name, len(table), seconds[name])
    write_json(
        output / "run.json",
        {
            "settings": laws.model_dump(mode="json"),
            "processor_seconds": seconds,
            "ended": datetime.now(UTC).isoformat(timespec="seconds"),
            "threads": torch.get_num_threads(),
            "git_commit": provenance.git_commit(),
            "versions": provenance.versions(),
            "machine": provenance.machine(),
        },
    )
