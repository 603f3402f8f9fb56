"""The table and the figures of the MNIST sums."""

from itertools import product

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from equiset.results.figures import Canvas, Figure, name_data
from equiset.results.palette import BLACK, shade
from equiset.results.palette import MODELS as COLOURS
from equiset.results.runs import Material, Run, what_was_measured
from equiset.results.tables import Table, percent, spread

MODELS = {"I": "concatenated", "II": "as channels", "III": "set pooling", "IV": "set layer"}
# What the text of section 3.1 says in numbers; figure 1 itself prints none.
PAPER = {"IV-N6": "> 80 %", "III-N6": "similar to IV"}


def accuracy(material: Material) -> Table:
    """Accuracy of every variant, last and best epoch, beside the paper's and a constant guess."""
    runs = material.runs
    numbers, shown = [], []
    for variant, group in sorted(runs.items(), key=lambda item: item[1][0].info["sets"]["members"]):
        settings, first = group[0].settings, group[0]
        last = [run.metrics["validation_accuracy"].iloc[-1] for run in group]
        best = [run.metrics["validation_accuracy"].max() for run in group]
        best_epochs = [int(run.metrics["epoch"][run.metrics["validation_accuracy"].idxmax()]) for run in group]
        train = [_train_accuracy(run) for run in group]
        members, paper = first.info["sets"]["members"], PAPER.get(variant, "—")
        numbers.append(
            {
                "variant": variant,
                "model": settings["model"],
                "members": members,
                "set_pool": settings["set_pool"] if settings["model"] in ("III", "IV") else "",
                "dropout": settings["dropout"],
                "parameters": first.info["parameters"],
                "epochs": settings["training"]["epochs"],
                "seeds": len(group),
                "validation_accuracy_last_mean": np.mean(last),
                "validation_accuracy_last_sd": spread(last),
                "validation_accuracy_best_mean": np.mean(best),
                "validation_accuracy_best_sd": spread(best),
                "best_epoch_median": np.median(best_epochs),
                "train_accuracy_last_mean": np.mean(train),
                "constant_guess_accuracy": _constant_guess(first),
                "data_kind": first.info["sets"]["kind"],
                "data_share": first.info["sets"]["share"],
                "scale": first.info["spec"]["scale"],
                "paper": paper,
            }
        )
        shown.append(
            {
                "Model": f"{settings['model']} {MODELS[settings['model']]}{_change(variant)}",
                "N": members,
                "Parameters": f"{first.info['parameters']:,}",
                "Validation, last (%)": percent(last),
                "Validation, best (%)": percent(best),
                "Training (%)": percent(train),
                "Guess (%)": percent([_constant_guess(first)]),
                "Paper": paper,
                "Epochs": settings["training"]["epochs"],
                "Seeds": len(group),
            }
        )
    return Table(
        pd.DataFrame(numbers),
        pd.DataFrame(shown),
        "Accuracy of predicting the sum of N MNIST digits.",
        (
            f"Validation: sets of images that no training set contains{_exception(runs)}; last and best epoch, both on "
            "the same validation sets, as in the paper. Training: the training sets after the last epoch, without "
            "dropout. Guess: always the most frequent training sum. ±: standard deviation over seeds.",
            f"Measured on {what_was_measured(runs)}",
        ),
    )


def _exception(runs: dict[str, list[Run]]) -> str:
    drawn_from_all = [name for name, group in runs.items() if group[0].info["sets"].get("draw_from") == "all"]
    return f" (but {', '.join(drawn_from_all)}: both kinds from all images)" if drawn_from_all else ""


def _change(variant: str) -> str:
    """Return what a variant changes, from its name: `IV-N6-max` is model IV with `max`."""
    change = "-".join(variant.split("-")[2:])
    return f", {change}" if change else ""


def _train_accuracy(run: Run) -> float:
    part = run.predictions[run.predictions["split"] == "train"]
    return float((part["label"] == part["predicted"]).mean())


def _constant_guess(run: Run) -> float:
    labels = {split: part["label"] for split, part in run.predictions.groupby("split", observed=True)}
    return float((labels["validation"] == labels["train"].mode()[0]).mean())


