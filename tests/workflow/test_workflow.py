"""The whole workflow: everything it promises is there."""

import re
import shutil
import sqlite3
import zipfile
import zlib

import pandas as pd
import pytest
import yaml
from safetensors.torch import load_file

from equiset.config.resolve import resolve
from equiset.experiments import EXPERIMENTS, pages
from equiset.files import digest, digest_json, read_json, write_json
from equiset.results.claims_table import headline
from equiset.results.measures import Measures

from ..latex import overfull_boxes
from .conftest import RUN


def config_of(project):
    return resolve(yaml.safe_load((project.folder / "config.yaml").read_text()), "smoke")


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_promised_table_and_figure_is_there(finished, experiment):
    folder = finished.folder / "results" / "smoke" / experiment
    settings = config_of(finished).experiment(experiment)
    for name in set(settings.tables) & set(settings.shown):
        assert len(pd.read_csv(folder / "tables" / f"{name}.csv"))
        latex = (folder / "tables" / f"{name}.tex").read_text()
        assert r"\toprule" in latex
        assert latex.isascii(), "plain LaTeX knows no other signs"
        assert "STAND-IN" in (folder / "tables" / f"{name}.md").read_text()
    for name in set(settings.figures) & set(settings.shown):
        assert (folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (folder / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_the_tables_have_the_rows_of_the_config(finished):
    folder = finished.folder / "results" / "smoke"
    sums = pd.read_csv(folder / "mnist_sums" / "tables" / "accuracy.csv")
    assert list(sums["variant"]) == ["IV-N3", "I-N6"]
    assert set(sums["data_kind"]) == {"stand-in"}
    clouds = pd.read_csv(folder / "point_clouds" / "tables" / "table1.csv")
    assert list(clouds["variant"]) == ["set-1000", "graph-1000"]
    text = (folder / "point_clouds" / "tables" / "table1.md").read_text()
    assert text.count("(quoted)") == 11


def test_the_tables_fit_a_page_of_an_article(finished, tmp_path):
    tables = sorted((finished.folder / "results" / "smoke").glob("*/**/*.tex"))
    assert len(tables) > 7
    assert overfull_boxes(tables, tmp_path) == []


def test_every_claim_has_a_verdict(finished):
    folder = finished.folder / "results" / "smoke" / "claims"
    claims = pd.read_csv(folder / "claims.csv", keep_default_na=False).set_index("claim")
    assert len(claims) == 23
    assert claims.loc["L1", "verdict"] == "holds"
    # All data are stand-ins and nothing has been trained well: nothing else can be judged.
    assert set(claims["verdict"].drop("L1")) <= {"no data here", "not run", "too short"}
    reasons = claims["reason"].drop("L1")
    assert reasons.str.contains("stand-in data|scale smoke|variant|not measured|members cannot be obtained").all()
    assert {"stand-in data", "scale smoke"} <= set(reasons)
    assert set(claims.loc["P2", "runs"].split(";")) == {"results/smoke/point_clouds/runs/set-1000/seed0"}
    for name in ("claims.md", "claims.tex"):
        assert "not run" in (folder / name).read_text()


def test_one_experiment_alone_can_be_judged(finished):
    claims = "results/smoke/redshift/claims/claims.csv"
    assert (finished.folder / claims).is_file()
    assert finished.planned(claims, "--forcerun", "judge_claims_of_one") == {"judge_claims_of_one": 1}


def test_every_test_mesh_is_predicted_and_none_is_trained_on(finished):
    """The split of the source is the split of the sets."""
    folder = finished.folder / "results" / "smoke"
    meshes = pd.read_parquet(folder / "data" / "modelnet40" / "store" / "meshes.parquet")
    sets = pd.read_parquet(folder / "point_clouds" / "sets" / "P1000" / "seed0" / "sets.parquet")
    assert ((meshes["split"] == "test") == (sets["split"] == "test")).all()
    predictions = pd.read_parquet(folder / "point_clouds" / "runs" / "set-1000" / "seed0" / "predictions.parquet")
    tested = meshes.index[meshes["split"] == "test"]
    assert predictions.groupby("draw")["mesh"].apply(lambda part: sorted(part) == list(tested)).all()


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
    assert info["sets"]["kind"] == "stand-in"
    assert len(info["epoch_seconds"]) == 2
    assert {"torch", "python", "equiset"} <= set(info["versions"])
    assert info["peak_memory_mb"] > 10
    assert (finished.folder / "results/smoke/logs/train/mnist_sums/IV-N3/seed0.log").read_text().count("epoch ") == 2
    assert (finished.folder / "results/smoke/benchmarks/train/mnist_sums/IV-N3/seed0.tsv").exists()


def test_the_terminal_shows_each_training_and_ends_with_the_verdicts(finished):
    lines = finished.output.splitlines()
    assert len(lines) < 120
    settings = {name: config_of(finished).experiment(name) for name in EXPERIMENTS}
    trainings = sum(len(one.running) * len(one.seeds) for one in settings.values())
    said = rf"\d+ jobs to run, {trainings} of them trainings\. Logs: results/<scale>/logs/"
    assert len([line for line in lines if re.fullmatch(said, line)]) == 1
    for experiment, one in settings.items():
        for name in one.running:
            for seed in one.seeds:
                begin = f"  Training {experiment} {name}, seed {seed}: "
                (line,) = [line for line in lines if begin in line and "now: " not in line]
                assert re.search(r": (validation|training) (accuracy [\d.]+ %|scatter [\d.]+), \d+:\d\d$", line)
    (verdicts,) = [number for number, line in enumerate(lines) if line.startswith("23 claims of the paper: ")]
    assert lines[verdicts - 2].startswith(f"Trained {trainings} networks: ")
    assert lines[verdicts - 1].startswith("Stand-ins test no number of the paper. The published results")
    claims = pd.read_csv(finished.folder / "results/smoke/claims/claims.csv", keep_default_na=False)
    assert lines[verdicts] == headline(claims)
    assert lines[verdicts].startswith("23 claims of the paper: 1 holds (1 on generated sets), 0 differ, 22 open (")
    assert lines[verdicts + 1] == "Report: results/smoke/report.html"
    assert "make ui" in lines[verdicts + 2]
    # Snakemake's own log has what the terminal leaves out.
    (log, *_) = sorted((finished.folder / ".snakemake" / "log").glob("*.log"))
    assert "Evaluating mnist_sums IV-N3, seed 0" in log.read_text()


def test_the_report_shows_every_table_and_figure(finished):
    page = (finished.folder / "results" / "smoke" / "report.html").read_text()
    for experiment in EXPERIMENTS:
        settings = config_of(finished).experiment(experiment)
        for name in settings.shown:
            assert f'id="{experiment}-{name}"' in page
    assert page.count("<strong>STAND-IN data</strong>") == 2 * len(EXPERIMENTS)
    numbers = pd.read_csv(finished.folder / "results/smoke/mnist_sums/tables/accuracy.csv")
    assert f'<td class="">{numbers["parameters"][0]:,}</td>' in page


def test_snakemakes_own_report_carries_the_page(finished):
    done = finished.snakemake("--report", "snakemake.zip")
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(finished.folder / "snakemake.zip") as archive:
        pages = [archive.read(name).decode(errors="replace") for name in archive.namelist() if name.endswith(".html")]
    assert (finished.folder / "results" / "smoke" / "report.html").read_text() in pages


def test_nothing_waits_for_mlflow(finished):
    graph = finished.snakemake("--rulegraph", "dot", "--quiet", "all").stdout
    number = {name: place for place, name in re.findall(r'(\d+)\[label *= *"(\w+)"', graph)}
    edges = re.findall(r"(\d+) -> (\d+)", graph)
    assert [after for before, after in edges if before == number["track"]] == [number["track_report"]]
    assert [after for before, after in edges if before == number["track_report"]] == [number["default"]]


def test_mlflow_has_every_run(finished):
    with sqlite3.connect(finished.folder / "results" / "mlflow.db") as database:
        names = sorted(name for (name,) in database.execute("select name from runs"))
    database.close()
    settings = [config_of(finished).experiment(name) for name in EXPERIMENTS]
    runs = [f"{name}/seed{seed}" for one in settings for name in one.running for seed in one.seeds]
    runs += [f"{name}/all seeds" for one in settings for name in one.running if len(one.seeds) > 1]
    # Tables, figures and the report are runs of an experiment of their own.
    assert names == sorted(f"{name} (smoke)" for name in [*runs, *EXPERIMENTS, "report"])


def test_a_number_is_the_same_wherever_it_is_shown(finished):
    """From the predictions, by hand, to table, figure, claim, report, README and MLflow: the same digits and ends."""
    folder = finished.folder / "results" / "smoke"
    predictions = pd.read_parquet(folder / "point_clouds/runs/set-1000/seed0/predictions.parquet")
    by_hand = (predictions["label"] == predictions["predicted"]).mean()
    number = Measures.read(folder / "point_clouds/measures.parquet")["set-1000", "test_accuracy"]
    assert number.value == by_hand
    table = pd.read_csv(folder / "point_clouds/tables/table1.csv").set_index("variant").loc["set-1000"]
    condition = pd.read_csv(folder / "claims/conditions.csv").set_index("claim").loc["P2"]
    ends = pytest.approx((number.value, number.low, number.high, number.spread), rel=1e-5)
    names = ("", "_low95", "_high95", "_spread")
    assert tuple(table[f"test_accuracy{end}"] for end in names) == ends
    assert tuple(condition[f"value{end}"] for end in names) == ends
    shown = f"{number.with_spread} %"
    assert pd.read_csv(folder / "claims/claims.csv").set_index("claim").loc["P2", "ours"] == shown
    assert f"| {number.with_spread} " in (folder / "point_clouds/tables/table1.md").read_text()
    page = (folder / "report.html").read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert f"<div>{shown}</div>" in page
    assert f">{number.with_spread}</td>" in page
    with sqlite3.connect(finished.folder / "results" / "mlflow.db") as database:
        query = "select run_uuid from runs where name = 'set-1000/seed0 (smoke)'"
        ((run,),) = database.execute(query).fetchall()
        query = "select value from metrics where key = ? and run_uuid = ?"
        sent = [database.execute(query, (f"result/test_accuracy{end}", run)).fetchone()[0] for end in names]
    database.close()
    assert tuple(sent) == ends
    assert f"|{number.with_spread}|" in pages.with_results(f"{pages.BEGIN}{pages.END}", folder)
    # A figure that shows a number has it as text, from the same place.
    scatter = Measures.read(folder / "redshift/measures.parquet")["set", "scatter"]
    assert f"| {scatter.with_spread} " in (folder / "redshift/tables/scatter.md").read_text()
    pdf = (folder / "redshift/figures/figure5.pdf").read_bytes()
    streams = b"".join(zlib.decompress(part) for part in re.findall(rb"stream\r?\n(x.*?)endstream", pdf, re.S))
    letters = "".join(re.findall(r"\(((?:[^()\\]|\\.)*)\)", streams.decode("latin-1"))).replace("\0", "")
    assert f"scatter {scatter.text}" in letters


def test_a_network_gives_the_same_answers_again(finished):
    """A published one, and if other sets are drawn today, that is said."""
    published = finished.folder / "results/reference/mnist_sums/runs/IV-N3/seed0"
    again, log = (f"{name}/mnist_sums/IV-N3/seed0" for name in ("results/smoke/verified", "results/smoke/logs/verify"))
    again, log = finished.folder / f"{again}.parquet", finished.folder / f"{log}.log"
    target = str(again.relative_to(finished.folder))
    shutil.copytree(finished.folder / RUN, published)
    try:
        done = finished.snakemake(target)
        assert done.returncode == 0, done.stderr
        assert "all 96 predictions are as published, numbers to within 0" in log.read_text()
        assert digest(again) == digest(finished.folder / RUN / "predictions.parquet")
        info = read_json(published / "run.json")
        write_json(published / "run.json", info | {"sets": info["sets"] | {"digest": "0" * 64}})
        done = finished.snakemake(target)
        assert done.returncode == 1
        assert "are not the sets of" in done.stderr
        assert not again.exists()
    finally:
        shutil.rmtree(finished.folder / "results/reference")


def test_a_published_network_is_analysed_as_where_it_was_trained(finished):
    """From its weights, without any training."""
    runs, table = "results/{}/point_clouds/runs/set-1000/seed0", "results/smoke/{}/{}/robustness.parquet"
    published = finished.folder / runs.format("reference")
    again, first = table.format("analysed", "point_clouds"), table.format("point_clouds", "analyses")
    shutil.copytree(finished.folder / runs.format("smoke"), published)
    try:
        assert finished.planned(again) == {"analyse_published": 1}
        done = finished.snakemake(again)
        assert done.returncode == 0, done.stderr
        rows, expected = (pd.read_parquet(finished.folder / path) for path in (again, first))
        expected = expected[expected["variant"] == "set-1000"].reset_index(drop=True)
        assert len(rows)
        pd.testing.assert_frame_equal(rows, expected)
    finally:
        shutil.rmtree(finished.folder / "results/reference")
