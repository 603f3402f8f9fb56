"""Pages made of result files: the report of a scale, the block of README.md, a page for each published experiment."""

from pathlib import Path
from typing import Any

import pandas as pd
from PIL import Image

from equiset.errors import EquisetError
from equiset.experiments import EXPERIMENTS, experiment_module
from equiset.files import atomic_path
from equiset.results.claims_table import headline
from equiset.results.measures import Measures
from equiset.results.report import Chapter, collect, render
from equiset.results.runs import Run, measured_on, read_runs
from equiset.results.tables import Cell, Table

BEGIN = "<!-- published results: written by `make reference`, do not edit -->"
END = "<!-- end of published results -->"
OPEN, FAILED = "not tested", "not reproduced"
SHORT = {"generated sets": "generated", "reproduced": "✓&nbsp;reproduced", FAILED: "✗&nbsp;not reproduced"}


def write_report(folder: Path, template: Path, runs: list[Path], shown: dict[str, list[str]], output: Path) -> None:
    """Write the page of all results in the folder of a scale; `shown` has the tables and figures of each experiment."""
    chapters = [_chapter(name, shown[name]) for name in EXPERIMENTS]
    content = collect(folder, chapters, [Run(run) for run in runs])
    with atomic_path(output) as partial:
        partial.write_text(render(template, content), encoding="utf-8")


def _chapter(experiment: str, shown: list[str]) -> Chapter:
    settings = experiment_module(experiment, "settings").ExperimentSettings
    tables, figures = ([name for name in names if name in shown] for names in (settings.tables, settings.figures))
    return Chapter(experiment, settings.title, experiment_module(experiment, "about"), tables, figures)


def update_readme(readme: Path, reference: Path) -> None:
    """Write everything between the two markers of README.md anew."""
    text = with_results(readme.read_text(encoding="utf-8"), reference)
    with atomic_path(readme) as partial:
        partial.write_text(text, encoding="utf-8")


def with_results(page: str, reference: Path) -> str:
    """Return the page with everything between its markers replaced."""
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise EquisetError(f"README.md: expected the lines {BEGIN!r} and {END!r}, once and in this order")
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n\n{results_block(reference)}\n\n{END}{after}"


def results_block(reference: Path) -> str:
    """Return what was found: in two sentences, as a picture, the judged claims, the main table and figure."""
    claims = pd.read_csv(reference / "claims" / "claims.csv", keep_default_na=False)
    untested = claims.loc[claims["verdict"] == OPEN, "claim"]
    judged = [row for row in claims.itertuples() if row.verdict != OPEN]
    verdicts = [Table.of([_verdict_cells(row) for row in judged]).markdown(padded=False)] if judged else []
    changed = "†: judged by a rule that was changed after a look at results. " * any(row.changed for row in judged)
    parts = [
        headline(claims),
        _image(reference / "claims" / "claims.png", "The paper's numbers beside ours"),
        *verdicts,
        f"{changed}Not tested: {', '.join(untested) or 'none'}. [All claims]({reference}/claims/claims.md).",
    ]
    if (table1 := reference / "point_clouds" / "tables" / "table1.csv").exists():
        parts += ["**Table 1, accuracy on ModelNet40 (%)**", _accuracy(table1, "Points", "particles")]
    if (figure1 := reference / "mnist_sums" / "figures" / "figure1.png").exists():
        parts += ["**Figure 1, sums of MNIST digits**", _image(figure1, "Accuracy by epoch of the four models")]
    if (faces := reference / "outlier_faces" / "tables" / "accuracy.csv").exists():
        title = "**Section 4.1, test sets in which the outlier among 16 faces is found (%)**"
        parts += [title, _accuracy(faces, "Training sets", "training_sets")]
    return "\n\n".join(parts)


def _verdict_cells(claim: Any) -> list[Cell]:
    """Return a judged claim in few words, with its first number, and if it failed how it did.

    A dagger stands where a rule was changed later.
    """
    counts = {"epoch": claim.epochs, "seed": claim.seeds}
    trained = "".join(f", {count} {unit}{'s' * (str(count) != '1')}" for unit, count in counts.items() if count)
    failed = f": {claim.reason.partition('; ')[0]}" * (claim.verdict == FAILED)
    return [
        ("", "Claim", f"{claim.claim} {claim.statement.removesuffix('.')}"),
        ("", "Paper", claim.paper),
        ("", "Ours", claim.ours.partition("; ")[0]),
        ("", "On", SHORT.get(claim.data, claim.data) + trained),
        ("", "Verdict", SHORT.get(claim.verdict, claim.verdict) + "†" * bool(claim.changed) + failed),
    ]


def _accuracy(path: Path, heading: str, column: str) -> str:
    """Return a published table with few of its columns, one under a new heading, and the test accuracy."""
    measures = Measures.read(path.parents[1] / "measures.parquet")
    rows: list[list[Cell]] = []
    for row in pd.read_csv(path).to_dict("records"):
        number = measures[row["variant"], "test_accuracy"]
        rows.append(
            [
                ("", "Network", row["variant"]),
                ("", heading, row[column]),
                ("", "Paper", row["paper"]),
                ("", "Ours", number),
                ("", "Epochs", row["epochs"]),
                ("", "Seeds", row["seeds"]),
                ("", "On", number.data),
            ]
        )
    return Table.of(rows).markdown(padded=False)


def _image(path: Path, title: str) -> str:
    """Return a picture at a width that leaves it readable beside text, with its alternative text."""
    with Image.open(path) as picture:
        description = picture.info.get("Description", title).replace('"', "")
    return f'<img src="{path.as_posix()}" width="620" alt="{description}">'


def write_experiment_page(title: str, runs: list[Path], tables: list[Path], figures: list[Path], output: Path) -> None:
    """Write what a visitor of an experiment's published folder reads: where it comes from, its tables and figures."""
    groups = read_runs(runs)
    published = [run for group in groups.values() for run in group]
    first = published[0].info
    hours = sum(sum(run.info["epoch_seconds"]) for run in published) / 3600
    commits = sorted({run.info["git_commit"][:12] for run in published})
    places = [(run.info["machine"], run.info["device"]) for run in published]
    machines = sorted({f"{machine['processor']}, {machine['cores']} cores, {device}" for machine, device in places})
    parts = [
        f"# {title}: published runs",
        measured_on(groups),
        f"Made by code {', '.join(commits)} with torch {first['versions']['torch']} on {' and '.join(machines)}, "
        f"{first['threads']} thread a run, {hours:.1f} hours of training by the clock, pauses included. "
        "To make them again, with the settings of `workflow/reference.yaml`: `make reference`. To judge them again, "
        "without training: `make judge`.",
        "`runs/` holds the settings, data digests, versions and times of every run, its metrics by epoch, its "
        "predictions and its weights; `measures.parquet` every number with its interval.",
    ]
    parts += [path.read_text(encoding="utf-8").strip() for path in tables]
    parts += [f"![{path.stem}](figures/{path.name})" for path in figures]
    with atomic_path(output) as partial:
        partial.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
