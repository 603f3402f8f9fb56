"""`python -m equiset predict`: the numbers of an evaluation on the same inputs, to the last digit, and bad files."""

import logging
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

import equiset
from equiset.__main__ import main
from equiset.data.celeba.images import ImageSource
from equiset.data.mnist.idx import write_idx
from equiset.data.modelnet40.mesh_files import read_mesh
from equiset.errors import EquisetError, one_line_errors
from equiset.files import digest, read_json, write_json
from equiset.training.loop import fix_seeds, save_weights
from equiset.training.run import evaluate_run
from tests.unit.small_tasks import Tasks

CPU = torch.device("cpu")
DATA = {
    "mnist_sums": "mnist",
    "point_clouds": "modelnet40",
    "outlier_faces": "celeba",
    "redshift": "redmapper",
}
KINDS = {  # a variant of each kind of network
    "mnist_sums": ["I-N3", "III-N3", "IV-N3"],
    "point_clouds": ["set-100", "graph-1000"],
    "outlier_faces": ["set-layer", "set-pooling", "sigmoid"],
    "redshift": ["set", "mlp"],
}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    return Tasks(tmp_path_factory.mktemp("tasks"))


class Made:
    """Networks with random weights in the folders of runs, and what `evaluate` says of them."""

    def __init__(self, tasks: Tasks, root: Path, experiment: str, variant: str, seeds: int = 1):
        task = tasks.make(experiment, variant, CPU)
        self.store = tasks.store(DATA[experiment])
        self.sets = tasks.sets(experiment, task.settings.sets)
        self.variant = root / "results" / "smoke" / experiment / "runs" / variant
        here = root / "results" / "smoke" / "data" / DATA[experiment]
        here.mkdir(parents=True)
        (here / "store").symlink_to(self.store)
        for seed in range(seeds):
            fix_seeds(seed)
            model = task.build_model()
            settings = task.settings.model_dump(mode="json", exclude={"role"})
            names = {"experiment": experiment, "variant": variant, "seed": seed, "scale": "smoke", "device": "cpu"}
            about = {"spec": names | {"settings": settings}, "sets": read_json(self.sets / "sets.json")}
            weights = self.variant / f"seed{seed}" / "weights.safetensors"
            save_weights(model, weights)
            write_json(weights.with_name("run.json"), about | {"weights_sha256": digest(weights)})
        self.run = self.variant / "seed0"

    def evaluated(self) -> pd.DataFrame:
        output = self.run / "predictions.parquet"
        evaluate_run(self.run, self.store, self.sets, output)
        return pd.read_parquet(output)


@pytest.fixture
def make(tasks, tmp_path):
    return lambda *names, **more: Made(tasks, tmp_path / "project", *names, **more)


def predicted(run: Path, source: Path, *more: str, ending: str = "parquet") -> pd.DataFrame:
    output = run.parent / f"predicted.{ending}"
    main(["predict", str(run), str(source), "--output", str(output), *more])
    return pd.read_csv(output) if ending == "csv" else pd.read_parquet(output)


@pytest.mark.parametrize("variant", KINDS["mnist_sums"])
def test_sums_are_those_of_the_evaluation(make, variant, tmp_path):
    made = make("mnist_sums", variant)
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


@pytest.mark.parametrize("variant", KINDS["outlier_faces"])
def test_outliers_are_those_of_the_evaluation(make, variant, tmp_path):
    made = make("outlier_faces", variant)
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


@pytest.mark.parametrize("variant", KINDS["point_clouds"])
def test_classes_are_those_of_the_evaluation(make, variant, tmp_path):
    made = make("point_clouds", variant)
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


def catalogue(made: Made, folder: Path, kept: np.ndarray) -> Path:
    """Write some members of the store, and the clusters, as Parquet."""
    folder.mkdir()
    shutil.copy(made.store / "clusters.parquet", folder / "clusters.parquet")
    pq.write_table(pq.read_table(made.store / "members.parquet").filter(kept), folder / "members.parquet")
    return folder