def figure1(material: Material) -> Figure:
    """Validation accuracy by epoch of the four models, left N=3, right N=6; training accuracy in lighter lines.

    The first row has the paper's models. Every change that at least two of them were run with gets a row of its own.
    """
    runs = material.runs
    changes = dict.fromkeys(map(_change, runs))
    models = {change: [variant for variant in runs if _change(variant) == change] for change in changes}
    rows = [change for change in changes if not change or len({name.split("-")[0] for name in models[change]}) > 1]
    canvas = Canvas(figsize=(6.8, 0.5 + 2.4 * len(rows)), layout="constrained")
    axes = canvas.subplots(len(rows), 2, sharey=True, squeeze=False)
    for (row, change), (column, members) in product(enumerate(rows), enumerate((3, 6))):
        axis = axes[row, column]
        drawn = {runs[name][0].settings["model"]: runs[name] for name in models[change] if f"-N{members}" in name}
        for model, group in drawn.items():
            _curve(axis, group, "train_accuracy", COLOURS[model], light=True)
            _curve(axis, group, "validation_accuracy", COLOURS[model])
        if drawn:
            guess = 100 * _constant_guess(next(iter(drawn.values()))[0])
            axis.axhline(guess, color=BLACK, linewidth=0.8, linestyle=":")
        axis.set(title=f"N = {members}{change}", xlabel="epoch", ylim=(0, 100))
        axis.xaxis.get_major_locator().set_params(integer=True)
    for axis in axes[:, 0]:
        axis.set_ylabel("accuracy (%)")
    handles = [Line2D([], [], color=COLOURS[model], label=f"{model} {MODELS[model]}") for model in MODELS]
    handles += [
        Line2D([], [], color="0.3", label="validation"),
        Line2D([], [], color="0.3", alpha=0.4, linewidth=0.9, label="training"),
        Line2D([], [], color=BLACK, linewidth=0.8, linestyle=":", label="constant guess"),
    ]
    canvas.legend(handles=handles, loc="outside right center", fontsize=7)
    name_data(canvas, what_was_measured(runs))
    return Figure(canvas)


def _curve(axis: Axes, group: list[Run], metric: str, colour: str, light: bool = False) -> None:
    """Draw the mean over seeds, with a band from the lowest to the highest."""
    curves = pd.concat([run.metrics.set_index("epoch")[metric] for run in group], axis=1).dropna() * 100
    style = {"alpha": 0.4, "linewidth": 0.9} if light else {}
    marker = "." if len(curves) == 1 else None
    axis.plot(curves.index, curves.mean(axis=1), color=colour, marker=marker, **style)
    if len(group) > 1 and not light:
        axis.fill_between(curves.index, curves.min(axis=1), curves.max(axis=1), color=colour, alpha=0.15, linewidth=0)


def dropout(material: Material) -> Figure:
    """Model I at N = 6 under growing dropout: its curves, and how far its predictions stray from the mean label."""
    runs = material.runs
    sweep = {
        group[0].settings["dropout"]: group
        for variant, group in runs.items()
        if group[0].settings["model"] == "I" and "-N6" in variant
    }
    canvas = Canvas(figsize=(6.8, 2.9), layout="constrained")
    left, right = canvas.subplots(1, 2)
    # One model, so one colour: the more dropout, the darker.
    for rate, share in zip(sorted(sweep), np.linspace(0, 0.75, len(sweep)), strict=True):
        colour = shade(COLOURS["I"], share)
        _curve(left, sweep[rate], "train_accuracy", colour, light=True)
        _curve(left, sweep[rate], "validation_accuracy", colour)
        predictions = sweep[rate][0].predictions.query("split == 'validation'")
        offsets = predictions["predicted"] - predictions["label"].mean()
        label = f"dropout {rate:g}: sd {offsets.std():.1f}"
        right.hist(offsets, bins=np.arange(-27.5, 28.5, 1), density=True, histtype="step", color=colour, label=label)
    if sweep:
        truth = predictions["label"] - predictions["label"].mean()
        label = f"labels: sd {truth.std():.1f}"
        right.hist(truth, bins=np.arange(-27.5, 28.5, 1), density=True, color="0.85", label=label, zorder=0)
        right.legend(fontsize=6.5, loc="upper right")
    left.xaxis.get_major_locator().set_params(integer=True)
    left.set(title="Model I, N = 6", xlabel="epoch", ylabel="accuracy (%), training lighter", ylim=(0, 100))
    right.set(title="Predictions on validation sets", xlabel="predicted sum − mean label", ylabel="density")
    name_data(canvas, what_was_measured(runs))
    return Figure(canvas)


SHOWN = {"accuracy": accuracy, "figure1": figure1, "dropout": dropout}
