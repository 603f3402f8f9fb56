"""Odd data and odd numbers in training: either they work, with finite results, or the run stops and says why.

NaN losses are held by tests/unit/test_training.py, a class without any mesh by tests/unit/test_modelnet40.py, clusters
that leave no redshift at all by tests/unit/test_redshift.py.
"""

import numpy as np
import pytest
import torch

from equiset.data.celeba.stand_in import annotate
from equiset.data.modelnet40 import ModelNetSettings, fetch, prepare
from equiset.errors import EquisetError
from equiset.experiments.mnist_sums.task import Task as SumTask
from equiset.experiments.outlier_faces.sets import make_sets as make_face_sets
from equiset.experiments.outlier_faces.settings import FaceSets
from equiset.experiments.outlier_faces.task import Task as FaceTask
from equiset.experiments.point_clouds.sets import make_sets as make_cloud_sets
from equiset.experiments.point_clouds.settings import CloudSets
from equiset.experiments.point_clouds.task import Task as CloudTask
from equiset.experiments.redshift.task import Task as RedshiftTask
from equiset.files import read_json
from equiset.training.loop import train
from tests.unit import test_mnist_sums, test_outlier_faces, test_point_clouds, test_redshift
from tests.unit.test_mnist_sums import store as digits
from tests.unit.test_modelnet40 import mesh_file
from tests.unit.test_point_clouds import store as clouds
from tests.unit.test_redshift import store as clusters
from tests.unit.test_training import CPU, Line, training

__all__ = ["clouds", "clusters", "digits"]
ONE_SET = {"epochs": 1, "batch_size": 1, "optimizer": {"learning_rate": 0.001}}


def learns(task, folder):
    """Train and predict; return the predictions if every number is finite."""
    model, progress = train(task, task.settings.training, 0, CPU, folder / "checkpoint.pt")
    assert all(np.isfinite(value) for row in progress.metrics for value in row.values())
    assert all(torch.isfinite(weight).all() for weight in model.state_dict().values())
    predictions = task.predict(model.eval())
    assert len(predictions)
    assert not predictions.isna().any().any()
    return predictions


@pytest.mark.parametrize("size", [1e19, 1e25])
def test_an_exploding_loss_stops_with_a_remedy(tmp_path, size):
    """Of 1e38 the loss is still a number, and its gradient is not."""
    task = Line()
    task.y *= size
    with pytest.raises(EquisetError, match=r"training broke down in epoch 1: loss .*learning_rate"):
        train(task, training(), 7, CPU, tmp_path / "a.pt")
    assert not (tmp_path / "a.pt").exists()


def test_a_class_with_a_single_mesh(tmp_path):
    for kind, shape, count in (("anchor", "lamp", 5), ("boat", "bathtub", 1)):
        for split in ("train", "test"):
            for number in range(count):
                mesh_file(tmp_path / "mine" / kind / split / f"{kind}_{number}.off", shape, number)
    settings = ModelNetSettings(source="folder", folder=str(tmp_path / "mine"), pool=16, test_pool=16)
    prepare(fetch(settings, tmp_path / "cache"), tmp_path / "store", settings)
    assert read_json(tmp_path / "store" / "store.json")["classes"] == ["anchor", "boat"]
    make_cloud_sets(CloudSets(particles=8, draws=1), 0, tmp_path / "store", tmp_path / "sets")
    # Six meshes in batches of five: the last batch is a single one.
    changes = {"epochs": 1, "batch_size": 5, "optimizer": {"learning_rate": 0.001}}
    task = CloudTask(test_point_clouds.variant(training=changes), tmp_path / "store", tmp_path / "sets", CPU)
    assert sorted(learns(task, tmp_path)["label"]) == [0] * 5 + [1]


@pytest.mark.parametrize("model", ["set-layer", "set-pooling", "graph"])
def test_clouds_of_one_particle_in_batches_of_one_set(clouds, tmp_path, model):
    make_cloud_sets(CloudSets(particles=1, draws=1), 0, clouds, tmp_path / "sets")
    neighbours = {"neighbours": 8} if model == "graph" else {}
    settings = test_point_clouds.variant(model=model, training=ONE_SET, **neighbours)
    learns(CloudTask(settings, clouds, tmp_path / "sets", CPU), tmp_path)


@pytest.mark.parametrize("model", ["I", "II", "III", "IV"])
def test_sums_of_one_digit_in_batches_of_one_set(digits, tmp_path, model):
    test_mnist_sums.draw(digits, tmp_path / "sets", members=1, train=20, validation=10)
    learns(SumTask(test_mnist_sums.variant(model, training=ONE_SET), digits, tmp_path / "sets", CPU), tmp_path)


@pytest.mark.parametrize("model", ["set-layer", "set-pooling"])
def test_faces_in_batches_of_one_set(tmp_path, model):
    store = test_outlier_faces.write_store(annotate((200, 100, 100), seed=0), tmp_path / "store", images=True)
    make_face_sets(FaceSets(train=3, validation=2, test=2, members=4), 0, store, tmp_path / "sets")
    settings = test_outlier_faces.variant(model=model, training=ONE_SET)
    learns(FaceTask(settings, store, tmp_path / "sets", CPU), tmp_path)


@pytest.mark.parametrize("form", ["max-norm", "max", "mean", "sum"])
def test_clusters_without_spectroscopy_and_of_one_member(clusters, tmp_path, form):
    """The first has no member with a redshift, the second has one member alone, which has one."""
    offsets, z_spec = np.load(clusters / "offsets.npy"), np.load(clusters / "z_spec.npy")
    rows = np.delete(np.arange(offsets[-1]), slice(offsets[1] + 1, offsets[2]))
    z_spec[: offsets[1]], z_spec[offsets[1]] = np.nan, 0.3
    removed = offsets[2] - offsets[1] - 1
    offsets[2:] -= removed
    np.save(clusters / "offsets.npy", offsets)
    np.save(clusters / "z_spec.npy", z_spec[rows])
    np.save(clusters / "features.npy", np.load(clusters / "features.npy")[rows])
    members = test_redshift.pq.read_table(clusters / "members.parquet").take(rows)
    test_redshift.pq.write_table(members, clusters / "members.parquet")
    test_redshift.draw(clusters, tmp_path / "sets")
    settings = test_redshift.variant(form=form, training=ONE_SET)
    task = RedshiftTask(settings, clusters, tmp_path / "sets", CPU)
    sizes = np.concatenate([np.diff(rows.offsets) for rows in task.splits.values()])
    used = np.concatenate([rows.numbers for rows in task.splits.values()])
    assert not np.isin(np.arange(offsets[1]), used).any(), "a cluster without any redshift has nothing to teach"
    assert 1 in sizes
    learns(task, tmp_path)
