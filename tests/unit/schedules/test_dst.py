"""Cron times when the clocks change: the documented rules, and a table of expressions, zones and changes.

The oracle checks every minute around a change, reads the local time from zoneinfo, and applies the
rules to the local times that match. It knows nothing of offsets, periods or spans.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise, product, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.schedules.cron import parsed
from headrace.core.schedules.dst import Gap, Overlap, ZonedCron
from headrace.core.schedules.schedule import Timing, next_after, next_dst_transition, upcoming
from headrace.core.schedules.zones import period_at
from headrace.errors import InvalidSchedule
from tests.unit.schedules.cron_oracle import expressions, matches

MINUTE, HOUR = 60_000, 3_600_000
DAY = 24 * HOUR
AROUND = 2  # days before and after: more than the day that Apia left out
GAPS: tuple[Gap, ...] = ("shift", "skip")
OVERLAPS: tuple[Overlap, ...] = ("first", "last", "both")
CHANGES = [
    ("America/New_York", "2026-03-08"),
    ("America/New_York", "2026-11-01"),
    ("Europe/Vienna", "2026-03-29"),
    ("Europe/Vienna", "2026-10-25"),
    ("Europe/Dublin", "2026-03-29"),
    ("Europe/Dublin", "2026-10-25"),
    ("Australia/Lord_Howe", "2026-04-04"),  # half an hour
    ("Australia/Lord_Howe", "2026-10-03"),
    ("Africa/Cairo", "2024-04-25"),  # at midnight
    ("Africa/Cairo", "2024-10-31"),
    ("America/Sao_Paulo", "2018-02-18"),
    ("America/Sao_Paulo", "2018-11-04"),  # no midnight that day
    ("Asia/Kathmandu", "1985-12-31"),  # a quarter of an hour, for good
    ("Pacific/Apia", "2011-12-30"),  # a whole day left out
    ("Africa/Casablanca", "2025-02-23"),  # Ramadan
]
EXPRESSIONS = [
    "30 2 * * *",
    "30 1 * * *",
    "0 0 * * *",
    "15 0 * * *",
    "45 23 * * *",
    "0 * * * *",
    "*/15 * * * *",
    "*/20 1-3 * * *",
    "0,30 2,3 * * *",
    "0 */2 * * *",
    "7 0-23 * * SUN",
    "59 1 L * *",
    "10 2 30 * *",
]


def ms(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()) * 1000


def shown(instants: list[int], zone: str) -> list[str]:
    moments = [datetime.fromtimestamp(instant / 1000, ZoneInfo(zone)) for instant in instants]
    return [f"{moment:%m-%d %H:%M %z}"[:-2] for moment in moments]


# -- the oracle


@cache
def walls_around(zone: str, day: str) -> tuple[int, dict[datetime, list[int]]]:
    """Each minute that the wall shows, and when; and the first of these instants."""
    start = ms(day) - AROUND * DAY
    walls: dict[datetime, list[int]] = defaultdict(list)
    place = ZoneInfo(zone)
    for instant in range(start, start + (2 * AROUND + 1) * DAY, MINUTE):
        walls[datetime.fromtimestamp(instant / 1000, UTC).astimezone(place).replace(tzinfo=None, fold=0)].append(
            instant
        )
    return start, dict(walls)


@cache
def missing_walls(zone: str, day: str) -> dict[datetime, int]:
    """Each minute that the wall leaves out, and when it shows the time that is later by what was left out."""
    _, walls = walls_around(zone, day)
    missing = {}
    shown_in_order = sorted(walls)
    for earlier, later in pairwise(shown_in_order):
        size = later - earlier - timedelta(minutes=1)
        for number in range(1, size // timedelta(minutes=1) + 1):
            wall = earlier + timedelta(minutes=number)
            missing[wall] = walls[wall + size][0]
    return missing


@cache
def matching(text: str, zone: str, day: str) -> tuple[list[list[int]], list[int]]:
    """The instants of each wall time that matches, and where those that are missing would be moved to."""
    _, walls = walls_around(zone, day)
    shown_ones = [instants for wall, instants in walls.items() if matches(text, wall)]
    return shown_ones, [instant for wall, instant in missing_walls(zone, day).items() if matches(text, wall)]


def expected_runs(text: str, zone: str, day: str, gap: Gap, overlap: Overlap) -> list[int]:
    shown_ones, moved = matching(text, zone, day)
    rhythm = all(matches(f"* {text.split()[1]} * * *", datetime(2026, 1, 1, hour)) for hour in range(24))
    if rhythm:
        return sorted(instant for instants in shown_ones for instant in instants)
    picks = {"first": slice(0, 1), "last": slice(-1, None), "both": slice(None)}
    runs = {instant for instants in shown_ones for instant in instants[picks[overlap]]}
    return sorted(runs | set(moved if gap == "shift" else ()))


def check_against_the_oracle(text: str, zone: str, day: str) -> None:
    # Wall times near the ends of the walk may have a twin outside of it.
    start, _ = walls_around(zone, day)
    low, high = start + DAY, start + 2 * AROUND * DAY
    for gap, overlap in product(GAPS, OVERLAPS):
        expected = [run for run in expected_runs(text, zone, day, gap, overlap) if low <= run < high]
        clock = ZonedCron(parsed(text), zone, gap, overlap)
        description = f"{text} in {zone}, {gap}, {overlap}"
        assert list(takewhile(lambda run: run < high, clock.rising(low - 1))) == expected, description
        assert list(clock.falling(high, low)) == expected[::-1], description
        laid_together = clock.count(low, high) - len(expected)
        assert 0 <= laid_together <= (len(matching(text, zone, day)[1]) if gap == "shift" else 0), description


@pytest.mark.parametrize(("zone", "day"), CHANGES)
def test_the_table_holds_a_change_in_every_row(zone: str, day: str) -> None:
    change = next_dst_transition(zone, ms(day) - DAY)
    assert change is not None
    assert ms(day) <= change < ms(day) + DAY
    before, after = (
        datetime.fromtimestamp(at, ZoneInfo(zone)).utcoffset() for at in (change / 1000 - 1, change / 1000)
    )
    assert before != after


MORE = [pytest.param(*change, marks=pytest.mark.slow) for change in CHANGES[4:]]


@pytest.mark.parametrize("text", EXPRESSIONS)
@pytest.mark.parametrize(("zone", "day"), [*CHANGES[:4], *MORE])
def test_expressions_zones_and_changes_agree_with_the_oracle(zone: str, day: str, text: str) -> None:
    check_against_the_oracle(text, zone, day)


@pytest.mark.slow
@settings(max_examples=25)
@given(expressions(), st.sampled_from(CHANGES))
def test_any_expression_agrees_with_the_oracle(text: str, change: tuple[str, str]) -> None:
    check_against_the_oracle(text, *change)


# -- the rules, by example


def test_a_time_in_the_gap_runs_later_by_the_gap() -> None:
    timing = Timing(cron="30 2 * * *", tz="America/New_York")
    runs = upcoming(timing, ms("2026-03-07"), 0, 3)
    assert shown(runs, timing.tz) == ["03-07 02:30 -05", "03-08 03:30 -04", "03-09 02:30 -04"]


def test_a_time_in_the_gap_is_left_out_if_so_wished() -> None:
    timing = Timing(cron="30 2 * * *", tz="America/New_York", dst_gap="skip")
    runs = upcoming(timing, ms("2026-03-07"), 0, 2)
    assert shown(runs, timing.tz) == ["03-07 02:30 -05", "03-09 02:30 -04"]


def test_a_moved_time_and_a_regular_one_at_the_same_instant_are_one_run() -> None:
    timing = Timing(cron="30 2,3 * * *", tz="Europe/Vienna")
    runs = upcoming(timing, ms("2026-03-29"), 0, 2)
    assert shown(runs, timing.tz) == ["03-29 03:30 +02", "03-30 02:30 +02"]


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        ("first", ["11-01 01:30 -04", "11-02 01:30 -05"]),
        ("last", ["11-01 01:30 -05", "11-02 01:30 -05"]),
        ("both", ["11-01 01:30 -04", "11-01 01:30 -05"]),
    ],
)
def test_a_time_that_comes_twice_runs_as_wished(overlap: Overlap, expected: list[str]) -> None:
    timing = Timing(cron="30 1 * * *", tz="America/New_York", dst_overlap=overlap)
    assert shown(upcoming(timing, ms("2026-11-01"), 0, 2), timing.tz) == expected


@pytest.mark.parametrize("overlap", OVERLAPS)
@pytest.mark.parametrize("day", ["2026-03-08", "2026-11-01"])
def test_a_rhythm_keeps_its_pace_through_both_changes(day: str, overlap: Overlap) -> None:
    for text, interval in (("*/15 * * * *", 15 * MINUTE), ("0 * * * *", HOUR)):
        timing = Timing(cron=text, tz="America/New_York", dst_overlap=overlap)
        runs = upcoming(timing, ms(day), 0, 24)
        assert {later - earlier for earlier, later in pairwise(runs)} == {interval}


def test_both_lets_a_named_hour_run_through_twice_in_order() -> None:
    timing = Timing(cron="0,30 1 * * *", tz="Europe/London", dst_overlap="both")
    runs = upcoming(timing, ms("2026-10-25") - HOUR, 0, 4)
    assert shown(runs, timing.tz) == ["10-25 01:00 +01", "10-25 01:30 +01", "10-25 01:00 +00", "10-25 01:30 +00"]


def test_nine_in_the_morning_is_nine_all_year() -> None:
    timing = Timing(cron="0 9 * * *", tz="America/New_York")
    assert next_after(timing, ms("2026-07-01"), 0) == ms("2026-07-01 13:00")
    assert next_after(timing, ms("2026-12-01"), 0) == ms("2026-12-01 14:00")


def test_midnight_that_does_not_come_is_one_oclock() -> None:
    timing = Timing(cron="@daily", tz="America/Sao_Paulo")
    runs = upcoming(timing, ms("2018-11-03 12:00"), 0, 2)
    assert shown(runs, timing.tz) == ["11-04 01:00 -02", "11-05 00:00 -02"]


def test_a_day_that_a_country_left_out_is_made_up_for_on_the_next() -> None:
    daily = Timing(cron="0 9 * * *", tz="Pacific/Apia")
    assert shown(upcoming(daily, ms("2011-12-29"), 0, 3), daily.tz) == [
        "12-29 09:00 -10",
        "12-31 09:00 +14",
        "01-01 09:00 +14",
    ]
    monthly = Timing(cron="0 9 30 * *", tz="Pacific/Apia")
    assert shown(upcoming(monthly, ms("2011-12-29"), 0, 1), monthly.tz) == ["12-31 09:00 +14"]


def test_intervals_and_single_times_do_not_care() -> None:
    start = ms("2026-10-24 12:00")
    interval = Timing(every=DAY, tz="Europe/Vienna", start=start)
    assert upcoming(interval, start - 1, 0, 3) == [start, start + DAY, start + 2 * DAY]
    inside_the_gap = ms("2026-03-29 01:30")
    assert next_after(Timing(at=inside_the_gap, tz="Europe/Vienna"), 0, 0) == inside_the_gap


# -- the changes themselves


def test_the_next_change_of_the_clocks() -> None:
    vienna = next_dst_transition("Europe/Vienna", ms("2026-11-15"))
    assert vienna == ms("2027-03-28 01:00")
    assert next_dst_transition("Europe/Vienna", vienna - 1) == vienna
    assert next_dst_transition("Europe/Vienna", vienna) == ms("2027-10-31 01:00")
    assert next_dst_transition("Asia/Kathmandu", ms("2026-11-15")) is None
    assert next_dst_transition("UTC", ms("2026-11-15")) is None


def test_the_change_of_an_unknown_zone_is_refused() -> None:
    with pytest.raises(InvalidSchedule, match="did you mean 'Europe/Vienna'"):
        next_dst_transition("Europe/Viena", 0)


@given(st.sampled_from(sorted({zone for zone, _ in CHANGES})), st.integers(0, 4_000_000_000_000))
def test_every_instant_lies_in_a_stretch_of_its_offset(zone: str, instant: int) -> None:
    period = period_at(zone, instant)
    assert period.start <= instant < period.end
    for inside in (instant, period.start, period.end - 1):
        offset = datetime.fromtimestamp(inside / 1000, UTC).astimezone(ZoneInfo(zone)).utcoffset()
        assert offset == timedelta(milliseconds=period.offset)
