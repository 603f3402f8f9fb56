"""The tables and the figure of the redshifts."""

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from equiset.parquet import read_parquet
from equiset.results.figures import Canvas, Figure, name_data
from equiset.results.palette import BLACK, GREY
from equiset.results.palette import MODELS as COLOURS
from equiset.results.redshift_measures import NAMES, OUTLIER, RESAMPLES, interval, measure, relative_error, resample
from equiset.results.runs import Material, Run, what_was_measured
from equiset.results.tables import Table, spread

MODELS = {"set": "set layers", "mlp": "perceptron"}
FORMS = {"max-norm": "eq. 5", "max": "eq. 4"}
FEATURES = {"columns": "table columns", "footnote": "footnote"}
CATALOGUE = "catalogue"
# Section 5.
PAPER = {"set": "0.023", "mlp": "0.026", CATALOGUE: "0.025"}
EDGES = (0, 0.1, 0.2, 0.3, 0.4, 0.5, np.inf)


def estimates(runs: dict[str, list[Run]]) -> pd.DataFrame:
    """Return one row for each seed and test galaxy: seed, cluster, z_spec, and one column for each estimate."""
    keys = ["seed", "row", "cluster", "z_spec"]
    parts = [
        pd.concat([run.predictions.query("split == 'test'").assign(seed=run.seed) for run in group])
        .set_index(keys)
        .rename(columns={"z": variant, "z_catalogue": CATALOGUE})[[variant, CATALOGUE]]
        for variant, group in runs.items()
    ]
    table = parts[0].join([part.drop(columns=CATALOGUE) for part in parts[1:]], how="outer")
    if table.isna().any(axis=None):
        raise ValueError("the runs were not evaluated on the same galaxies")
    columns = [*runs, CATALOGUE]
    return table[columns].sort_index().reset_index()


def _errors(table: pd.DataFrame, names: list[str]) -> dict[str, np.ndarray]:
    z_spec = table["z_spec"].to_numpy(np.float64)
    return {name: relative_error(z_spec, table[name].to_numpy(np.float64)) for name in names}


def scatter(material: Material) -> Table:
    """Every estimate beside the paper's, with intervals over clusters."""
    runs = material.runs
    table = estimates(runs)
    names = [*runs, CATALOGUE]
    errors = _errors(table, names)
    drawn = resample(errors, table["cluster"].to_numpy())
    numbers, shown = [], []
    for name in names:
        found = measure(errors[name])
        seeds = [np.abs(errors[name][table["seed"] == seed]).mean() for seed in table["seed"].unique()]
        difference = drawn[name]["scatter"] - drawn[CATALOGUE]["scatter"]
        row = {"variant": name, **_about(runs.get(name))}
        row |= {f"{key}{end}": value for key in NAMES for end, value in _with_ends(found[key], drawn[name][key])}
        row |= {
            "scatter_sd_over_seeds": spread(seeds),
            "scatter_minus_catalogue": found["scatter"] - measure(errors[CATALOGUE])["scatter"],
            "scatter_minus_catalogue_low": interval(difference)[0],
            "scatter_minus_catalogue_high": interval(difference)[1],
            "test_galaxies": len(table),
            "test_clusters": table["cluster"].nunique(),
            "data_kind": _first(runs).info["sets"]["kind"],
            "data_share": _first(runs).info["sets"]["share"],
            "scale": _first(runs).info["spec"]["scale"],
            "paper_scatter": PAPER.get(name, ""),
        }
        numbers.append(row)
        shown.append(
            {
                "Estimate": _title(name, runs).removesuffix(", table columns"),
                "Features": FEATURES[row["features"]] if row["features"] else "—",
                "Parameters": f"{row['parameters']:,}" if row["parameters"] else "—",
                "Scatter": _with_interval(found["scatter"], drawn[name]["scatter"]),
                "Paper": PAPER.get(name, "—"),
                "Less catalogue": "—"
                if name == CATALOGUE
                else _with_interval(row["scatter_minus_catalogue"], difference),
                "Bias": f"{found['bias']:+.4f}",
                "NMAD": f"{found['nmad']:.4f}",
                "Outliers (%)": f"{100 * found['outliers']:.1f}",
                "Epochs": row["epochs"] or "—",
                "Seeds": row["seeds"] or "—",
            }
        )
    sets = _first(runs).info["sets"]
    return Table(
        pd.DataFrame(numbers),
        pd.DataFrame(shown),
        "Redshifts of galaxies in test clusters.",
        (
            f"Scatter: mean |z − z_spec| / (1 + z_spec) over {len(table):,} galaxies with a spectrum in "
            f"{table['cluster'].nunique():,} test clusters (all seeds), after the last epoch. In brackets: 95 % "
            f"intervals from {RESAMPLES} draws of clusters. Less catalogue: the difference from the catalogue's own "
            f"estimate, the Z_LAMBDA of the host cluster. NMAD: normalised median absolute deviation. Outliers: off by "
            f"more than {OUTLIER:g} (1 + z_spec).",
            f"{sets['removed_members']:,} members of training clusters are galaxies that are in test clusters as well; "
            f"they were removed from the {_members_before_removal(sets):,} for training (seed {sets['seed']})."
            + _about_holdout(sets),
            f"Measured on {what_was_measured(runs)}",
        ),
    )


