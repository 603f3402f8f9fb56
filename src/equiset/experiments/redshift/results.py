"""The tables and the figure of the redshifts."""

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from equiset.experiments.redshift.measures import EDGES, KINDS, OUTLIER, galaxies
from equiset.files import read_parquet
from equiset.results.experiment import ExperimentResults, run_cells
from equiset.results.figures import Canvas, Figure, name_data
from equiset.results.palette import BLACK, GREY
from equiset.results.palette import MODELS as COLOURS
from equiset.results.runs import Run, measured_on
from equiset.results.tables import ABOUT_SPREAD, Cell, Table

MODELS = {"set": "set layers", "mlp": "perceptron"}
FORMS = {"max-norm": "eq. 5", "max": "eq. 4"}
FEATURES = {"columns": "table columns", "footnote": "footnote"}
CATALOGUE = "catalogue"
CATALOGUE_CLAIM = "R2"  # it is no variant, whose role would say it


def _estimates(results: ExperimentResults) -> dict[str, str]:
    """Return all estimates by their variants, and how names of their measures begin; the catalogue's comes last."""
    return dict.fromkeys(results.runs, "") | {CATALOGUE: "catalogue_"}


def scatter(results: ExperimentResults) -> Table:
    """Every estimate beside the paper's, with intervals over clusters."""
    runs = results.runs
    first = next(iter(runs))
    rows: list[list[Cell]] = []
    for name, prefix in _estimates(results).items():
        variant = first if prefix else name
        found = {key: results.measures[variant, prefix + key] for key in KINDS}
        scatter, bias = found["scatter"], found["bias"]
        rows.append(
            [
                ("variant", "Estimate", name, _title(name, runs).removesuffix(", table columns")),
                ("scatter", "Scatter", scatter),
                ("scatter_sd_over_seeds", "95 % interval|", scatter.seed_sd, scatter.interval),
                *results.paper_cells(CATALOGUE_CLAIM if prefix else results.role(name).claim),
                ("bias", "Bias", bias, scatter.format(bias.value, sign=True)),
                ("nmad", "NMAD", found["nmad"], scatter.format(found["nmad"].value)),
                ("outliers", "Outliers (%)|Outl. (%)", found["outliers"], found["outliers"].text),
                ("test_galaxies", "", scatter.answers),
                ("test_clusters", "", scatter.items),
            ]
        )
        if not prefix:
            less, settings = results.measures[variant, "scatter_less_catalogue"], runs[name][0].settings
            rows[-1] += [
                ("scatter_minus_catalogue", "Less catalogue|", less, less.with_interval),
                ("features", "Features|", settings["features"], FEATURES[settings["features"]]),
                ("form", "", settings["form"] if settings["model"] == "set" else None),
                *((key, "", settings[key]) for key in ("model", "dropout", "target")),
                *run_cells(runs[name]),
            ]
    sets, whole = runs[first][0].info["sets"], results.measures[first, "catalogue_scatter"]
    return Table.of(
        rows,
        "Redshifts of galaxies in test clusters.",
        f"Scatter: mean |z − z_spec| / (1 + z_spec) over {whole.answers:,} galaxies with a spectrum in {whole.items:,} "
        "test clusters (all seeds), after the last epoch. Test items are clusters, whose galaxies err together. Less "
        "catalogue: the "
        "difference from the catalogue's own estimate, the Z_LAMBDA of the host cluster. NMAD: normalised median "
        f"absolute deviation. Outliers: off by more than {OUTLIER:g} (1 + z_spec).",
        f"{sets['removed_members']:,} members of training clusters are galaxies that are in test clusters as well; "
        f"they were removed from the {_members_before_removal(sets):,} for training (seed {sets['seed']})."
        + _about_holdout(sets),
        ABOUT_SPREAD,
        measured_on(runs),
    )


