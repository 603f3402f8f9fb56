"""Outlier faces: the sets, the networks, and all tables and figures from tiny runs."""

import os
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from equiset.data.celeba import FILES
from equiset.data.celeba.annotations import read_annotations
from equiset.data.celeba.stand_in import annotate
from equiset.errors import EquisetError
from equiset.experiments.jobs import measure, show
from equiset.experiments.outlier_faces.networks import POOLS, OutlierNet, QuickDropout
from equiset.experiments.outlier_faces.sets import SPLITS, count_pairs, deal_people, draw_sets, make_sets
from equiset.experiments.outlier_faces.settings import ExperimentSettings, FaceSets, FaceVariant
from equiset.files import read_json, write_json
from equiset.training.run import evaluate_run, train_run

TRAINING = {"epochs": 1, "batch_size": 4, "optimizer": {"learning_rate": 0.001}}


def variant(**changes) -> FaceVariant:
    values = {
        "model": "set-layer",
        "sets": "one",
        "channels": [2, 2, 3, 3, 3, 4, 4, 4, 6],
        "set_channels": [8, 4],
        "conv_dropout": 0.2,
        "set_dropout": 0.5,
        "training": TRAINING,
    }
    return FaceVariant.model_validate(values | changes)


def write_store(annotations: pd.DataFrame, folder: Path, images: bool = False) -> Path:
    folder.mkdir()
    faces = annotations.assign(row=np.arange(len(annotations)))
    faces.to_parquet(folder / "faces.parquet", index=False)
    about = {"dataset": "celeba", "source": "stand-in", "kind": "stand-in", "share": 0.0, "digest": "0"}
    about["description"] = "a test"
    write_json(folder / "store.json", about | {"attributes": list(annotations)[3:]})
    if images:
        shape = (len(annotations), 64, 64, 3)
        np.save(folder / "images.npy", np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8))
    return folder


def check(table: pd.DataFrame, annotations: pd.DataFrame, least: int = 1, most: int = 1) -> None:
    """Check all that is promised of sets."""
    members, outlier = np.stack(table["members"]), np.stack(table["outlier"])
    attributes, identity = annotations.iloc[:, 3:].to_numpy(), annotations["identity"].to_numpy()
    names = {name: column for column, name in enumerate(list(annotations)[3:])}
    first, second = (table[name].astype(str).map(names).to_numpy()[:, None] for name in ("first", "second"))
    assert (first != second).all()
    has = attributes[members, first].astype(int) + attributes[members, second]
    assert (has[~outlier] == 2).all()
    assert (has[outlier] == 0).all()
    assert (np.diff(np.sort(members, axis=1)) > 0).all()
    assert set(outlier.sum(axis=1)) == set(range(least, most + 1))
    people = [np.unique(identity[members[table["split"] == split]]) for split in SPLITS]
    for one, other in pairwise([*people, people[0]]):
        assert not np.intersect1d(one, other).size


def annotations_of(source: str) -> pd.DataFrame:
    if source == "drawn":
        return annotate((162_770, 19_867, 19_962), seed=0)
    folder = os.environ.get("EQUISET_CELEBA")
    if not folder:
        pytest.skip("EQUISET_CELEBA does not name a folder with CelebA's annotation files")
    return read_annotations(
        {role: Path(folder) / FILES[role].name for role in ("attributes", "identities", "partition")}
    )


@pytest.mark.parametrize("source", ["drawn", "real"])
def test_as_many_sets_as_in_the_paper(source, tmp_path):
    annotations = annotations_of(source)
    store = write_store(annotations, tmp_path / "store")
    started = time.process_time()
    make_sets(FaceSets(train=18_000, validation=1000, test=2000), 0, store, tmp_path / "sets")
    assert time.process_time() - started < 60
    table = pd.read_parquet(tmp_path / "sets" / "sets.parquet")
    assert table["split"].value_counts().to_dict() == {"train": 18_000, "test": 2000, "validation": 1000}
    check(table, annotations)
    for _, part in table.groupby("split", observed=True):
        # The outlier comes to each place equally often, and its place says nothing about the next set's.
        place = np.stack(part["outlier"]).argmax(axis=1)
        assert np.ptp(np.bincount(place, minlength=16)) <= 1
        assert abs(np.corrcoef(place[:-1], place[1:])[0, 1]) < 5 / np.sqrt(len(place))
        other = np.stack(part["members"])[:, 0]
        assert abs(np.corrcoef(place, other)[0, 1]) < 5 / np.sqrt(len(place))
    pairs = pd.read_parquet(tmp_path / "sets" / "pairs.parquet")
    drawn = pairs.query("usable and split == 'train'")["sets"]
    assert drawn.sum() == 18_000
    assert drawn.min() > 3  # all pairs are equally likely, about 24 each
    assert not pairs.query("not usable")["sets"].any()


