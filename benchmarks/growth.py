"""Measure how cost grows: python benchmarks/growth.py [--largest N] [--rounds N] [--output FOLDER]

Forward and backward of a set layer (eq. 5, tanh) and of the network for point clouds, three such layers and a maximum,
against the size of a set, the number of channels and the number of sets. One thread, processor time; all sizes take
turns, so that whatever else the machine does falls on all of them alike. Freed memory is kept: otherwise every tensor
of more than some hundred kilobytes pays page faults, and a smaller one does not. Several sets go through together, so
that the fixed cost of a call (about a millisecond) is small beside the work of even the smallest.

Memory is the most that the tensors of one step take at once, as torch's allocator counts it, besides input and weights.
Unlike the size of the process it has no noise, and is right for small sets too.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # torch's profiler says when it starts and stops

import numpy as np
import pandas as pd
import torch
from instrument import keep_freed_memory
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from equiset import SetEncoder, SetLayer
from equiset.results.figures import Canvas, Figure
from equiset.results.palette import GREEN
from equiset.results.tables import Table

Step = Callable[[], None]
LAYER, PLAIN, ENCODER = "set layer", "network, layer by layer", "network, SetEncoder"
COLOURS = {LAYER: GREEN, PLAIN: "0.6", ENCODER: "#004D38"}
MOST_ROWS_PLAIN = 100_000
"""Beyond that many members in all, layer by layer takes gigabytes and tells nothing new."""
AXES = {"members": "members of a set", "channels": "channels", "sets": "sets"}
LEAST_SECONDS = 0.02
"""A measurement repeats its step until it has lasted this long."""


def make_step(form: str, sets: int, members: int, channels: int) -> Step:
    torch.manual_seed(0)
    into = channels if form == LAYER else 3
    x = torch.randn(sets, members, into, requires_grad=form == LAYER)
    model = SetLayer(into, channels, activation="tanh") if form == LAYER else SetEncoder([3, *[channels] * 3])
    forward: Callable[[Tensor], Tensor] = model.plain if form == PLAIN else model
    leaves = [x, *model.parameters()]

    def step() -> None:
        output = forward(x)
        output.backward(torch.ones_like(output))
        for leaf in leaves:
            leaf.grad = None

    return step


def cpu_seconds(step: Step, times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        step()
    return (time.process_time() - start) / times


def peak_tensor_bytes(step: Step) -> int:
    """Return the most that the tensors that `step` makes take at once."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    changes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return int(np.cumsum(changes).max())


def measure(axis: str, points: list[dict[str, int]], forms: list[str], rounds: int) -> pd.DataFrame:
    steps = {
        (form, number): make_step(form, **point)
        for form in forms
        for number, point in enumerate(points)
        if form != PLAIN or point["sets"] * point["members"] <= MOST_ROWS_PLAIN
    }
    for step in steps.values():
        step()  # what torch does once, and the first touch of memory
    repeats = {key: max(1, round(LEAST_SECONDS / cpu_seconds(step, 1))) for key, step in steps.items()}
    taken = {key: [] for key in steps}
    for _ in range(rounds):
        for key, step in steps.items():
            taken[key].append(cpu_seconds(step, repeats[key]))
    return pd.DataFrame(
        {
            "axis": axis,
            "form": form,
            **points[number],
            "cpu_seconds": statistics.median(seconds),
            "least_cpu_seconds": min(seconds),
            "most_cpu_seconds": max(seconds),
            "peak_tensor_bytes": peak_tensor_bytes(steps[form, number]),
        }
        for (form, number), seconds in taken.items()
    )


def slope(part: pd.DataFrame, axis: str, of: str) -> float:
    return float(np.polyfit(np.log(part[axis]), np.log(part[of]), 1)[0])


def slopes(measured: pd.DataFrame) -> pd.DataFrame:
    """Return one row per axis and form: the exponents of time and memory, fitted over the whole range."""
    return pd.DataFrame(
        {
            "axis": axis,
            "form": form,
            "from": part[axis].min(),
            "to": part[axis].max(),
            "time_slope": slope(part, axis, "cpu_seconds"),
            "memory_slope": slope(part, axis, "peak_tensor_bytes"),
        }
        for (axis, form), part in measured.groupby(["axis", "form"], sort=False)
    )


