"""Formulas, property-tested."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from scipy.stats import gmean

from hpcaas import stats

times = st.lists(st.floats(1e-3, 1e4), min_size=2, max_size=12)


@given(times)
def test_the_interval_holds_the_geometric_mean(values):
    s = stats.summarise(values)
    mean = gmean(values)
    assert s.low <= mean * (1 + 1e-9) and s.high >= mean * (1 - 1e-9)
    assert s.minimum <= s.median <= s.maximum


@given(times, st.floats(1e-3, 1e3))
def test_a_change_of_unit_changes_only_the_unit(values, factor):
    a, b = stats.summarise(values), stats.summarise([v * factor for v in values])
    assert b.median == pytest.approx(a.median * factor) and b.half_width == pytest.approx(
        a.half_width, rel=1e-6, abs=1e-12
    )


def test_one_sample_has_no_interval():
    s = stats.summarise([2.0])
    assert (s.median, s.low, s.high, s.half_width) == (2.0, None, None, None)


@pytest.mark.parametrize("bad", [[], [0.0], [-1.0], [float("nan")], [float("inf"), 1.0]])
def test_impossible_times_are_refused(bad):
    with pytest.raises(ValueError):
        stats.summarise(bad)


@given(times, times)
def test_swapping_sides_inverts_a_ratio(a, b):
    r, q = stats.ratio(a, b), stats.ratio(b, a)
    assert r.value == pytest.approx(1 / q.value)
    assert r.significant == q.significant


def test_ratios_find_what_is_there_and_only_that():
    rng = np.random.default_rng(5)
    hits = sum(
        bool(stats.ratio(rng.lognormal(0, 0.05, 6), rng.lognormal(0, 0.05, 6)).significant)
        for _ in range(400)
    )
    assert hits < 40  # 5 % expected
    finds = sum(
        bool(stats.ratio(rng.lognormal(0, 0.05, 6), rng.lognormal(0.2, 0.05, 6)).significant)
        for _ in range(100)
    )
    assert finds > 90


def test_a_single_sample_says_nothing_about_significance():
    assert stats.ratio([1.0], [2.0]).significant is None


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=30))
def test_nothing_beats_a_point_of_the_pareto_front(points):
    front = stats.pareto(points)
    assert front
    for i in front:
        assert not any(
            p[0] <= points[i][0] and p[1] <= points[i][1] and p != points[i] for p in points
        )
    for j, p in enumerate(points):
        if j not in front:
            assert any(points[i][0] <= p[0] and points[i][1] <= p[1] for i in front)


@given(st.floats(0, 5), st.floats(0.5, 500))
def test_a_scaling_fit_recovers_amdahl(serial, work):
    p = [1, 2, 4, 8, 16]
    fit = stats.fit_scaling(p, [serial + work / n for n in p])
    assert fit.residual < 1e-6
    assert fit.at(32) == pytest.approx(serial + work / 32, rel=1e-3)


def test_two_sizes_are_no_curve():
    assert stats.fit_scaling([1, 2, 2], [4.0, 2.0, 2.1]) is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_judging_together_never_finds_more(p):
    assert all(not kept or value <= 0.05 for kept, value in zip(stats.holm(p), p))


def test_outliers_are_found_and_ordinary_spread_is_not():
    assert stats.outliers([1.0, 1.01, 0.99, 1.02, 3.0]) == [False, False, False, False, True]
    assert stats.outliers([1.0, 9.0]) == [False, False]


@given(st.lists(st.floats(0.5, 2.0), min_size=2, max_size=6))
def test_combined_effects_lie_between_their_parts(values):
    assume(len(set(values)) > 1)
    combined = stats.combine([stats.Ratio(v, None, None, None, 1) for v in values])
    assert min(values) * (1 - 1e-9) <= combined.value <= max(values) * (1 + 1e-9)
    assert combined.low is None if len(values) < 4 else math.isfinite(combined.low)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=10))
@settings(max_examples=4)
def test_judging_together_is_what_statsmodels_does(p):
    from statsmodels.stats.multitest import multipletests

    assert stats.holm(p) == [bool(kept) for kept in multipletests(p, 0.05, method="holm")[0]]


@pytest.mark.parametrize("repeats", [2, 5, 10, 30])
def test_what_a_number_of_runs_can_show_is_what_statsmodels_says(repeats):
    from statsmodels.stats.power import TTestIndPower

    effect = TTestIndPower().solve_power(nobs1=repeats, alpha=0.05, power=0.8)
    assert math.log(stats.detectable(repeats, 0.03)) == pytest.approx(effect * 0.03, rel=1e-3)


def test_equal_readings_of_a_clock_are_no_proof():
    equal = stats.ratio([1.0, 1.0, 1.0], [1.001, 1.001, 1.001])
    assert equal.low < equal.value < equal.high and equal.p > 0.05


def test_a_quantile_is_a_value_that_was_measured():
    values = [5.0, 1.0, 2.0, 9.0, 3.0]
    assert [stats.quantile(values, s) for s in (0.2, 0.5, 0.8, 0.9, 1.0)] == [1, 3, 5, 9, 9]


@given(times, times)
@settings(max_examples=40)
def test_the_test_is_what_scipy_does(a, b):
    from scipy.stats import ttest_ind

    assume(np.log(a).std(ddof=1) > 0.01 and np.log(b).std(ddof=1) > 0.01)
    theirs, ours = ttest_ind(np.log(b), np.log(a), equal_var=False), stats.ratio(a, b)
    assert ours.p == pytest.approx(theirs.pvalue, rel=1e-6, abs=1e-12)
    low, high = theirs.confidence_interval(0.95)
    assert math.log(ours.low) == pytest.approx(low, rel=1e-6, abs=1e-9)
    assert math.log(ours.high) == pytest.approx(high, rel=1e-6, abs=1e-9)
