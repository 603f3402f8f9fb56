"""The verdicts as tables: CSV for programs, Markdown and LaTeX for papers, HTML for the browser."""

import html
from pathlib import Path

import pandas as pd

from equiset.files import atomic_path, canonical_json
from equiset.results.judging import ELSEWHERE, Judgement, in_words
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


_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: #1a1a1a }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .45rem .6rem; border-bottom: 1px solid #ddd }
th { border-bottom: 2px solid #444 }
td.id { white-space: nowrap }
.reproduced { color: #00664a; font-weight: 600 }
.not-reproduced { color: #b34700; font-weight: 600 }
.not-tested, .elsewhere { color: #666 }
.small { font-size: 85%; color: #555 }
@media (max-width: 700px) {
  thead { display: none }
  tr { display: block; border-bottom: 2px solid #444; padding: .5rem 0 }
  td { display: block; border: 0; padding: .1rem 0 }
  td:not(.id)::before { content: attr(data-name) ": "; color: #555 }
}
"""


def write_html(path: Path, judgements: list[Judgement]) -> None:
    """Write a page of its own, that needs nothing but itself."""
    counts = in_words([(judgement.verdict, judgement.rests_on) for judgement in judgements])
    head = "".join(f"<th>{name}</th>" for name in ("Claim", "Statement", "Paper", "Ours", "Verdict", "Measured on"))
    rows = "\n".join(_row(judgement) for judgement in judgements)
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(CAPTION)}</title><style>{_STYLE}</style></head><body>
<h1>Claims</h1>
<p>{html.escape(CAPTION)} {html.escape(counts)}.</p>
<table><thead><tr>{head}</tr></thead><tbody>
{rows}
</tbody></table>
{"".join(f'<p class="small">{html.escape(note)}</p>' for note in NOTES)}
</body></html>
"""
    with atomic_path(path) as partial:
        partial.write_text(page, encoding="utf-8")


def _row(judgement: Judgement) -> str:
    claim = judgement.claim
    reason = f' <span class="small">({html.escape(judgement.reason)})</span>' if judgement.reason else ""
    if judgement.changed:
        reason += f'<br><span class="small">{html.escape(judgement.changed)}</span>'
    # No green, and no red, on what is not the paper's.
    look = "elsewhere" if judgement.rests_on in ELSEWHERE else judgement.verdict.replace(" ", "-")
    verdict = f'<span class="{look}">{judgement.verdict}</span>{reason}'
    seeds = f", {judgement.seeds} seed{'s' * (judgement.seeds > 1)}" if judgement.seeds else ""
    where = f"{html.escape(judgement.data)}; scale {judgement.scale}{seeds}" if judgement.data != "—" else "—"
    runs = "<br>".join(html.escape(run) for run in judgement.runs)
    behind = f"<details><summary>runs</summary>{runs}</details>" if runs else ""
    place = f'<br><span class="small">{html.escape(claim.place)}</span>'
    return (
        f'<tr><td class="id"><b>{claim.id}</b></td>'
        f'<td data-name="Statement">{html.escape(claim.statement)}{place}</td>'
        f'<td data-name="Paper">{html.escape(claim.paper)}</td>'
        f'<td data-name="Ours">{html.escape(judgement.ours).replace("; ", "<br>")}</td>'
        f'<td data-name="Verdict">{verdict}</td>'
        f'<td class="small" data-name="Measured on">{where}{behind}</td></tr>'
    )