def test_sets_with_several_outliers_are_the_same_on_every_run(tmp_path):
    annotations = annotate((600, 300, 300), seed=1)
    store = write_store(annotations, tmp_path / "store")
    settings = FaceSets(train=200, validation=50, test=50, members=10, least_outliers=0, most_outliers=3)
    for name in ("a", "b"):
        make_sets(settings, 5, store, tmp_path / name)
    make_sets(settings, 6, store, tmp_path / "c")
    digests = [read_json(tmp_path / name / "sets.json")["digest"] for name in "abc"]
    assert digests[0] == digests[1] != digests[2]
    check(pd.read_parquet(tmp_path / "a" / "sets.parquet"), annotations, 0, 3)


@hypothesis_settings(derandomize=True, deadline=None, max_examples=25)
@given(st.integers(0, 1000), st.integers(3, 12), st.integers(0, 2), st.integers(0, 2))
def test_sets_of_scarce_images(seed, members, least, more):
    rng = np.random.default_rng(seed)
    attributes = rng.random((30, 5)) < 0.6
    most = max(least + more, 1)
    if most >= members / 2:
        return
    settings = FaceSets(train=1, validation=1, test=1, members=members, least_outliers=least, most_outliers=most)
    pairs = count_pairs(attributes)
    for row in pairs.itertuples():
        columns = attributes[:, [row.first, row.second]]
        assert row.both == columns.all(axis=1).sum()
        assert row.neither == (~columns).all(axis=1).sum()
    if not ((pairs["both"] >= members - least) & (pairs["neither"] >= most)).any():
        with pytest.raises(EquisetError, match="no two attributes"):
            draw_sets(attributes, 7, settings, "train", rng)
        return
    drawn, outlier, pair, counts = draw_sets(attributes, 7, settings, "train", rng)
    has = attributes[drawn, pair[:, :1]].astype(int) + attributes[drawn, pair[:, 1:]]
    np.testing.assert_array_equal(has, np.where(outlier, 0, 2))
    assert (np.diff(np.sort(drawn, axis=1)) > 0).all()
    assert counts["sets"].sum() == 7


def test_person_on_two_sides_is_refused(tmp_path):
    annotations = annotate((200, 100, 100), seed=0)
    annotations.loc[0, "identity"] = annotations["identity"].iloc[-1]
    store = write_store(annotations, tmp_path / "store")
    settings = FaceSets(train=20, validation=5, test=5, members=6)
    with pytest.raises(EquisetError, match=r"1 people are in two parts .* `split: people`"):
        make_sets(settings, 0, store, tmp_path / "sets")
    make_sets(settings.model_copy(update={"split": "people"}), 0, store, tmp_path / "sets")
    check(pd.read_parquet(tmp_path / "sets" / "sets.parquet"), annotations)


def test_people_are_dealt_out_whole():
    identity = np.repeat(np.arange(50), 4)
    part = deal_people(identity, 0).reshape(50, 4)
    assert (part == part[:, :1]).all()
    assert np.bincount(part[:, 0]).tolist() == [40, 5, 5]


def test_set_layers_are_equivariant_and_the_baseline_is_invariant():
    torch.manual_seed(0)
    images, order = torch.rand(2, 5, 3, 64, 64), torch.tensor([3, 0, 4, 1, 2])
    model, baseline = (OutlierNet(variant(model=kind), 5).eval() for kind in ("set-layer", "set-pooling"))
    torch.testing.assert_close(model(images)[:, order], model(images[:, order]))
    torch.testing.assert_close(baseline(images), baseline(images[:, order]))
    assert model(images).shape == baseline(images).shape == (2, 5)
    assert model(images).std() > 0


def test_network_of_the_paper():
    settings = variant(channels=[32, 32, 64, 64, 64, 128, 128, 128, 256], set_channels=[256, 128])
    model = OutlierNet(settings, 16)
    widths = [3, *settings.channels]
    convolutions = sum(9 * before * after + 2 * after for before, after in pairwise(widths))
    assert sum(weight.numel() for weight in model.parameters()) == convolutions + 257 * 256 + 257 * 128 + 129
    assert model.convolutions(torch.rand(2, 3, 64, 64)).shape == (2, 256)