def redshift_bins(material: Material) -> Table:
    """The same measures by spectroscopic redshift."""
    runs = material.runs
    table = estimates(runs)
    names = [*runs, CATALOGUE]
    numbers, shown = [], []
    for low, high in pairwise(EDGES):
        part = table[(table["z_spec"] >= low) & (table["z_spec"] < high)]
        if part.empty:
            continue
        title = f"{low:g}–{high:g}" if np.isfinite(high) else f"> {low:g}"
        line = {"z_spec": title, "Galaxies": f"{len(part):,}"}
        errors = _errors(part, names)
        drawn = resample(errors, part["cluster"].to_numpy())
        for name in names:
            found = measure(errors[name])
            row = {"variant": name, "z_spec_from": low, "z_spec_to": high, "galaxies": len(part)}
            numbers.append(
                row | {f"{key}{end}": value for key in NAMES for end, value in _with_ends(found[key], drawn[name][key])}
            )
            line[_title(name, runs)] = f"{found['scatter']:.4f} ({found['bias']:+.3f})"
        shown.append(line)
    return Table(
        pd.DataFrame(numbers),
        pd.DataFrame(shown),
        "Scatter (and bias) of redshifts by spectroscopic redshift.",
        (
            "The CSV file has NMAD, outliers and 95 % intervals as well. Bins of the true redshift make a bias of any "
            "estimate visible that leans to the mean.",
            f"Measured on {what_was_measured(runs)}",
        ),
    )


def _members_before_removal(sets: dict[str, Any]) -> int:
    return sum(sets[key] for key in ("train_members", "removed_members", "removed_for_holdout"))


def _about_holdout(sets: dict[str, Any]) -> str:
    if not sets["holdout_clusters"]:
        return ""
    return (
        f" {sets['holdout_clusters']:,} clusters were kept out of training for tuning, and for that "
        f"{sets['removed_for_holdout']:,} more members of training clusters were removed."
    )


def _first(runs: dict[str, list[Run]]) -> Run:
    return next(iter(runs.values()))[0]


def _about(group: list[Run] | None) -> dict[str, object]:
    """Return what the table says of a variant; nothing of it applies to the catalogue."""
    keys = ("model", "form", "features", "dropout", "target")
    if group is None:
        return dict.fromkeys((*keys, "epochs", "parameters", "seeds"))
    settings = group[0].settings
    return {key: settings[key] for key in keys} | {
        "form": settings["form"] if settings["model"] == "set" else None,
        "epochs": settings["training"]["epochs"],
        "parameters": group[0].info["parameters"],
        "seeds": len(group),
    }


def _title(name: str, runs: dict[str, list[Run]]) -> str:
    if name == CATALOGUE:
        return "catalogue (Z_LAMBDA)"
    settings = runs[name][0].settings
    title = MODELS[settings["model"]]
    if settings["model"] == "set":
        title += f", {FORMS.get(settings['form'], settings['form'])}"
    return title + (", table columns" if settings["features"] == "columns" else "")


