"""ModelNet40 and its stand-in: from any source to the points that training maps into memory."""

import hashlib
import shutil
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equiset.data import modelnet40
from equiset.data.modelnet40 import CLASS_SIZES, ModelNetSettings, fetch, meshes, prepare, stand_in
from equiset.data.modelnet40 import official as modelnet40_official
from equiset.data.modelnet40.export import write_hdf5
from equiset.data.modelnet40.mesh_files import read_mesh
from equiset.data.modelnet40.official import Counts
from equiset.errors import EquisetError
from equiset.experiments.point_clouds.pool import Pool
from equiset.experiments.point_clouds.sets import make_sets
from equiset.experiments.point_clouds.settings import CloudSets
from equiset.files import digest, read_json
from tests.unit.test_mesh_files import as_file

FAMILIES = stand_in.FAMILIES


def mesh_file(path, name, seed=0):
    rng = np.random.default_rng(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(stand_in.as_off(*stand_in.draw(FAMILIES[name], rng), rng))
    return path


@pytest.fixture
def folder(tmp_path):
    """Three classes that ModelNet40 does not have, in its layout."""
    for kind, shape in (("anchor", "lamp"), ("boat", "bathtub"), ("crate", "glass_box")):
        for split, count in (("train", 3), ("test", 2)):
            for number in range(count):
                mesh_file(tmp_path / "mine" / kind / split / f"{kind}_{number}.off", shape, number)
    return tmp_path / "mine"


def prepared(tmp_path, name="store", threads=1, **settings):
    settings = ModelNetSettings(pool=64, test_pool=96, **settings)
    manifest = fetch(settings, tmp_path / "cache")
    prepare(manifest, tmp_path / name, settings, threads)
    return read_json(tmp_path / name / "store.json")


def test_the_official_split():
    assert len(CLASS_SIZES) == 40
    assert tuple(map(sum, zip(*CLASS_SIZES.values(), strict=True))) == (9843, 2468)
    assert set(FAMILIES) == set(CLASS_SIZES)


def test_a_folder_of_other_classes(tmp_path, folder):
    (folder / ".DS_Store").write_text("litter")
    (folder / "crate" / "train" / "._crate_1.off").write_text("litter")
    (folder / "README.txt").write_text("no class")
    store = prepared(tmp_path, source="folder", folder=str(folder))
    assert store["classes"] == ["anchor", "boat", "crate"]
    assert (store["train"], store["test"], store["kind"], store["share"], store["skipped"]) == (9, 6, "own", 0.0, [])
    table = pd.read_parquet(tmp_path / "store" / "meshes.parquet")
    pool = Pool(tmp_path / "store")
    assert pool.sizes.tolist() == [96 if split == "test" else 64 for split in table["split"]]
    row = table.iloc[7]
    vertices, _ = read_mesh(folder / row["file"])
    points = row[["x", "y", "z"]].to_numpy(float) + row["scale"] * pool.of(7, pool.open())
    assert (points > vertices.min(axis=0) - 1e-3 * row["scale"]).all()
    assert (points < vertices.max(axis=0) + 1e-3 * row["scale"]).all()


def test_meshes_with_y_up_stand_upright_in_the_store(tmp_path, folder):
    as_it_is = prepared(tmp_path / "z", source="folder", folder=str(folder))
    turned = prepared(tmp_path / "y", source="folder", folder=str(folder), up="y")
    assert (as_it_is["up"], turned["up"]) == ("z", "y")
    one, other = (pd.read_parquet(tmp_path / up / "store" / "meshes.parquet") for up in "zy")
    np.testing.assert_allclose(other["x"], one["x"], rtol=1e-9)
    np.testing.assert_allclose(other["y"], -one["z"], rtol=1e-9)
    np.testing.assert_allclose(other["z"], one["y"], rtol=1e-9)
    np.testing.assert_allclose(other["area"], one["area"], rtol=1e-9)
    sets = {}
    for up in "zy":
        make_sets(CloudSets(particles=8, draws=1), 0, tmp_path / up / "store", tmp_path / up / "sets")
        sets[up] = read_json(tmp_path / up / "sets" / "sets.json")
    assert (sets["z"].get("up"), sets["y"]["up"]) == (None, "y")
    with pytest.raises(ValueError, match="ModelNet40 has z up"):
        ModelNetSettings(up="y")


def test_a_bad_mesh_stops_or_is_counted(tmp_path, folder):
    bad = folder / "boat" / "train" / "boat_1.off"
    bad.write_text("OFF\n3 1 0\n0 0 0\n1 nan 0\n0 1 0\n3 0 1 2\n")
    with pytest.raises(EquisetError, match=r"boat_1\.off: vertex 1 is not finite.*on_bad_mesh: skip"):
        prepared(tmp_path, source="folder", folder=str(folder))
    store = prepared(tmp_path, source="folder", folder=str(folder), on_bad_mesh="skip")
    assert store["train"] == 8
    assert [entry["file"] for entry in store["skipped"]] == ["boat/train/boat_1.off"]
    assert "not finite" in store["skipped"][0]["reason"]
    # The others keep their points.
    bad.unlink()
    assert prepared(tmp_path, "again", source="folder", folder=str(folder))["digest"] == store["digest"]


def test_a_class_without_any_usable_mesh_stops(tmp_path, folder):
    for path in (folder / "boat" / "test").iterdir():
        path.write_text("OFF\n0 0 0\n")
    with pytest.raises(EquisetError, match=r"no mesh of .*boat.test can be used"):
        prepared(tmp_path, source="folder", folder=str(folder), on_bad_mesh="skip")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda folder: folder.rename(folder.with_name("moved")), "there is no folder"),
        (lambda folder: [path.unlink() for path in folder.rglob("*.off")], "holds no meshes"),
        (lambda folder: [path.unlink() for path in folder.glob("boat/test/*")], "'boat' has no meshes in boat/test"),
        (
            lambda folder: [path.unlink() for path in folder.rglob("*.off") if "crate" not in path.name],
            "one class only",
        ),
        (
            lambda folder: (folder / "boat" / "train").rename(folder / "boat" / "Train"),
            "boat/Train/boat_0.off.*Move these 3",
        ),
        (lambda folder: mesh_file(folder / "boat" / "boat_9.off", "cup"), "boat/boat_9.off: not in <class>/train/"),
        (
            lambda folder: folder.rename(folder.parent / "a").rename(folder.mkdir() or folder / "a"),
            "a/anchor/test/anchor",
        ),
    ],
)
def test_folders_that_cannot_be_used(tmp_path, folder, change, reason):
    change(folder)
    with pytest.raises(EquisetError, match=reason):
        fetch(ModelNetSettings(source="folder", folder=str(folder)), tmp_path)


