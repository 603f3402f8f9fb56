"""The tables and figures of the outlier faces."""

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from equiset.results.figures import Canvas, Figure, name_data
from equiset.results.palette import BLACK, MODELS
from equiset.results.runs import Material, Run, what_was_measured
from equiset.results.tables import Table, percent, spread

LABELS = {
    "set-layer": "set layer",
    "set-pooling": "set pooling",
    "set-layer-independent": "set layer, independent dropout",
    "sigmoid": "set layer, sigmoid",
}
# Changes of a model have its colour, and lines of their own.
LINES = {"set-layer-independent": "--", "sigmoid": ":"}
PAPER = {"set-layer": "75 %", "set-pooling": "≈ 6.3 %"}  # section 4.1
RED = "#E00000"  # the frame and the bar of figures 4 and 6, as in the paper
_BINS = np.linspace(0, 1, 11)


class Answers:
    """What a network said about sets of one split: probabilities, truth, and the two attributes."""

    def __init__(self, runs: list[Run], split: str = "test"):
        table = pd.concat([run.predictions[run.predictions["split"] == split] for run in runs], ignore_index=True)
        self.probability = np.stack(table["probability"].to_numpy())
        self.outlier = np.stack(table["outlier"].to_numpy())
        self.members = np.stack(table["members"].to_numpy())
        self.pairs = table[["first", "second"]].astype(str).to_numpy()
        self.sigmoid = runs[0].settings["output"] == "sigmoid"

    @property
    def right(self) -> np.ndarray:
        """Whether each set is answered right: the most probable is an outlier; with sigmoids, all are judged right."""
        if self.sigmoid:
            return ((self.probability > 0.5) == self.outlier).all(axis=1)
        # A tie that the truth would win is no merit: the first of the largest counts.
        return np.take_along_axis(self.outlier, self.probability.argmax(axis=1)[:, None], axis=1)[:, 0]

    @property
    def guess(self) -> float:
        """The accuracy of guessing: one member at random, or with sigmoids always `no outlier`."""
        return float((~self.outlier.any(axis=1)).mean()) if self.sigmoid else 1 / self.outlier.shape[1]

    def reliability(self) -> pd.DataFrame:
        """Return for each range of probabilities its mean, how many members were outliers, and how many there are."""
        bins = np.clip(np.digitize(self.probability, _BINS) - 1, 0, len(_BINS) - 2).ravel()
        frame = pd.DataFrame({"bin": bins, "probability": self.probability.ravel(), "outlier": self.outlier.ravel()})
        return frame.groupby("bin").agg(
            probability=("probability", "mean"), outlier=("outlier", "mean"), members=("outlier", "size")
        )

    @property
    def calibration_error(self) -> float:
        """The expected calibration error over ten ranges of the members' probabilities."""
        table = self.reliability()
        return float(np.average((table["probability"] - table["outlier"]).abs(), weights=table["members"]))


