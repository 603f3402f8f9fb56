"""The stand-in for MNIST: the same files, fixed by the seed, with nothing in common between the splits."""

from pathlib import Path

import numpy as np

from equiset.data.mnist import FILES, MnistSettings, fetch, prepare, stand_in


def test_stand_in_fills_the_same_files(tmp_path):
    settings = MnistSettings(source="stand-in", stand_in={"train": 60, "test": 20, "seed": 3})
    manifest = fetch(settings, tmp_path)
    assert {role: Path(entry["path"]).name for role, entry in manifest["files"].items()} == {
        role: known.name for role, known in FILES.items()
    }
    assert (manifest["kind"], manifest["share"]) == ("stand-in", 0.0)
    assert "stand-in" in manifest["description"]
    prepare(manifest, tmp_path / "out")
    assert np.load(tmp_path / "out" / "images.npy").shape == (80, 28, 28)
    assert fetch(settings, tmp_path) == manifest


def test_stand_in_depends_on_the_seed_alone():
    (images, labels), (again, labels_again) = stand_in.draw("train", 50, 1), stand_in.draw("train", 50, 1)
    assert (images == again).all()
    assert (labels == labels_again).all()
    assert (images != stand_in.draw("train", 50, 2)[0]).any()


def test_stand_in_splits_have_no_original_in_common():
    (train, train_images, _), (test, test_images, _) = stand_in.originals("train"), stand_in.originals("test")
    assert not set(train) & set(test)
    assert len(train) + len(test) == 1797
    assert not {image.tobytes() for image in train_images} & {image.tobytes() for image in test_images}


def test_stand_in_looks_like_mnist():
    images, labels = stand_in.draw("train", 400, 0)
    assert set(labels) == set(range(10))
    assert images.max(axis=(1, 2)).min() == 255
    assert 0.1 < images.mean() / 255 < 0.2
    # The ink fills a 20 x 20 box, and its centre of mass is the middle of the image, to a pixel.
    ink = images > 64
    height, width = (np.where(ink.any(axis), 1, 0).sum(1) for axis in (2, 1))
    assert np.maximum(height, width).max() <= 22
    assert np.maximum(height, width).min() >= 18
    position = np.arange(28) + 0.5
    mass = images.sum(axis=(1, 2))
    for axis in (1, 2):
        assert np.abs(images.sum(axis=axis) @ position / mass - 14).max() < 1


def test_stand_in_can_be_learned():
    images, labels = stand_in.draw("train", 2000, 0)
    unseen, truth = stand_in.draw("test", 300, 0)
    flat, unseen = (x.reshape(len(x), -1).astype(np.float32) / 255 for x in (images, unseen))
    distance = (flat**2).sum(1) - 2 * unseen @ flat.T
    assert (labels[distance.argmin(1)] == truth).mean() > 0.85
