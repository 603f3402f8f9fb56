"""The claims file: it lists every claim, names only what exists, and a fault in it is named."""

from itertools import chain

import pytest
import yaml

from equiset.errors import EquisetError
from equiset.experiments import EXPERIMENTS, experiment_module
from equiset.experiments.laws.measures import NAMES
from equiset.results.claims import AtChance, Beside, PaperValue, read_claims

from .made_up_runs import CLAIMS as BY_ID
from .made_up_runs import PAPER

CLAIMS = list(BY_ID.values())
CONDITIONS = [(claim, condition) for claim in CLAIMS for condition in claim.judged_by]
MEASURES = {name: experiment_module(name, "measures").MEASURES for name in EXPERIMENTS}


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


def test_baselines_are_those_that_the_paper_beats():
    baselines = {claim.id for claim, condition in CONDITIONS if getattr(condition.expect, "baseline", False)}
    assert baselines == {"P3", "P5", "R3"}
    orders = {claim.id for claim, condition in CONDITIONS if claim.id in baselines and condition.measure.less}
    assert orders == baselines


def test_a_key_that_stands_twice_is_named(tmp_path):
    twice = tmp_path / "claims.yaml"
    twice.write_text("claims:\n  - id: P1\n    paper: 90 %\n    paper: 9 %\n")
    with pytest.raises(EquisetError, match=r"claims\.yaml: key 'paper' stands twice, in lines 3 and 4"):
        read_claims(twice)


@pytest.mark.parametrize(("claim", "condition"), CONDITIONS, ids=lambda value: getattr(value, "id", ""))
def test_conditions_name_what_exists(claim, condition):
    """At paper scale every variant runs, so that no claim can stay untested for a wrong name."""
    named = condition.measure
    if named.experiment == "laws":
        assert named.name in NAMES
        return
    measure, settings = MEASURES[named.experiment][named.name], PAPER.experiment(named.experiment)
    variants = {named.variant, named.less or named.variant}
    assert variants <= set(settings.running)
    assert measure.compared or not named.less
    if isinstance(condition.expect, AtChance) or getattr(condition.expect, "bound", None) == "chance":
        assert measure.chance
    if isinstance(condition.expect, Beside):
        return
    for variant in variants:
        sets = settings.sets[settings.variants[variant].sets].model_dump()
        assert {key: sets[key] for key in claim.needs.sets} == claim.needs.sets
        stated = claim.needs.settings | (condition.settings if variant == named.variant else {})
        found = settings.variants[variant].model_dump(mode="json")
        for key, value in stated.items():
            node = found
            for part in key.split("."):
                node = node[part]
            assert node == value, f"{variant}: {key}"


def test_parts_that_claims_name_are_measured():
    """What test clouds are changed in has values in the range of its claim; what units maximise is maximised."""
    clouds = PAPER.experiment("point_clouds")
    names = {"particles": "particles", "rotation_degrees": "rotation_degrees", "scale": "scales"}
    for condition in (condition for _, condition in CONDITIONS if condition.measure.part):
        named = condition.measure
        if named.name == "complexity":
            assert named.part in clouds.activations.objectives
            continue
        values = getattr(clouds.robustness, names[named.part])
        shown = isinstance(condition.expect, Beside)  # a single number is shown beside, a range decides
        assert sum(named.lowest <= value <= named.highest for value in values) > (0 if shown else 1)


def test_every_role_names_a_claim_that_is_there():
    claims = {claim.id for claim in CLAIMS}
    variants = chain.from_iterable(PAPER.experiment(name).variants.values() for name in EXPERIMENTS)
    assert {variant.role.claim for variant in variants} - {""} <= claims


VALID = {
    "id": "X1",
    "place": "section 1",
    "statement": "Something.",
    "paper": "87 ± 1 %",
    "needs": {"data": "paper", "scale": "paper"},
    "judged_by": [
        {
            "measure": {"experiment": "mnist_sums", "name": "validation_accuracy", "variant": "I-N3"},
            "expect": {"kind": "paper-value", "value": 0.87, "spread": 0.01, "better": "higher"},
        }
    ],
}
LESS = {"experiment": "mnist_sums", "name": "validation_accuracy", "variant": "I-N3", "less": "II-N3"}
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
        (
            {"judged_by": [{"measure": LESS, "expect": {"kind": "at-chance", "width": 0.1}}]},
            "at-chance is about the number of one variant",
        ),
        (
            {"judged_by": [{"measure": LESS, "expect": VALID["judged_by"][0]["expect"]}]},
            "paper-value is about the number of one variant",
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
        ("claims: [", "cannot be read as YAML"),
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
    with pytest.raises(EquisetError, match=r"nowhere\.yaml cannot be read"):
        read_claims(tmp_path / "nowhere.yaml")
