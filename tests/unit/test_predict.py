"""`python -m equiset predict` on files: the numbers of an evaluation of the same, to the last digit, and bad files."""

import logging
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from equiset.__main__ import main
from equiset.data.celeba.images import ImageSource
from equiset.data.mnist.idx import write_idx
from equiset.data.modelnet40.mesh_files import read_mesh
from equiset.errors import EquisetError, one_line_errors
from equiset.files import read_json, write_json
from tests.unit.untrained_runs import predicted


@pytest.mark.parametrize("variant", ["I-N3", "III-N3", "IV-N3"])
def test_sums_are_those_of_the_evaluation(make_run, variant, tmp_path):
    made = make_run("mnist_sums", variant)
    expected = made.evaluated().query("split == 'validation'")
    sets = pd.read_parquet(made.sets / "sets.parquet").query("split == 'validation'")
    images = np.load(made.store / "images.npy")[np.stack(sets["members"].to_numpy())]
    write_idx(tmp_path / "digits-idx3-ubyte.gz", images.reshape(-1, 28, 28))
    for number, one in enumerate(images):
        for place, image in enumerate(one):
            path = tmp_path / "digits" / f"set{number}" / f"{place}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(path)
    for source in ("digits-idx3-ubyte.gz", "digits"):
        found = predicted(made.run, tmp_path / source)
        assert found["sum"].tolist() == expected["predicted"].tolist()
        assert found["probability"].tolist() == expected["probability"].tolist()
    assert found["set"].tolist() == ["set0", "set1"]


@pytest.mark.parametrize("variant", ["set-layer", "set-pooling", "sigmoid"])
def test_outliers_are_those_of_the_evaluation(make_run, variant, tmp_path):
    made = make_run("outlier_faces", variant)
    expected = made.evaluated().query("split == 'test'")
    faces = pd.read_parquet(made.store / "faces.parquet").set_index("row")["file"]
    images = ImageSource(next(made.store.parent.joinpath("cache").rglob("img_align_celeba.zip"))).open()
    for number, members in enumerate(expected["members"]):
        for place, row in enumerate(members):
            path = tmp_path / "faces" / f"set{number}" / f"{place:02}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(images(faces[row]))
    found = predicted(made.run, tmp_path / "faces")
    assert found["probability"].tolist() == np.concatenate(expected["probability"].to_numpy()).tolist()
    assert found["file"].tolist() == [f"{place:02}.jpg" for _ in expected.index for place in range(4)]
    if variant != "sigmoid":
        assert found.groupby("set")["outlier"].sum().eq(1).all()


@pytest.mark.parametrize("variant", ["set-100", "graph-1000"])
def test_classes_are_those_of_the_evaluation(make_run, variant, tmp_path):
    made = make_run("point_clouds", variant)
    expected = made.evaluated()
    meshes = pd.read_parquet(made.store / "meshes.parquet").query("split == 'test'")
    root = next(made.store.parent.joinpath("cache").glob("modelnet40-stand-in*"))
    for file in meshes["file"]:
        (tmp_path / "meshes" / file).parent.mkdir(parents=True)
        shutil.copy(root / file, tmp_path / "meshes" / file)
    found = predicted(made.run, tmp_path / "meshes")
    assert found["file"].tolist() == meshes["file"].tolist()
    draws = expected["draw"].nunique()
    assert draws > 1
    agreed = 0
    for number, (mesh, row) in enumerate(zip(meshes.index, found.to_dict("records"), strict=True)):
        drawn = expected[expected["mesh"] == mesh]
        classes = sorted(meshes["class"])
        if drawn["predicted"].nunique() == 1:
            agreed += 1
            mean = torch.from_numpy(drawn["probability"].to_numpy(copy=True)).mean().item()
            assert (row["class"], row["probability"]) == (classes[drawn["predicted"].iloc[0]], mean), number
        assert row["probability"] == row[f"p_{row['class']}"] == max(row[f"p_{name}"] for name in classes)
    assert agreed > len(meshes) // 2


def test_meshes_are_turned_as_those_that_the_network_learnt_from(make_run, tmp_path):
    made = make_run("point_clouds", "set-100")
    mesh = next(made.store.parent.joinpath("cache").glob("*/chair/test/*.off"))
    vertices, triangles = read_mesh(mesh)
    x, y, z = vertices.T
    lines = [f"OFF\n{len(vertices)} {len(triangles)} 0"]
    lines += [" ".join(map(repr, row)) for row in np.stack([x, z, -y], 1).tolist()]
    lines += [" ".join(map(str, (3, *row))) for row in triangles.tolist()]
    lying = tmp_path / "lying" / mesh.name
    lying.parent.mkdir()
    lying.write_text("\n".join(lines))
    expected = predicted(made.run, mesh)
    about = read_json(made.run / "run.json")
    write_json(made.run / "run.json", about | {"sets": about["sets"] | {"up": "y"}})
    pd.testing.assert_frame_equal(predicted(made.run, lying), expected)


