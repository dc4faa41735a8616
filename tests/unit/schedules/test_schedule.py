"""A schedule as a user writes it: what is refused and why, which times follow, and what jitter and ids make of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.jobs.ids import check_id
from headrace.core.schedules.cron import Cron
from headrace.core.schedules.schedule import Timing, due_at, next_after, occurrence_id, timing, upcoming
from headrace.errors import HeadraceError, InvalidSchedule
from tests.unit.schedules.cron_oracle import expressions

MOMENT = datetime(2026, 11, 15, 18, tzinfo=UTC)
NOW = int(MOMENT.timestamp()) * 1000
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
ZONES = ["UTC", "America/New_York", "Europe/Vienna", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Cairo"]


def later(**by: float) -> datetime:
    return MOMENT + timedelta(**by)


# -- what a user writes


def test_what_is_written_becomes_plain_milliseconds() -> None:
    made = timing(
        cron=" 0  2 * * mon ",
        tz="Europe/Vienna",
        start=later(days=1),
        end=datetime(2027, 1, 1, tzinfo=ZoneInfo("Europe/Vienna")),
        limit=5,
        jitter=timedelta(minutes=1),
        dst_gap="skip",
        dst_overlap="both",
        catch_up="all",
        catch_up_limit=3,
        catch_up_window=timedelta(hours=1),
        overlap="queue",
        now=NOW,
    )
    assert made == Timing(
        cron="0 2 * * mon",
        tz="Europe/Vienna",
        start=NOW + DAY,
        end=int(datetime(2026, 12, 31, 23, tzinfo=UTC).timestamp()) * 1000,
        limit=5,
        jitter=MINUTE,
        dst_gap="skip",
        dst_overlap="both",
        catch_up="all",
        catch_up_limit=3,
        catch_up_window=HOUR,
        overlap="queue",
    )
    assert msgspec.json.decode(msgspec.json.encode(made), type=Timing) == made


def test_defaults_are_not_stored() -> None:
    stored = timing(every=1.5, tz="".join("UTC"), catch_up_window=timedelta(days=1), now=NOW)
    assert msgspec.json.encode(stored) == b'{"every":1500}'
    assert timing(at=later(seconds=1), now=NOW) == Timing(at=NOW + SECOND)
    assert timing(every=timedelta(minutes=5), now=NOW).every == 5 * MINUTE
    assert timing(cron="@daily", tz=ZoneInfo("Asia/Tokyo"), now=NOW).tz == "Asia/Tokyo"


NAIVE = datetime(2027, 1, 1)
BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "exactly one of cron, every and at, not none of them"),
    ({"cron": "@daily", "every": 5}, "exactly one of cron, every and at, not cron and every"),
    ({"cron": "61 * * * *"}, "cron: '61' in"),
    ({"cron": 5}, "cron: expected text"),
    ({"cron": "0 0 31 2 *"}, "never occurs"),
    ({"cron": "0 0 1 1 *" + " " * 200}, "characters; at most 200"),
    ({"every": 0}, "every: 0 is out of range; use 0.1 seconds to 100 years"),
    ({"every": 0.0999}, "every: 0.0999 is out of range"),
    ({"every": -5}, "every: -5 is out of range"),
    ({"every": 1e12}, "out of range"),
    ({"every": float("nan")}, "every: nan is out of range"),
    ({"every": float("inf")}, "every: inf is out of range"),
    ({"every": True}, "every: expected seconds or a timedelta, got True"),
    ({"every": "5m"}, "every: expected seconds or a timedelta, got '5m'"),
    ({"every": 10**400}, "every:"),
    ({"at": NAIVE}, "at: datetime.datetime(2027, 1, 1, 0, 0) has no time zone; write datetime(..., tzinfo=UTC)"),
    ({"at": "tomorrow"}, "at: expected a datetime"),
    ({"at": MOMENT}, "at: 2026-11-15 18:00:00+00:00 is not in the future; to run at once, enqueue"),
    ({"at": datetime(1960, 1, 1, tzinfo=UTC)}, "at: datetime.datetime(1960"),
    ({"at": later(days=2), "end": later(days=1)}, "at never fires: no run lies between start and end"),
    ({"at": later(days=2), "start": later(days=3)}, "at never fires"),
    ({"every": 5, "start": NAIVE}, "start: datetime.datetime(2027, 1, 1, 0, 0) has no time zone"),
    ({"every": 5, "end": NAIVE}, "end: datetime.datetime(2027, 1, 1, 0, 0) has no time zone"),
    ({"every": 5, "start": later(days=2), "end": later(days=1)}, "lies before start"),
    ({"cron": "@yearly", "start": later(days=1), "end": later(days=2)}, "no run lies between start and end"),
    ({"cron": "30 2 * 3 SUN#2", "tz": "America/New_York", "dst_gap": "skip"}, "dst_gap='skip' leaves out every run"),
    ({"every": 5, "limit": 0}, "limit: expected a whole number from 1"),
    ({"every": 5, "limit": True}, "limit: expected a whole number from 1"),
    ({"every": 5, "limit": 1.5}, "limit: expected a whole number"),
    ({"every": 5, "jitter": -1}, "jitter: -1 is out of range; use 0 seconds"),
    ({"every": 5, "jitter": 6}, "jitter: 6 seconds is longer than the 5 seconds between two runs"),
    ({"cron": "0,1 0 * * *", "jitter": 61}, "jitter: 61 seconds is longer than the 60 seconds"),
    (
        {"every": 5, "dst_gap": "shifts"},
        "dst_gap: expected one of 'shift', 'skip', got 'shifts'; did you mean 'shift'?",
    ),
    ({"every": 5, "dst_overlap": "none"}, "dst_overlap: expected one of 'first', 'last', 'both'"),
    ({"every": 5, "catch_up": 10}, "catch_up: expected one of 'none', 'latest', 'limited', 'all', got 10"),
    ({"every": 5, "catch_up": []}, "catch_up: expected one of"),
    ({"every": 5, "catch_up_limit": 0}, "catch_up_limit: expected a whole number from 1 to 1000"),
    ({"every": 5, "catch_up_window": -1}, "catch_up_window: -1 is out of range"),
    ({"every": 5, "overlap": None}, "overlap: expected one of 'allow', 'skip', 'queue', got None"),
    (
        {"cron": "@daily", "tz": "Europe/Viena"},
        "tz: 'Europe/Viena' is not a known time zone; did you mean 'Europe/Vienna'?",
    ),
    ({"cron": "@daily", "tz": "europe/vienna"}, "did you mean 'Europe/Vienna'?"),
    ({"cron": "@daily", "tz": "Europe"}, "is not a known time zone"),
    ({"cron": "@daily", "tz": "localtime"}, "is not a known time zone"),
    ({"cron": "@daily", "tz": "../../etc/passwd"}, "use an IANA name such as 'Europe/Vienna'"),
    ({"cron": "@daily", "tz": "A\0"}, "is not a known time zone"),
    ({"cron": "@daily", "tz": "X" * 10_000}, "is not a known time zone"),
    ({"cron": "@daily", "tz": ""}, "is not a known time zone"),
    ({"cron": "@daily", "tz": UTC}, "tz: expected an IANA name"),
]


@pytest.mark.parametrize(("given_fields", "expected"), BAD)
def test_what_breaks_a_rule_is_refused_by_name_and_with_the_rule(given_fields: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        timing(**given_fields, now=NOW)
    assert expected in str(refused.value)
    assert len(str(refused.value)) < 400


def test_the_refusal_is_a_value_error_and_one_of_ours() -> None:
    assert issubclass(InvalidSchedule, ValueError)
    assert issubclass(InvalidSchedule, HeadraceError)


def test_a_schedule_that_is_over_may_still_be_declared() -> None:
    over = timing(cron="@daily", end=later(days=-1), now=NOW)
    assert next_after(over, NOW, NOW) is None
    assert next_after(timing(every=60, start=later(days=-9), end=later(days=-1), now=NOW), NOW, NOW) is None


@settings(max_examples=200)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "cron": st.one_of(st.text(max_size=30), st.sampled_from(["@daily", "0 0 29 2 *", "*/5 * * * *"])),
            "every": st.one_of(st.floats(), st.integers(), st.timedeltas()),
            "at": st.datetimes(timezones=st.sampled_from([None, UTC])),
            "tz": st.one_of(st.text(max_size=30), st.sampled_from(ZONES)),
            "start": st.datetimes(timezones=st.sampled_from([None, UTC])),
            "end": st.datetimes(timezones=st.sampled_from([None, UTC])),
            "limit": st.integers(),
            "jitter": st.one_of(st.floats(), st.timedeltas()),
        },
    )
)
def test_anything_is_a_schedule_or_is_refused_and_nothing_else(fields: dict[str, Any]) -> None:
    try:
        made = timing(**fields, now=NOW)
    except InvalidSchedule:
        return
    runs = upcoming(made, NOW, NOW, 5)
    assert all(run > NOW for run in runs)


# -- nominal times


def test_two_minutes_over_ten_give_five_runs() -> None:
    runs = upcoming(timing(cron="*/2 * * * *", now=NOW), NOW, NOW, 50)
    assert [run for run in runs if run <= NOW + 10 * MINUTE] == [NOW + number * 2 * MINUTE for number in range(1, 6)]


def test_an_interval_counts_from_its_start_or_else_from_its_creation() -> None:
    anchored = Timing(every=10 * SECOND)
    assert upcoming(anchored, NOW, NOW, 3) == [NOW + 10_000, NOW + 20_000, NOW + 30_000]
    assert next_after(anchored, NOW + 10_000, NOW) == NOW + 20_000
    assert next_after(anchored, NOW + 19_999, NOW) == NOW + 20_000
    started = Timing(every=10 * SECOND, start=NOW + 3)
    assert upcoming(started, NOW - DAY, 0, 2) == [NOW + 3, NOW + 10_003]
    assert next_after(started, NOW + 3, 0) == NOW + 10_003


def test_start_and_end_are_both_inside() -> None:
    hourly = Timing(cron="@hourly", start=NOW, end=NOW + 2 * HOUR)
    assert upcoming(hourly, 0, 0, 9) == [NOW, NOW + HOUR, NOW + 2 * HOUR]
    assert upcoming(Timing(every=HOUR, start=NOW, end=NOW + 2 * HOUR), 0, 0, 9) == [NOW, NOW + HOUR, NOW + 2 * HOUR]
    assert next_after(hourly, NOW + 2 * HOUR, 0) is None
    assert upcoming(msgspec.structs.replace(hourly, start=NOW + 1, end=NOW + 2 * HOUR - 1), 0, 0, 9) == [NOW + HOUR]


def test_a_single_time_comes_once() -> None:
    once = Timing(at=NOW)
    assert next_after(once, NOW - 1, 0) == NOW
    assert next_after(once, NOW, 0) is None


def test_the_end_of_the_calendar_is_the_end_of_the_schedule() -> None:
    far = int(datetime(9999, 12, 31, 23, 59, tzinfo=UTC).timestamp()) * 1000
    for endless in (Timing(cron="* * * * *", tz="Europe/Vienna"), Timing(every=DAY), Timing(cron="0 0 29 2 *")):
        assert next_after(endless, far, 0) is None
        assert next_after(endless, 10 * far, 0) is None


timings = st.one_of(
    st.builds(lambda every, start: Timing(every=every, start=start), st.integers(100, 10**10), st.none()),
    st.builds(
        lambda cron, tz, gap, overlap: Timing(cron=cron, tz=tz, dst_gap=gap, dst_overlap=overlap),
        expressions(),
        st.sampled_from(ZONES),
        st.sampled_from(["shift", "skip"]),
        st.sampled_from(["first", "last", "both"]),
    ),
)
instants = st.integers(NOW - 20 * 365 * DAY, NOW + 20 * 365 * DAY)


@given(timings, instants, st.integers(0, 40 * DAY))
def test_times_rise_are_never_early_and_agree_with_each_other(made: Timing, after: int, beyond: int) -> None:
    made = msgspec.structs.replace(made, start=after + beyond // 2)
    runs = upcoming(made, after, after, 12)
    assert all(earlier < later for earlier, later in pairwise([after, *runs]))
    assert all(run >= after + beyond // 2 for run in runs)
    walked, at = list[int](), after
    while len(walked) < len(runs) and (at := next_after(made, at, after) or 0):
        walked.append(at)
    assert walked == runs
    if runs:
        assert upcoming(made, runs[0] - 1, after, 12) == runs


def test_a_time_years_ahead_is_found_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    rare = Timing(cron="0 0 29 2 *", tz="Europe/Vienna")
    next_after(rare, NOW, NOW)
    walks = count_steps(monkeypatch)
    assert upcoming(rare, NOW, NOW, 2) == [
        int(datetime(year, 2, 28, 23, tzinfo=UTC).timestamp()) * 1000 for year in (2028, 2032)
    ]
    assert len(walks) < 20


def test_the_search_for_a_time_that_never_comes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    missing_hour = Timing(cron="30 2 * 3 SUN#2", tz="America/New_York", dst_gap="skip")
    walks = count_steps(monkeypatch)
    assert next_after(missing_hour, NOW, NOW) is None
    assert 50 < len(walks) < 500


def count_steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every wall-clock time that a cron expression is searched for from now on."""
    steps: list[int] = []
    walk = Cron._walk

    def counted(self: Cron, wall: int, reverse: bool) -> Any:
        for found in walk(self, wall, reverse):
            steps.append(found)
            yield found

    monkeypatch.setattr(Cron, "_walk", counted)
    return steps


