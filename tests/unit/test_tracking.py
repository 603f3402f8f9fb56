"""MLflow shows what the files say, once, and never stands in the way."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
import torch
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import BAD_REQUEST

from equiset.config.resolve import read_config, resolve
from equiset.config.roles import Role
from equiset.experiments.mnist_sums.networks import SumNet
from equiset.files import read_json, write_json
from equiset.results.measures import Measures
from equiset.results.runs import Run
from equiset.results.summary import Findings
from equiset.tracking.live import live
from equiset.tracking.track import track_runs
from equiset.tracking.tracker import SHOWN, open_experiment, open_store
from equiset.training.loop import Progress, save_weights

CONFIG = Path(__file__).parents[2] / "config.yaml"


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory):
    """A database with its tables; making one takes seconds, copying it none."""
    path = tmp_path_factory.mktemp("mlflow") / "empty.db"
    open_store(f"sqlite:///{path}")
    return path


@pytest.fixture
def uri(empty_database, tmp_path):
    shutil.copy(empty_database, tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path / 'mlflow.db'}"


def write_run(folder, seed=0, accuracy=0.5, epochs=3, training="t0", **sets):
    run = folder / "IV-N3" / f"seed{seed}"
    run.mkdir(parents=True, exist_ok=True)
    write_json(
        run / "run.json",
        {
            "spec": {
                "experiment": "mnist_sums",
                "variant": "IV-N3",
                "seed": seed,
                "scale": "demo",
                "settings": {"model": "IV", "training": {"epochs": epochs, "optimizer": {"learning_rate": 0.1}}},
            },
            "spec_hash": "abc",
            "training": f"{training}-{seed}",
            "sets": {
                "dataset": "mnist",
                "source": "download",
                "kind": "whole",
                "share": 1.0,
                "data": "MNIST",
                "store_digest": "s" * 64,
                "digest": "d" * 64,
                **sets,
            },
            "parameters": 10,
            "threads": 1,
            "device": "cpu",
            "git_commit": "c0ffee",
            "started": "2026-01-01T00:00:00+00:00",
            "ended": "2026-01-01T01:00:00+00:00",
            "epoch_seconds": [1.0] * epochs,
            "accuracy": accuracy,
        },
    )
    rows = range(1, epochs + 1)
    pd.DataFrame({"epoch": rows, "validation_accuracy": [accuracy] * epochs}).to_parquet(run / "metrics.parquet")
    return run


def track(uri, folder, runs=(), shown=()):
    """Send runs on which nothing was found, and return what is noted of it."""
    Measures([]).write(folder / "measures.parquet")
    for name in ("claims", "conditions"):
        (folder / f"{name}.csv").write_text("claim\n")
    output = folder / "tracked.json"
    track_runs("mnist_sums", "demo", uri, list(runs), list(shown), folder / "measures.parquet", folder, {}, output)
    return read_json(output)


def test_a_run_arrives_whole(uri, tmp_path):
    tracker = open_experiment(uri, "mnist_sums")
    run_id = tracker.send_run(Run(write_run(tmp_path, epochs=1500)), Findings())
    run = tracker.client.get_run(run_id)
    assert run.info.run_name == "IV-N3/seed0"
    assert run.info.status == "FINISHED"
    assert run.data.params["training.optimizer.learning_rate"] == "0.1"
    assert run.data.tags["equiset.git_commit"] == "c0ffee"
    assert run.data.tags["equiset.spec_hash"] == "abc"
    assert run.data.tags["equiset.data_kind"] == "whole"
    assert run.data.tags["equiset.data_share"] == "1.0000"
    assert run.inputs.dataset_inputs[0].dataset.digest == "d" * 36
    history = tracker.client.get_metric_history(run_id, "validation_accuracy")
    assert sorted(metric.step for metric in history) == list(range(1, 1501))
    assert [file.path for file in tracker.client.list_artifacts(run_id)] == [
        "curves.png",
        "metrics.parquet",
        "run.json",
    ]
    assert run.data.metrics["cost/training_seconds"] == 1500
    assert run.data.metrics["cost/epochs_per_hour"] == 3600


def test_sending_twice_changes_nothing_and_another_training_supersedes_the_first(uri, tmp_path):
    tracker = open_experiment(uri, "mnist_sums")
    first = tracker.send_run(Run(write_run(tmp_path)), Findings())
    before = tracker.client.get_run(first)
    assert tracker.send_run(Run(write_run(tmp_path)), Findings()) == first
    assert tracker.client.get_run(first).to_dictionary() == before.to_dictionary()
    second = tracker.send_run(Run(write_run(tmp_path, training="t1")), Findings())
    assert names(tracker) == {first: "superseded: IV-N3/seed0", second: "IV-N3/seed0"}
    assert tracker.client.get_run(first).data.tags["equiset.current"] == "no"
    # The first settings, when they come back, are the first run again.
    assert tracker.send_run(Run(write_run(tmp_path)), Findings()) == first
    assert names(tracker) == {first: "IV-N3/seed0", second: "superseded: IV-N3/seed0"}
    assert tracker.client.get_run(first).data.tags["equiset.current"] == "yes"


def names(tracker):
    return {
        run.info.run_id: run.info.run_name for run in tracker.client.search_runs([tracker.experiment.experiment_id])
    }


def test_what_is_missing_or_changed_in_a_run_that_was_sent_is_mended(uri, tmp_path):
    tracker = open_experiment(uri, "mnist_sums")
    run = Run(write_run(tmp_path))
    run_id = tracker.send_run(run, Findings())
    note = tracker.client.get_run(run_id).data.tags["mlflow.note.content"]
    tracker.client.delete_tag(run_id, "mlflow.note.content")
    tracker.client.log_metric(run_id, "cost/training_seconds", 1e9, step=0)
    assert tracker.send_run(run, Findings()) == run_id
    mended = tracker.client.get_run(run_id).data
    assert mended.tags["mlflow.note.content"] == note
    assert mended.metrics["cost/training_seconds"] == 3


def test_a_run_says_what_it_was_made_of_and_how_to_repeat_it(uri, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = Run(write_run(Path("results/demo/mnist_sums/runs")))
    tracker = open_experiment(uri, "mnist_sums")
    note = tracker.client.get_run(tracker.send_run(run, Findings())).data.tags["mlflow.note.content"]
    assert "**The paper's data, whole: MNIST.**" in note
    assert "s" * 64 in note
    assert "d" * 64 in note
    assert "commit `c0ffee`" in note
    assert "snakemake --cores all --force -- results/demo/mnist_sums/runs/IV-N3/seed0/run.json" in note


def test_every_kind_of_data_is_named_in_tags_and_note(uri, tmp_path):
    tracker = open_experiment(uri, "mnist_sums")
    kinds = {
        "whole": (1.0, "**The paper's data, whole: MNIST.**"),
        "part": (0.25, "**The paper's data, in PART: MNIST.** The other items are absent"),
        "own": (0.0, "**OWN data, not the paper's: MNIST.** These numbers are not comparable"),
        "stand-in": (0.0, "**STAND-IN data: MNIST.** These numbers show that the code works."),
    }
    for seed, (kind, (share, words)) in enumerate(kinds.items()):
        run = Run(write_run(tmp_path, seed=seed, kind=kind, share=share))
        tags = tracker.client.get_run(tracker.send_run(run, Findings())).data.tags
        assert (tags["equiset.data_kind"], float(tags["equiset.data_share"])) == (kind, share)
        assert words in tags["mlflow.note.content"]


def test_an_experiment_says_what_it_is(uri, tmp_path):
    assert track(uri, tmp_path) == {"uri": uri, "sent": {}, "pending": [], "fault": None}
    tags = open_experiment(uri, "mnist_sums").experiment.tags
    assert "sum of the digits" in tags["mlflow.note.content"]
    assert tags["mlflow.experimentKind"] == "custom_model_development"


def test_an_unreachable_server_costs_no_result(tmp_path, caplog, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    run = write_run(tmp_path)
    assert track("http://127.0.0.1:9", tmp_path, [run])["pending"] == [str(run)]
    assert "cannot reach http://127.0.0.1:9" in caplog.text
    assert "make track" in caplog.text


def test_runs_are_sent_later(uri, tmp_path):
    run = write_run(tmp_path)
    noted = track(uri, tmp_path, [run])
    assert noted["pending"] == []
    assert list(noted["sent"]) == [str(run)]


@pytest.mark.parametrize("call", ["create_experiment", "log_inputs"])
def test_another_sender_who_enters_the_same_at_the_same_moment_stops_no_run(uri, tmp_path, monkeypatch, call):
    """MLflow looks things up and then inserts them; here another sender comes between the two."""
    enter, refused = getattr(MlflowClient, call), []

    def slower(*arguments):
        if refused:
            return enter(*arguments)
        refused.append(arguments)
        if call == "create_experiment":
            enter(*arguments)
        raise MlflowException("UNIQUE constraint failed", BAD_REQUEST)

    monkeypatch.setattr(MlflowClient, call, slower)
    run = write_run(tmp_path)
    noted = track(uri, tmp_path, [run])
    assert refused
    client = MlflowClient(uri)
    sent = client.get_run(noted["sent"][str(run)])
    assert sent.info.status == "FINISHED"
    assert [one.dataset.name for one in sent.inputs.dataset_inputs] == ["mnist"]
    assert len(client.search_runs([sent.info.experiment_id])) == 1


def test_a_new_result_leaves_the_runs_of_others_alone(uri, tmp_path, monkeypatch):
    tracker = open_experiment(uri, "mnist_sums")
    table = tmp_path / "tables" / "accuracy.md"
    table.parent.mkdir()
    table.write_text("one")
    for user in ("alice", "bob"):
        monkeypatch.setenv("LOGNAME", user)
        tracker.send_run(Run(write_run(tmp_path, training=user)), Findings())
        tracker.send_files("shown", [table], "demo")
    runs = tracker.client.search_runs([tracker.experiment.experiment_id])
    assert sorted(run.data.tags["mlflow.user"] for run in runs) == ["alice", "alice", "bob", "bob"]
    assert not any(run.info.run_name.startswith("superseded") for run in runs)


def test_tables_and_figures_have_an_experiment_of_their_own(uri, tmp_path):
    table = tmp_path / "tables" / "accuracy.md"
    table.parent.mkdir()
    for content in ("one", "two"):
        table.write_text(content)
        track(uri, tmp_path, shown=[table])
    tracker = open_experiment(uri, SHOWN)
    (run,) = tracker.client.search_runs([tracker.experiment.experiment_id])
    assert [file.path for file in tracker.client.list_artifacts(run.info.run_id, "tables")] == ["tables/accuracy.md"]
    back = tracker.client.download_artifacts(run.info.run_id, "tables/accuracy.md", str(tmp_path))
    assert Path(back).read_text(encoding="utf-8") == "two"
    runs = open_experiment(uri, "mnist_sums")
    assert runs.client.search_runs([runs.experiment.experiment_id]) == []
    assert "two" in runs.experiment.tags["mlflow.note.content"]


def test_variants_have_colours_of_their_own_and_seeds_share_one(uri, tmp_path):
    tracker = open_experiment(uri, "mnist_sums")
    colours = {}
    for variant, seed in (("IV-N3", 0), ("IV-N3", 1), ("IV-N6", 0), ("IV-N6-max", 0)):
        folder = write_run(tmp_path / variant, seed=seed, training=variant)
        info = read_json(folder / "run.json")
        write_json(folder / "run.json", info | {"spec": info["spec"] | {"variant": variant}})
        tags = tracker.client.get_run(tracker.send_run(Run(folder), Findings())).data.tags
        colours.setdefault(variant, set()).add(tags["mlflow.runColor"])
    assert all(len(found) == 1 for found in colours.values())
    assert len(set.union(*colours.values())) == 3


def test_a_run_has_its_results_the_papers_and_the_verdicts(uri, tmp_path):
    folder = write_run(tmp_path)
    predictions = {"split": ["train", "validation", "validation"], "label": [1, 2, 3], "predicted": [1, 2, 4]}
    pd.DataFrame(predictions | {"probability": 0.5}).to_parquet(folder / "predictions.parquet")
    condition = {"claim": "M2", "experiment": "mnist_sums", "measure": "validation_accuracy", "less": ""}
    condition |= {"variant": "IV-N3", "expected": json.dumps({"kind": "paper-value", "value": 0.8})}
    claim = {"claim": "M2", "paper": "> 80 %", "verdict": "not tested", "reason": "scale"}
    findings = Findings(Measures([]), [claim], [condition], {"IV-N3": Role(title="set layer", claim="M2")})
    tracker = open_experiment(uri, "mnist_sums")
    first = tracker.send_run(Run(folder), Findings())
    assert tracker.send_run(Run(folder), findings) == first
    data = tracker.client.get_run(first).data
    assert data.metrics["result/validation_accuracy"] == 0.5
    assert data.metrics["result/validation_accuracy_paper"] == 0.8
    assert data.tags["claim.M2"] == "not tested (scale)"
    assert data.tags["equiset.verdicts"] == "M2 not tested"
    assert data.tags["equiset.paper"] == "> 80 %"
    assert {"predictions.parquet", "curves.png"} <= {file.path for file in tracker.client.list_artifacts(first)}
    # Whoever knows less takes nothing away.
    tracker.send_run(Run(folder), Findings())
    assert tracker.client.get_run(first).data.tags["claim.M2"] == "not tested (scale)"


def test_senders_of_one_project_wait_for_each_other(uri, tmp_path):
    """Two processes send the same run at once: one sends it, the other finds it."""
    run = write_run(tmp_path, epochs=50)
    program = "import sys; from pathlib import Path; from tests.unit.test_tracking import track\n"
    program += "track(sys.argv[1], Path(sys.argv[2]), [Path(sys.argv[3])])"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(CONFIG.parent), *sys.path])}
    jobs = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        command = [sys.executable, "-c", program, uri, str(tmp_path / name), str(run)]
        jobs.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment))
    for job in jobs:
        assert job.wait(120) == 0, job.stderr.read()
        job.stderr.close()
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        finished = "from runs join experiments e using (experiment_id) where status = 'FINISHED' group by e.name"
        found = dict(database.execute(f"select e.name, count(*) {finished}").fetchall())
        assert found == {"mnist_sums": 1, SHOWN: 1}
        assert database.execute("select count(*) from metrics where key = 'validation_accuracy'").fetchone() == (50,)
    database.close()


def test_a_network_is_registered_and_loaded_again_with_any_set_size(uri, tmp_path):
    settings = resolve(read_config(CONFIG), "smoke").experiment("mnist_sums").variants["IV-N3"]
    torch.manual_seed(172)  # weights with no output below .02, where rounding would show in a relative difference
    network = SumNet(settings, 3).eval()
    folder = write_run(tmp_path, members=3)
    info = read_json(folder / "run.json")
    spec = info["spec"] | {"device": "cpu", "settings": settings.model_dump(mode="json")}
    write_json(folder / "run.json", info | {"spec": spec, "versions": {"torch": torch.__version__}})
    save_weights(network, folder / "weights.safetensors")
    open_experiment(uri, "mnist_sums").send_run(Run(folder), Findings())
    mlflow.set_tracking_uri(uri)
    loaded = mlflow.pyfunc.load_model("models:/mnist_sums-IV-N3/1")
    for members in (3, 5):
        images = np.random.default_rng(0).random((2, members, 28, 28), np.float32)
        with torch.no_grad():
            expected = network(torch.from_numpy(images)).numpy()
        np.testing.assert_allclose(loaded.predict(images), expected, rtol=1e-5)


# While a training runs


def test_a_short_training_is_left_to_the_end(uri, tmp_path):
    watched(uri, write_run(tmp_path, epochs=3), 3)
    tracker = open_experiment(uri, "mnist_sums")
    assert not tracker.client.search_runs([tracker.experiment.experiment_id])


def watched(uri, folder, epochs, error=None, known=0):
    """Let a training go from some epochs to others, and then fail if there is an error."""
    info = read_json(folder / "run.json")
    with live(uri, folder) as watch:
        listener = watch(info)
        for done in range(known, epochs + 1):
            rows = [{"epoch": epoch, "validation_accuracy": epoch / 10} for epoch in range(1, done + 1)]
            listener(Progress(done, rows, [1.0] * done))
        if error:
            raise error


def test_a_training_is_seen_while_it_runs_fails_and_goes_on(uri, tmp_path, monkeypatch):
    monkeypatch.setattr("equiset.tracking.live.AFTER_S", 0)
    folder = write_run(tmp_path, epochs=3)
    with pytest.raises(ValueError, match="no more"):
        watched(uri, folder, 2, ValueError("no more"))
    tracker = open_experiment(uri, "mnist_sums")

    def seen():
        (run,) = tracker.client.search_runs([tracker.experiment.experiment_id])
        history = tracker.client.get_metric_history(run.info.run_id, "validation_accuracy")
        return run, sorted((metric.step, metric.value) for metric in history)

    run, history = seen()
    assert run.info.status == "FAILED"
    assert run.data.tags["equiset.failure"] == "ValueError: no more"
    assert history == [(1, 0.1), (2, 0.2)]
    watched(uri, folder, 3, known=2)
    run, history = seen()
    assert run.info.status == "RUNNING", "it goes on"
    assert history == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert track(uri, tmp_path, [folder])["sent"] == {str(folder): run.info.run_id}
    assert seen()[0].info.status == "FINISHED"


def test_a_server_that_is_away_costs_a_training_one_warning(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("equiset.tracking.live.AFTER_S", 0)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    watched("http://me:secret@127.0.0.1:9", write_run(tmp_path), 3)
    assert caplog.text.count("MLflow shows this training when all is done") == 1
    assert "secret" not in caplog.text
