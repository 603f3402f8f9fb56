"""Splits that leak nothing, networks, and the measures of the redshifts."""

from itertools import chain

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from equiset.data.redmapper.catalogue import FEATURES
from equiset.errors import EquisetError
from equiset.experiments.redshift.measures import KINDS, nmad
from equiset.experiments.redshift.sets import SPLITS, choose_splits, make_sets, shared_rows
from equiset.experiments.redshift.settings import RedshiftSets, RedshiftVariant
from equiset.experiments.redshift.task import Task
from equiset.files import read_json, write_json
from equiset.nn.sets import PackedSets
from equiset.training.loop import train

TRAINING = {"epochs": 1, "batch_size": 4, "optimizer": {"learning_rate": 0.001}}
CPU = torch.device("cpu")


def variant(model="set", **changes):
    values = {"sets": "clusters", "training": TRAINING, "model": model, "channels": [8, 8], "dropout": 0.5}
    return RedshiftVariant.model_validate(values | changes)


@pytest.fixture
def store(tmp_path):
    """Twenty clusters; the last galaxy of each is the first of the next."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "store"
    folder.mkdir()
    sizes = rng.integers(3, 9, 20)
    n = int(sizes.sum())
    ends = np.cumsum(sizes)
    objid = np.arange(n)
    objid[ends[:-1]] = objid[ends[:-1] - 1]
    z_spec = np.where(rng.random(n) < 0.4, rng.uniform(0.1, 0.5, n), np.nan).astype(np.float32)
    features = rng.normal(5, 3, (n, len(FEATURES))).astype(np.float32)
    features[:, 0] = np.arange(n)
    np.save(folder / "features.npy", features)
    np.save(folder / "z_spec.npy", z_spec)
    np.save(folder / "offsets.npy", np.concatenate([[0], ends]))
    pq.write_table(pa.table({"OBJID": objid}), folder / "members.parquet")
    centres = list(rng.random((20, 5)).astype(np.float32))
    table = {"ID": np.arange(20) * 2, "P_CEN": centres, "Z_LAMBDA": rng.random(20).astype(np.float32)}
    pq.write_table(pa.table(table), folder / "clusters.parquet")
    about = {
        "dataset": "redmapper",
        "source": "folder",
        "kind": "own",
        "share": 0.0,
        "description": "noise",
        "digest": "0" * 64,
    }
    write_json(folder / "store.json", about | {"features": list(FEATURES)})
    return folder


def draw(store, folder, seed=0, share=0.3, holdout=0.0):
    make_sets(RedshiftSets(test_share=share, holdout=holdout), seed, store, folder)
    return folder


def rows_of(store, sets, split="test"):
    offsets = np.load(store / "offsets.npy")
    chosen = (pd.read_parquet(sets / "clusters.parquet")["split"] == split).to_numpy()
    return np.repeat(chosen, np.diff(offsets))


# Nothing leaks


@pytest.mark.parametrize("holdout", [0.0, 0.3])
def test_no_galaxy_is_in_two_splits(store, tmp_path, holdout):
    sets = draw(store, tmp_path / "sets", holdout=holdout)
    objid = pq.read_table(store / "members.parquet")["OBJID"].to_numpy()
    rows = {name: rows_of(store, sets, name) for name in SPLITS}
    assert rows["holdout"].any() == (holdout > 0)
    assert (sum(part.astype(int) for part in rows.values()) == 1).all()
    removed = np.load(sets / "removed.npy")
    galaxies = {name: set(objid[part]) for name, part in rows.items()}
    about = read_json(sets / "sets.json")
    in_test = {name: sum(one in galaxies["test"] for one in objid[rows[name]]) for name in ("train", "holdout")}
    assert about["removed_members"] == in_test["train"] > 0
    assert about["removed_from_holdout"] == in_test["holdout"]
    only = galaxies["holdout"] - galaxies["test"]
    assert about["removed_for_holdout"] == sum(one in only for one in objid[rows["train"]])
    assert (about["removed_for_holdout"] > 0) == (holdout > 0)
    assert len(removed) == sum(about[f"removed_{name}"] for name in ("members", "for_holdout", "from_holdout"))
    assert not rows["test"][removed].any()
    for part in rows.values():
        part[removed] = False
    for one, other in (("train", "test"), ("train", "holdout"), ("holdout", "test")):
        assert not set(objid[rows[one]]) & set(objid[rows[other]])
    for name, part in rows.items():
        assert about[f"{name}_members"] == part.sum()
    for model in ("set", "mlp"):
        task = Task(variant(model), store, sets, CPU)
        assert all(rows[name][task.splits[name].numbers].all() for name in SPLITS)
        # The first feature of the fixture is the number of the row: what networks are really given.
        seen = np.concatenate([_first_feature(task, batch) for batch in task.train_batches(torch.Generator())])
        assert sorted(seen) == task.splits["train"].numbers.tolist()
        watched = [row for batch in task.validation_batches()["validation"] for row in _first_feature(task, batch)]
        assert watched == task.splits["holdout"].numbers.tolist()


@pytest.mark.parametrize("holdout", [0.0, 0.3])
@pytest.mark.parametrize("model", ["set", "mlp"])
def test_test_clusters_have_no_part_in_training(store, tmp_path, model, holdout):
    def learn(name):
        sets = draw(store, tmp_path / name, holdout=holdout)
        task = Task(variant(model, target="standardised"), store, sets, CPU)
        network, progress = train(task, task.settings.training, 0, CPU, tmp_path / f"{name}.pt")
        return read_json(sets / "sets.json")["scales"], network.eval(), progress.metrics, task

    scales, network, metrics, task = learn("before")
    before = task.predict(network)
    assert any(name.startswith("validation_") for name in metrics[0]) == (holdout > 0)
    is_test = rows_of(store, tmp_path / "before")
    rng = np.random.default_rng(1)
    features, z_spec = np.load(store / "features.npy"), np.load(store / "z_spec.npy")
    features[is_test] = rng.normal(-100, 30, features[is_test].shape)
    z_spec[is_test] = np.where(rng.random(is_test.sum()) < 0.5, rng.uniform(5, 9, is_test.sum()), np.nan)
    np.save(store / "features.npy", features)
    np.save(store / "z_spec.npy", z_spec)
    clusters = pq.read_table(store / "clusters.parquet").to_pandas()
    tested = (pd.read_parquet(tmp_path / "before" / "clusters.parquet")["split"] == "test").to_numpy()
    clusters["Z_LAMBDA"] = np.where(tested, np.float32(9), clusters["Z_LAMBDA"])
    centres = np.stack(clusters["P_CEN"].to_numpy())
    centres[tested] = 9
    clusters["P_CEN"] = list(centres)
    pq.write_table(pa.Table.from_pandas(clusters), store / "clusters.parquet")
    scales_after, after, metrics_after, task = learn("after")
    assert scales_after == scales
    assert metrics_after == metrics
    assert all(torch.equal(one, other) for one, other in zip(network.parameters(), after.parameters(), strict=True))
    found = task.predict(after)
    held = [table[table["split"] == "holdout"].reset_index(drop=True) for table in (before, found)]
    pd.testing.assert_frame_equal(*held)
    assert (found.query("split == 'test'")["z_spec"] > 4).all()


def _first_feature(task, batch):
    x = batch[0].rows if isinstance(batch[0], PackedSets) else batch[0]
    return np.rint(x.numpy()[:, 0] * task.scale[0] + task.shift[0]).astype(int)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), min_size=1, max_size=30))
def test_shared_rows_are_those_whose_galaxy_is_in_a_later_split(pairs):
    objid, split = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
    expected = [at for at, (one, part) in enumerate(pairs) if any(o == one and p > part for o, p in pairs)]
    assert shared_rows(objid, split, np.ones(len(objid), bool)).tolist() == expected


@pytest.mark.parametrize("holdout", [0.0, 0.3])
def test_scales_know_the_training_side_alone(store, tmp_path, holdout):
    before = read_json(draw(store, tmp_path / "before", holdout=holdout) / "sets.json")
    hidden = ~rows_of(store, tmp_path / "before", "train")
    hidden[np.load(tmp_path / "before" / "removed.npy")] = True
    for name in ("features", "z_spec"):
        values = np.load(store / f"{name}.npy")
        known = ~np.isnan(values)
        values[hidden] = np.where(known[hidden], 1000, np.nan)
        np.save(store / f"{name}.npy", values)
    after = read_json(draw(store, tmp_path / "after", holdout=holdout) / "sets.json")
    assert before["scales"] == after["scales"]
    features = np.load(store / "features.npy")[~hidden].astype(np.float64)
    assert [before["scales"][name][0] for name in FEATURES] == pytest.approx(features.mean(0))
    assert [before["scales"][name][1] for name in FEATURES] == pytest.approx(features.std(0))


def test_split_is_by_cluster_exact_and_repeatable(store, tmp_path):
    assert np.bincount(choose_splits(26_111, 0.1, 0.0, 0), minlength=3).tolist() == [23_500, 0, 2611]
    assert np.bincount(choose_splits(26_111, 0.1, 0.2, 0)).tolist() == [18_800, 4700, 2611]
    assert (choose_splits(50, 0.1, 0.2, 0) == choose_splits(50, 0.1, 0.2, 0)).all()
    assert (choose_splits(50, 0.1, 0.2, 0) != choose_splits(50, 0.1, 0.2, 1)).any()
    # Tuning must be done with the test clusters that the reported run has.
    assert ((choose_splits(50, 0.1, 0.2, 0) == 2) == (choose_splits(50, 0.1, 0.0, 0) == 2)).all()
    first, second = draw(store, tmp_path / "one"), draw(store, tmp_path / "two")
    assert read_json(first / "sets.json") == read_json(second / "sets.json")
    other = read_json(draw(store, tmp_path / "three", seed=1) / "sets.json")
    assert other["digest"] != read_json(first / "sets.json")["digest"]


def test_splits_without_redshifts_are_refused(store, tmp_path):
    np.save(store / "z_spec.npy", np.full_like(np.load(store / "z_spec.npy"), np.nan))
    with pytest.raises(EquisetError, match="train split have no spectroscopic redshift"):
        draw(store, tmp_path / "sets")


def test_a_holdout_of_no_cluster_is_refused(store, tmp_path):
    with pytest.raises(EquisetError, match="the 0 of the holdout split"):
        draw(store, tmp_path / "sets", holdout=0.01)


# Networks


def test_batches_are_whole_clusters_in_standard_units(store, tmp_path):
    sets = draw(store, tmp_path / "sets")
    task = Task(variant(), store, sets, CPU)
    batches = list(task.train_batches(torch.Generator().manual_seed(0)))
    rows = torch.cat([x.rows for x, *_ in batches])
    assert len(rows) == len(task.splits["train"].numbers)
    assert all(len(x) <= 4 for x, *_ in batches)
    for x, z, _ in batches:
        assert all((~part.isnan()).any() for part in z.split(x.sizes.tolist()))
    other = list(task.train_batches(torch.Generator().manual_seed(1)))
    assert not torch.equal(batches[0][0].rows[:3], other[0][0].rows[:3])


def test_values_that_are_missing_become_the_mean(store, tmp_path):
    features = np.load(store / "features.npy")
    features[:, 3] = np.nan
    features[0, 3] = features[-1, 3] = 7.0
    np.save(store / "features.npy", features)
    task = Task(variant(), store, draw(store, tmp_path / "sets"), CPU)
    x, *_ = next(task.train_batches(torch.Generator()))
    assert x.rows.isfinite().all()


@pytest.mark.parametrize("features", ["columns", "footnote"])
@pytest.mark.parametrize("model", ["set", "mlp"])
def test_both_readings_have_17_features_and_models_equal_parameters(store, tmp_path, model, features):
    sets = draw(store, tmp_path / "sets")
    task = Task(variant(model, features=features), store, sets, CPU)
    assert len(task.names) == 17
    assert not {"Z_SPEC", "Z_LAMBDA", "THETA_I", "THETA_R"} & set(task.names)
    network = task.build_model().eval()
    assert sum(p.numel() for p in network.parameters()) == 17 * 8 + 8 + 8 * 8 + 8 + 8 + 1
    table = task.predict(network)
    z_spec, is_test = np.load(store / "z_spec.npy"), rows_of(store, sets)
    assert table["row"].tolist() == np.flatnonzero(is_test & ~np.isnan(z_spec)).tolist()
    assert (table["z_spec"] == z_spec[table["row"]]).all()
    clusters = pq.read_table(store / "clusters.parquet").to_pandas().set_index("ID")
    assert (table["z_catalogue"].to_numpy() == clusters["Z_LAMBDA"].loc[table["cluster"]].to_numpy()).all()
    assert set(table["split"]) == {"test"}
    assert not list(task.validation_batches()["validation"])
    if features == "footnote":
        x, *_ = task._batch(*next(task._in_order("test")))
        values = (x.rows if model == "set" else x).numpy()[:, -5:] * task.scale[-5:] + task.shift[-5:]
        host = int(task._cluster_of(task.splits["test"].numbers[:1])[0])
        assert np.allclose(values[0], pq.read_table(store / "clusters.parquet")["P_CEN"][host].as_py(), atol=1e-5)


def test_the_footnotes_features_are_the_default_and_do_not_tell_the_catalogues_redshift(store, tmp_path):
    task = Task(variant(), store, draw(store, tmp_path / "sets"), CPU)
    magnitudes = {f"MODEL_{kind}_{band}" for kind in ("MAG", "MAGERR") for band in "UGRIZ"}
    assert set(task.names) == {"RA", "DEC", *magnitudes, *(f"P_CEN_{at}" for at in range(5))}
    assert "R" in Task(variant(features="columns"), store, tmp_path / "sets", CPU).names


def test_the_perceptron_takes_as_many_steps_as_the_set_model_on_the_same_galaxies(store, tmp_path):
    sets = draw(store, tmp_path / "sets")

    def labels(model, **changes):
        task = Task(variant(model, **changes), store, sets, CPU)
        return [z[~z.isnan()].tolist() for _, z, _ in task.train_batches(torch.Generator().manual_seed(0))]

    by_clusters = labels("mlp")
    assert by_clusters == labels("set")
    by_galaxies = labels("mlp", batch_of="galaxies")
    assert {len(batch) for batch in by_galaxies[:-1]} == {4}
    assert sorted(chain(*by_galaxies)) == sorted(chain(*by_clusters))
    assert len(by_galaxies) > len(by_clusters)


def test_members_without_a_redshift_shape_the_estimate_but_not_the_loss(store, tmp_path):
    task = Task(variant(dropout=0.0), store, draw(store, tmp_path / "sets"), CPU)
    torch.manual_seed(0)
    network = task.build_model().eval()
    x, z, numbers = next(task.train_batches(torch.Generator()))
    known = ~z.isnan()
    loss, sums = task.loss(network, (x, z, numbers))
    assert torch.allclose(loss, (network(x)[known] - z[known]).square().mean())
    assert sums["sets"] == known.sum()
    moved = x.rows.clone()
    moved[~known] += 5
    assert not torch.allclose(task.loss(network, (x.with_rows(moved), z, numbers))[0], loss)


def test_target_units_give_the_same_redshift(store, tmp_path):
    task = Task(variant(target="standardised"), store, draw(store, tmp_path / "sets"), CPU)
    torch.manual_seed(0)
    network = task.build_model().eval()
    with torch.no_grad():
        network.layers[-1].weight.zero_()
        network.layers[-1].bias.zero_()
    mean = read_json(tmp_path / "sets" / "sets.json")["scales"]["Z_SPEC"][0]
    assert task.predict(network)["z"].to_numpy() == pytest.approx(mean)


# Measures


def test_measures():
    error = (np.array([1.0, 1.1, 0.98, 2.0]) - 1) / 2
    found = {name: statistic(values(error)) for name, (values, statistic) in KINDS.items()}
    assert found["scatter"] == pytest.approx((0 + 0.05 + 0.01 + 0.5) / 4)
    assert found["bias"] == pytest.approx((0 + 0.05 - 0.01 + 0.5) / 4)
    assert found["outliers"] == 0.25
    assert nmad(np.array([-0.01, 0.0, 0.01])) == pytest.approx(0.014826)
