"""Reads one mesh from a file: OFF with a reader of our own, the other formats with trimesh.

trimesh takes fourteen times as long for ModelNet40's 12,311 OFF files. Only geometry is taken, and only what the file
itself holds: no material, texture or other file is opened.
"""

import io
import json
import re
import warnings
from pathlib import Path
from typing import Literal

import numpy as np

from equiset.data.modelnet40.off import check_mesh, parse_off
from equiset.errors import EquisetError

Mesh = tuple[np.ndarray, np.ndarray]
Up = Literal["z", "y"]
"""The axis of a file that points up."""

SUFFIXES = (".off", ".ply", ".obj", ".stl", ".glb", ".gltf")
_LARGEST = 2**30  # bytes of one file


class BadMeshError(EquisetError):
    """A mesh from which no points can be drawn."""


def read_mesh(path: str | Path, up: Up = "z") -> Mesh:
    """Return vertices (float64, n x 3) and triangles (int64, m x 3) of a file, or raise `BadMeshError` with the reason.

    Of a scene, all parts are taken where its transforms put them.

    Args:
        path: the file.
        up: the axis that points up in the file. In what is returned it is z: with `y`, the mesh is turned by a quarter
            about x. Nothing else is changed.
    """
    path = Path(path)
    try:
        if (size := path.stat().st_size) > _LARGEST:
            raise BadMeshError(f"{path}: {size} bytes are more than a mesh may have ({_LARGEST})")
        content = path.read_bytes()
    except OSError as error:
        raise BadMeshError(f"{path} cannot be read: {error.strerror or error}") from None
    try:
        vertices, triangles = parse_mesh(content, path.suffix.lower())
    except ValueError as reason:
        raise BadMeshError(f"{path}: {reason}") from None
    if up == "y":
        x, y, z = vertices.T
        vertices = np.stack([x, -z, y]).T
    return vertices, triangles


def parse_mesh(content: bytes, suffix: str) -> Mesh:
    """Return vertices and triangles of the bytes of a file; raise `ValueError` with the reason if it has none."""
    if not content:
        raise ValueError("the file is empty")
    if suffix == ".off":
        return parse_off(content)
    if suffix not in SUFFIXES:
        raise ValueError(f"meshes are files of {', '.join(SUFFIXES)}")
    vertices, triangles = _with_trimesh(content, suffix[1:])
    check_mesh(vertices, triangles)
    return vertices, triangles


def _with_trimesh(content: bytes, kind: str) -> Mesh:
    import trimesh  # takes long to import, and ModelNet40's own files do without

    _check_what_trimesh_does_not(content, kind)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of normals and textures, which nobody reads
            mesh = trimesh.load_mesh(
                io.BytesIO(content),
                kind,
                resolver=_NoOtherFiles(),
                process=False,
                maintain_order=True,
                group_material=False,
                skip_materials=True,
                fix_texture=False,
            )
    except Exception as error:  # whatever the bytes make a loader stumble over
        reason = " ".join(str(error).split())[:150]
        hint = (
            "; it is damaged, or its faces differ in their number of corners: save triangles" if kind == "ply" else ""
        )
        raise ValueError(f"trimesh cannot read this {kind.upper()} ({type(error).__name__}: {reason}{hint})") from None
    if not len(mesh.faces):
        raise ValueError("the mesh has no triangles: it is empty or cut off")
    return np.asarray(mesh.vertices, dtype=np.float64), np.asarray(mesh.faces, dtype=np.int64)


class _NoOtherFiles:
    """Finds none of the files that a mesh refers to."""

    def get(self, name: str) -> bytes:
        raise ValueError(f"it refers to another file, {name!r}; save it in one piece, for instance as GLB")

    __getitem__ = get


def _check_what_trimesh_does_not(content: bytes, kind: str) -> None:
    """Refuse what trimesh would read without a word, but not as it is meant."""
    if kind == "stl" and b"facet" in content[:4096]:
        starts, ends = (len(re.findall(rb"^\s*" + word, content, re.M | re.I)) for word in (b"solid", b"endsolid"))
        if starts > ends:
            raise ValueError("the file is cut off: a solid has no end")
    if kind == "obj" and re.search(rb"^[ \t]*f[ \t](?:.*[ \t])?(?:-\d|0+(?:[/ \t\r]|$))", content, re.M):
        raise ValueError("its faces count vertices from the end, or from 0; save it with numbers from 1 on")
    if kind == "gltf":
        try:
            json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"not a GLTF file: {error}") from None
    if kind == "ply":
        head, _, body = content.partition(b"end_header")
        promised = sum(int(count) for count in re.findall(rb"^element\s+\w+\s+(\d+)", head, re.M))
        held = body.count(b"\n") if b"format ascii" in head else len(body)
        if promised > held:
            raise ValueError(f"the file is cut off: its header promises {promised} vertices and faces")
