"""The verdicts on the paper's claims as files: tables for programs, the report and papers, and a figure."""

from pathlib import Path

import pandas as pd

from equiset.files import canonical_json
from equiset.results.claims import is_numeric, read_claims
from equiset.results.judging import RESTS_ON, Judgement, judge_all
from equiset.results.measures import Measures
from equiset.results.tables import Cell, Table

CAPTION = "The paper's claims, and what was measured here."
NOTE = (
    "Ours: with ± the spread over trainings and test items, in brackets a 95 % interval. Reproduced: the paper's "
    "number lies within the combined spread, or ours is better, on the paper's data or at least 95 % of them, at its "
    "scale and with its settings; a baseline must meet its number. An order or a chance level may also be judged on "
    "other data, which is then said. Not tested: the data, the scale, the settings or the runs do not decide it. How "
    "each claim is judged is in workflow/claims.yaml."
)

WIDTHS = (0.8, 3.5, 1.7, 2.6, 2.6)
"""Of the columns in LaTeX, in cm: what fits a page of an article. Place, data and scale are in the other formats."""


def judge_claims(claims: Path, measures: list[Path], output: Path) -> None:
    """Judge the paper's claims by the numbers that were measured, and write the verdicts.

    Args:
        claims: the claims file.
        measures: files of `measure_runs`, of any experiments; claims about the others are not tested.
        output: folder for `claims.csv`, `.md`, `.tex` and `.png`, and for `conditions.csv`.
    """
    from equiset.results.claims_figure import (
        claims_figure,
    )  # here, because nothing else in this module needs matplotlib

    judgements = judge_all(read_claims(claims), Measures.read(*measures))
    for suffix in ("csv", "md", "tex"):
        claims_table(judgements).write(output / f"claims.{suffix}")
    claims_figure(judgements).write(output / "claims.png")
    conditions_table(judgements).write(output / "conditions.csv")


def claims_table(judgements: list[Judgement]) -> Table:
    """One row for each claim."""
    rows = [_claim_cells(judgement) for judgement in judgements]
    changed: dict[str, list[str]] = {}
    for claim in (judgement.claim for judgement in judgements if judgement.claim.changed):
        changed.setdefault(claim.changed, []).append(claim.id)
    changes = (f"† {', '.join(ids)}, changed after a look at results: {text}" for text, ids in changed.items())
    return Table.of(rows, CAPTION, headline(Table.of(rows).numbers), NOTE, *changes, widths=WIDTHS)


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
        ("changed", "", claim.changed),
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
    """Return what a user wants to know after a run: the verdicts, and where the results of a scale are."""
    claims = pd.read_csv(folder / "claims" / "claims.csv", keep_default_na=False)
    where = f"Tables and figures: {folder}/<experiment>/; runs in MLflow: make ui"
    return "\n".join([headline(claims), f"Report: {folder}/report.html", where])


def headline(table: pd.DataFrame) -> str:
    """Return what was found in two sentences, from a table of claims: first the numbers of the paper, then the rest."""
    numeric = table["paper"].map(is_numeric)
    whole, some, other = RESTS_ON["whole"], table[numeric], table[~numeric]
    reproduced = ((some["verdict"] == "reproduced") & (some["rests_on"] == whole)).sum()
    found = _counts(some[(some["verdict"] != "reproduced") | (some["rests_on"] != whole)])
    first = [f"{reproduced} of {len(some)} numeric claims reproduced", *found]
    sentence = f"On {whole}: {', '.join(one.removesuffix(f' on {whole}') for one in first)}."
    return f"{sentence} Of the {len(other)} others: {', '.join(_counts(other))}." if len(other) else sentence


def _counts(table: pd.DataFrame) -> list[str]:
    """Return how often each verdict was given, by what it rests on, the weightiest first."""
    pairs = list(zip(table["verdict"], table["rests_on"], strict=True))
    known = [(verdict, base) for base in RESTS_ON.values() for verdict in ("reproduced", "not reproduced")]
    words = {pair: f"{pair[0]} on {pair[1]}" for pair in known} | {("not tested", ""): "not tested"}
    return [f"{pairs.count(pair)} {text}" for pair, text in words.items() if pair in pairs]
