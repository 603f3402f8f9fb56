"""A training step of SetEncoder, or of pooling alone, and a linear head: python benchmarks/set_encoder.py

The rival is the straightforward form, layer by layer over all members, with the allocator as it comes. How many members
win a maximum depends on the data: on the surface of an ellipsoid, as in a sampled mesh, more of them than in a Gaussian
cloud, which thins out. So surfaces are the harder case, and the one that counts. It depends on the weights as well:
`trained` are those of the published network. The bare products are those of all members: what any form that treats all
members alike has to spend.
"""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from instrument import Benchmark, Form, Step, main
from safetensors.torch import load_file
from torch import Tensor, nn

from equiset import SetEncoder
from equiset.experiments.point_clouds.networks import PoolingEncoder

CLASSES = 40
RUNS = Path(__file__).parents[1] / "results" / "reference" / "point_clouds" / "runs"


class Straightforward(nn.Module):
    """x minus its maximum, Linear, tanh for each layer, and the maximum of the last."""

    def __init__(self, widths: list[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in pairwise(widths))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x - x.amax(1, keepdim=True)))
        return x.amax(1)


class StraightPooling(Straightforward):
    """Linear and tanh for each layer, and the maximum of the last."""

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x.amax(1)


class Maximum(SetEncoder):
    """The other form with a maximum, eq. 4."""

    def __init__(self, widths: list[int]) -> None:
        super().__init__(widths, "max")


class StraightMaximum(Maximum):
    forward = Maximum.plain


def surfaces(batch: int, points: int) -> Tensor:
    return F.normalize(torch.randn(batch, points, 3), dim=2) * (0.5 + torch.rand(batch, 1, 3))


def normalised(batch: int, points: int) -> Tensor:
    x = surfaces(batch, points)
    x = x - x.mean(1, keepdim=True)
    return x / x.std(dim=(1, 2), keepdim=True)


def clouds(batch: int, points: int) -> Tensor:
    return torch.randn(batch, points, 3)


def step_of(
    kind: type[nn.Module], data: Callable[[int, int], Tensor], batch: int, points: int, width: int, trained: str = ""
) -> Callable[[Path], Step]:
    def prepare(_: Path) -> Step:
        model = nn.Sequential(kind([3, width, width, width]), nn.Linear(width, CLASSES))
        if trained:
            weights = load_file(RUNS / trained / "seed0" / "weights.safetensors")
            encoder = {name: value for name, value in weights.items() if name.startswith("encoder.layers.")}
            model[0].load_state_dict({name.removeprefix("encoder."): value for name, value in encoder.items()})
        x, labels = data(batch, points), torch.randint(CLASSES, (batch,))

        def step(part: slice = slice(None)) -> None:
            model.zero_grad()
            F.cross_entropy(model(x[part]), labels[part]).backward()

        step(slice(1))  # what torch does once in a process
        return step

    return prepare


def products(batch: int, points: int, width: int) -> Callable[[Path], Step]:
    def prepare(_: Path) -> Step:
        rows = batch * points
        x, grad, weight = torch.randn(rows, width), torch.randn(rows, width), torch.randn(width, width)
        forward, back = torch.empty(rows, width), torch.empty(rows, width)

        def step() -> None:
            for _ in range(2):  # the first of the three layers has three channels, which is nothing
                torch.mm(x, weight.t(), out=forward)
                torch.mm(grad, weight, out=back)
                torch.mm(grad.t(), x)

        return step

    return prepare


def benchmark(batch: int, points: int, width: int, trained: str = "", **options) -> Benchmark:
    size = (batch, points, width)
    both = ((SetEncoder, "SetEncoder"), (Straightforward, "straightforward")) if trained else ()
    # The network centres its clouds and gives them unit variance.
    as_trained = [Form(f"{name}, trained", step_of(kind, normalised, *size, trained), kept=True) for kind, name in both]
    kept = Form("straightforward, freed memory kept", step_of(Straightforward, surfaces, *size), kept=True)
    return Benchmark(
        f"set encoder, {batch} x {points}, width {width}",
        (
            Form("SetEncoder, surfaces", step_of(SetEncoder, surfaces, *size), kept=True),
            Form("straightforward, surfaces", step_of(Straightforward, surfaces, *size)),
            *([kept] if points < 5000 else []),  # there it would take minutes and gigabytes
            Form("SetEncoder on Gaussian clouds", step_of(SetEncoder, clouds, *size), kept=True),
            *as_trained,
            Form("bare matrix products of all members", products(*size), kept=True, limit=True),
        ),
        **options,
    )


def pooling(batch: int, points: int, width: int, **options) -> Benchmark:
    size = (surfaces, batch, points, width)
    return Benchmark(
        f"pooling alone, {batch} x {points}, width {width}",
        (
            Form("PoolingEncoder, winners alone", step_of(PoolingEncoder, *size), kept=True),
            Form("straightforward pooling, memory kept", step_of(StraightPooling, *size), kept=True),
            Form("SetEncoder of the same size", step_of(SetEncoder, *size), kept=True),
            Form("bare matrix products of all members", products(*size[1:]), kept=True, limit=True),
        ),
        **options,
    )


def maximum(batch: int, points: int, width: int, **options) -> Benchmark:
    size = (surfaces, batch, points, width)
    return Benchmark(
        f"set encoder of eq. 4, {batch} x {points}, width {width}",
        (
            Form("SetEncoder, winners alone", step_of(Maximum, *size), kept=True),
            Form("layer by layer, freed memory kept", step_of(StraightMaximum, *size), kept=True),
        ),
        **options,
    )


BENCHMARKS = [
    benchmark(64, 100, 256, trained="set-100", rounds=7),
    benchmark(64, 1000, 256, trained="set-1000", rounds=3, bar=3, memory_bar=6),
    # A quarter of the training's batch, which the ratios do not depend on, for the sake of time.
    benchmark(16, 5000, 512, rounds=3, warm=False, bar=5, memory_bar=6),
    pooling(64, 1000, 256, rounds=3),
    maximum(64, 1000, 256, rounds=3),
]

if __name__ == "__main__":
    main(BENCHMARKS)