def wilson(right: int, count: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a proportion (Wilson's score interval)."""
    z, share = 1.959964, right / count
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return float(max(middle - half, 0)), float(min(middle + half, 1))


def _interval(right: np.ndarray) -> str:
    low, high = wilson(int(right.sum()), len(right))
    return f"{100 * low:.1f}–{100 * high:.1f}"


def accuracy(material: Material) -> Table:
    """How often each network finds the outlier, beside the paper's numbers and guessing."""
    numbers, shown = [], []
    for variant, group in material.runs.items():
        test, train = Answers(group), Answers(group, "train")
        by_seed = [Answers([run]).right.mean() for run in group]
        low, high = wilson(int(test.right.sum()), len(test.right))
        first, paper = group[0], PAPER.get(variant, "—")
        numbers.append(
            {
                "variant": variant,
                "output": first.settings["output"],
                "parameters": first.info["parameters"],
                "test_sets": len(test.right),
                "test_accuracy_mean": np.mean(by_seed),
                "test_accuracy_sd": spread(by_seed),
                "test_accuracy_low95": low,
                "test_accuracy_high95": high,
                "train_accuracy": train.right.mean(),
                "guess_accuracy": test.guess,
                "above_guess": low > test.guess,
                "calibration_error": test.calibration_error,
                "epochs": first.settings["training"]["epochs"],
                "precision": first.settings["training"]["precision"],
                "seeds": len(group),
                "data_kind": first.info["sets"]["kind"],
                "data_share": first.info["sets"]["share"],
                "scale": first.info["spec"]["scale"],
                "paper": paper,
            }
        )
        shown.append(
            {
                "Model": LABELS.get(variant, variant),
                "Parameters": f"{first.info['parameters']:,}",
                "Test (%)": percent(by_seed),
                "95 % interval": _interval(test.right),
                "Training (%)": percent([train.right.mean()]),
                "Guess (%)": percent([test.guess]),
                "Paper": paper,
                "Calibration error": f"{test.calibration_error:.3f}",
                "Epochs": first.settings["training"]["epochs"],
                "Seeds": len(group),
            }
        )
    return Table(
        pd.DataFrame(numbers),
        pd.DataFrame(shown),
        "How often the outlier among the faces of a set is found.",
        (
            "Test: sets of people that no training set shows, after the last epoch. 95 % interval: Wilson's, over the "
            "test sets of all seeds. Training: as many training sets, without dropout. Guess: one member at random. "
            "The sigmoid model judges sets with 0 to 3 outliers, and is right only if it judges all members right; "
            "there, the guess is that there is none. Calibration error: expected, over the members of the test sets. "
            "±: standard deviation over seeds.",
            f"Measured on {what_was_measured(material.runs)}",
        ),
    )


def pairs(material: Material) -> Table:
    """Accuracy of the set layer by attribute; the CSV file has every pair of attributes."""
    runs = {"set-layer": _main_runs(material)}
    answers = Answers(runs["set-layer"])
    table = pd.DataFrame(np.sort(answers.pairs, axis=1), columns=["first", "second"]).assign(right=answers.right)
    by_pair = table.groupby(["first", "second"]).agg(sets=("right", "size"), found=("right", "sum")).reset_index()
    by_pair["accuracy"] = by_pair["found"] / by_pair["sets"]
    rows = []
    for attribute in np.unique(answers.pairs):
        right = answers.right[(answers.pairs == attribute).any(axis=1)]
        rows.append((right.mean(), attribute.replace("_", " "), len(right), percent([right.mean()]), _interval(right)))
    rows.sort(key=lambda row: (-row[0], row[1]))
    return Table(
        by_pair,
        pd.DataFrame([row[1:] for row in rows], columns=["Attribute", "Test sets", "Found (%)", "95 % interval"]),
        "How often the outlier is found when an attribute is one of the two that the others share.",
        (
            f"The set-layer model; all pairs together {percent([answers.right.mean()])} %. The CSV file beside this "
            "table has every pair by itself.",
            f"Measured on {what_was_measured(runs)}",
        ),
    )


def several(material: Material) -> Table:
    """The sigmoid model by the number of outliers that a set has."""
    runs = {name: group for name, group in material.runs.items() if group[0].settings["output"] == "sigmoid"}
    numbers, shown = [], []
    for group in runs.values():
        answers = Answers(group)
        said, count = answers.probability > 0.5, answers.outlier.sum(axis=1)
        for outliers in np.unique(count):
            here = count == outliers
            truth, right = answers.outlier[here], answers.right[here]
            hits, named = int((said[here] & truth).sum()), int(said[here].sum())
            recall = hits / truth.sum() if outliers else np.nan
            # The right number given, are the most probable members the outliers?
            order = np.argsort(-answers.probability[here], axis=1, kind="stable")[:, :outliers]
            first = np.take_along_axis(truth, order, axis=1).mean() if outliers else np.nan
            numbers.append(
                {
                    "outliers": outliers,
                    "sets": int(here.sum()),
                    "all_right": right.mean(),
                    "found": recall,
                    "named_per_set": named / here.sum(),
                    "outliers_among_most_probable": first,
                }
            )
            shown.append(
                {
                    "Outliers": outliers,
                    "Test sets": int(here.sum()),
                    "All members right (%)": percent([right.mean()]),
                    "95 % interval": _interval(right),
                    "Outliers found (%)": percent([recall]) if outliers else "—",
                    "Named per set": f"{named / here.sum():.2f}",
                    "Outliers among the most probable (%)": percent([first]) if outliers else "—",
                }
            )
    return Table(
        pd.DataFrame(numbers),
        pd.DataFrame(shown),
        "Sets with any number of outliers: a sigmoid for each member.",
        (
            "A member is named an outlier if its probability is above one half. The last column takes as many members "
            "as there are outliers, the most probable ones.",
            f"Measured on {what_was_measured(runs or material.runs)}",
        ),
    )


def _main_runs(material: Material) -> list[Run]:
    """The runs of the paper's model, or of the first that gives one answer for each set."""
    softmax = [group for group in material.runs.values() if group[0].settings["output"] == "softmax"]
    return material.runs.get("set-layer") or (softmax or list(material.runs.values()))[0]


def figure4(material: Material) -> Figure:
    """Rows of test sets: the first ones, not chosen."""
    return _rows(material, 0, 7)


def figure6(material: Material) -> Figure:
    """The next rows of test sets."""
    return _rows(material, 7, 12)


def _rows(material: Material, start: int, count: int) -> Figure:
    run = _main_runs(material)[0]
    answers = Answers([run])
    shown = range(min(start, max(len(answers.right) - count, 0)), min(start + count, len(answers.right)))
    images = np.load(material.store / "images.npy", mmap_mode="r")
    members = answers.members.shape[1]
    face, gap, bar = 1.0, 1 / 16, 0.14  # in units of one face
    pitch = face + bar + 0.2
    width, height, text = members * (face + gap), len(shown) * pitch, 3.2
    scale = 7.0 / (width + text)  # inches for each unit
    foot = 0.45
    canvas = Canvas(figsize=(7.0, height * scale + foot))
    axis = canvas.add_axes((0.005, foot / (height * scale + foot), 0.99, height * scale / (height * scale + foot)))
    axis.set(xlim=(-0.1, width + text), ylim=(height, -0.05), aspect="equal")
    axis.axis("off")
    for line, number in enumerate(shown):
        top = line * pitch + 0.05
        # One picture for the whole row, with white between the faces: many small ones take long to draw.
        strip = np.pad(
            images[answers.members[number]], ((0, 0), (0, 0), (0, images.shape[2] // 16), (0, 0)), constant_values=255
        )
        extent = (0, members * (face + gap), top + face, top)
        axis.imshow(np.concatenate(list(strip), axis=1), extent=extent, interpolation="antialiased", aspect="equal")
        for place in range(members):
            left = place * (face + gap)
            below = top + face + 0.06
            axis.add_patch(Rectangle((left, below), face, bar, facecolor="0.9", linewidth=0))
            filled = face * float(answers.probability[number, place])
            axis.add_patch(Rectangle((left, below), filled, bar, facecolor=RED, linewidth=0))
            if answers.outlier[number, place]:
                frame = {"fill": False, "edgecolor": RED, "linewidth": 1.8, "zorder": 3}
                axis.add_patch(Rectangle((left, top), face, face, **frame))
        names = "\n".join(name.replace("_", " ") for name in answers.pairs[number])
        axis.text(width + 0.12, top + face / 2, names, va="center", fontsize=6.5, linespacing=1.3)
    # imshow sets limits of its own
    axis.set(xlim=(-0.1, width + text), ylim=(height, -0.05))
    found = int(answers.right[list(shown)].sum())
    said = f"Found here: {found} of {len(shown)} outliers. In all test sets: {100 * answers.right.mean():.0f} %."
    canvas.text(0.01, 0.26 / canvas.get_figheight(), said, fontsize=7)
    name_data(canvas, what_was_measured({"": [run]}))
    return Figure(canvas)


def _look(variant: str, group: list[Run]) -> dict[str, str]:
    return {"color": MODELS[group[0].settings["model"]], "linestyle": LINES.get(variant, "-")}


def curves(material: Material) -> Figure:
    """Accuracy and loss by epoch; training in lighter lines, with dropout."""
    groups = {name: group for name, group in material.runs.items() if group[0].settings["output"] == "softmax"}
    canvas = Canvas(figsize=(6.8, 2.6), layout="constrained")
    axes = canvas.subplots(1, 2)
    for axis, metric, factor in ((axes[0], "accuracy", 100), (axes[1], "loss", 1)):
        for name, group in groups.items():
            for part, style in (("train", {"alpha": 0.4, "linewidth": 0.9}), ("validation", {})):
                lines = (
                    pd.concat([run.metrics.set_index("epoch")[f"{part}_{metric}"] for run in group], axis=1) * factor
                )
                marker = "." if len(lines) == 1 else None
                axis.plot(lines.index, lines.mean(axis=1), marker=marker, **_look(name, group), **style)
                if part == "validation" and len(group) > 1:
                    low, high = lines.min(axis=1), lines.max(axis=1)
                    colour = _look(name, group)["color"]
                    axis.fill_between(lines.index, low, high, color=colour, alpha=0.15, linewidth=0)
        axis.set_xlabel("epoch")
        axis.xaxis.get_major_locator().set_params(integer=True)
    if groups:
        guess = Answers(next(iter(groups.values()))).guess
        axes[0].axhline(100 * guess, color=BLACK, linewidth=0.8, linestyle=":")
        axes[1].axhline(-np.log(guess), color=BLACK, linewidth=0.8, linestyle=":")
    axes[0].set(ylabel="sets answered right (%)", ylim=(0, None))
    axes[1].set_ylabel("loss (nats)")
    handles = [Line2D([], [], **_look(name, group), label=LABELS.get(name, name)) for name, group in groups.items()]
    handles += [
        Line2D([], [], color="0.3", label="validation"),
        Line2D([], [], color="0.3", alpha=0.4, linewidth=0.9, label="training, with dropout"),
        Line2D([], [], color=BLACK, linewidth=0.8, linestyle=":", label="guess"),
    ]
    canvas.legend(handles=handles, loc="outside right center", fontsize=7)
    name_data(canvas, what_was_measured(groups or material.runs))
    return Figure(canvas)


def calibration(material: Material) -> Figure:
    """Of the members that were given some probability of being an outlier, how many are one?"""
    groups = material.runs
    canvas = Canvas(figsize=(6.8, 3.1), layout="constrained")
    left, right = canvas.subplots(1, 2)
    left.plot([0, 1], [0, 1], color=BLACK, linewidth=0.8, linestyle=":")
    for name, group in groups.items():
        answers = Answers(group)
        table, look = answers.reliability(), _look(name, group)
        bounds = np.array([wilson(round(row.outlier * row.members), int(row.members)) for row in table.itertuples()])
        errors = np.abs(bounds.T - table["outlier"].to_numpy())
        style = {"marker": "o", "markersize": 3, "elinewidth": 0.7, "linewidth": 1}
        left.errorbar(table["probability"], table["outlier"], errors, **style, **look)
        label = f"{LABELS.get(name, name)}: calibration error {answers.calibration_error:.3f}"
        weights = np.full(answers.probability.size, 1 / answers.probability.size)
        right.hist(answers.probability.ravel(), _BINS, weights=weights, histtype="step", label=label, **look)
    left.set(xlabel="probability of being an outlier", ylabel="share that is one", xlim=(0, 1), ylim=(0, 1))
    right.set(xlabel="probability of being an outlier", ylabel="share of members", yscale="log", xlim=(0, 1))
    handles, labels = right.get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside upper center", ncols=2, fontsize=7)
    name_data(canvas, what_was_measured(groups))
    return Figure(canvas)


SHOWN = {
    "accuracy": accuracy,
    "pairs": pairs,
    "several": several,
    "figure4": figure4,
    "figure6": figure6,
    "curves": curves,
    "calibration": calibration,
}