@pytest.mark.parametrize("variant", KINDS["redshift"])
def test_redshifts_are_those_of_the_evaluation(make, variant, tmp_path):
    made = make("redshift", variant)
    expected = made.evaluated().query("split == 'test'")
    offsets, known = np.load(made.store / "offsets.npy"), expected["row"].to_numpy()
    cluster = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    # The evaluation sees clusters that hold a galaxy with a spectrum; the perceptron sees those galaxies alone.
    kept = np.isin(cluster, cluster[known]) if variant == "set" else np.isin(np.arange(len(cluster)), known)
    found = predicted(made.run, catalogue(made, tmp_path / "sky", kept))
    assert found["z"].to_numpy()[np.isin(np.flatnonzero(kept), known)].tolist() == expected["z"].tolist()
    objid = pd.read_parquet(made.store / "members.parquet", columns=["ID", "OBJID"])[kept]
    assert found[["ID", "OBJID"]].to_numpy().tolist() == objid.to_numpy().tolist()


def test_a_catalogue_in_fits_gives_what_the_same_in_parquet_gives(make, tmp_path):
    made = make("redshift", "set", seeds=3)
    whole = catalogue(made, tmp_path / "sky", np.ones(len(np.load(made.store / "z_spec.npy")), bool))
    fits = next(made.store.parent.joinpath("cache").glob("redmapper-stand-in-*"))
    one, other = predicted(made.variant, whole), predicted(made.variant, fits)
    pd.testing.assert_frame_equal(one, other, check_exact=True)
    alone = [predicted(made.variant / f"seed{seed}", fits)["z"] for seed in range(3)]
    np.testing.assert_allclose(one["z"], np.mean(alone, 0), rtol=1e-6)
    np.testing.assert_allclose(one["z_spread"], np.std(alone, 0, ddof=1), rtol=1e-4)
    assert one["z_spread"].gt(0).all()


def test_clusters_need_not_be_in_order(make, tmp_path, monkeypatch):
    made = make("redshift", "set", seeds=2)
    monkeypatch.setattr("equiset.experiments.redshift.task.EVALUATION_BATCH", 7)
    sky = catalogue(made, tmp_path / "sky", np.ones(len(np.load(made.store / "z_spec.npy")), bool))
    expected = predicted(made.variant, sky)
    table = pq.read_table(sky / "members.parquet")
    # Clusters in any order, with their members apart, which keep their own order.
    order = np.random.default_rng(0).permutation(len(table))
    order = order[np.argsort(expected["ID"].to_numpy()[order], kind="stable")]
    places = np.concatenate([np.sort(order[0::3]), np.sort(order[1::3]), np.sort(order[2::3])])
    pq.write_table(table.take(places), sky / "members.parquet")
    found = predicted(made.variant, sky)
    assert found["OBJID"].tolist() == expected["OBJID"].to_numpy()[places].tolist()
    np.testing.assert_allclose(found["z"], expected["z"].to_numpy()[places], rtol=1e-5)


@pytest.mark.parametrize(
    ("column", "change", "reason"),
    [
        ("ID", lambda ids: pc.binary_join_element_wise("cluster", ids.cast(pa.string()), "-"), "ID, .* whole numbers"),
        ("ID", lambda ids: pc.add(ids.cast(pa.float64()), 0.5), "ID, .* whole numbers"),
        ("MODEL_MAG_I", lambda values: values.cast(pa.string()), "MODEL_MAG_I must hold numbers, and holds string"),
    ],
)
def test_a_column_of_the_wrong_kind_is_one_line(make, tmp_path, column, change, reason):
    made = make("redshift", "set")
    sky = catalogue(made, tmp_path / "sky", np.ones(len(np.load(made.store / "z_spec.npy")), bool))
    table = pq.read_table(sky / "members.parquet")
    place = table.column_names.index(column)
    pq.write_table(table.set_column(place, column, change(table[column])), sky / "members.parquet")
    with pytest.raises(EquisetError, match=f"members.parquet: {reason}"):
        predicted(made.run, sky)


