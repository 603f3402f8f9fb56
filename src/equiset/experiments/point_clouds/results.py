"""Tables and figures of the point clouds."""

from itertools import combinations, cycle, product

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from equiset.experiments.point_clouds.pool import Pool
from equiset.experiments.point_clouds.settings import LATER
from equiset.files import read_json, read_parquet
from equiset.results.claims import PaperValue
from equiset.results.experiment import ExperimentResults, run_cells
from equiset.results.figures import Canvas, Figure, NothingToShowError, draw_intervals, name_data
from equiset.results.palette import BLACK, GREEN, MARKERS, MODELS, ORANGE, SKY
from equiset.results.runs import Run, measured_on
from equiset.results.tables import ABOUT_SPREAD, Cell, Table

# What others reported: model, size of an instance, representation, accuracy in percent, where it is quoted.
QUOTED = (
    ("3DShapeNets", "30^3", "voxels", "77", "the paper"),
    ("DeepPano", "64 × 160", "panoramic image", "77.64", "the paper"),
    ("VoxNet", "32^3", "voxels", "83.10", "the paper"),
    ("MVCNN", "164 × 164 × 12", "multi-view images", "90.1", "the paper"),
    ("VRN Ensemble", "32^3", "voxels", "95.54", "the paper"),
    ("3D GAN", "64^3", "voxels", "83.3", "the paper"),
    ("PointNet", "1024 × 3", "point cloud", "89.2", "Qi et al. 2017"),
    ("Set Transformer, ISAB + PMA", "100 × 3", "point cloud", "84.54 ± 1.44", "Lee et al. 2019"),
    ("Set Transformer, ISAB + pooling", "1000 × 3", "point cloud", "89.15 ± 1.44", "Lee et al. 2019"),
    ("Set Transformer, ISAB + pooling", "5000 × 3", "point cloud", "90.40 ± 1.73", "Lee et al. 2019"),
    ("DGCNN", "1024 × 3", "graph of a point cloud", "92.9", "Wang et al. 2019"),
)
# What the authors of later networks reported of the ones measured here: model, particles, accuracy, where.
REPORTED = {
    ("pointnet", 1000): "87.1 % at 1024 (Qi et al. 2017, without alignment)",
    ("set-transformer", 100): "84.54 ± 1.44 % (Lee et al. 2019)",
}
BESIDE = ("set-layer", *LATER)
"""Models that the table of later networks compares."""
UNSHOWN = ("test_accuracy_without_twins", "running_train_accuracy")
"""Columns of that table that its CSV file alone has: it would be too wide for a page."""
HEIGHT = "viridis"
"""Colours of a cloud, by height."""
# Classes that a reader recognises in a small picture, best first.
SHOW = ("airplane", "chair", "guitar", "lamp", "toilet", "person", "car", "bottle")
POINT = 1e-3
"""Particles of figure 3 that are no farther apart than this, in coordinates as the network has them, are one point."""


def _cells(results: ExperimentResults, name: str) -> list[Cell]:
    """Return what both tables say of a variant."""
    group, found = results.runs[name], results.measures[name, "test_accuracy"]
    without_twins = results.measures.get(name, "test_accuracy_without_twins")
    train, sets = results.measures[name, "train_accuracy"], group[0].info["sets"]
    return [
        ("test_accuracy", "Accuracy (%)|Acc. (%)", found),
        ("sd_over_draws", "", found.draw_sd),
        ("sd_over_seeds", "", found.seed_sd),
        *([("test_accuracy_without_twins", "Without twins (%)|", without_twins)] if without_twins else []),
        ("running_train_accuracy", "Training (%)|Train.", train.value, train.text),
        ("form", "", group[0].settings["form"]),
        ("test_meshes", "", sets["meshes"]["test"]),
        ("test_twins", "", sets["twins"]["test_meshes"]),
        ("draws", "", sets["draws"]),
        *run_cells(group),
    ]


