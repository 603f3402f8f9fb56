"""Activation maximisation, figure 3: python benchmarks/activation_maximisation.py

Iterations for 64 units of a layer: all units in one batch with only their own columns, against unit by unit with the
whole layer.
"""

from collections.abc import Callable
from pathlib import Path

import torch
from instrument import Benchmark, Form, Step, main
from torch import Tensor, nn

from equiset.experiments.point_clouds.analyses import maximise
from equiset.experiments.point_clouds.settings import Activations
from equiset.nn import SetLayer, SetNorm

UNITS = 64


def unit_by_unit(norm: nn.Module, layers: list[SetLayer], units: Tensor, options: Activations, _: str) -> None:
    for unit in units:
        x = (2 * torch.rand(1, options.particles, 3) - 1).requires_grad_()
        optimizer = torch.optim.Adamax([x], lr=options.learning_rate, betas=options.betas)
        for _ in range(options.iterations):
            optimizer.zero_grad()
            h = norm(x)
            for layer in layers:
                h = layer(h)
            (-h[..., unit].max()).backward()
            optimizer.step()


def step_of(form: Callable, depth: int, iterations: int) -> Callable[[Path], Step]:
    def prepare(_: Path) -> Step:
        layers = [SetLayer(3, 256, activation="tanh"), SetLayer(256, 256, activation="tanh")][:depth]
        for layer in layers:
            layer.requires_grad_(False)
        options = Activations(iterations=iterations, units=UNITS)
        return lambda: form(SetNorm(), layers, torch.arange(UNITS), options, "max")

    return prepare


def benchmark(depth: int, iterations: int, bar: float | None, rounds: int) -> Benchmark:
    return Benchmark(
        f"activation maximisation, layer {depth}, {UNITS} units, {iterations} iterations",
        (
            Form("one batch, own columns", step_of(maximise, depth, iterations), kept=True),
            Form("unit by unit", step_of(unit_by_unit, depth, iterations), kept=True),
        ),
        bar=bar,
        rounds=rounds,
    )


BENCHMARKS = [benchmark(1, 10, 10, 3), benchmark(2, 3, 5, 2)]

if __name__ == "__main__":
    main(BENCHMARKS)
