"""How exact packed means are, and what that costs: python benchmarks/packed_digits.py

The mean of n times 0.1 and its gradient, as packed sets, as a dense set, and by `index_add_` one row after the other.
Single precision, one thread, processor time; the forms take turns. Sets of a batch have the same size here, so that
there is a dense form.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from instrument import keep_freed_memory
from torch import Tensor
from torch.autograd import Function

from equiset import PackedSets, SetPool

SIZES = [(1, 10**2), (128, 10**2), (1, 10**4), (128, 10**4), (1, 10**6), (16, 10**6), (1, 10**7)]  # channels, members
ROUNDS = 9


class OneAfterTheOther(Function):
    """The sum without blocks; a function of our own too, which alone costs a tenth of a millisecond."""

    @staticmethod
    def forward(rows: Tensor, packed: PackedSets) -> Tensor:
        return rows.new_zeros(len(packed), packed.channels).index_add_(0, packed.set_index, rows)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, PackedSets], output: Tensor) -> None:
        ctx.packed = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return Spread.apply(grad, ctx.packed), None


class Spread(Function):
    @staticmethod
    def forward(per_set: Tensor, packed: PackedSets) -> Tensor:
        return per_set.index_select(0, packed.set_index)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, PackedSets], output: Tensor) -> None:
        ctx.packed = inputs[1]


def seconds(form: Callable[[], Tensor], rows: Tensor, repeats: int) -> float:
    start = time.process_time()
    for _ in range(repeats):
        output = form()
        torch.autograd.grad(output, rows, torch.ones_like(output))
    return (time.process_time() - start) / repeats


def main() -> None:
    torch.set_num_threads(1)
    keep_freed_memory()
    print("| members | channels | error, packed | error, dense | error, one row after the other | ms | ratio |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for channels, members in SIZES:
        sets = max(1, 10**5 // (members * channels))
        rows = torch.full((sets * members, channels), 0.1, requires_grad=True)
        packed = PackedSets(rows, torch.arange(sets + 1) * members)
        pool = SetPool("mean")
        forms = [
            lambda pool=pool, packed=packed: pool(packed),
            lambda pool=pool, rows=rows, sets=sets: pool(rows.view(sets, -1, rows.shape[1])),
            lambda packed=packed: OneAfterTheOther.apply(packed.rows, packed) / packed.sizes.unsqueeze(1),
        ]
        errors = [((form().double() - rows[0].double()).abs().max() / rows[0, 0]).item() for form in forms]
        repeats = max(1, 10**6 // rows.numel())
        rounds = [[seconds(form, rows, repeats) for form in forms] for _ in range(ROUNDS)]
        ratio = statistics.median(ours / plain for ours, _, plain in rounds)
        shown = " | ".join(f"{error:.0e}" for error in errors)
        milliseconds = 1e3 * statistics.median(ours for ours, _, _ in rounds)
        print(f"| {members} | {channels} | {shown} | {milliseconds:.2g} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
