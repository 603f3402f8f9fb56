"""Tables and figures: every number comes from the runs' files, in every format."""

import numpy as np
import pandas as pd
import pytest

from equiset.experiments.mnist_sums.results import SHOWN
from equiset.files import write_json
from equiset.results.runs import Material
from equiset.results.tables import Table
from equiset.stages import show


def write_run(folder, variant="IV-N6", seed=0, last=0.5, best=0.75, model="IV", kind="whole", dropout=0.2, **sets):
    run = folder / variant / f"seed{seed}"
    run.mkdir(parents=True)
    settings = {"model": model, "set_pool": "sum", "dropout": dropout, "training": {"epochs": 3}}
    write_json(
        run / "run.json",
        {
            "spec": {"variant": variant, "seed": seed, "scale": "demo", "settings": settings},
            "sets": {
                "members": int(variant.split("N")[1][0]),
                "kind": kind,
                "share": float(kind == "whole"),
                "data": "MNIST",
                **sets,
            },
            "parameters": 12345,
            "epoch_seconds": [60, 60, 60],
        },
    )
    accuracy = [0.1, best, last]
    pd.DataFrame(
        {"epoch": [1, 2, 3], "train_accuracy": accuracy, "validation_accuracy": accuracy, "validation_loss": accuracy}
    ).to_parquet(run / "metrics.parquet")
    labels = np.array([20] * 30 + [25] * 10 + [27] * 40, dtype=np.int16)
    predicted = np.where(np.arange(80) % 4, labels, 0).astype(np.int16)
    split = np.repeat(["train", "validation"], 40)
    pd.DataFrame({"split": split, "label": labels, "predicted": predicted}).to_parquet(run / "predictions.parquet")
    return run


def material(*runs):
    return Material(list(runs), runs[0], {})


def test_the_accuracy_table_says_what_the_files_say(tmp_path):
    runs = [write_run(tmp_path, seed=seed, last=last) for seed, last in ((0, 0.5), (1, 0.6))]
    table = SHOWN["accuracy"](material(*runs))
    row = table.numbers.iloc[0]
    assert row["validation_accuracy_last_mean"] == pytest.approx(0.55)
    assert row["validation_accuracy_last_sd"] == pytest.approx(np.std([0.5, 0.6], ddof=1))
    assert row["validation_accuracy_best_mean"] == 0.75
    assert row["best_epoch_median"] == 2
    assert row["train_accuracy_last_mean"] == 0.75
    assert row["constant_guess_accuracy"] == 0
    assert (row["parameters"], row["seeds"]) == (12345, 2)
    shown = table.shown.iloc[0]
    assert shown["Validation, last (%)"] == "55.0 ± 7.1"
    assert shown["Validation, best (%)"] == "75.0 ± 0.0"
    assert shown["Paper"] == "> 80 %"


def test_a_changed_file_changes_the_table(tmp_path):
    run = write_run(tmp_path)
    show.main(["mnist_sums", "accuracy", "--runs", str(run), "--store", "x", "--output", str(tmp_path / "before.md")])
    metrics = pd.read_parquet(run / "metrics.parquet")
    metrics.loc[2, "validation_accuracy"] = 0.4321
    metrics.to_parquet(run / "metrics.parquet")
    show.main(["mnist_sums", "accuracy", "--runs", str(run), "--store", "x", "--output", str(tmp_path / "after.md")])
    assert "43.2" not in (tmp_path / "before.md").read_text()
    assert "43.2" in (tmp_path / "after.md").read_text()


