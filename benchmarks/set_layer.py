"""The set layer in its forms, forward and backward: python benchmarks/set_layer.py

The rivals are the layer as its authors' code computes it (two products and a broadcast), and as one writes eq. 5 down.
"""

from collections.abc import Callable
from pathlib import Path

import torch
from instrument import Benchmark, Form, Step, main
from torch import Tensor, nn

from equiset import SetLayer

BATCH, MEMBERS, WIDTH = 16, 1000, 256


def two_linears() -> Callable[[Tensor], Tensor]:
    member, shared = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
    return lambda x: torch.tanh(member(x) - shared(x.max(1, keepdim=True).values))


def subtract_first() -> Callable[[Tensor], Tensor]:
    linear = nn.Linear(WIDTH, WIDTH)
    return lambda x: torch.tanh(linear(x - x.amax(1, keepdim=True)))


def step_of(make: Callable[[], Callable[[Tensor], Tensor]]) -> Callable[[Path], Step]:
    def prepare(_: Path) -> Step:
        forward = make()
        x = torch.randn(BATCH, MEMBERS, WIDTH, requires_grad=True)

        def step() -> None:
            x.grad = None
            output = forward(x)
            output.backward(output.detach())

        return step

    return prepare


def products(_: Path) -> Step:
    rows = BATCH * MEMBERS
    x, weight, grad = torch.randn(rows, WIDTH), torch.randn(WIDTH, WIDTH), torch.randn(rows, WIDTH)
    forward, back = torch.empty(rows, WIDTH), torch.empty(rows, WIDTH)
    return lambda: (torch.mm(x, weight, out=forward), torch.mm(grad, weight, out=back), torch.mm(grad.t(), x))


def layer(form: str) -> Callable[[], Callable[[Tensor], Tensor]]:
    return lambda: SetLayer(WIDTH, WIDTH, form, activation="tanh")


BENCHMARKS = [
    Benchmark(
        "set layer, 16 x 1000 x 256",
        (
            Form("SetLayer, eq. 5", step_of(layer("max-norm")), kept=True),
            Form("two products and a broadcast, as in the authors' code", step_of(two_linears)),
            Form("the same, freed memory kept", step_of(two_linears), kept=True),
            Form("maximum subtracted, then Linear", step_of(subtract_first)),
            Form("the same with freed memory kept", step_of(subtract_first), kept=True),
            *(
                Form(f"SetLayer, form {form}", step_of(layer(form)), kept=True)
                for form in ("sum", "mean", "max", "mean-norm")
            ),
            Form("bare matrix products", products, kept=True, limit=True),
        ),
        rounds=7,
    )
]

if __name__ == "__main__":
    main(BENCHMARKS)
