"""One tracking server for many people: MLflow with PostgreSQL and a folder for the artifacts."""

import os
import shutil
import subprocess

import pytest
from mlflow import MlflowClient

from equiset.files import digest, read_json, write_json
from equiset.tracking.tracker import SHOWN

from ..faults.sending import command
from ..workflow.conftest import ROOT
from . import servers
from .conftest import EXPERIMENT, RUN

pytestmark = pytest.mark.skipif(servers.missing() is not None, reason=str(servers.missing()))

NAMES = [f"IV-N3/{seed} (demo)" for seed in ("all seeds", "seed0", "seed1", "seed2")]
FOUND = "attributes.status = 'FINISHED'"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mlflow_server")
    with servers.postgres() as database, servers.mlflow_server(database, folder / "artifacts", folder / "log") as uri:
        yield uri


@pytest.fixture(scope="module")
def client(server):
    return MlflowClient(tracking_uri=server)


@pytest.fixture(scope="module")
def sent(server, local):
    """A project that was run without the server and learned of it afterwards, by one setting."""
    process = local.start("--cores", "2", f"{EXPERIMENT}/tracked.json", MLFLOW_TRACKING_URI=server)
    assert process.wait(600) == 0, local.log
    return local


def runs(client, experiment, query=FOUND):
    return client.search_runs([client.get_experiment_by_name(experiment).experiment_id], query)


def send(server, folder, experiment, user="alice"):
    """Send the runs and tables of a folder."""
    found = [run.parent for run in sorted(folder.glob("runs/*/*/run.json"))]
    sending = command(server, found, folder / f"{user}.json", experiment, sorted(folder.glob("tables/*")))
    environment = os.environ | {"LOGNAME": user, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(sending, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "cannot send" not in done.stderr


@pytest.fixture
def copies(server, local, tmp_path):
    """Three runs and the tables, in a folder that a test may change."""
    for seed in range(3):
        run = tmp_path / f"runs/IV-N3/seed{seed}"
        shutil.copytree(local.folder / RUN, run)
        info = read_json(run / "run.json")
        info["spec"]["seed"] = seed
        write_json(run / "run.json", info | {"training": f"t{seed}"})
    shutil.copytree(local.folder / EXPERIMENT / "tables", tmp_path / "tables")
    return tmp_path


def test_one_setting_sends_the_runs_and_nothing_is_computed_again(sent, server):
    assert read_json(sent.folder / EXPERIMENT / "tracked.json")["uri"] == server
    assert read_json(sent.folder / EXPERIMENT / "tracked.json")["pending"] == []
    assert "Training" not in sent.log


def test_runs_are_found_and_their_artifacts_come_back(sent, client, tmp_path):
    (run,) = runs(client, "mnist_sums", "tags.`equiset.variant` = 'IV-N3' and metrics.`epoch/validation_accuracy` >= 0")
    assert run.info.run_id in read_json(sent.folder / EXPERIMENT / "tracked.json")["sent"].values()
    assert len(client.get_metric_history(run.info.run_id, "epoch/train_loss")) == 150
    back = client.download_artifacts(run.info.run_id, "run.json", str(tmp_path))
    assert digest(back) == digest(sent.folder / RUN / "run.json")
    (shown,) = runs(client, SHOWN, "attributes.run_name = 'mnist_sums (smoke)'")
    back = client.download_artifacts(shown.info.run_id, "figures/figure1.png", str(tmp_path))
    assert digest(back) == digest(sent.folder / EXPERIMENT / "figures/figure1.png")


def test_what_is_sent_twice_is_there_once(copies, server, client):
    send(server, copies, "redshift", "alice")
    before = {run.info.run_id: run for run in runs(client, "redshift")}
    assert sorted(run.info.run_name for run in before.values()) == NAMES
    send(server, copies, "redshift", "alice")
    assert len(runs(client, SHOWN, "attributes.run_name = 'redshift (demo)'")) == 1
    after = {run.info.run_id: run for run in runs(client, "redshift")}
    assert {key: run.to_dictionary() for key, run in after.items()} == {
        key: run.to_dictionary() for key, run in before.items()
    }
    assert {run.data.tags["equiset.current"] for run in after.values()} == {"yes"}
    assert read_json(copies / "alice.json")["pending"] == []


def test_nobody_replaces_the_runs_of_others(copies, server, client):
    send(server, copies, "outlier_faces", "alice")
    info = read_json(copies / "runs/IV-N3/seed0/run.json")
    write_json(copies / "runs/IV-N3/seed0/run.json", info | {"training": "another"})
    (copies / "tables/accuracy.md").write_text("another result")
    send(server, copies, "outlier_faces", "bob")
    found = sorted((run.info.run_name, run.data.tags["mlflow.user"]) for run in runs(client, "outlier_faces"))
    assert found == sorted((name, user) for name in NAMES for user in ("alice", "bob"))
    shown = [
        run.data.tags["mlflow.user"] for run in runs(client, SHOWN, "attributes.run_name = 'outlier_faces (demo)'")
    ]
    assert sorted(shown) == ["alice", "bob"]