def test_the_stand_in_fills_the_real_layout(tmp_path):
    settings = ModelNetSettings(source="stand-in", stand_in={"train": 1, "test": 1, "seed": 3}, pool=32, test_pool=32)
    manifest = fetch(settings, tmp_path)
    assert manifest["files"]["meshes"]["files"] == 80
    assert (manifest["kind"], manifest["share"]) == ("stand-in", 0.0)
    assert "stand-in" in manifest["description"]
    root = Path(manifest["files"]["meshes"]["path"])
    assert (root / "airplane" / "test" / "airplane_0002.off").is_file()
    # Found in a folder it is still no ModelNet40, whatever became of the text that describes it.
    for text in ("stand-in of somebody\n", "", "\xe9"):
        (root / "stand-in.txt").write_text(text, encoding="latin-1")
        assert fetch(ModelNetSettings(source="folder", folder=str(root)), tmp_path / "own")["kind"] == "stand-in"
    # Same bytes for the same seed, and for any number of processes.
    prepare(manifest, tmp_path / "one", settings, 1)
    prepare(manifest, tmp_path / "two", settings, 2)
    assert digest(tmp_path / "one" / "pool.f32") == digest(tmp_path / "two" / "pool.f32")
    assert (tmp_path / "one" / "store.json").read_text() == (tmp_path / "two" / "store.json").read_text()


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_every_family_gives_usable_meshes(tmp_path, name):
    sizes = set()
    for seed in range(4):
        path = mesh_file(tmp_path / "a.off", name, seed)
        vertices, triangles = read_mesh(path)
        sizes.add((len(vertices), len(triangles)))
        assert 20 < len(triangles) < 15_000
    assert len(sizes) > 1