def _with_ends(value: float, draws: np.ndarray) -> list[tuple[str, float]]:
    low, high = interval(draws)
    return [("", value), ("_low", low), ("_high", high)]


def _with_interval(value: float, draws: np.ndarray) -> str:
    low, high = interval(draws)
    return f"{value:.4f} [{low:.4f}, {high:.4f}]"


def figure5(material: Material) -> Figure:
    """a) cluster sizes, b) spectra per cluster, c) estimated against spectroscopic redshift."""
    runs = material.runs
    clusters = read_parquet(material.store / "clusters.parquet", columns=["MEMBERS", "SPECTROSCOPIC"])
    canvas = Canvas(figsize=(7.2, 3.2), layout="constrained")
    grid = canvas.add_gridspec(2, 3, height_ratios=(3, 1), width_ratios=(1, 1, 1.35))
    _histogram(canvas.add_subplot(grid[:, 0]), clusters["MEMBERS"], 10, "a) members")
    _histogram(canvas.add_subplot(grid[:, 1]), clusters["SPECTROSCOPIC"], 2, "b) spectra")
    table = estimates(runs)
    upper = canvas.add_subplot(grid[0, 2])
    lower = canvas.add_subplot(grid[1, 2], sharex=upper)
    name = "set" if "set" in runs else next(iter(runs))
    drawn = {CATALOGUE: (GREY, "catalogue"), name: (COLOURS[runs[name][0].settings["model"]], _title(name, runs))}
    most = float(table[["z_spec", CATALOGUE, name]].max(axis=None)) * 1.05
    for key, (colour, label) in drawn.items():
        error = np.abs(relative_error(table["z_spec"], table[key])).mean()
        upper.plot(
            *(table["z_spec"], table[key], "."),
            color=colour,
            markersize=2,
            markeredgewidth=0,
            alpha=0.5,
            rasterized=True,
            label=f"{label}: scatter {error:.3f}",
        )
        _bands(lower, table["z_spec"].to_numpy(), relative_error(table["z_spec"], table[key]).to_numpy(), colour)
    for axis, ends in ((upper, (0, most)), (lower, (0, 0))):
        axis.plot((0, most), ends, color=BLACK, linewidth=0.7, linestyle=":")
    upper.set(title="c) test galaxies", ylabel="estimated z", xlim=(0, most), ylim=(0, most))
    upper.tick_params(labelbottom=False)
    upper.legend(fontsize=6.5, loc="upper left", markerscale=4, handletextpad=0.2)
    lower.set(xlabel="spectroscopic z", ylabel="Δz / (1+z)")
    name_data(canvas, what_was_measured(runs))
    return Figure(canvas)


def _histogram(axis: Axes, counts: pd.Series, width: int, title: str) -> None:
    edges = np.arange(0, counts.max() + width + 1, width)
    axis.hist(counts, bins=edges, color="0.65", log=True)
    middle = counts.median()
    axis.axvline(middle, color=BLACK, linewidth=0.8, linestyle="--")
    axis.set(title=f"{title} per cluster", xlabel=f"median {middle:g}, largest {counts.max()}", ylabel="clusters")


def _bands(axis: Axes, z_spec: np.ndarray, error: np.ndarray, colour: str) -> None:
    """Draw the median error by redshift, and the band that holds two thirds of the galaxies."""
    edges = np.quantile(z_spec, np.linspace(0, 1, 9))
    place = np.clip(np.searchsorted(edges, z_spec, side="right") - 1, 0, 7)
    parts = [error[place == at] for at in range(8) if (place == at).any()]
    middle = [np.median(z_spec[place == at]) for at in range(8) if (place == at).any()]
    low, median, high = np.transpose([np.quantile(part, (0.16, 0.5, 0.84)) for part in parts])
    axis.fill_between(middle, low, high, color=colour, alpha=0.25, linewidth=0)
    axis.plot(middle, median, color=colour)


SHOWN = {"scatter": scatter, "redshift_bins": redshift_bins, "figure5": figure5}
