"""Published results: small files with their provenance, and a README that says what they say."""

import contextlib
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from equiset.config.resolve import REFERENCE, project_config
from equiset.errors import EquisetError
from equiset.experiments import EXPERIMENTS, pages
from equiset.experiments.jobs import measure
from equiset.experiments.laws.measures import number_layers
from equiset.files import read_json, write_json
from equiset.results import publish as publishing
from equiset.results.claims_table import judge_claims
from equiset.results.figures import Canvas, Figure
from equiset.results.intervals import Estimate
from equiset.results.measures import Measures, Number
from equiset.results.publish import publish
from equiset.results.runs import Run
from equiset.training.run import compare

from .made_up_runs import CURVES, ROOT, sums, write_run

CLAIMS = ROOT / "workflow" / "claims.yaml"
ORIGIN = {
    "git_commit": "0123456789abcdef",
    "epoch_seconds": [3600.0, 1800.0],
    "versions": {"torch": "2.0"},
    "machine": {"processor": "a CPU", "cores": 2},
    "device": "cpu",
    "threads": 1,
}


def ended(folder, variant, share=0.85, **more):
    """Write a run with its weights and checkpoint where the workflow has it."""
    made = write_run(folder / "made", "mnist_sums", variant, sums(share), **more).folder
    source = folder / "mnist_sums"
    run = Run(source / "runs" / variant / made.name)
    run.folder.parent.mkdir(parents=True)
    made.rename(run.folder)
    write_json(run.folder / "run.json", read_json(run.folder / "run.json") | ORIGIN | {"checkpoint": variant})
    (run.folder / "weights.safetensors").write_bytes(b"content")
    (source / "checkpoints").mkdir(exist_ok=True)
    (source / "checkpoints" / f"{variant}.pt").write_bytes(b"more content")
    return run


@pytest.fixture
def runs(tmp_path):
    assert CURVES["mnist_sums"] == "validation_accuracy"
    return [ended(tmp_path / "paper", name) for name in ("IV-N6", "III-N6")]


def call(folder):
    source, output = folder / "paper" / "mnist_sums", folder / "reference" / "mnist_sums"
    publish(source, folder / "paper" / "analysed" / "mnist_sums", source / "checkpoints", output)
    return output


def judged(folder, runs, output):
    """Judge by the runs of one experiment, from their own files; return the table of claims."""
    measure("mnist_sums", runs, [], folder / "measures.parquet")
    judge_claims(CLAIMS, [folder / "measures.parquet"], output)
    return pd.read_csv(output / "claims.csv", keep_default_na=False).set_index("claim")


def test_all_that_judges_a_run_again_or_makes_it_longer_is_published(runs, tmp_path):
    for place, name in (("mnist_sums/analyses", "of_trained"), ("analysed/mnist_sums", "of_published")):
        (tmp_path / "paper" / place).mkdir(parents=True)
        (tmp_path / "paper" / place / f"{name}.parquet").write_bytes(b"content")
    unfinished = tmp_path / "paper" / "mnist_sums" / "runs" / "I-N6" / "seed0" / "metrics.parquet"
    unfinished.parent.mkdir(parents=True)
    unfinished.write_bytes(b"not evaluated yet")
    (tmp_path / "paper" / "mnist_sums" / "checkpoints" / "III-N6.pt").unlink()
    folder = call(tmp_path)
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    names = ("run.json", "metrics.parquet", "predictions.parquet", "weights.safetensors")
    assert files == {
        *("analyses/of_published.parquet", "runs/IV-N6/seed0/checkpoint.pt"),
        *(f"runs/{variant}/seed0/{name}" for variant in ("IV-N6", "III-N6") for name in names),
    }
    for run in runs:
        for name in names:
            copied = folder / "runs" / run.variant / "seed0" / name
            assert copied.read_bytes() == (run.folder / name).read_bytes()
    assert (folder / "runs" / "IV-N6" / "seed0" / "checkpoint.pt").read_bytes() == b"more content"


def test_the_page_of_published_runs_says_where_they_come_from(runs, tmp_path):
    info = read_json(runs[1].folder / "run.json")
    write_json(runs[1].folder / "run.json", info | {"machine": {"processor": "another", "cores": 4}})
    table = tmp_path / "accuracy.md"
    table.write_text("| 85.0 ± 1.0 |\n")
    figure = tmp_path / "figure1.png"
    details = PngInfo()
    details.add_text("Description", "Curves.")
    Image.new("L", (1, 1)).save(figure, pnginfo=details)
    pages.write_experiment_page("mnist_sums", [run.folder for run in runs], [table], [figure], tmp_path / "README.md")
    page = (tmp_path / "README.md").read_text()
    assert page.startswith("# Sum of MNIST digits: published runs\n")
    assert "![Curves.](figures/figure1.png)\n\nThe paper's figure 1: " in page
    assert "on a CPU, 2 cores, cpu and another, 4 cores, cpu, 1 thread a run" in page
    for words in ("the paper's data, whole: MNIST", "0123456789ab", "3.0 hours", "85.0 ± "):
        assert words in page


