"""Random encoders against their `plain` form: python -m tests.unit.encoder_fuzz [how many]

In float32, rounding alone may decide which of two members wins a maximum. Where `plain` itself differs from its value
in float64, by more than `UNDECIDED`, nothing can be said, and the case is counted and left out.
"""

import copy
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd import grad

from equiset import PackedSets, SetEncoder

UNDECIDED = 1e-4
TOLERANCES = {"float64": 1e-6, "float32": 5e-3}


@dataclass(frozen=True)
class Case:
    kind: str
    about: str
    encoder: SetEncoder
    leaf: Tensor
    sets_of: Callable[[Tensor], Tensor | PackedSets]
    signal: float
    seed: int

    def results(self, plain: bool, dtype: torch.dtype | None = None) -> list[Tensor]:
        """Give values and gradients, in the sizes that they are expected to have."""
        encoder = copy.deepcopy(self.encoder).to(dtype)
        leaf = self.leaf.to(dtype or self.leaf.dtype, copy=True).requires_grad_()
        torch.manual_seed(self.seed)  # the same dropout
        output = (encoder.plain if plain else encoder)(self.sets_of(leaf))
        cotangent = torch.randn(output.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(self.seed))
        names, parameters = zip(*encoder.named_parameters(), strict=True)
        gradients = grad(output, [leaf, *parameters], cotangent.to(output))
        of_parameters = [1.0 if name.endswith("bias") else self.signal for name in names]
        sizes = [min(self.signal, 1.0), 1.0, *of_parameters]
        return [result.detach().double() / size for result, size in zip((output, *gradients), sizes, strict=True)]


def _one_of(*choices):
    return choices[int(torch.randint(len(choices), ()))]


def random_case(seed: int) -> Case:
    torch.manual_seed(seed)
    activation = _one_of("tanh", "tanh", "relu", None, "elu")
    form = _one_of("max", "max", "max-norm", "max-norm", "mean", "mean-norm", "sum")
    options = {"dropout": _one_of(0.0, 0.0, 0.1, 0.3, 0.5, 0.7, 0.9), "bias": _one_of(True, False)}
    options |= {"pool": _one_of("max", "max", "max", "mean", "sum"), "dtype": _one_of(torch.float32, torch.float64)}
    widths = torch.randint(1, 24, (_one_of(1, 2, 3, 4),)).tolist()
    encoder = SetEncoder([3, *widths], form, activation, **options)
    channels = _one_of("as drawn", "as drawn", "some dead", "some saturated")
    if options["bias"] and channels != "as drawn":
        with torch.no_grad():
            for layer in encoder.layers:
                layer.bias[torch.rand(len(layer.bias)) < 0.3] = -60.0 if channels == "some dead" else 60.0
    dense = _one_of(True, False)
    sizes = torch.randint(1, _one_of(10, 60), (_one_of(1, 5),)).tolist()
    sizes = [sizes[0]] * len(sizes) if dense else sizes
    # From a grid, different members share a largest coordinate.
    ties = _one_of("none", "grid", "repeated")
    grid = torch.cartesian_prod(*[torch.arange(-1.0, 2)] * 3)[torch.randperm(27)]
    signal = 10.0 ** _one_of(-7, -5, -3, 0, 0, 0, 2, 4)
    leaf = (grid if ties == "grid" else torch.randn(sum(sizes), 3)) * signal
    # Identical members share their gradient as the rounding of products lets them tie; as a leaf they get all of it.
    chosen = torch.randint(min(len(leaf), 4 if ties == "repeated" else 10**6), (sum(sizes),))
    chosen = torch.arange(sum(sizes)) if ties == "none" else chosen

    def sets_of(leaf: Tensor) -> Tensor | PackedSets:
        members = leaf[chosen]
        return members.view(len(sizes), -1, 3) if dense else PackedSets.from_list(list(members.split(sizes)))

    kind = f"{str(options['dtype']).removeprefix('torch.')} {activation}"
    of_members = f"{'dense' if dense else 'packed'} {sizes}, ties: {ties}, signal {signal:g}"
    about = f"seed {seed}: {kind} {form} {options} {widths}, channels {channels}, {of_members}"
    return Case(kind, about, encoder, leaf.to(options["dtype"]), sets_of, signal, seed)


def difference(mine: list[Tensor], theirs: list[Tensor]) -> float:
    """Give the largest difference of a value or gradient, relative to the largest of its tensor unless that is tiny."""
    largest = [(a - b).abs().max() / b.abs().max().clamp(min=1e-3) for a, b in zip(mine, theirs, strict=True)]
    return float(torch.stack(largest).nan_to_num(nan=torch.inf).max())


def check(seeds: range) -> tuple[dict[str, tuple[float, str]], int]:
    """Give the worst difference by type and activation, with its case, and how many cases were left out."""
    worst: dict[str, tuple[float, str]] = {}
    undecided = 0
    for seed in seeds:
        case = random_case(seed)
        plain = case.results(plain=True)
        if difference(plain, case.results(plain=True, dtype=torch.float64)) > UNDECIDED:
            undecided += 1
            continue
        found = difference(case.results(plain=False), plain)
        worst[case.kind] = max(worst.get(case.kind, (-1.0, "")), (found, case.about))
    return worst, undecided


if __name__ == "__main__":
    many = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    found, left_out = check(range(many))
    for kind, (largest, about) in sorted(found.items()):
        print(f"{kind}: {largest:.1e} ({about})")
    print(f"{many} encoders, {left_out} of them left out")
