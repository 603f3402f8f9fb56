"""Tables and figures of the point clouds."""

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from equiset.data.pool import open_pool
from equiset.files import read_json
from equiset.parquet import read_parquet
from equiset.results.figures import Canvas, Figure, name_data
from equiset.results.palette import MODELS, shade
from equiset.results.runs import Material, Run, what_was_measured
from equiset.results.tables import Table, spread

# Table 1: what the paper reports for its own models, in its order.
PAPER = {
    "set-5000": ("set layer + transformation", "5000 × 3", 90, 0.3),
    "set-1000": ("set layer", "1000 × 3", 87, 1),
    "pooling-1000": ("set pooling only", "1000 × 3", 83, 1),
    "set-100": ("set layer", "100 × 3", 82, 2),
    "graph-1000": ("k-NN graph convolution", "1000 × (3 + 8)", 58, 2),
}
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
CHANGES = {
    "set-1000-sum": ("sum form, eq. 2", "within 5 points"),
    "set-1000-mean": ("mean form", "within 5 points"),
    "set-1000-max": ("maximum form, eq. 4", "within 5 points"),
    "set-1000-narrow": ("fewer channels", "within 5 points"),
    "set-1000-dropout": ("dropout on the set layers", "worse"),
    "set-1000-official": ("recipe of the authors' code", "—"),
    "set-5000-official": ("recipe of the authors' code", "—"),
    "set-5000-full-turns": ("turned by any angle", "—"),
}
# The set layers have one colour, the more particles the darker.
COLOURS = {name: shade(MODELS["set-layer"], share) for name, share in (("set-5000", 0.5), ("set-100", -0.4))}
COLOURS |= {"set-1000": MODELS["set-layer"], "pooling-1000": MODELS["set-pooling"], "graph-1000": MODELS["graph"]}
MAXIMISED = {"max": "largest activation of a particle", "mean": "mean activation (outermost 2 % not drawn)"}
# Classes that a reader recognises in a small picture, best first.
SHOW = ("airplane", "chair", "guitar", "lamp", "toilet", "person", "car", "bottle")


def accuracies(run: Run) -> list[float]:
    """Return the accuracy on all test meshes for each draw of their particles."""
    hits = run.predictions["predicted"] == run.predictions["label"]
    return hits.groupby(run.predictions["draw"]).mean().tolist()


def _measured(group: list[Run]) -> dict[str, float]:
    draws = [accuracies(run) for run in group]
    return {
        "accuracy_mean": float(np.mean(draws)),
        "accuracy_sd_over_draws": float(np.mean([spread(values) for values in draws])),
        "accuracy_sd_over_seeds": spread([float(np.mean(values)) for values in draws]),
        "train_accuracy_last": float(np.mean([run.metrics["train_accuracy"].iloc[-1] for run in group])),
        "parameters": group[0].info["parameters"],
        "epochs": group[0].settings["training"]["epochs"],
        "seeds": len(group),
        "test_meshes": group[0].info["sets"]["meshes"]["test"],
        "draws": group[0].info["sets"]["draws"],
        "data_kind": group[0].info["sets"]["kind"],
        "data_share": group[0].info["sets"]["share"],
        "scale": group[0].info["spec"]["scale"],
    }


def _plus_minus(mean: float, sd: float) -> str:
    return f"{100 * mean:.1f}" + ("" if np.isnan(sd) else f" ± {100 * sd:.1f}")


def table1(material: Material) -> Table:
    """The paper's Table 1, with our accuracy beside the paper's."""
    runs = {name: material.runs[name] for name in PAPER if name in material.runs}
    numbers, shown = [], []
    for name, group in runs.items():
        model, paper_size, paper, paper_sd = PAPER[name]
        measured, settings = _measured(group), group[0].settings
        particles = group[0].info["sets"]["particles"]
        size = f"{particles} × (3 + {settings['neighbours']})" if settings["model"] == "graph" else f"{particles} × 3"
        numbers.append({"variant": name, "particles": particles, **measured, "paper_percent": paper})
        numbers[-1]["paper_sd_percent"] = paper_sd
        shown.append(
            {
                "Model": model,
                "Instance size": size,
                "Representation": "directed graph" if settings["model"] == "graph" else "point cloud",
                "Accuracy (%)": _plus_minus(measured["accuracy_mean"], measured["accuracy_sd_over_draws"]),
                "Over seeds (±)": _points(measured["accuracy_sd_over_seeds"]),
                "Paper (%)": f"{paper} ± {paper_sd:g} ({paper_size})",
                "Parameters": f"{measured['parameters']:,}",
                "Epochs": str(measured["epochs"]),
            }
        )
    for model, size, representation, accuracy, source in QUOTED:
        row = {"Model": f"{model} (quoted)", "Instance size": size, "Representation": representation}
        row |= dict.fromkeys(("Accuracy (%)", "Over seeds (±)", "Parameters", "Epochs"), "—")
        shown.append({**row, "Paper (%)": f"{accuracy} ({source})"})
    test = _facts(material, "test")
    return Table(
        pd.DataFrame(numbers),
        pd.DataFrame(shown, columns=list(shown[0])),
        f"Classification of point clouds, {test['classes']} classes: accuracy on the test meshes.",
        (
            f"Accuracy: last epoch, all {test['meshes']} test meshes; ± is the standard deviation over draws of "
            "test particles, as in the paper. Over seeds: the same over trainings. Quoted: reported by others on "
            "ModelNet40, not measured here. " + _left_out(material),
            f"Measured on {what_was_measured(material.runs)}",
        ),
    )


