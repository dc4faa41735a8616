"""Histograms of durations: quantiles that can be trusted, whatever was summed, in few bytes."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.metrics.histogram import BOUNDS, NOTHING, Histogram

WITHIN = 0.05
durations = st.lists(
    st.one_of(st.integers(0, 30), st.integers(0, 100_000), st.integers(0, 2 * 10**10)), min_size=1, max_size=300
)


def true_quantile(values: list[int], share: float) -> int:
    return sorted(values)[max(math.ceil(share * len(values)), 1) - 1]


@given(durations, st.sampled_from([0.0, 0.01, 0.5, 0.9, 0.95, 0.99, 1.0]))
def test_a_quantile_is_within_five_percent_of_the_true_one(values: list[int], share: float) -> None:
    found, true = Histogram.of(values).quantile(share), true_quantile(values, share)
    assert found is not None
    assert abs(found - true) <= WITHIN * true


@given(st.lists(durations, min_size=1, max_size=6))
def test_it_does_not_matter_how_they_were_added_up(parts: list[list[int]]) -> None:
    whole = Histogram.of([value for part in parts for value in part])
    forward, backward = NOTHING, NOTHING
    for part in parts:
        forward = forward.plus(Histogram.of(part))
    for part in reversed(parts):
        backward = Histogram.of(part).plus(backward)
    assert forward == backward == whole


@given(durations)
def test_sum_mean_ends_and_number_are_exact(values: list[int]) -> None:
    found = Histogram.of(values)
    assert (found.total, found.least, found.most) == (sum(values), min(values), max(values))
    assert found.count == len(values)
    assert found.mean == sum(values) / len(values)


@given(durations)
def test_it_is_the_same_after_it_was_stored(values: list[int]) -> None:
    found = Histogram.of(values)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Histogram) == found


@given(durations, st.lists(st.sampled_from(BOUNDS[:200]), min_size=1, max_size=8))
def test_it_counts_exactly_how_many_are_not_longer_than_a_bound(values: list[int], bounds: list[int]) -> None:
    assert Histogram.of(values).cumulative(bounds) == [sum(value <= bound for value in values) for bound in bounds]


@pytest.mark.parametrize("ms", range(10))
def test_below_ten_milliseconds_nothing_is_rounded(ms: int) -> None:
    assert Histogram.of([ms, 5000]).quantile(0.5) == ms


def test_of_nothing_there_is_no_quantile_and_no_mean() -> None:
    assert Histogram.of([]) is NOTHING
    assert (NOTHING.quantile(0.5), NOTHING.mean, NOTHING.count) == (None, None, 0)


def test_a_clock_that_was_set_back_makes_no_negative_duration() -> None:
    found = Histogram.of([-5, 7])
    assert (found.least, found.total, found.count) == (0, 7, 2)


def test_it_stays_small_however_much_it_holds() -> None:
    found = Histogram.of(list(range(0, 3_000_000, 7)))
    assert len(found.bins) < 160
    assert len(msgspec.json.encode(found)) < 2500


def test_what_takes_longer_than_any_bound_is_counted_all_the_same() -> None:
    found = Histogram.of([10 * BOUNDS[-1]])
    assert (found.quantile(0.5), found.count) == (10 * BOUNDS[-1], 1)