# -- jitter and ids


def test_jitter_is_the_same_in_every_process_and_spreads_over_its_whole_range() -> None:
    spread = Timing(every=MINUTE, jitter=9)
    delays = [due_at(spread, "nightly", NOW + number * MINUTE) - NOW - number * MINUTE for number in range(400)]
    assert set(delays) == set(range(10))
    assert delays == [due_at(spread, "nightly", NOW + number * MINUTE) - NOW - number * MINUTE for number in range(400)]
    assert delays[:5] == [9, 2, 1, 3, 2]  # pinned: processes of different versions must agree


def test_jitter_differs_between_schedules_and_is_off_by_default() -> None:
    spread = Timing(every=DAY, jitter=HOUR)
    assert len({due_at(spread, f"schedule-{number}", NOW) for number in range(50)}) > 45
    assert due_at(Timing(every=DAY), "nightly", NOW) == NOW


def test_the_id_of_an_occurrence_has_its_schedule_and_its_time() -> None:
    at = int(datetime(2026, 11, 15, 2, tzinfo=UTC).timestamp()) * 1000
    assert occurrence_id("nightly", at) == "nightly:20261115T020000Z"
    assert occurrence_id("nightly", at + 7) == "nightly:20261115T020000.007Z"


@given(st.text(min_size=1, max_size=300), st.text(min_size=1, max_size=300), st.integers(0, 253_402_300_799_998))
def test_any_schedule_gives_ids_that_a_job_may_have_and_no_two_the_same(one: str, two: str, at: int) -> None:
    assert check_id(occurrence_id(one, at))
    assert (occurrence_id(one, at) == occurrence_id(two, at)) == (one == two)
    assert occurrence_id(one, at) != occurrence_id(one, at + 1)
