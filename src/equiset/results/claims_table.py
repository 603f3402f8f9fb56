"""The verdicts on the paper's claims as files: tables for programs, the report and papers, and a figure."""

from collections import Counter
from pathlib import Path

import pandas as pd

from equiset.files import canonical_json
from equiset.results.claims import read_claims
from equiset.results.judging import OPEN, RESTS_ON, Judgement, judge_all
from equiset.results.measures import Measures
from equiset.results.runs import Run
from equiset.results.tables import ABOUT_SPREAD, Cell, Table

CAPTION = "The paper's claims, and what was measured here."
NOTE = (
    f"{ABOUT_SPREAD} A number of the paper holds within one combined standard deviation, or if ours is better, and "
    "differs beyond the 95 % interval, on the paper's data or at least 95 % of them, at its scale and with its "
    "settings; a baseline must meet its number. An order or a chance level may also be judged on other data, which is "
    "then said. A claim is open because there are no data here, because something was not run (or with other "
    "settings), because a training, scale or set is too short, because a control failed, or because the interval "
    "leaves it undecided. How each claim is judged is in workflow/claims.yaml."
)
PUBLISHED = "The published results, at the paper's scale, are in README.md and results/reference/."
LETTERS = {
    "L": "the layers themselves",
    "M": "sums of MNIST digits",
    "P": "point clouds",
    "F": "outlier faces",
    "R": "redshifts",
}
"""First letter of a claim -> what it is about."""

WIDTHS = (0.8, 3.5, 1.7, 2.6, 2.6)
"""Of the columns in LaTeX, in cm: what fits a page of an article. Place, data and scale are in the other formats."""


def judge_claims(claims: Path, measures: list[Path], output: Path) -> None:
    """Judge the paper's claims by the numbers that were measured, and write the verdicts.

    Args:
        claims: the claims file.
        measures: files of `measure_runs`, of any experiments; claims about the others were not run.
        output: folder for `claims.csv`, `.md`, `.tex` and `.png`, and for `conditions.csv`.
    """
    # Here, because nothing else in this module needs matplotlib.
    from equiset.results.claims_figure import claims_figure

    judgements = judge_all(read_claims(claims), Measures.read(*measures))
    for suffix in ("csv", "md", "tex"):
        claims_table(judgements).write(output / f"claims.{suffix}")
    claims_figure(judgements).write(output / "claims.png")
    conditions_table(judgements).write(output / "conditions.csv")


def claims_table(judgements: list[Judgement]) -> Table:
    """One row for each claim."""
    rows = [_claim_cells(judgement) for judgement in judgements]
    changed: dict[str, list[str]] = {}
    for claim in (judgement.claim for judgement in judgements):
        for change in claim.changed:
            changed.setdefault(change, []).append(claim.id)
    changes = (f"† {', '.join(ids)}, changed after a look at results: {text}" for text, ids in changed.items())
    letters = ", ".join(f"{letter} {about}" for letter, about in LETTERS.items())
    notes = (headline(Table.of(rows).numbers), f"Claims: {letters}.", NOTE, *changes)
    return Table.of(rows, CAPTION, *notes, widths=WIDTHS)


def _claim_cells(judgement: Judgement) -> list[Cell]:
    claim, numbers = judgement.claim, judgement.numbers
    epochs = sorted({number.epochs for number in numbers} - {0})
    return [
        ("claim", "Claim", claim.id),
        ("place", "Place|", claim.place),
        ("statement", "Statement", claim.statement),
        ("paper", "Paper", claim.paper),
        ("ours", "Ours", judgement.ours),
        ("verdict", "", judgement.verdict),
        ("reason", "", judgement.reason),
        ("changed", "", " ".join(claim.changed)),
        ("rests_on", "", judgement.rests_on),
        ("data", "Data|", judgement.data),
        ("data_kind", "", ";".join(sorted({number.kind for number in numbers}))),
        ("data_share", "", min((number.share for number in numbers), default=float("nan"))),
        ("scale", "Scale|", judgement.scale),
        ("seeds", "", judgement.seeds),
        ("epochs", "", " to ".join(dict.fromkeys(map(str, epochs[:1] + epochs[-1:])))),
        ("runs", "", ";".join(judgement.runs)),
        ("", "Verdict", judgement.verdict_with_reason + " †" * bool(claim.changed)),
    ]