def redshift_bins(results: ExperimentResults) -> Table:
    """The same measures by spectroscopic redshift."""
    runs = results.runs
    first = next(iter(runs))
    rows: list[list[Cell]] = []
    for low, high in pairwise(EDGES):
        line: list[Cell] = [("", "z_spec", f"{low:g}–{high:g}" if np.isfinite(high) else f"> {low:g}")]
        for name, prefix in _estimates(results).items():
            bins = results.measures.select(variant=first if prefix else name, part="z_spec")
            found = {number.measure.removeprefix(prefix): number for number in bins if number.at == low}
            found = {kind: found[kind] for kind in KINDS if kind in found}
            if not found:
                break
            galaxies, scatter = found["scatter"].answers, found["scatter"]
            line.append(("", "Galaxies", f"{galaxies:,}"))
            line.append(("", _title(name, runs), f"{scatter.text} ({scatter.format(found['bias'].value, sign=True)})"))
            rows.append([("variant", "", name), ("z_spec_from", "", low), ("z_spec_to", "", high)])
            rows[-1] += [("galaxies", "", galaxies), *((kind, "", number) for kind, number in found.items())]
        else:
            rows.append(line)
    return Table.of(
        rows,
        "Scatter (and bias) of redshifts by spectroscopic redshift.",
        "The CSV file has NMAD, outliers and 95 % intervals as well. Bins of the true redshift make a bias of any "
        "estimate visible that leans to the mean.",
        measured_on(runs),
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


def _title(name: str, runs: dict[str, list[Run]]) -> str:
    if name == CATALOGUE:
        return "catalogue (Z_LAMBDA)"
    settings = runs[name][0].settings
    title = MODELS[settings["model"]]
    if settings["model"] == "set":
        title += f", {FORMS.get(settings['form'], settings['form'])}"
    return title + (", table columns" if settings["features"] == "columns" else "")


def figure5(results: ExperimentResults) -> Figure:
    """a) members and b) spectra per cluster; c) errors by redshift; d) estimated against spectroscopic redshift."""
    runs = results.runs
    clusters = read_parquet(results.store / "clusters.parquet", columns=["MEMBERS", "SPECTROSCOPIC"])
    canvas = Canvas(figsize=(7.2, 4.9), layout="constrained")
    above, below = canvas.subfigures(2, 1, height_ratios=(1, 1.15))
    first, second, third = above.subplots(1, 3, width_ratios=(1, 1, 1.4))
    _histogram(first, clusters["MEMBERS"], 10, "a) members per cluster")
    _histogram(second, clusters["SPECTROSCOPIC"], 2, "b) spectra per cluster")
    models = {runs[name][0].settings["model"]: name for name in reversed(results.main_runs)}  # the first of each kind
    names = [models[kind] for kind in MODELS if kind in models] or list(runs)[:1]
    tables = {name: pd.concat([galaxies(run) for run in runs[name]]) for name in names}
    drawn = []
    for name, line in zip(names, ("-", "--"), strict=False):
        colour, scatter = COLOURS[runs[name][0].settings["model"]], results.measures[name, "scatter"]
        drawn.append((_title(name, runs), scatter, tables[name], "z", colour, line))
    whole = results.measures[names[0], "catalogue_scatter"]
    drawn.append((_title(CATALOGUE, runs), whole, tables[names[0]], "z_catalogue", GREY, ":"))
    panels = below.subplots(1, len(drawn), sharex=True, sharey=True)
    most = 0.0
    for axis, (title, number, table, key, colour, line) in zip(panels, drawn, strict=True):
        z_spec, error = table["z_spec"].to_numpy(), table[key].to_numpy()
        estimated = z_spec + error * (1 + z_spec)
        most = max(most, 1.05 * float(max(z_spec.max(), estimated.max())))
        look = {"color": colour, "markersize": 3, "markeredgewidth": 0, "alpha": 0.5, "rasterized": True}
        axis.plot(z_spec, estimated, ".", **look)
        axis.set(title=f"{title}\nscatter {number.text}", xlabel="spectroscopic redshift")
        _bands(third, z_spec, error, color=colour, linestyle=line, label=title)
    for axis in panels:
        axis.plot((0, most), (0, most), color=BLACK, linewidth=0.7, linestyle=":")
        axis.set(xlim=(0, most), ylim=(0, most), aspect="equal")
    panels[0].set_ylabel("d) estimated redshift")
    third.axhline(0, color=BLACK, linewidth=0.7)
    third.set(title="c) error by redshift", xlabel="spectroscopic redshift", ylabel="Δz / (1 + z)")
    third.legend(fontsize=6)
    name_data(canvas, {name: runs[name] for name in names}, "Lines: medians. Bands: two thirds of the galaxies.")
    return Figure(canvas, "Scatter: " + ", ".join(f"{title} {number.text}" for title, number, *_ in drawn) + ".")


def _histogram(axis: Axes, counts: pd.Series, width: int, what: str) -> None:
    axis.hist(counts, bins=np.arange(0, counts.max() + width + 1, width), color="0.65", log=True)
    axis.axvline(counts.median(), color=BLACK, linewidth=0.9, linestyle="--", label=f"median {counts.median():g}")
    axis.set(title=what, xlabel=what[3:], ylabel="clusters")
    axis.legend(fontsize=6)


def _bands(axis: Axes, z_spec: np.ndarray, error: np.ndarray, **look: str) -> None:
    """Draw the median error by redshift, and the band that holds two thirds of the galaxies."""
    edges = np.quantile(z_spec, np.linspace(0, 1, 9))
    place = np.clip(np.searchsorted(edges, z_spec, side="right") - 1, 0, 7)
    parts = [error[place == at] for at in range(8) if (place == at).any()]
    middle = [np.median(z_spec[place == at]) for at in range(8) if (place == at).any()]
    low, median, high = np.transpose([np.quantile(part, (0.16, 0.5, 0.84)) for part in parts])
    axis.fill_between(middle, low, high, color=look["color"], alpha=0.2, linewidth=0)
    axis.plot(middle, median, **look)