@pytest.mark.parametrize("kind", [pa.string(), pa.float64(), pa.int32()])
def test_ids_may_be_written_in_any_way(make, tmp_path, kind):
    made = make("redshift", "set")
    sky = catalogue(made, tmp_path / "sky", np.ones(len(np.load(made.store / "z_spec.npy")), bool))
    expected = predicted(made.run, sky)
    table = pq.read_table(sky / "members.parquet")
    place = table.column_names.index("ID")
    pq.write_table(table.set_column(place, "ID", table["ID"].cast(kind)), sky / "members.parquet")
    pd.testing.assert_frame_equal(predicted(made.run, sky), expected)


def test_p_cen_of_text_is_one_line(make, tmp_path):
    made = make("redshift", "set")
    sky = catalogue(made, tmp_path / "sky", np.ones(len(np.load(made.store / "z_spec.npy")), bool))
    table = pq.read_table(sky / "clusters.parquet")
    text = pa.array(["0.9 0.1"] * len(table))
    pq.write_table(table.set_column(table.column_names.index("P_CEN"), "P_CEN", text), sky / "clusters.parquet")
    with pytest.raises(EquisetError, match="P_CEN must hold 5 numbers in each row, and holds string"):
        predicted(made.run, sky)


@pytest.mark.parametrize(
    "offsets", [4, [[0, 4]], [0, 4.0], ["0", "4"], [0, 9], [1, 4], [], [0, 3, 2, 4], [0, 2, 2, 4], [[0], [1, 2]], None]
)
def test_offsets_that_are_wrong_are_one_line(make, offsets):
    run = equiset.load_run(make("redshift", "set").run)
    values = np.zeros((4, 17), np.float32)
    assert run(values, [0, 1, 4]).shape == (4,)
    with pytest.raises(EquisetError, match="expected offsets"):
        run(values, offsets)


def test_lists_of_different_lengths_are_one_line(make):
    run = equiset.load_run(make("point_clouds", "set-100").run)
    for clouds in ([[[0, 0, 0], [1, 1]]], [[0, 1, 2]], 3, "text"):
        with pytest.raises(EquisetError, match=r"expected points \(clouds, particles, 3\), got"):
            run(clouds)


def test_meshes_are_turned_as_those_that_the_network_learnt_from(make, tmp_path):
    made = make("point_clouds", "set-100")
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


def test_load_run_gives_network_preprocessing_and_settings(make):
    made = make("mnist_sums", "IV-N3")
    run = equiset.load_run(made.run)
    images = np.load(made.store / "images.npy")[:15].reshape(3, 5, 28, 28)
    assert not run.network.training
    assert run.settings.model == "IV"
    with torch.no_grad():
        expected = run.network(torch.from_numpy(images).float() / 255)
    torch.testing.assert_close(run(images), expected, rtol=0, atol=0)


def test_three_bad_files_of_a_hundred(make, tmp_path, caplog, capsys):
    made = make("point_clouds", "set-100")
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
    assert [name for name in ("cut.off", "empty.ply", "text.stl") if f"{name}" in caplog.text] != []
    assert "97 rows" in caplog.text
    assert "left out: 3" in caplog.text
    np.testing.assert_allclose(found.filter(like="p_").sum(axis=1), 1, rtol=1e-5)


def test_a_bad_image_costs_its_set_of_digits_and_one_face(make, tmp_path):
    digits = make("mnist_sums", "IV-N3")
    for name in ("a", "b"):
        for place in range(3):
            path = tmp_path / "digits" / name / f"{place}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("L", (28, 28)).save(path)
    (tmp_path / "digits" / "a" / "1.png").write_bytes(b"no image")
    assert predicted(digits.run, tmp_path / "digits", "--on-bad", "skip")["set"].tolist() == ["b"]
    faces = make("outlier_faces", "set-layer")
    folder = tmp_path / "faces"
    folder.mkdir()
    for number in range(9):
        Image.fromarray(np.random.default_rng(number).integers(256, size=(80, 90, 3), dtype=np.uint8)).save(
            folder / f"{number}.png"
        )
    (folder / "3.png").write_bytes(b"no image")
    found = predicted(faces.run, folder, "--on-bad", "skip")
    assert found["file"].tolist() == [f"{number}.png" for number in range(9) if number != 3]