def test_three_bad_files_of_a_hundred(make_run, tmp_path, caplog, capsys):
    made = make_run("point_clouds", "set-100")
    root = next(made.store.parent.joinpath("cache").glob("modelnet40-stand-in*"))
    folder = tmp_path / "mine"
    folder.mkdir()
    source = sorted(root.glob("*/*/*.off"))
    for number in range(97):
        shutil.copy(source[number % len(source)], folder / f"mesh{number:03}.off")
    (folder / "empty.ply").touch()
    (folder / "cut.off").write_bytes(source[0].read_bytes()[:200])
    (folder / "text.stl").write_text("no mesh")
    with pytest.raises(EquisetError, match=r"cut\.off.*--on-bad skip"):
        predicted(made.run, folder)
    assert not list(made.variant.glob("*predicted*"))
    with caplog.at_level(logging.INFO):
        found = predicted(made.run, folder, "--on-bad", "skip", ending="csv")
    assert found["file"].tolist() == [f"mesh{number:03}.off" for number in range(97)]
    assert all(name in caplog.text for name in ("cut.off", "empty.ply", "text.stl"))
    assert "97 rows" in caplog.text
    assert "left out: 3" in caplog.text
    np.testing.assert_allclose(found.filter(like="p_").sum(axis=1), 1, rtol=1e-5)


def test_a_bad_image_costs_its_set_of_digits_and_one_face(make_run, tmp_path):
    digits = make_run("mnist_sums", "IV-N3")
    for name in ("a", "b"):
        for place in range(3):
            path = tmp_path / "digits" / name / f"{place}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("L", (28, 28)).save(path)
    (tmp_path / "digits" / "a" / "1.png").write_bytes(b"no image")
    assert predicted(digits.run, tmp_path / "digits", "--on-bad", "skip")["set"].tolist() == ["b"]
    faces = make_run("outlier_faces", "set-layer")
    folder = tmp_path / "faces"
    folder.mkdir()
    for number in range(9):
        Image.fromarray(np.random.default_rng(number).integers(256, size=(80, 90, 3), dtype=np.uint8)).save(
            folder / f"{number}.png"
        )
    (folder / "3.png").write_bytes(b"no image")
    found = predicted(faces.run, folder, "--on-bad", "skip")
    assert found["file"].tolist() == [f"{number}.png" for number in range(9) if number != 3]


def test_names_of_classes_without_the_data(make_run, tmp_path, caplog):
    """A published run has no data beside it: ModelNet40's classes are known, those of one's own data are numbers."""
    made = make_run("point_clouds", "set-100")
    mesh = next(made.store.parent.joinpath("cache").glob("*/chair/test/*.off"))
    moved = shutil.copytree(made.run, tmp_path / "elsewhere")
    there, away = predicted(made.run, mesh), predicted(moved, mesh)
    assert list(there) == list(away)
    about = read_json(moved / "run.json")
    write_json(moved / "run.json", about | {"sets": about["sets"] | {"kind": "own"}})
    assert predicted(moved, mesh)["class"].item() in map(str, range(40))
    assert "these are numbers" in caplog.text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda made, args: args.__setitem__(1, "absent"), "absent is neither the folder of a run"),
        (lambda made, args: args.__setitem__(2, "absent"), "absent is not there"),
        (lambda made, args: args.__setitem__(4, "out.xlsx"), "must end in .csv or .parquet"),
        (lambda made, args: (made.run / "weights.safetensors").unlink(), "it has no weights.safetensors"),
        (lambda made, args: (made.run / "weights.safetensors").write_bytes(b"x" * 90), "its digest is not the one"),
        (lambda made, args: (made.run / "run.json").write_text("{}"), "is not what equiset writes"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(make_run, tmp_path, caplog, change, words):
    made = make_run("mnist_sums", "IV-N3")
    (tmp_path / "digits").mkdir()
    arguments = ["predict", str(made.run), str(tmp_path / "digits"), "--output", str(tmp_path / "out.csv")]
    change(made, arguments)
    with pytest.raises(SystemExit), one_line_errors():
        main(arguments)
    errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert words in errors[0]
    assert "\n" not in errors[0]


def test_standardised_pixels_need_the_data(make_run, tmp_path):
    made = make_run("mnist_sums", "IV-N3")
    about = read_json(made.run / "run.json")
    about["spec"]["settings"]["pixels"] = "standardised"
    write_json(made.run / "run.json", about)
    write_idx(tmp_path / "digits", np.load(made.store / "images.npy")[:6])
    expected = made.evaluated()
    sets = pd.read_parquet(made.sets / "sets.parquet")
    write_idx(tmp_path / "first", np.load(made.store / "images.npy")[sets["members"][0]])
    assert predicted(made.run, tmp_path / "first")["sum"].item() == expected["predicted"][0]
    with pytest.raises(EquisetError, match="leave the run where the workflow made it"):
        predicted(shutil.copytree(made.run, tmp_path / "elsewhere"), tmp_path / "digits")
