"""A stand-in for ModelNet40: furniture, vehicles and vessels put together from boxes, turned profiles and balls.

`modelnet40_families` says how each class is built. A mesh gets random proportions, parts and tessellation, a random
heading and unit of length, and some of the quirks of the real files: a header joined with its counts, CRLF line
ends, degenerate and repeated faces, unreferenced vertices, polygons of four corners.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from equiset.data.modelnet40 import STAND_IN
from equiset.data.modelnet40 import stand_in_families as modelnet40_families
from equiset.data.modelnet40.stand_in_arithmetic import compiled
from equiset.files import atomic_path

DESCRIPTION = "stand-in for ModelNet40: meshes of 40 parametric families with its class names"

Mesh = tuple[np.ndarray, np.ndarray]
Number = Callable[[Mapping[str, Any]], Any]
"""An expression of the proportions."""
_PART = re.compile(r"(?P<shape>[a-z]+)(?P<mirror>\*[xy]+)?(?:\?(?P<chance>[^@]+))?(?:@(?P<copies>.+))?")
_FUNCTIONS = {"cos": math.cos, "sin": math.sin, "hypot": math.hypot, "atan2": math.atan2}
_FUNCTIONS["sign"] = lambda x: (x > 0) - (x < 0)


class Part(NamedTuple):
    shape: str
    mirrors: str
    chance: Number | None
    copies: Number | None
    numbers: list[Number]
    """Position and size."""
    options: dict[str, list[Number]]


class Family(NamedTuple):
    proportions: list[tuple[str, str]]
    parts: list[Part]


def families() -> dict[str, Family]:
    """Read `FAMILIES`."""
    found = {}
    for paragraph in modelnet40_families.FAMILIES.strip().split("\n\n"):
        head, *lines = paragraph.splitlines()
        name, proportions = head.split(":", 1)
        pairs = [tuple(pair.split("=", 1)) for pair in proportions.split()]
        found[name] = Family(pairs, [_part(line) for line in lines])
    return found


def _part(line: str) -> Part:
    first, *words = line.split()
    match = _PART.fullmatch(first)
    options = {
        key: [compiled(text) for text in re.split(r",(?![^(]*\))", value)]
        for key, value in (word.split("=", 1) for word in words[6:])
    }
    chance, copies = (compiled(match[key]) if match[key] else None for key in ("chance", "copies"))
    return Part(
        match["shape"], (match["mirror"] or "").lstrip("*"), chance, copies, list(map(compiled, words[:6])), options
    )


def build(family: Family, rng: np.random.Generator) -> Mesh:
    """Return the vertices and triangles of one member of a family."""
    names: dict[str, Any] = {**_FUNCTIONS, "u": rng.uniform}
    for name, value in family.proportions:
        if ".." in value:
            low, high = map(int, value.split(".."))
            names[name] = int(rng.integers(low, high + 1))
        elif ":" in value:
            names[name] = float(rng.uniform(*map(float, value.split(":"))))
        else:
            names[name] = compiled(value)(names)
    meshes = [mesh for part in family.parts for mesh in _made(part, names, rng)]
    return _joined(meshes)


def _made(part: Part, names: dict[str, Any], rng: np.random.Generator) -> Iterator[Mesh]:
    # The chance is drawn whether or not the part has one, so that one part's options do not shift all others.
    if rng.random() >= (1 if part.chance is None else part.chance(names)):
        return
    for i in range(1 if part.copies is None else int(part.copies(names))):
        names["i"] = i
        x, y, z, *size = (number(names) for number in part.numbers)
        options = {key: [value(names) for value in values] for key, values in part.options.items()}
        vertices, triangles = SHAPES[part.shape](options, rng)
        vertices = vertices * size @ _turn(options) + (x, y, z)
        yield vertices, triangles
        for axes in {"": (), "x": ("x",), "y": ("y",), "xy": ("x", "y", "xy")}[part.mirrors]:
            mirrored = vertices * [-1 if axis in axes else 1 for axis in "xyz"]
            yield mirrored, triangles[:, ::-1]


def _turn(options: dict[str, list[float]]) -> np.ndarray:
    """Return the matrix that turns rows about x, then y, then z."""
    matrix = np.eye(3)
    for axis, name in enumerate(("rx", "ry", "rz")):
        if name in options:
            angle = math.radians(options[name][0])
            cos, sin = math.cos(angle), math.sin(angle)
            one, other = (axis + 1) % 3, (axis + 2) % 3
            turn = np.eye(3)
            turn[one, one] = turn[other, other] = cos
            turn[one, other], turn[other, one] = sin, -sin
            matrix = matrix @ turn
    return matrix


def _joined(meshes: list[Mesh]) -> Mesh:
    starts = np.cumsum([0, *(len(vertices) for vertices, _ in meshes)])
    triangles = [part + start for (_, part), start in zip(meshes, starts, strict=False)]
    return np.concatenate([vertices for vertices, _ in meshes]), np.concatenate(triangles)


# Shapes fill the cube from -1/2 to 1/2.


def _grid(rows: int, columns: int, wrap: bool = False) -> np.ndarray:
    """Return the triangles of a rows x columns grid of points, the last column joined to the first with `wrap`."""
    row, column = np.meshgrid(np.arange(rows - 1), np.arange(columns if wrap else columns - 1), indexing="ij")
    a, b = row * columns + column, row * columns + (column + 1) % columns
    quads = np.stack([a, b, b + columns, a + columns], axis=-1).reshape(-1, 4)
    return quads[:, [0, 1, 2, 0, 2, 3]].reshape(-1, 3)


def _shape_ends(vertices: np.ndarray, options: dict[str, list[float]]) -> np.ndarray:
    """Scale and shift each height of a shape, from nothing at its lower to everything at its upper end."""
    share = vertices[:, 2] + 0.5
    for axis, (scale, lean) in enumerate((("top", "lean"), ("topy", "leany"))):
        scale_to = options.get(scale, options.get("top", [1.0]) if "round" in options else [1.0])[0]
        vertices[:, axis] *= 1 + share * (scale_to - 1)
        vertices[:, axis] += share * options.get(lean, [0.0])[0]
    return vertices


def _box(options: dict[str, list[float]], rng: np.random.Generator) -> Mesh:
    cells = int(rng.integers(1, 4))
    line = np.linspace(-0.5, 0.5, cells + 1)
    one, other = (axis.ravel() for axis in np.meshgrid(line, line, indexing="ij"))
    triangles, sides = _grid(cells + 1, cells + 1), []
    for axis in range(3):
        for end in (-0.5, 0.5):
            side = np.empty((len(one), 3))
            side[:, axis], side[:, (axis + 1) % 3], side[:, (axis + 2) % 3] = end, one, other
            sides.append((side, triangles if end > 0 else triangles[:, ::-1]))
    vertices, triangles = _joined(sides)
    return _shape_ends(vertices, options), triangles


def _turned(
    radii: list[float], heights: list[float], options: dict[str, list[float]], rng: np.random.Generator
) -> Mesh:
    """Turn a profile about z: radii relative to half the width, heights from 0 to 1."""
    sides = int(options.get("seg", [rng.integers(10, 25)])[0])
    angle = 2 * np.pi * np.arange(sides) / sides
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1) / 2
    vertices = np.empty((len(radii), sides, 3))
    vertices[..., :2] = np.asarray(radii, float)[:, None, None] * circle
    vertices[..., 2] = np.asarray(heights, float)[:, None] - 0.5
    return vertices.reshape(-1, 3), _grid(len(radii), sides, wrap=True)


def _cyl(options: dict[str, list[float]], rng: np.random.Generator) -> Mesh:
    vertices, triangles = _turned([0, 1, 1, 0], [0, 0, 1, 1], options, rng)
    return _shape_ends(vertices, {**options, "round": [1.0]}), triangles


def _lathe(options: dict[str, list[float]], rng: np.random.Generator) -> Mesh:
    return _turned(options["r"], options["z"], options, rng)


def _ball(options: dict[str, list[float]], rng: np.random.Generator) -> Mesh:
    angle = np.linspace(0, np.pi, int(rng.integers(6, 12)))
    return _turned(np.sin(angle), (1 - np.cos(angle)) / 2, options, rng)


def _dome(options: dict[str, list[float]], rng: np.random.Generator) -> Mesh:
    angle = np.linspace(0, np.pi / 2, int(rng.integers(4, 8)))
    return _turned(np.cos(angle), np.sin(angle), options, rng)


def _ring(options: dict[str, list[float]], rng: np.random.Generator) -> Mesh:
    angle = np.linspace(0, 2 * np.pi, 9)
    thickness = options.get("tube", [0.2])[0]
    return _turned(1 - thickness * (1 - np.cos(angle)), (1 + np.sin(angle)) / 2, options, rng)


SHAPES: dict[str, Callable[[dict[str, list[float]], np.random.Generator], Mesh]] = {
    "box": _box,
    "cyl": _cyl,
    "ball": _ball,
    "dome": _dome,
    "ring": _ring,
    "lathe": _lathe,
}


def draw(family: Family, rng: np.random.Generator) -> Mesh:
    """Return one mesh as it lies in a file: with a heading, a place and a unit of length of its own."""
    vertices, triangles = build(family, rng)
    stretch = np.exp(rng.normal(0, 0.1, 3))
    # Most real meshes are aligned, not all of them: a few look another way.
    heading = rng.normal(0, 4) + 90 * int(rng.choice(4, p=[0.82, 0.06, 0.06, 0.06]))
    vertices = vertices * stretch @ _turn({"rz": [heading]})
    # Bent a little, smoothly, as no two makers draw the same curve.
    size = np.ptp(vertices, axis=0).max()
    wave, phase = rng.normal(0, 2 / size, (3, 3)), rng.uniform(0, 2 * np.pi, 3)
    vertices = vertices + 0.02 * size * np.sin(vertices @ wave + phase)
    return vertices * 10 ** rng.uniform(-1, 2.5) + rng.normal(0, 5, 3), triangles


def as_off(vertices: np.ndarray, triangles: np.ndarray, rng: np.random.Generator) -> bytes:
    """Return the bytes of an OFF file, with the quirks that some real files have."""
    joined, crlf, repeated, unused, quads = rng.random(5) < (0.15, 0.1, 0.1, 0.1, 0.05)
    if repeated:  # and degenerate
        again = triangles[rng.integers(len(triangles), size=4)]
        triangles = np.concatenate([triangles, again, again[:, [0, 0, 1]]])
    if unused:
        vertices = np.concatenate([vertices, vertices[:3] + 1])
    if quads:  # pairs of triangles 0 1 2, 0 2 3 become one face; all shapes are made of such pairs
        pairs = triangles[: len(triangles) // 2 * 2].reshape(-1, 6)
        faces = [_face(row) for row in pairs.tolist()] + [f"3 {a} {b} {c}" for a, b, c in triangles[len(pairs) * 2 :]]
        body, count = "\n".join(faces) + "\n", sum(face.count("\n") + 1 for face in faces)
    else:
        body, count = "3 %d %d %d\n" * len(triangles) % tuple(triangles.ravel().tolist()), len(triangles)
    head = f"OFF{'' if joined else chr(10)}{len(vertices)} {count} 0\n"
    text = head + "%.6f %.6f %.6f\n" * len(vertices) % tuple(vertices.ravel().tolist()) + body
    return (text.replace("\n", "\r\n") if crlf else text).encode()


def _face(pair: list[int]) -> str:
    a, b, c, d, e, f = pair
    if (a, c) == (d, e):
        return f"4 {a} {b} {c} {f}"
    return f"3 {a} {b} {c}\n3 {d} {e} {f}"


def write(folder: Path, sizes: dict[str, tuple[int, int]], seed: int) -> None:
    """Write the meshes as `<class>/{train,test}/<class>_0001.off`, numbered through both splits, as the real ones."""
    table = families()
    with atomic_path(folder) as partial:
        for number, (name, (train, test)) in enumerate(sorted(sizes.items())):
            for split, first, count in (("train", 0, train), ("test", train, test)):
                (partial / name / split).mkdir(parents=True)
                for index in range(first, first + count):
                    rng = np.random.default_rng([seed, number, split == "test", index - first])
                    path = partial / name / split / f"{name}_{index + 1:04}.off"
                    path.write_bytes(as_off(*draw(table[name], rng), rng))
        (partial / STAND_IN).write_text(f"{DESCRIPTION}\nSeed {seed}.\n", encoding="utf-8")
