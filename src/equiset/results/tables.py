"""A table in the forms that a reader wants: numbers (CSV), a page (Markdown, HTML), a paper (LaTeX)."""

import html
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from equiset.files import atomic_path
from equiset.results.measures import Number
from equiset.results.runs import Run

Cell = tuple[str, str, Any] | tuple[str, str, Any, str]
"""A column's name for programs and its heading for people, either may be empty; the value, or a `Number`, which comes
with its interval; and how people read it, if not as it is. After a bar, a heading has its short form for LaTeX, where a
page is narrow; nothing after it leaves the column out there."""


@dataclass(frozen=True)
class Table:
    """A table, once as plain numbers and once as people read it."""

    numbers: pd.DataFrame
    """For CSV: one value per cell, units in the column names."""
    shown: pd.DataFrame
    """For Markdown and LaTeX: formatted text."""
    caption: str
    notes: tuple[str, ...]
    latex: dict[str, str] = field(default_factory=dict)
    """Headings of the columns that LaTeX shows -> what they are there; by default all, as they are."""
    long: str = ""
    """Columns of a LaTeX table that breaks across pages, such as `lp{4cm}`; by default it stands on one."""

    @classmethod
    def of(cls, rows: list[list[Cell]], caption: str, *notes: str) -> "Table":
        """Make a table of its cells."""
        numbers: list[dict[str, Any]] = []
        shown: list[dict[str, Any]] = []
        latex: dict[str, str] = {}
        for row in rows:
            numbers.append({})
            shown.append({})
            for name, heading, value, *text in row:
                number = isinstance(value, Number)
                if name:
                    numbers[-1] |= value.columns(name) if number else {name: value}
                heading, bar, short = heading.partition("|")
                if heading:
                    latex.setdefault(heading, short if bar else heading)
                    shown[-1][heading] = text[0] if text else value.with_spread if number else str(value)
        plain = pd.DataFrame([row for row in numbers if row])
        latex = {heading: short for heading, short in latex.items() if short}
        return cls(plain, pd.DataFrame(shown).fillna("—"), caption, notes, latex)

    def write(self, path: Path) -> None:
        """Write the table in the format that the suffix names."""
        match path.suffix:
            case ".csv":
                text = self.numbers.to_csv(index=False, float_format="%.6g")
            case ".md":
                shown = self.shown.rename(columns=_mark).map(_mark)
                text = f"**{self.caption}**\n\n{shown.to_markdown(index=False, disable_numparse=True)}\n"
                text += "".join(f"\n{note}\n" for note in self.notes)
            case ".tex":
                text = self._latex()
            case ".html":
                text = self._html()
            case suffix:
                raise ValueError(f"a table is written as .csv, .md, .tex or .html, not {suffix}")
        with atomic_path(path) as partial:
            partial.write_text(text, encoding="utf-8")

    def _html(self) -> str:
        """Return a part of a page: a table that scrolls if it must, and its notes. All that is shown is text."""
        caption = html.escape(self.caption)
        if self.shown.empty:
            return "<p>Nothing of this table runs at this scale.</p>\n"
        rows = [[html.escape(_typeset(cell)) for cell in row] for row in self.shown.itertuples(index=False)]
        looks = []
        for column in self.shown:
            looks.append(" ".join(["paper"] * column.startswith("Paper") + ["text"] * _has_words(self.shown[column])))
        head = "".join(
            f'<th scope="col" class="{look}">{html.escape(str(column))}</th>'
            for column, look in zip(self.shown.columns, looks, strict=True)
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
        latex = self.latex or {column: column for column in self.shown}
        shown = self.shown[[column for column in self.shown if column in latex]].rename(columns=latex)
        kind, where = ("longtable", "") if self.long else ("tabularx", r"{\textwidth}")
        columns = self.long or "".join(_latex_column(shown[column], place == 0) for place, column in enumerate(shown))
        caption = rf"\caption{{{_escape(self.caption)}}}" + r"\\" * bool(self.long)
        begin = rf"\begin{{{kind}}}{where}{{@{{}}{columns}@{{}}}}"
        lines = [
            r"% In the preamble: \usepackage{array,booktabs,longtable,tabularx}",
            *([r"{\footnotesize"] if self.long else [r"\begin{table}", r"\centering\footnotesize"]),
            r"\setlength{\tabcolsep}{3pt}",
            *([begin, caption] if self.long else [caption, r"\smallskip", begin]),
            r"\toprule",
            _latex_row(shown.columns),
            r"\midrule\endhead" if self.long else r"\midrule",
            *map(_latex_row, shown.itertuples(index=False)),
            r"\bottomrule",
            rf"\end{{{kind}}}",
            *(rf"\par\smallskip\raggedright {_escape(note)}" for note in self.notes),
            r"\par}" if self.long else r"\end{table}",
        ]
        return "\n".join(lines) + "\n"


def _has_words(column: pd.Series) -> bool:
    """Return whether a cell begins with a word, and not with a number and what belongs to it."""
    return any(re.match(r"[^\W\d]", str(cell)) for cell in column)


def _latex_column(column: pd.Series, first: bool) -> str:
    """Return the kind of a column: a long text or heading is broken into lines."""
    words = first or _has_words(column)
    long = max(len(str(column.name)), *(len(str(cell)) for cell in column) if words else (0,)) > 14
    side = "right" if words else "left"
    return rf">{{\ragged{side}\arraybackslash}}X" if first or long else "l" if words else "r"


def _latex_row(cells: tuple | pd.Index) -> str:
    return " & ".join(map(_escape, cells)) + r" \\"


def _mark(text: object) -> str:
    return _typeset(text).replace("|", r"\|")


def _typeset(text: object) -> str:
    """Return the text with minus signs in front of numbers, not hyphens, and raised exponents."""
    return re.sub(r"(?<![\w.)\]])-(?=\.?\d)", "−", str(text)).replace("^3", "³").replace("^T", "ᵀ")


_LATEX = {"\\": r"\textbackslash{}", "±": r"$\pm$", ">": "$>$", "<": "$<$", "~": r"\textasciitilde{}", "–": "--"}
_LATEX |= {"≈": r"$\approx$", "—": "---", "×": r"$\times$", "^": r"\textasciicircum{}", "−": "$-$", "|": r"\textbar{}"}
_LATEX |= {sign: f"\\{sign}" for sign in "&%$#_{}"}
_LATEX |= {"λ": r"$\lambda$", "γ": r"$\gamma$", "†": r"\dag{}", "°": r"$^\circ$"}


def _escape(text: object) -> str:
    escaped = "".join(_LATEX.get(sign, sign) for sign in _typeset(text))
    return re.sub(r"(\d+)([³ᵀ])", lambda found: f"${found[1]}^{'3' if found[2] == '³' else 'T'}$", escaped)


def about(group: list[Run]) -> list[Cell]:
    """Return what every table says of the runs behind a row."""
    info = group[0].info
    return [
        ("parameters", "Parameters|", info["parameters"], f"{info['parameters']:,}"),
        ("epochs", "Epochs|Ep.", group[0].settings["training"]["epochs"]),
        ("seeds", "Seeds", len(group)),
        ("data_kind", "", info["sets"]["kind"]),
        ("data_share", "", info["sets"]["share"]),
        ("scale", "", info["spec"]["scale"]),
    ]