def test_pooling_first_changes_nothing():
    torch.manual_seed(0)
    net = OutlierNet(variant(conv_dropout=0.0), 4).double().convolutions
    fast, plain = (torch.rand(6, 3, 64, 64, dtype=torch.float64, requires_grad=True) for _ in range(2))
    with torch.no_grad():
        plain.copy_(fast)
    x = plain
    for number, (layer, norm) in enumerate(zip(net.layers, net.norms, strict=True)):
        x = F.elu(norm(layer(x)))
        x = F.max_pool2d(x, POOLS[number // 3]) if number % 3 == 2 else x
    y = net(fast.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(y, x.flatten(1))
    x.square().sum().backward()
    y.square().sum().backward()
    torch.testing.assert_close(fast.grad, plain.grad)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_quick_dropout(layout):
    x = torch.ones(8, 16, 31, 31).contiguous(memory_format=layout).requires_grad_()
    dropout = QuickDropout(0.2)
    torch.manual_seed(1)
    y = dropout(x)
    torch.manual_seed(1)
    assert torch.equal(y, dropout(x))
    assert y.stride() == x.stride()
    dropped = y == 0
    assert abs(dropped.float().mean() - 0.2) < 0.005
    torch.testing.assert_close(y[~dropped], torch.full_like(y[~dropped], 1.25), rtol=1e-4, atol=0)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
    # Neighbours, which may come from the same random number, are dropped independently.
    both = (dropped[..., 1:] & dropped[..., :-1]).float().mean()
    assert abs(both - 0.04) < 0.005
    assert dropout.eval()(x) is x
    assert torch.isfinite(QuickDropout(0.5)(torch.ones(3, 5, 1, 1).transpose(0, 1))).all()


def test_wrong_settings_are_named():
    with pytest.raises(ValueError, match="its output must be softmax"):
        variant(model="set-pooling", output="sigmoid")
    with pytest.raises(ValueError, match="most_outliers < members / 2"):
        FaceSets(train=1, validation=1, test=1, members=6, most_outliers=3)
    several = {"train": 1, "validation": 1, "test": 1, "most_outliers": 2}
    with pytest.raises(ValueError, match="needs sets with exactly one outlier"):
        ExperimentSettings(seeds=[0], sets={"one": several}, variants={"a": variant().model_dump()})


VARIANTS = {
    "set-layer": {"model": "set-layer"},
    "set-pooling": {"model": "set-pooling"},
    "sigmoid": {"model": "set-layer", "sets": "several", "output": "sigmoid"},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> tuple[Path, list[Path]]:
    """The store and the folders of three tiny runs."""
    folder = tmp_path_factory.mktemp("faces")
    store = write_store(annotate((200, 100, 100), seed=0), folder / "store", images=True)
    sizes = {"train": 8, "validation": 4, "test": 12, "members": 7}
    make_sets(FaceSets(**sizes), 0, store, folder / "one")
    make_sets(FaceSets(**sizes, least_outliers=0, most_outliers=2), 0, store, folder / "several")
    threads = torch.get_num_threads()
    found = []
    for name, changes in VARIANTS.items():
        settings = variant(**changes)
        spec = {"experiment": "outlier_faces", "variant": name, "seed": 0, "scale": "smoke", "device": "cpu"}
        spec["settings"] = settings.model_dump(mode="json")
        run, sets = folder / name / "seed0", folder / settings.sets
        train_run(spec, store, sets, folder / "checkpoints", run)
        evaluate_run(run, store, sets, run / "predictions.parquet")
        found.append(run)
    torch.set_num_threads(threads)
    return store, found


def test_predictions(runs):
    for folder in runs[1]:
        predictions = pd.read_parquet(folder / "predictions.parquet")
        assert predictions["split"].value_counts().to_dict() == {"test": 12, "train": 8, "validation": 0}
        sums = np.stack(predictions["probability"]).sum(axis=1)
        assert folder.parent.name == "sigmoid" or np.allclose(sums, 1)


@pytest.fixture(scope="module")
def options(runs, tmp_path_factory):
    """What every table and figure is made of."""
    store, folders = runs
    numbers = tmp_path_factory.mktemp("measures") / "measures.parquet"
    measure("outlier_faces", folders, [], numbers)
    claims = Path(__file__).parents[2] / "workflow" / "claims.yaml"
    return {"runs": folders, "store": store, "analyses": [], "measures": numbers, "claims": claims, "roles": {}}


def test_accuracy_is_what_the_predictions_say(runs, options, tmp_path):
    _, folders = runs
    show("outlier_faces", "accuracy", **options, output=[tmp_path / "a.csv"])
    table = pd.read_csv(tmp_path / "a.csv").set_index("variant")
    predictions = pd.read_parquet(folders[0] / "predictions.parquet").query("split == 'test'")
    found = [
        outlier[np.argmax(p)] for p, outlier in zip(predictions["probability"], predictions["outlier"], strict=True)
    ]
    assert table.loc["set-layer", "test_accuracy"] == pytest.approx(np.mean(found), abs=1e-5)
    assert table.loc["set-pooling", "guess_accuracy"] == pytest.approx(1 / 7, abs=1e-5)
    assert SPLITS == ("train", "validation", "test")
