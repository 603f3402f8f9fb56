"""Reads meshes in the Object File Format (OFF), with the faults that files in circulation really have.

Most files hold one vertex or one triangle per line, separated by single spaces; pyarrow reads those many times
faster than a mesh library does. Files with comments, blank lines, polygons or colours are read line by line: trimesh
stumbles over polygons of more than four corners, pymeshlab over a header that is joined with its counts.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyarrow import csv

# What a line takes at least: "0 0 0" and "3 0 1 2", each with its end.
_VERTEX_BYTES, _FACE_BYTES = 6, 8
_KEYWORD = re.compile(rb"\s*(?:#[^\n]*\n\s*)*([A-Za-z0-9]*?OFF)[ \t]*(BINARY)?", re.IGNORECASE)
_BLANK_OR_COMMENT = re.compile(rb"(?:[ \t]*(?:#[^\n]*)?\r?\n)*")
_REST = re.compile(rb"(?:[ \t\r\n\0]|#[^\n]*)*")
_COUNTS = re.compile(rb"[ \t]*(\d+)[ \t]+(\d+)(?:[ \t]+-?\d+)?[ \t]*(?:#[^\n]*)?\r?(?:\n|\Z)")


def parse_off(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices (float64, n x 3) and triangles (int64, m x 3) of the bytes of an OFF file.

    Raise `ValueError` with the reason if they cannot be used. Polygons of more than three corners are cut into
    triangles. Degenerate and repeated faces and unreferenced vertices stay as they are: they are harmless to whoever
    draws points by area.
    """
    n_vertices, n_faces, start = _header(content)
    if not n_vertices or not n_faces:
        raise ValueError(f"the mesh is empty: {n_vertices} vertices, {n_faces} faces")
    # Before any memory is taken for what the header merely promises.
    if n_vertices * _VERTEX_BYTES + n_faces * _FACE_BYTES > len(content) - start + 1:
        raise ValueError(
            f"the file is cut off: its header promises {n_vertices} vertices and {n_faces} faces, "
            f"and only {len(content) - start} bytes follow"
        )
    vertices, triangles = _plain(content, start, n_vertices, n_faces) or _general(content, start, n_vertices, n_faces)
    check_mesh(vertices, triangles)
    return vertices, triangles


def _header(content: bytes) -> tuple[int, int, int]:
    """Return the numbers of vertices and faces, and where the lines after the counts begin."""
    keyword = _KEYWORD.match(content)
    if not keyword:
        raise ValueError(f"not an OFF file: it begins with {content[:20]!r}" if content else "the file is empty")
    if keyword[2] or keyword[1].upper() not in (b"OFF", b"COFF"):
        kind = keyword[0].decode("ascii", "replace").strip()
        raise ValueError(f"the variant {kind!r} of the format is not supported; save the mesh as plain text OFF")
    # Many files of ModelNet40 lack the line end here: `OFF490 518 0`.
    counts = _COUNTS.match(content, _BLANK_OR_COMMENT.match(content, keyword.end()).end())
    if not counts:
        raise ValueError("the line with the numbers of vertices and faces is missing or malformed")
    if max(len(counts[1]), len(counts[2])) > 12:
        raise ValueError("the numbers of vertices and faces are absurd")
    return int(counts[1]), int(counts[2]), counts.end()


