"""The claims file: it lists every claim, names only what exists, and a fault in it is named."""

from pathlib import Path

import pytest
import yaml

from equiset.config import resolve
from equiset.errors import EquisetError
from equiset.laws.settings import Laws
from equiset.results.claims import (
    AtChance,
    Complexity,
    Difference,
    LossByChange,
    Measurement,
    Metric,
    PaperValue,
    read_claims,
)
from equiset.results.quantities import METRICS

ROOT = Path(__file__).parents[2]
FILE = ROOT / "workflow" / "claims.yaml"
CLAIMS = read_claims(FILE)
PAPER = resolve(yaml.safe_load((ROOT / "config.yaml").read_text()), "paper")
CONDITIONS = [(claim, condition) for claim in CLAIMS for condition in claim.judged_by]


def test_every_claim_is_listed():
    expected = [f"L{n}" for n in range(1, 5)] + [f"M{n}" for n in range(1, 4)] + [f"P{n}" for n in range(1, 12)]
    assert [claim.id for claim in CLAIMS] == [*expected, "F1", "F2", "R1", "R2", "R3"]


def test_the_numbers_are_the_papers():
    values = {
        claim.id: (condition.expect.value, condition.expect.spread)
        for claim, condition in CONDITIONS
        if isinstance(condition.expect, PaperValue)
    }
    assert values == {
        "M2": (0.80, 0),
        "P1": (0.90, 0.003),
        "P2": (0.87, 0.01),
        "P3": (0.83, 0.01),
        "P4": (0.82, 0.02),
        "P5": (0.58, 0.02),
        "F1": (0.75, 0.005),
        "R1": (0.023, 0.0005),
        "R2": (0.025, 0.0005),
        "R3": (0.026, 0.0005),
    }


@pytest.mark.parametrize(("claim", "condition"), CONDITIONS, ids=lambda value: getattr(value, "id", ""))
def test_conditions_name_what_exists(claim, condition):
    """At paper scale every variant runs, so that no claim can stay untested for a wrong name."""
    measure = condition.measure
    match measure:
        case Measurement():
            assert measure.item in Laws.model_fields
            return
        case Metric() | Difference():
            experiment = measure.experiment
            assert measure.metric in METRICS[experiment]
            variants = {measure.variant, getattr(measure, "less", None) or measure.variant}
        case LossByChange():
            experiment, variants = "point_clouds", {measure.variant}
            names = {"particles": "particles", "rotation_degrees": "rotation_degrees", "scale": "scales"}
            values = getattr(PAPER.experiment(experiment).robustness, names[measure.changed])
            assert measure.reference in values
            assert sum(measure.lowest <= value <= measure.highest for value in values) > 1
        case Complexity():
            experiment, variants = "point_clouds", {"set-1000"}
            assert measure.objective in PAPER.experiment(experiment).activations.objectives
    settings = PAPER.experiment(experiment)
    assert settings.dataset == claim.needs.dataset
    assert variants <= set(settings.running)
    for variant in variants:
        sets = settings.sets[settings.variants[variant].sets].model_dump()
        assert {key: sets[key] for key in claim.needs.sets} == claim.needs.sets
    if isinstance(condition.expect, AtChance):
        assert METRICS[experiment][measure.metric].chance


VALID = {
    "id": "X1",
    "place": "section 1",
    "statement": "Something.",
    "paper": "87 ± 1 %",
    "needs": {"dataset": "redmapper", "data": "paper", "scale": "paper"},
    "judged_by": [
        {
            "measure": {
                "kind": "metric",
                "experiment": "mnist_sums",
                "metric": "validation_accuracy",
                "variant": "I-N3",
            },
            "expect": {"kind": "paper-value", "value": 0.87, "spread": 0.01, "better": "higher"},
        }
    ],
}
LESS = {"kind": "difference", "experiment": "mnist_sums", "metric": "validation_accuracy", "variant": "I-N3"}
ABOVE = {"kind": "above", "bound": 0, "matters": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"plase": "section 2"}, "claim X1.plase: Extra inputs are not permitted"),
        ({"paper": ""}, "claim X1.paper: String should have at least 1 character"),
        ({"id": "first"}, "claim first.id: String should match pattern"),
        ({"judged_by": []}, "claim X1.judged_by: List should have at least 1 item"),
        ({"judged_by": VALID["judged_by"] * 2}, "claim X1: Value error, several conditions need a label each"),
        ({"needs": {"data": "any", "scale": "paper"}}, "a number of the paper needs its data and its scale"),
        ({"needs": {"data": "paper", "scale": "demo"}}, "a number of the paper needs its data and its scale"),
        ({"needs": {"data": "real", "scale": "demo"}}, "claim X1.needs.data: Input should be 'paper' or 'any'"),
        ({"judged_by": [{"measure": {"kind": "hunch"}, "expect": ABOVE}]}, "claim X1.judged_by.0.measure"),
        ({"judged_by": [{"measure": LESS, "expect": ABOVE}]}, "expected one of `less`"),
        (
            {"judged_by": [{"measure": {**LESS, "less": "II-N3"}, "expect": {"kind": "at-chance", "width": 0.1}}]},
            "at-chance is about a share of right answers",
        ),
        (
            {"judged_by": [{"measure": {**LESS, "less": "II-N3"}, "expect": VALID["judged_by"][0]["expect"]}]},
            "paper-value compares with a spread",
        ),
        (
            {"judged_by": [{**VALID["judged_by"][0], "expect": {"kind": "within", "low": 2, "high": 1}}]},
            "low (2.0) is above high (1.0)",
        ),
    ],
)
def test_a_fault_in_the_file_is_named(tmp_path, change, message):
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump({"claims": [{**VALID, **change}]}))
    with pytest.raises(EquisetError) as caught:
        read_claims(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("claims: [", "not a claims file that can be read"),
        ("- 1", "the file: Input should be a valid dictionary"),
        ("claims: [{}]", "claim number 1.id: Field required"),
        (yaml.safe_dump({"claims": [VALID, VALID]}), "more than one claim is named X1"),
    ],
)
def test_a_file_that_is_none_is_named(tmp_path, text, message):
    path = tmp_path / "claims.yaml"
    path.write_text(text)
    with pytest.raises(EquisetError, match=message):
        read_claims(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(EquisetError, match=r"nowhere\.yaml is not a claims file"):
        read_claims(tmp_path / "nowhere.yaml")