def test_published_runs_are_judged_from_their_own_files(runs, tmp_path):
    before = judged(tmp_path, [run.folder for run in runs], tmp_path / "before")
    folder = call(tmp_path)
    for run in runs:
        run.folder.rename(run.folder.with_name("gone"))
    published = [folder / "runs" / variant / "seed0" for variant in ("IV-N6", "III-N6")]
    claims = judged(folder, published, tmp_path / "after")
    assert claims.loc["M2", "verdict"] == "holds"
    assert claims.loc["M2", "runs"].split(";")[0] == str(published[0])
    pd.testing.assert_frame_equal(claims.drop(columns="runs"), before.drop(columns="runs"))


def test_runs_that_end_later_are_added(tmp_path):
    ended(tmp_path / "paper", "IV-N6")
    call(tmp_path)
    shutil.rmtree(tmp_path / "paper")  # as on another machine
    ended(tmp_path / "paper", "III-N6")
    folder = call(tmp_path)
    assert {path.parts[-3] for path in folder.glob("runs/*/*/run.json")} == {"III-N6", "IV-N6"}


def test_figures_that_show_the_data_stay_out():
    from equiset.experiments.outlier_faces.settings import ExperimentSettings

    assert ExperimentSettings.private == ("figure4", "figure6")
    faces = project_config(ROOT, {}, "paper").experiment("outlier_faces")
    published = faces.publishable(analyses=list(faces.analyses), data=True)
    assert set(faces.shown) - set(published) == {"figure4", "figure6"}


def test_figures_of_a_single_epoch_stay_out():
    faces = project_config(ROOT, {}, REFERENCE).experiment("outlier_faces")
    assert {faces.variants[name].training.epochs for name in faces.running} == {1}
    assert {"curves", "calibration"}.isdisjoint(faces.publishable(analyses=[], data=True))


@pytest.mark.parametrize("commit", ["0123-dirty", None])
def test_runs_of_unknown_code_are_refused(runs, tmp_path, commit):
    path = runs[0].folder / "run.json"
    write_json(path, read_json(path) | {"git_commit": commit})
    with pytest.raises(EquisetError, match="not committed"):
        call(tmp_path)
    assert not (tmp_path / "reference").exists()


