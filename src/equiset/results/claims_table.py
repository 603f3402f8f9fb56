"""The verdicts as tables: CSV for programs, Markdown and LaTeX for papers, HTML for the browser."""

import html
from pathlib import Path

import pandas as pd

from equiset.files import atomic_path
from equiset.results.judging import Judgement
from equiset.results.tables import Table

CAPTION = "The paper's claims, and what was measured here."
NOTES = (
    "Ours: with ± the spread over seeds and test items, in brackets a 95 % interval. Reproduced: the paper's number "
    "lies within the combined spread, or ours is better, on the paper's data or at least 95 % of them, at its scale; "
    "an order or a chance level may also be judged on other data, which is then said. Not tested: the data, the scale "
    "or the runs do not decide it. How each claim is judged is in workflow/claims.yaml.",
)


def claims_table(judgements: list[Judgement]) -> Table:
    """One row for each claim."""
    numbers = [
        {
            "claim": judgement.claim.id,
            "place": judgement.claim.place,
            "statement": judgement.claim.statement,
            "paper": judgement.claim.paper,
            "ours": judgement.ours,
            "verdict": judgement.verdict,
            "reason": judgement.reason,
            "data": judgement.data,
            "data_kind": judgement.kind,
            "data_share": "" if judgement.share is None else judgement.share,
            "scale": judgement.scale,
            "seeds": judgement.seeds,
            "runs": ";".join(judgement.runs),
        }
        for judgement in judgements
    ]
    shown = [
        {
            "Claim": judgement.claim.id,
            "Place": judgement.claim.place,
            "Statement": judgement.claim.statement,
            "Paper": judgement.claim.paper,
            "Ours": judgement.ours,
            "Data": judgement.data,
            "Scale": judgement.scale,
            "Verdict": judgement.verdict_with_reason,
        }
        for judgement in judgements
    ]
    widths = (1.6, 4, 1.6, 4, 1.8, 1, 2.5)  # cm, for a landscape page
    columns = "l" + "".join(rf">{{\raggedright\arraybackslash}}p{{{width}cm}}" for width in widths)
    return Table(pd.DataFrame(numbers), pd.DataFrame(shown), CAPTION, NOTES, columns)


def conditions_table(judgements: list[Judgement]) -> pd.DataFrame:
    """One row for each condition of each claim, as plain numbers."""
    rows = []
    for judgement in judgements:
        for number, ruling in enumerate(judgement.rulings, start=1):
            found = ruling.measured
            rows.append(
                {
                    "claim": judgement.claim.id,
                    "condition": number,
                    "label": ruling.label,
                    "measure": judgement.claim.judged_by[number - 1].measure.kind,
                    "value": found.value if found else None,
                    "low95": found.low if found else None,
                    "high95": found.high if found else None,
                    "spread": found.spread if found else None,
                    "interval_over": found.over if found else "",
                    "seeds": found.seeds if found else 0,
                    "expected": ruling.expected,
                    "verdict": ruling.verdict,
                    "reason": ruling.reason,
                }
            )
    return pd.DataFrame(rows)


def short_form(judgements: list[Judgement]) -> str:
    """Return a Markdown table of id, statement, the paper's value, ours and the verdict, for a README."""
    return pd.DataFrame([judgement.short for judgement in judgements]).to_markdown(index=False, disable_numparse=True)


_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: #1a1a1a }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .45rem .6rem; border-bottom: 1px solid #ddd }
th { border-bottom: 2px solid #444 }
td.id { white-space: nowrap }
.reproduced { color: #00664a; font-weight: 600 }
.not-reproduced { color: #b34700; font-weight: 600 }
.not-tested { color: #666 }
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
    verdicts = [judgement.verdict for judgement in judgements]
    counts = {verdict: verdicts.count(verdict) for verdict in ("reproduced", "not reproduced", "not tested")}
    head = "".join(f"<th>{name}</th>" for name in ("Claim", "Statement", "Paper", "Ours", "Verdict", "Measured on"))
    rows = "\n".join(_row(judgement) for judgement in judgements)
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(CAPTION)}</title><style>{_STYLE}</style></head><body>
<h1>Claims</h1>
<p>{html.escape(CAPTION)} {", ".join(f"{count} {verdict}" for verdict, count in counts.items())}.</p>
<table><thead><tr>{head}</tr></thead><tbody>
{rows}
</tbody></table>
{"".join(f'<p class="small">{html.escape(note)}</p>' for note in NOTES)}
</body></html>
"""
    with atomic_path(path) as partial:
        partial.write_text(page)


def _row(judgement: Judgement) -> str:
    claim = judgement.claim
    reason = f' <span class="small">({html.escape(judgement.reason)})</span>' if judgement.reason else ""
    verdict = f'<span class="{judgement.verdict.replace(" ", "-")}">{judgement.verdict}</span>{reason}'
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