def test_the_stand_in_has_the_quirks_of_the_real_files():
    rng = np.random.default_rng(0)
    mesh = stand_in.draw(FAMILIES["stool"], rng)
    files = [stand_in.as_off(*mesh, rng) for _ in range(100)]
    assert 5 < sum(not content.startswith(b"OFF\n") and not content.startswith(b"OFF\r") for content in files) < 30
    assert 3 < sum(b"\r\n" in content for content in files) < 25
    assert any(b"\n4 " in content for content in files)


def test_the_archive_is_unpacked_once(tmp_path, web, monkeypatch):
    archive = tmp_path / "served.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for kind in ("cup", "bed"):
            for split in ("train", "test"):
                path = mesh_file(tmp_path / "made.off", kind)
                opened.write(path, f"ModelNet40/{kind}/{split}/{kind}_1.off")
        opened.writestr("__MACOSX/ModelNet40/cup/train/._cup_1.off", "litter")
        opened.writestr("ModelNet40/.DS_Store", "litter")
    monkeypatch.setattr(modelnet40, "ARCHIVE_BYTES", archive.stat().st_size)
    monkeypatch.setattr(modelnet40, "ARCHIVE_CHECKSUM", f"sha256:{digest(archive)}")
    web.answers["/ModelNet40.zip"] = [web.body(archive.read_bytes())]
    settings = ModelNetSettings(mirrors=[web.url("/ModelNet40.zip")], pool=16)
    manifest = fetch(settings, tmp_path / "cache")
    prepare(manifest, tmp_path / "store", settings)
    assert pd.read_parquet(tmp_path / "store" / "meshes.parquet")["file"].tolist() == [
        f"{kind}/{split}/{kind}_1.off" for kind in ("bed", "cup") for split in ("test", "train")
    ]
    assert fetch(settings, tmp_path / "cache") == manifest
    assert len(web.requests) == 1


def test_a_mirror_that_lies_names_the_stand_in(tmp_path, web):
    web.answers["/ModelNet40.zip"] = [web.body(b"<html>quota exceeded</html>")]
    settings = ModelNetSettings(mirrors=[web.url("/ModelNet40.zip")], attempts=1)
    with pytest.raises(EquisetError, match=r"web page.*source: stand-in"):
        fetch(settings, tmp_path)
    assert not (tmp_path / "ModelNet40").exists()


def test_poisson_disk_points_keep_a_distance(tmp_path):
    """pymeshlab's random numbers go on from mesh to mesh; the points must not depend on which came before."""
    names = ["one.off", "two.off"]
    for name in names:
        mesh_file(tmp_path / name, "stool")
    draw = partial(meshes._try, tmp_path, 0, "poisson-disk", "z")
    with meshes._mapper(2, "poisson-disk", 2) as mapped:
        clouds = [drawn.cloud.points for drawn in mapped(draw, [(name, 64) for name in names])]
    with meshes._mapper(1, "poisson-disk", 1) as mapped:
        (alone,) = (drawn.cloud.points for drawn in mapped(draw, [(names[1], 64)]))
    assert (alone == clouds[1]).all()
    plain = meshes.points_of(tmp_path / names[0], "one", 64, 0, "area").cloud.points

    def gap(points):
        return (np.linalg.norm(points[:, None] - points, axis=2) + 9 * np.eye(len(points))).min()

    assert gap(clouds[0]) > 3 * gap(plain)


