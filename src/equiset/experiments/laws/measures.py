"""The measurements on the layers themselves as numbers with intervals over repetitions."""

from pathlib import Path

import numpy as np

from equiset.errors import EquisetError
from equiset.files import read_parquet
from equiset.results.intervals import MIN_SEEDS, student_interval
from equiset.results.measures import Measures, Number

# Column -> measurement, and whether it is the largest of all rows that counts, or their mean.
NAMES = {
    "excess_dimensions": ("commuting_maps", "largest"),
    "outside": ("commuting_maps", "largest"),
    "layer_error": ("commuting_maps", "largest"),
    "exponent": ("time_by_set_size", "mean"),
    "relative_loss": ("deep_stack", "mean"),
    "relative_loss_first": ("deep_stack", "mean"),
    "relative_loss_normalised": ("deep_stack", "mean"),
    "relative_gain": ("shared_dropout", "mean"),
    "ratio": ("time_of_graph_layer", "mean"),
}


def number_layers(tables: list[Path], scale: str) -> Measures:
    """Return the numbers of all measurements that there are tables of."""
    files = {path.stem: path for path in tables}
    return Measures([_number(name, files[item], way, scale) for name, (item, way) in NAMES.items() if item in files])


def _number(name: str, path: Path, way: str, scale: str) -> Number:
    table = read_parquet(path)
    if name not in table or table[name].isna().any():
        raise EquisetError(f"{path}: the column {name} is not there or has gaps. Delete the file and run again")
    values = table[name].to_numpy(float)
    value = float(np.abs(values).max() if way == "largest" else values.mean())
    low, high, spread = value, value, 0.0
    if way == "mean" and len(values) > 1:
        low, high, spread = *student_interval(values.tolist()), float(values.std(ddof=1))
    return Number(
        *(value, low, high, spread),
        method="largest of all" if way == "largest" else f"{len(values)} repetitions",
        items=len(values),
        answers=len(values),
        doubt=f"only {len(values)} repetitions" if way == "mean" and len(values) < MIN_SEEDS else "",
        experiment="laws",
        variant="",
        measure=name,
        scale=scale,
        data="generated sets",
        runs=str(path),
    )
