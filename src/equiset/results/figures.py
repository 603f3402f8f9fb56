"""One style for all figures: small serifless type, colour-blind safe, readable in print."""

from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

# Made directly and not with pyplot, which keeps every figure that it ever made, and looks for a screen.
from matplotlib.figure import Figure as Canvas

from equiset.files import atomic_path

# Here too, for whoever draws.
from equiset.results.palette import BLACK as BLACK
from equiset.results.palette import BLUE as BLUE
from equiset.results.palette import GREEN as GREEN
from equiset.results.palette import ORANGE as ORANGE

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


@dataclass(frozen=True)
class Figure:
    """A figure that can be written as PNG or PDF, the same bytes every time."""

    canvas: Canvas

    def write(self, path: Path) -> None:
        kind = path.suffix.removeprefix(".")
        with atomic_path(path) as partial:
            # No date and no version in the file: equal content, equal bytes.
            metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None, "Producer": None}}[kind]
            self.canvas.savefig(partial, format=kind, metadata=metadata)


def name_data(canvas: Canvas, measured: str) -> None:
    """Say at the foot of a figure what it was measured on."""
    canvas.supxlabel(f"Measured on {measured}", fontsize=6, color="0.35", x=0.01, ha="left")
