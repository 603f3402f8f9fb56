"""The tables and figures of the outlier faces."""

from functools import partial

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from equiset.experiments.outlier_faces.measures import BINS, Answers
from equiset.results.experiment import ExperimentResults, run_cells
from equiset.results.figures import CURVE_KEY, GUESS, Canvas, Figure, draw_curve, draw_intervals, name_data, seed_bands
from equiset.results.palette import BLACK, BLUE, MARKERS, MODELS
from equiset.results.runs import Run, measured_on
from equiset.results.tables import ABOUT_SPREAD, Cell, Table

RED, CHOICE = "#E00000", BLUE  # the frame of figures 4 and 6, as in the paper; what the network says


def accuracy(results: ExperimentResults) -> Table:
    """How often each network finds the outlier, beside the paper's numbers and guessing."""
    rows: list[list[Cell]] = []
    for variant, group in results.runs.items():
        names = ("test_accuracy", "train_accuracy", "calibration_error")
        test, train, calibration = (results.measures[variant, name] for name in names)
        rows.append(
            [
                ("variant", "Model", variant, results.title(variant)),
                ("output", "", group[0].settings["output"]),
                ("precision", "", group[0].settings["training"]["precision"]),
                ("training_sets", "", group[0].info["sets"]["train"]),
                ("test_sets", "", test.answers),
                ("test_accuracy", "Test (%)", test),
                ("test_accuracy_sd_over_seeds", "95 % interval", test.seed_sd, test.interval),
                ("train_accuracy", "Training (%)|Train.", train, train.text),
                ("guess_accuracy", "Guess (%)|Guess", test.chance, test.format(test.chance)),
                ("above_guess", "", test.low > test.chance),
                *results.paper_cells(results.role(variant).claim),
                ("calibration_error", "Calibration error|Calib.", calibration.value, calibration.text),
                *run_cells(group),
            ]
        )
    return Table.of(
        rows,
        "How often the outlier among the faces of a set is found.",
        "Test: sets of people that no training set shows, after the last epoch. Training: as many training sets, "
        "without dropout. Guess: one member at random. The sigmoid model judges sets with 0 to 3 outliers, and is "
        "right only if it judges all members right; there, the guess is that there is none. Calibration error: "
        "expected, over the members of the test sets.",
        ABOUT_SPREAD,
        measured_on(results.runs),
    )


def pairs(results: ExperimentResults) -> Table:
    """Accuracy of the set layer by attribute; the CSV file has every pair of attributes."""
    name, group = _main_model(results)
    whole = results.measures[name, "test_accuracy"]
    rows: list[list[Cell]] = []
    by_attribute = []
    for number in results.measures.select(variant=name, measure=whole.measure):
        kind, _, attributes = number.part.partition(" ")
        if kind == "pair":
            first, second = attributes.split(", ")
            rows.append(
                [("first", "", first), ("second", "", second), ("sets", "", number.answers), ("accuracy", "", number)]
            )
        elif kind == "attribute":
            by_attribute.append((number, attributes.replace("_", " ")))
    for number, attribute in sorted(by_attribute, key=lambda pair: (-pair[0].value, pair[0].part)):
        rows.append(
            [
                ("", "Attribute", attribute),
                ("", "Test sets", number.answers),
                ("", "Found (%)", number, number.text),
                ("", "95 % interval", number.interval),
            ]
        )
    return Table.of(
        rows,
        "How often the outlier is found when an attribute is one of the two that the others share.",
        f"The set-layer model; all pairs together {whole.text} %. The CSV file "
        "beside this table has every pair by itself.",
        measured_on({name: group}),
    )


