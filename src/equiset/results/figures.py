"""One style for all figures: small sans-serif type, safe for the colour-blind, readable in print."""

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

# Not pyplot: it keeps every figure alive and looks for a display.
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from equiset.errors import EquisetError
from equiset.files import atomic_path
from equiset.results.measures import Number
from equiset.results.palette import BLACK
from equiset.results.runs import Run, measured_on

mpl.rcParams.update(
    {
        "font.size": 8,
        "axes.titlesize": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
        "grid.linewidth": 0.5,
        "lines.linewidth": 1.4,
        "legend.frameon": False,
        "figure.dpi": 100,
        "savefig.dpi": 200,
        "pdf.fonttype": 42,  # text stays text
    }
)


class NothingToShowError(EquisetError):
    """What a figure is to show was not run."""


@dataclass(frozen=True)
class Figure:
    """A figure that can be written as PNG or PDF, the same bytes every time."""

    canvas: Canvas
    description: str = ""
    """What the figure shows, in words. It is kept in the file; the report has it as alternative text."""

    def write(self, path: Path) -> None:
        kind = path.suffix.removeprefix(".")
        with atomic_path(path) as partial:
            # No date and no version in the file: equal content, equal bytes.
            metadata = {
                "png": {"Software": None, "Description": self.description},
                "pdf": {"CreationDate": None, "Producer": None, "Subject": self.description},
            }[kind]
            self.canvas.savefig(partial, format=kind, metadata=metadata)


def name_data(canvas: Canvas, runs: dict[str, list[Run]], bands: str = "") -> None:
    """Say at the foot of a figure what it was measured on, and what its bands mean if it has any."""
    text = textwrap.fill(f"{measured_on(runs)} {bands}".rstrip(), int(19 * canvas.get_figwidth()))  # 19 letters an inch
    canvas.supxlabel(text, fontsize=6, color="0.35", x=0.01, ha="left")


def draw_curve(
    axis: Axes, group: list[Run], metric: str, light: bool = False, factor: float = 100, **look: Any
) -> None:
    """Draw a metric by epoch: the mean over seeds, and unless it is light a band from the lowest to the highest.

    A marker stands at the end of the curve.
    """
    curves = pd.concat([run.metrics.set_index("epoch")[metric] for run in group], axis=1).dropna() * factor
    style = {"alpha": 0.4, "linewidth": 0.9} if light else {"markevery": [-1], "markersize": 4}
    axis.plot(curves.index, curves.mean(axis=1), **{"marker": "." if len(curves) == 1 else None} | look | style)
    if len(group) > 1 and not light:
        low, high = curves.min(axis=1), curves.max(axis=1)
        axis.fill_between(curves.index, low, high, color=look["color"], alpha=0.15, linewidth=0)
    axis.set_xlabel("epoch")
    # With a single epoch, two ticks would be at fractions of epochs.
    axis.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)


def draw_intervals(axis: Axes, places: list[float], numbers: list[Number], factor: float = 1, **look: Any) -> None:
    """Draw numbers as points, with bars that span their 95 % intervals; those that still improve have none."""
    ends = [(one.value,) * 3 if one.unfinished else (one.value, one.low, one.high) for one in numbers]
    value, low, high = factor * np.array(ends).reshape(-1, 3).T
    axis.errorbar(places, value, np.nan_to_num(np.maximum([value - low, high - value], 0)), **look)


def seed_bands(runs: dict[str, list[Run]]) -> str:
    """Return what bands of curves mean; empty where there are none."""
    return "Bands span the seeds." if any(len(group) > 1 for group in runs.values()) else ""


GUESS = {"color": BLACK, "linewidth": 0.8, "linestyle": ":"}
"""How the line of a guess looks."""
CURVE_KEY = (
    Line2D([], [], color="0.3", label="validation"),
    Line2D([], [], color="0.3", alpha=0.4, linewidth=0.9, label="training, running\n(with dropout)"),
)
"""How curves of validation and of training look, for a legend."""