def test_a_file_that_is_not_read_is_named_and_two_of_one_name_are_refused(tmp_path, folder, caplog):
    for name in ("anchor_0.mtl", "anchor_0.fbx"):
        (folder / "anchor" / "train" / name).write_text("no mesh")
    (folder / "anchor" / "train" / "anchor_1.off").rename(folder / "anchor" / "train" / "ANCHOR_1.OFF")
    manifest = fetch(ModelNetSettings(source="folder", folder=str(folder)), tmp_path)
    assert manifest["files"]["meshes"]["files"] == 15
    assert "2 files are not read (anchor/train/anchor_0.fbx, anchor/train/anchor_0.mtl)" in caplog.text
    (folder / "boat" / "test" / "boat_1.PLY").write_text("ply")
    with pytest.raises(EquisetError, match=r"boat_1\.PLY and boat/test/boat_1\.off have the same name"):
        fetch(ModelNetSettings(source="folder", folder=str(folder)), tmp_path)


def test_the_format_of_a_mesh_changes_no_point(tmp_path, folder):
    settings = {"source": "folder", "folder": str(folder)}
    prepared(tmp_path, **settings)
    for path, suffix in zip(sorted(folder.rglob("*.off")), 4 * [".ply", ".OBJ", ".stl", ".glb"], strict=False):
        path.with_suffix(suffix).write_bytes(as_file(*read_mesh(path), suffix.lower()))
        path.unlink()
    prepared(tmp_path, "mixed", **settings)
    one, other = (Pool(tmp_path / name).open() for name in ("store", "mixed"))
    np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.fixture
def part(tmp_path, monkeypatch):
    """A ModelNet40 of six meshes of two classes, one with unknown counts, in a folder that lacks one."""
    table = {}
    names = ["bowl/train/bowl_0001", "bowl/train/bowl_0003", "bowl/test/bowl_0002", "cup/train/cup_0001"]
    for number, full in enumerate([*names, "cup/test/cup_0002"]):
        name = full.split("/")[0]
        vertices, triangles = read_mesh(mesh_file(tmp_path / "part" / f"{full}.off", name, number))
        table[full] = Counts(len(vertices), len(triangles)) if number else None
    monkeypatch.setattr(modelnet40_official, "official", lambda: table | {"cup/train/cup_0009": None})
    monkeypatch.setattr(modelnet40_official, "MESHES", 6)
    return tmp_path / "part"


def test_a_part_of_modelnet40_is_recognised_and_what_is_absent_is_named(tmp_path, part):
    settings = {"source": "folder", "folder": str(part)}
    store = prepared(tmp_path, **settings)
    assert (store["kind"], store["share"], store["absent"]) == ("part", 5 / 6, 1)
    assert store["description"] == "ModelNet40, 5 of 6 meshes"
    assert (tmp_path / "store" / "absent.txt").read_text() == "cup/train/cup_0009\n"
    mesh_file(part / "cup" / "train" / "cup_0009.off", "cup")
    store = prepared(tmp_path, "whole", **settings)
    assert (store["kind"], store["share"], store["description"]) == ("whole", 1.0, "ModelNet40")
    # A mesh that is left out is absent.
    (part / "cup" / "train" / "cup_0009.off").write_text("OFF\n0 0 0\n")
    assert prepared(tmp_path, "skipped", **settings, on_bad_mesh="skip")["description"] == "ModelNet40, 5 of 6 meshes"


def test_another_format_is_still_modelnet40(tmp_path, part):
    for path, suffix in zip(sorted(part.rglob("*.off")), (".ply", ".obj", ".stl", ".glb", ".gltf"), strict=True):
        path.with_suffix(suffix).write_bytes(as_file(*read_mesh(path), suffix))
        path.unlink()
    assert prepared(tmp_path, source="folder", folder=str(part))["kind"] == "part"


def _move(old, new):
    return lambda part: (part / f"{old}.off").rename(part / f"{new}.off")


