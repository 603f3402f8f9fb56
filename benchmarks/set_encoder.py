"""Time a training step of SetEncoder: python benchmarks/set_encoder.py [--quick] [--threads N]

The rival is the straightforward form, layer by layer over all members, with the allocator as it comes. Every form has
a process of its own, since the allocator belongs to a process, and they take turns, so that whatever else the machine
does falls on all of them alike. The last column is the three products of matrices of each layer alone, over all
members: what any form that treats all members alike has to spend.
"""

import argparse
import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiset import SetEncoder
from equiset.process import keep_freed_memory

FORMS = ("rival", "rival, kept", "ours", "ours, kept")


class Straightforward(nn.Module):
    """x minus its maximum, Linear, tanh for each layer, and the maximum of the last."""

    def __init__(self, widths: list[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in pairwise(widths))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x - x.amax(1, keepdim=True)))
        return x.amax(1)


def memory(field: str) -> float:
    """MiB that this process holds (VmRSS), or at most held (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def products(batch: int, points: int, widths: list[int], clock: Callable[[], float]) -> float:
    rows = batch * points
    spent = 0.0
    for into, out in pairwise(widths[1:]):
        x, grad, weight = torch.randn(rows, into), torch.randn(rows, out), torch.randn(out, into)
        forward, back = torch.empty(rows, out), torch.empty(rows, into)
        start = clock()
        torch.mm(x, weight.t(), out=forward)
        torch.mm(grad, weight, out=back)
        torch.mm(grad.t(), x)
        spent += clock() - start
    return spent


def work(form: str, batch: int, points: int, width: int, threads: int, cpu: int) -> None:
    """Take a step for each line of stdin; answer with ms, and MiB above what was held before the first step."""
    torch.set_num_threads(threads)
    clock = time.process_time if cpu else time.perf_counter
    if form.endswith("kept"):
        keep_freed_memory()
    torch.manual_seed(0)
    widths = [3, width, width, width]
    model = nn.Sequential((Straightforward if form.startswith("rival") else SetEncoder)(widths), nn.Linear(width, 40))
    # Points on the surface of ellipsoids: more of them win a maximum than in a cloud that thins out.
    clouds = nn.functional.normalize(torch.randn(batch, points, 3), dim=2) * (0.5 + torch.rand(batch, 1, 3))
    labels = torch.randint(40, (batch,))
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from now
    before = memory("VmRSS")
    for line in sys.stdin:
        gc.collect()
        if line.strip() == "products":
            print(1000 * products(batch, points, widths, clock), 0, flush=True)
            continue
        model.zero_grad()
        start = clock()
        F.cross_entropy(model(clouds), labels).backward()
        print(1000 * (clock() - start), memory("VmHWM") - before, flush=True)


def compare(batch: int, points: int, width: int, threads: int, cpu: bool, rounds: int) -> str:
    """Give the line of the table for one size."""
    options = [str(int(number)) for number in (batch, points, width, threads, cpu)]
    # With kept memory the rival takes 9 GB at the largest size.
    forms = [form for form in FORMS if form != "rival, kept" or points < 5000]
    workers = {
        form: subprocess.Popen(
            [sys.executable, __file__, "--work", form, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for form in forms
    }

    def ask(form: str, what: str = "step") -> tuple[float, float]:
        print(what, file=workers[form].stdin, flush=True)
        taken, peak = map(float, workers[form].stdout.readline().split())
        return taken, peak

    for form in ("ours", "ours, kept"):  # only what is quick is warmed up
        ask(form)
    asked = {form: [] for form in forms}
    dense = []
    for _ in range(rounds):
        for form in forms:
            asked[form].append(ask(form))
        dense.append(ask("ours, kept", "products")[0])
    for worker in workers.values():
        worker.stdin.close()
        worker.wait()
    ms = {form: statistics.median(taken for taken, _ in answers) for form, answers in asked.items()}
    peak = {form: answers[0][1] for form, answers in asked.items()}
    times = " | ".join(f"{ms[form]:.0f}" if form in ms else "" for form in FORMS)
    ratio = statistics.median(r / o for (r, _), (o, _) in zip(asked["rival"], asked["ours, kept"], strict=True))
    peaks = f"{peak['rival']:.0f} | {peak['ours, kept']:.0f} | {peak['rival'] / peak['ours, kept']:.1f}"
    return f"| {points} | {width} | {times} | {ratio:.1f} | {peaks} | {statistics.median(dense):.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the two smaller sizes")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--cpu", action="store_true", help="count processor time: with one thread, for a busy machine")
    parser.add_argument("--work", nargs=6, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        form, *numbers = options.work
        work(form, *map(int, numbers))
        return
    print(f"torch {torch.__version__}, {options.threads} threads, batch 64, 3-w-w-w, maximum, 40 classes\n")
    forms = " | ".join(f"{form}, ms" for form in FORMS)
    print(f"| points | width | {forms} | rival / ours kept | rival, MiB | ours, MiB | ratio | dense products, ms |")
    print("|" + "---|" * 11, flush=True)
    for points, width, rounds in ((100, 256, 7), (1000, 256, 5), (5000, 512, 1))[: 2 if options.quick else 3]:
        print(compare(64, points, width, options.threads, options.cpu, rounds), flush=True)


if __name__ == "__main__":
    main()
