"""The whole workflow: everything it promises is there, and nothing is done twice."""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import zipfile
import zlib

import pandas as pd
import pytest
import yaml
from safetensors.torch import load_file

from equiset.config.resolve import resolve
from equiset.config.specs import run_spec
from equiset.experiments import EXPERIMENTS, pages
from equiset.files import digest, digest_json, read_json, write_json
from equiset.results.claims_table import headline
from equiset.results.measures import Measures

from ..latex import overfull_boxes
from ..rewriting import other_number, other_words
from .conftest import ROOT, Project

RUN = "results/smoke/mnist_sums/runs/IV-N3/seed0"
# One training without Snakemake: what decides it, then the folders of data, sets, checkpoints and run.
TRAIN = """
import json, sys
from pathlib import Path
from equiset.errors import one_line_errors
from equiset.training.run import train_run

with one_line_errors():
    train_run(json.loads(sys.argv[1]), *map(Path, sys.argv[2:]))
"""


def config_of(project):
    return resolve(yaml.safe_load((project.folder / "config.yaml").read_text()), "smoke")


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_promised_table_and_figure_is_there(finished, experiment):
    folder = finished.folder / "results" / "smoke" / experiment
    settings = config_of(finished).experiment(experiment)
    for name in settings.tables:
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
    assert claims.loc["L1", "verdict"] == "reproduced"
    # All data are stand-ins and nothing has been trained well: nothing else can be judged.
    assert set(claims["verdict"].drop("L1")) == {"not tested"}
    reasons = claims["reason"].drop("L1")
    assert reasons.str.contains("stand-in data|scale smoke|not run|not measured").all()
    assert {"stand-in data", "scale smoke"} <= set(reasons)
    assert set(claims.loc["P2", "runs"].split(";")) == {"results/smoke/point_clouds/runs/set-1000/seed0"}
    for name in ("claims.md", "claims.tex"):
        assert "not tested" in (folder / name).read_text()


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
    (verdicts,) = [number for number, line in enumerate(lines) if line.startswith("On the paper's data: ")]
    claims = pd.read_csv(finished.folder / "results/smoke/claims/claims.csv", keep_default_na=False)
    assert lines[verdicts] == headline(claims)
    assert lines[verdicts].endswith("Of the 11 others: 1 reproduced on generated sets, 10 not tested.")
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


def test_a_second_run_has_nothing_to_do(finished):
    done = finished.snakemake()
    assert done.returncode == 0
    assert "Nothing to be done" in done.stdout + done.stderr


@pytest.mark.parametrize(
    "deleted", ["point_clouds/tables/table1.md", "mnist_sums/figures/figure1.pdf", "claims/claims.tex"]
)
def test_what_was_deleted_is_made_again(finished, deleted):
    path = finished.folder / "results" / "smoke" / deleted
    content = path.read_bytes()
    path.unlink()
    try:
        makes = {"tables": "tabulate", "figures": "plot", "claims": "judge_claims"}[path.parent.name]
        assert finished.planned()[makes] == 1
    finally:
        path.write_bytes(content)


def test_editing_a_variant_reruns_that_variant_and_what_depends_on_it(finished):
    original = (finished.folder / "config.yaml").read_text()
    try:
        finished.edit("experiments", "mnist_sums", "variants", "IV-N3", "dropout", value=0.3)
        once = ("measure_runs", "tabulate", "plot", "judge_claims", "judge_claims_of_one", "write_report")
        once += ("track", "track_report", "default")
        assert finished.planned() == {"train": 2, "evaluate": 2, **dict.fromkeys(once, 1)}
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


# Of each folder that a rule names, a module that others import by its name.
RENAMED = ["nn.norm", "training.feeding", "results.intervals", "tracking.views", "data.mnist.idx"]
RENAMED += ["data.modelnet40.surface", "experiments.laws.measurements", "experiments.point_clouds.pool"]


