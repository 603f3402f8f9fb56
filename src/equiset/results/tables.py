"""The one writer of tables: numbers for programs (CSV), and text for a page (Markdown, HTML) or a paper (LaTeX)."""

import html
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from equiset.files import atomic_path
from equiset.results.measures import ABOUT_IMPROVING, IMPROVING, Number

Cell = tuple[str, str, Any] | tuple[str, str, Any, str]
"""The column's name in CSV, its heading in the text formats, the value, and its text if that is not `str(value)`.

An empty name or heading leaves the cell out of those formats. A `Number` comes with its interval in CSV and its spread
in text. `Heading|Short` gives LaTeX, where a page is narrow, a shorter heading; `Heading|` has no such column there.
"""


ABOUT_SPREAD = (
    "±: one standard deviation over trainings (with fewer than three seeds, over the last five points of the curve), "
    "draws of test particles and the choice of test items, added in squares; 95 % intervals are of the same."
)
"""What ± means wherever it stands with a number of ours."""


@dataclass(frozen=True)
class Table:
    """A table, once as plain numbers and once as formatted text."""

    numbers: pd.DataFrame
    """For CSV: one value per cell, units in the column names."""
    text: pd.DataFrame
    """For Markdown, HTML and LaTeX: formatted text."""
    caption: str
    notes: tuple[str, ...]
    latex: dict[str, str] = field(default_factory=dict)
    """Columns of the LaTeX table -> their headings there; by default all columns, with the same headings."""
    widths: tuple[float, ...] = ()
    """Widths in cm of the columns of a LaTeX table that breaks across pages; by default it stands on one page."""

    @classmethod
    def of(cls, rows: list[list[Cell]], caption: str = "", *notes: str, widths: tuple[float, ...] = ()) -> "Table":
        """Return the table with these cells. A row without a name is left out of CSV, one without a heading of text."""
        numbers: list[dict[str, Any]] = []
        texts: list[dict[str, str]] = []
        latex: dict[str, str] = {}
        for row in rows:
            numbers.append({})
            texts.append({})
            for name, heading, value, *text in row:
                number = isinstance(value, Number)
                if name:
                    numbers[-1] |= value.columns(name) if number else {name: value}
                heading, bar, short = heading.partition("|")
                if heading:
                    latex.setdefault(heading, short if bar else heading)
                    texts[-1][heading] = text[0] if text else value.with_spread if number else str(value)
        frames = [pd.DataFrame([row for row in part if row]) for part in (numbers, texts)]
        latex = {heading: short for heading, short in latex.items() if short}
        if any(IMPROVING in text for row in texts for text in row.values()):
            notes = (*notes, ABOUT_IMPROVING)
        return cls(frames[0], frames[1].fillna("—"), caption, notes, latex, widths)

    def write(self, path: Path) -> None:
        """Write the table in the format that the suffix names."""
        match path.suffix:
            case ".csv":
                text = self.numbers.to_csv(index=False, float_format="%.6g")
            case ".md":
                text = f"**{self.caption}**\n\n{self.markdown()}\n" + "".join(f"\n{note}\n" for note in self.notes)
            case ".tex":
                text = self._latex()
            case ".html":
                text = self._html()
            case suffix:
                raise ValueError(f"a table is written as .csv, .md, .tex or .html, not {suffix}")
        with atomic_path(path) as partial:
            partial.write_text(text, encoding="utf-8")

    def markdown(self, padded: bool = True) -> str:
        """Return the rows, without caption and notes. Padding aligns the columns, and makes long lines longer."""
        shown = self.text.rename(columns=_escape_markdown).map(_escape_markdown)
        if padded:
            return shown.to_markdown(index=False, disable_numparse=True)
        rows = [shown.columns, ["---"] * len(shown.columns), *shown.itertuples(index=False)]
        return "\n".join(f"|{'|'.join(row)}|" for row in rows)

    def _html(self) -> str:
        """Return a part of a page: a table that scrolls if it must, and its notes. All values are escaped."""
        caption = html.escape(self.caption)
        if self.text.empty:
            return "<p>Nothing of this table runs at this scale.</p>\n"
        rows = [[html.escape(_typeset(cell)) for cell in row] for row in self.text.itertuples(index=False)]
        looks = []
        for column in self.text:
            not_ours = column.startswith(("Paper", "Reported"))
            looks.append(" ".join(["paper"] * not_ours + ["text"] * _has_words(self.text[column])))
        head = "".join(
            f'<th scope="col" class="{look}">{html.escape(str(column))}</th>'
            for column, look in zip(self.text.columns, looks, strict=True)
        )
        lines = [f'<div class="scroll" role="region" tabindex="0" aria-label="{caption}">', "<table>"]
        lines += [f"<caption><span>{caption}</span></caption>", f"<thead><tr>{head}</tr></thead>", "<tbody>"]
        for first, *others in rows:
            quoted = ' class="quoted"' if first.endswith("(quoted)") else ""
            cells = "".join(f'<td class="{look}">{cell}</td>' for cell, look in zip(others, looks[1:], strict=True))
            lines.append(f'<tr{quoted}><th scope="row">{first}</th>{cells}</tr>')
        lines += ["</tbody>", "</table>", "</div>"]
        lines += [f'<p class="note">{html.escape(note)}</p>' for note in self.notes]
        return "\n".join(lines) + "\n"

    def _latex(self) -> str:
        """Return a booktabs table, as wide as the text, with its notes beneath."""
        latex = self.latex or {column: column for column in self.text}
        shown = self.text[[column for column in self.text if column in latex]].rename(columns=latex)
        long = bool(self.widths)
        kind, where = ("longtable", "") if long else ("tabularx", r"{\textwidth}")
        columns = "".join(rf">{{\raggedright\arraybackslash}}p{{{width}cm}}" for width in self.widths)
        columns = columns or "".join(_latex_column(shown[name], place == 0) for place, name in enumerate(shown))
        caption = rf"\caption{{{_escape_latex(self.caption)}}}" + r"\\" * long
        begin = rf"\begin{{{kind}}}{where}{{@{{}}{columns}@{{}}}}"
        lines = [
            r"% In the preamble: \usepackage{array,booktabs,longtable,tabularx}",
            *([r"{\footnotesize"] if long else [r"\begin{table}", r"\centering\footnotesize"]),
            r"\setlength{\tabcolsep}{3pt}",
            *([begin, caption] if long else [caption, r"\smallskip", begin]),
            r"\toprule",
            _latex_row(shown.columns),
            r"\midrule\endhead" if long else r"\midrule",
            *map(_latex_row, shown.itertuples(index=False)),
            r"\bottomrule",
            rf"\end{{{kind}}}",
            *(rf"\par\smallskip\raggedright {_escape_latex(note)}" for note in self.notes),
            r"\par}" if long else r"\end{table}",
        ]
        return "\n".join(lines) + "\n"


