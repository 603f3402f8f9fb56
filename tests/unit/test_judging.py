"""Verdicts on claims, by made-up result files."""

import math

import numpy as np
import pandas as pd
import pytest

from equiset.errors import EquisetError
from equiset.experiments.laws.measures import number_layers
from equiset.files import write_json
from equiset.results.intervals import Sample, standard_error
from equiset.results.judging import judge, judge_all

from ..report_folder import WEIGHTS
from .made_up_runs import CLAIMS, clouds, faces, galaxies, measured, sums, write_run


def verdict(claim, *runs, **more):
    return judge(CLAIMS[claim], measured(*runs, **more)).verdict_with_reason


def cloud_run(folder, variant, accuracies, start=0, **more):
    return write_run(folder, "point_clouds", variant, clouds(accuracies, start=start), **more)


def clouds_sample(runs):
    """All answers of some runs, by mesh."""
    table = pd.concat([run.predictions for run in runs])
    return Sample((table["label"] == table["predicted"]).to_numpy(float), table["mesh"].to_numpy())


def test_a_number_on_the_papers_data_at_its_scale(tmp_path):
    run = cloud_run(tmp_path, "set-1000", [0.87, 0.86, 0.88])
    judgement = judge(CLAIMS["P2"], measured(run))
    assert judgement.verdict_with_reason == "holds (one seed)"
    # Over the draws, as in the paper, and over 1000 meshes, of which 860 to 880 are right in a draw.
    assert judgement.ours == "87.0 ± 1.4 %"
    assert (judgement.data, judgement.scale, judgement.seeds) == ("ModelNet40", "paper", 1)
    assert judgement.rests_on == "the paper's data"
    assert judgement.runs == [str(run.folder)]


def test_the_spread_of_seeds_and_of_draws_add_up_in_squares(tmp_path):
    runs = [cloud_run(tmp_path, "set-1000", [m - 0.01, m, m + 0.01], seed=s) for s, m in enumerate((0.8, 0.82, 0.84))]
    (ruling,) = judge(CLAIMS["P2"], measured(*runs)).rulings
    (of_meshes, _) = standard_error(clouds_sample(runs))
    assert ruling.number.spread == pytest.approx(math.hypot(0.01, 0.02, of_meshes))
    assert verdict("P2", *runs) == "undecided (below the paper by 5.0 points, 1.8 standard deviations)"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"kind": "stand-in"}, "no data here (stand-in data)"),
        ({"kind": "own"}, "no data here (own data)"),
        ({"scale": "demo"}, "too short (scale demo)"),
        ({"kind": "stand-in", "scale": "demo"}, "no data here (stand-in data)"),
        ({"particles": 500}, "too short (particles 500, the paper has 1000)"),
    ],
)
def test_a_number_decides_nothing_elsewhere_but_is_shown(tmp_path, more, said):
    judgement = judge(CLAIMS["P2"], measured(cloud_run(tmp_path, "set-1000", [0.87, 0.87, 0.87], **more)))
    assert judgement.verdict_with_reason == said
    assert judgement.ours == "87.0 ± 1.1 %"
    assert judgement.rests_on == ""


def test_what_was_not_run_is_said(tmp_path):
    run = cloud_run(tmp_path, "set-1000", [0.87, 0.87])
    assert verdict("P1", run) == "not run (variant set-5000)"
    assert verdict("F1", run) == "not run (the experiment)"
    assert verdict("P8", cloud_run(tmp_path, "set-5000", [0.9])) == "not run (accuracy lost not measured)"
    assert verdict("L2") == "not run (not measured)"
    judgement = judge(CLAIMS["F1"], measured(run))
    assert (judgement.ours, judgement.data, judgement.runs) == ("—", "—", [])
    bare = write_run(tmp_path / "bare", "point_clouds", "set-1000", None)
    assert verdict("P2", bare) == "not run (no predictions)"


