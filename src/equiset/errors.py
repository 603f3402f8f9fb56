"""The one exception that means: something outside the code is wrong, and the message says what to do."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

Value = TypeVar("Value")


class EquisetError(Exception):
    """A fault that the user can mend. The message names the file or the key, and the remedy.

    Stages print it as a single line and exit with code 1; a traceback means a bug in equiset.
    """


class DamagedError(EquisetError):
    """A file or folder of the workflow's own is not what it wrote."""

    def __init__(self, path: str | Path, what: str) -> None:
        super().__init__(f"{path} {what}")
        self.path = Path(path)


class MissingFileError(EquisetError):
    """A file or folder of the workflow's own is not there."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is not there. Run snakemake again: it makes what is missing")
        self.path = path


def choose(options: Mapping[str, Value], name: str, what: str) -> Value:
    """Return one of several things by its name, or say which there are."""
    if name not in options:
        raise EquisetError(f"there is no {what} {name!r}; there are: {', '.join(options) or 'none'}")
    return options[name]
