"""The code that a result depends on, as one short text. When it changes, a job is repeated, a checkpoint not used.

Snakemake does not see what Python imports, so each rule names folders of the package. Their syntax trees count, without
comments, docstrings, imports and names of modules: words may be corrected, and modules moved within a folder.
"""

import ast
import hashlib
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parent
_NOT_TRAINING = ("sets.py", "measures.py", "analyses.py", "results.py", "about.py", "predict.py")
"""Modules of an experiment that act before or after a training."""


@cache
def fingerprint(*patterns: str) -> str:
    """Return what identifies the code of some files of the package, in whatever modules it stands.

    Args:
        patterns: paths below the package, such as `nn/*` or `data/mnist/*`; those with `!` in front are left out.
    """
    files: set[Path] = set()
    for pattern in patterns:
        found = {path for path in _ROOT.glob(pattern.removeprefix("!")) if path.is_file() and path.suffix != ".pyc"}
        if not found:
            raise ValueError(f"no file of the package matches {pattern!r}")
        files = files - found if pattern.startswith("!") else files | found
    contents = sorted(content for file in files if (content := _content(file)))
    return hashlib.sha256("\n".join(contents).encode()).hexdigest()[:32]


def training_code(experiment: str) -> str:
    """Return what identifies the code that a training of an experiment runs."""
    folder = f"experiments/{experiment}"
    elsewhere = [f"!{folder}/{name}" for name in _NOT_TRAINING if (_ROOT / folder / name).exists()]
    return fingerprint("nn/*", "training/*", "!training/provenance.py", f"{folder}/*", *elsewhere)


@cache
def _content(file: Path) -> str:
    """Return what identifies the content of a file; nothing if it only imports."""
    if file.suffix != ".py":
        return hashlib.sha256(file.read_bytes()).hexdigest()
    tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    if not any(map(_counts, tree.body)):
        return ""
    flat: list[str] = []
    open_ends: list[object] = [tree]
    # All nodes, fields and values in one fixed order. `ast.dump` takes twice as long, and all modules are read whenever
    # Snakemake starts.
    while open_ends:
        node = open_ends.pop()
        if isinstance(node, ast.AST):
            flat.append(type(node).__name__)
            for field in node._fields:
                value = getattr(node, field, None)
                # Python's versions differ in fields that are empty.
                if value is not None and value != []:
                    flat.append(field)
                    open_ends.append(value)
        elif isinstance(node, list):
            kept = [item for item in node if _counts(item)]
            flat.append(f"[{len(kept)}")
            open_ends.extend(kept)
        else:
            flat.append(repr(node))
    return hashlib.sha256("\n".join(flat).encode()).hexdigest()


def _counts(node: object) -> bool:
    """Say whether a node is neither an import nor a text that stands alone: a docstring, also one below a field."""
    if isinstance(node, ast.Expr):
        return not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str))
    return not isinstance(node, ast.Import | ast.ImportFrom)
