"""Pages made of result files: the report of a scale, the block of README.md, a page for each published experiment."""

from pathlib import Path
from typing import Any

import pandas as pd
from PIL import Image

from equiset.errors import EquisetError
from equiset.experiments import EXPERIMENTS, experiment_module
from equiset.files import atomic_path
from equiset.results.claims_table import LETTERS, headline
from equiset.results.judging import OPEN, Verdict
from equiset.results.measures import ABOUT_IMPROVING, IMPROVING, Measures
from equiset.results.report import Chapter, collect, render
from equiset.results.runs import Run, measured_on, read_runs
from equiset.results.tables import ABOUT_SPREAD, Cell, Table

BEGIN = "<!-- published results: written by `make reference`, do not edit -->"
END = "<!-- end of published results -->"
GROUPS: dict[str, tuple[str, tuple[Verdict, ...]]] = {
    "Reproduced": ("✓", ("holds",)),
    "Differs, and how": ("≠", ("differs",)),
    "Not finished": ("–", ("too short", "undecided", "control failed", "not run")),
    "Cannot be tested here": ("–", ("no data here",)),
}
"""What a newcomer wants to know of a claim -> its sign, and the verdicts that mean it."""


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
    """Return what was found: in a sentence, as a picture, the claims in groups, the main tables and figure."""
    claims = pd.read_csv(reference / "claims" / "claims.csv", keep_default_na=False)
    parts = [f"**{headline(claims)}**", _image(reference / "claims" / "claims.png", "The paper's numbers beside ours")]
    for title, (sign, verdicts) in GROUPS.items():
        rows = [_claim_cells(row, sign) for row in claims.itertuples() if row.verdict in verdicts]
        parts += [f"**{title}**", Table.of(rows).markdown(padded=False)] if rows else []
    notes = [f"Claims: {', '.join(f'{letter} {about}' for letter, about in LETTERS.items())}."]
    notes += ["† Judged by a rule that was changed after a look at results."] * bool((claims["changed"] != "").any())
    notes.append("Differences are those after equal numbers of epochs, unless a row says “unequal length”.")
    tables: list[str] = []
    if (table1 := reference / "point_clouds" / "tables" / "table1.csv").exists():
        more = {"In the paper's range from epoch": "in_range_from_epoch"}
        tables += _accuracy("Table 1, accuracy", table1, "Points", "particles", more)
        tables.append(
            "In the paper's range: on one draw of test particles, at least the paper's accuracy less its spread; "
            "— where it was not reached, or not measured by epoch."
        )
    if (faces := reference / "outlier_faces" / "tables" / "accuracy.csv").exists():
        title = "Section 4.1, test sets in which the outlier among 16 faces is found"
        tables += _accuracy(title, faces, "Training sets", "training_sets", {})
    if (sums := reference / "mnist_sums" / "tables" / "accuracy.csv").exists():
        tables += _memorised(sums)
    if IMPROVING in "".join([*parts, *tables]):
        notes.append(ABOUT_IMPROVING)
    notes += [ABOUT_SPREAD, f"[All claims, with every number and reason]({reference}/claims/claims.md)."]
    parts += [" ".join(notes), *tables]
    if (figure1 := reference / "mnist_sums" / "figures" / "figure1.png").exists():
        parts += ["**Figure 1, sums of MNIST digits**", _image(figure1, "Accuracy by epoch of the four models")]
    return "\n\n".join(parts)


def _claim_cells(claim: Any, sign: str) -> list[Cell]:
    """Return a claim in few words: of one that holds its first number, of the others all, and how or why."""
    numbers = [line for line in claim.ours.split("; ") if not line.endswith("—")]
    numbers = numbers[:1] if claim.verdict == "holds" else numbers
    lines = [*numbers, _trained_on(claim) if numbers else "", _why(claim)]
    mark = "†" * bool(claim.changed)
    return [
        ("", "Claim", f"{sign}&nbsp;{claim.claim}{mark} {claim.statement.removesuffix('.')}"),
        ("", "Paper", _unbroken(claim.paper)),
        ("", "Ours", "<br>".join(_unbroken(line) for line in lines if line)),
    ]


def _unbroken(text: str) -> str:
    """Return the text with numbers that stay on one line with their units."""
    return text.replace(" %", "&nbsp;%").replace(" ± ", "&nbsp;±&nbsp;")


def _why(claim: Any) -> str:
    """Return how a claim differs or why it is open, without what the row says anyway or the table of all claims has."""
    reasons = [] if claim.verdict == "holds" else claim.reason.split("; ")
    said = [reason for reason in reasons if not ("still improves" in reason or reason.endswith((" data", "one seed")))]
    said = [reason.partition(", ")[0] if reason.startswith("unequal length") else reason for reason in said]
    if claim.verdict not in OPEN:
        return "; ".join(said)
    if not any(reason.startswith(("so far not", "so far undecided")) for reason in said):
        said = ["so far as in the paper" if reason.startswith("so far") else reason for reason in said]
    return f"*{claim.verdict}*" + f": {'; '.join(said)}" * bool(said)


