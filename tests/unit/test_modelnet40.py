"""ModelNet40 and its stand-in: from any source to the points that training maps into memory."""

import zipfile
from functools import partial

import numpy as np
import pandas as pd
import pytest

from equiset.data import meshes, modelnet40
from equiset.data.modelnet40 import CLASS_SIZES, ModelNetSettings, fetch, prepare
from equiset.data.off import read_off
from equiset.data.pool import open_pool
from equiset.errors import EquisetError
from equiset.files import digest, read_json
from equiset.twins import modelnet40 as twin

FAMILIES = twin.families()


def mesh_file(path, name, seed=0):
    rng = np.random.default_rng(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(twin.as_off(*twin.draw(FAMILIES[name], rng), rng))
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
    settings = ModelNetSettings(pool=64, **settings)
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
    assert (store["train"], store["test"], store["real"], store["skipped"]) == (9, 6, False, [])
    table = pd.read_parquet(tmp_path / "store" / "meshes.parquet")
    pool = open_pool(tmp_path / "store")
    assert pool.shape == (15, 64, 3)
    row = table.iloc[7]
    vertices, _ = read_off(folder / row["file"])
    points = row[["x", "y", "z"]].to_numpy(float) + row["scale"] * pool[7]
    assert (points > vertices.min(axis=0) - 1e-3 * row["scale"]).all()
    assert (points < vertices.max(axis=0) + 1e-3 * row["scale"]).all()


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
        (lambda folder: folder.rename(folder.with_name("moved")), "no such folder"),
        (lambda folder: [path.unlink() for path in folder.rglob("*.off")], "holds no meshes"),
        (lambda folder: [path.unlink() for path in folder.glob("boat/test/*")], "'boat' has no meshes in boat/test"),
        (
            lambda folder: [path.unlink() for path in folder.rglob("*.off") if "crate" not in path.name],
            "one class only",
        ),
    ],
)
def test_folders_that_cannot_be_used(tmp_path, folder, change, reason):
    change(folder)
    with pytest.raises(EquisetError, match=reason):
        fetch(ModelNetSettings(source="folder", folder=str(folder)), tmp_path)


def test_files_that_change_behind_the_manifest(tmp_path, folder):
    settings = ModelNetSettings(source="folder", folder=str(folder), pool=8)
    manifest = fetch(settings, tmp_path)
    victim = folder / "crate" / "test" / "crate_0.off"
    victim.write_bytes(victim.read_bytes() + b"\n")
    with pytest.raises(EquisetError, match=r"crate_0\.off has changed"):
        prepare(manifest, tmp_path / "store", settings)
    victim.unlink()
    with pytest.raises(EquisetError, match=r"crate_0\.off.*is gone"):
        prepare(manifest, tmp_path / "store", settings)
    with pytest.raises(EquisetError, match="not complete"):
        prepare({"dataset": "modelnet40"}, tmp_path / "store", settings)


def test_the_stand_in_fills_the_real_layout(tmp_path):
    settings = ModelNetSettings(source="twin", twin={"train": 1, "test": 1, "seed": 3}, pool=32)
    manifest = fetch(settings, tmp_path)
    assert len(manifest["meshes"]) == 80
    assert not manifest["real"]
    assert "stand-in" in manifest["description"]
    assert manifest["meshes"][0] | {"bytes": 0} == {
        "file": "airplane/test/airplane_0002.off", "class": "airplane", "split": "test", "bytes": 0
    }  # fmt: skip
    # Found in a folder it is still no ModelNet40.
    again = fetch(ModelNetSettings(source="folder", folder=manifest["root"]), tmp_path)
    assert not again["real"]
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
        vertices, triangles = read_off(path)
        sizes.add((len(vertices), len(triangles)))
        assert 20 < len(triangles) < 15_000
    assert len(sizes) > 1


def test_the_stand_in_has_the_quirks_of_the_real_files():
    rng = np.random.default_rng(0)
    mesh = twin.draw(FAMILIES["stool"], rng)
    files = [twin.as_off(*mesh, rng) for _ in range(100)]
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
    monkeypatch.setattr(modelnet40, "ARCHIVE_SHA256", digest(archive))
    web.answers["/ModelNet40.zip"] = [web.body(archive.read_bytes())]
    settings = ModelNetSettings(mirrors=[web.url("/ModelNet40.zip")], pool=16)
    manifest = fetch(settings, tmp_path / "cache")
    assert [mesh["file"] for mesh in manifest["meshes"]] == [
        f"{kind}/{split}/{kind}_1.off" for kind in ("bed", "cup") for split in ("test", "train")
    ]
    assert fetch(settings, tmp_path / "cache") == manifest
    assert len(web.requests) == 1


def test_a_mirror_that_lies_names_the_stand_in(tmp_path, web):
    web.answers["/ModelNet40.zip"] = [web.body(b"<html>quota exceeded</html>")]
    settings = ModelNetSettings(mirrors=[web.url("/ModelNet40.zip")], attempts=1)
    with pytest.raises(EquisetError, match=r"web page.*source: twin"):
        fetch(settings, tmp_path)
    assert not (tmp_path / "ModelNet40").exists()


def test_poisson_disk_points_keep_a_distance(tmp_path):
    """pymeshlab's random numbers go on from mesh to mesh; the points must not depend on which came before."""
    names = ["one.off", "two.off"]
    for name in names:
        mesh_file(tmp_path / name, "stool")
    draw = partial(meshes._try, tmp_path, 64, 0, "poisson-disk")
    with meshes._mapper(2, "poisson-disk", 2) as mapped:
        clouds = [cloud.points for cloud in mapped(draw, names)]
    with meshes._mapper(1, "poisson-disk", 1) as mapped:
        (alone,) = (cloud.points for cloud in mapped(draw, names[1:]))
    assert (alone == clouds[1]).all()
    plain = meshes.points_of(tmp_path / names[0], names[0], 64, 0, "area").points

    def gap(points):
        return (np.linalg.norm(points[:, None] - points, axis=2) + 9 * np.eye(len(points))).min()

    assert gap(clouds[0]) > 3 * gap(plain)