def test_large_files_are_refused(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(publishing, "LARGEST", 1000)
    with pytest.raises(EquisetError, match=r"run\.json: 1,... bytes are too many"):
        call(tmp_path)
    monkeypatch.setattr(publishing, "LARGEST", 10**6)
    monkeypatch.setattr(publishing, "LARGEST_IN_ALL", 11)
    with pytest.raises(EquisetError, match=r"\.pt: 12 bytes are too many"):
        call(tmp_path)
    monkeypatch.setattr(publishing, "LARGEST_IN_ALL", 12)
    with pytest.raises(EquisetError, match=r"38 bytes of weights and checkpoints .* Delete checkpoint\.pt"):
        call(tmp_path)
    monkeypatch.setattr(publishing, "LARGEST_IN_ALL", 38)
    call(tmp_path)


def test_a_published_network_answers_as_published_or_it_is_said():
    published = pd.DataFrame({"label": [1, 2], "predicted": [1, 3], "p": np.float32([0.5, 0.9]), "ps": [[0.1], [0.2]]})
    rounded = published.assign(p=np.float32([0.500001, 0.9]))
    assert compare(published, rounded).startswith("all 2 predictions are as published")
    with pytest.raises(EquisetError, match="1 of 2 predictions have another predicted than was published"):
        compare(published, published.assign(predicted=[1, 2]))
    with pytest.raises(EquisetError, match=r"differ by up to 0\.1 "):
        compare(published, published.assign(ps=[[0.1], [0.3]]))
    with pytest.raises(EquisetError, match="predictions of other things"):
        compare(published, published[:1])


def test_the_published_verdicts_are_those_of_the_published_files(tmp_path):
    """What `make judge` writes is what is committed: same verdicts, same numbers."""
    reference = tmp_path / "results" / "reference"
    shutil.copytree(ROOT / "results" / "reference", reference)

    def written() -> dict[str, str]:
        files = [path for path in (reference / "claims").iterdir() if path.suffix != ".png"]
        return {path.name: path.read_text(encoding="utf-8") for path in files}

    committed = written()
    shutil.rmtree(reference / "claims")
    with contextlib.chdir(tmp_path):
        config, places = project_config(ROOT, {}, REFERENCE), []
        for name in EXPERIMENTS:
            folder, settings = Path("results", REFERENCE, name), config.experiment(name)
            runs = [
                run
                for variant in settings.running
                for seed in settings.seeds_for(variant)
                if (run := folder / "runs" / variant / f"seed{seed}").exists()
            ]
            places.append(folder / "measures.parquet")
            places[-1].unlink(missing_ok=True)
            measure(name, runs, sorted(folder.glob("analyses/*.parquet")), places[-1])
        laws = Path("results", REFERENCE, "laws")
        places.append(laws / "measures.parquet")
        number_layers(sorted(laws.glob("analyses/*.parquet")), "paper").write(places[-1])
        judge_claims(CLAIMS, places, Path("results", REFERENCE, "claims"))
    assert committed
    assert written() == committed


def test_the_readme_takes_its_numbers_from_the_files(tmp_path):
    (tmp_path / "claims").mkdir()
    Figure(Canvas(figsize=(1, 1)), "Dots | and bars").write(tmp_path / "claims" / "claims.png")
    common = {"changed": "", "rests_on": "", "data": "—", "data_kind": "", "data_share": "", "seeds": 0, "epochs": ""}
    part = {"data": "CelebA, 3 of 10 images", "data_kind": "part", "data_share": 0.3, "seeds": 1, "epochs": "1"}
    rows = [
        common
        | {"claim": "M1", "statement": "said.", "paper": "> 80 %", "ours": "IV: 81.2 %; III: 1 %", "verdict": "holds"}
        | {
            "reason": "one seed",
            "changed": "the steps",
            "data": "MNIST",
            "data_kind": "whole",
            "seeds": 3,
            "epochs": "30",
        },
        common
        | {"claim": "L1", "statement": "proved", "paper": "proof", "ours": "0", "verdict": "differs"}
        | {"reason": "expected 1; two; one seed", "rests_on": "generated sets", "data": "generated sets"},
        common
        | part
        | {"claim": "F2", "statement": "found", "paper": "6 %", "ours": "6‡ %; b: 2; c: —", "verdict": "too short"}
        | {"reason": "a still improves after 1 epochs, 2 points for each doubling; so far as in the paper: x"},
        common
        | {"claim": "P1", "statement": "also said", "paper": "90 %", "ours": "—", "verdict": "not run", "reason": "v"},
        common
        | {"claim": "R2", "statement": "also said", "paper": "91 %", "ours": "—", "verdict": "no data here"}
        | {"reason": "gone"},
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "claims" / "claims.csv", index=False)
    page = pages.with_results(f"before\n{pages.BEGIN}\nreplaced\n{pages.END}\nafter\n", tmp_path)
    assert page.startswith("before\n")
    assert page.endswith("\nafter\n")
    assert "replaced" not in page
    head = "|Claim|Paper|Ours|\n|---|---|---|\n"
    for words in (
        f"**Reproduced**\n\n{head}|✓&nbsp;M1† said|> 80&nbsp;%|IV: 81.2&nbsp;%<br>MNIST, 30 epochs, 3 seeds|",
        f"**Differs, and how**\n\n{head}|≠&nbsp;L1 proved|proof|0<br>generated sets<br>expected 1; two|",
        "|–&nbsp;F2 found|6&nbsp;%|6‡&nbsp;%<br>b: 2<br>CelebA (30.0&nbsp;%), 1 epoch<br>*too short*: so far as ",
        "|–&nbsp;P1 also said|90&nbsp;%|*not run*: v|",
        f"**Cannot be tested here**\n\n{head}|–&nbsp;R2 also said|91&nbsp;%|*no data here*: gone|",
        "1 holds, 1 differs (L1 expected 1), 3 open (1 no data here, 1 not run, 1 too short).**",
        "‡ Still improving at the last epoch",
        "Claims: L the layers themselves, M sums of MNIST digits",
        'alt="Dots | and bars"',
    ):
        assert words in page
    assert pages.with_results(page, tmp_path) == page
    assert "Table 1" not in page
    assert "Section 4.1" not in page
    found = Estimate(0.8, 0.7, 0.9, 0.01, np.nan, np.nan, "", 1, 100, 100, "")
    facts = {"variant": "a|b", "measure": "test_accuracy", "unit": "%", "data": "Data, 1 of 2"}
    for experiment, name, column, more in (
        ("point_clouds", "table1", "particles", {"in_range_from_epoch": "20, 25"}),
        ("outlier_faces", "accuracy", "training_sets", {}),
    ):
        table = {"variant": ["a|b"], column: len(name), "paper": "82 ± 2 %", "epochs": 200, "seeds": 1} | more
        path = tmp_path / experiment / "tables" / f"{name}.csv"
        path.parent.mkdir(parents=True)
        Measures([Number(**asdict(found), experiment=experiment, **facts)]).write(path.parents[1] / "measures.parquet")
        pd.DataFrame(table).to_csv(path, index=False)
        shown = pages.with_results(page, tmp_path)
        assert rf"|a\|b|{len(name)}|82 ± 2 %|80.0 ± 1.0|200|1|{'20, 25|' * bool(more)}" in shown
        assert "** (Data, 1 of 2)" in shown
    assert "Section 4.1" in shown


@pytest.mark.parametrize("page", ["", pages.BEGIN, f"{pages.END} {pages.BEGIN}", f"{pages.BEGIN * 2}{pages.END}"])
def test_a_readme_without_its_marks_is_left_alone(page, tmp_path):
    with pytest.raises(EquisetError, match=r"README\.md"):
        pages.with_results(page, tmp_path)