def test_names_of_classes_without_the_data(make, tmp_path, caplog):
    """A published run has no data beside it: ModelNet40's classes are known, those of one's own data are numbers."""
    made = make("point_clouds", "set-100")
    mesh = next(made.store.parent.joinpath("cache").glob("*/chair/test/*.off"))
    moved = shutil.copytree(made.run, tmp_path / "elsewhere")
    there, away = predicted(made.run, mesh), predicted(moved, mesh)
    assert list(there) == list(away)
    about = read_json(moved / "run.json")
    write_json(moved / "run.json", about | {"sets": about["sets"] | {"kind": "own"}})
    assert predicted(moved, mesh)["class"].item() in map(str, range(40))
    assert "these are numbers" in caplog.text


def test_a_published_run_can_be_loaded():
    reference = Path(__file__).parents[2] / "results" / "reference"
    published = sorted(path.parent for path in reference.glob("*/runs/*/*/weights.safetensors"))
    assert published
    for folder in published:
        run = equiset.load_run(folder)
        assert sum(parameter.numel() for parameter in run.network.parameters()) == run.info["parameters"]


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
def test_what_is_wrong_is_said_in_one_line(make, tmp_path, caplog, change, words):
    made = make("mnist_sums", "IV-N3")
    (tmp_path / "digits").mkdir()
    arguments = ["predict", str(made.run), str(tmp_path / "digits"), "--output", str(tmp_path / "out.csv")]
    change(made, arguments)
    with pytest.raises(SystemExit), one_line_errors():
        main(arguments)
    errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert words in errors[0]
    assert "\n" not in errors[0]


def test_no_flipped_bit_of_the_weights_is_used(make, tmp_path):
    """Also one that leaves a file of weights of the same shapes."""
    made = make("mnist_sums", "IV-N3")
    weights = made.run / "weights.safetensors"
    content = bytearray(weights.read_bytes())
    content[-3] ^= 1
    weights.write_bytes(content)
    with pytest.raises(EquisetError, match=r"weights\.safetensors is damaged: its digest is not the one in run\.json"):
        equiset.load_run(made.run)
    with pytest.raises(EquisetError, match=r"weights\.safetensors is damaged"):
        made.evaluated()
    assert not (made.run / "predictions.parquet").exists()


@pytest.mark.parametrize(("content", "words"), [(b"x" * 90, "does not hold the weights"), (b"", "does not hold")])
def test_weights_that_are_none_are_named_where_no_digest_is_known(make, content, words):
    """As of runs that were made before run.json had it."""
    made = make("mnist_sums", "IV-N3")
    info = read_json(made.run / "run.json")
    write_json(made.run / "run.json", {key: value for key, value in info.items() if key != "weights_sha256"})
    assert equiset.load_run(made.run)
    (made.run / "weights.safetensors").write_bytes(content)
    with pytest.raises(EquisetError, match=words):
        equiset.load_run(made.run)


def test_columns_that_are_missing_are_named(make, tmp_path):
    made = make("redshift", "set")
    whole = catalogue(made, tmp_path / "sky", np.ones(len(np.load(made.store / "z_spec.npy")), bool))
    members = whole / "members.parquet"
    with pytest.raises(EquisetError, match="lacks the columns P_CEN"):
        predicted(made.run, members)
    pq.write_table(pq.read_table(members).drop_columns(["RA"]), members)
    with pytest.raises(EquisetError, match="lacks the columns RA"):
        predicted(made.run, whole)
    table = pq.read_table(made.store / "members.parquet")
    ids = pc.if_else(pc.equal(table["ID"], table["ID"][0]), None, table["ID"])
    pq.write_table(table.set_column(0, "ID", ids), members)
    with pytest.raises(EquisetError, match=r"holds a member without its cluster \(ID\)"):
        predicted(made.run, whole)
    pq.write_table(table.append_column("P_CEN", pa.array([[0.5, 0.5]] * len(table))), members)
    with pytest.raises(EquisetError, match="P_CEN must hold 5 numbers in each row"):
        predicted(made.run, members)


