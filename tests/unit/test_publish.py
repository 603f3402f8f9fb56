"""Published results: small files with their provenance, and a README that says what they say."""

from pathlib import Path

import pandas as pd
import pytest

from equiset.errors import EquisetError
from equiset.files import read_json, write_json
from equiset.stages import publish, readme

ROOT = Path(__file__).parents[2]


@pytest.fixture
def results(tmp_path):
    run = tmp_path / "mnist_sums" / "runs" / "IV-N3" / "seed0"
    run.mkdir(parents=True)
    info = {
        "git_commit": "0123456789abcdef",
        "spec": {"variant": "IV-N3", "seed": 0, "scale": "paper", "settings": {}},
        "sets": {"kind": "whole", "share": 1.0, "data": "MNIST"},
        "epoch_seconds": [3600.0, 1800.0],
        "versions": {"torch": "2.0"},
        "machine": {"processor": "a CPU", "cores": 2},
        "device": "cpu",
        "threads": 1,
    }
    write_json(run / "run.json", info)
    for name in ("metrics.parquet", "predictions.parquet", "weights.safetensors"):
        (run / name).write_bytes(b"content")
    for file in ("tables/accuracy.md", "tables/accuracy.csv", "figures/figure1.png"):
        path = tmp_path / "mnist_sums" / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"content of {file}")
    (tmp_path / "config.yaml").write_text("scale: paper\n")
    return tmp_path


def call(results):
    folder = results / "mnist_sums"
    options = {
        "--results": folder,
        "--runs": folder / "runs" / "IV-N3" / "seed0",
        "--config": results / "config.yaml",
        "--output": results / "reference",
    }
    publish.main(["mnist_sums", *(str(part) for option in options.items() for part in option)])
    return results / "reference"


def test_small_files_are_published_and_weights_are_not(results):
    folder = call(results)
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    run = "runs/IV-N3/seed0"
    assert files == {"README.md", "config.yaml", "tables/accuracy.md", "tables/accuracy.csv", "figures/figure1.png"} | {
        f"{run}/run.json",
        f"{run}/metrics.parquet",
    }
    page = (folder / "README.md").read_text()
    for words in (
        "the paper's data, whole: MNIST",
        "0123456789ab",
        "1.5 hours",
        "content of tables/accuracy.md",
        "figures/figure1.png",
    ):
        assert words in page


@pytest.mark.parametrize("commit", ["0123-dirty", None])
def test_runs_of_unknown_code_are_refused(results, commit):
    path = results / "mnist_sums" / "runs" / "IV-N3" / "seed0" / "run.json"
    write_json(path, read_json(path) | {"git_commit": commit})
    with pytest.raises(EquisetError, match="not committed"):
        call(results)


def test_large_files_are_refused(results):
    (results / "mnist_sums" / "figures" / "figure1.png").write_bytes(bytes(publish.LARGEST + 1))
    with pytest.raises(EquisetError, match=r"figure1\.png.*too many"):
        call(results)


def test_the_readme_takes_its_numbers_from_the_files(tmp_path):
    (tmp_path / "claims").mkdir()
    (tmp_path / "mnist" / "tables").mkdir(parents=True)
    (tmp_path / "mnist" / "tables" / "accuracy.md").write_text("the table\n")
    rows = [
        ("M1", "said", "> 80 %", "81.2 %", "reproduced", "", "MNIST", 1),
        ("L1", "proved", "proof", "0", "not reproduced", "", "generated sets", 0),
        ("P1", "also said", "90", "—", "not tested", "not run", "", 0),
        ("P2", "also said", "91", "—", "not tested", "not run", "", 0),
    ]
    columns = ["claim", "statement", "paper", "ours", "verdict", "reason", "data", "seeds"]
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "claims" / "claims.csv", index=False)
    page = readme.with_results(f"before\n{readme.BEGIN}\nold\n{readme.END}\nafter\n", tmp_path)
    assert page.startswith("before\n")
    assert page.endswith("\nafter\n")
    assert "old" not in page
    for words in (
        "81.2 %",
        "MNIST, 1 seed",
        "| generated sets |",
        "Not tested: P1, P2 (not run).",
        "1 reproduced, 1 not reproduced, 2 not tested",
        "the table",
    ):
        assert words in page
    assert readme.with_results(page, tmp_path) == page


@pytest.mark.parametrize("page", ["", readme.BEGIN, f"{readme.END} {readme.BEGIN}", f"{readme.BEGIN * 2}{readme.END}"])
def test_a_readme_without_its_marks_is_left_alone(page, tmp_path):
    with pytest.raises(EquisetError, match=r"README\.md"):
        readme.with_results(page, tmp_path)
