"""Which meshes ModelNet40 has: names, split, and the numbers of vertices and triangles.

The table beside this module has a line for each class: its name, the numbers of its training and of its test meshes,
and of each mesh `vertices,triangles`, or `-` where they are not known. Meshes are numbered from 1 through both parts.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from equiset.data.manifest import of_the_paper

_TABLE = files("equiset.data.modelnet40").joinpath("official.txt").read_text(encoding="utf-8")
_LINES = [line.split(" ", 3) for line in _TABLE.splitlines()]

CLASS_SIZES = {name: (int(train), int(test)) for name, train, test, _ in _LINES}
"""Meshes of each class for training and test."""
MESHES = sum(map(sum, CLASS_SIZES.values()))


class Counts(NamedTuple):
    """What a mesh consists of."""

    vertices: int | None
    """None if its format repeats them for every triangle."""
    triangles: int


@cache
def official() -> dict[str, Counts | None]:
    """Return what is known of every mesh by its name `<class>/<split>/<class>_<number>`."""
    found: dict[str, Counts | None] = {}
    for name, train, _, meshes in _LINES:
        for number, mesh in enumerate(meshes.split(), 1):
            split = "train" if number <= int(train) else "test"
            counts = None if mesh == "-" else Counts(*map(int, mesh.split(",")))
            found[f"{name}/{split}/{name}_{number:04}"] = counts
    return found


def name_of(file: str) -> str:
    """Return the name of a mesh, `<class>/<split>/<name>`, whatever its format."""
    return str(PurePosixPath(file).with_suffix(""))


def is_official(name: str, counts: Counts | None) -> bool:
    """Say whether a mesh is ModelNet40's: by its name and, where both are known, by what it consists of."""
    known = official().get(name)
    if known is None or counts is None:
        return name in official()
    return counts in (known, known._replace(vertices=None))


class Recognised(NamedTuple):
    """Whose meshes these are."""

    about: dict[str, Any]
    """`kind`, `share` and `description` for whoever shows results."""
    foreign: list[str]
    """The names of meshes that are not ModelNet40's."""
    absent: list[str]
    """The names of ModelNet40's meshes that are not among these."""


def recognise(meshes: Mapping[str, Counts | None]) -> Recognised:
    """Say whether meshes, by their names, are the whole of ModelNet40, a part of it, or someone's own."""
    foreign = [name for name, counts in meshes.items() if not is_official(name, counts)]
    absent = [name for name in official() if name not in meshes]
    if foreign:
        classes = len({name.split("/")[0] for name in meshes})
        text = f"user meshes in the layout of ModelNet40, {classes} classes"
        return Recognised({"kind": "own", "share": 0.0, "description": text}, foreign, absent)
    return Recognised(of_the_paper("ModelNet40", len(meshes), MESHES, "meshes"), foreign, absent)


def some(names: Iterable[str], most: int = 5) -> str:
    """Return the first few names as a text."""
    names = list(names)
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
