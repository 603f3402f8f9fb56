"""Tables and figures: every number comes from the runs' files, in every format."""

import numpy as np
import pandas as pd
import pytest

from equiset.errors import EquisetError
from equiset.experiments.jobs import measure, show
from equiset.experiments.mnist_sums import results
from equiset.experiments.point_clouds import results as point_clouds
from equiset.results.figures import Canvas, NothingToShowError, draw_curve
from equiset.results.measures import Measures
from equiset.results.tables import Table

from ..latex import overfull_boxes
from .made_up_runs import PAPER, ROOT, clouds, results_of, sums, write_run

CURVE = (0.1,) * 14 + (0.75, 0.5, 0.5, 0.5, 0.5, 0.5)


def run_of(folder, variant="IV-N6", share=0.5, scale="demo", **more):
    return write_run(folder, "mnist_sums", variant, sums(share, train=0.75), scale=scale, curve=CURVE, **more)


def test_the_accuracy_table_says_what_was_measured(tmp_path):
    runs = [run_of(tmp_path, seed=seed, share=share) for seed, share in ((0, 0.5), (1, 0.6))]
    about = results_of("mnist_sums", *runs)
    table = results.accuracy(about)
    row = table.numbers.iloc[0]
    last = about.measures["IV-N6", "validation_accuracy"]
    assert row["validation_accuracy"] == last.value == pytest.approx(0.55)
    assert (row["validation_accuracy_low95"], row["validation_accuracy_high95"]) == (last.low, last.high)
    assert last.seed_sd == pytest.approx(np.std([0.5, 0.6], ddof=1))
    assert (row["best_validation_accuracy"], row["best_epoch"]) == (0.75, 15)
    assert row["train_accuracy"] == 0.75
    assert row["guess_accuracy"] == 1.0  # all labels are the same
    assert (row["parameters"], row["seeds"]) == (12345, 2)
    shown = table.text.iloc[0]
    # Its curve rises to the end: a mark, explained below the table, and neither ± nor interval.
    assert (shown["Validation, last (%)"], shown["95 % interval"]) == ("55.0‡", "—")
    assert table.notes[-1].startswith("‡ Still improving at the last epoch")
    assert shown["Validation, best (%)"] == "75.0"
    assert shown["Paper"] == "IV > 80 %, III similar"


@pytest.mark.parametrize(
    ("wrong", "words"), [(np.inf, "holds an infinite number"), ("good", "holds what is no number")]
)
def test_damaged_numbers_are_named_with_their_file(tmp_path, wrong, words):
    run = run_of(tmp_path)
    numbers = tmp_path / "measures.parquet"
    measure("mnist_sums", [run.folder], [], numbers)
    for path, column in ((numbers, "value"), (run.folder / "metrics.parquet", "validation_accuracy")):
        table = pd.read_parquet(path).astype({column: object if isinstance(wrong, str) else float})
        table[column] = wrong
        table.to_parquet(path)
    with pytest.raises(EquisetError, match=f"measures.parquet: its column value {words}"):
        Measures.read(numbers)
    with pytest.raises(EquisetError, match=f"metrics.parquet: its column validation_accuracy {words}"):
        measure("mnist_sums", [run.folder], [], numbers)


def test_a_table_of_runs_that_have_ended_has_spreads_and_intervals(tmp_path):
    about = results_of("mnist_sums", write_run(tmp_path, "mnist_sums", "IV-N6", sums(0.55)))
    table, last = results.accuracy(about), about.measures["IV-N6", "validation_accuracy"]
    shown = table.text.iloc[0]
    assert shown["Validation, last (%)"] == f"55.0 ± {100 * last.spread:.1f}"
    assert shown["95 % interval"] == f"{100 * last.low:.1f} to {100 * last.high:.1f}"
    assert not any("‡" in note for note in table.notes)


@pytest.mark.parametrize("kind", ["own", "whole"])
def test_on_own_data_nothing_of_the_paper_stands_beside_it(tmp_path, kind):
    meshes = {"meshes": {"test": 1000}, "twins": {"test_meshes": 0, "across_split": 0, "across_classes": 0}}
    facts = meshes | {"classes": 3, "skipped": 0, "kind": kind}
    run = write_run(tmp_path, "point_clouds", "set-1000", clouds([0.8]), **facts)
    table = point_clouds.table1(results_of("point_clouds", run))
    quoted = table.text["Model"].str.endswith("(quoted)").sum()
    assert ("Reported" in table.text, quoted) == ((False, 0) if kind == "own" else (True, 11))
    digits = write_run(tmp_path, "mnist_sums", "IV-N6", sums(0.5), kind=kind)
    assert ("Paper" in results.accuracy(results_of("mnist_sums", digits)).text) == (kind == "whole")


def test_a_changed_file_changes_the_table(tmp_path):
    run = run_of(tmp_path)

    def shown(name):
        numbers, page = tmp_path / f"{name}.parquet", tmp_path / f"{name}.md"
        measure("mnist_sums", [run.folder], [], numbers)
        claims = ROOT / "workflow" / "claims.yaml"
        show("mnist_sums", "accuracy", [run.folder], None, [], numbers, claims, {}, [page])
        return page.read_text()

    before = shown("before")
    sums(0.432).to_parquet(run.folder / "predictions.parquet", index=False)
    assert "43.2" not in before
    assert "43.2" in shown("after")


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
    table = results.accuracy(
        results_of(
            "mnist_sums",
            write_run(
                tmp_path, "mnist_sums", "IV-N6", sums(0.5), scale="demo", kind=kind, data=data, **{"share": share}
            ),
        )
    )
    assert f"Measured on {words}" in table.notes[-1]
    assert "Scale: demo. Seeds: 0." in table.notes[-1]
    assert table.numbers[["data_kind", "data_share"]].iloc[0].tolist() == [kind, share]


