"""The whole workflow: everything it promises is there, and nothing is done twice."""

import shutil
import sqlite3

import pandas as pd
import pytest
from safetensors.torch import load_file

from equiset.files import digest, digest_json, read_json

RUN = "results/smoke/mnist_sums/runs/IV-N3/seed0"


def test_every_promised_file_is_there(finished):
    folder = finished.folder / "results" / "smoke" / "mnist_sums"
    for name in ("tables/accuracy.csv", "tables/accuracy.md", "tables/accuracy.tex"):
        assert (folder / name).stat().st_size > 100
    for name in ("figures/figure1.png", "figures/figure1.pdf", "figures/dropout.png", "figures/dropout.pdf"):
        assert (folder / name).stat().st_size > 1000
    table = pd.read_csv(folder / "tables" / "accuracy.csv")
    assert list(table["variant"]) == ["I-N3", "IV-N3", "I-N6"]
    assert not table["real_data"].any()
    assert "STAND-IN" in (folder / "tables" / "accuracy.md").read_text()


def test_a_run_leaves_metrics_predictions_weights_and_its_story(finished):
    run = finished.folder / RUN
    metrics = pd.read_parquet(run / "metrics.parquet")
    assert list(metrics["epoch"]) == [1, 2]
    assert {"train_loss", "train_accuracy", "validation_loss", "validation_accuracy"} < set(metrics.columns)
    predictions = pd.read_parquet(run / "predictions.parquet")
    assert predictions["split"].value_counts().to_dict() == {"train": 64, "validation": 32}
    # The predictions come from the weights file alone, and agree with the last epoch's metric.
    validation = predictions[predictions["split"] == "validation"]
    accuracy = (validation["label"] == validation["predicted"]).mean()
    assert accuracy == pytest.approx(metrics["validation_accuracy"].iloc[-1])
    info = read_json(run / "run.json")
    assert sum(tensor.numel() for tensor in load_file(run / "weights.safetensors").values()) == info["parameters"]
    assert info["spec"]["settings"]["model"] == "IV"
    assert info["spec_hash"] == digest_json(info["spec"])
    assert info["threads"] == 1
    assert info["sets"]["real"] is False
    assert len(info["epoch_seconds"]) == 2
    assert {"torch", "python", "equiset"} <= set(info["versions"])
    assert info["peak_memory_mb"] > 10
    assert (finished.folder / "results/smoke/logs/train/mnist_sums/IV-N3/seed0.log").read_text().count("epoch ") == 2
    assert (finished.folder / "results/smoke/benchmarks/train/mnist_sums/IV-N3/seed0.tsv").exists()


def test_the_user_is_told_where_the_results_are(finished):
    assert "results/smoke/mnist_sums/tables/" in finished.output
    assert "make ui" in finished.output


def test_mlflow_has_every_run(finished):
    with sqlite3.connect(finished.folder / "results" / "mlflow.db") as database:
        names = [name for (name,) in database.execute("select name from runs order by name")]
    database.close()
    variants = ("I-N3", "I-N6", "IV-N3")
    assert names == [*(f"{name}/seed{seed}" for name in variants for seed in (0, 1)), "tables and figures"]


def test_a_second_run_has_nothing_to_do(finished):
    done = finished.snakemake()
    assert done.returncode == 0
    assert "Nothing to be done" in done.stdout + done.stderr


def test_editing_a_variant_reruns_that_variant_and_what_depends_on_it(finished):
    original = (finished.folder / "config.yaml").read_text()
    try:
        finished.edit("experiments", "mnist_sums", "variants", "IV-N3", "dropout", value=0.3)
        assert finished.planned() == {"train": 2, "evaluate": 2, "tabulate": 1, "plot": 2, "track": 1, "all": 1}
    finally:
        (finished.folder / "config.yaml").write_text(original)


def test_editing_the_sets_reruns_what_learns_from_them(finished):
    original = (finished.folder / "config.yaml").read_text()
    try:
        finished.edit("scales", "smoke", "experiments", "mnist_sums", "sets", "N6", "validation", value=40)
        planned = finished.planned()
        assert (planned["make_sets"], planned["train"]) == (2, 2)
        assert "fetch" not in planned
    finally:
        (finished.folder / "config.yaml").write_text(original)


def test_a_new_variant_is_one_line_of_the_config(finished):
    original = (finished.folder / "config.yaml").read_text()
    try:
        finished.edit("experiments", "mnist_sums", "variants", "II-N6", value={"model": "II", "sets": "N6"})
        finished.edit("scales", "smoke", "experiments", "mnist_sums", "run", value=["I-N3", "IV-N3", "I-N6", "II-N6"])
        planned = finished.planned()
        assert (planned["train"], planned["evaluate"]) == (2, 2)
        assert "make_sets" not in planned
    finally:
        (finished.folder / "config.yaml").write_text(original)


def test_results_are_equal_bit_for_bit_on_a_rerun(finished):
    """Deleting a run and its checkpoints and running again gives the same files."""
    run = finished.folder / RUN
    names = ("metrics.parquet", "weights.safetensors", "predictions.parquet")
    before = {name: digest(run / name) for name in names}
    table = finished.folder / "results/smoke/mnist_sums/tables/accuracy.csv"
    numbers = pd.read_csv(table).drop(columns="minutes_mean")
    shutil.rmtree(run)
    shutil.rmtree(finished.folder / "results/smoke/mnist_sums/checkpoints")
    done = finished.snakemake(f"{RUN}/predictions.parquet", str(table.relative_to(finished.folder)))
    assert done.returncode == 0, done.stderr
    assert {name: digest(run / name) for name in names} == before
    pd.testing.assert_frame_equal(pd.read_csv(table).drop(columns="minutes_mean"), numbers, check_exact=True)