def test_every_number_needs_the_papers_data(tmp_path):
    """On stand-ins at demo scale no number of the three large data sets is judged."""
    stand_in = {"kind": "stand-in", "scale": "demo"}
    runs = [
        cloud_run(tmp_path, "set-1000", [0.87], **stand_in),
        write_run(tmp_path, "outlier_faces", "set-layer", faces(0.8, 0.75), **stand_in),
        *(write_run(tmp_path, "redshift", name, galaxies(0.023), **stand_in) for name in ("set", "mlp")),
    ]
    judgements = {judgement.claim.id: judgement for judgement in judge_all(list(CLAIMS.values()), measured(*runs))}
    for claim in ("P2", "F1"):
        assert judgements[claim].verdict_with_reason == "no data here (stand-in data)", claim
    for claim in ("R1", "R2", "R3"):
        said = "no data here (the catalogue's members cannot be obtained)"
        assert judgements[claim].verdict_with_reason == said, claim
    assert {judgement.verdict for judgement in judgements.values()} == {"no data here", "not run"}


def test_an_order_on_stand_in_data_says_so(tmp_path):
    stand_in = {"kind": "stand-in", "scale": "demo", "curve": (0.9,) * 20}
    runs = [
        cloud_run(tmp_path, "set-1000", [0.8, 0.8], **stand_in),
        cloud_run(tmp_path, "set-1000-dropout", [0.7, 0.7], **stand_in),
    ]
    assert verdict("P7", *runs) == "holds (stand-in data; scale demo; one seed)"
    judgement = judge(CLAIMS["P7"], measured(*runs))
    assert judgement.rests_on == "stand-ins"
    # The same meshes: 100 of 1000 are right in one and wrong in the other, whatever the accuracies.
    error = math.sqrt(0.1 * 0.9 / 999)
    assert judgement.rulings[0].number.low == pytest.approx(0.1 - 1.9623 * error, abs=1e-4)
    assert judgement.rulings[0].text == "accuracy without − with dropout: 10.0 points (8.1 to 11.9)"


def test_an_order_fails_only_if_the_difference_cannot_matter(tmp_path):
    same = [cloud_run(tmp_path / "a", name, [0.8]) for name in ("set-1000", "set-1000-dropout")]
    assert "accuracy without − with dropout: expected above 0.0" in verdict("P7", *same)
    # Equal accuracies, but on quite different meshes: nothing is known about their difference.
    other = [
        cloud_run(tmp_path / "b", "set-1000", [0.5]),
        cloud_run(tmp_path / "b", "set-1000-dropout", [0.5], start=500),
    ]
    assert "the interval holds 0.0" in verdict("P7", *other)


def test_three_seeds_are_compared_seed_by_seed(tmp_path):
    runs = [
        cloud_run(tmp_path, variant, [accuracy - lost], seed=seed)
        for variant, lost in (("set-1000", 0), ("set-1000-dropout", 0.02))
        for seed, accuracy in enumerate((0.7, 0.8, 0.9))
    ]
    assert verdict("P7", *runs) == "holds"  # the seeds differ by far more than the variants
    assert judge(CLAIMS["P7"], measured(*runs)).rulings[0].number.method == "3 seeds"


def sums_run(folder, variant, predictions, **more):
    return write_run(folder, "mnist_sums", variant, predictions, **more)


def test_a_claim_with_several_conditions_needs_them_all(tmp_path):
    def runs(name, iv=0.85, iii=0.84):
        return sums_run(tmp_path / name, "IV-N6", sums(iv)), sums_run(tmp_path / name, "III-N6", sums(iii))

    assert verdict("M2", *runs("both")) == "holds (one seed)"
    far = verdict("M2", *runs("far", iii=0.7))
    assert far == "differs (IV − III: expected −5.0 to 5.0; as in the paper: IV; one seed)"
    assert verdict("M2", *runs("low", iv=0.5, iii=0.5)).startswith("differs (IV: expected above 80.0")
    assert verdict("M2", runs("one")[0]) == "not run (IV − III: variant III-N6)"


def test_epochs_without_validation_are_no_part_of_the_curve(tmp_path):
    curve = [float("nan"), 0.5] * 10
    (ruling, *_) = judge(CLAIMS["M2"], measured(sums_run(tmp_path, "IV-N6", sums(0.5), curve=curve))).rulings
    assert (ruling.verdict, ruling.number.unfinished) == ("differs", "")


