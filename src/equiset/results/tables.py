"""A table in the forms that a reader wants: numbers (CSV), a page (Markdown, HTML), a paper (LaTeX)."""

import html
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from equiset.files import atomic_path
from equiset.results.measures import Number
from equiset.results.runs import Run

Cell = tuple[str, str, Any] | tuple[str, str, Any, str]
"""A column's name for programs and its heading for people, either may be empty; the value, or a `Number`, which comes
with its interval; and how people read it, if not as it is."""


@dataclass(frozen=True)
class Table:
    """A table, once as plain numbers and once as people read it."""

    numbers: pd.DataFrame
    """For CSV: one value per cell, units in the column names."""
    shown: pd.DataFrame
    """For Markdown and LaTeX: formatted text."""
    caption: str
    notes: tuple[str, ...]
    latex_columns: str | None = None
    """Columns of a LaTeX table that breaks across pages, such as `lp{4cm}`; by default it stands on one."""

    @classmethod
    def of(cls, rows: list[list[Cell]], caption: str, *notes: str) -> "Table":
        """Make a table of its cells."""
        numbers: list[dict[str, Any]] = []
        shown: list[dict[str, Any]] = []
        for row in rows:
            numbers.append({})
            shown.append({})
            for name, heading, value, *text in row:
                number = isinstance(value, Number)
                if name:
                    numbers[-1] |= value.columns(name) if number else {name: value}
                if heading:
                    shown[-1][heading] = text[0] if text else value.with_spread if number else str(value)
        plain = pd.DataFrame([row for row in numbers if row])
        return cls(plain, pd.DataFrame(shown).fillna("—"), caption, notes)

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
        for place, column in enumerate(map(str, self.shown.columns)):
            words = any(re.match(r"[^\W\d]", row[place]) for row in rows)  # and not numbers with what belongs to them
            looks.append(" ".join(["paper"] * column.startswith("Paper") + ["text"] * words))
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
        """Return a booktabs table with its notes beneath (needs booktabs, across pages array and longtable too)."""
        columns = "".join("l" if column == self.shown.columns[0] else "r" for column in self.shown.columns)
        caption, long = rf"\caption{{{_escape(self.caption)}}}", self.latex_columns is not None
        begin = [r"\begin{table}", r"\centering", caption, rf"\begin{{tabular}}{{{columns}}}"]
        if long:
            begin = [rf"{{\footnotesize\begin{{longtable}}{{{self.latex_columns}}}", rf"{caption}\\"]
        lines = [
            *begin,
            r"\toprule",
            _latex_row(self.shown.columns),
            r"\midrule\endhead" if long else r"\midrule",
            *map(_latex_row, self.shown.itertuples(index=False)),
            r"\bottomrule",
            r"\end{longtable}" if long else r"\end{tabular}",
            *((r"\par " if long else r"\par\smallskip\footnotesize ") + _escape(note) for note in self.notes),
            r"\par}" if long else r"\end{table}",
        ]
        return "\n".join(lines) + "\n"


def _latex_row(cells: tuple | pd.Index) -> str:
    return " & ".join(map(_escape, cells)) + r" \\"


def _mark(text: object) -> str:
    return _typeset(text).replace("|", r"\|")


def _typeset(text: object) -> str:
    """Return the text with minus signs in front of numbers, not hyphens."""
    return re.sub(r"(?<![\w.)\]])-(?=\.?\d)", "−", str(text))


_LATEX = {"\\": r"\textbackslash{}", "±": r"$\pm$", ">": "$>$", "<": "$<$", "~": r"\textasciitilde{}", "–": "--"}
_LATEX |= {"≈": r"$\approx$", "—": "---", "×": r"$\times$", "^": r"\textasciicircum{}", "−": "$-$", "|": r"\textbar{}"}
_LATEX |= {sign: f"\\{sign}" for sign in "&%$#_{}"}
_LATEX |= {"λ": r"$\lambda$", "γ": r"$\gamma$", "°": r"$^\circ$"}


def _escape(text: object) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in _typeset(text))


def about(group: list[Run]) -> list[Cell]:
    """Return what every table says of the runs behind a row."""
    info = group[0].info
    return [
        ("parameters", "Parameters", info["parameters"], f"{info['parameters']:,}"),
        ("epochs", "Epochs", group[0].settings["training"]["epochs"]),
        ("seeds", "Seeds", len(group)),
        ("data_kind", "", info["sets"]["kind"]),
        ("data_share", "", info["sets"]["share"]),
        ("scale", "", info["spec"]["scale"]),
    ]
