"""Which source files a job depends on. Snakemake does not see what Python imports, so this reads it off the source."""

import ast
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[1]
# They say which data sets and experiments there are; one more changes no result of the others.
_REGISTRIES = {"equiset", "equiset.data", "equiset.experiments"}


def sources_of(*modules: str) -> list[str]:
    """Return the files of some modules of equiset and of all that they import from it, below the project's folder."""
    found: set[str] = set()
    open_ends = list(modules)
    while open_ends:
        module = open_ends.pop()
        if module not in found and module not in _REGISTRIES:
            found.add(module)
            open_ends.extend(_imports(module))
    return sorted(f"src/{_file(module).relative_to(_ROOT).as_posix()}" for module in found)


@cache
def _imports(module: str) -> frozenset[str]:
    names = set()
    for node in ast.walk(ast.parse(_file(module).read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            # `from package import name` means a module of the package, or something that the package itself holds.
            full_names = (f"{node.module}.{alias.name}" for alias in node.names)
            names |= {name if _file(name) else node.module for name in full_names}
    return frozenset(name for name in names if name.split(".")[0] == "equiset")


def _file(module: str) -> Path | None:
    path = _ROOT.joinpath(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file
    return None
