"""Meshes in OFF files: the quirks that real ones have are read, the faults are named."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equiset.data.modelnet40.mesh_files import BadMeshError, read_mesh
from equiset.data.modelnet40.off import parse_off

VERTICES = "0 0 0\n1 0 0\n1 1 0\n0 1 0\n"
SQUARE = f"OFF\n4 2 0\n{VERTICES}3 0 1 2\n3 0 2 3\n"
TRIANGLES = [[0, 1, 2], [0, 2, 3]]


@pytest.mark.parametrize(
    "text",
    [
        SQUARE,
        SQUARE.replace("OFF\n", "OFF"),
        SQUARE.replace("OFF\n", "OFF "),
        SQUARE.replace("OFF\n", "off\n"),
        SQUARE.replace("\n", "\r\n"),
        SQUARE.replace("OFF\n", "OFF").replace("\n", "\r\n"),
        SQUARE.rstrip("\n"),
        SQUARE + "\n\n# the end\n",
        "# made by hand\n" + SQUARE,
        SQUARE.replace("4 2 0\n", "# counts\n\n4 2 0 # edges are not counted\n"),
        SQUARE.replace("4 2 0", "4 2"),
        SQUARE.replace("1 1 0\n", "1 1 0\n\n# a comment in the middle\n"),
        SQUARE.replace("1 0 0", "  1\t0   0  "),
        SQUARE.replace("1 0 0", "1.0e0 0.0 -0"),
        f"OFF\n4 1 0\n{VERTICES}4 0 1 2 3\n",
        SQUARE.replace("3 0 1 2\n", "3 0 1 2 255 0 0\n"),
        SQUARE.replace("OFF", "COFF").replace("0\n1 1 0\n", "0\n1 1 0 255 255 0 255\n"),
    ],
)
def test_a_square_in_all_its_spellings(text):
    vertices, triangles = parse_off(text.encode())
    assert vertices.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
    assert triangles.tolist() == TRIANGLES


@pytest.mark.parametrize("more", ["3 0 1 3\n", "# a comment\n\n3 0 1 3", "7 7 7\n", "rubbish"])
@pytest.mark.parametrize("form", [SQUARE, SQUARE.replace("1 0 0", "1  0 0")])
def test_more_lines_than_the_header_promises_are_an_error(form, more):
    with pytest.raises(ValueError, match="more than its header promises, 4 vertices and 2 faces: 7 lines follow"):
        parse_off((form + more).encode())


def test_polygons_become_fans_and_lines_vanish():
    text = "OFF 5 3 0\n0 0 0\n2 0 0\n2 1 0\n1 2 0\n0 1 0\n5 0 1 2 3 4\n2 0 1\n3 0 1 2\n"
    _, triangles = parse_off(text.encode())
    assert triangles.tolist() == [[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 1, 2]]


def test_a_polygon_that_is_not_convex_is_refused():
    corners = "0 0 0\n2 0 0\n2 2 0\n1 2 0\n1 1 0\n0 1 0\n"  # an L, of which a fan would cover four, not three
    with pytest.raises(ValueError, match="face 0 has a corner that points inward; save the mesh as triangles"):
        parse_off(f"OFF\n6 1 0\n{corners}6 3 4 5 0 1 2\n".encode())


def test_degenerate_and_repeated_faces_and_unused_vertices_stay():
    text = f"OFF\n5 4 0\n{VERTICES}9 9 9\n3 0 1 2\n3 0 1 2\n3 1 1 2\n3 0 2 3\n"
    vertices, triangles = parse_off(text.encode())
    assert (len(vertices), len(triangles)) == (5, 4)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the file is empty"),
        ("<!doctype html>", "not an OFF file"),
        ("ply\nformat ascii 1.0\n", "not an OFF file"),
        ("OFF BINARY\n", "not supported"),
        (SQUARE.replace("OFF", "4OFF"), "not supported"),
        ("OFF", "missing or malformed"),
        ("OFF\nfour two\n", "missing or malformed"),
        ("OFF\n-4 2 0\n", "missing or malformed"),
        ("OFF\n99999999999999999999 2 0\n", "absurd"),
        ("OFF\n0 0 0\n", "the mesh is empty"),
        (f"OFF\n4 0 0\n{VERTICES}", "the mesh is empty"),
        ("OFF\n1000000000 1000000000 0\n0 0 0\n", "cut off"),
        (SQUARE[:-9], "cut off"),
        (SQUARE.replace("4 2 0\n", "4 3 0\n") + "# and a comment of some length", "cut off"),
        (SQUARE.replace("1 1 0", "1 nan 0"), "vertex 2 is not finite"),
        (SQUARE.replace("1 1 0", "1 -inf 0"), "vertex 2 is not finite"),
        (SQUARE.replace("1 1 0", "1 1e999 0"), "vertex 2 is not finite"),
        (SQUARE.replace("1 1 0", "1 x 0"), "vertex 2 is malformed"),
        (SQUARE.replace("1 1 0", "1   1"), "vertex 2 is malformed"),
        (SQUARE.replace("3 0 2 3", "3 0 2 4"), "names vertex 4, but there are only the vertices 0 to 3"),
        (SQUARE.replace("3 0 2 3", "3 0 2 -1"), "names vertex -1"),
        (SQUARE.replace("3 0 2 3", "4 0 2 3"), "face 1 is malformed"),
        (SQUARE.replace("3 0 2 3", "3 0 2 99999999999999999999"), "absurd"),
        (SQUARE.replace("3 0 2 3", "3 0 2 1.5"), "face 1 is malformed"),
        (f"OFF\n4 1 0\n{VERTICES}2   0 1\n", "no face has three corners"),
    ],
)
def test_a_fault_is_named_with_the_file(tmp_path, text, reason):
    path = tmp_path / "bad_0001.off"
    path.write_text(text)
    with pytest.raises(BadMeshError, match=reason) as caught:
        read_mesh(path)
    assert "bad_0001.off" in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(BadMeshError, match=r"absent\.off cannot be read"):
        read_mesh(tmp_path / "absent.off")


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.binary(max_size=80) | st.text("OF 0123.-\n#e", max_size=120).map(str.encode))
def test_no_bytes_break_the_reader(tail):
    """Whatever follows the keyword gives a mesh or a reason."""
    try:
        vertices, triangles = parse_off(b"OFF" + tail)
    except ValueError:
        return
    assert np.isfinite(vertices).all()
    assert 0 <= triangles.min() <= triangles.max() < len(vertices)
