"""Encoders to compare with their `plain` form."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd import grad

from equiset import PackedSets, SetEncoder

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
CLOSE = {"rtol": 1e-10, "atol": 1e-10}
FAST = "WinningRowsBackward"
FORMS = ["max", "max-norm"]


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def build(*widths: int, seed: int = 0, **options) -> SetEncoder:
    torch.manual_seed(seed)
    return SetEncoder(widths, **options).double()


def pack(rows: Tensor, sizes: list[int]) -> PackedSets:
    return PackedSets(rows, torch.tensor([0, *sizes], device=rows.device).cumsum(0))


def way(output: Tensor) -> str:
    function = output.grad_fn
    name = type(function).__name__
    # Dropout of the last layer multiplies what the short way gives.
    return type(function.next_functions[0][0]).__name__ if name == "MulBackward0" else name


def assert_same(encoder: SetEncoder, leaf: Tensor, sets_of: Callable[[Tensor], Tensor | PackedSets], **close) -> None:
    """Values, and gradients of all parameters and of `leaf`, from which the sets are made."""
    leaf = leaf.clone().requires_grad_()
    torch.manual_seed(1)
    fast = encoder(sets_of(leaf))
    torch.manual_seed(1)  # the same dropout
    plain = encoder.plain(sets_of(leaf))
    assert way(fast) == FAST
    assert way(plain) != FAST
    torch.testing.assert_close(fast, plain, **(close or CLOSE))
    cotangent = randn(*fast.shape, seed=1).to(fast)
    wanted = [leaf, *encoder.parameters()]
    for mine, theirs in zip(grad(fast, wanted, cotangent), grad(plain, wanted, cotangent), strict=True):
        torch.testing.assert_close(mine, theirs, **(close or CLOSE))
