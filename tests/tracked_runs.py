"""Runs to send to MLflow, and what is there afterwards."""

from mlflow import MlflowClient

from equiset.files import read_json
from equiset.results.measures import Measures
from equiset.tracking.live import live
from equiset.tracking.send import track_runs
from equiset.training.loop import Progress

from .report_folder import write_run_files


def write_run(folder, seed=0, accuracy=0.5, epochs=3, training="t0", variant="IV-N3", **sets):
    """Write a run of the sums of digits, on the whole MNIST unless `sets` says something else."""
    settings = {"model": "IV", "training": {"epochs": epochs, "optimizer": {"learning_rate": 0.1}}}
    spec = {"experiment": "mnist_sums", "variant": variant, "seed": seed, "scale": "demo", "settings": settings}
    data = {"dataset": "mnist", "source": "download", "kind": "whole", "share": 1.0, "data": "MNIST"}
    data |= {"store_digest": "s" * 64, "digest": "d" * 64} | sets
    metrics = {"validation_accuracy": [accuracy] * epochs}
    story = {"training": f"{training}-{seed}", "git_commit": "c0ffee", "epoch_seconds": [1.0] * epochs}
    return write_run_files(folder / variant / f"seed{seed}", spec, data, metrics, **story)


def track(uri, folder, runs=(), shown=(), scale="demo"):
    """Send runs on which nothing was found, and return what is noted of it."""
    Measures([]).write(folder / "measures.parquet")
    for name in ("claims", "conditions"):
        (folder / f"{name}.csv").write_text("claim\n")
    found = {"measures": folder / "measures.parquet", "claims": folder, "roles": {}}
    output = folder / "tracked.json"
    mirror = "https://example.org/mnist/"
    track_runs("mnist_sums", scale, uri, list(runs), list(shown), **found, mirror=mirror, output=output)
    return read_json(output)


def runs_in(uri, experiment="mnist_sums"):
    """Return the runs of an experiment by their names."""
    client = MlflowClient(uri)
    found = client.search_runs([client.get_experiment_by_name(experiment).experiment_id])
    assert len(found) == len({run.info.run_name for run in found})
    return {run.info.run_name: run for run in found}


def history(uri, run, metric="epoch/validation_accuracy"):
    found = MlflowClient(uri).get_metric_history(run.info.run_id, metric)
    return sorted((one.step, one.value) for one in found)


def watched(uri, folder, epochs, error=None, known=0):
    """Let a training go from some epochs to others, and then fail if there is an error."""
    info = read_json(folder / "run.json")
    with live(uri) as watch:
        listener = watch(info)
        for done in range(known, epochs + 1):
            rows = [{"epoch": epoch, "validation_accuracy": epoch / 10} for epoch in range(1, done + 1)]
            listener(Progress(done, rows, [1.0] * done))
        if error:
            raise error
