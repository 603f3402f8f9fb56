"""`equiset.load_run`: a trained network on arrays, and what it refuses."""

from pathlib import Path

import numpy as np
import pytest
import torch

import equiset
from equiset.errors import EquisetError
from equiset.files import read_json, write_json
from tests.unit.untrained_runs import UntrainedRun


def test_load_run_gives_network_preprocessing_and_settings(make_run):
    made = make_run("mnist_sums", "IV-N3")
    run = equiset.load_run(made.run)
    images = np.load(made.store / "images.npy")[:15].reshape(3, 5, 28, 28)
    assert not run.network.training
    assert run.settings.model == "IV"
    with torch.no_grad():
        expected = run.network(torch.from_numpy(images).float() / 255)
    torch.testing.assert_close(run(images), expected, rtol=0, atol=0)


def test_a_published_run_can_be_loaded():
    reference = Path(__file__).parents[2] / "results" / "reference"
    published = sorted(path.parent for path in reference.glob("*/runs/*/*/weights.safetensors"))
    assert published
    for folder in published:
        run = equiset.load_run(folder)
        assert sum(parameter.numel() for parameter in run.network.parameters()) == run.info["parameters"]


def test_no_flipped_bit_of_the_weights_is_used(make_run, tmp_path):
    """Also one that leaves a file of weights of the same shapes."""
    made = make_run("mnist_sums", "IV-N3")
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
def test_weights_that_are_none_are_named_where_no_digest_is_known(make_run, content, words):
    """As of runs that were made before run.json had it."""
    made = make_run("mnist_sums", "IV-N3")
    info = read_json(made.run / "run.json")
    write_json(made.run / "run.json", {key: value for key, value in info.items() if key != "weights_sha256"})
    assert equiset.load_run(made.run)
    (made.run / "weights.safetensors").write_bytes(content)
    with pytest.raises(EquisetError, match=words):
        equiset.load_run(made.run)


def pixels_of(made: UntrainedRun) -> np.ndarray:
    """A few sets of random images, in the shape that the run of `made` takes."""
    faces = "outlier_faces" in made.run.parts
    shape = (2, read_json(made.run / "run.json")["sets"]["members"], *((64, 64, 3) if faces else (28, 28)))
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


IMAGE_RUNS = [("mnist_sums", "III-N3"), ("mnist_sums", "I-N3"), ("outlier_faces", "set-layer")]


@pytest.mark.parametrize(("experiment", "variant"), IMAGE_RUNS)
@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, np.float64])
def test_images_are_not_touched_and_may_have_any_type(make_run, experiment, variant, dtype):
    made = make_run(experiment, variant)
    run, images = equiset.load_run(made.run), pixels_of(made)
    given = images.astype(dtype)
    answers = [run(given) for _ in range(3)]
    assert np.array_equal(given, images)
    assert all(torch.equal(answer, run(images)) for answer in answers)


@pytest.mark.parametrize(("experiment", "variant"), IMAGE_RUNS)
def test_images_that_are_none_are_named(make_run, experiment, variant):
    made = make_run(experiment, variant)
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


def test_lists_of_different_lengths_are_one_line(make_run):
    run = equiset.load_run(make_run("point_clouds", "set-100").run)
    for clouds in ([[[0, 0, 0], [1, 1]]], [[0, 1, 2]], 3, "text"):
        with pytest.raises(EquisetError, match=r"expected points \(clouds, particles, 3\), got"):
            run(clouds)


def test_clouds_may_have_any_unit_and_place(make_run):
    run = equiset.load_run(make_run("point_clouds", "set-100").run)
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


@pytest.mark.parametrize(
    "offsets", [4, [[0, 4]], [0, 4.0], ["0", "4"], [0, 9], [1, 4], [], [0, 3, 2, 4], [0, 2, 2, 4], [[0], [1, 2]], None]
)
def test_offsets_that_are_wrong_are_one_line(make_run, offsets):
    run = equiset.load_run(make_run("redshift", "set").run)
    values = np.zeros((4, 17), np.float32)
    assert run(values, [0, 1, 4]).shape == (4,)
    with pytest.raises(EquisetError, match="expected offsets"):
        run(values, offsets)


def test_members_of_clusters_are_checked(make_run):
    run = equiset.load_run(make_run("redshift", "set").run)
    features = next(parameter.shape[1] for parameter in run.network.parameters() if parameter.ndim == 2)
    values = np.random.default_rng(0).normal(size=(5, features))
    offsets = np.array([0, 2, 5])
    kept = values.copy()
    assert torch.equal(run(values, offsets), run(values.astype(np.float32), offsets))
    assert np.array_equal(values, kept)
    with pytest.raises(EquisetError, match=rf"expected values \(members, {features}\), got"):
        run(values[:, :3], offsets)