def _plain(content: bytes, start: int, n_vertices: int, n_faces: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Read one vertex or triangle per line, separated by single spaces; None if the file is not of that kind."""
    ends = np.flatnonzero(np.frombuffer(content, np.uint8)[start:] == ord("\n"))
    if len(ends) < n_vertices + n_faces - (not content.endswith(b"\n")):
        return None
    middle = start + int(ends[n_vertices - 1]) + 1
    last = n_vertices + n_faces - 1
    end = start + int(ends[last]) + 1 if last < len(ends) else len(content)
    vertices = _columns(content, start, middle, pa.float64(), 3)
    faces = _columns(content, middle, end, pa.int64(), 4) if vertices is not None else None
    if faces is None or len(vertices) != n_vertices or len(faces) != n_faces or (faces[:, 0] != 3).any():
        return None
    if _REST.match(content, end).end() < len(content):  # which the other reader counts and names
        return None
    return vertices, faces[:, 1:]


def _columns(content: bytes, start: int, end: int, kind: pa.DataType, width: int) -> np.ndarray | None:
    names = [str(number) for number in range(width)]
    try:
        table = csv.read_csv(
            pa.BufferReader(pa.py_buffer(content).slice(start, end - start)),
            csv.ReadOptions(use_threads=False, column_names=names, block_size=max(1, end - start)),
            csv.ParseOptions(delimiter=" ", quote_char=False, ignore_empty_lines=False),
            csv.ConvertOptions(check_utf8=False, column_types=dict.fromkeys(names, kind), null_values=[]),
        )
    except pa.ArrowInvalid:
        return None
    # Column after column in memory: whoever draws points goes through them that way.
    return np.stack([column.to_numpy() for column in table.columns]).T


def _general(content: bytes, start: int, n_vertices: int, n_faces: int) -> tuple[np.ndarray, np.ndarray]:
    """Read what has comments, blank lines, polygons, colours or other spacing, line by line."""
    text = re.sub(rb"#[^\r\n]*", b"", content[start:].rstrip(b"\0"))
    lines = [words for line in text.splitlines() if (words := line.split())]
    if len(lines) < n_vertices + n_faces:
        raise ValueError(
            f"the file is cut off: its header promises {n_vertices} vertices and {n_faces} faces, "
            f"and only {len(lines)} lines follow"
        )
    if len(lines) > n_vertices + n_faces:
        raise ValueError(
            f"the file holds more than its header promises, {n_vertices} vertices and {n_faces} faces: {len(lines)} "
            "lines follow. Correct the header"
        )
    vertices = np.empty((n_vertices, 3))
    triangles = []
    for number, words in enumerate(lines):
        try:
            if number < n_vertices:
                vertices[number] = [float(word) for word in words[:3]]
                continue
            corners = [int(word) for word in words[1 : int(words[0]) + 1]]
            if len(corners) != int(words[0]):
                raise ValueError
        except (ValueError, OverflowError):
            kind, row = ("vertex", number) if number < n_vertices else ("face", number - n_vertices)
            raise ValueError(f"{kind} {row} is malformed: {b' '.join(words)[:60]!r}") from None
        if len(corners) > 3 and _turns_inward(vertices, corners):
            raise ValueError(f"face {number - n_vertices} has a corner that points inward; save the mesh as triangles")
        triangles += fan(corners)
    if not triangles:
        raise ValueError("no face has three corners")
    try:
        return vertices, np.array(triangles, dtype=np.int64)
    except OverflowError:
        raise ValueError("a face names a vertex whose number is absurd") from None


def fan(corners: Sequence[int]) -> list[tuple[int, int, int]]:
    """Cut a polygon into triangles around its first corner, which is exact if it is convex."""
    return [(corners[0], one, other) for one, other in pairwise(corners[1:])]


def _turns_inward(vertices: np.ndarray, corners: list[int]) -> bool:
    """Say whether a polygon is not convex, so that a fan would cover more than it does."""
    if not 0 <= min(corners) <= max(corners) < len(vertices):
        return False  # which `check_mesh` names
    sides = vertices[corners[1:]] - vertices[corners[0]]
    areas = np.cross(sides[:-1], sides[1:])
    whole = areas.sum(axis=0)
    return bool((areas @ whole < -1e-6 * (whole @ whole)).any())


def check_mesh(vertices: np.ndarray, triangles: np.ndarray) -> None:
    """Raise `ValueError` if a coordinate is not finite, or a triangle names a vertex that is not there."""
    if not np.isfinite(vertices).all():
        row = int(np.flatnonzero(~np.isfinite(vertices).all(axis=1))[0])
        raise ValueError(f"vertex {row} is not finite: {' '.join(map(str, vertices[row]))}")
    low, high = triangles.min(), triangles.max()
    if low < 0 or high >= len(vertices):
        wrong = low if low < 0 else high
        raise ValueError(f"a face names vertex {wrong}, but there are only the vertices 0 to {len(vertices) - 1}")
