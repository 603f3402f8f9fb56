"""Tables as a paper would have them: set by a real pdflatex, if there is one."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

PAGE = r"""\documentclass{article}
%s
\begin{document}
%s
\end{document}
"""


def overfull_boxes(tables: list[Path], folder: Path) -> list[str]:
    """Set tables in a plain article, and return what stuck out of its text. Skips the test where LaTeX is missing."""
    if shutil.which("pdflatex") is None:
        pytest.skip("no pdflatex here: LaTeX tables were not set (Debian: apt install texlive-latex-recommended)")
    preambles = {re.search(r"^% In the preamble: (.*)$", path.read_text(), re.MULTILINE)[1] for path in tables}
    parts = [rf"\typeout{{Table {path}}}\input{{{path}}}\clearpage" for path in tables]
    (folder / "tables.tex").write_text(PAGE % ("\n".join(sorted(preambles)), "\n".join(parts)))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "tables.tex"]
    for _ in range(2):  # a long table learns the widths of its columns
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=300)
        assert done.returncode == 0, done.stdout[-3000:]
    return re.findall(r"^(?:Overfull|Missing character).*|^Table .*(?=\nOverfull)", done.stdout, re.MULTILINE)
