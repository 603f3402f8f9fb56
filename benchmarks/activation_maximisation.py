"""Time activation maximisation: python benchmarks/activation_maximisation.py [--layers 1 2] [--units N] [--repeats N]

Iterations of figure 3: all units of a layer in one batch with only their own columns, against unit by unit with the
whole layer. Both take turns in one process.
"""

import argparse
import statistics
import time

import torch
from torch import Tensor, nn

from equiset.experiments.point_clouds.analyses import maximise
from equiset.experiments.point_clouds.settings import Activations
from equiset.nn import SetLayer, SetNorm
from equiset.process import keep_freed_memory


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--layers", type=int, nargs="+", choices=(1, 2), default=[1])
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    layers = [SetLayer(3, 256, activation="tanh"), SetLayer(256, 256, activation="tanh")]
    for layer in layers:
        layer.requires_grad_(False)
    settings = Activations(iterations=options.iterations, units=options.units)
    units = torch.arange(options.units)
    print(f"torch {torch.__version__}, {options.threads} threads, {options.units} units, 1000 particles, width 256\n")
    print("| layer | one batch, ms per iteration | unit by unit | ratio |\n|---|---|---|---|")
    for depth in options.layers:
        rounds = []
        for _ in range(options.repeats + 1):
            taken = []
            for form in (maximise, unit_by_unit):
                start = time.process_time()
                form(SetNorm(), layers[:depth], units, settings, "max")
                taken.append(1000 * (time.process_time() - start) / options.iterations)
            rounds.append(taken)
        one, other = (statistics.median(taken[side] for taken in rounds[1:]) for side in (0, 1))
        ratio = statistics.median(taken[1] / taken[0] for taken in rounds[1:])
        print(f"| {depth} | {one:.1f} | {other:.1f} | {ratio:.1f} |")


if __name__ == "__main__":
    main()
