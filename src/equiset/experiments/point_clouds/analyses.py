"""What is measured on trained networks beyond Table 1: robustness, clouds that units prefer, points that decide."""

import logging
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from equiset.experiments.point_clouds.networks import CloudNet
from equiset.experiments.point_clouds.settings import Activations, Robustness, Winners
from equiset.experiments.point_clouds.task import Clouds
from equiset.files import read_json, read_parquet
from equiset.nn import SetLayer
from equiset.nn.ways import may_look
from equiset.results.runs import Run
from equiset.training.devices import choose_device, fix_arithmetic
from equiset.training.feeding import feed
from equiset.training.load_run import load_run
from equiset.training.loop import fix_seeds

log = logging.getLogger(__name__)

_UNITS_AT_ONCE = 64
_Condition = tuple[int, float, float]
"""Number of particles, degrees of rotation about z, scale."""


def _load(run: Run) -> tuple[CloudNet, torch.device]:
    """Return a trained network and its device, and compute as the run did (in float32, also after bfloat16)."""
    device = choose_device(run.info["spec"]["device"])
    fix_arithmetic(run.settings["training"]["precision"], device)
    return load_run(run.folder, device).network, device


def robustness(runs: dict[str, list[Run]], store: Path, settings: dict[str, Any]) -> pd.DataFrame:
    """Answers on test meshes by number of particles, rotation about z and scale, for one draw of particles.

    Columns: variant, seed, changed (`particles`, `rotation_degrees` or `scale`), value, right (for each mesh).
    """
    options = Robustness.model_validate(settings)
    table = read_parquet(store / "meshes.parquet", columns=["split", "label"])
    meshes = np.flatnonzero(table["split"] == "test")
    if options.meshes and options.meshes < len(meshes):
        meshes = meshes[np.linspace(0, len(meshes) - 1, options.meshes).round().astype(int)]
    labels = torch.from_numpy(table["label"].to_numpy(dtype=np.int64)[meshes])
    rows = []
    for variant, group in runs.items():
        for run in group:
            (model, device), clouds = _load(run), Clouds(store)
            right: dict[_Condition, np.ndarray] = {}  # unchanged clouds are in each of the three curves
            for changed, value, condition in _conditions(options, run.info["sets"]["particles"]):
                if condition not in right:
                    particles, angle, scale = condition
                    model.transformation.fixed = (float(np.radians(angle)), scale)
                    drawn = feed(clouds.fixed_draw(meshes, particles, run.seed, 1), device)
                    right[condition] = _right(model, drawn, labels)
                    log.info("%s, seed %d: answered with %s %g", variant, run.seed, changed, value)
                rows.append((variant, run.seed, changed, float(value), right[condition]))
    return pd.DataFrame(rows, columns=["variant", "seed", "changed", "value", "right"])


def _conditions(options: Robustness, trained: int) -> Iterator[tuple[str, float, _Condition]]:
    for count in options.particles:
        yield "particles", count, (count, 0.0, 1.0)
    for angle in options.rotation_degrees:
        yield "rotation_degrees", angle, (trained, angle, 1.0)
    for scale in options.scales:
        yield "scale", scale, (trained, 0.0, scale)


@torch.no_grad()
def _right(model: CloudNet, drawn: Iterator[tuple[slice, Tensor]], labels: Tensor) -> np.ndarray:
    # What was predicted is fetched at the end, so that no batch waits for the one before.
    predicted = torch.cat([model(clouds).argmax(1) for _, clouds in drawn])
    return (predicted.cpu() == labels).numpy()


def activations(runs: dict[str, list[Run]], store: Path, settings: dict[str, Any]) -> pd.DataFrame:
    """Clouds that maximise single units of the first two layers.

    Columns: variant, seed, objective, layer, unit, activation, activated, cloud (x, y, z of all particles, normalised).
    """
    options = Activations.model_validate(settings)
    run = next(iter(runs.values()))[0]
    model, device = _load(run)
    model.requires_grad_(False)
    layers = list(model.encoder.layers)
    rows = []
    for objective, depth in product(options.objectives, (1, 2)[: len(layers)]):
        units = torch.arange(min(options.units, layers[depth - 1].out_features), device=device)
        for some in units.split(_UNITS_AT_ONCE):
            fix_seeds(run.seed, depth, int(some[0]))
            clouds, reached = maximise(model.norm, layers[:depth], some, options, objective)
            results = some.cpu().tolist(), reached.cpu().tolist(), clouds.cpu().numpy()
            log.info("layer %d, %s over the particles: %d units maximised", depth, objective, len(some))
            for unit, activation, cloud in zip(*results, strict=True):
                active = activation >= options.activated
                rows.append((run.variant, run.seed, objective, depth, unit, activation, active, cloud.ravel()))
    names = ["variant", "seed", "objective", "layer", "unit", "activation", "activated", "cloud"]
    return pd.DataFrame(rows, columns=names)


def maximise(
    norm: nn.Module, layers: list[SetLayer], units: Tensor, options: Activations, objective: str
) -> tuple[Tensor, Tensor]:
    """Move one uniform cloud for each unit of the last layer until the unit is active, all in one batch.

    Returns the normalised clouds, (units, particles, 3), and the activations that they reach, (units,).
    """
    x = (2 * torch.rand(len(units), options.particles, 3, device=units.device) - 1).requires_grad_()
    optimizer = torch.optim.Adamax([x], lr=options.learning_rate, betas=options.betas)
    with torch.enable_grad():
        for _ in range(options.iterations):
            optimizer.zero_grad(set_to_none=True)
            # Clouds have no unit in common, so the gradient of the sum is the gradient of each.
            _activation(norm(x), layers, units, objective).sum().neg().backward()
            optimizer.step()
    with torch.no_grad():
        clouds = norm(x)
        return clouds, _activation(clouds, layers, units, objective)


