"""Reads one mesh from a file of any format that is usual for meshes: `read_mesh`.

OFF has a reader of its own, and OBJ is put into its words: trimesh takes the groups of an OBJ file in another order,
splits vertices by their texture, and counts negative indices from the end of the file. The other formats are trimesh's.
Only geometry is taken, and only what the file itself holds: no material, texture or other file is ever opened.
"""

import hashlib
import io
import json
import re
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from equiset.data.manifest import FETCH_ANEW
from equiset.data.modelnet40.off import check_mesh, fan, parse_off
from equiset.errors import EquisetError

Mesh = tuple[np.ndarray, np.ndarray]

UNSHARED = (".stl",)
"""Formats that repeat a vertex for every triangle, so that its number of vertices says nothing."""
_LARGEST = 2**30  # bytes of one file
_MOST = 2 * 10**7  # vertices and triangles of a scene, which may show its parts any number of times
_OBJ_LINE = re.compile(rb"^[ \t]*([vf])[ \t]+([^\r\n#]*)", re.MULTILINE)
_PLY_TYPES = {"char": "b", "uchar": "B", "short": "h", "ushort": "H", "int": "i", "uint": "I", "float": "f"}
_PLY_TYPES |= {"int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "float32": "f"}
_PLY_TYPES |= {"double": "d", "float64": "d"}
_PLY_SIZE = re.compile(rb"^element[ \t]+\w+[ \t]+(\d+)", re.MULTILINE)


class BadMeshError(EquisetError):
    """A mesh from which no points can be drawn."""


def read_mesh(path: str | Path, sha256: str | None = None) -> Mesh:
    """Return vertices (float64, n x 3) and triangles (int64, m x 3) of a file, or raise `BadMeshError` with the reason.

    Coordinates are those of the file: no axis is turned. Of a scene, all parts are taken where its transforms put them.
    A file that does not have the given digest is no bad mesh, but one that was changed meanwhile.
    """
    path = Path(path)
    try:
        if (size := path.stat().st_size) > _LARGEST:
            raise BadMeshError(f"{path}: {size} bytes are more than a mesh may have ({_LARGEST})")
        content = path.read_bytes()
    except OSError as error:
        raise BadMeshError(f"{path} cannot be read: {error.strerror or error}") from None
    if sha256 and hashlib.sha256(content).hexdigest() != sha256:
        raise EquisetError(f"{path} has changed since the manifest was written. {FETCH_ANEW}")
    try:
        return parse_mesh(content, path.suffix.lower())
    except ValueError as reason:
        raise BadMeshError(f"{path}: {reason}. Mend or remove the file, or set on_bad_mesh: skip") from None


def parse_mesh(content: bytes, suffix: str) -> Mesh:
    """Return vertices and triangles of the bytes of a file; raise `ValueError` with the reason if it has none."""
    if not content:
        raise ValueError("the file is empty")
    if suffix == ".off":
        return parse_off(content)
    if suffix == ".obj":
        return parse_off(_as_off(content))
    vertices, triangles = _with_trimesh(content, suffix[1:])
    check_mesh(vertices, triangles)
    return vertices, triangles


def _as_off(content: bytes) -> bytes:
    """Say what an OBJ file says about geometry as an OFF file does."""
    vertices, faces = [], []
    for line in _OBJ_LINE.finditer(re.sub(rb"\\\r?\n", b" ", content)):
        words = line[2].split()
        if line[1] == b"v":
            vertices.append(b" ".join(words[:3]))
            continue
        try:
            numbers = [int(word.partition(b"/")[0]) for word in words]
        except ValueError:
            raise ValueError(f"face {len(faces)} is malformed: {line[2][:60]!r}") from None
        # The first vertex is number 1, the latest so far is number -1; what is out of range is left to be named.
        corners = [number - 1 if number > 0 else len(vertices) + number if number else -1 for number in numbers]
        faces.append(b"%d %s" % (len(corners), " ".join(map(str, corners)).encode()))
    return b"OFF\n%d %d 0\n%s\n" % (len(vertices), len(faces), b"\n".join(vertices + faces))


def _with_trimesh(content: bytes, kind: str) -> Mesh:
    import trimesh  # takes long to import, and ModelNet40's own files do without

    _check_promises(content, kind)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # numpy's, where text is no number
            scene = trimesh.load_scene(
                io.BytesIO(content), kind, resolver=_Nothing(), process=False, skip_materials=True, fix_texture=False
            )
            places = [scene.graph[node] for node in scene.graph.nodes_geometry]
            parts = [(matrix, scene.geometry[name]) for matrix, name in places]
            parts = [(matrix, part) for matrix, part in parts if len(getattr(part, "faces", ()))]
    except Exception as error:  # whatever the bytes make a loader stumble over
        if kind == "ply" and (mesh := _ragged_ply(content)):
            return mesh
        reason = " ".join(str(error).split())[:150]
        raise ValueError(f"not a {kind.upper()} file that can be read ({type(error).__name__}: {reason})") from None
    if not parts:
        raise ValueError("the mesh is empty: it has no triangles")
    return _joined(parts)


class _Nothing:
    """Finds none of the files that a mesh refers to."""

    def get(self, name: str) -> bytes:
        raise ValueError(f"it refers to another file, {name!r}; only what a file itself holds is read")

    __getitem__ = get


def _check_promises(content: bytes, kind: str) -> None:
    """Refuse a file that announces more than it holds, before memory is taken for it, or that lies in several."""
    if kind == "ply":
        promised = [int(number) for number in _PLY_SIZE.findall(content[: _ply_data(content)])]
        if sum(promised) > len(content):
            raise ValueError(f"the file is cut off: its header promises {sum(promised)} vertices and faces")
    elif kind in ("glb", "gltf"):
        try:
            text = content[20 : 20 + struct.unpack_from("<I", content, 12)[0]] if kind == "glb" else content
            about = json.loads(text)
            others = [buffer["uri"] for buffer in about.get("buffers", []) if "uri" in buffer]
            counts = [int(accessor["count"]) for accessor in about.get("accessors", [])]
            shapes = [shape for mesh in about.get("meshes", []) for shape in mesh["primitives"]]
            used = [shape["attributes"]["POSITION"] for shape in shapes]
            used += [shape["indices"] for shape in shapes if "indices" in shape]
            size = sum(counts[number] for number in used)
        except (struct.error, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise ValueError(f"not a {kind.upper()} file: its description cannot be read") from None
        if other := next((str(other) for other in others if not str(other).startswith("data:")), None):
            raise ValueError(f"it refers to another file, {other[:60]!r}; save it in one piece, as GLB")
        if max(counts, default=0) > len(content) or size > 3 * _MOST:
            raise ValueError(f"its description promises more than {len(content)} bytes hold")
    elif kind == "stl" and b"facet" in content[:4096]:
        starts, ends = (len(re.findall(rb"^\s*" + word, content, re.M | re.I)) for word in (b"solid", b"endsolid"))
        if starts > ends:
            raise ValueError("the file is cut off: a solid has no end")
    elif kind == "stl":
        promised = struct.unpack_from("<I", content, 80)[0] if len(content) >= 84 else 0
        if len(content) != 84 + 50 * promised:
            raise ValueError(f"not an STL file, or cut off: {len(content)} bytes do not hold {promised} triangles")


def _joined(parts: list[tuple[np.ndarray, Any]]) -> Mesh:
    """Join the parts of a scene, each where its matrix puts it."""
    # Before any memory is taken: a small scene may show its parts any number of times.
    size = sum(len(part.vertices) + len(part.faces) for _, part in parts)
    if size > _MOST:
        raise ValueError(f"{size} vertices and triangles are more than a mesh may have ({_MOST})")
    vertices, triangles, start = [], [], 0
    for matrix, part in parts:
        own, corners = np.asarray(part.vertices, dtype=np.float64), np.asarray(part.faces, dtype=np.int64)
        check_mesh(own, corners)  # here, or else a wrong index would lead into the next part
        moved = not np.array_equal(matrix, np.eye(4))
        vertices.append(own @ matrix[:3, :3].T + matrix[:3, 3] if moved else own)
        triangles.append(corners + start)
        start += len(own)
    return np.concatenate(vertices), np.concatenate(triangles)


def _ply_data(content: bytes) -> int:
    """Return where the data after the header of a PLY file begin."""
    end = re.search(rb"^end_header[ \t]*\r?\n", content, re.MULTILINE)
    if not content.startswith(b"ply") or not end:
        raise ValueError("not a PLY file: its header is missing or cut off")
    return end.end()


def _ragged_ply(content: bytes) -> Mesh | None:
    """Read a binary PLY file whose faces have different numbers of corners; None if it is none. trimesh cannot."""
    place = _ply_data(content)
    header = content[:place].decode("ascii", "replace").split("\n")
    order = ">" if "big_endian" in header[1] else "<"
    elements: dict[str, tuple[int, list[list[str]]]] = {}
    found: dict[str, list[Any]] = {"vertex": [], "face": []}
    try:
        for words in map(str.split, header):
            if words[:1] == ["element"]:
                elements[words[1]] = (int(words[2]), [])
            elif words[:1] == ["property"]:
                list(elements.values())[-1][1].append(words[1:])
        for element, (count, properties) in elements.items():
            for _ in range(count):
                row: dict[str, Any] = {}
                for *kinds, name in properties:
                    length = 1
                    if kinds[0] == "list":
                        size = struct.Struct(order + _PLY_TYPES[kinds[1]])
                        (length,), place = size.unpack_from(content, place), place + size.size
                    values = struct.Struct(f"{order}{length}{_PLY_TYPES[kinds[-1]]}")
                    row[name], place = values.unpack_from(content, place), place + values.size
                if element == "vertex":
                    found[element].append([row[axis][0] for axis in "xyz"])
                elif element == "face":
                    found[element] += fan(row.get("vertex_indices") or row["vertex_index"])
        return np.array(found["vertex"], dtype=np.float64), np.array(found["face"], dtype=np.int64).reshape(-1, 3)
    except (struct.error, KeyError, IndexError, ValueError, TypeError):
        return None
