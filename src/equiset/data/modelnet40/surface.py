"""Draws points from the surface of a mesh, uniformly by area."""

from typing import NamedTuple

import numpy as np

_LARGEST = 1e150  # a coordinate whose square can be added up


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
    # Coordinate by coordinate and corner by corner: contiguous gathers are several times faster than rows of three.
    axes, corners = np.ascontiguousarray(vertices.T), np.ascontiguousarray(triangles.T)
    used = np.zeros(len(vertices), dtype=bool)
    for corner in corners:
        used[corner] = True
    spanned = axes if used.all() else axes[:, used]
    low, high = spanned.min(axis=1), spanned.max(axis=1)
    largest = max(abs(low).max(), abs(high).max())
    if largest > _LARGEST:
        raise ValueError(f"the coordinates are too large: up to {largest:.3g}")
    centre, scale = low / 2 + high / 2, float((high - low).max() / 2)
    if not scale > 0:
        raise ValueError("all corners of faces are the same point")
    # In its own frame a mesh far from the origin, or one in odd units, loses nothing in float32.
    axes = (axes - centre[:, None]) / scale
    edges = np.cumsum(_areas(axes, corners))
    if not edges[-1] > 1e-12:
        raise ValueError("the surface has no area: all faces are degenerate")
    draw = _spread_evenly if poisson_disk else _draw
    return Cloud(draw(axes, corners, edges, count, rng), centre, scale, float(edges[-1]) * scale**2)


def _areas(axes: np.ndarray, corners: np.ndarray) -> np.ndarray:
    sides = []
    for axis in axes:
        start, one, other = (axis.take(corner) for corner in corners)
        sides.append((one - start, other - start))
    (ax, bx), (ay, by), (az, bz) = sides
    x, y, z = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
    return np.sqrt(x * x + y * y + z * z) / 2


def _draw(axes: np.ndarray, corners: np.ndarray, edges: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw points; `edges` is the running sum of the areas."""
    face = np.searchsorted(edges, rng.random(count) * edges[-1], side="right").clip(max=len(edges) - 1)
    one, other = rng.random((2, count))
    # Points of the parallelogram beyond the triangle are turned back into it.
    beyond = one + other > 1
    one, other = np.where(beyond, 1 - one, one), np.where(beyond, 1 - other, other)
    hit = [corner.take(face) for corner in corners]
    points = np.empty((count, 3), dtype=np.float32)
    for column, axis in zip(points.T, axes, strict=True):
        start, second, third = (axis.take(corner) for corner in hit)
        column[:] = start + one * (second - start) + other * (third - start)
    return points


def _spread_evenly(
    axes: np.ndarray, corners: np.ndarray, edges: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw Poisson-disk samples with pymeshlab, in random order.

    The filter misses the number that it is asked for. It is asked for more, and what is left over is dropped at
    random.
    """
    import pymeshlab  # takes long to import, and is seldom needed

    asked = count + count // 4 + 16
    while True:
        meshes = pymeshlab.MeshSet(verbose=False)
        meshes.add_mesh(pymeshlab.Mesh(axes.T.copy(), corners.T.astype(np.int32)))
        meshes.generate_sampling_poisson_disk(samplenum=asked, exactnumflag=False)
        points = meshes.current_mesh().vertex_matrix()
        if len(points) >= count:
            return points[rng.permutation(len(points))[:count]].astype(np.float32)
        asked += asked // 2