def _notes(results: ExperimentResults, more: str) -> tuple[str, str]:
    sets = next(iter(results.runs.values()))[0].info["sets"]
    twins = sets["twins"]
    return (
        f"Accuracy: last epoch, all {sets['meshes']['test']} test meshes. {ABOUT_SPREAD} The CSV file has the "
        "intervals, and the parts over draws, which is the paper's ±, and over seeds. "
        f"Twins: {twins['test_meshes']} test meshes have exactly the triangles of a "
        f"training mesh ({twins['across_split']} groups; {twins['across_classes']} are in two classes). Training: the "
        f"running value of the last epoch, with dropout. {more} Meshes left out because they cannot be used: "
        f"{sets['skipped']}.",
        measured_on(results.runs),
    )


def _table1_runs(results: ExperimentResults) -> dict[str, list[Run]]:
    """Return the runs of the paper's own networks, without later ones."""
    return {name: group for name, group in results.main_runs.items() if group[0].settings["model"] not in LATER}


def table1(results: ExperimentResults) -> Table:
    """The paper's Table 1, with our accuracy beside the paper's."""
    rows: list[list[Cell]] = []
    for name, group in _table1_runs(results).items():
        settings, particles = group[0].settings, group[0].info["sets"]["particles"]
        graph = settings["model"] == "graph"
        size = f"{particles} × (3 + {settings['neighbours']})" if graph else f"{particles} × 3"
        rows.append(
            [
                ("variant", "Model", name, results.title(name)),
                ("particles", "Instance size|Size", particles, size),
                ("width", "", settings["width"]),
                *results.paper_cells(results.role(name).claim, "Reported"),
                *_cells(results, name),
                ("in_range_from_epoch", "", _in_range_from(results, name)),
            ]
        )
    for model, size, representation, accuracy, source in () if results.own_data else QUOTED:
        cells = {"Model": f"{model} (quoted)", "Instance size": f"{size}, {representation}"}
        cells["Reported"] = f"{accuracy} % ({source})"
        rows.append([("", heading, text) for heading, text in cells.items()])
    classes = next(iter(results.runs.values()))[0].info["sets"]["classes"]
    caption = f"Classification of point clouds, {classes} classes: accuracy on the test meshes."
    reported = "Reported: without a source, by the paper. Quoted: by others on ModelNet40, not measured here."
    return Table.of(rows, caption, *_notes(results, "" if results.own_data else reported))


def _in_range_from(results: ExperimentResults, name: str) -> str:
    """Return the first epoch of each seed after which the test accuracy was at least the paper's less its spread.

    It is that of one draw of particles, and known after every few epochs. Data that are not the paper's have none.
    """
    claim = results.claims.get(results.role(name).claim)
    expected = [one.expect for one in (claim.judged_by if claim else []) if one.measure.variant == name]
    least = [expect.value - expect.spread for expect in expected if isinstance(expect, PaperValue)]
    runs = [run for run in results.runs[name] if run.info["sets"]["kind"] in ("whole", "part")]
    curves = [run.metrics for run in runs if least and "test_accuracy" in run.metrics]
    reached = [curve.loc[curve["test_accuracy"] >= least[0], "epoch"] for curve in curves]
    return ", ".join(str(epochs.min()) for epochs in reached if len(epochs))


