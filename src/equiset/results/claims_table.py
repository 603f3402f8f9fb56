"""The verdicts as tables: CSV for programs and the report, Markdown and LaTeX for papers."""

import pandas as pd

from equiset.files import canonical_json
from equiset.results.judging import Judgement, in_words
from equiset.results.tables import Table

CAPTION = "The paper's claims, and what was measured here."
NOTES = (
    "Ours: with ± the spread over trainings and test items, in brackets a 95 % interval. Reproduced: the paper's "
    "number lies within the combined spread, or ours is better, on the paper's data or at least 95 % of them, at its "
    "scale and with its settings; a baseline must meet its number. An order or a chance level may also be judged on "
    "other data, which is then said. Not tested: the data, the scale, the settings or the runs do not decide it. How "
    "each claim is judged is in workflow/claims.yaml.",
)


def claims_table(judgements: list[Judgement]) -> Table:
    """One row for each claim."""
    rows = []
    for one in judgements:
        claim, numbers = one.claim, one.numbers
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
                "runs": ";".join(one.runs),
            }
        )
    table = pd.DataFrame(rows)
    shown = table[["claim", "place", "statement", "paper", "ours", "data", "scale"]].rename(columns=str.capitalize)
    shown["Verdict"] = [". ".join(filter(None, (one.verdict_with_reason, one.changed))) for one in judgements]
    widths = (1.6, 4, 1.6, 4, 1.8, 1, 2.5)  # cm, for a landscape page
    columns = "l" + "".join(rf">{{\raggedright\arraybackslash}}p{{{width}cm}}" for width in widths)
    return Table(table, shown, CAPTION, (*NOTES, f"{in_words(judged(table))}."), columns)


def judged(table: pd.DataFrame) -> list[tuple[str, str]]:
    """Return verdicts and what they rest on, from a table of claims."""
    return list(zip(table["verdict"], table["rests_on"], strict=True))


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