def several(results: ExperimentResults) -> Table:
    """The sigmoid model by the number of outliers that a set has."""
    runs = {name: group for name, group in results.runs.items() if group[0].settings["output"] == "sigmoid"}
    names = {
        "outliers_found": "Outliers found (%)|Found (%)",
        "named_per_set": "Named per set|Named",
        "outliers_among_most_probable": "Outliers among the most probable (%)|Among top (%)",
    }
    rows: list[list[Cell]] = []
    for variant in runs:
        select = partial(results.measures.select, variant=variant, part="outliers")
        by = {name: {number.at: number for number in select(measure=name)} for name in names}
        for right in select(measure="test_accuracy"):
            found = {name: by[name].get(right.at) for name in names}
            rows.append(
                [
                    ("outliers", "Outliers", int(right.at)),
                    ("sets", "Test sets", right.answers),
                    ("all_right", "All members right (%)|All right (%)", right, right.text),
                    ("", "95 % interval", right.interval),
                    *((name, names[name], one, one.text) for name, one in found.items() if one),
                ]
            )
    return Table.of(
        rows,
        "Sets with any number of outliers: a sigmoid for each member.",
        "A member is named an outlier if its probability is above one half. The last column takes as many members "
        "as there are outliers, the most probable ones.",
        measured_on(runs or results.runs),
    )


def _main_model(results: ExperimentResults) -> tuple[str, list[Run]]:
    """Return the paper's model and its runs, or the first that gives one answer for each set."""
    settings = {name: group[0].settings for name, group in results.runs.items()}
    softmax = [name for name in settings if settings[name]["output"] == "softmax"] or list(settings)
    name = next((name for name in softmax if settings[name]["model"] == "set-layer"), softmax[0])
    return name, results.runs[name]


def figure4(results: ExperimentResults) -> Figure:
    """Rows of test sets: the first ones, not chosen."""
    return _draw_sets(results, 0, 7)


def figure6(results: ExperimentResults) -> Figure:
    """The next rows of test sets."""
    return _draw_sets(results, 7, 12)


