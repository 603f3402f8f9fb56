"""The sets, the four models and the results of the MNIST sums."""

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F

from equiset.errors import EquisetError
from equiset.experiments.mnist_sums.networks import Convolutions, SumNet
from equiset.experiments.mnist_sums.sets import make_sets
from equiset.experiments.mnist_sums.settings import MnistSets, MnistVariant
from equiset.experiments.mnist_sums.task import Task
from equiset.files import read_json, write_json
from equiset.training.loop import evaluate

TRAINING = {"epochs": 1, "batch_size": 16, "optimizer": {"learning_rate": 0.001}}


def variant(model="IV", **changes):
    values = {
        "sets": "N3",
        "training": TRAINING,
        "model": model,
        "channels": [2, 4, 4, 8],
        "hidden": 16,
        "dropout": 0.2,
    }
    return MnistVariant.model_validate(values | changes)


@pytest.fixture
def store(tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "store"
    folder.mkdir()
    np.save(folder / "images.npy", rng.integers(0, 256, (90, 28, 28), dtype=np.uint8))
    np.save(folder / "labels.npy", rng.integers(0, 10, 90, dtype=np.uint8))
    about = {
        "dataset": "mnist",
        "source": "folder",
        "kind": "own",
        "share": 0.0,
        "description": "noise",
        "digest": "0" * 64,
    }
    write_json(folder / "store.json", about | {"train": 60, "test": 30})
    return folder


def draw(store, folder, seed=0, **settings):
    values = {"members": 3, "train": 400, "validation": 200} | settings
    make_sets(MnistSets(**values), seed, store, folder)
    return pd.read_parquet(folder / "sets.parquet")


def test_sets_have_different_members_and_the_sum_as_label(store, tmp_path):
    table = draw(store, tmp_path / "sets", members=6)
    members = np.stack(table["members"])
    labels = np.load(store / "labels.npy")
    assert (table["split"].value_counts()[["train", "validation"]] == [400, 200]).all()
    assert all(len(set(row)) == 6 for row in members)
    assert (labels[members].astype(int).sum(1) == table["label"]).all()


def test_no_image_is_in_both_splits_unless_asked_for(store, tmp_path):
    for draw_from, shared in (("split", False), ("all", True)):
        table = draw(store, tmp_path / draw_from, draw_from=draw_from)
        train, validation = (
            set(np.stack(table.loc[table["split"] == split, "members"]).flat) for split in ("train", "validation")
        )
        assert bool(train & validation) == shared
    assert max(train | validation) == 89


def test_a_holdout_tunes_without_the_test_images(store, tmp_path):
    table = draw(store, tmp_path / "sets", holdout=15)
    train, validation = (
        set(np.stack(table.loc[table["split"] == split, "members"]).flat) for split in ("train", "validation")
    )
    assert train == set(range(45))
    assert validation == set(range(45, 60))
    # A table that names its data then says that these are not the paper's validation sets.
    assert read_json(tmp_path / "sets" / "sets.json")["data"] == (
        "noise (tuning: validated on 15 held-out training images)"
    )
    draw(store, tmp_path / "none")
    assert read_json(tmp_path / "none" / "sets.json")["data"] == "noise"
    task = Task(variant(pixels="standardised"), store, tmp_path / "sets", torch.device("cpu"))
    assert task.shift == pytest.approx(np.load(store / "images.npy")[:45].mean())
    with pytest.raises(EquisetError, match="60 of 60 training images would leave none"):
        draw(store, tmp_path / "all", holdout=60)
    with pytest.raises(ValueError, match="use draw_from: split"):
        MnistSets(members=3, train=1, validation=1, holdout=1, draw_from="all")


def test_sets_are_drawn_once_per_seed(store, tmp_path):
    contents = []
    for number, seed in enumerate((0, 0, 1)):
        draw(store, tmp_path / str(number), seed=seed)
        contents.append((tmp_path / str(number) / "sets.parquet").read_bytes())
    assert contents[0] == contents[1] != contents[2]
    assert read_json(tmp_path / "0" / "sets.json")["digest"] == read_json(tmp_path / "1" / "sets.json")["digest"]


def test_all_images_are_drawn_about_equally_often(store, tmp_path):
    table = draw(store, tmp_path / "sets", members=3, train=20_000)
    counts = np.bincount(np.stack(table.loc[table["split"] == "train", "members"]).ravel(), minlength=60)
    assert abs(counts / 1000 - 1).max() < 0.15


def test_a_set_larger_than_the_data_is_refused(store, tmp_path):
    with pytest.raises(EquisetError, match="sets of 31 different images from 30"):
        draw(store, tmp_path / "sets", members=31)


@pytest.mark.parametrize("rounding", ["up", "down"])
@pytest.mark.parametrize("model", ["I", "II", "III", "IV"])
@pytest.mark.parametrize("members", [1, 3, 6])
def test_models_give_one_logit_per_possible_sum(model, members, rounding):
    net = SumNet(variant(model, pool_rounding=rounding), members)
    assert net(torch.rand(2, members, 28, 28)).shape == (2, 9 * members + 1)


@pytest.mark.parametrize(("model", "invariant"), [("I", False), ("II", False), ("III", True), ("IV", True)])
def test_the_set_models_and_only_they_are_invariant(model, invariant):
    torch.manual_seed(0)
    net = SumNet(variant(model), 6).eval()
    images = torch.rand(4, 6, 28, 28)
    same = torch.allclose(net(images), net(images[:, torch.randperm(6)]), atol=1e-6)
    assert same == invariant


def test_dropout_is_shared_by_the_members_of_a_set():
    """Six copies of one image stay six copies, whatever is dropped."""
    torch.manual_seed(0)
    for shape in ("element", "channel"):
        net = SumNet(variant("III", conv_dropout_shape=shape), 6).train()
        images = torch.rand(4, 1, 28, 28).expand(4, 6, 28, 28)
        h = net.member_layers(net.convolutions(images[:, :, None]))
        assert torch.allclose(h, h[:, :1].expand_as(h), atol=1e-6)
        assert not torch.allclose(h, net.member_layers(net.convolutions(images[:, :, None])))


@pytest.mark.parametrize("shape", ["element", "channel"])
def test_members_may_lose_their_own_values_in_the_convolutions(shape):
    torch.manual_seed(0)
    net = SumNet(variant("III", conv_dropout_shape=shape, conv_dropout_members="independent"), 6).train()
    images = torch.rand(4, 1, 28, 28).expand(4, 6, 28, 28)
    h = net.convolutions(images[:, :, None])
    assert not any(torch.allclose(h[:, 0], h[:, member]) for member in range(1, 6))


def test_dropout_in_the_convolutions_may_have_its_own_rate():
    net = SumNet(variant("III", conv_dropout=0.0), 6).train()
    images = torch.rand(2, 6, 28, 28)[:, :, None]
    assert torch.equal(net.convolutions(images), net.convolutions(images))
    assert net.member_layers[-1].p == 0.2


def test_at_the_papers_size_an_image_has_512_features_or_128():
    settings = variant("III", channels=[16, 32, 64, 128], hidden=128)
    assert Convolutions(settings, 1, torch.nn.Identity()).features(28, 28) == 512
    down = settings.model_copy(update={"pool_rounding": "down"})
    assert Convolutions(down, 1, torch.nn.Identity()).features(28, 28) == 128


def test_models_iii_and_iv_have_the_same_number_of_parameters():
    counts = {
        model: sum(p.numel() for p in SumNet(variant(model, channels=[16, 32, 64, 128], hidden=128), 6).parameters())
        for model in ("III", "IV")
    }
    assert counts["III"] == counts["IV"]


def test_pooling_before_the_activation_changes_nothing():
    torch.manual_seed(0)
    convolutions = Convolutions(variant(), 1, torch.nn.Identity())
    x = torch.randn(2, 3, 1, 28, 28, requires_grad=True)
    h = x.flatten(0, 1)
    for layer in convolutions.layers:
        h = F.max_pool2d(F.elu(layer(h)), 2, ceil_mode=True)
    expected = h.flatten(1).unflatten(0, (2, 3))
    got = convolutions(x)
    assert torch.allclose(got, expected, atol=1e-6)
    assert torch.allclose(*(torch.autograd.grad(y.sum(), x, retain_graph=True)[0] for y in (got, expected)), atol=1e-5)


def test_glorot_is_tensorflows_default():
    net = SumNet(variant(initialisation="glorot"), 3)
    layer = net.set_layers[0]
    assert layer.bias.abs().max() == 0
    limit = (6 / (16 + 16)) ** 0.5
    assert limit * 0.9 < layer.weight.abs().max() <= limit


def test_the_task_serves_every_set_once_per_epoch(store, tmp_path):
    draw(store, tmp_path / "sets")
    task = Task(variant(), store, tmp_path / "sets", torch.device("cpu"))
    labels = torch.cat([labels for _, labels in task.train_batches(torch.Generator().manual_seed(0))])
    again = torch.cat([labels for _, labels in task.train_batches(torch.Generator().manual_seed(1))])
    assert not torch.equal(labels, again)
    assert torch.equal(labels.sort().values, task.splits["train"][1].sort().values)
    images, _ = next(task.validation_batches()["validation"])
    assert images.min() >= 0
    assert images.max() <= 1


def test_standardised_pixels(store, tmp_path):
    draw(store, tmp_path / "sets", train=2000)
    task = Task(variant(pixels="standardised"), store, tmp_path / "sets", torch.device("cpu"))
    images = torch.cat([images for images, _ in task.train_batches(torch.Generator().manual_seed(0))])
    assert abs(images.mean()) < 0.02
    assert abs(images.std() - 1) < 0.02
    pixels = np.load(store / "images.npy")
    pixels[60:] = 0  # the images of the validation sets decide nothing
    np.save(store / "images.npy", pixels)
    again = Task(variant(pixels="standardised"), store, tmp_path / "sets", torch.device("cpu"))
    assert (again.shift, again.scale) == (task.shift, task.scale)


def test_predictions_cover_both_splits_and_agree_with_the_network(store, tmp_path):
    table = draw(store, tmp_path / "sets")
    task = Task(variant(), store, tmp_path / "sets", torch.device("cpu"))
    model = task.build_model().eval()
    predictions = task.predict(model)
    assert (predictions["split"].value_counts()[["train", "validation"]] == [400, 200]).all()
    assert (predictions["label"].to_numpy() == table["label"].to_numpy()).all()
    images, _ = next(task.validation_batches()["validation"])
    first = predictions[predictions["split"] == "validation"].iloc[:256]
    assert (model(images).argmax(1).numpy() == first["predicted"].to_numpy()).all()
    assert first["probability"].between(0, 1).all()
    whole = predictions[predictions["split"] == "validation"]
    offsets = whole["predicted"] - whole["label"].mean()
    validated = evaluate(task, model, "float32", task.device)
    assert validated["validation_distance_from_mean"] == pytest.approx(offsets.abs().mean(), rel=1e-5)
    assert validated["validation_accuracy"] == pytest.approx((whole["predicted"] == whole["label"]).mean())


def test_memorised_sets_are_told_from_memorised_images(store, tmp_path):
    """New sets of the same images: each image as often as in training, together with others."""
    table = draw(store, tmp_path / "sets")
    task = Task(variant(), store, tmp_path / "sets", torch.device("cpu"))
    assert list(task.validation_batches()) == ["validation", "own_sets", "same_images"]
    train = np.stack(table.loc[table["split"] == "train", "members"].to_numpy())
    members, labels = (part.numpy() for part in task.same_images)
    assert sorted(members.ravel()) == sorted(train.ravel())
    assert len({*map(frozenset, members)} & {*map(frozenset, train)}) < len(train) / 4
    assert (labels == np.load(store / "labels.npy")[members].sum(1)).all()
    own = torch.cat([labels for _, labels in task.validation_batches()["own_sets"]])
    assert own.tolist() == table.loc[table["split"] == "train", "label"].tolist()