def _points(sd: float) -> str:
    return "—" if np.isnan(sd) else f"{100 * sd:.1f}"


def _facts(material: Material, split: str) -> dict[str, int]:
    sets = next(iter(material.runs.values()))[0].info["sets"]
    return {"classes": sets["classes"], "meshes": sets["meshes"][split]}


def _left_out(material: Material) -> str:
    """Say how many meshes could not be used."""
    skipped = read_json(material.store / "store.json")["skipped"]
    names = ", ".join(entry["file"] for entry in skipped[:5]) + (", ..." if len(skipped) > 5 else "")
    return f"Meshes left out because they cannot be used: {len(skipped)}{f' ({names})' if skipped else ''}."


def ablations(material: Material) -> Table:
    """Changes to the models of Table 1, and what they do to accuracy."""
    numbers, shown = [], []
    for name, group in material.runs.items():
        # Of Table 1, only the networks that are changed here, and the one that everything is compared with.
        if name in PAPER and name != "set-1000" and not any(other.startswith(f"{name}-") for other in material.runs):
            continue
        base = next((base for base in ("set-1000", "set-5000") if name.startswith(base)), None)
        reference = material.runs.get(base)
        measured, settings = _measured(group), group[0].settings
        change = measured["accuracy_mean"] - _measured(reference)["accuracy_mean"] if reference else float("nan")
        text, expected = CHANGES.get(name, ("as in Table 1" if name == base else name, "—"))
        numbers.append({"variant": name, "form": settings["form"], "width": settings["width"], **measured})
        numbers[-1]["change"] = change
        shown.append(
            {
                "Variant": f"{group[0].info['sets']['particles']} particles, {text}",
                "Channels": settings["width"],
                "Accuracy (%)": _plus_minus(measured["accuracy_mean"], measured["accuracy_sd_over_draws"]),
                "Over seeds (±)": _points(measured["accuracy_sd_over_seeds"]),
                "Change (points)": "—" if name == base or np.isnan(change) else f"{100 * change:+.1f}",
                "Paper": expected,
                "Training (%)": f"{100 * measured['train_accuracy_last']:.1f}",
                "Parameters": f"{measured['parameters']:,}",
            }
        )
    columns = ["Variant", "Channels", "Accuracy (%)", "Over seeds (±)", "Change (points)", "Paper", "Training (%)"]
    return Table(
        pd.DataFrame(numbers),
        pd.DataFrame(shown, columns=[*columns, "Parameters"]),
        "Ablations of the set layers for point clouds (appendix B.3).",
        (
            "Change: against the same network as in Table 1. Training: last epoch, with dropout acting. "
            + _left_out(material),
            f"Measured on {what_was_measured(material.runs)}",
        ),
    )


def _panel(canvas: Canvas, left: float, top: float, side: float, limit: float) -> Axes:
    """Return bare square axes; places and side in inches from the upper left corner, `limit` in units of the cloud."""
    width, height = canvas.get_size_inches()
    axes = canvas.add_axes((left / width, 1 - (top + side) / height, side / width, side / height))
    axes.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal")
    axes.set_axis_off()
    return axes