def test_standardised_pixels_need_the_data(make, tmp_path):
    made = make("mnist_sums", "IV-N3")
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


def pixels_of(made: Made) -> np.ndarray:
    """A few sets of random images, in the shape that the run of `made` takes."""
    faces = "outlier_faces" in made.run.parts
    shape = (2, read_json(made.run / "run.json")["sets"]["members"], *((64, 64, 3) if faces else (28, 28)))
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


IMAGE_RUNS = [("mnist_sums", "III-N3"), ("mnist_sums", "I-N3"), ("outlier_faces", "set-layer")]


@pytest.mark.parametrize(("experiment", "variant"), IMAGE_RUNS)
@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, np.float64])
def test_images_are_not_touched_and_may_have_any_type(make, experiment, variant, dtype):
    made = make(experiment, variant)
    run, images = equiset.load_run(made.run), pixels_of(made)
    given = images.astype(dtype)
    answers = [run(given) for _ in range(3)]
    assert np.array_equal(given, images)
    assert all(torch.equal(answer, run(images)) for answer in answers)


@pytest.mark.parametrize(("experiment", "variant"), IMAGE_RUNS)
def test_images_that_are_none_are_named(make, experiment, variant):
    made = make(experiment, variant)
    run, images = equiset.load_run(made.run), pixels_of(made)
    wrong = {
        "multiply them by 255": images / 255,
        "values from 0 to 255": images.astype(np.int64) * 2,
        "got bool of shape": images > 0,
        "got uint8 of shape": images[:, :0],
        "got some from nan": np.where(images > 0, images, np.nan),
    }
    for message, given in wrong.items():
        with pytest.raises(EquisetError, match=message):
            run(given)
    for given in (images[0], images[..., :-1], images.repeat(2, -2), list("abc")):
        with pytest.raises(EquisetError, match=r"expected (digits|faces) \(sets, (members|3), .* got"):
            run(given)
    if variant == "I-N3":
        with pytest.raises(EquisetError, match=r"digits \(sets, 3, 28, 28\), got uint8 of shape \(2, 2, 28, 28\)"):
            run(images[:, :2])


def test_clouds_may_have_any_unit_and_place(make):
    run = equiset.load_run(make("point_clouds", "set-100").run)
    clouds = np.random.default_rng(0).normal(size=(3, 50, 3))
    expected = run(clouds)
    for unit, place in ((1.0, 5e6), (1e-6, 0.0), (1e-6, 1.0), (1e-30, 0.0), (1e30, 0.0), (1e200, 0.0), (1e3, 5e6)):
        moved = clouds * unit + place
        kept = moved.copy()
        torch.testing.assert_close(run(moved), expected, rtol=1e-4, atol=1e-5)
        assert np.array_equal(moved, kept)
    # Float32 has the digits of tiny clouds, not those of clouds that are far away.
    torch.testing.assert_close(run((clouds * 1e-6).astype(np.float32)), expected, rtol=1e-4, atol=1e-5)
    together = np.concatenate([clouds[:1], clouds[1:] * 1e-6 + 3])
    torch.testing.assert_close(run(together), expected, rtol=1e-4, atol=1e-5)
    assert run(np.ones((1, 5, 3))).isfinite().all()
    for wrong in (clouds[0], clouds[:, :0], clouds[..., :2], np.full((1, 4, 3), np.inf)):
        with pytest.raises(EquisetError, match="expected points"):
            run(wrong)


def test_members_of_clusters_are_checked(make):
    run = equiset.load_run(make("redshift", "set").run)
    features = next(parameter.shape[1] for parameter in run.network.parameters() if parameter.ndim == 2)
    values = np.random.default_rng(0).normal(size=(5, features))
    offsets = np.array([0, 2, 5])
    kept = values.copy()
    assert torch.equal(run(values, offsets), run(values.astype(np.float32), offsets))
    assert np.array_equal(values, kept)
    with pytest.raises(EquisetError, match=rf"expected values \(members, {features}\), got"):
        run(values[:, :3], offsets)
