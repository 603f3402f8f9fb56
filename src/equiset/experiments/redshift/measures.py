"""How good redshift estimates are, in the measures that astronomers use, with intervals over clusters."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pandas as pd

from equiset.results.intervals import Sample
from equiset.results.measures import WHOLE, Measure, Part
from equiset.results.runs import Run

OUTLIER = 0.15
"""An estimate that is off by more than this times 1 + z is an outlier."""
EDGES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, np.inf)
CURVES = ("validation_scatter", "train_scatter")


def nmad(error: np.ndarray) -> float:
    """Return the normalised median absolute deviation."""
    return float(1.4826 * np.median(np.abs(error - np.median(error))))


KINDS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], float]]] = {
    "scatter": (np.abs, np.mean),  # the paper's: mean of |dz| / (1 + z)
    "bias": (lambda error: error, np.mean),
    "nmad": (lambda error: error, nmad),
    "outliers": (lambda error: (np.abs(error) > OUTLIER).astype(float), np.mean),
}


def galaxies(run: Run) -> pd.DataFrame:
    """Return the test galaxies of a run in the order of the catalogue, with the relative errors of both estimates."""
    table = run.predictions[run.predictions["split"] == "test"].sort_values("row")
    z_spec = table["z_spec"].to_numpy(np.float64)
    errors = {name: (table[name].to_numpy(np.float64) - z_spec) / (1 + z_spec) for name in ("z", "z_catalogue")}
    return pd.DataFrame({"cluster": table["cluster"].to_numpy(), "z_spec": z_spec, **errors})


def _sample(kind: str, column: str) -> Callable[[Run], dict[Part, Sample]]:
    """Return a measure of all test galaxies, and by spectroscopic redshift."""
    values, statistic = KINDS[kind]

    def sample(run: Run) -> dict[Part, Sample]:
        table = galaxies(run)
        parts = {WHOLE: table}
        for low, high in pairwise(EDGES):
            parts[Part("z_spec", low)] = table[(table["z_spec"] >= low) & (table["z_spec"] < high)]
        return {
            part: Sample(values(some[column].to_numpy()), some["cluster"].to_numpy(), statistic=statistic)
            for part, some in parts.items()
            if len(some)
        }

    return sample


def _less_catalogue(run: Run) -> Sample:
    table = galaxies(run)
    return Sample((table["z"].abs() - table["z_catalogue"].abs()).to_numpy(), table["cluster"].to_numpy())


MEASURES = {
    "scatter": Measure(_sample("scatter", "z"), CURVES, compared=True),
    "bias": Measure(_sample("bias", "z")),
    "nmad": Measure(_sample("nmad", "z")),
    "outliers": Measure(_sample("outliers", "z"), unit="%"),
    "scatter_less_catalogue": Measure(_less_catalogue, CURVES),
    "catalogue_scatter": Measure(_sample("scatter", "z_catalogue"), trained=False),
    "catalogue_bias": Measure(_sample("bias", "z_catalogue"), trained=False),
    "catalogue_nmad": Measure(_sample("nmad", "z_catalogue"), trained=False),
    "catalogue_outliers": Measure(_sample("outliers", "z_catalogue"), unit="%", trained=False),
}