def _seen(points: np.ndarray, azimuth: float, elevation: float = 22) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where points appear, right and up, and how near they are, to an eye far away in a direction (degrees)."""
    a, e = np.radians(azimuth), np.radians(elevation)
    right = (-np.sin(a), np.cos(a), 0)
    up = (-np.cos(a) * np.sin(e), -np.sin(a) * np.sin(e), np.cos(e))
    towards = (np.cos(a) * np.cos(e), np.sin(a) * np.cos(e), np.sin(e))
    return points @ right, points @ up, points @ towards


def _draw_cloud(axes: Axes, points: np.ndarray, azimuth: float, size: float) -> None:
    right, up, near = _seen(points, azimuth)
    order = np.argsort(near)  # the nearest are drawn last, and darkest
    style = {"s": size, "c": -near[order], "cmap": "viridis", "linewidths": 0, "rasterized": True}
    axes.scatter(right[order], up[order], **style)


def _draw_cube(axes: Axes, limit: float, azimuth: float) -> None:
    corners = limit * np.array(list(product((-1, 1), repeat=3)))
    for one, other in combinations(corners, 2):
        if (one != other).sum() == 1:
            right, up, _ = _seen(np.stack([one, other]), azimuth)
            axes.plot(right, up, color="0.8", linewidth=0.4, zorder=0)


def figure2(material: Material) -> Figure:
    """Two clouds for each of eight classes, and beneath each its projections onto the xy, zy and xz planes."""
    store = read_json(material.store / "store.json")
    meshes = read_parquet(material.store / "meshes.parquet", columns=["class", "split"])
    pool = open_pool(material.store)
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
            points = np.array(pool[mesh, :1000])
            points -= (points.min(axis=0) + points.max(axis=0)) / 2
            points /= np.linalg.norm(points, axis=1).max()
            _draw_cloud(_panel(canvas, left, top, view, 1.02), points, -55, 1.1)
            for number, (label, across, upward) in enumerate((("xy", 0, 1), ("zy", 2, 1), ("xz", 0, 2))):
                axes = _panel(canvas, left + number * small, top + view, small, 1.08)
                axes.scatter(points[:, across], points[:, upward], s=0.18, color="0.35", linewidths=0, rasterized=True)
                axes.text(0, -1.15, label, ha="center", va="top", fontsize=5.5, color="0.35")
    _name_data_at_foot(canvas, material)
    return Figure(canvas)


def _name_data_at_foot(canvas: Canvas, material: Material) -> None:
    text = f"Measured on {what_was_measured(material.runs)}"
    canvas.text(0.01, 0.04 / canvas.get_size_inches()[1], text, fontsize=5.5, color="0.35", va="bottom")


def figure3(material: Material) -> Figure:
    """Clouds that maximise units of the first and the second set layer, each from two sides, by what is maximised."""
    table = material.analysis("activations")
    columns, blocks = 8, list(table.groupby(["objective", "layer"], sort=False))
    side, head = 0.95, 0.24
    # Where no unit became active, only that is said.
    heights = [head + 2 * side * part["activated"].any() for _, part in blocks]
    canvas = Canvas(figsize=(side * columns + 0.1, sum(heights) + 0.2))
    for number, ((objective, layer), part) in enumerate(blocks):
        top = sum(heights[:number])
        active = part[part["activated"]].nlargest(columns, "activation").sort_values("unit")
        text = f"Layer {layer}, {MAXIMISED[objective]}: {part['activated'].sum()} of {len(part)} units activated"
        text += f", {len(active)} shown" if len(active) else ""
        canvas.text(0.01, 1 - (top + 0.05) / canvas.get_size_inches()[1], text, va="top")
        for column, cloud in enumerate(active["cloud"]):
            points = np.stack(cloud).reshape(-1, 3)
            extent = np.abs(points).max(axis=1)
            # Of the mean, the few particles that lie far out are no part; of the maximum they are what matters.
            limit = 1.2 * float(np.quantile(extent, 0.98)) if objective == "mean" else float(extent.max())
            points = points[extent <= limit]
            for view, azimuth in enumerate((-55, 25)):
                place = (0.05 + column * side, top + head + view * side, side)
                axes = _panel(canvas, *place, 1.6 * limit)
                _draw_cube(axes, limit, azimuth)
                _draw_cloud(axes, points, azimuth, 1.0)
    _name_data_at_foot(canvas, material)
    return Figure(canvas)


def robustness(material: Material) -> Figure:
    """Accuracy of trained networks by number of test particles, rotation about z, and scale."""
    table = material.analysis("robustness")
    titles = {"particles": "test particles", "rotation_degrees": "rotation about z (degrees)", "scale": "scale"}
    canvas = Canvas(figsize=(6.8, 2.6), layout="constrained")
    axes = canvas.subplots(1, 3, sharey=True)
    variants: Sequence[str] = [name for name in PAPER if name in set(table["variant"])]
    for axis, (changed, title) in zip(axes, titles.items(), strict=True):
        for name in variants:
            part = table[(table["variant"] == name) & (table["changed"] == changed)]
            curve = 100 * part.groupby("value")["accuracy"].agg(["mean", "min", "max"])
            particles = material.runs[name][0].info["sets"]["particles"]
            label = f"{PAPER[name][0]}, trained with {particles}"
            axis.plot(curve.index, curve["mean"], color=COLOURS[name], marker=".", label=label)
            axis.fill_between(curve.index, curve["min"], curve["max"], color=COLOURS[name], alpha=0.15, linewidth=0)
        axis.set(xlabel=title, ylim=(0, 100))
    axes[0].set_xscale("log")
    axes[0].xaxis.set_major_formatter("{x:g}")
    axes[0].xaxis.set_minor_formatter("")
    axes[1].set_xticks(range(0, 181, 45))
    axes[2].set_xscale("log", base=2)
    axes[2].set_xticks([0.5, 1, 2], ["1/2", "1", "2"])
    axes[2].minorticks_off()
    axes[0].set_ylabel("test accuracy (%)")
    canvas.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=6.5)
    name_data(canvas, what_was_measured({name: material.runs[name] for name in variants}))
    return Figure(canvas)


SHOWN = {
    "table1": table1,
    "ablations": ablations,
    "figure2": figure2,
    "figure3": figure3,
    "robustness": robustness,
}
