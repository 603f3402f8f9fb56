"""Puts meshes together from boxes, cylinders, balls, rings and turned profiles of random proportions."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

Mesh = tuple[np.ndarray, np.ndarray]
"""Vertices (float64, n x 3) and triangles (int64, m x 3)."""
Range = tuple[float, float]
_MIRRORS: dict[str, list[tuple[int, int, int]]] = {
    "": [],
    "x": [(-1, 1, 1)],
    "y": [(1, -1, 1)],
    "xy": [(-1, 1, 1), (1, -1, 1), (-1, -1, 1)],
}


class Parts:
    """The parts of one mesh.

    Every part is placed by the middle and the width, depth and height of the box that it fills before it is turned, and
    takes these options:

    - `mirror`: "x", "y" or "xy" adds its mirror images;
    - `chance`: how likely it is there at all. A number is drawn for it in any case, so that making one part optional
      leaves the others as they are;
    - `rx`, `ry`, `rz`: degrees by which it is turned about x, then y, then z;
    - `top`, `topy`: how much wider and deeper its upper end is; `lean`, `leany`: how far that end is shifted.

    An option that is a range is drawn from it.
    """

    def __init__(self, rng: np.random.Generator):
        self.rng = rng
        self._meshes: list[Mesh] = []
        self._decided = False

    def draw(self, *ranges: Range) -> tuple:
        """Draw proportions: from ranges of ints whole numbers, both ends included, from others any number."""
        return tuple(
            int(self.rng.integers(low, high + 1)) if isinstance(low, int) else self.uniform(low, high)
            for low, high in ranges
        )

    def uniform(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def repeat(self, times: int, chance: float = 1.0) -> Iterator[int]:
        """Count the repetitions of parts; whether they are there is decided once for all of them."""
        if self.rng.random() < chance:
            self._decided = True
            yield from range(times)
            self._decided = False

    def box(self, *place: float, **options: Any) -> None:
        self._add(lambda: _box(int(self.rng.integers(1, 4))), place, options)

    def cyl(self, *place: float, **options: Any) -> None:
        self._add(lambda: self._turned((0, 1, 1, 0), (0, 0, 1, 1)), place, {"topy": options.get("top", 1.0), **options})

    def lathe(self, *place: float, radii: Sequence[float], heights: Sequence[float], **options: Any) -> None:
        """Turn a profile about z: radii relative to half the width, heights from 0 to 1."""
        self._add(lambda: self._turned(radii, heights), place, options)

    def ball(self, *place: float, **options: Any) -> None:
        def shape() -> Mesh:
            angle = np.linspace(0, np.pi, int(self.rng.integers(6, 12)))
            return self._turned(np.sin(angle), (1 - np.cos(angle)) / 2)

        self._add(shape, place, options)

    def dome(self, *place: float, **options: Any) -> None:
        """The upper half of a ball."""

        def shape() -> Mesh:
            angle = np.linspace(0, np.pi / 2, int(self.rng.integers(4, 8)))
            return self._turned(np.cos(angle), np.sin(angle))

        self._add(shape, place, options)

    def ring(self, *place: float, tube: float = 0.2, **options: Any) -> None:
        """A torus; `tube` is its thickness."""
        angle = np.linspace(0, 2 * np.pi, 9)
        self.lathe(*place, radii=1 - tube * (1 - np.cos(angle)), heights=(1 + np.sin(angle)) / 2, **options)

    def mesh(self) -> Mesh:
        """Return all parts as one mesh."""
        return _joined(self._meshes)

    def _add(self, shape: Callable[[], Mesh], place: Sequence[float], options: dict[str, Any]) -> None:
        chance = options.pop("chance", 1.0)
        if not self._decided and self.rng.random() >= chance:
            return
        options = {key: self.uniform(*value) if isinstance(value, tuple) else value for key, value in options.items()}
        mirror = options.pop("mirror", "")
        angles = [options.pop(key, 0.0) for key in ("rx", "ry", "rz")]
        vertices, triangles = shape()
        share = vertices[:, 2] + 0.5  # of the change that the upper end gets
        for axis, (scale, lean) in enumerate((("top", "lean"), ("topy", "leany"))):
            vertices[:, axis] *= 1 + share * (options.pop(scale, 1.0) - 1)
            vertices[:, axis] += share * options.pop(lean, 0.0)
        if options:
            raise TypeError(f"a part has no option {', '.join(options)}")
        vertices = vertices * place[3:] @ turn(*angles) + place[:3]
        self._meshes.append((vertices, triangles))
        self._meshes += [(vertices * signs, triangles[:, ::-1]) for signs in _MIRRORS[mirror]]

    def _turned(self, radii: Sequence[float], heights: Sequence[float]) -> Mesh:
        sides = int(self.rng.integers(10, 25))
        angle = 2 * np.pi * np.arange(sides) / sides
        circle = np.stack([np.cos(angle), np.sin(angle)], axis=1) / 2
        vertices = np.empty((len(radii), sides, 3))
        vertices[..., :2] = np.asarray(radii, float)[:, None, None] * circle
        vertices[..., 2] = np.asarray(heights, float)[:, None] - 0.5
        return vertices.reshape(-1, 3), _grid(len(radii), sides, wrap=True)


def turn(rx: float = 0.0, ry: float = 0.0, rz: float = 0.0) -> np.ndarray:
    """Return the matrix that turns rows about x, then y, then z, by degrees."""
    matrix = np.eye(3)
    for axis, degrees in enumerate((rx, ry, rz)):
        if degrees:
            angle = math.radians(degrees)
            one, other = (axis + 1) % 3, (axis + 2) % 3
            about = np.eye(3)
            about[one, one] = about[other, other] = math.cos(angle)
            about[one, other], about[other, one] = math.sin(angle), -math.sin(angle)
            matrix = matrix @ about
    return matrix


def _box(cells: int) -> Mesh:
    """Return a unit cube with so many cells along each edge."""
    line = np.linspace(-0.5, 0.5, cells + 1)
    one, other = (axis.ravel() for axis in np.meshgrid(line, line, indexing="ij"))
    triangles, sides = _grid(cells + 1, cells + 1), []
    for axis in range(3):
        for end in (-0.5, 0.5):
            side = np.empty((len(one), 3))
            side[:, axis], side[:, (axis + 1) % 3], side[:, (axis + 2) % 3] = end, one, other
            sides.append((side, triangles if end > 0 else triangles[:, ::-1]))
    return _joined(sides)


def _grid(rows: int, columns: int, wrap: bool = False) -> np.ndarray:
    """Return the triangles of a rows x columns grid of points, the last column joined to the first with `wrap`."""
    row, column = np.meshgrid(np.arange(rows - 1), np.arange(columns if wrap else columns - 1), indexing="ij")
    a, b = row * columns + column, row * columns + (column + 1) % columns
    quads = np.stack([a, b, b + columns, a + columns], axis=-1).reshape(-1, 4)
    return quads[:, [0, 1, 2, 0, 2, 3]].reshape(-1, 3)


def _joined(meshes: list[Mesh]) -> Mesh:
    starts = np.cumsum([0, *(len(vertices) for vertices, _ in meshes)])
    triangles = [part + start for (_, part), start in zip(meshes, starts, strict=False)]
    return np.concatenate([vertices for vertices, _ in meshes]), np.concatenate(triangles)
