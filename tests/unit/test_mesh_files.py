"""Meshes in the formats that people have: the same points from all of them, and never more than the file itself."""

import builtins
import json
import pathlib
import struct

import numpy as np
import pytest
import trimesh

from equiset.data.modelnet40 import stand_in
from equiset.data.modelnet40.mesh_files import SUFFIXES, BadMeshError, parse_mesh, read_mesh
from equiset.data.modelnet40.meshes import points_of

VERTICES = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0.5, 2, 0]]
OBJ = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3\nf 1 3 4\n"
SQUARE = [[0, 1, 2], [0, 2, 3]]


def as_file(vertices, triangles, suffix):
    """Return the bytes of a mesh in a format, as another program writes them."""
    mesh = trimesh.Trimesh(vertices, triangles, process=False)
    if suffix == ".gltf":
        return trimesh.exchange.gltf.export_gltf(trimesh.Scene(mesh), embed_buffers=True)["model.gltf"]
    content = mesh.export(file_type=suffix[1:], **({"digits": 12} if suffix in (".off", ".obj") else {}))
    return content.encode() if isinstance(content, str) else content


def ply(vertices, faces, kind="binary_little_endian"):
    axes = "".join(f"property float {axis}\n" for axis in "xyz")
    head = f"ply\nformat {kind} 1.0\ncomment TextureFile away.png\nelement vertex {len(vertices)}\n{axes}"
    head += f"element face {len(faces)}\nproperty list uchar int vertex_indices\nend_header\n"
    if kind == "ascii":
        rows = [*vertices, *([len(face), *face] for face in faces)]
        return (head + "".join(" ".join(map(str, row)) + "\n" for row in rows)).encode()
    order = "<" if "little" in kind else ">"
    content = head.encode() + b"".join(struct.pack(f"{order}3f", *row) for row in vertices)
    return content + b"".join(struct.pack(f"{order}B{len(face)}i", len(face), *face) for face in faces)


def area(vertices, triangles):
    corners = vertices[triangles]
    return np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1).sum() / 2


def glb(about, binary=b""):
    text = json.dumps({"asset": {"version": "2.0"}, **about}).encode()
    text += b" " * (-len(text) % 4)
    chunks = struct.pack("<I4s", len(text), b"JSON") + text + struct.pack("<I4s", len(binary), b"BIN\0") + binary
    return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks


def test_a_mesh_with_y_up_is_turned(tmp_path):
    (tmp_path / "a.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 2 0\nv 0 0 3\nf 1 2 3\nf 1 3 4\n")
    as_it_is, triangles = read_mesh(tmp_path / "a.obj")
    turned, same = read_mesh(tmp_path / "a.obj", up="y")
    assert as_it_is.tolist() == [[0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 3]]
    assert turned.tolist() == [[0, 0, 0], [1, 0, 0], [0, 0, 2], [0, -3, 0]]  # what was up is up, and nothing mirrored
    assert (triangles == same).all()


@pytest.mark.parametrize("name", ["chair", "airplane"])
def test_a_mesh_has_the_same_points_in_all_formats(tmp_path, name):
    vertices, triangles = stand_in.draw(stand_in.FAMILIES[name], np.random.default_rng(1))
    drawn = {}
    for suffix in SUFFIXES:
        path = tmp_path / f"a{suffix.upper()}"
        path.write_bytes(as_file(vertices, triangles, suffix))
        drawn[suffix] = points_of(path, f"{name}/train/a", 400, 0, "area")
    for suffix, one in drawn.items():
        np.testing.assert_allclose(one.cloud.points, drawn[".off"].cloud.points, atol=2e-6)
        assert one.counts.triangles == len(triangles)
        assert one.counts.vertices == (len(vertices) if suffix in (".off", ".ply") else None)
        assert one.content == drawn[".off"].content


@pytest.mark.parametrize("kind", ["ascii", "binary_little_endian", "binary_big_endian"])
@pytest.mark.parametrize("faces", [[[0, 1, 2, 3]], [[0, 1, 2, 4, 3]], [[0, 1, 2, 3], [3, 2, 4]]])
def test_polygons_of_ply_files_become_triangles(kind, faces):
    content = ply(VERTICES, faces, kind)
    if kind != "ascii" and len(faces) > 1:
        with pytest.raises(ValueError, match="differ in their number of corners: save triangles"):
            parse_mesh(content, ".ply")
        return
    assert area(*parse_mesh(content, ".ply")) == pytest.approx(1.5 if any(4 in face for face in faces) else 1)