def _trained_on(claim: Any) -> str:
    """Return the data of a claim with their share of the paper's, its epochs and its seeds, if these are several."""
    data = claim.data.partition(",")[0]
    if claim.data_kind == "part":
        data += f" ({100 * float(claim.data_share):.1f} %)"
    epochs = f"{claim.epochs} epoch{'s' * (str(claim.epochs) != '1')}" if claim.epochs else ""
    return ", ".join(filter(None, [data, epochs, f"{claim.seeds} seeds" if int(claim.seeds) > 1 else ""]))


def _accuracy(title: str, path: Path, heading: str, column: str, more: dict[str, str]) -> list[str]:
    """Return a title, and a published table with few of its columns: one under a new heading, others at the end."""
    measures = Measures.read(path.parents[1] / "measures.parquet")
    rows: list[list[Cell]] = []
    data = set()
    for row in pd.read_csv(path, dtype=str, keep_default_na=False).to_dict("records"):
        number = measures[row["variant"], "test_accuracy"]
        data.add(number.data)
        rows.append(
            [
                ("", "Network", row["variant"]),
                ("", heading, row[column]),
                ("", "Paper", row["paper"]),
                ("", "Ours (%)", number),
                ("", "Epochs", row["epochs"]),
                ("", "Seeds", row["seeds"]),
                *(("", last, row[name] or "—") for last, name in more.items()),
            ]
        )
    return [f"**{title}** ({'; '.join(sorted(data))})", Table.of(rows).markdown(padded=False)]


def _memorised(path: Path) -> list[str]:
    """Return a title, and what the networks that see sets know of the largest sums of digits."""
    measures, table = Measures.read(path.parents[1] / "measures.parquet"), pd.read_csv(path)
    largest = table[(table["members"] == table["members"].max()) & table["model"].isin(["III", "IV"])]
    columns = {
        "Training sets (%)": "train_accuracy",
        "New sets of the same images (%)": "same_images_accuracy",
        "Sets of other images (%)": "validation_accuracy",
    }
    rows: list[list[Cell]] = [
        [
            ("", "Network", row["variant"]),
            *(("", heading, measures.get(row["variant"], name) or "—") for heading, name in columns.items()),
            ("", "Epochs", row["epochs"]),
            ("", "Seeds", row["seeds"]),
        ]
        for row in largest.to_dict("records")
    ]
    title = f"Sums of {table['members'].max()} digits, right answers after the last epoch"
    return [f"**{title}** (MNIST)", Table.of(rows).markdown(padded=False)] if rows else []


def _image(path: Path, title: str) -> str:
    """Return a picture at a width that leaves it readable beside text, with its alternative text."""
    return f'<img src="{path.as_posix()}" width="620" alt="{_description(path, title)}">'


def _description(path: Path, default: str) -> str:
    with Image.open(path) as picture:
        return picture.info.get("Description", default).replace('"', "")


def write_experiment_page(
    experiment: str, runs: list[Path], tables: list[Path], figures: list[Path], output: Path
) -> None:
    """Write what a visitor of an experiment's published folder reads: where it comes from, its tables and figures."""
    chapter, groups = _chapter(experiment, []), read_runs(runs)
    published = [run for group in groups.values() for run in group]
    first = published[0].info
    hours = sum(sum(run.info["epoch_seconds"]) for run in published) / 3600
    commits = sorted({run.info["git_commit"][:12] for run in published})
    places = [(run.info["machine"], run.info["device"]) for run in published]
    machines = sorted({f"{machine['processor']}, {machine['cores']} cores, {device}" for machine, device in places})
    parts = [
        f"# {chapter.title}: published runs",
        measured_on(groups),
        f"Made by code {', '.join(commits)} with torch {first['versions']['torch']} on {' and '.join(machines)}, "
        f"{first['threads']} thread a run, {hours:.1f} hours of training by the clock, pauses included. "
        "To make them again, with the settings of `workflow/reference.yaml`: `make reference`. To judge them again, "
        "without training: `make judge`.",
        "`runs/` holds the settings, data digests, versions and times of every run, its metrics by epoch, its "
        "predictions and its weights; `measures.parquet` every number with its interval.",
    ]
    parts += [path.read_text(encoding="utf-8").strip() for path in tables]
    for path in figures:
        caption = chapter.about.CAPTIONS[path.stem]
        parts += [f"![{_description(path, caption)}](figures/{path.name})", caption]
    with atomic_path(output) as partial:
        partial.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
