"""The verdicts as tables: CSV for programs and the report, Markdown and LaTeX for papers."""

import re
from pathlib import Path

import pandas as pd

from equiset.files import canonical_json
from equiset.results.judging import RESTS_ON, Judgement
from equiset.results.tables import Table

CAPTION = "The paper's claims, and what was measured here."
NOTES = (
    "Ours: with ± the spread over trainings and test items, in brackets a 95 % interval. Reproduced: the paper's "
    "number lies within the combined spread, or ours is better, on the paper's data or at least 95 % of them, at its "
    "scale and with its settings; a baseline must meet its number. An order or a chance level may also be judged on "
    "other data, which is then said. Not tested: the data, the scale, the settings or the runs do not decide it. How "
    "each claim is judged is in workflow/claims.yaml.",
)

WIDTHS = {"Claim": 0.8, "Statement": 3.5, "Paper": 1.7, "Ours": 2.6, "Verdict": 2.6}
"""What fits a page of an article: columns and their widths in cm. Place, data and scale are in the other forms."""


def claims_table(judgements: list[Judgement]) -> Table:
    """One row for each claim."""
    rows = []
    for one in judgements:
        claim, numbers = one.claim, one.numbers
        epochs = sorted({number.epochs for number in numbers} - {0})
        rows.append(
            {
                "claim": claim.id,
                "place": claim.place,
                "statement": claim.statement,
                "paper": claim.paper,
                "ours": one.ours,
                "verdict": one.verdict,
                "reason": one.reason,
                "changed": claim.changed,
                "rests_on": one.rests_on,
                "data": one.data,
                "data_kind": ";".join(sorted({number.kind for number in numbers})),
                "data_share": min((number.share for number in numbers), default=float("nan")),
                "scale": one.scale,
                "seeds": one.seeds,
                "epochs": " to ".join(dict.fromkeys(map(str, epochs[:1] + epochs[-1:]))),
                "runs": ";".join(one.runs),
            }
        )
    table = pd.DataFrame(rows)
    shown = table[["claim", "place", "statement", "paper", "ours", "data", "scale"]].rename(columns=str.capitalize)
    shown["Verdict"] = [one.verdict_with_reason + " †" * bool(one.claim.changed) for one in judgements]
    columns = "".join(rf">{{\raggedright\arraybackslash}}p{{{width}cm}}" for width in WIDTHS.values())
    changes = table[table["changed"] != ""].groupby("changed", sort=False)["claim"]
    said = (f"† {', '.join(claims)}, changed after a look at results: {text}" for text, claims in changes)
    return Table(table, shown, CAPTION, (headline(table), *NOTES, *said), {name: name for name in WIDTHS}, columns)


def is_numeric(paper: str) -> bool:
    """Return whether what the paper says of a claim has a number in it."""
    return bool(re.search(r"\d", paper))


def closing_words(folder: Path) -> str:
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
    said = f"On {whole}: {', '.join(one.removesuffix(f' on {whole}') for one in first)}."
    return f"{said} Of the {len(other)} others: {', '.join(_counts(other))}." if len(other) else said


def _counts(table: pd.DataFrame) -> list[str]:
    """Return how often each verdict was given, by what it rests on, the weightiest first."""
    pairs = list(zip(table["verdict"], table["rests_on"], strict=True))
    known = [(verdict, base) for base in RESTS_ON.values() for verdict in ("reproduced", "not reproduced")]
    words = {pair: f"{pair[0]} on {pair[1]}" for pair in known} | {("not tested", ""): "not tested"}
    return [f"{pairs.count(pair)} {said}" for pair, said in words.items() if pair in pairs]


def conditions_table(judgements: list[Judgement]) -> pd.DataFrame:
    """One row for each condition of each claim, as plain numbers."""
    return pd.DataFrame(
        {
            "claim": judgement.claim.id,
            "condition": place,
            "label": ruling.condition.label,
            "experiment": ruling.condition.measure.experiment,
            "measure": ruling.condition.measure.name,
            "variant": ruling.condition.measure.variant,
            "less": ruling.condition.measure.less,
            **(ruling.number.columns("value") if ruling.number else {}),
            "interval_over": ruling.number.method if ruling.number else "",
            "seeds": ruling.number.seeds if ruling.number else 0,
            "expected": canonical_json(ruling.condition.expect.model_dump(mode="json", exclude_none=True)),
            "verdict": ruling.verdict,
            "reason": ruling.reason,
        }
        for judgement in judgements
        for place, ruling in enumerate(judgement.rulings, start=1)
    )
