"""Rates, their windows and units: what may start is what the buckets hold, and texts mean what they say."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.jobs.queue_rules import Rate
from headrace.core.queues.rates import (
    allows,
    as_rate,
    corrected,
    format_rate,
    has_room,
    opens_at,
    plausible,
    spent,
    starts_left,
    units_of,
)
from headrace.errors import ConfigError

NOW = 1_700_000_000_000_000  # microseconds
MINUTE, HOUR = 60_000_000, 3_600_000_000

NOW = 1_700_000_000_000_000  # microseconds
rates = st.builds(Rate, every=st.integers(1, 10**11), burst=st.integers(1, 10_000))


# -- rates


class Bucket:
    """The textbook: tokens drip in at a steady rate up to a brim, and every start takes one."""

    def __init__(self, rate: Rate, now: int) -> None:
        self._rate = rate
        self._tokens = Fraction(rate.burst)
        self._at = now

    def tokens(self, now: int) -> Fraction:
        self._tokens = min(self._tokens + Fraction(now - self._at, self._rate.every), Fraction(self._rate.burst))
        self._at = now
        return self._tokens

    def take(self, starts: int) -> None:
        self._tokens -= starts


@st.composite
def visits(draw: st.DrawFn) -> tuple[Rate, list[tuple[int, int]]]:
    """A rate, and how long after each other claims come that want so many."""
    rate = draw(rates)
    pause = st.one_of(st.integers(0, 3 * rate.every), st.integers(0, 2 * rate.every * rate.burst), st.just(rate.every))
    return rate, draw(st.lists(st.tuples(pause, st.integers(0, 2 * rate.burst)), min_size=1, max_size=30))


@given(visits())
def test_what_may_start_is_what_a_bucket_holds(case: tuple[Rate, list[tuple[int, int]]]) -> None:
    rate, turns = case
    bucket, full_at, now = Bucket(rate, NOW), 0, NOW
    for pause, wanted in turns:
        now += pause
        allowed = allows(rate, full_at, now)
        assert allowed == floor(bucket.tokens(now))
        starts = min(allowed, wanted)
        bucket.take(starts)
        full_at = spent(rate, full_at, now, starts)
        assert allows(rate, full_at, now) == allowed - starts


@given(visits())
def test_the_returned_time_is_the_first_at_which_one_more_may_start(case: tuple[Rate, list[tuple[int, int]]]) -> None:
    rate, turns = case
    full_at, now = 0, NOW
    for pause, _ in turns:
        now += pause
        full_at = spent(rate, full_at, now, allows(rate, full_at, now))
        moment = opens_at(rate, full_at)
        assert moment > now
        assert allows(rate, full_at, moment - 1) == 0
        assert allows(rate, full_at, moment) == 1


@given(rates, st.integers(0, 10**15))
def test_after_a_rest_all_of_the_burst_may_start_and_never_more(rate: Rate, rest: int) -> None:
    full_at = spent(rate, 0, NOW, rate.burst)
    assert allows(rate, full_at, NOW) == 0
    assert allows(rate, full_at, full_at + rest) == rate.burst
    assert allows(rate, full_at, full_at - 1) == rate.burst - 1


def test_a_clock_that_stepped_back_lets_nothing_start_twice() -> None:
    rate = Rate(1_000_000, 3)
    full_at = spent(rate, 0, NOW, 3)
    assert allows(rate, full_at, NOW - 10_000_000) == 0


@pytest.mark.parametrize(
    ("text", "every", "burst"),
    [
        ("10/s", 100_000, 10),
        ("1/s", 1_000_000, 1),
        ("3/s", 333_333, 3),
        ("6/s", 166_667, 6),
        ("7/s", 142_857, 7),
        ("0.5/s", 2_000_000, 1),
        ("2.5/sec", 400_000, 2),
        ("100/min", 600_000, 1),
        ("600/min", 100_000, 10),
        ("90/m", 666_667, 1),
        ("100/minute", 600_000, 1),
        ("5 per hour", 720_000_000, 1),
        ("5 per hours", 720_000_000, 1),
        ("3/10s", 3_333_333, 1),
        ("3/10 seconds", 3_333_333, 1),
        ("30 per 1.5 min", 3_000_000, 1),
        (" 10 / S ", 100_000, 10),
        ("10 PER Second", 100_000, 10),
        ("1/d", 86_400_000_000, 1),
        ("1000/2days", 172_800_000, 1),
        ("1000000/s", 1, 1_000_000),
    ],
)
def test_a_rate_as_a_user_writes_it(text: str, every: int, burst: int) -> None:
    assert as_rate(text) == Rate(every, burst)
    assert as_rate(text, 20) == Rate(every, 20)


BAD_RATES = [
    "",
    "10",
    "/s",
    "10/",
    "s/10",
    "10/s/s",
    "-1/s",
    "+1/s",
    "1e3/s",
    "10 s",
    "10per s",
    "10/fortnight",
    "10/ms",
    "10/us",
    "0/s",
    "0.0/min",
    "10/0s",
    "1000001/s",
    "1/0.0000001s",
    "10/s\n10/s",
    "nan/s",
    "inf/s",
    "10\N{FULLWIDTH SOLIDUS}s",
    "9" * 400 + "/s",
    "1/" + "9" * 400 + "s",
    "9" * 400 + "/" + "9" * 400 + "d",
    "0." + "0" * 300 + "1/s",
    "1/" + "9" * 30 + "d",
]


@pytest.mark.parametrize("text", BAD_RATES, ids=lambda text: ascii(text[:20]))
def test_what_is_no_rate_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(ConfigError, match="rate: ") as refused:
        as_rate(text)
    assert "'10/s'" in str(refused.value) or "1000000" in str(refused.value)
    assert len(str(refused.value)) < 300


@given(st.text(max_size=20))
def test_any_text_is_a_rate_or_refused(text: str) -> None:
    try:
        rate = as_rate(text)
    except ConfigError:
        return
    assert rate.every >= 1
    assert rate.burst >= 1


@given(st.integers(1, 10_000), st.sampled_from(["s", "min", "hour", "day"]))
def test_a_rate_means_what_it_says_to_within_a_hundredth(starts: int, unit: str) -> None:
    seconds = {"s": 1, "min": 60, "hour": 3600, "day": 86_400}[unit]
    rate = as_rate(f"{starts}/{unit}")
    given = Fraction(starts, seconds)
    assert abs(Fraction(1_000_000, rate.every) - given) <= given / 100
    assert rate.burst == max(floor(given), 1)


# -- several windows


def test_the_fastest_is_spread_evenly_and_the_others_count_by_the_clock() -> None:
    found = as_rate("1000/h, 60/min")
    assert found == as_rate("60/min,1000/h") == Rate(1_000_000, 1, more=(Rate(3_600_000, 1000, HOUR),))
    assert as_rate("60/min, 1000/h", 20).burst == 20


def test_starts_and_units_have_a_fastest_each() -> None:
    of_units = Rate(6000, 166, units=True)
    by_day = Rate(172_800, 500_000, 24 * HOUR, units=True)
    assert as_rate("500000 units/day, 10000 units/min, 60 per min") == Rate(1_000_000, 1, more=(of_units, by_day))
    assert as_rate("10000 units/min") == of_units


@pytest.mark.parametrize(
    "text",
    ["60/min, 1000/h", "10/s, 100/min, 1000/h, 5000/day, 20000/7days", "60/min, 10000 units/min", "7/s, 9/10min, 3/h"],
)
def test_a_formatted_rate_is_read_as_the_same_windows(text: str) -> None:
    rate = as_rate(text)
    assert as_rate(format_rate(rate)) == rate


@pytest.mark.parametrize(
    "text",
    ["10/s,", ",10/s", "10/s,,1/h", "10,000/min", "1/s, 10 apples/s", "1/s,2/s,3/s,4/s,5/s,6/s", "10/s, 2.5/min"],
)
def test_a_list_with_something_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="rate:"):
        as_rate(text)


def test_in_each_period_of_the_clock_as_many_start_as_the_window_says() -> None:
    window, full_at, begin = Rate(HOUR // 1000, 1000, HOUR), 0, NOW - NOW % HOUR
    now = begin + HOUR - 1  # the last moment of an hour
    assert allows(window, full_at, now) == 1000
    full_at = spent(window, full_at, now, 1000)
    assert allows(window, full_at, now) == 0
    assert opens_at(window, full_at) == begin + HOUR
    assert full_at == begin + 2 * HOUR, "it is kept until its period is over"
    assert allows(window, full_at, begin + HOUR) == 1000


@given(
    st.integers(1, 10**5), st.integers(1, 10**10), st.lists(st.tuples(st.integers(0, 10**10), st.integers(0, 10**5)))
)
def test_no_period_ever_has_more(number: int, length: int, turns: list[tuple[int, int]]) -> None:
    period = max(length, number)
    window, full_at, now = Rate(period // number, number, period), 0, NOW
    counts: dict[int, int] = {}
    for pause, wanted in turns:
        now += pause
        starts = min(allows(window, full_at, now), wanted)
        full_at = spent(window, full_at, now, starts)
        counts[now // period] = counts.get(now // period, 0) + starts
        assert allows(window, full_at, now) == number - counts[now // period]
    assert all(count <= number for count in counts.values())


def test_the_tightest_window_decides_how_many_may_start() -> None:
    rate = as_rate("10/s, 100/h")
    assert starts_left(rate, [], NOW) == 10
    assert starts_left(rate, [0, spent(rate.more[0], 0, NOW, 97)], NOW) == 3


# -- units


def test_a_job_starts_when_there_is_room_for_all_its_units() -> None:
    window = Rate(1000, 500, units=True)
    full_at = spent(window, 0, NOW, 300)
    assert has_room(window, full_at, NOW, 200)
    assert not has_room(window, full_at, NOW, 201)
    assert opens_at(window, full_at, 201) == NOW + 1000
    assert has_room(window, full_at, NOW + 1000, 201)


def test_a_job_with_more_units_than_the_burst_starts_when_the_bucket_is_full() -> None:
    window = Rate(1000, 500, units=True)
    full_at = spent(window, 0, NOW, 1)
    assert not has_room(window, full_at, NOW, 9000)
    assert opens_at(window, full_at, 9000) == NOW + 1000
    assert has_room(window, full_at, NOW + 1000, 9000)
    owing = spent(window, full_at, NOW + 1000, 9000)
    assert opens_at(window, owing) == NOW + 1000 + 8501 * 1000


def test_what_a_job_did_not_use_is_given_back_and_what_it_used_more_is_charged() -> None:
    window = Rate(1000, 500, units=True)
    full_at = spent(window, 0, NOW, 300)
    assert corrected(window, full_at, NOW, 300, 100, NOW) == spent(window, 0, NOW, 100)
    assert corrected(window, full_at, NOW, 300, 900, NOW) == spent(window, 0, NOW, 900)
    assert corrected(window, full_at, NOW, 300, 300, NOW) == full_at


def test_a_period_that_is_over_gives_nothing_to_the_next() -> None:
    window, begin = Rate(MINUTE // 100, 100, MINUTE, units=True), NOW - NOW % MINUTE
    next_minute = begin + MINUTE
    full_at = spent(window, 0, next_minute, 100)
    assert corrected(window, full_at, next_minute, 80, 10, begin) == full_at
    assert corrected(window, full_at, next_minute, 80, 10, next_minute) == full_at - 70 * window.every


def test_a_debt_of_units_is_kept_and_one_of_starts_is_a_clock_set_back() -> None:
    of_units, of_starts = Rate(1000, 5, units=True), Rate(1000, 5)
    assert plausible(of_units, NOW + 9000 * HOUR, NOW) == NOW + 9000 * HOUR
    assert plausible(of_starts, NOW + 2 * HOUR, NOW) == NOW + 5000
    assert plausible(of_units, NOW + 100_000 * HOUR, NOW) == NOW + 5000


def test_a_debt_of_units_is_ten_years_at_most_so_that_stores_can_hold_it() -> None:
    window = Rate(366 * 24 * HOUR, 1, units=True)
    owed = corrected(window, spent(window, NOW, NOW, 10**9), NOW, 0, 10**9, NOW)
    assert owed - NOW == window.every + 10 * 366 * 24 * HOUR
    assert plausible(window, owed, NOW) == owed


@pytest.mark.parametrize(
    ("options", "units"),
    [(None, 1), ("", 1), ('{"cost":300}', 300), ('{"timeout":5}', 1), ('{"cost":0}', 1), ('{"cost":"x"}', 1), ("{", 1)],
)
def test_a_job_without_a_readable_cost_counts_as_one_unit(options: str | None, units: int) -> None:
    assert units_of(options) == units
