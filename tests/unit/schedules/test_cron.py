"""Cron expressions say what cron says, and what they can't say is refused by the name of its field.

The oracle reads an expression on its own and looks at every minute, so it shares no shortcut with the code.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.schedules.cron import ALIASES, LONGEST_TEXT, parsed
from headrace.errors import InvalidSchedule
from tests.unit.schedules.cron_oracle import expressions, matches

SUNDAY = datetime(2026, 11, 15, 18, tzinfo=UTC)
DAY = 86_400_000


def wall(moment: datetime) -> int:
    return int(moment.timestamp()) * 1000


def runs(text: str, count: int = 3, after: datetime = SUNDAY) -> list[str]:
    moments = islice(parsed(text).rising(wall(after)), count)
    return [f"{datetime.fromtimestamp(moment / 1000, UTC):%Y-%m-%d %H:%M:%S}" for moment in moments]


def minutes(text: str, after: datetime = SUNDAY) -> list[str]:
    return [run[5:16] for run in runs(text, after=after)]


# -- what it reads


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*/15 * * * *", ["11-15 18:15", "11-15 18:30", "11-15 18:45"]),
        ("0 2 * * *", ["11-16 02:00", "11-17 02:00", "11-18 02:00"]),
        ("0 0 1 * *", ["12-01 00:00", "01-01 00:00", "02-01 00:00"]),
        ("0 9 * * mon", ["11-16 09:00", "11-23 09:00", "11-30 09:00"]),
        ("0 9 * * Mon,wed", ["11-16 09:00", "11-18 09:00", "11-23 09:00"]),
        ("0 0 1 jAn,JUL *", ["01-01 00:00", "07-01 00:00", "01-01 00:00"]),
        ("5-7 0 * * *", ["11-16 00:05", "11-16 00:06", "11-16 00:07"]),
        ("10-50/20 0 * * *", ["11-16 00:10", "11-16 00:30", "11-16 00:50"]),
        ("30/15 0 * * *", ["11-16 00:30", "11-16 00:45", "11-17 00:30"]),
        ("5-5/20 0 * * *", ["11-16 00:05", "11-17 00:05", "11-18 00:05"]),
        ("0 0 31 * *", ["12-31 00:00", "01-31 00:00", "03-31 00:00"]),
        ("0 0 L * *", ["11-30 00:00", "12-31 00:00", "01-31 00:00"]),
        ("0 0 15,L 2 ?", ["02-15 00:00", "02-28 00:00", "02-15 00:00"]),
        ("0 0 LW * *", ["11-30 00:00", "12-31 00:00", "01-29 00:00"]),
        ("0 0 ? * 2#3", ["11-17 00:00", "12-15 00:00", "01-19 00:00"]),
        ("0 0 ? * TUE#3", ["11-17 00:00", "12-15 00:00", "01-19 00:00"]),
        ("0 0 * * 5L", ["11-27 00:00", "12-25 00:00", "01-29 00:00"]),
        ("0 0 * * friL", ["11-27 00:00", "12-25 00:00", "01-29 00:00"]),
        ("0 0 * * L", ["11-21 00:00", "11-28 00:00", "12-05 00:00"]),
        ("0 0 * * MON,L", ["11-16 00:00", "11-21 00:00", "11-23 00:00"]),
        ("0 0 * * 0", ["11-22 00:00", "11-29 00:00", "12-06 00:00"]),
        ("0 0 * * 7", ["11-22 00:00", "11-29 00:00", "12-06 00:00"]),
        ("0 0 * * SAT-SUN", ["11-21 00:00", "11-22 00:00", "11-28 00:00"]),
        ("0 0 * * SUN-SUN", ["11-22 00:00", "11-29 00:00", "12-06 00:00"]),
        ("0 0 * * 6-7", ["11-21 00:00", "11-22 00:00", "11-28 00:00"]),
        ("0 0 13 * FRI", ["11-20 00:00", "11-27 00:00", "12-04 00:00"]),  # the 13th, or a Friday
        ("0 0 */2 * MON", ["11-23 00:00", "12-07 00:00", "12-21 00:00"]),  # an odd day that is a Monday
        ("  0\t2 *  * * ", ["11-16 02:00", "11-17 02:00", "11-18 02:00"]),
    ],
)
def test_five_fields_are_minute_hour_day_month_weekday(text: str, expected: list[str]) -> None:
    assert minutes(text) == expected


def test_six_fields_begin_with_the_seconds() -> None:
    assert runs("*/20 30 9 * * MON") == ["2026-11-16 09:30:00", "2026-11-16 09:30:20", "2026-11-16 09:30:40"]
    assert runs("0 30 9 * * MON") == runs("30 9 * * MON")


def test_29_february_waits_for_a_leap_year_that_is_one() -> None:
    assert runs("0 0 29 2 *", 2) == ["2028-02-29 00:00:00", "2032-02-29 00:00:00"]
    assert runs("0 0 29 2 *", 1, datetime(2096, 3, 1, tzinfo=UTC)) == ["2104-02-29 00:00:00"]


@pytest.mark.parametrize(
    ("alias", "expected"),
    [
        ("@hourly", "11-15 19:00"),
        ("@daily", "11-16 00:00"),
        ("@midnight", "11-16 00:00"),
        ("@weekly", "11-22 00:00"),
        ("@monthly", "12-01 00:00"),
        ("@yearly", "01-01 00:00"),
        ("@Annually ", "01-01 00:00"),
    ],
)
def test_an_alias_stands_for_its_expression(alias: str, expected: str) -> None:
    assert alias.strip().lower() in ALIASES
    assert minutes(alias)[0] == expected


def test_the_next_time_is_strictly_later_and_the_previous_strictly_earlier() -> None:
    noon = wall(datetime(2026, 11, 16, 12, tzinfo=UTC))
    cron = parsed("0 12 * * *")
    assert next(cron.rising(noon - 1)) == noon
    assert next(cron.rising(noon)) == noon + DAY
    assert next(cron.falling(noon)) == noon - DAY
    assert next(cron.falling(noon + 1)) == noon


def test_the_calendar_ends_without_a_crash() -> None:
    last = wall(datetime(9999, 12, 31, tzinfo=UTC))
    assert list(parsed("0 0 * * *").rising(last)) == []
    assert list(parsed("0 0 * * *").rising(last + 10**15)) == []


@pytest.mark.parametrize(
    ("text", "answer"),
    [("* * * * *", True), ("0 */1 * * *", True), ("9 0-23 * * MON", True), ("0 */2 * * *", False), ("@daily", False)],
)
def test_it_knows_whether_it_fires_in_every_hour(text: str, answer: bool) -> None:
    assert parsed(text).every_hour is answer


# -- what it refuses


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "0 fields; use five"),
        ("* * * *", "4 fields"),
        ("0 * * * * * 2026", "7 fields"),
        ("60 * * * *", "'60' in '60 * * * *' is not a minute; use 0-59"),
        ("99 * * * * *", "is not a second; use 0-59"),
        ("0 24 * * *", "is not an hour; use 0-23"),
        ("0 0 0 * *", "is not a day of month; use 1-31"),
        ("0 0 32 * *", "is not a day of month"),
        ("0 0 15W * *", "is not a day of month"),
        ("0 0 1 13 *", "is not a month; use 1-12 or JAN-DEC"),
        ("0 0 1 MAY-JAN *", "is not a month"),
        ("0 0 * * 8", "is not a day of week; use 0-7 or SUN-SAT"),
        ("0 0 * * 2#6", "is not a day of week"),
        ("0 0 * * MOO", "is not a day of week"),
        ("? * * * *", "is not a minute"),
        ("*/0 * * * *", "is not a minute"),
        ("5-5/0 * * * *", "is not a minute"),
        ("1,,2 * * * *", "is not a minute"),
        ("-1 * * * *", "is not a minute"),
        ("٣ * * * *", "is not a minute"),
        ("@daly", "did you mean '@daily'?"),
        ("@reboot", "use one of @yearly"),
        ("0 0 31 2 *", "never occurs"),
        ("0 0 30,31 FEB ?", "never occurs"),
        ("0 0 31 4,6,9,11 *", "never occurs"),
        ("0 0 */31 * 1#5", "never occurs"),
        ("9" * 5000 + " * * * *", f"at most {LONGEST_TEXT}"),
    ],
)
def test_what_it_cannot_read_is_refused_by_the_name_of_the_field(text: str, expected: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        parsed(text)
    assert str(refused.value).startswith("cron: ")
    assert expected in str(refused.value)
    assert len(str(refused.value)) < 400


cronlike = st.text(st.sampled_from("0123456789*/,-#?LWlw @MONFEBsunjan\t"), max_size=60)


@settings(max_examples=400)
@given(st.one_of(cronlike, st.text(max_size=40), st.lists(cronlike, min_size=5, max_size=6).map(" ".join)))
def test_any_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    try:
        cron = parsed(text)
    except InvalidSchedule:
        return
    first, second = islice(cron.rising(wall(SUNDAY)), 2)
    assert wall(SUNDAY) < first < second


# -- against the oracle


def every_minute(start: datetime, days: int) -> Iterator[datetime]:
    return (start + timedelta(minutes=number) for number in range(days * 1440))


@pytest.mark.slow
@settings(max_examples=50)
@given(expressions(), st.datetimes(datetime(1995, 1, 1), datetime(2090, 1, 1)))
def test_it_agrees_with_a_reader_that_looks_at_every_minute(text: str, start: datetime) -> None:
    start = start.replace(second=0, microsecond=0, tzinfo=UTC)
    end = wall(start + timedelta(days=4))
    expected = [wall(moment) for moment in every_minute(start, 4) if matches(text, moment)]
    cron = parsed(text)
    assert list(takewhile(lambda one: one < end, cron.rising(wall(start) - 1))) == expected
    assert list(takewhile(lambda one: one >= wall(start), cron.falling(end))) == expected[::-1]
    assert cron.count(wall(start), end) == len(expected)


@given(expressions(), st.integers(0, 60 * DAY), st.integers(0, 2 * DAY), st.integers(0, 59))
def test_counting_is_what_walking_would_find(text: str, start: int, length: int, second: int) -> None:
    cron = parsed(f"{second} {text}")
    first = wall(SUNDAY) + start
    walked = sum(1 for _ in takewhile(lambda one: one < first + length, cron.rising(first - 1)))
    assert cron.count(first, first + length) == walked


def test_a_year_of_seconds_is_counted_day_by_day() -> None:
    first = wall(datetime(2028, 1, 1, tzinfo=UTC))
    assert parsed("* * * * * *").count(first, first + 366 * DAY) == 366 * 86_400
    assert parsed("* * * 29 2 *").count(first, first + 366 * DAY) == 86_400
    assert parsed("0 0 L * *").count(first, first + 366 * DAY) == 12
    assert parsed("0 0 * * *").count(first, first) == parsed("0 0 * * *").count(first, first - DAY) == 0


def test_the_last_friday_is_the_calendars() -> None:
    for run in islice(parsed("0 0 * * FRIL").rising(wall(SUNDAY)), 40):
        moment = datetime.fromtimestamp(run / 1000, UTC)
        assert moment.weekday() == 4
        assert moment.day + 7 > calendar.monthrange(moment.year, moment.month)[1]