def conditions_table(judgements: list[Judgement]) -> Table:
    """One row for each condition of each claim, for CSV."""
    rows: list[list[Cell]] = []
    for judgement in judgements:
        for place, ruling in enumerate(judgement.rulings, start=1):
            condition, number = ruling.condition, ruling.number
            expected = canonical_json(condition.expect.model_dump(mode="json", exclude_none=True))
            rows.append(
                [
                    ("claim", "", judgement.claim.id),
                    ("condition", "", place),
                    ("label", "", condition.label),
                    ("experiment", "", condition.measure.experiment),
                    ("measure", "", condition.measure.name),
                    ("variant", "", condition.measure.variant),
                    ("less", "", condition.measure.less),
                    *([("value", "", number)] if number else []),
                    ("interval_over", "", number.method if number else ""),
                    ("seeds", "", number.seeds if number else 0),
                    ("expected", "", expected),
                    ("verdict", "", ruling.verdict),
                    ("reason", "", ruling.reason),
                ]
            )
    return Table.of(rows)


def summary(folder: Path) -> str:
    """Return what a user wants to know after a run: what was trained and found, and where the results are."""
    claims = pd.read_csv(folder / "claims" / "claims.csv", keep_default_na=False)
    runs = [Run(path.parent) for path in sorted(folder.glob("*/runs/*/*/run.json"))]
    where = f"Tables and figures: {folder}/<experiment>/; runs in MLflow: make ui"
    return "\n".join([*what_was_trained(runs), headline(claims), f"Report: {folder}/report.html", where])


def verdicts(folder: Path) -> str:
    """Return what judging found, from a folder of claims, and where it is."""
    claims = pd.read_csv(folder / "claims.csv", keep_default_na=False)
    return f"{headline(claims)}\nAll claims: {folder}/claims.md"


def what_was_trained(runs: list[Run]) -> list[str]:
    """Return which networks were trained on what, and if that tests no number of the paper, where the tests are."""
    sets = [run.info["sets"] for run in runs]
    by_data = Counter(one["data"].partition(":")[0] for one in sets)  # what a stand-in is made of stands in the tables
    listed = "; ".join(f"{count} on {data}" for data, count in by_data.items())
    said = [f"Trained {len(runs)} network{'s' * (len(runs) != 1)}: {listed}."] if runs else []
    if foreign := {one["kind"] for one in sets} - {"whole", "part"}:
        words = " and ".join({"stand-in": "stand-ins", "own": "own data"}[kind] for kind in sorted(foreign))
        said.append(f"{words.capitalize()} test no number of the paper. {PUBLISHED}")
    elif any(run.info["spec"]["scale"] != "paper" for run in runs):
        said.append(f"Only the scale `paper` tests the paper's numbers. {PUBLISHED}")
    return said


def headline(table: pd.DataFrame) -> str:
    """Return what was found in a sentence, from a table of claims: how many hold, differ and are open, and why."""
    parts = []
    for verdict, singular, plural in (("holds", "holds", "hold"), ("differs", "differs", "differ")):
        some = table[table["verdict"] == verdict]
        bases = [f"{(some['rests_on'] == base).sum()} on {base}" for base in [*RESTS_ON.values()][1:]]
        details = [text for text in bases if not text.startswith("0 ")]
        if verdict == "differs":
            details = [f"{row.claim} {row.reason.partition('; ')[0]}" for row in some.itertuples()]
        about = f" ({'; '.join(details)})" if details else ""
        parts.append(f"{len(some)} {singular if len(some) == 1 else plural}{about}")
    open_claims = table.loc[table["verdict"].isin(OPEN), "verdict"].tolist()
    causes = [f"{open_claims.count(cause)} {cause}" for cause in reversed(OPEN) if cause in open_claims]
    parts.append(f"{len(open_claims)} open" + (f" ({', '.join(causes)})" if causes else ""))
    return f"{len(table)} claims of the paper: {', '.join(parts)}."