def _activation(x: Tensor, layers: list[SetLayer], units: Tensor, objective: str) -> Tensor:
    """Return the activation of unit `units[i]` of the last layer for cloud i, over its particles."""
    of_eq_5 = all(layer.form == "max-norm" and isinstance(layer.activation, nn.Tanh) for layer in layers)
    if len(layers) == 2 and of_eq_5 and may_look(x):
        first, last = layers
        lowered = x - x.amax(1, keepdim=True)
        return _SecondLayer.apply(
            lowered, first.weight, first.bias, last.weight[units], last.bias[units], objective == "max"
        )
    for layer in layers[:-1]:
        x = layer(x)
    last = layers[-1]
    if last.form == "max-norm":
        # One column of the last layer is enough for each cloud.
        values = (x - x.amax(1, keepdim=True)) @ last.weight[units].unsqueeze(2) + last.bias[units].view(-1, 1, 1)
        values = last.activation(values).squeeze(2)
    else:
        values = last(x)[torch.arange(len(x), device=x.device), :, units]
    return values.amax(1) if objective == "max" else values.mean(1)


class _SecondLayer(torch.autograd.Function):
    """The activations of units of the second of two layers of eq. 5 with tanh, one unit for each cloud.

    Values, and the gradient of the clouds, are those of the layers themselves, in a quarter of the time: each cloud in
    turn stays in the cache until its gradient is known, too. The weights get no gradient. Of particles that share a
    maximum, the first gets the gradient.
    """

    @staticmethod
    def forward(
        ctx: Any, clouds: Tensor, weight: Tensor, bias: Tensor, of_units: Tensor, biases: Tensor, largest: bool
    ) -> Tensor:
        activations, gradients = clouds.new_empty(len(clouds)), torch.zeros_like(clouds)
        for cloud, unit, shift, activation, gradient in zip(
            clouds, of_units, biases, activations, gradients, strict=True
        ):
            # tanh z = 2 sigmoid(2 z) - 1 takes a sixth of the time of tanh. From here on, h is that sigmoid.
            h = torch.addmm(2 * bias, cloud, 2 * weight.t())
            maxima = h.amax(0)
            # Few particles win. Written so that NaN wins too.
            winners = (h - maxima).amax(1).lt(0).logical_not_().nonzero().flatten()
            where = winners[h[winners].max(0).indices]
            h, maxima = h.sigmoid_(), maxima.sigmoid_()
            values = torch.addmv(shift - 2 * maxima @ unit, h, unit, alpha=2).tanh_()
            path = 4 * unit.unsqueeze(1) * weight  # from the coordinates to the unit, less the derivative of sigmoid
            if largest:
                activation[...], best = values.max(0)
                slope = 1 - activation.square()
                gradient[best] = slope * ((h[best] - h[best].square()) @ path)
            else:
                activation[...] = values.mean()
                slopes = (1 - values.square()) / len(values)
                slope = slopes.sum()
                h.addcmul_(h, h, value=-1)
                for axis in range(path.shape[1]):  # product by product, a fourth of the time of a narrow matrix
                    torch.mul(slopes, h @ path[:, axis], out=gradient[:, axis])
            gradient.index_add_(0, where, slope * (maxima.square() - maxima).unsqueeze(1) * path)
        ctx.save_for_backward(gradients)
        return activations

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
        (gradients,) = ctx.saved_tensors
        return given[0].view(-1, 1, 1) * gradients, None, None, None, None, None


@torch.no_grad()
def winners(runs: dict[str, list[Run]], store: Path, settings: dict[str, Any]) -> pd.DataFrame:
    """Test clouds, one of each of some classes, with the channels of the pooled maximum that each particle wins.

    Columns: variant, seed, class, predicted, cloud (x, y, z of all particles, normalised), wins (for each particle).
    """
    run = next(iter(runs.values()))[0]
    model, device = _load(run)
    names = read_json(store / "store.json")["classes"]
    meshes = read_parquet(store / "meshes.parquet", columns=["split", "class"]).query("split == 'test'")
    first = meshes.reset_index().groupby("class")["index"].first()
    wanted = Winners.model_validate(settings).classes
    chosen = sorted(names, key=lambda name: wanted.index(name) if name in wanted else len(wanted))[: len(wanted)]
    rows = first[chosen].to_numpy()
    drawn = Clouds(store).fixed_draw(rows, run.info["sets"]["particles"], run.seed, 1)
    clouds = model.transformation(model.norm(torch.cat([clouds for _, clouds in drawn]).to(device)))
    predicted = model.head(model.encoder(clouds)).argmax(1).tolist()
    return pd.DataFrame(
        {
            "variant": run.variant,
            "seed": run.seed,
            "class": chosen,
            "predicted": [names[label] for label in predicted],
            "cloud": list(clouds.cpu().flatten(1).numpy()),
            "wins": list(model.encoder.winners(clouds).cpu().numpy()),
        }
    )


ANALYSES = {"robustness": robustness, "activations": activations, "winners": winners}
