"""How good redshift estimates are, in the measures that astronomers use, with intervals over clusters."""

from collections.abc import Mapping

import numpy as np

OUTLIER = 0.15
"""An estimate that is off by more than this times 1 + z is an outlier."""
RESAMPLES = 1000
NAMES = ("scatter", "bias", "nmad", "outliers")


def relative_error(z_spec: np.ndarray, z: np.ndarray) -> np.ndarray:
    return (z - z_spec) / (1 + z_spec)


def measure(error: np.ndarray) -> dict[str, float]:
    """Return the paper's scatter (mean of |dz| / (1 + z)), bias (mean), NMAD and the share of outliers."""
    return {
        "scatter": float(np.abs(error).mean()),
        "bias": float(error.mean()),
        "nmad": float(1.4826 * np.median(np.abs(error - np.median(error)))),
        "outliers": float((np.abs(error) > OUTLIER).mean()),
    }


def resample(
    errors: Mapping[str, np.ndarray], clusters: np.ndarray, resamples: int = RESAMPLES
) -> dict[str, dict[str, np.ndarray]]:
    """Return every measure of every estimate on `resamples` draws of clusters with replacement.

    The members of a cluster share its errors, so it is clusters that are drawn, not galaxies. All estimates are
    measured on the same draws: their differences can be taken draw by draw.
    """
    _, cluster = np.unique(clusters, return_inverse=True)
    count = int(cluster.max()) + 1
    rng = np.random.default_rng(0)
    weights = np.stack([np.bincount(rng.integers(count, size=count), minlength=count) for _ in range(resamples)])
    galaxies = weights @ np.bincount(cluster)
    drawn = {}
    for name, error in errors.items():
        sums = {"scatter": np.abs(error), "bias": error, "outliers": np.abs(error) > OUTLIER}
        drawn[name] = {key: weights @ np.bincount(cluster, value) / galaxies for key, value in sums.items()}
        drawn[name]["nmad"] = np.array([_weighted_nmad(error, weight[cluster]) for weight in weights])
    return drawn


def interval(draws: np.ndarray) -> tuple[float, float]:
    """Return the 95 % interval of resampled values."""
    low, high = np.quantile(draws, (0.025, 0.975))
    return float(low), float(high)


def _weighted_nmad(error: np.ndarray, weight: np.ndarray) -> float:
    return 1.4826 * _weighted_median(np.abs(error - _weighted_median(error, weight)), weight)


def _weighted_median(values: np.ndarray, weight: np.ndarray) -> float:
    order = np.argsort(values, kind="stable")
    upto = np.cumsum(weight[order])
    return float(values[order[np.searchsorted(upto, upto[-1] / 2)]])
