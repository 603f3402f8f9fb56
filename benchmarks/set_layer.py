"""Time the set layer: python benchmarks/set_layer.py [--default-allocator] [--repeats N] [--threads N]

The forms take turns in one process, so that whatever else the machine does falls on all of them alike.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterable
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiset import PackedSets, SetLayer
from equiset.process import keep_freed_memory


def two_linears(x: Tensor, member: nn.Linear, shared: nn.Linear, broadcast_first: bool) -> Tensor:
    largest = x.max(1, keepdim=True).values
    return torch.tanh(member(x) - shared(largest.expand_as(x) if broadcast_first else largest))


def subtract_first(x: Tensor, linear: nn.Linear) -> Tensor:
    return torch.tanh(linear(x - x.amax(1, keepdim=True)))


def padded(x: Tensor, mask: Tensor, layers: Iterable[SetLayer]) -> Tensor:
    absent = ~mask.unsqueeze(2)
    for layer in layers:
        largest = x.masked_fill(absent, -torch.inf).amax(1, keepdim=True)
        x = F.linear(x - largest, layer.weight, layer.bias)
        x = x if layer.activation is None else layer.activation(x)
    return x[mask]


def step(forward: Callable[[], Tensor], leaves: list[Tensor]) -> float:
    for leaf in leaves:
        leaf.grad = None
    start = time.perf_counter()
    output = forward()
    output.backward(output.detach())
    return 1000 * (time.perf_counter() - start)


def compare(title: str, forms: dict[str, Callable[[], Tensor]], leaves: list[Tensor], repeats: int) -> None:
    """Print a table of all forms; the ratio is to the first, round by round."""
    rounds = [{name: step(forward, leaves) for name, forward in forms.items()} for _ in range(repeats + 1)][1:]
    first = next(iter(forms))
    print(f"\n| {title} | median ms | 10-90 % | ratio |\n|---|---|---|---|")
    for name in forms:
        times = sorted(taken[name] for taken in rounds)
        low, high = times[len(times) // 10], times[-1 - len(times) // 10]
        ratio = statistics.median(taken[name] / taken[first] for taken in rounds)
        print(f"| {name} | {statistics.median(times):.1f} | {low:.1f}-{high:.1f} | {ratio:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--default-allocator", action="store_true", help="let freed memory go back to the system")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    kept = not options.default_allocator and keep_freed_memory()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, {options.threads} threads, freed memory {'kept' if kept else 'given back'}")

    x = torch.randn(64, 1000, 256, requires_grad=True)
    layer, member, shared = SetLayer(256, 256, activation="tanh"), nn.Linear(256, 256), nn.Linear(256, 256)
    forms = {
        "SetLayer, eq. 5": lambda: layer(x),
        "two Linears and a broadcast": lambda: two_linears(x, member, shared, broadcast_first=False),
        "a broadcast and two Linears": lambda: two_linears(x, member, shared, broadcast_first=True),
        "subtract the maximum, then Linear": lambda: subtract_first(x, member),
        "Linear alone": lambda: torch.tanh(member(x)),
    }
    leaves = [x, *layer.parameters(), *member.parameters(), *shared.parameters()]
    compare("dense, 64 x 1000 x 256, forward and backward", forms, leaves, options.repeats)

    widths = [17, 128, 128, 128, 1]
    network = nn.Sequential(*(SetLayer(i, o, activation=None if o == 1 else "tanh") for i, o in pairwise(widths)))
    # Many small clusters and a few large ones, about 65 members on average, as in a catalogue of galaxy clusters.
    sizes = 24 + torch.empty(128).exponential_(1 / 42).clamp(max=250)
    sizes[0] = 274
    sets = PackedSets.from_list([torch.randn(int(size), 17) for size in sizes])
    dense, mask = sets.to_dense()
    forms = {
        "PackedSets": lambda: network(sets).rows,
        "padding and a mask": lambda: padded(dense, mask, network),
    }
    compare(f"{sets}, 17-128-128-128-1", forms, list(network.parameters()), options.repeats)


if __name__ == "__main__":
    main()