def test_no_table_holds_a_time(tmp_path):
    """Times differ from run to run; run.json has them."""
    table = results.accuracy(results_of("mnist_sums", run_of(tmp_path)))
    columns = [*table.numbers.columns, *table.text.columns]
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
    assert overfull_boxes([tmp_path / "t.tex"], tmp_path) == []
    with pytest.raises(ValueError, match=r"not \.xls"):
        table.write(tmp_path / "t.xls")


def test_cells_without_a_name_or_a_heading_are_left_out(tmp_path):
    rows = [
        [("model", "Model", "a|b"), ("width", "", 8), ("", "Size|", "8 x 8"), ("", "Accuracy (%)|Acc.", 0.5, "50.0")],
        [("model", "", "c"), ("width", "", 9)],
        [("", "Model", "others (quoted)")],
    ]
    table = Table.of(rows, "A caption.", "A note.")
    assert table.numbers.to_dict("list") == {"model": ["a|b", "c"], "width": [8, 9]}
    assert table.markdown(padded=False).splitlines() == [
        "|Model|Size|Accuracy (%)|",
        "|---|---|---|",
        r"|a\|b|8 x 8|50.0|",
        "|others (quoted)|—|—|",
    ]
    table.write(tmp_path / "t.tex")
    assert r"Model & Acc. \\" in (tmp_path / "t.tex").read_text()


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
    def drawn(name, share):
        runs = [run_of(tmp_path / name, variant, share) for variant in ("I-N6", "I-N6-dropout80", "IV-N3")]
        if share == 0.9:
            pd.DataFrame({"epoch": [1], "train_accuracy": 0.9, "validation_accuracy": 0.1}).to_parquet(
                runs[0].folder / "metrics.parquet"
            )
        contents = []
        for suffix in ("png", "pdf"):
            path = tmp_path / name / f"f.{suffix}"
            getattr(results, figure)(results_of("mnist_sums", *runs)).write(path)
            contents.append(path.read_bytes())
        return contents

    first, again, other = drawn("a", 0.5), drawn("b", 0.5), drawn("c", 0.9)
    assert first == again
    assert first[0] != other[0]


def texts(figure):
    canvas = figure.canvas
    legend = [text.get_text() for key in canvas.legends for text in key.get_texts()]
    return " ".join([canvas.get_supxlabel(), *legend])


def test_figures_survive_missing_variants_and_speak_of_bands_only_where_there_are_some(tmp_path):
    one = results.figure1(results_of("mnist_sums", run_of(tmp_path)))
    one.write(tmp_path / "one.png")
    assert (tmp_path / "one.png").stat().st_size > 1000
    assert "Bands" not in texts(one)
    assert "training, running\n(with dropout) training, after the\nlast epoch" in texts(one)  # two, each by its name
    two = results.figure1(results_of("mnist_sums", run_of(tmp_path / "b"), run_of(tmp_path / "b", seed=1)))
    assert "Bands span the seeds." in texts(two)


def test_figure_1_beside_a_run_without_predictions(tmp_path):
    without = run_of(tmp_path, "III-N6")
    (without.folder / "predictions.parquet").unlink()
    figure = results.figure1(results_of("mnist_sums", without, run_of(tmp_path, "IV-N6", share=0.25)))
    assert figure.description.endswith("after the last one: IV-N6 25.0 %.")
    dotted = [line for line in figure.canvas.axes[0].lines if line.get_linestyle() == ":"]
    assert [line.get_ydata()[0] for line in dotted] == [100]  # all labels are the same


def test_growing_dropout_is_drawn_only_where_it_grows(tmp_path):
    with pytest.raises(NothingToShowError, match="two rates"):
        results.dropout(results_of("mnist_sums", run_of(tmp_path, "I-N6")))
    settings = PAPER.experiment("mnist_sums")
    assert "dropout" in settings.shown
    few = settings.model_copy(update={"run": ["I-N3", "I-N6", "IV-N6"]})
    assert few.shown == ("accuracy", "figure1", "memorised")


def test_what_is_memorised_is_drawn_of_the_runs_that_recorded_it(tmp_path):
    old, new = run_of(tmp_path, "III-N6"), run_of(tmp_path, "IV-N6")
    with pytest.raises(NothingToShowError, match="train one again"):
        results.memorised(results_of("mnist_sums", old))
    kinds = {"own_sets_accuracy": 0.9, "same_images_accuracy": 0.6}
    new.metrics.assign(**kinds).to_parquet(new.folder / "metrics.parquet")
    figure = results.memorised(results_of("mnist_sums", old, new))
    (axis,) = figure.canvas.axes
    assert axis.get_title() == "IV set layer"
    assert [line.get_ydata()[-1] for line in axis.lines[:2]] == pytest.approx([90, 60])
    assert "IV-N6" in figure.description
    assert "III-N6" not in figure.description


@pytest.mark.parametrize("lengths", [(1,), (1, 20), (20, 1)])
def test_curves_of_any_length_are_in_sight_and_epochs_are_whole(tmp_path, lengths):
    axis = Canvas().subplots()
    for length in lengths:
        run = write_run(tmp_path / str(length), "mnist_sums", "IV-N6", sums(0.5), curve=(0.5,) * length)
        draw_curve(axis, [run], "validation_accuracy", color="black")
    low, high = axis.get_xlim()
    assert low < 1
    assert max(lengths) < high
    ticks = [tick for tick in axis.get_xticks() if low <= tick <= high]
    assert ticks
    assert all(tick == round(tick) for tick in ticks)