def test_words_and_names_of_modules_repeat_nothing_and_a_checkpoint_goes_on(finished, tmp_path):
    with finished.own_source() as source:
        for path in source.rglob("*.py"):
            text = other_words(path.read_text())
            for name in RENAMED:
                text = re.sub(rf"\b(from|import) equiset\.{re.escape(name)}\b", rf"\1 equiset.{name}_renamed", text)
            path.write_text(text)
        for name in RENAMED:
            path = source / f"{name.replace('.', '/')}.py"
            path.rename(path.with_stem(f"{path.stem}_renamed"))
        assert finished.planned() == {}
        smoke = finished.folder / "results" / "smoke"
        folders = [smoke / "data/mnist/store", smoke / "mnist_sums/sets/N3/seed0", smoke / "mnist_sums/checkpoints"]
        spec = json.dumps(read_json(finished.folder / RUN / "run.json")["spec"])
        command = [sys.executable, "-c", TRAIN, spec, *folders, tmp_path / "run"]
        environment = os.environ | {"PYTHONPATH": str(source.parent)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert "going on after epoch 2" in done.stderr
    weights = "weights.safetensors"
    assert (tmp_path / "run" / weights).read_bytes() == (finished.folder / RUN / weights).read_bytes()


def test_a_number_in_a_network_repeats_the_trainings_of_its_experiment(finished):
    with finished.own_source() as source:
        network = source / "experiments" / "mnist_sums" / "networks.py"
        network.write_text(other_number(network.read_text()))
        judged = ("measure_runs", "judge_claims", "judge_claims_of_one")
        once = dict.fromkeys((*judged, "tabulate", "plot", "track", "write_report", "track_report", "default"), 1)
        assert finished.planned() == {"train": 4, "evaluate": 4, **once}
    assert set(re.findall(r"results/smoke/logs/train/(\w+)/", finished.said)) == {"mnist_sums"}


def test_another_mirror_or_time_limit_repeats_nothing(finished):
    original = (finished.folder / "config.yaml").read_text()
    try:
        for dataset, key in {"mnist": "mirrors", "celeba": "image_mirrors"}.items():
            finished.edit("datasets", dataset, key, value=["https://example.org/"])
            finished.edit("datasets", dataset, "timeout_s", value=7)
            finished.edit("datasets", dataset, "attempts", value=9)
        assert finished.planned() == {}
    finally:
        (finished.folder / "config.yaml").write_text(original)


def test_a_tracking_server_gets_the_runs_and_nothing_else_is_repeated(finished):
    """As soon as the environment names one. The password of a database is in no plan."""
    sent = {"track": len(EXPERIMENTS), "track_report": 1, "default": 1}
    address = "postgresql://me:secret@tracking.example.org/mlflow"
    assert finished.planned(MLFLOW_TRACKING_URI=address) == sent
    assert "secret" not in finished.said
    original = (finished.folder / "config.yaml").read_text()
    try:
        finished.edit("tracking", "live", value=True)
        assert finished.planned() == {}
        finished.edit("tracking", "uri", value="https://tracking.example.org")
        assert finished.planned() == sent
    finally:
        (finished.folder / "config.yaml").write_text(original)


def test_a_copied_project_has_nothing_to_do(finished, tmp_path):
    """Whatever the order in which its files were copied: here what is made of something is older than that."""
    subprocess.run(["cp", "-r", finished.folder, tmp_path / "copy"], check=True)
    results = [path for path in (finished.folder / "results").rglob("*") if path.is_file()]
    for age, path in enumerate(sorted(results, key=lambda path: path.stat().st_mtime_ns)):
        copy = tmp_path / "copy" / path.relative_to(finished.folder)
        os.utime(copy, (copy.stat().st_mtime - age,) * 2)
    copied = Project.__new__(Project)
    copied.folder = tmp_path / "copy"
    assert copied.planned() == {}


def test_a_new_variant_is_one_line_of_the_config(finished):
    original = (finished.folder / "config.yaml").read_text()
    try:
        finished.edit("experiments", "mnist_sums", "variants", "II-N6", value={"model": "II", "sets": "N6"})
        finished.edit("scales", "smoke", "experiments", "mnist_sums", "run", value=["IV-N3", "I-N6", "II-N6"])
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
    numbers = table.read_bytes()
    shutil.rmtree(run)
    shutil.rmtree(finished.folder / "results/smoke/mnist_sums/checkpoints")
    done = finished.snakemake(f"{RUN}/predictions.parquet", str(table.relative_to(finished.folder)))
    assert done.returncode == 0, done.stderr
    assert {name: digest(run / name) for name in names} == before
    assert table.read_bytes() == numbers


def test_a_training_killed_in_the_middle_ends_with_the_same_metrics(finished, tmp_path):
    raw = yaml.safe_load((ROOT / "config.yaml").read_text())
    change = {"experiments": {"mnist_sums": {"variants": {"IV-N3": {"training": {"epochs": 60}}}}}}
    spec = json.dumps(run_spec(resolve(raw, "smoke", change), "mnist_sums", "IV-N3", 0))
    smoke = finished.folder / "results" / "smoke"
    inputs = [smoke / "data/mnist/store", smoke / "mnist_sums/sets/N3/seed0"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}

    def start(name):
        command = [sys.executable, "-c", TRAIN, spec, *inputs, tmp_path / name / "checkpoints", tmp_path / name / "run"]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)

    def finish(name):
        process = start(name)
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        return said

    finish("whole")
    process = start("killed")
    deadline = time.monotonic() + 60
    while not list((tmp_path / "killed" / "checkpoints").glob("*.pt")):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    _, said = process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert "epoch 60/60" not in said
    assert not (tmp_path / "killed" / "run").exists()
    assert "going on after epoch" in finish("killed")
    for name in ("metrics.parquet", "weights.safetensors"):
        assert (tmp_path / "killed" / "run" / name).read_bytes() == (tmp_path / "whole" / "run" / name).read_bytes()
    assert len(pd.read_parquet(tmp_path / "killed" / "run" / "metrics.parquet")) == 60
