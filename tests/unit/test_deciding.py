"""What decides a condition of a claim, at the edges of each rule, on made-up numbers."""

from dataclasses import replace

import pytest

from equiset.errors import EquisetError
from equiset.results.claims import Above, AtChance, PaperValue, Within
from equiset.results.judging import decide
from equiset.results.measures import Number


def number(value, low=None, high=None, **more):
    ends = (value if low is None else low, value if high is None else high)
    rest = {"spread": 0.0, "seeds": 1, "items": 1000, "answers": 1000}
    rest |= {"experiment": "e", "variant": "v", "measure": "m"}
    return Number(value, *ends, **rest | more)


def paper_value(value=0.87, spread=0.01, better="higher", **more):
    return PaperValue(kind="paper-value", value=value, spread=spread, better=better, **more)


@pytest.mark.parametrize(
    ("ours", "spread", "better", "verdict"),
    [
        (0.87, 0.0, "higher", "holds"),
        (0.86, 0.0, "higher", "holds"),  # at the very end of the paper's own spread
        (0.8599, 0.0, "higher", "undecided"),
        (0.8505, 0.0, "higher", "undecided"),  # within the 95 % interval
        (0.8503, 0.0, "higher", "differs"),
        (0.856, 0.01, "higher", "holds"),  # 1.4 points off, the combined spread is 1.41
        (0.8558, 0.01, "higher", "undecided"),
        (0.84, 0.01, "higher", "differs"),
        (0.95, 0.0, "higher", "holds"),
        (0.95, 0.0, "neither", "differs"),
        (0.95, 0.0, "lower", "differs"),
        (0.5, 0.0, "lower", "holds"),
    ],
)
def test_a_number_is_met_within_the_combined_spread_or_surpassed(ours, spread, better, verdict):
    assert decide(paper_value(better=better), number(ours, spread=spread))[0] == verdict


def test_a_number_that_is_surpassed_is_said_to_be():
    assert decide(paper_value(), number(0.9)) == ("holds", "better than the paper")
    assert decide(paper_value(), number(0.88)) == ("holds", "")
    _, reason = decide(paper_value(), number(0.8, unit="%"))
    assert reason == "below the paper by 7.0 points, 7.0 standard deviations"


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.001, 0.02, "holds"),
        (0.0, 0.02, "undecided"),  # the bound itself is not above it
        (-0.01, 0.01, "undecided"),
        (-0.01, 0.0099, "differs"),
        (-0.02, -0.01, "differs"),
        (0.001, 0.002, "holds"),  # small, but there
    ],
)
def test_an_order_needs_an_interval_on_one_side(low, high, verdict):
    expected = Above(kind="above", bound=0, matters=0.01)
    assert decide(expected, number((low + high) / 2, low, high))[0] == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.05, 0.05, "holds"),
        (0.049, 0.051, "undecided"),
        (-0.06, 0.06, "undecided"),
        (0.0501, 0.07, "differs"),
        (-0.07, -0.0501, "differs"),
    ],
)
def test_a_range_holds_the_interval_or_is_missed_by_it(low, high, verdict):
    expected = Within(kind="within", low=-0.05, high=0.05)
    assert decide(expected, number((low + high) / 2, low, high))[0] == verdict


def test_a_range_may_have_no_lower_end():
    assert decide(Within(kind="within", high=0.2), number(-9.0)) == ("holds", "")
    assert decide(Within(kind="within", high=0.2), number(0.3)) == ("differs", "expected at most 0.200")
    assert decide(Within(kind="within", high=0.2), number(0.2, 0.1, 0.3))[0] == "undecided"


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.05, 0.08, "holds"), (0.07, 0.09, "differs"), (0.0, 0.05, "differs"), (0, 0.3, "undecided")],
)
def test_chance_lies_in_an_interval_that_is_not_too_wide(low, high, verdict):
    share = number((low + high) / 2, low, high, chance=1 / 16, unit="%")
    assert decide(AtChance(kind="at-chance", width=0.08), share)[0] == verdict


def test_a_number_without_a_chance_level_cannot_be_at_it():
    with pytest.raises(EquisetError, match="compares m with chance"):
        decide(AtChance(kind="at-chance", width=0.1), number(0.5))


def test_a_number_that_still_improves_has_a_mark_and_no_interval():
    facts = {"spread": 0.3, "measure": "test_accuracy", "unit": "%"}
    improving = number(0.9, 0.4, 1.4, **facts, unfinished="still improves")
    assert (improving.with_spread, improving.with_interval, improving.interval) == ("90.0‡", "90.0‡", "—")
    thrice = number(0.9, 0.4, 1.4, **facts, unfinished="still improves", seeds=3)
    assert (thrice.with_spread, thrice.with_interval) == ("90.0 ± 30.0‡", "90.0‡")
    ended = number(0.9, 0.4, 1.4, **facts)
    assert (ended.with_spread, ended.with_interval) == ("90.0 ± 30.0", "90.0 (40.0 to 100.0)")


RISING = {"unit": "%", "unfinished": "v still improves"}


@pytest.mark.parametrize(
    ("expected", "ours", "verdict"),
    [
        (paper_value(), 0.87, "holds"),  # reached: more can only be better
        (paper_value(), 0.95, "holds"),
        (paper_value(), 0.6, "too short"),
        (paper_value(baseline=True), 0.87, "too short"),  # it may yet surpass what it is to meet
        (paper_value(baseline=True), 0.95, "differs"),  # better already
        (paper_value(baseline=True), 0.6, "too short"),
        (paper_value(better="neither"), 0.87, "too short"),
        (Above(kind="above", bound=0.8, matters=0.01), 0.9, "holds"),
        (Above(kind="above", bound=0.8, matters=0.01), 0.7, "too short"),
        (Within(kind="within", low=0.8, high=0.95), 0.9, "too short"),
        (AtChance(kind="at-chance", width=0.08), 0.06, "too short"),
    ],
)
def test_of_a_run_that_still_improves_only_what_no_improvement_can_undo_counts(expected, ours, verdict):
    found = number(ours, ours - 0.01, ours + 0.01, chance=0.0625, **RISING)
    assert decide(expected, found)[0] == verdict
    difference = replace(found, less="w")
    if not isinstance(expected, AtChance | PaperValue):
        assert decide(expected, difference)[0] == "too short"  # the other network may improve as well


def test_undecided_and_still_improving_are_both_said():
    said = decide(paper_value(), number(0.856, **RISING))
    assert said == ("too short", "below the paper by 1.4 points, 1.4 standard deviations; v still improves")
    # While it improves, what a network moved is what it learnt, and no spread.
    assert decide(paper_value(), number(0.725, spread=0.025, **RISING)) == ("too short", "v still improves")
