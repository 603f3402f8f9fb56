"""Draws points from the surface of a mesh, uniformly by area."""

from typing import NamedTuple

import numpy as np

_SIDES = (("min", np.inf), ("max", -np.inf))


class Cloud(NamedTuple):
    """Points of a surface in a frame of its own: the mesh's bounding box is centred, its longest side is 2."""

    points: np.ndarray
    """float32, n x 3."""
    centre: np.ndarray
    """Middle of the bounding box, in the units of the mesh."""
    scale: float
    """Half of the longest side of the bounding box, in the units of the mesh: mesh = centre + scale * points."""
    area: float
    """Of the surface, in the units of the mesh."""


def sample_surface(
    vertices: np.ndarray, triangles: np.ndarray, count: int, rng: np.random.Generator, poisson_disk: bool = False
) -> Cloud:
    """Draw `count` points; raise `ValueError` if the surface has no area.

    A triangle is hit in proportion to its area, and every point of it is equally likely. A face that is listed twice
    counts twice, as in the point-cloud library's sampling. With `poisson_disk` the points keep a distance from each
    other; see `_spread_evenly`.
    """
    used = np.zeros(len(vertices), dtype=bool)
    used[triangles.ravel()] = True
    low, high = (getattr(vertices, side)(axis=0, where=used[:, None], initial=first) for side, first in _SIDES)
    with np.errstate(over="ignore"):  # what overflows is reported below
        centre, scale = low / 2 + high / 2, float((high - low).max() / 2)
    if not 0 < scale < np.inf:
        raise ValueError("all corners of faces are the same point" if scale == 0 else "the coordinates are too large")
    # In its own frame a mesh far from the origin, or one in odd units, loses nothing in float32.
    framed = (vertices - centre) / scale
    edges = np.cumsum(_areas(framed, triangles))
    if not edges[-1] > 1e-12:
        raise ValueError("the surface has no area: all faces are degenerate")
    if poisson_disk:
        points = _spread_evenly(framed, triangles, count, rng)
    else:
        points = _draw(framed, triangles, edges, count, rng)
    return Cloud(points.astype(np.float32), centre, scale, float(edges[-1]) * scale**2)


def _areas(vertices: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    first, second, third = (np.ascontiguousarray(column) for column in triangles.T)
    # Coordinate by coordinate: contiguous gathers are several times faster than rows of three.
    (ax, ay, az), (bx, by, bz) = zip(
        *((axis[second] - (start := axis[first]), axis[third] - start) for axis in np.ascontiguousarray(vertices.T)),
        strict=True,
    )
    x, y, z = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
    return np.sqrt(x * x + y * y + z * z) / 2


def _draw(
    vertices: np.ndarray, triangles: np.ndarray, edges: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw points; `edges` is the running sum of the areas."""
    face = np.searchsorted(edges, rng.random(count) * edges[-1], side="right").clip(max=len(edges) - 1)
    along = rng.random((2, count, 1))
    # Points of the parallelogram beyond the triangle are turned back into it.
    one, other = np.where(along.sum(axis=0) > 1, 1 - along, along)
    first, second, third = (vertices[corner] for corner in triangles[face].T)
    return first + one * (second - first) + other * (third - first)


def _spread_evenly(vertices: np.ndarray, triangles: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw Poisson-disk samples with pymeshlab, in random order.

    The filter misses the number that it is asked for. It is asked for more, and what is left over is dropped at
    random.
    """
    import pymeshlab  # takes long to import, and is seldom needed

    asked = count + count // 4 + 16
    while True:
        meshes = pymeshlab.MeshSet(verbose=False)
        meshes.add_mesh(pymeshlab.Mesh(vertices, triangles.astype(np.int32)))
        meshes.generate_sampling_poisson_disk(samplenum=asked, exactnumflag=False)
        points = meshes.current_mesh().vertex_matrix()
        if len(points) >= count:
            return points[rng.permutation(len(points))[:count]]
        asked += asked // 2