@pytest.mark.parametrize(
    ("kind", "share", "data", "words"),
    [
        ("whole", 1.0, "MNIST", "the paper's data, whole: MNIST."),
        ("part", 0.5, "MNIST, 35,000 of 70,000 images", "the paper's data, in PART: MNIST, 35,000 of 70,000 images."),
        ("own", 0.0, "own data in the layout of MNIST", "OWN data, not the paper's: own data"),
        ("stand-in", 0.0, "stand-in for MNIST", "STAND-IN data: stand-in for MNIST."),
    ],
)
def test_every_table_names_its_data_scale_and_seeds(tmp_path, kind, share, data, words):
    table = SHOWN["accuracy"](material(write_run(tmp_path, kind=kind, share=share, data=data)))
    assert f"Measured on {words}" in table.notes[-1]
    assert "Scale: demo. Seeds: 0." in table.notes[-1]
    assert table.numbers[["data_kind", "data_share"]].iloc[0].tolist() == [kind, share]


def test_no_table_holds_a_time(tmp_path):
    """Times differ from run to run; run.json has them."""
    table = SHOWN["accuracy"](material(write_run(tmp_path)))
    columns = [*table.numbers.columns, *table.shown.columns]
    assert not [name for name in columns if "minute" in name.lower() or "second" in name.lower()]


def test_formats(tmp_path):
    table = Table(
        pd.DataFrame({"model": ["a_b"], "accuracy": [0.5]}),
        pd.DataFrame({"Model": ["a_b & co"], "Accuracy (%)": ["50.0 ± 1.0"]}),
        "A caption.",
        ("A note: 5 %.",),
    )
    for suffix in ("csv", "md", "tex"):
        table.write(tmp_path / f"t.{suffix}")
    assert pd.read_csv(tmp_path / "t.csv").to_dict("list") == {"model": ["a_b"], "accuracy": [0.5]}
    assert "| a_b & co | 50.0 ± 1.0     |" in (tmp_path / "t.md").read_text()
    latex = (tmp_path / "t.tex").read_text()
    assert r"a\_b \& co & 50.0 $\pm$ 1.0 \\" in latex
    assert r"Model & Accuracy (\%) \\" in latex
    assert r"A note: 5 \%." in latex
    assert all(rule in latex for rule in (r"\toprule", r"\midrule", r"\bottomrule"))
    with pytest.raises(ValueError, match=r"not \.xls"):
        table.write(tmp_path / "t.xls")


def test_minus_signs_are_typeset_for_people_and_plain_in_numbers(tmp_path):
    shown = pd.DataFrame({"Run": ["set-1000"], "Change": ["[-0.5, -.25]"], "On": ["2026-11-16"]})
    table = Table(pd.DataFrame({"change": [-0.5]}), shown, "A caption.", ())
    for suffix in ("csv", "md", "tex"):
        table.write(tmp_path / f"t.{suffix}")
    assert (tmp_path / "t.csv").read_text() == "change\n-0.5\n"
    assert "| set-1000 | [−0.5, −.25] | 2026-11-16 |" in (tmp_path / "t.md").read_text()
    assert "set-1000 & [$-$0.5, $-$.25] & 2026-11-16" in (tmp_path / "t.tex").read_text()


@pytest.mark.parametrize("figure", ["figure1", "dropout"])
def test_figures_are_the_same_bytes_each_time_and_change_with_the_data(tmp_path, figure):
    def drawn(name, last):
        runs = [
            write_run(tmp_path / name, "I-N6", model="I", last=last),
            write_run(tmp_path / name, "I-N6-dropout80", model="I", dropout=0.8),
            write_run(tmp_path / name, "IV-N3", last=last),
        ]
        contents = []
        for suffix in ("png", "pdf"):
            path = tmp_path / name / f"f.{suffix}"
            SHOWN[figure](material(*runs)).write(path)
            contents.append(path.read_bytes())
        return contents

    first, again, other = drawn("a", 0.5), drawn("b", 0.5), drawn("c", 0.9)
    assert first == again
    assert first[0] != other[0]


def test_figures_survive_missing_variants(tmp_path):
    for name in ("figure1", "dropout"):
        SHOWN[name](material(write_run(tmp_path / name))).write(tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 1000
