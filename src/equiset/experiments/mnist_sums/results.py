"""The table and the figures of the MNIST sums."""

from itertools import cycle, product
from textwrap import fill

import numpy as np
from matplotlib.lines import Line2D

from equiset.experiments.mnist_sums.measures import SAME_IMAGES
from equiset.results.experiment import ExperimentResults, run_cells
from equiset.results.figures import (
    CURVE_KEY,
    GUESS,
    Canvas,
    Figure,
    NothingToShowError,
    draw_curve,
    name_data,
    seed_bands,
)
from equiset.results.palette import MARKERS, shade
from equiset.results.palette import MODELS as COLOURS
from equiset.results.runs import Run, measured_on
from equiset.results.tables import ABOUT_SPREAD, Cell, Table

MODELS = {"I": "concatenated", "II": "as channels", "III": "set pooling", "IV": "set layer"}


def _members(group: list[Run]) -> int:
    return group[0].info["sets"]["members"]


def accuracy(results: ExperimentResults) -> Table:
    """Accuracy of every variant, last and best epoch, beside the paper's and a constant guess."""
    rows: list[list[Cell]] = []
    for variant, group in sorted(results.runs.items(), key=lambda item: _members(item[1])):
        settings, title = group[0].settings, results.role(variant).title
        names = ("validation_accuracy", "best_validation_accuracy", "train_accuracy", "guess_accuracy", "best_epoch")
        last, best, train, guess, best_epoch = (results.measures[variant, name] for name in names)
        same = results.measures.get(variant, SAME_IMAGES)
        model = settings["model"]
        rows.append(
            [
                ("variant", "", variant),
                ("model", "Model", model, f"{model} {MODELS[model]}" + f", {title}" * bool(title)),
                ("members", "N", _members(group)),
                ("set_pool", "", settings["set_pool"] if model in ("III", "IV") else ""),
                ("dropout", "", settings["dropout"]),
                ("validation_accuracy", "Validation, last (%)|Last (%)", last),
                ("", "95 % interval", last.interval),
                ("best_validation_accuracy", "Validation, best (%)|Best", best, best.text),
                ("best_epoch", "", best_epoch.value),
                ("train_accuracy", "Training, after (%)|Train.", train, train.text),
                (SAME_IMAGES, "Same images (%)|Same im.", same and same.value, same.text if same else "—"),
                ("guess_accuracy", "Guess (%)|Guess", guess.value, guess.text),
                *results.paper_cells(results.role(variant).claim),
                *run_cells(group),
            ]
        )
    return Table.of(
        rows,
        "Accuracy of predicting the sum of N MNIST digits.",
        f"Validation: sets of images that no training set contains{_exception(results.runs)}; last and best epoch, "
        "both on the same validation sets, as in the paper. Training, after: the training sets after the last epoch, "
        "without dropout; same images: new sets of the images of the training sets, after the "
        "last epoch. Guess: always the most frequent training sum.",
        ABOUT_SPREAD,
        measured_on(results.runs),
    )


def _exception(runs: dict[str, list[Run]]) -> str:
    drawn_from_all = [name for name, group in runs.items() if group[0].info["sets"].get("draw_from") == "all"]
    return f" (but {', '.join(drawn_from_all)}: both kinds from all images)" if drawn_from_all else ""