def test_memorising_is_a_gap_between_training_and_validation(tmp_path):
    def runs(name, predicted=None, seeds=(0, 1, 2), **shares):
        return [
            sums_run(tmp_path / name, variant, sums(0.2, predicted=far, **shares), seed=seed)
            for variant, far in (("I-N6", predicted), ("II-N6", None), ("I-N6-dropout80", None))
            for seed in seeds
        ]

    # All labels are 27: at the mean, 26 and 27 are nearer to it than 20.
    assert verdict("M3", *runs("wide", predicted=20)).startswith("differs (I, training − validation")
    gaps = judge(CLAIMS["M3"], measured(*runs("gap", train=0.95))).rulings
    assert [ruling.verdict for ruling in gaps] == ["holds", "holds", "differs"]
    # With a single seed nothing shows how much that distance moves.
    one = judge(CLAIMS["M3"], measured(*runs("one", train=0.95, seeds=(0,)))).rulings
    assert [ruling.verdict for ruling in one] == ["holds", "holds", "undecided"]
    # Unless the validations show it: here not at all, then by three to and fro.
    for moving, expected in ((0.0, "differs"), (3.0, "undecided")):
        single = runs(f"moving by {moving}", train=0.95, seeds=(0,))
        for run in single:
            metrics = pd.read_parquet(run.folder / "metrics.parquet")
            metrics["validation_distance_from_mean"] = 0.05 + moving * (metrics["epoch"] % 2)
            metrics.to_parquet(run.folder / "metrics.parquet")
        assert judge(CLAIMS["M3"], measured(*single)).rulings[2].verdict == expected


def test_the_three_digits_end_in_the_papers_order(tmp_path):
    shares = {"IV-N3": 0.9, "III-N3": 0.89, "II-N3": 0.6, "I-N3": 0.8}
    runs = [sums_run(tmp_path, name, sums(share)) for name, share in shares.items()]
    assert verdict("M1", *runs) == "holds (one seed)"
    poor = sums_run(tmp_path / "poor", "I-N3", sums(0.3))
    assert verdict("M1", *runs[:3], poor).startswith("differs (I: expected above 50.0")


def test_the_outlier_is_found(tmp_path):
    run = write_run(tmp_path, "outlier_faces", "set-layer", faces(0.9, 0.74))
    judgement = judge(CLAIMS["F1"], measured(run))
    assert judgement.verdict == "holds"  # 1 point off; 1.4 points of standard error
    assert judgement.ours == "74.0 ± 1.4 %"


def test_scatter_is_over_test_galaxies_and_lower_is_better(tmp_path):
    run = write_run(tmp_path, "redshift", "set", galaxies(0.02))
    assert verdict("R1", run) == "holds (better than the paper; one seed)"
    assert judge(CLAIMS["R1"], measured(run)).ours == "footnote's features: 0.0200; table's columns: —"
    other = write_run(tmp_path / "catalogue", "redshift", "set", galaxies(0.0234, catalogue=0.02))
    assert verdict("R2", other) == "differs (below the paper by 0.0050, 10.0 standard deviations; one seed)"


def robustness(folder, lost, seeds=(0,), count=1000):
    rows = [
        ("set-5000", seed, kind, float(value), np.arange(count) >= round((0.1 + lost * (value != middle)) * count))
        for seed in seeds
        for kind, middle, values in (("rotation_degrees", 0, (0, 15, 90)), ("scale", 1, (0.8, 1, 2)))
        for value in values
    ]
    path = folder / "robustness.parquet"
    table = pd.DataFrame(rows, columns=["variant", "seed", "changed", "value", "right"])
    table.assign(weights_sha256=WEIGHTS).to_parquet(path)
    return {"robustness": path}


def test_small_changes_cost_little(tmp_path):
    run = cloud_run(tmp_path, "set-5000", [0.9])
    assert verdict("P8", run, analyses=robustness(tmp_path, 0.005)) == "holds (one seed)"
    lost = verdict("P8", run, analyses=robustness(tmp_path, 0.1))
    assert lost.startswith("differs (most accuracy lost to rotations up to 15°: expected at most 2.0")
    near = verdict("P8", run, analyses=robustness(tmp_path, 0.02))
    assert "the interval holds 2.0" in near  # one seed has an interval over meshes now
    assert verdict("P9", cloud_run(tmp_path, "set-1000", [0.9]), run, analyses=robustness(tmp_path, 0)) == (
        "not run (accuracy lost of set-1000 not measured)"
    )