@pytest.mark.parametrize(
    "text",
    [
        OBJ,
        OBJ.replace("f 1 2 3\nf 1 3 4", "f 1 2 3 4"),
        "vn 0 0 1\n"
        + OBJ.replace("f 1 2 3", "usemtl b\nf 1//1 2//1 3//1").replace("f 1 3 4", "usemtl a\nf 1//1 3//1 4//1"),
        OBJ.replace("\n", "\r\n").replace("f 1 3 4", "f 1 \\\r\n 3 4"),
        "# a square\nmtllib away.mtl\nvn 0 0 1\nvt 0 0\n" + OBJ.replace("v 1 1 0", "v 1 1 0 0.5 0.5 0.5"),
    ],
)
def test_a_square_as_obj_in_all_its_spellings(text):
    vertices, triangles = parse_mesh(text.encode(), ".obj")
    assert len(triangles) == 2
    assert area(vertices, triangles) == 1
    assert np.unique(vertices[triangles].reshape(-1, 3), axis=0).tolist() == [
        [0, 0, 0],
        [0, 1, 0],
        [1, 0, 0],
        [1, 1, 0],
    ]


def test_a_scene_is_flattened():
    """Two nodes show one triangle: one as it is, one moved and turned by its parents."""
    points = struct.pack("<9f", 0, 0, 0, 1, 0, 0, 0, 1, 0)
    about = {
        "buffers": [{"byteLength": 36}],
        "bufferViews": [{"buffer": 0, "byteLength": 36}],
        "accessors": [{"bufferView": 0, "componentType": 5126, "type": "VEC3", "count": 3}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "material": 0}]}],
        "images": [{"uri": "away.png"}],
        "textures": [{"source": 0}],
        "materials": [{"pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}}],
        "nodes": [
            {"mesh": 0},
            {"translation": [5, 0, 0], "children": [2]},
            {"mesh": 0, "rotation": [0, 0, 2**-0.5, 2**-0.5]},
        ],
        "scenes": [{"nodes": [0, 1]}],
        "scene": 0,
    }
    vertices, triangles = parse_mesh(glb(about, points), ".glb")
    shown = sorted(np.round(vertices[triangle]).tolist() for triangle in triangles)
    assert shown == [[[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[5, 0, 0], [5, 1, 0], [4, 0, 0]]]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("part", [0, 0.3, 0.9])
def test_a_file_that_is_cut_off_is_named(tmp_path, suffix, part):
    content = as_file(*stand_in.draw(stand_in.FAMILIES["cup"], np.random.default_rng(0)), suffix)
    path = tmp_path / f"cut{suffix}"
    # Of an OBJ file, any beginning with faces is whole.
    path.write_bytes(content[: int(part * len(content))] if suffix != ".obj" else content[: int(part * 1000)])
    with pytest.raises(BadMeshError, match=rf"cut\{suffix}: ") as caught:
        read_mesh(path)
    assert "\n" not in str(caught.value)


BAD = {
    ".ply": [
        (b"<!doctype html>", "Not a ply file"),
        (ply(VERTICES, [[0, 1, 5]]), "names vertex 5, but there are only the vertices 0 to 4"),
        (ply(VERTICES, [[0, 1, -1]]), "names vertex -1"),
        (ply([[0, 0, 0], [1, np.nan, 0], [0, 1, 0]], [[0, 1, 2]]), "vertex 1 is not finite"),
        (ply(VERTICES, []), "no triangles"),
        (ply(VERTICES, SQUARE, "ascii").replace(b"0.5", b"x"), "cannot read this PLY"),
        (ply(VERTICES, SQUARE, "ascii")[:-10], "cut off"),
        (ply(VERTICES, SQUARE).replace(b"vertex 5", b"vertex 5000000000"), "cut off"),
    ],
    ".obj": [
        (b"<!doctype html>", "no triangles"),
        (OBJ.replace("f 1 3 4", "f 1 3 5").encode(), "out of bounds"),
        (OBJ.replace("f 1 3 4", "f 1 3 0").encode(), "save it with numbers from 1 on"),
        (OBJ.replace("f 1 3 4", "f -4 -2 -1").encode(), "save it with numbers from 1 on"),
        (OBJ.replace("f 1 3 4", "f 1 3 x").encode(), "cannot read this OBJ"),
        (OBJ.replace("v 1 1 0", "v 1 x 0").encode(), "cannot read this OBJ"),
        (OBJ.replace("v 1 1 0", "v 1 inf 0").encode(), "vertex 2 is not finite"),
    ],
    ".stl": [
        (b"<!doctype html>", "no triangles"),
        (bytes(80) + struct.pack("<I12fH", 1, *[np.nan] * 12, 0), "vertex 0 is not finite"),
        (bytes(84), "no triangles"),
        (
            b"solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 x 0\nvertex 0 1 0\nendsolid a\n",
            "read this STL",
        ),
    ],
    ".glb": [
        (b"<!doctype html>, and more of that kind", "incorrect header"),
        (glb({}), "no triangles"),
        (glb({"buffers": [{"uri": "away.bin", "byteLength": 4}]}), "another file, 'away.bin'; save it in one"),
        (glb({"buffers": [{"uri": "https://example.org/a", "byteLength": 4}]}), "refers to another file"),
        (glb({"meshes": [{"primitives": [{}]}]}), "cannot read this GLB"),
    ],
    ".gltf": [(b"[" * 10**5, "not a GLTF file"), (b'{"buffers": [{"uri": "away.bin"}]}', "refers to another file")],
    ".zip": [(b"PK", "meshes are files of .off, .ply")],
}


@pytest.mark.parametrize(
    ("suffix", "content", "reason"), [(suffix, *case) for suffix, cases in BAD.items() for case in cases]
)
def test_a_fault_is_named_with_the_file(tmp_path, suffix, content, reason):
    path = tmp_path / f"bad_0001{suffix}"
    path.write_bytes(content)
    with pytest.raises(BadMeshError, match=reason) as caught:
        read_mesh(path)
    assert f"bad_0001{suffix}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nothing_but_the_file_itself_is_opened(tmp_path, monkeypatch):
    """Materials, textures and buffers lie where files say that they are, and are left alone."""
    for name in ("away.mtl", "away.png", "away.bin"):
        (tmp_path / name).write_text("newmtl a\nmap_Kd away.png\n")
    (tmp_path / "a.obj").write_text("mtllib away.mtl\nusemtl a\nvt 0 0\n" + OBJ.replace("f 1 2 3", "f 1/1 2/1 3/1"))
    (tmp_path / "a.ply").write_bytes(ply(VERTICES, SQUARE))
    (tmp_path / "a.glb").write_bytes(glb({"buffers": [{"uri": "away.bin", "byteLength": 4}]}))
    (tmp_path / "a.gltf").write_text('{"buffers": [{"uri": "away.bin"}], "images": [{"uri": "away.png"}]}')
    opened = []
    for module, name in ((builtins, "open"), (pathlib.Path, "open"), (pathlib.Path, "read_bytes")):
        plain = getattr(module, name)

        def watched(file, *args, plain=plain, **options):
            opened.append(str(file))
            return plain(file, *args, **options)

        monkeypatch.setattr(module, name, watched)
    monkeypatch.chdir(tmp_path)
    for name in ("a.obj", "a.ply"):
        assert len(read_mesh(name)[1]) == 2
    for name in ("a.glb", "a.gltf"):
        with pytest.raises(BadMeshError, match="refers to another file"):
            read_mesh(name)
    assert {"a.obj", "a.ply", "a.glb", "a.gltf"} <= set(opened)
    assert not [name for name in opened if "away" in name]


@pytest.mark.parametrize("suffix", SUFFIXES[1:])
def test_no_damage_breaks_the_reader(suffix):
    """Whatever a few changed bytes make of a file, it gives a sound mesh or a reason."""
    whole, rng = as_file(VERTICES, SQUARE, suffix), np.random.default_rng(0)
    for _ in range(100):
        content = bytearray(whole)
        for place in rng.integers(len(content), size=rng.integers(1, 4)):
            content[place] = rng.integers(256)
        try:
            vertices, triangles = parse_mesh(bytes(content), suffix)
        except ValueError:
            continue
        assert np.isfinite(vertices).all()
        assert 0 <= triangles.min() <= triangles.max() < len(vertices)
