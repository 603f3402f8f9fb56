"""The code that a result depends on, as one short text. When it changes, a job is repeated or a checkpoint put aside.

The fingerprint of a module is its syntax tree, without comments and docstrings, and the data file of its name if it has
one, together with those of all modules of equiset that it imports. Snakemake does not see what Python imports, so this
reads it off the source. Left out is `PLUMBING`; a module that is not named there counts.
"""

import ast
import hashlib
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[1]

PLUMBING = {
    # They say which data sets and experiments there are; one more changes no result of the others.
    "equiset": "names the library's layers",
    "equiset.data": "names the data sets",
    "equiset.experiments": "names the experiments",
    # What they declare reaches a job by value, in its spec. A test sees to it that they compute nothing.
    **{
        ".".join(path.relative_to(_ROOT).with_suffix("").parts): "declares settings"
        for path in sorted(_ROOT.glob("equiset/**/*settings.py"))
    },
    "equiset.data.source": "declares what all data sets have in common",
    "equiset.experiments.base": "declares what all experiments have in common; `make_sets` names it, see there",
    "equiset.roles": "declares what a variant is in tables",
    # How raw files come here. What has come is checked, and identified in the manifest by its content.
    "equiset.data.archive": "unpacks",
    "equiset.data.download": "downloads",
    "equiset.data.inventory": "tells by size and time which files to read, and returns their digests",
    "equiset.data.mnist_wheel": "downloads, and compares with MNIST's checksums",
    "equiset.data.partial": "keeps what has arrived",
    # What every program needs around its work.
    "equiset.errors": "the type of an error",
    "equiset.files": "whole files, and digests; a test holds those that seeds are made of",
    "equiset.fingerprint": "this",
    "equiset.given": "checks what a stage is given",
    "equiset.launch": "starts processes",
    "equiset.masking": "hides passwords",
    "equiset.occupancy": "locks",
    "equiset.parquet": "reads a table, or says why not",
    "equiset.placement": "chooses among GPUs",
    "equiset.process": "logs, and keeps freed memory",
    "equiset.progress": "tells how far a training is",
    "equiset.provenance": "notes versions and machine",
}
"""The modules that change no result, and what they do. A module that is asked for by its name counts all the same."""


@cache
def fingerprint(*modules: str, without: str | None = None) -> str:
    """Return what identifies the code of some modules and of all that they import from equiset.

    Args:
        modules: their full names.
        without: a package whose modules do not count.
    """
    contents = {module: _read(_file(module))[0] for module in modules_of(*modules, without=without)}
    return hashlib.sha256(repr(sorted(contents.items())).encode()).hexdigest()[:32]


def modules_of(*modules: str, without: str | None = None) -> set[str]:
    """Return the names of the modules that a fingerprint is made of."""
    found: set[str] = set()
    open_ends = list(modules)
    while open_ends:
        module = open_ends.pop()
        if module not in found:
            found.add(module)
            imported = _read(_file(module))[1] - PLUMBING.keys()
            open_ends.extend(name for name in imported if not (without and f"{name}.".startswith(f"{without}.")))
    return found


@cache
def _read(file: Path) -> tuple[str, frozenset[str]]:
    """Return what identifies a module's content, and the names of the modules of equiset that it imports."""
    flat: list[str] = []
    imported: set[str] = set()
    open_ends: list[object] = [ast.parse(file.read_text(encoding="utf-8"), str(file))]
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
            if isinstance(node, ast.Import | ast.ImportFrom):
                imported |= _imported_by(node)
        elif isinstance(node, list):
            kept = [item for item in node if not _is_docstring(item)]
            flat.append(f"[{len(kept)}")
            open_ends.extend(kept)
        else:
            flat.append(repr(node))
    # A module's data stand beside it under its name: `modelnet40_official.txt`.
    beside = sorted(path for path in file.parent.glob(f"{file.stem}.*") if path != file)
    flat += [path.suffix + hashlib.sha256(path.read_bytes()).hexdigest() for path in beside]
    return hashlib.sha256("\n".join(flat).encode()).hexdigest(), frozenset(imported)


def _is_docstring(node: object) -> bool:
    """Say whether a node is a text that stands alone: of a module, a class, a function, or below a field."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _imported_by(node: ast.Import | ast.ImportFrom) -> set[str]:
    if isinstance(node, ast.Import):
        names = {alias.name for alias in node.names}
    else:
        # `from package import name` means a module of the package, or something that the package itself holds.
        full_names = (f"{node.module}.{alias.name}" for alias in node.names)
        names = {name if _file(name) else str(node.module) for name in full_names}
    return {name for name in names if name.split(".")[0] == "equiset"}


def _file(module: str) -> Path | None:
    path = _ROOT.joinpath(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file
    return None
