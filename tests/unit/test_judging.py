"""Verdicts: every rule of judging at its edges, on made-up numbers and on made-up result files."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equiset.errors import EquisetError
from equiset.results.claims import Above, AtChance, Claim, PaperValue, Within, read_claims
from equiset.results.judging import decide, judge, judge_all
from equiset.results.quantities import Estimate, Evidence, over_items, over_seeds
from equiset.results.runs import Run

from .made_up_runs import SIZES, clouds, faces, galaxies, sums, write_run

CLAIMS = {claim.id: claim for claim in read_claims(Path(__file__).parents[2] / "workflow" / "claims.yaml")}


def measured(value, low=None, high=None, **more):
    ends = (value if low is None else low, value if high is None else high)
    return Estimate(value, *ends, over="", sources=(), **more)


def number(value=0.87, spread=0.01, better="higher"):
    return PaperValue(kind="paper-value", value=value, spread=spread, better=better)


@pytest.mark.parametrize(
    ("ours", "spread", "better", "verdict"),
    [
        (0.87, 0.0, "higher", "reproduced"),
        (0.86, 0.0, "higher", "reproduced"),  # at the very end of the paper's own spread
        (0.8599, 0.0, "higher", "not reproduced"),
        (0.856, 0.01, "higher", "reproduced"),  # 1.4 points off, the combined spread is 1.41
        (0.8558, 0.01, "higher", "not reproduced"),
        (0.95, 0.0, "higher", "reproduced"),
        (0.95, 0.0, "neither", "not reproduced"),
        (0.95, 0.0, "lower", "not reproduced"),
        (0.5, 0.0, "lower", "reproduced"),
    ],
)
def test_a_number_is_met_within_the_combined_spread_or_surpassed(ours, spread, better, verdict):
    assert decide(number(better=better), measured(ours, spread=spread))[0] == verdict


def test_a_number_that_is_surpassed_is_said_to_be():
    assert decide(number(), measured(0.9)) == ("reproduced", "better than the paper")
    assert decide(number(), measured(0.88)) == ("reproduced", "")
    _, reason = decide(number(), measured(0.8, percent=True))
    assert reason == "off by −7.0 points, combined spread 1.0"


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.001, 0.02, "reproduced"),
        (0.0, 0.02, "not tested"),  # the bound itself is not above it
        (-0.01, 0.01, "not tested"),
        (-0.01, 0.0099, "not reproduced"),
        (-0.02, -0.01, "not reproduced"),
        (0.001, 0.002, "reproduced"),  # small, but there
    ],
)
def test_an_order_needs_an_interval_on_one_side(low, high, verdict):
    expected = Above(kind="above", bound=0, matters=0.01)
    assert decide(expected, measured((low + high) / 2, low, high))[0] == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.05, 0.05, "reproduced"),
        (0.049, 0.051, "not tested"),
        (-0.06, 0.06, "not tested"),
        (0.0501, 0.07, "not reproduced"),
        (-0.07, -0.0501, "not reproduced"),
    ],
)
def test_a_range_holds_the_interval_or_is_missed_by_it(low, high, verdict):
    expected = Within(kind="within", low=-0.05, high=0.05)
    assert decide(expected, measured((low + high) / 2, low, high))[0] == verdict


def test_a_range_may_have_no_lower_end():
    assert decide(Within(kind="within", high=0.2), measured(-9.0)) == ("reproduced", "")
    assert decide(Within(kind="within", high=0.2), measured(0.3)) == ("not reproduced", "expected at most 0.2")
    assert decide(Within(kind="within", high=0.2), measured(0.2, 0.1, 0.3))[0] == "not tested"


def test_few_test_items_decide_nothing():
    for expected in (Above(kind="above", bound=0, matters=1), Within(kind="within", low=0, high=1)):
        assert decide(expected, measured(0.5, items=99)) == ("not tested", "only 99 test items")
        assert decide(expected, measured(0.5, items=100))[0] == "reproduced"


@pytest.mark.parametrize(
    ("right", "answers", "verdict"),
    [
        (125, 2000, "reproduced"),
        (0, 2000, "not reproduced"),  # below chance is not at chance
        (180, 2000, "not reproduced"),
        (1, 16, "not tested"),
        (16, 16, "not reproduced"),
    ],
)
def test_chance_is_judged_by_an_exact_binomial_interval(right, answers, verdict):
    expected = AtChance(kind="at-chance", confidence=0.95, width=0.08)
    share = measured(right / answers, right=right, answers=answers, chance=1 / 16)
    assert decide(expected, share)[0] == verdict


def test_a_metric_that_is_no_share_cannot_be_at_chance():
    with pytest.raises(EquisetError, match="no share of right answers"):
        decide(AtChance(kind="at-chance", width=0.1), measured(0.5, right=None, chance=0.5))


def test_the_interval_over_seeds_is_students():
    mean, low, high = over_seeds([1.0, 2.0, 3.0])
    assert (mean, low, high) == pytest.approx((2, 2 - 4.303 / math.sqrt(3), 2 + 4.303 / math.sqrt(3)), abs=1e-3)


def test_values_of_one_item_count_as_one():
    """Ten copies of every value must not make the error smaller."""
    values = pd.Series(np.random.default_rng(0).normal(size=200))
    mean, error, items = over_items(values)
    assert (mean, error) == pytest.approx((values.mean(), values.std(ddof=1) / math.sqrt(200)))
    copies = pd.concat([values] * 10)
    assert over_items(copies) == pytest.approx((mean, error, items))


def evidence(*runs, scale="paper", **files):
    found: dict = {}
    for run in runs:
        found.setdefault(run.info["spec"]["experiment"], {}).setdefault(run.variant, []).append(run)
    return Evidence(scale, found, **files)


def verdict(claim, *runs, **more):
    judgement = judge(CLAIMS[claim], evidence(*runs, **more))
    return judgement.verdict_with_reason


def cloud_run(folder, variant, accuracies, particles=1000, start=0, **more):
    return write_run(folder, "point_clouds", variant, clouds(accuracies, start=start), particles=particles, **more)


def test_a_number_on_the_papers_data_at_its_scale(tmp_path):
    run = cloud_run(tmp_path, "set-1000", [0.87, 0.86, 0.88])
    judgement = judge(CLAIMS["P2"], evidence(run))
    assert judgement.verdict_with_reason == "reproduced (one seed)"
    assert judgement.ours == "87.0 ± 1.0 %"  # over the draws, as in the paper
    assert (judgement.data, judgement.scale, judgement.seeds) == ("ModelNet40", "paper", 1)
    assert (judgement.kind, judgement.share) == ("whole", 1.0)
    assert judgement.runs == [str(run.folder)]


def test_the_spread_of_seeds_and_of_draws_add_up_in_squares(tmp_path):
    runs = [cloud_run(tmp_path, "set-1000", [m - 0.01, m, m + 0.01], seed=s) for s, m in enumerate((0.8, 0.82, 0.84))]
    (ruling,) = judge(CLAIMS["P2"], evidence(*runs)).rulings
    assert ruling.measured.spread == pytest.approx(math.hypot(0.01, 0.02))
    assert verdict("P2", *runs) == "not reproduced (off by −5.0 points, combined spread 2.4)"


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"kind": "stand-in"}, "stand-in data"),
        ({"kind": "own"}, "own data"),
        ({"kind": "part", "share": 0.3068}, "30.7 % of the paper's data"),
        ({"scale": "demo"}, "scale demo"),
        ({"kind": "stand-in", "scale": "demo"}, "stand-in data"),
        ({"particles": 500}, "particles 500, not 1000"),
    ],
)
def test_a_number_is_not_tested_elsewhere_but_shown(tmp_path, more, reason):
    judgement = judge(CLAIMS["P2"], evidence(cloud_run(tmp_path, "set-1000", [0.87, 0.87, 0.87], **more)))
    assert judgement.verdict_with_reason == f"not tested ({reason})"
    assert judgement.ours == "87.0 ± 0.0 %"


def test_a_large_part_of_the_papers_data_serves_and_says_its_share(tmp_path):
    part = {"kind": "part", "share": 12170 / 12311}
    runs = [cloud_run(tmp_path, "set-1000", [0.87, 0.86, 0.88], **part)]
    assert verdict("P2", *runs) == "reproduced (98.9 % of the paper's data; one seed)"
    judgement = judge(CLAIMS["P2"], evidence(*runs))
    assert (judgement.kind, judgement.share) == ("part", 12170 / 12311)
    # Of several kinds the one farthest from the paper's decides.
    other = cloud_run(tmp_path, "set-100", [0.8], kind="own", particles=100)
    assert verdict("P2", *runs, other) == "not tested (own data)"


def test_what_was_not_run_is_said(tmp_path):
    run = cloud_run(tmp_path, "set-1000", [0.87, 0.87])
    assert verdict("P1", run) == "not tested (variant set-5000 not run)"
    assert verdict("F1", run) == "not tested (experiment not run)"
    assert verdict("P8", cloud_run(tmp_path, "set-5000", [0.9], 5000)) == "not tested (robustness not measured)"
    assert verdict("L1") == "not tested (commuting maps not measured)"
    judgement = judge(CLAIMS["F1"], evidence(run))
    assert (judgement.ours, judgement.data, judgement.kind, judgement.runs) == ("—", "—", "", [])


def test_every_number_needs_the_papers_data(tmp_path):
    """On stand-ins at demo scale no number of the three large data sets is judged."""
    stand_in = {"kind": "stand-in", "scale": "demo"}
    runs = [
        cloud_run(tmp_path, "set-1000", [0.87], **stand_in),
        write_run(tmp_path, "outlier_faces", "set-layer", faces(0.8, 0.75), members=16, **stand_in),
        write_run(tmp_path, "redshift", "set", galaxies(0.023), **stand_in),
    ]
    judgements = {judgement.claim.id: judgement for judgement in judge_all(list(CLAIMS.values()), evidence(*runs))}
    for claim in ("P1", "P2", "P3", "P4", "P5", "P6", "P8", "P9", "F1", "R1", "R2", "R3"):
        assert judgements[claim].verdict_with_reason == "not tested (stand-in data)", claim


def test_an_order_on_stand_in_data_says_so(tmp_path):
    stand_in = {"kind": "stand-in", "scale": "demo"}
    runs = [
        cloud_run(tmp_path, "set-1000", [0.8, 0.8], **stand_in),
        cloud_run(tmp_path, "set-1000-dropout", [0.7, 0.7], **stand_in),
    ]
    assert verdict("P7", *runs) == "reproduced (stand-in data; scale demo; one seed)"
    judgement = judge(CLAIMS["P7"], evidence(*runs))
    # The same meshes: 100 of 1000 are right in one and wrong in the other, whatever the accuracies.
    error = math.sqrt(0.1 * 0.9 / 999)
    assert judgement.rulings[0].measured.low == pytest.approx(0.1 - 1.9623 * error, abs=1e-4)
    assert judgement.ours == "accuracy without − with dropout: 10.0 points (8.1 to 11.9)"


def test_an_order_fails_only_if_the_difference_cannot_matter(tmp_path):
    same = [cloud_run(tmp_path / "a", name, [0.8]) for name in ("set-1000", "set-1000-dropout")]
    assert verdict("P7", *same) == "not reproduced (expected above 0.0; one seed)"
    # Equal accuracies, but on quite different meshes: nothing is known about their difference.
    other = [
        cloud_run(tmp_path / "b", "set-1000", [0.5]),
        cloud_run(tmp_path / "b", "set-1000-dropout", [0.5], start=500),
    ]
    assert verdict("P7", *other) == "not tested (undecided: the interval holds 0.0)"


def test_three_seeds_are_compared_seed_by_seed(tmp_path):
    runs = [
        cloud_run(tmp_path, variant, [accuracy - lost], seed=seed)
        for variant, lost in (("set-1000", 0), ("set-1000-dropout", 0.02))
        for seed, accuracy in enumerate((0.7, 0.8, 0.9))
    ]
    assert verdict("P7", *runs) == "reproduced"  # the seeds differ by far more than the variants
    assert judge(CLAIMS["P7"], evidence(*runs)).rulings[0].measured.over == "3 seeds"


def sums_run(folder, variant, predictions, **more):
    return write_run(folder, "mnist_sums", variant, predictions, **(SIZES | more))


def test_a_claim_with_several_conditions_needs_them_all(tmp_path):
    def runs(name, iv=0.85, iii=0.84):
        return sums_run(tmp_path / name, "IV-N6", sums(iv)), sums_run(tmp_path / name, "III-N6", sums(iii))

    assert verdict("M2", *runs("both")) == "reproduced (better than the paper; one seed)"
    assert verdict("M2", *runs("far", iii=0.7)) == "not reproduced (IV − III: expected −5.0 to 5.0; one seed)"
    assert verdict("M2", *runs("low", iv=0.5, iii=0.5)).startswith("not reproduced (IV: off by −30.0 points")
    assert verdict("M2", runs("one")[0]) == "not tested (IV − III: variant III-N6 not run)"


def test_a_curve_that_still_rises_is_said(tmp_path):
    flat, rising = [0.1] * 6 + [0.5, 0.5, 0.5, 0.519], [0.1] * 6 + [0.5, 0.5, 0.51, 0.52]
    for name, curve in (("IV-N6", rising), ("III-N6", flat)):
        sums_run(tmp_path, name, sums(0.5), curve=curve)
    runs = [Run(tmp_path / "mnist_sums" / name / "seed0") for name in ("IV-N6", "III-N6")]
    assert verdict("M2", *runs).endswith("; one seed; still rising after 10 epochs: IV-N6)")


def test_epochs_without_validation_are_no_part_of_the_curve(tmp_path):
    curve = [float("nan"), 0.5] * 5
    assert "rising" not in verdict("M2", sums_run(tmp_path, "IV-N6", sums(0.5), curve=curve))


def test_a_run_that_was_cut_short_decides_against_no_claim(tmp_path):
    curve = [float("nan")] * 7 + [0.3, 0.4, 0.5]  # of the ten epochs, three were validated
    short = sums_run(tmp_path, "IV-N6", sums(0.5), curve=curve)
    assert verdict("M2", short) == "not tested (IV: only 10 epochs of IV-N6)"
    good = sums_run(tmp_path / "good", "IV-N6", sums(0.9), curve=curve)
    assert judge(CLAIMS["M2"], evidence(good)).rulings[0].verdict == "reproduced"


def test_memorising_is_a_gap_between_training_and_validation(tmp_path):
    runs = [sums_run(tmp_path, name, sums(0.2, train=0.95)) for name in ("I-N6", "II-N6")]
    missing = "distance of predictions from the mean, dropout 20 % − 80 %: variant I-N6-dropout80 not run"
    assert verdict("M3", *runs) == f"not tested ({missing})"
    # All labels are 27: predictions of 26 and 27 are nearer to their mean than those of 20, on average.
    near = sums_run(tmp_path, "I-N6-dropout80", sums(0.2, predicted=20))
    assert verdict("M3", *runs, near).startswith("not reproduced (distance of predictions")
    wide = sums_run(tmp_path / "wide", "I-N6", sums(0.2, train=0.95, predicted=20))
    at_mean = sums_run(tmp_path / "wide", "I-N6-dropout80", sums(0.2))
    gap = judge(CLAIMS["M3"], evidence(wide, runs[1], at_mean)).rulings
    assert [ruling.verdict for ruling in gap] == ["not reproduced", "reproduced", "reproduced"]


def test_the_three_digits_end_in_the_papers_order(tmp_path):
    shares = {"IV-N3": 0.9, "III-N3": 0.89, "II-N3": 0.6, "I-N3": 0.8}
    runs = [sums_run(tmp_path, name, sums(share), members=3) for name, share in shares.items()]
    assert verdict("M1", *runs) == "reproduced (one seed)"
    poor = sums_run(tmp_path / "poor", "I-N3", sums(0.3))
    assert verdict("M1", *runs[:3], poor) == "not reproduced (I: expected above 50.0; one seed)"


def test_the_baseline_is_at_chance_in_training_and_test(tmp_path):
    def run(name, train, test, **more):
        return write_run(tmp_path / name, "outlier_faces", "set-pooling", faces(train, test), members=16, **more)

    assert verdict("F2", run("chance", 0.0625, 0.06)) == "reproduced (one seed)"
    stand_in = run("stand-in", 0.0625, 0.06, kind="stand-in", scale="demo")
    assert verdict("F2", stand_in) == "reproduced (stand-in data; scale demo; one seed)"
    assert verdict("F2", run("learns", 0.2, 0.0625)) == "not reproduced (training: chance is 6.2 %; one seed)"
    assert verdict("F2", run("smoke", 0.0625, 0.06, scale="smoke")) == "not tested (scale smoke)"


def test_the_outlier_is_found(tmp_path):
    run = write_run(tmp_path, "outlier_faces", "set-layer", faces(0.9, 0.74), members=16)
    judgement = judge(CLAIMS["F1"], evidence(run))
    assert judgement.verdict == "reproduced"  # 1 point off; 1.4 points of standard error
    assert judgement.ours == "74.0 ± 1.4 %"


def test_scatter_is_over_test_galaxies_and_lower_is_better(tmp_path):
    runs = [write_run(tmp_path, "redshift", name, galaxies(0.0234)) for name in ("set", "mlp")]
    assert verdict("R1", *runs) == "reproduced (one seed)"
    assert verdict("R3", *runs) == "reproduced (better than the paper; one seed)"
    assert judge(CLAIMS["R1"], evidence(*runs)).ours.startswith("0.0234 ± ")
    better = write_run(tmp_path / "catalogue", "redshift", "set", galaxies(0.0234, catalogue=0.02))
    assert verdict("R2", better) == "not reproduced (off by −0.005, combined spread 0.0005; one seed)"


def robustness(folder, lost, seeds=(0,)):
    table = [("set-5000", s, kind, value, 0.9 - lost * (value != middle)) for s in seeds
             for kind, middle, values in (("rotation_degrees", 0, (0, 15, 90)), ("scale", 1, (0.8, 1, 2)))
             for value in values]  # fmt: skip
    path = folder / "robustness.parquet"
    pd.DataFrame(table, columns=["variant", "seed", "changed", "value", "accuracy"]).to_parquet(path)
    return {"robustness": path}


def test_small_changes_cost_little(tmp_path):
    run = cloud_run(tmp_path, "set-5000", [0.9], particles=5000)
    assert verdict("P8", run, analyses=robustness(tmp_path, 0.01)) == "reproduced (one seed)"
    failed = verdict("P8", run, analyses=robustness(tmp_path, 0.05, seeds=(0, 1, 2)))
    assert failed == "not reproduced (most accuracy lost to rotations up to 15°: expected at most 2.0)"
    assert verdict("P9", cloud_run(tmp_path, "set-1000", [0.9]), analyses=robustness(tmp_path, 0)) == (
        "not tested (analysis robustness of set-1000 not run)"
    )


def test_complex_clouds_occupy_more_cells(tmp_path):
    run = cloud_run(tmp_path, "set-1000", [0.9])
    rng = np.random.default_rng(0)

    def clouds_of(first, second, units=8):
        rows = [("max", layer, unit, True, (rng.random((200, 3)) * size).ravel()) for unit in range(units)
                for layer, size in ((1, first), (2, second))]  # fmt: skip
        path = tmp_path / "activations.parquet"
        pd.DataFrame(rows, columns=["objective", "layer", "unit", "activated", "cloud"]).to_parquet(path)
        return {"activations": path}

    assert verdict("P11", run, analyses=clouds_of(1, 3)) == "reproduced (one seed)"
    assert verdict("P11", run, analyses=clouds_of(3, 1)) == "not reproduced (expected above 0; one seed)"
    assert (
        verdict("P11", run, analyses=clouds_of(1, 3, units=4)) == "not tested (only 4 units of a layer were activated)"
    )


def measurement(folder, name, **columns):
    path = folder / f"{name}.parquet"
    pd.DataFrame(columns).to_parquet(path)
    return {"measured": {name: path}}


def test_laws_are_judged_by_their_measurements(tmp_path):
    exact = {"excess_dimensions": [0, 0], "outside": [1e-16, 0], "layer_error": [0, 1e-15]}
    assert verdict("L1", scale="smoke", **measurement(tmp_path, "commuting_maps", **exact)) == "reproduced"
    wrong = measurement(tmp_path, "commuting_maps", **{**exact, "excess_dimensions": [0, 1]})
    assert verdict("L1", **wrong) == "not reproduced (dimensions of that space beyond two: expected 0 to 0)"
    linear = measurement(tmp_path, "time_by_set_size", exponent=[0.99, 1.01, 1.0])
    assert verdict("L2", scale="demo", **linear) == "reproduced"
    assert verdict("L2", scale="smoke", **linear) == "not tested (scale smoke)"
    square = measurement(tmp_path, "time_by_set_size", exponent=[1.9, 2.0, 2.1])
    assert verdict("L2", **square) == "not reproduced (expected 0.9 to 1.1)"
    assert verdict("L3", **measurement(tmp_path, "deep_stack", relative_loss=[1.0] * 5)).startswith("not reproduced")
    few = measurement(tmp_path, "shared_dropout", relative_gain=[0.1, 0.1])
    assert verdict("L4", **few) == "not tested (only 2 repetitions)"
    gain = measurement(tmp_path, "shared_dropout", relative_gain=[0.1, 0.12, 0.11])
    judgement = judge(CLAIMS["L4"], evidence(**gain))
    assert (judgement.verdict, judgement.data, judgement.kind) == ("reproduced", "generated sets", "")
    slower = measurement(tmp_path, "time_of_graph_layer", ratio=[2.0, 2.5, 2.2])
    assert verdict("P10", **slower) == "reproduced"


def test_wrong_names_in_the_claims_file_are_faults(tmp_path):
    raw = CLAIMS["P2"].model_dump(by_alias=True)
    raw["judged_by"][0]["measure"]["metric"] = "acuracy"
    run = cloud_run(tmp_path, "set-1000", [0.9])
    with pytest.raises(EquisetError, match=r"names the metric 'acuracy' of 'point_clouds'; known: \['test_accuracy'\]"):
        judge(Claim.model_validate(raw), evidence(run))
    raw = CLAIMS["L2"].model_dump(by_alias=True)
    raw["judged_by"][0]["measure"]["column"] = "slope"
    with pytest.raises(EquisetError, match="names the column 'slope'"):
        judge(Claim.model_validate(raw), evidence(**measurement(tmp_path, "time_by_set_size", exponent=[1.0])))


def test_predictions_of_another_version_are_a_fault(tmp_path):
    run = write_run(tmp_path, "redshift", "set", galaxies(0.02).drop(columns="split"))
    with pytest.raises(EquisetError, match=r"seed0/predictions\.parquet lacks 'split'"):
        judge(CLAIMS["R1"], evidence(run))
