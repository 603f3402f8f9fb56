"""Points drawn from surfaces: they lie on them, their density follows the area, and seeds decide them."""

import numpy as np
import pytest
from scipy.stats import chisquare

from equiset.data.modelnet40 import stand_in
from equiset.data.modelnet40.meshes import points_of
from equiset.data.modelnet40.surface import sample_surface
from equiset.errors import EquisetError

FAMILIES = stand_in.FAMILIES


def barycentric(points, corners):
    """Return coordinates of each point in each triangle's plane, and its distance from that plane."""
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    normal = np.cross(b - a, c - a)
    offset = points[:, None] - a
    squared = (normal**2).sum(1)
    v = (np.cross(offset, c - a) * normal).sum(2) / squared
    w = (np.cross(b - a, offset) * normal).sum(2) / squared
    return v, w, np.abs((offset * normal).sum(2)) / np.sqrt(squared)


@pytest.mark.parametrize("name", ["chair", "airplane", "bowl"])
def test_points_lie_on_the_surface(name):
    vertices, triangles = stand_in.draw(FAMILIES[name], np.random.default_rng(1))
    cloud = sample_surface(vertices, triangles, 300, np.random.default_rng(0))
    corners = vertices[triangles]
    areas = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1) / 2
    assert cloud.area == pytest.approx(areas.sum())
    points = cloud.centre + cloud.scale * cloud.points.astype(np.float64)
    v, w, distance = barycentric(points, corners[areas > 1e-9 * areas.max()])
    inside = (v > -1e-4) & (w > -1e-4) & (v + w < 1 + 1e-4)
    size = np.ptp(vertices, axis=0).max()
    assert np.where(inside, distance, np.inf).min(axis=1).max() < 1e-4 * size
    # The frame: the longest side of the bounding box goes from -1 to 1.
    assert np.abs(cloud.points).max() <= 1 + 1e-6


def test_density_follows_area():
    """Triangles in one plane, of very different areas; each is split in four to see the density within it."""
    rng = np.random.default_rng(5)
    sizes = np.array([0.1, 0.5, 1.0, 2.0, 3.0])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1] * 2])
    vertices = np.concatenate([[[s, 0, 0], [s + a, 0, 0], [s, a, 0]] for s, a in zip(starts, sizes, strict=True)])
    cloud = sample_surface(vertices, np.arange(15).reshape(5, 3), 20_000, rng)
    points = cloud.centre + cloud.scale * cloud.points
    which = np.searchsorted(starts, points[:, 0] + 1e-6) - 1
    v, w = ((points[:, axis] - vertices[3 * which, axis]) / sizes[which] for axis in (0, 1))
    quarter = np.select([v > 0.5, w > 0.5, v + w < 0.5], [1, 2, 3], 0)
    counts = np.bincount(4 * which + quarter, minlength=20)
    expected = np.repeat(sizes**2 / (sizes**2).sum() / 4, 4) * len(points)
    assert chisquare(counts, expected).pvalue > 1e-3


def test_degenerate_faces_get_no_points_and_repeated_ones_count_twice():
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [5, 0, 0], [6, 0, 0], [5, 1, 0.0], [99, 99, 99]])
    triangles = np.array([[0, 1, 2], [3, 4, 5], [3, 4, 5], [1, 1, 5], [0, 1, 3]])
    cloud = sample_surface(vertices, triangles, 6000, np.random.default_rng(0))
    x = cloud.centre[0] + cloud.scale * cloud.points[:, 0]
    assert ((x < 1.001) | (x > 4.999)).all()
    assert np.mean(x > 4.9) == pytest.approx(2 / 3, abs=0.03)
    # The unreferenced vertex is no part of the frame.
    assert cloud.scale == pytest.approx(3)


def test_a_mesh_far_from_the_origin_keeps_its_shape():
    vertices, triangles = stand_in.draw(FAMILIES["chair"], np.random.default_rng(1))
    near = sample_surface(vertices, triangles, 100, np.random.default_rng(0)).points
    far = sample_surface(1e-3 * vertices + 1e6, triangles, 100, np.random.default_rng(0)).points
    np.testing.assert_allclose(near, far, atol=1e-5)


@pytest.mark.parametrize(
    ("vertices", "reason"),
    [
        ([[1, 1, 1]] * 3, "same point"),
        ([[0, 0, 0], [1, 1, 1], [2, 2, 2]], "no area"),
        ([[-1e308, 0, 0], [1e308, 0, 0], [0, 1, 0]], "too large"),
        ([[0, 0, 0], [1e300, 0, 0], [0, 1, 0]], r"too large: up to 1e\+300"),
        ([[0, 0, 0], [1e300, 0, 0], [0, 1e300, 0]], r"too large: up to 1e\+300"),
    ],
)
def test_no_surface_no_points(vertices, reason):
    with pytest.raises(ValueError, match=reason):
        sample_surface(np.array(vertices, float), np.array([[0, 1, 2]]), 10, np.random.default_rng(0))


def test_seed_and_name_decide_the_points(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "a.off"
    path.write_bytes(stand_in.as_off(*stand_in.draw(FAMILIES["cup"], rng), rng))
    first = points_of(path, "cup/train/a", 50, 0, "area").cloud.points
    assert (first == points_of(path, "cup/train/a", 50, 0, "area").cloud.points).all()
    assert (first != points_of(path, "cup/train/b", 50, 0, "area").cloud.points).any()
    assert (first != points_of(path, "cup/train/a", 50, 1, "area").cloud.points).any()
    path.write_text("OFF\n3 1 0\n0 0 0\n1e99 0 0\n0 1e99 0\n3 0 1 2\n")
    assert points_of(path, "large", 50, 0, "area").cloud.scale == 5e98
    path.write_text("OFF\n3 1 0\n0 0 0\n1 1 1\n2 2 2\n3 0 1 2\n")
    with pytest.raises(EquisetError, match=r"a\.off: the surface has no area"):
        points_of(path, "a.off", 50, 0, "area")