def test_a_number_names_only_the_runs_that_it_was_measured_on(tmp_path):
    runs = [cloud_run(tmp_path, "set-5000", [0.9], seed=seed) for seed in (0, 1)]
    numbers = measured(*runs, analyses=robustness(tmp_path, 0.005))
    lost = numbers.select(measure="accuracy_lost", part="scale")[0]
    assert (lost.seeds, lost.runs) == (1, str(runs[0].folder))
    whole = numbers["set-5000", "test_accuracy"]
    assert (whole.seeds, whole.runs) == (2, ";".join(str(run.folder) for run in runs))


def test_what_was_measured_on_a_shorter_run_does_not_count_for_a_longer_one(tmp_path):
    run, analyses = cloud_run(tmp_path, "set-5000", [0.9]), robustness(tmp_path, 0.005)
    write_json(run.folder / "run.json", run.info | {"weights_sha256": "0" * 64})
    with pytest.raises(EquisetError, match=r"other weights of set-5000, seed 0.*ANALYSIS=point_clouds/robustness"):
        verdict("P8", run, analyses=analyses)


def test_complex_clouds_occupy_more_cells(tmp_path):
    run = cloud_run(tmp_path, "set-1000", [0.9])
    rng = np.random.default_rng(0)

    def clouds_of(first, second, units=8):
        sizes = {("max", 1): first, ("max", 2): second, ("mean", 1): 3, ("mean", 2): 1}
        rows = [("set-1000", 0, objective, layer, unit, True, (rng.random((200, 3)) * size).ravel())
                for (objective, layer), size in sizes.items() for unit in range(units)]  # fmt: skip
        path = tmp_path / "activations.parquet"
        names = ["variant", "seed", "objective", "layer", "unit", "activated", "cloud"]
        pd.DataFrame(rows, columns=names).assign(weights_sha256=WEIGHTS).to_parquet(path)
        return {"activations": path}

    assert verdict("P11", run, analyses=clouds_of(1, 3)) == "holds (one seed)"
    assert verdict("P11", run, analyses=clouds_of(3, 1)) == "differs (expected above 0; one seed)"
    assert verdict("P11", run, analyses=clouds_of(1, 3, units=4)) == "undecided (only 4 test items)"


def law(folder, name, scale="paper", **columns):
    path = folder / f"{name}.parquet"
    pd.DataFrame(columns).to_parquet(path)
    return number_layers([path], scale)


def test_laws_are_judged_by_their_measurements(tmp_path):
    def said(claim, *arguments, **more):
        return judge(CLAIMS[claim], law(tmp_path, *arguments, **more)).verdict_with_reason

    exact = {"excess_dimensions": [0, 0], "outside": [1e-16, 0], "layer_error": [0, 1e-15]}
    assert said("L1", "commuting_maps", scale="smoke", **exact) == "holds"
    wrong = said("L1", "commuting_maps", **{**exact, "excess_dimensions": [0, 1]})
    assert wrong.startswith("differs (dimensions of that space beyond two: expected 0 to 0")
    assert said("L2", "time_by_set_size", scale="demo", exponent=[0.99, 1.01, 1.0]) == "holds"
    assert said("L2", "time_by_set_size", scale="smoke", exponent=[0.99, 1.01, 1.0]) == "too short (scale smoke)"
    square = said("L2", "time_by_set_size", exponent=[1.9, 2.0, 2.1])
    assert square == "differs (expected 0.900 to 1.10)"
    few = said("L4", "shared_dropout", relative_gain=[0.1, 0.1])
    assert few == "undecided (only 2 repetitions)"
    judgement = judge(CLAIMS["L4"], law(tmp_path, "shared_dropout", relative_gain=[0.1, 0.12, 0.11]))
    assert (judgement.verdict, judgement.data) == ("holds", "generated sets")
    assert judgement.rests_on == "generated sets"
    assert said("P10", "time_of_graph_layer", ratio=[2.0, 2.5, 2.2]) == "holds"
    with pytest.raises(EquisetError, match="column ratio is not there"):
        law(tmp_path, "time_of_graph_layer", slope=[1.0])


def test_predictions_of_another_version_are_a_fault(tmp_path):
    run = write_run(tmp_path, "redshift", "set", galaxies(0.02).drop(columns="split"))
    with pytest.raises(EquisetError, match=r"seed0: its files lack 'split', which scatter needs"):
        measured(run)
