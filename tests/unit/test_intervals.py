"""Spreads and intervals: each method by hand, and which one is taken when."""

import math

import numpy as np
import pytest

from equiset.results.intervals import (
    Sample,
    binomial_interval,
    difference,
    estimate,
    gain_of_doubling,
    movement,
    standard_error,
    still_improves,
    student_interval,
)


def sample(count=1000, share=0.5, **more):
    return Sample((np.arange(count) < share * count).astype(float), np.arange(count), **more)


def test_the_interval_over_seeds_is_students():
    assert student_interval([1.0, 2.0, 3.0]) == pytest.approx(
        (2 - 4.303 / math.sqrt(3), 2 + 4.303 / math.sqrt(3)), abs=1e-3
    )


def test_values_of_one_item_count_as_one():
    """Ten copies of every value must not make the error smaller."""
    values = np.random.default_rng(0).normal(size=200)
    error, items = standard_error(Sample(values, np.arange(200)))
    assert (error, items) == (pytest.approx(values.std(ddof=1) / math.sqrt(200)), 200)
    assert standard_error(Sample(np.tile(values, 10), np.tile(np.arange(200), 10))) == (pytest.approx(error), 200)


def test_other_statistics_are_drawn_anew_by_items():
    rng = np.random.default_rng(0)
    values, items = np.repeat(rng.normal(size=400), 5), np.repeat(np.arange(400), 5)
    by_hand = 1.2533 / math.sqrt(400)  # of the median of a normal
    assert standard_error(Sample(values, items, statistic=np.median))[0] == pytest.approx(by_hand, rel=0.2)
    mean, _ = standard_error(Sample(values, items))
    drawn, _ = standard_error(Sample(values, items, statistic=lambda some: some.mean()))
    assert drawn == pytest.approx(mean, rel=0.1)


@pytest.mark.parametrize(("right", "low", "high"), [(0, 0, 0.3085), (10, 0.6915, 1), (5, 0.1871, 0.8129)])
def test_the_binomial_interval_is_exact(right, low, high):
    assert binomial_interval(right, 10) == pytest.approx((low, high), abs=1e-4)


def test_differences_are_paired_where_items_are_the_same():
    one, other = sample(share=0.5), sample(share=0.4)
    paired, apart = difference(one, other, paired=True), difference(one, other, paired=False)
    assert paired.value == pytest.approx(apart.value) == pytest.approx(0.1)
    assert standard_error(paired)[0] < standard_error(apart)[0]
    fewer = Sample(other.values[:900], other.items[:900])
    assert difference(one, fewer, paired=True).less is fewer


def test_with_one_seed_the_movement_of_its_curve_is_part_of_the_interval():
    still, moving = estimate([sample()], [0.0]), estimate([sample()], [0.03])
    assert still.high - still.low == pytest.approx(2 * 1.9623 * math.sqrt(0.25 / 999), rel=1e-3)
    assert moving.high - moving.low == pytest.approx(2 * 1.9623 * math.hypot(0.03, math.sqrt(0.25 / 999)), rel=1e-3)
    assert (moving.seeds, moving.items, moving.doubt) == (1, 1000, "")
    assert moving.method == "1,000 test items and the last 5 points of the curve"
    assert moving.spread == pytest.approx(math.hypot(0.03, math.sqrt(0.25 / 999)))


def test_with_one_seed_and_no_curve_there_is_doubt():
    found = estimate([sample()], [None])
    assert "one seed" in found.doubt
    assert (found.low, found.high) == binomial_interval(500, 1000)
    assert estimate([sample()], trained=False).doubt == ""


def test_the_difference_of_two_seeds_counts_if_it_is_larger_than_their_movement():
    found = estimate([sample(share=0.4), sample(share=0.6)], [0.01, 0.01])
    assert found.spread > found.seed_sd == pytest.approx(0.1414, abs=1e-4)


def test_three_seeds_need_no_curve():
    found = estimate([sample(share=share) for share in (0.4, 0.5, 0.6)])
    assert (found.low, found.high) == student_interval([0.4, 0.5, 0.6])
    assert (found.method, found.doubt) == ("3 seeds", "")


def test_few_items_are_a_doubt():
    assert estimate([sample(99)], [0.0]).doubt == "only 99 test items"
    assert estimate([sample(100)], [0.0]).doubt == ""


def test_the_spread_is_over_draws_and_over_items():
    draws = np.repeat([0, 1, 2], 1000)
    values = np.concatenate([sample(share=share).values for share in (0.86, 0.87, 0.88)])
    found = estimate([Sample(values, np.tile(np.arange(1000), 3), draws)], [0.0])
    assert found.draw_sd == pytest.approx(0.01)
    assert found.spread == pytest.approx(math.hypot(0.01, (found.high - found.low) / 2 / 1.9623), rel=1e-3)


def test_a_number_of_a_run_as_a_whole_has_an_interval_only_by_its_curve():
    alone = Sample(np.array([0.5]))
    assert math.isnan(estimate([alone]).low)
    assert estimate([alone], [0.01]).high == pytest.approx(0.5 + 1.96 * 0.01, abs=1e-4)


@pytest.mark.parametrize(("gain", "improves"), [(0.0099, False), (0.02, True), (-0.05, False)])
def test_a_run_has_ended_when_a_doubling_would_gain_less_than_a_point(gain, improves):
    """Two points for each doubling are less than one for a tenth of the run, and do not end."""
    epochs = np.arange(1.0, 101)
    curve = 0.8 + gain * np.log2(epochs)
    assert gain_of_doubling(epochs, curve) == pytest.approx(gain)
    assert still_improves(gain_of_doubling(epochs, curve)) is improves
    every_third = slice(2, None, 3)  # validations are rarer than epochs
    assert gain_of_doubling(epochs[every_third], curve[every_third]) == pytest.approx(gain)


def test_only_the_second_half_of_a_curve_tells_whether_it_has_ended():
    curve = np.concatenate([np.linspace(0.1, 0.8, 49), np.full(51, 0.8)])
    assert gain_of_doubling(np.arange(1.0, 101), curve) == pytest.approx(0)


@pytest.mark.parametrize(("factor", "improves"), [(0.97, True), (0.99, False), (1.05, False)])
def test_an_error_has_ended_when_a_doubling_would_lower_it_by_less_than_two_hundredths(factor, improves):
    epochs = np.arange(1.0, 61)
    curve = 0.03 * factor ** np.log2(epochs)
    gain = gain_of_doubling(epochs, curve, falls=True)
    assert gain == pytest.approx(1 - factor)
    assert still_improves(gain, falls=True) is improves


def test_movement_is_that_of_the_last_five_points():
    assert movement(np.array([9.0, 1, 2, 3, 4, 5])) == pytest.approx(np.std([1, 2, 3, 4, 5], ddof=1))
    assert movement(np.arange(4.0)) is None