def _draw_sets(results: ExperimentResults, start: int, count: int) -> Figure:
    name, (run, *_) = _main_model(results)
    answers = Answers(run)
    sets = np.stack(answers.table["members"].to_numpy())
    shown = range(min(start, max(len(answers.right) - count, 0)), min(start + count, len(answers.right)))
    images = np.load(results.store / "images.npy", mmap_mode="r")
    members = sets.shape[1]
    face, gap, bar = 1.0, 1 / 16, 0.3  # in units of one face
    pitch = face + bar + 0.24
    width, height, text = members * (face + gap), len(shown) * pitch, 3.2
    scale = 7.0 / (width + text)  # inches for each unit
    foot = 0.6
    canvas = Canvas(figsize=(7.0, height * scale + foot))
    axis = canvas.add_axes((0.005, foot / (height * scale + foot), 0.99, height * scale / (height * scale + foot)))
    axis.set(xlim=(-0.1, width + text), ylim=(height, -0.05), aspect="equal")
    axis.axis("off")
    for line, number in enumerate(shown):
        top = line * pitch + 0.05
        # One picture for the whole row, with white between the faces: many small ones take long to draw.
        strip = np.pad(images[sets[number]], ((0, 0), (0, 0), (0, images.shape[2] // 16), (0, 0)), constant_values=255)
        extent = (0, members * (face + gap), top + face, top)
        axis.imshow(np.concatenate(list(strip), axis=1), extent=extent, interpolation="antialiased", aspect="equal")
        choice = int(np.argmax(answers.probability[number]))
        for place in range(members):
            left, below, probability = (
                place * (face + gap),
                top + face + 0.08,
                float(answers.probability[number, place]),
            )
            axis.add_patch(Rectangle((left, below), face, bar, facecolor="0.9", linewidth=0))
            axis.add_patch(Rectangle((left, below), face * probability, bar, facecolor=CHOICE, linewidth=0))
            if place == choice:
                axis.plot(left + face / 2, below + bar + 0.08, "^", color=CHOICE, markersize=4, clip_on=False)
                middle = (left + face / 2, below + bar / 2)
                colour = "white" if probability > 0.7 else BLACK
                axis.text(*middle, f"{100 * probability:.0f} %", ha="center", va="center", fontsize=5, color=colour)
            if answers.outlier[number, place]:
                frame = {"fill": False, "edgecolor": RED, "linewidth": 1.8, "zorder": 3}
                axis.add_patch(Rectangle((left, top), face, face, **frame))
        names = "\n".join(name.replace("_", " ") for name in answers.pairs[number])
        names += "\n✓ found" if answers.right[number] else "\n✗ missed"
        axis.text(width + 0.12, top + face / 2, names, va="center", fontsize=6.5, linespacing=1.3)
    # imshow sets limits of its own
    axis.set(xlim=(-0.1, width + text), ylim=(height, -0.05))
    found = int(answers.right[list(shown)].sum())
    everywhere = results.measures[name, "test_accuracy"].text
    result = f"Found here: {found} of {len(shown)} outliers. In all test sets: {everywhere} %."
    key = "Red frame: the outlier. Blue bar: how probable the network finds it; triangle: the network's choice."
    canvas.text(0.01, 0.26 / canvas.get_figheight(), f"{key}\n{result}", fontsize=7, linespacing=1.4)
    name_data(canvas, {name: [run]})
    return Figure(canvas, f"{len(shown)} rows of {members} faces. {key} {result}")


def _look(group: list[Run]) -> dict[str, str]:
    """Return how a network is drawn: changes of a model have its colour, and lines of their own."""
    settings = group[0].settings
    line = ":" if settings["output"] == "sigmoid" else "-" if settings["simultaneous_dropout"] else "--"
    marker = "X" if settings["output"] == "sigmoid" else MARKERS[settings["model"]]
    return {"color": MODELS[settings["model"]], "linestyle": line, "marker": marker}


def curves(results: ExperimentResults) -> Figure:
    """Accuracy and loss by epoch; training in lighter lines, with dropout."""
    groups = {name: group for name, group in results.runs.items() if group[0].settings["output"] == "softmax"}
    canvas = Canvas(figsize=(6.8, 2.6), layout="constrained")
    axes = canvas.subplots(1, 2)
    for axis, metric, factor in ((axes[0], "accuracy", 100), (axes[1], "loss", 1)):
        for group in groups.values():
            draw_curve(axis, group, f"train_{metric}", light=True, factor=factor, **_look(group) | {"marker": ""})
            draw_curve(axis, group, f"validation_{metric}", factor=factor, **_look(group))
    for name in list(groups)[:1]:
        guess = results.measures[name, "test_accuracy"].chance
        axes[0].axhline(100 * guess, **GUESS)
        axes[1].axhline(-np.log(guess), **GUESS)
    axes[0].set(ylabel="sets answered right (%)", ylim=(0, None))
    axes[1].set_ylabel("loss (nats)")
    looks = {results.title(name): _look(group) for name, group in groups.items()}
    handles = [Line2D([], [], **look, markersize=4, label=label) for label, look in looks.items()]
    guess_key = Line2D([], [], **GUESS, label="guess")
    canvas.legend(handles=[*handles, *CURVE_KEY, guess_key], loc="outside right center", fontsize=7)
    name_data(canvas, groups or results.runs, seed_bands(groups))
    ends = (f"{results.title(name)} {results.measures[name, 'test_accuracy'].text} %" for name in groups)
    return Figure(canvas, f"Accuracy and loss by epoch. Test sets answered right in the end: {', '.join(ends)}.")


def calibration(results: ExperimentResults) -> Figure:
    """Of the members that were given some probability of being an outlier, how many are one?"""
    canvas = Canvas(figsize=(6.8, 3.1), layout="constrained")
    left, right = canvas.subplots(1, 2)
    left.plot([0, 1], [0, 1], color=BLACK, linewidth=0.8, linestyle=":")
    for name, group in results.runs.items():
        look, shares = _look(group), results.measures.select(variant=name, measure="outlier_share", part="bin")
        means = [number.value for number in results.measures.select(variant=name, measure="mean_probability")]
        draw_intervals(left, means, shares, markersize=3, elinewidth=0.7, linewidth=1, **look)
        label = f"{results.title(name)}: calibration error {results.measures[name, 'calibration_error'].text}"
        middles = [(BINS[int(number.at)] + BINS[int(number.at) + 1]) / 2 for number in shares]
        right.plot(middles, [number.answers for number in shares], label=label, markersize=3, **look)
    left.set(xlabel="probability of being an outlier", ylabel="share that is one", xlim=(0, 1), ylim=(0, 1))
    right.set(xlabel="probability of being an outlier", ylabel="members in the bin", yscale="log", xlim=(0, 1))
    right.set_ylim(bottom=0.8)
    handles, labels = right.get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside upper center", ncols=2, fontsize=7)
    name_data(canvas, results.runs)
    return Figure(canvas, f"Share of outliers by predicted probability. {'; '.join(labels)}.")