def ablations(results: ExperimentResults) -> Table:
    """Changes to the models of Table 1, and what they do to accuracy."""
    changed = {name: results.role(name).changes for name in results.changed_runs}
    bases = set(changed.values()) or set(list(results.runs)[:1])
    # Each network, then what changes it.
    order = list(dict.fromkeys(changed.get(name, name) for name in results.runs))
    names = [name for name in results.runs if name in changed or name in bases]
    rows: list[list[Cell]] = []
    for name in sorted(names, key=lambda name: (order.index(changed.get(name, name)), name in changed)):
        particles, width = results.runs[name][0].info["sets"]["particles"], results.runs[name][0].settings["width"]
        title = results.title(name) if name in changed else f"{results.title(name)}, as in Table 1"
        change = results.measures.get(name, "test_accuracy", less=changed[name]) if name in changed else None
        difference = change.with_interval if change else "—"
        rows.append(
            [
                ("variant", "Variant", name, f"{particles} particles, {title}"),
                ("particles", "", particles),
                ("width", "Channels|Ch.", width),
                ("change" * bool(change), "Change (points)|Change", change, difference),
                *results.paper_cells(results.role(name).claim if name in changed else ""),
                *_cells(results, name),
            ]
        )
    compared = "after the last epoch of the shorter training if the longer one was tested then, else after that of each"
    notes = _notes(results, f"Change: against the network of Table 1 above it, {compared}, with its 95 % interval.")
    return Table.of(rows, "Ablations of the set layers for point clouds (appendix B.3).", *notes)


def later_networks(results: ExperimentResults) -> Table:
    """Networks that are younger than the paper, in the same loop, beside set layers on clouds of the same size."""
    groups = {name: group for name, group in results.main_runs.items() if group[0].settings["model"] in BESIDE}
    particles = {name: group[0].info["sets"]["particles"] for name, group in groups.items()}
    sizes = {particles[name] for name, group in groups.items() if group[0].settings["model"] in LATER}
    rows: list[list[Cell]] = []
    for name in sorted((name for name in groups if particles[name] in sizes), key=particles.__getitem__):
        run, gain = groups[name][0], results.measures.get(name, "best_epoch_gain")
        paper = [cell[2] for cell in results.paper_cells(results.role(name).claim)]
        reported = [REPORTED.get((run.settings["model"], particles[name]), said) for said in paper]
        best = results.measures[name, "test_accuracy"].value + gain.value if gain else None
        seconds = min(float(np.median(one.info["epoch_seconds"])) for one in groups[name])
        rows.append(
            [
                ("variant", "Model", name, results.title(name)),
                ("particles", "Points", particles[name]),
                *(("reported", "Reported", said) for said in reported),
                *((key, "" if key in UNSHOWN else heading, *value) for key, heading, *value in _cells(results, name)),
                ("best_epoch", "Best test epoch (%)|Best", best, f"{100 * best:.1f} (+{gain.text})" if gain else "—"),
                ("best_epoch_gain", "", gain and gain.value),
                ("seconds_per_epoch", "Seconds per epoch|s/epoch", seconds, f"{seconds:.3g}"),
            ]
        )
    notes = _notes(
        results,
        "Reported: by the authors of each network, with their own protocol; here all networks learn from the same "
        "clouds in the same loop, without augmentation, each with its authors' optimizer. Best test epoch: what "
        "choosing the epoch by the test meshes would report, and how much more that is; nothing here is chosen so. "
        "Seconds per epoch: the median of the fastest run, because machines differ; with the test, if there is one "
        "after every epoch.",
    )
    return Table.of(rows, "Later networks, measured here: accuracy on the test meshes.", *notes)


def _panel(canvas: Canvas, left: float, top: float, side: float, limit: float) -> Axes:
    """Return bare square axes; places and side in inches from the upper left corner, `limit` in units of the cloud."""
    width, height = canvas.get_size_inches()
    axes = canvas.add_axes((left / width, 1 - (top + side) / height, side / width, side / height))
    axes.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal")
    axes.set_axis_off()
    return axes