def _retriangulate(part):
    """Cut the first triangle of a mesh in two."""
    vertices, triangles = read_mesh(part / "cup" / "test" / "cup_0002.off")
    a, b, c = triangles[0]
    middle = [(vertices[a] + vertices[b]) / 2]
    vertices, new = np.concatenate([vertices, middle]), len(vertices)
    triangles = np.concatenate([[[a, new, c], [new, b, c]], triangles[1:]])
    (part / "cup" / "test" / "cup_0002.off").write_bytes(as_file(vertices, triangles, ".off"))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (_move("bowl/train/bowl_0003", "bowl/train/bowl_3"), "bowl/train/bowl_3"),
        (_move("bowl/train/bowl_0001", "bowl/test/bowl_0001"), "bowl/test/bowl_0001"),
        (_move("bowl/train/bowl_0001", "cup/train/bowl_0001"), "cup/train/bowl_0001"),
        (_retriangulate, "cup/test/cup_0002"),
    ],
    ids=["renamed", "moved across the split", "in another class", "re-triangulated"],
)
def test_a_foreign_mesh_is_named_and_the_whole_is_no_longer_modelnet40(tmp_path, part, caplog, change, name):
    change(part)
    store = prepared(tmp_path, source="folder", folder=str(part))
    assert (store["kind"], store["share"]) == ("own", 0.0)
    assert store["foreign"] == {"meshes": 1, "first": [name]}
    assert "absent" not in store
    assert f"1 meshes ({name})" in caplog.text


def test_the_official_table():
    table = modelnet40_official.official()
    assert len(table) == modelnet40_official.MESHES == 12_311
    assert sum(counts is None for counts in table.values()) == 141
    assert table["bathtub/train/bathtub_0001"] == (3514, 3546)
    assert modelnet40_official.is_official("bathtub/train/bathtub_0001", Counts(None, 3546))
    assert not modelnet40_official.is_official("bathtub/train/bathtub_0001", Counts(3514, 3545))
    assert not modelnet40_official.is_official("bathtub/test/bathtub_0001", None)


def test_twins_across_the_split_are_found_in_any_format(tmp_path, folder):
    """A boat of training is a test crate, another one a test boat as PLY; two training anchors are the same."""
    for number, path in enumerate(sorted(folder.glob("*/test/*.off"))):  # those of the fixture are in training, too
        mesh_file(path, "cup", number)
    shutil.copy(folder / "boat/train/boat_0.off", folder / "crate/test/crate_1.off")
    (folder / "boat/test/boat_9.ply").write_bytes(as_file(*read_mesh(folder / "boat/train/boat_2.off"), ".ply"))
    shutil.copy(folder / "anchor/train/anchor_0.off", folder / "anchor/train/anchor_9.off")
    store = prepared(tmp_path, source="folder", folder=str(folder))
    table = pd.read_parquet(tmp_path / "store" / "meshes.parquet").set_index("file")
    assert table.index[table["twin_in_training"]].tolist() == ["boat/test/boat_9.ply", "crate/test/crate_1.off"]
    assert store["twins"] == {"groups": 3, "across_split": 2, "across_classes": 1, "test_meshes": 2}


def test_the_file_that_older_code_expects(tmp_path, folder):
    h5py = pytest.importorskip("h5py")
    store = prepared(tmp_path, source="folder", folder=str(folder))
    write_hdf5(tmp_path / "store", tmp_path / "ModelNet40_cloud.h5", points=64)
    table, pool = pd.read_parquet(tmp_path / "store" / "meshes.parquet"), Pool(tmp_path / "store")
    with h5py.File(tmp_path / "ModelNet40_cloud.h5") as file:
        assert {name: values.shape for name, values in file.items()} == {
            "tr_cloud": (9, 64, 3), "tr_labels": (9,), "test_cloud": (6, 64, 3), "test_labels": (6,)
        }  # fmt: skip
        assert file.attrs["store_sha256"] == store["digest"]
        assert file["tr_cloud"].attrs["sha256"] == hashlib.sha256(file["tr_cloud"][:]).hexdigest()
        row = table.index[table["split"] == "test"][4]
        assert (file["test_cloud"][4] == pool.of(row, pool.open())[:64]).all()
        assert file["test_labels"][4] == table["label"][row]
    with pytest.raises(EquisetError, match=r"has 64 points of a mesh, and ModelNet40_cloud.h5 needs 10000: raise"):
        write_hdf5(tmp_path / "store", tmp_path / "ModelNet40_cloud.h5")