def _has_words(column: pd.Series) -> bool:
    """Return whether a cell begins with a word, and not with a number and what belongs to it."""
    return any(re.match(r"[^\W\d]", str(cell)) for cell in column)


def _latex_column(column: pd.Series, first: bool) -> str:
    """Return the kind of a column: a long text or heading is broken into lines."""
    words = first or _has_words(column)
    longest = max((len(str(cell)) for cell in column), default=0)
    long = len(str(column.name)) > 14 or longest > (14 if words else 18)
    side = "right" if words or longest > 18 else "left"
    return rf">{{\ragged{side}\arraybackslash}}X" if first or long else "l" if words else "r"


def _latex_row(cells: tuple | pd.Index) -> str:
    return " & ".join(map(_escape_latex, cells)) + r" \\"


def _escape_markdown(text: object) -> str:
    return _typeset(text).replace("|", r"\|")


def _typeset(text: object) -> str:
    """Return the text with minus signs in front of numbers, not hyphens, and raised exponents."""
    return re.sub(r"(?<![\w.)\]])-(?=\.?\d)", "−", str(text)).replace("^3", "³").replace("^T", "ᵀ")


_LATEX = {"\\": r"\textbackslash{}", "±": r"$\pm$", ">": "$>$", "<": "$<$", "~": r"\textasciitilde{}", "–": "--"}
_LATEX |= {"≈": r"$\approx$", "—": "---", "×": r"$\times$", "^": r"\textasciicircum{}", "−": "$-$", "|": r"\textbar{}"}
_LATEX |= {sign: f"\\{sign}" for sign in "&%$#_{}"}
_LATEX |= {"λ": r"$\lambda$", "γ": r"$\gamma$", "†": r"$\dagger$", "‡": r"$\ddagger$", "≠": r"$\neq$", "°": r"$^\circ$"}


def _escape_latex(text: object) -> str:
    escaped = "".join(_LATEX.get(sign, sign) for sign in _typeset(text))
    return re.sub(r"(\d+)([³ᵀ])", lambda found: f"${found[1]}^{'3' if found[2] == '³' else 'T'}$", escaped)