def _project(points: np.ndarray, azimuth: float, elevation: float = 22) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where points appear, right and up, and how near they are, to an eye far away in a direction (degrees)."""
    a, e = np.radians(azimuth), np.radians(elevation)
    right = (-np.sin(a), np.cos(a), 0)
    up = (-np.cos(a) * np.sin(e), -np.sin(a) * np.sin(e), np.cos(e))
    towards = (np.cos(a) * np.cos(e), np.sin(a) * np.cos(e), np.sin(e))
    return points @ right, points @ up, points @ towards


def _draw_cloud(axes: Axes, points: np.ndarray, azimuth: float, size: float, limit: float = 1.0) -> None:
    """Draw points, coloured by height from -limit to limit; the nearest come last."""
    right, up, near = _project(points, azimuth)
    order = np.argsort(near)
    style = {"s": size, "c": points[order, 2], "cmap": HEIGHT, "linewidths": 0, "rasterized": True}
    axes.scatter(right[order], up[order], vmin=-limit, vmax=limit, **style)


def _draw_cube(axes: Axes, limit: float, azimuth: float) -> None:
    """Draw the box from -limit to limit, with the names of the axes at the edges of its lowest corner."""
    corners = limit * np.array(list(product((-1, 1), repeat=3)))
    for one, other in combinations(corners, 2):
        if (one != other).sum() == 1:
            right, up, _ = _project(np.stack([one, other]), azimuth)
            axes.plot(right, up, color="0.75", linewidth=0.4, zorder=0)
    corner = limit * np.array([np.sign(np.cos(np.radians(azimuth))), np.sign(np.sin(np.radians(azimuth))), -1])
    for number, name in enumerate("xyz"):
        middle = corner.copy()
        middle[number] = 0
        if name == "z":
            middle[0] *= -1
        right, up, _ = _project(1.22 * middle, azimuth)
        axes.text(right, up, name, fontsize=5, color="0.4", ha="center", va="center")


def figure2(results: ExperimentResults) -> Figure:
    """Two clouds for each of eight classes, and beneath each its projections onto the xy, zy and xz planes."""
    store = read_json(results.store / "store.json")
    meshes = read_parquet(results.store / "meshes.parquet", columns=["class", "split"])
    pool = Pool(results.store)
    all_points = pool.open()
    names = [name for name in SHOW if name in store["classes"]]
    names = (names + [name for name in store["classes"] if name not in names])[: len(SHOW)]
    view, gap, head = 1.02, 0.14, 0.22
    small = view / 3
    canvas = Canvas(figsize=((view + gap) * len(names) + gap, head + 2 * (view + small + 0.3) + 0.1))
    width, height = canvas.get_size_inches()
    for column, name in enumerate(names):
        left = gap + column * (view + gap)
        canvas.text((left + view / 2) / width, 1 - 0.06 / height, name.replace("_", " "), ha="center", va="top")
        chosen = meshes.index[(meshes["class"] == name) & (meshes["split"] == "train")][:2]
        for row, mesh in enumerate(chosen):
            top = head + row * (view + small + 0.3)
            points = np.array(pool.of(mesh, all_points)[:1000])
            points -= (points.min(axis=0) + points.max(axis=0)) / 2
            points /= np.linalg.norm(points, axis=1).max()
            _draw_cloud(_panel(canvas, left, top, view, 1.02), points, -55, 1.1)
            for number, (label, across, upward) in enumerate((("xy", 0, 1), ("zy", 2, 1), ("xz", 0, 2))):
                axes = _panel(canvas, left + number * small, top + view, small, 1.08)
                axes.scatter(points[:, across], points[:, upward], s=0.18, color="0.35", linewidths=0, rasterized=True)
                axes.text(0, -1.15, label, ha="center", va="top", fontsize=5.5, color="0.35")
    _name_data_at_foot(canvas, results)
    return Figure(canvas, f"Point clouds, two of each class, from one side and in projections: {', '.join(names)}.")


def _name_data_at_foot(canvas: Canvas, results: ExperimentResults, analysed: pd.DataFrame | None = None) -> None:
    """Write what a figure was measured on: all runs, or those of an analysis."""
    text = measured_on(results.runs)
    if analysed is not None:
        shown = set(zip(analysed["variant"], analysed["seed"], strict=True))
        runs = {name: [run for run in group if (name, run.seed) in shown] for name, group in results.runs.items()}
        text = f"Network: {', '.join(sorted({name for name, _ in shown}))}. {measured_on(runs)}"
    canvas.text(0.01, 0.04 / canvas.get_size_inches()[1], text, fontsize=5.5, color="0.35", va="bottom")


def figure3(results: ExperimentResults) -> Figure:
    """Clouds that maximise the mean activation of units of the first and the second layer, each from two sides.

    Clouds that maximise the largest activation are measured, too: all but one of their particles stay where they began.
    """
    table = results.analysis("activations")
    objective = "mean" if "mean" in set(table["objective"]) else table["objective"].iloc[0]
    blocks = list(table[table["objective"] == objective].groupby("layer", sort=False))
    columns, side, head, foot = 8, 0.95, 0.24, 0.62
    # Where no unit became active, there is only a line of text.
    heights = [head + (2 * side + 0.2) * part["activated"].any() for _, part in blocks]
    canvas = Canvas(figsize=(side * columns + 0.1, sum(heights) + foot))
    width, height = canvas.get_size_inches()
    counts = []
    for number, (layer, part) in enumerate(blocks):
        top = sum(heights[:number])
        active = part[part["activated"]].nlargest(columns, "activation").sort_values("unit")
        text = f"Layer {layer}: {part['activated'].sum()} of {len(part)} units activated"
        counts.append(text)
        text += f"; the {len(active)} most active" * bool(len(active))
        canvas.text(0.01, 1 - (top + 0.05) / height, text, va="top")
        for column, (unit, cloud) in enumerate(zip(active["unit"], active["cloud"], strict=True)):
            points = np.stack(cloud).reshape(-1, 3)
            points = points - np.median(points, axis=0)
            extent = np.abs(points).max(axis=1)
            limit = 1.2 * float(np.quantile(extent, 0.98))  # the few particles far out hardly count for a mean
            reach = f"±{limit:.2g}" if limit > POINT else "one point"
            limit = limit if limit > POINT else 1.0
            points = points[extent <= limit]
            for view, azimuth in enumerate((-55, 25)):
                place = (0.05 + column * side, top + head + view * side, side)
                axes = _panel(canvas, *place, 1.7 * limit)
                _draw_cube(axes, limit, azimuth)
                _draw_cloud(axes, points, azimuth, 1.2, limit)
            under = 1 - (top + head + 2 * side + 0.02) / height
            middle = (0.05 + (column + 0.5) * side) / width
            canvas.text(middle, under, f"unit {unit}, {reach}", ha="center", va="top", fontsize=6)
    bar = canvas.add_axes((0.06, 0.36 / height, 0.2, 0.07 / height))
    bar.imshow(np.linspace(0, 1, 256)[None], aspect="auto", cmap=HEIGHT, extent=(-1, 1, 0, 1))
    bar.set(yticks=[], xticks=(-1, 0, 1), xticklabels=("bottom", "0", "top"))
    bar.tick_params(labelsize=6, length=2, pad=1)
    bar.grid(visible=False)
    text = "Colour: height z in the box. Each box is centred on its cloud; the number under it is its reach,\n"
    text += "in coordinates as the network normalises them. From two sides, less the outermost 2 % of particles."
    canvas.text(0.3, 0.38 / height, text, fontsize=6, va="center")
    _name_data_at_foot(canvas, results, table)
    return Figure(canvas, f"Clouds of particles in boxes. {'; '.join(counts)}.")


LOOKS = ((GREEN, "o", "-"), (ORANGE, "s", "--"), (BLACK, "^", "-."), (SKY, "P", ":"))
"""Of set layers, which differ in the number of particles."""


def _looks(results: ExperimentResults) -> dict[str, dict[str, str]]:
    """Return how the networks of Table 1 are drawn."""
    found, layers = {}, cycle(LOOKS)
    for name, group in _table1_runs(results).items():
        model = group[0].settings["model"]
        look = next(layers) if model == "set-layer" else (MODELS[model], MARKERS[model], "-")
        found[name] = dict(zip(("color", "marker", "linestyle"), look, strict=True))
    return found


def robustness(results: ExperimentResults) -> Figure:
    """Accuracy of trained networks by number of test particles, rotation about z, and scale."""
    titles = {"particles": "test particles", "rotation_degrees": "rotation about z (degrees)", "scale": "scale"}
    canvas = Canvas(figsize=(6.8, 2.6), layout="constrained")
    axes = canvas.subplots(1, 3, sharey=True)
    drawn, particles = {}, set()
    for (name, look), (axis, part) in product(_looks(results).items(), zip(axes, titles, strict=True)):
        if numbers := results.measures.select(variant=name, measure="changed_accuracy", part=part):
            drawn[name] = [run for run in results.runs[name] if len(run.analysis("robustness"))]
            label = f"{results.role(name).title}, trained with {drawn[name][0].info['sets']['particles']}"
            style = {"markersize": 3, "linewidth": 1, "elinewidth": 0.8, "capsize": 2, "label": label}
            places = [one.at for one in numbers]
            draw_intervals(axis, places, numbers, 100, **style, **look)
            particles |= set(places) if part == "particles" else set()
        axis.set(xlabel=titles[part], ylim=(0, 100))
    if not drawn:
        raise NothingToShowError("the figure `robustness` needs the analysis of that name")
    axes[0].set_xscale("log")
    axes[0].set_xticks(sorted(particles), [f"{count:g}" for count in sorted(particles)], fontsize=6, rotation=45)
    axes[0].minorticks_off()
    axes[1].set_xticks(range(0, 181, 45))
    axes[2].set_xscale("log", base=2)
    axes[2].set_xticks([0.5, 1, 2], ["1/2", "1", "2"])
    axes[2].minorticks_off()
    axes[0].set_ylabel("test accuracy (%)")
    canvas.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=6.5)
    name_data(canvas, drawn, "Bars: 95 % intervals; none while a network still improves.")
    # Not those of Table 1, which may be of more seeds.
    turned = results.measures.select(measure="changed_accuracy", part="rotation_degrees")
    ends = [f"{one.variant} {one.text} %" for one in turned if one.variant in drawn and one.at == 0]
    return Figure(canvas, f"Accuracy on changed test clouds. Unchanged: {', '.join(ends) or 'not measured'}.")


def winners(results: ExperimentResults) -> Figure:
    """Clouds in grey, with the particles in colour that decide what the network says of them."""
    table = results.analysis("winners")
    columns, side, head, gap = min(4, len(table)), 1.5, 0.42, 0.08
    lines = -(-len(table) // columns)
    canvas = Canvas(figsize=((side + gap) * columns + gap, (side + head) * lines + 0.3))
    width, height = canvas.get_size_inches()
    deciding = []
    for number, row in enumerate(table.to_dict("records")):
        cloud, wins = row["cloud"].reshape(-1, 3), row["wins"]
        left, top = gap + number % columns * (side + gap), number // columns * (side + head)
        limit = 1.03 * np.linalg.norm(cloud, axis=1).max()
        axes = _panel(canvas, left, top + head, side, limit)
        right, up, near = _project(cloud, -55)
        few = np.flatnonzero(wins > 0)
        few = few[np.argsort(near[few])]
        style = {"linewidths": 0, "rasterized": True, "clip_on": False}
        axes.scatter(right, up, s=1.6, color="0.78", **style)
        axes.scatter(right[few], up[few], s=3 + 1.5 * wins[few], c=wins[few], cmap="plasma_r", vmin=0, vmax=8, **style)
        deciding.append(len(few) / len(wins))
        name, answer = (row[key].replace("_", " ") for key in ("class", "predicted"))
        text = f"{name if name == answer else f'{name} (answer: {answer})'}\n{len(few)} of {len(wins)} points decide"
        canvas.text((left + side / 2) / width, 1 - (top + 0.06) / height, text, ha="center", va="top", fontsize=7)
    _name_data_at_foot(canvas, results, table)
    shares = ", ".join(f"{name} {share:.0%}" for name, share in zip(table["class"], deciding, strict=True))
    return Figure(canvas, f"Points that win a channel of the pooled maximum, among all points of a cloud: {shares}.")