def draw(measured: pd.DataFrame, fitted: pd.DataFrame, about: str) -> Figure:
    canvas = Canvas(figsize=(7.2, 4.8), layout="constrained")
    axes = canvas.subplots(2, 3, sharex="col", sharey="row")
    for column, (axis, label) in enumerate(AXES.items()):
        for form in measured.loc[measured["axis"] == axis, "form"].unique():
            part = measured[(measured["axis"] == axis) & (measured["form"] == form)]
            fit = fitted[(fitted["axis"] == axis) & (fitted["form"] == form)].iloc[0]
            for row, (of, unit, power) in enumerate(
                [("cpu_seconds", 1e-3, fit["time_slope"]), ("peak_tensor_bytes", 2**20, fit["memory_slope"])]
            ):
                label_of_form = f"{form}: {power:.2f}"
                axes[row, column].loglog(
                    part[axis], part[of] / unit, "o-", markersize=3, color=COLOURS[form], label=label_of_form
                )
        others = measured[measured["axis"] == axis].iloc[0]
        fixed = ", ".join(f"{others[name]} {name}" for name in AXES if name != axis)
        axes[0, column].set_title(fixed)
        axes[1, column].set_xlabel(label)
        for row in axes[:, column]:
            row.legend(fontsize=6, title="slope", title_fontsize=6, loc="upper left")
    axes[0, 0].set_ylabel("forward and backward, ms")
    axes[1, 0].set_ylabel("peak memory of tensors, MiB")
    for row in axes[:, 0]:  # room for the legends
        low, high = row.get_ylim()
        row.set_ylim(low, high * 12)
    canvas.supxlabel(about, fontsize=6, color="0.35", x=0.01, ha="left")
    return Figure(canvas)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=100_000, help="members of the largest set")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--output", type=Path, default=Path("results/bench"), help="folder for growth.csv, .md and .png"
    )
    options = parser.parse_args(argv)
    keep_freed_memory()
    torch.set_num_threads(1)
    sizes = [size for size in (100, 300, 1000, 3000, 10_000, 30_000, 100_000) if size <= options.largest]
    plans = {
        "members": ([{"sets": 3, "members": size, "channels": 256} for size in sizes], list(COLOURS)),
        "channels": ([{"sets": 3, "members": 1000, "channels": 2**k} for k in range(6, 11)], list(COLOURS)),
        "sets": ([{"sets": 2**k, "members": 1000, "channels": 256} for k in range(0, 7)], list(COLOURS)),
    }
    parts = []
    for axis, (points, forms) in plans.items():
        print(f"growth with {AXES[axis]} ...", flush=True)
        parts.append(measure(axis, points, forms, options.rounds))
    measured = pd.concat(parts, ignore_index=True)
    fitted = slopes(measured)
    about = f"torch {torch.__version__}, one thread, float32, freed memory kept, medians of {options.rounds}"
    notes = (
        f"{about}. Slopes of log cost against log size, over the whole range.",
        "Linear in members and sets, in time and memory; in time quadratic in channels in the limit of many of them.",
    )
    caption = "How the cost of forward and backward grows"
    names = {"axis": "Against", "form": "Form", "from": "From", "to": "To"}
    shown = (
        fitted[[*names]]
        .rename(columns=names)
        .assign(
            **{
                "Slope of time": fitted["time_slope"].map("{:.2f}".format),
                "Slope of memory": fitted["memory_slope"].map("{:.2f}".format),
            }
        )
    )
    Table(measured, shown, caption, notes).write(options.output / "growth.csv")
    Table(fitted, shown, caption, notes).write(options.output / "growth.md")
    draw(measured, fitted, about).write(options.output / "growth.png")
    print(f"{shown.to_string(index=False)}\nwritten: {options.output}/growth.csv, .md, .png")


if __name__ == "__main__":
    main()