def figure1(results: ExperimentResults) -> Figure:
    """Validation accuracy by epoch of the four models, one panel for each N.

    Training accuracy has two names: `running`, in lighter lines, with dropout and while weights change; and `after` the
    last epoch, at the end, as the table has it.

    The first panels have the paper's models. Every change that at least two of them were run with gets others.
    """
    runs = results.runs
    changes: dict[str, dict[str, list[Run]]] = {"": results.main_runs}
    for name, group in results.changed_runs.items():
        changes.setdefault(results.role(name).title, {})[name] = group
    sizes = sorted({_members(group) for group in runs.values()})
    panels = {}
    for (title, some), members in product(changes.items(), sizes):
        drawn = {name: group for name, group in some.items() if _members(group) == members}
        if not title or len({_model(group) for group in drawn.values()}) > 1:
            panels[title, members] = drawn
    rows = -(-len(panels) // len(sizes))
    canvas = Canvas(figsize=(6.8, 0.5 + 2.4 * rows), layout="constrained")
    axes = canvas.subplots(rows, len(sizes), sharey=True, squeeze=False)
    for axis in axes.ravel()[len(panels) :]:
        axis.set_axis_off()
    for axis, ((title, members), drawn) in zip(axes.ravel(), panels.items(), strict=False):
        for name, group in drawn.items():
            look, last = _look(_model(group)), max(run.metrics["epoch"].max() for run in group)
            draw_curve(axis, group, "train_accuracy", light=True, color=look["color"])
            draw_curve(axis, group, "validation_accuracy", **look)
            after = results.measures[name, "train_accuracy"].value
            axis.plot(last, 100 * after, **look, markerfacecolor="none", markersize=5, clip_on=False)
        # The same for all, but runs without predictions have none.
        guesses = (results.measures[name, "guess_accuracy"].value for name in drawn)
        guess = max(guesses, key=np.nan_to_num, default=np.nan)
        axis.axhline(100 * guess, **GUESS)
        axis.set_title(f"N = {members}" + f", {title}" * bool(title), fontsize=8 if title else None)
        axis.set_ylim(0, 100)
    for axis in axes[:, 0]:
        axis.set_ylabel("accuracy (%)")
    handles = [Line2D([], [], **_look(model), markersize=4, label=f"{model} {MODELS[model]}") for model in MODELS]
    after_key = {"marker": "o", "linestyle": "", "markerfacecolor": "none", "label": "training, after the\nlast epoch"}
    guess_key = Line2D([], [], **GUESS, label="constant guess")
    keys = [*handles, *CURVE_KEY, Line2D([], [], color="0.3", **after_key), guess_key]
    canvas.legend(handles=keys, loc="outside right center", fontsize=7)
    name_data(canvas, runs, seed_bands(runs))
    last = {name: results.measures[name, "validation_accuracy"] for name in runs}
    ends = (f"{name} {measure.text} %" for name, measure in last.items() if np.isfinite(measure.value))
    return Figure(canvas, f"Accuracy by epoch. Validation after the last one: {', '.join(ends)}.")


def _look(model: str) -> dict[str, str]:
    return {"color": COLOURS[model], "marker": MARKERS[model]}


def _model(group: list[Run]) -> str:
    return group[0].settings["model"]


def memorised(results: ExperimentResults) -> Figure:
    """Accuracy by epoch on training sets, on new sets of their images, and on sets of other images; largest sets."""
    recorded = {name: group for name, group in results.runs.items() if SAME_IMAGES in group[0].metrics}
    members = max(map(_members, recorded.values()), default=0)
    some = {name: group for name, group in recorded.items() if _members(group) == members}
    if not some:
        raise NothingToShowError("no run recorded its accuracy on new sets of its training images: train one again")
    columns = min(len(some), 4)
    rows = -(-len(some) // columns)
    canvas = Canvas(figsize=(6.8, 0.6 + 1.9 * rows), layout="constrained")
    axes = canvas.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    looks = {
        "own_sets_accuracy": {"linestyle": ":", "label": "its training sets"},
        SAME_IMAGES: {"linestyle": "--", "label": "new sets of the same images"},
        "validation_accuracy": {"linestyle": "-", "label": "sets of other images (validation)"},
    }
    for axis, (name, group) in zip(axes, some.items(), strict=False):
        model, change = _model(group), results.role(name).title
        for metric, look in looks.items():
            draw_curve(axis, group, metric, color=COLOURS[model], linestyle=look["linestyle"])
        axis.set_title(f"{model} {MODELS[model]}" + f",\n{fill(change, 24)}" * bool(change), fontsize=7)
        axis.set_ylim(0, 100)
    for axis in axes[len(some) :]:
        axis.set_axis_off()
    for axis in axes[::columns]:
        axis.set_ylabel("accuracy (%)")
    keys = [Line2D([], [], color="0.3", **look) for look in looks.values()]
    canvas.legend(handles=keys, loc="outside upper center", ncols=3, fontsize=7)
    name_data(canvas, some, seed_bands(some))
    ends = (
        f"{name} {results.measures[name, 'train_accuracy'].text}, {results.measures[name, SAME_IMAGES].text} and "
        f"{results.measures[name, 'validation_accuracy'].text} %"
        for name in some
    )
    return Figure(
        canvas,
        f"Sets of {members} digits. Right after the last epoch, of training sets, new sets of the same images and sets "
        f"of other images: {'; '.join(ends)}.",
    )


def dropout(results: ExperimentResults) -> Figure:
    """Model I on the largest sets under growing dropout: its curves, and how far its predictions are from the mean."""
    members = max(map(_members, results.runs.values()))
    sweep = {name: group for name, group in results.runs.items() if (_model(group), _members(group)) == ("I", members)}
    if len({group[0].settings["dropout"] for group in sweep.values()}) < 2:
        raise NothingToShowError("the figure `dropout` needs model I with two rates of dropout: name them under `run`")
    canvas = Canvas(figsize=(6.8, 2.9), layout="constrained")
    left, right = canvas.subplots(1, 2)
    by_rate = sorted(sweep, key=lambda name: sweep[name][0].settings["dropout"])
    # One model, so one colour: the more dropout, the darker.
    lines = cycle(("-", "--", "-.", ":"))
    for name, share, line in zip(by_rate, np.linspace(0, 0.75, len(sweep)), lines, strict=False):
        colour, first = shade(COLOURS["I"], share), sweep[name][0]
        draw_curve(left, sweep[name], "train_accuracy", light=True, color=colour, linestyle=line)
        draw_curve(left, sweep[name], "validation_accuracy", color=colour, linestyle=line)
        predictions = first.predictions.query("split == 'validation'")
        mean = predictions["label"].mean()
        label = f"dropout {first.settings['dropout']:g}: sd {results.measures[name, 'predictions_sd'].text}"
        look = {"bins": np.arange(-27.5, 28.5, 1), "density": True}
        right.hist(predictions["predicted"] - mean, histtype="step", color=colour, linestyle=line, label=label, **look)
        if name == by_rate[-1]:
            label = f"labels: sd {results.measures[name, 'labels_sd'].text}"
            right.hist(predictions["label"] - mean, color="0.85", label=label, zorder=0, **look)
    right.legend(fontsize=6.5, loc="upper right")
    label = "accuracy (%); lighter: training,\nrunning, with dropout"
    left.set(title=f"Model I, N = {members}", ylabel=label, ylim=(0, 100))
    right.set(title="Predictions on validation sets", xlabel="predicted sum − mean label", ylabel="density")
    name_data(canvas, sweep, seed_bands(sweep))
    spreads = (f"{name} {results.measures[name, 'predictions_sd'].text}" for name in by_rate)
    return Figure(canvas, f"Model I under growing dropout. Standard deviation of predictions: {', '.join(spreads)}.")
