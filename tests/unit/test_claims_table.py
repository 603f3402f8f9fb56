"""The claims as a reader gets them: every number from a file, in every format."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from equiset.results.claims import is_numeric
from equiset.results.claims_figure import claims_figure
from equiset.results.claims_table import PUBLISHED, headline, judge_claims, what_was_trained
from equiset.results.judging import judge_all
from equiset.results.measures import Measures

from .made_up_runs import CLAIMS, ROOT, clouds, faces, measured, sums, write_run
from .test_judging import law

FILE = ROOT / "workflow" / "claims.yaml"
COLUMNS = [
    "claim",
    "place",
    "statement",
    "paper",
    "ours",
    "verdict",
    "reason",
    "changed",
    "rests_on",
    "data",
    "data_kind",
    "data_share",
    "scale",
    "seeds",
    "epochs",
    "runs",
]


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path, "point_clouds", "set-1000", clouds([0.86, 0.87, 0.88]))


def judged(run, folder, more=()):
    numbers = Measures([*measured(run).numbers, *more])
    numbers.write(folder / "measures.parquet")
    judge_claims(FILE, [folder / "measures.parquet"], folder)
    return pd.read_csv(folder / "claims.csv", keep_default_na=False).set_index("claim", drop=False)


def test_one_row_for_each_claim_with_all_that_a_reader_asks(run, tmp_path):
    table = judged(run, tmp_path / "claims")
    assert list(table.columns) == COLUMNS
    assert len(table) == 23
    row = table.loc["P2"]
    assert (row["paper"], row["ours"], row["verdict"], row["reason"]) == (
        "87 ± 1 %",
        "87.0 ± 1.4 %",
        "holds",
        "one seed",
    )
    assert (row["data"], row["scale"], row["seeds"]) == ("ModelNet40", "paper", 1)
    assert (row["data_kind"], float(row["data_share"])) == ("whole", 1.0)
    assert row["runs"] == str(run.folder)
    assert (table.loc["F1", "verdict"], table.loc["F1", "reason"]) == ("not run", "the experiment")


def test_runs_of_different_length_are_said(run, tmp_path):
    longer = write_run(tmp_path, "point_clouds", "pooling-1000", clouds([0.83]), curve=[0.8] * 30)
    length = len(run.metrics)
    table = judged(run, tmp_path / "claims", measured(run, longer).numbers)
    assert list(table.loc[["P2", "P3", "F1"], "epochs"]) == [str(length), f"{length} to 30", ""]


def test_a_changed_file_changes_the_verdict_in_every_format(run, tmp_path):
    judged(run, tmp_path / "before")
    clouds([0.6, 0.61, 0.62]).to_parquet(run.folder / "predictions.parquet", index=False)
    assert judged(run, tmp_path / "after").loc["P2", "verdict"] == "differs"
    assert r"\begin{longtable}" in (tmp_path / "after" / "claims.tex").read_text()
    for name in ("claims.csv", "claims.md", "claims.tex"):
        before, after = ((tmp_path / folder / name).read_text() for folder in ("before", "after"))
        assert "61.0" in after
        assert "61.0" not in before


def test_conditions_are_plain_numbers(run, tmp_path):
    judged(run, tmp_path)
    row = pd.read_csv(tmp_path / "conditions.csv").set_index("claim").loc["P2"]
    assert (row["value"], row["value_spread"]) == pytest.approx((0.87, 0.01445), abs=1e-4)
    assert '"value":0.87' in row["expected"]
    assert row["value_low95"] < row["value"] < row["value_high95"]


def test_what_was_measured_on_the_layers_is_judged_beside_the_runs(run, tmp_path):
    laws = law(tmp_path, "time_of_graph_layer", ratio=[2.0, 2.1, 2.2])
    row = judged(run, tmp_path / "claims", laws.numbers).loc["P10"]
    assert (row["ours"], row["verdict"]) == (
        "time of the graph layer over that of the set layer: 2.10 (1.85 to 2.35)",
        "holds",
    )
    assert row["runs"] == str(tmp_path / "time_of_graph_layer.parquet")


def test_the_figure_has_ours_beside_every_number_of_the_paper(run, tmp_path):
    judged(run, tmp_path)
    with Image.open(tmp_path / "claims.png") as picture:
        seen = picture.info["Description"]
    assert seen == "The paper's numbers beside ours. P2 1000 points, set layers: paper 87 ± 1 %, ours 87.0 ± 1.4 % ✓."
    pooling = write_run(tmp_path, "outlier_faces", "set-pooling", faces(0.06, 0.07), kind="stand-in")
    canvas = claims_figure(judge_all(list(CLAIMS.values()), measured(run, pooling))).canvas
    rows = [label.get_text() for axis in canvas.axes for label in axis.get_yticklabels()]
    numeric = [claim.id for claim in CLAIMS.values() if is_numeric(claim.paper)]
    assert list(dict.fromkeys(row.split()[0] for row in rows)) == numeric
    assert {"F2 Outlier, set pooling, training", "F2 Outlier, set pooling, test"} < set(rows)
    dots = [line for line in canvas.axes[0].lines if line.get_marker() in ("o", "^")]
    (whole,) = [dot for dot in dots if dot.get_marker() == "o"]
    assert whole.get_xdata() == pytest.approx([0], abs=1e-9)  # 87 % is the paper's
    faces_of_stand_ins = [dot.get_markerfacecolor() for dot in dots if dot.get_marker() == "^"]
    assert faces_of_stand_ins == ["white"] * 2  # without its control it is no test


def test_a_number_far_off_that_decides_nothing_leaves_the_others_room(run, tmp_path):
    cut_short = write_run(tmp_path, "outlier_faces", "set-layer", faces(0.1, 0.1), curve=(0.1,))
    axis = claims_figure(judge_all(list(CLAIMS.values()), measured(run, cut_short))).canvas.axes[0]
    assert axis.get_xlim()[1] < 10  # points; 10 % instead of 75 %
    (mark,) = [line for line in axis.lines if line.get_marker() == "<"]
    assert axis.get_xlim()[0] < mark.get_xdata()[0] < -1
    assert mark.get_markerfacecolor() == "white"
    far = write_run(tmp_path / "far", "point_clouds", "set-1000", clouds([0.3] * 3))
    axis = claims_figure(judge_all(list(CLAIMS.values()), measured(far))).canvas.axes[0]
    assert axis.get_xlim()[0] < -57  # what fails is shown where it is, and by a logarithm leaves the others room
    near, far_off = axis.transData.transform([(5, 0), (50, 0)])[:, 0] - axis.transData.transform((0, 0))[0]
    assert far_off < 5 * near
    assert "logarithmic" in axis.get_xlabel()


def test_of_a_claim_that_fails_what_holds_has_its_own_sign(tmp_path):
    runs = [write_run(tmp_path, "mnist_sums", name, sums(0.4, count=10000)) for name in ("III-N6", "IV-N6")]
    seen = claims_figure(judge_all(list(CLAIMS.values()), measured(*runs))).description
    assert "M2 Sum of six digits, IV: paper > 80 %, ours 40.0 ± 0.5 % ≠" in seen
    assert "M2 Sum of six digits, IV − III: paper −5 to 5, ours 0.0 ✓" in seen


def test_what_still_improves_has_a_mark_and_no_bar(tmp_path):
    runs = [write_run(tmp_path, "outlier_faces", "set-layer", faces(0.2, 0.2), curve=(0.2,))]
    runs.append(write_run(tmp_path, "outlier_faces", "set-pooling", faces(0.06, 0.06), curve=(0.06,)))
    figure = claims_figure(judge_all(list(CLAIMS.values()), measured(*runs)))
    assert "F1 Outlier among 16 faces: paper 75 %, ours 20.0‡ %;" in figure.description
    assert "F2 Outlier, set pooling, test: paper chance, 6.2 %, ours 6.0‡ %." in figure.description
    bars = [line.get_xdata() for line in figure.canvas.axes[0].lines if line.get_marker() == "None"]
    bars = [ends for ends in bars if len(ends) == 2 and tuple(ends) != (0, 0)]  # without the line at the paper's value
    assert len(bars) == 3
    assert np.isnan(bars).all()
    (legend,) = figure.canvas.legends
    assert "‡ still improving at the last epoch: no bar" in [text.get_text() for text in legend.get_texts()]


def test_every_number_has_a_short_name():
    for claim in CLAIMS.values():
        if is_numeric(claim.paper):
            name, colon, _ = claim.statement.partition(":")
            assert colon
            assert len(name) < 26, name


def test_the_headline_says_how_many_hold_differ_and_are_open_and_why():
    rows = [
        ("P4", "holds", "", "the paper's data"),
        ("P5", "differs", "better than the paper by 11.4 points; one seed", "the paper's data"),
        ("P7", "holds", "", "stand-ins"),
        ("P1", "not run", "variant set-5000", ""),
        ("L1", "holds", "", "generated sets"),
        ("R1", "no data here", "", ""),
        ("R2", "no data here", "", ""),
    ]
    assert headline(pd.DataFrame(rows, columns=["claim", "verdict", "reason", "rests_on"])) == (
        "7 claims of the paper: 3 hold (1 on generated sets; 1 on stand-ins), "
        "1 differs (P5 better than the paper by 11.4 points), 3 open (2 no data here, 1 not run)."
    )


@pytest.mark.parametrize(
    ("kind", "scale", "said"),
    [
        ("stand-in", "demo", "Stand-ins test no number of the paper. "),
        ("own", "paper", "Own data test no number of the paper. "),
        ("whole", "demo", "Only the scale `paper` tests the paper's numbers. "),
    ],
)
def test_the_end_of_a_run_says_what_was_trained_and_where_the_papers_numbers_are_tested(tmp_path, kind, scale, said):
    runs = [
        write_run(tmp_path, "point_clouds", name, clouds([0.8]), kind=kind, scale=scale)
        for name in ("set-1000", "set-100")
    ]
    assert what_was_trained(runs) == ["Trained 2 networks: 2 on ModelNet40.", said + PUBLISHED]
    (alone,) = what_was_trained([write_run(tmp_path / "paper", "point_clouds", "set-100", None)])
    assert alone == "Trained 1 network: 1 on ModelNet40."
