"""The fired and skipped occurrences of a schedule that is checked on time, late, or after a long outage.

The oracle lists every occurrence and sorts it by the rules; the code must come to the same without the list.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.schedules.cron import Cron
from headrace.core.schedules.schedule import GRACE, CatchUp, Due, Timing, due, due_at, next_after, upcoming

NOW = 1_794_765_600_000  # 2026-11-15 18:00 UTC
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
YEAR = 365 * DAY
HOURLY = Timing(cron="@hourly")
CATCH_UPS: tuple[CatchUp, ...] = ("none", "latest", "limited", "all")


def hours_ago(*numbers: int) -> list[int]:
    return [NOW - number * HOUR for number in numbers]


def looked_at(made: Timing, since: int, now: int = NOW, fired: int = 0, **changes: Any) -> Due:
    return due(msgspec.structs.replace(made, **changes), "hourly", since, now, fired, 0)


# -- on time


@pytest.mark.parametrize("catch_up", CATCH_UPS)
@pytest.mark.parametrize("late", [0, 1, GRACE])
def test_one_that_is_on_time_or_merely_late_fires_whatever_the_rule(catch_up: CatchUp, late: int) -> None:
    answer = looked_at(HOURLY, NOW, NOW + late, catch_up=catch_up, catch_up_window=0, catch_up_limit=1)
    assert answer == Due([NOW], [], 0, NOW + HOUR)


@pytest.mark.parametrize("catch_up", CATCH_UPS)
def test_none_is_ever_early(catch_up: CatchUp) -> None:
    assert looked_at(HOURLY, NOW, NOW - 1, catch_up=catch_up) == Due([], [], 0, NOW)


def test_with_jitter_one_is_due_when_its_jitter_is_over() -> None:
    spread = Timing(cron="@hourly", jitter=30 * MINUTE)
    due_then = due_at(spread, "hourly", NOW)
    assert NOW < due_then <= NOW + 30 * MINUTE
    assert looked_at(spread, NOW, due_then - 1) == Due([], [], 0, NOW)
    assert looked_at(spread, NOW, due_then) == Due([NOW], [], 0, NOW + HOUR)


def test_a_single_time_fires_and_is_over() -> None:
    assert looked_at(Timing(at=NOW), NOW) == Due([NOW], [], 0, None)
    assert looked_at(Timing(at=NOW), NOW, NOW + DAY) == Due([NOW], [], 0, None)
    assert looked_at(Timing(at=NOW, catch_up="none"), NOW, NOW + DAY) == Due([], [NOW], 0, None)


# -- late


def test_none_fires_only_what_is_not_late_yet_and_skips_the_rest() -> None:
    assert looked_at(HOURLY, NOW - 2 * HOUR, catch_up="none") == Due([NOW], hours_ago(2, 1), 0, NOW + HOUR)
    missed = looked_at(HOURLY, NOW - 2 * HOUR, NOW + GRACE + 1, catch_up="none")
    assert missed == Due([], hours_ago(2, 1, 0), 0, NOW + HOUR)


def test_latest_fires_the_newest_however_late() -> None:
    answer = looked_at(HOURLY, NOW - 3 * HOUR, NOW + 30 * MINUTE, catch_up="latest")
    assert answer == Due([NOW], hours_ago(3, 2, 1), 0, NOW + HOUR)


def test_limited_fires_the_newest_few() -> None:
    answer = looked_at(HOURLY, NOW - 5 * HOUR, catch_up_limit=3)
    assert answer == Due(hours_ago(2, 1, 0), hours_ago(5, 4, 3), 0, NOW + HOUR)
    by_default = looked_at(HOURLY, NOW - 12 * HOUR)
    assert by_default == Due(hours_ago(*range(9, -1, -1)), hours_ago(12, 11, 10), 0, NOW + HOUR)


def test_limited_looks_back_over_its_window_and_no_further() -> None:
    answer = looked_at(HOURLY, NOW - 5 * HOUR, catch_up_window=2 * HOUR)
    assert answer == Due(hours_ago(2, 1, 0), hours_ago(5, 4, 3), 0, NOW + HOUR)


def test_limited_never_leaves_out_the_newest() -> None:
    weekly = Timing(every=7 * DAY, start=NOW)
    only_one = looked_at(weekly, NOW, NOW + 3 * DAY)
    assert only_one == Due([NOW], [], 0, NOW + 7 * DAY)
    the_newest = looked_at(weekly, NOW, NOW + 10 * DAY)
    assert the_newest == Due([NOW + 7 * DAY], [NOW], 0, NOW + 14 * DAY)


def test_all_fires_every_one_a_thousand_at_a_time() -> None:
    every_second = Timing(every=SECOND, start=NOW, catch_up="all")
    fired, occurrence, calls = list[int](), NOW, 0
    while occurrence <= NOW + 2500 * SECOND:
        answer = looked_at(every_second, occurrence, NOW + 2500 * SECOND)
        assert len(answer.fire) <= 1000
        assert (answer.skip, answer.skipped_more) == ([], 0)
        assert answer.next_occurrence is not None
        fired, occurrence, calls = fired + answer.fire, answer.next_occurrence, calls + 1
    assert fired == [NOW + number * SECOND for number in range(2501)]
    assert calls == 3


# -- limit and end


@pytest.mark.parametrize(
    ("catch_up", "fires"),
    [("none", [0]), ("latest", [0]), ("limited", [1, 0]), ("all", [5, 4])],
)
def test_the_limit_holds_while_catching_up(catch_up: CatchUp, fires: list[int]) -> None:
    answer = looked_at(HOURLY, NOW - 5 * HOUR, fired=8, limit=10, catch_up=catch_up)
    assert answer.fire == hours_ago(*fires)
    assert answer.next_occurrence == (None if len(fires) == 2 else NOW + HOUR)


def test_the_last_run_of_a_limit_is_followed_by_none() -> None:
    assert looked_at(HOURLY, NOW, fired=9, limit=10) == Due([NOW], [], 0, None)
    assert looked_at(HOURLY, NOW, fired=10, limit=10) == Due([], [], 0, None)


def test_skipped_runs_do_not_count_for_the_limit() -> None:
    answer = looked_at(HOURLY, NOW, NOW + GRACE + 1, fired=9, limit=10, catch_up="none")
    assert answer == Due([], [NOW], 0, NOW + HOUR)


def test_nothing_fires_after_the_end_even_when_looked_at_late() -> None:
    answer = looked_at(HOURLY, NOW - 2 * HOUR, NOW, end=NOW - HOUR)
    assert answer == Due(hours_ago(2, 1), [], 0, None)


def test_a_stored_time_counts_even_if_the_rules_no_longer_name_it() -> None:
    stored = NOW - 90 * MINUTE
    assert looked_at(HOURLY, stored, NOW) == Due([stored, *hours_ago(1, 0)], [], 0, NOW + HOUR)
    assert looked_at(HOURLY, stored, NOW, catch_up="all") == Due([stored, *hours_ago(1, 0)], [], 0, NOW + HOUR)
    many = looked_at(HOURLY, NOW - 200 * HOUR - 1, NOW, catch_up="latest")
    assert many.skipped_more == 1 + 200 - 100


# -- after a long outage


@pytest.mark.parametrize("catch_up", CATCH_UPS)
@pytest.mark.parametrize(
    "made",
    [Timing(every=SECOND), Timing(cron="* * * * * *"), Timing(cron="* * * * * *", tz="America/New_York")],
    ids=["interval", "utc", "zone"],
)
def test_a_year_of_missed_seconds_takes_few_steps(
    monkeypatch: pytest.MonkeyPatch, made: Timing, catch_up: CatchUp
) -> None:
    steps = 0
    walk, has_day = Cron._walk, Cron._has_day

    def counted_walk(self: Cron, wall: int, reverse: bool) -> Any:
        nonlocal steps
        for found in walk(self, wall, reverse):
            steps += 1
            yield found

    def counted_day(self: Cron, number: int) -> bool:
        nonlocal steps
        steps += 1
        return has_day(self, number)

    looked_at(made, NOW - DAY)
    monkeypatch.setattr(Cron, "_walk", counted_walk)
    monkeypatch.setattr(Cron, "_has_day", counted_day)
    answer = looked_at(made, NOW - YEAR, catch_up=catch_up)
    assert steps < 1500
    if catch_up == "all":
        assert answer.fire == [NOW - YEAR + number * SECOND for number in range(1000)]
        assert answer.next_occurrence == NOW - YEAR + 1000 * SECOND
        return
    fires = 10 if catch_up == "limited" else 1
    assert answer.fire == [NOW - number * SECOND for number in range(fires - 1, -1, -1)]
    assert answer.skip == [NOW - number * SECOND for number in range(fires + 99, fires - 1, -1)]
    assert answer.skipped_more == YEAR // SECOND + 1 - fires - 100
    assert answer.next_occurrence == NOW + SECOND


# -- against the oracle


def expected(made: Timing, schedule_id: str, first: int, now: int, fired: int, anchor: int) -> Due:
    left = 10**9 if made.limit is None else made.limit - fired
    if left <= 0:
        return Due([], [], 0, None)
    every = [first, *upcoming(made, first, anchor, 3000)]
    handled = []
    for one in every:
        if due_at(made, schedule_id, one) > now:
            break
        handled.append(one)
    if not handled:
        return Due([], [], 0, first)
    in_time = now - due_at(made, schedule_id, handled[-1]) <= GRACE
    in_window = [one for one in handled[:-1] if one >= now - made.catch_up_window] + handled[-1:]
    fire = {
        "none": handled[-1:] if in_time else [],
        "latest": handled[-1:],
        "limited": in_window[-min(made.catch_up_limit, left) :],
        "all": handled[: min(left, 1000)],
    }[made.catch_up]
    rest = [] if made.catch_up == "all" else [one for one in handled if one not in fire]
    last = fire[-1] if made.catch_up == "all" else handled[-1]
    over = made.limit is not None and fired + len(fire) >= made.limit
    return Due(fire, rest[-100:], len(rest[:-100]), None if over else next_after(made, last, anchor))


outages = st.integers(0, 1400)


@pytest.mark.slow
@given(
    st.sampled_from([Timing(every=7 * MINUTE), Timing(cron="*/7 * * * *", tz="Europe/Vienna")]),
    st.sampled_from(CATCH_UPS),
    outages,
    st.integers(0, 7 * MINUTE),
    st.sampled_from([0, 1, MINUTE, 7 * MINUTE, 20 * MINUTE]),
    st.one_of(st.none(), st.integers(1, 30)),
    st.one_of(st.none(), outages),
    st.integers(1, 40),
    st.integers(0, 300 * MINUTE),
)
def test_what_is_due_agrees_with_the_oracle(
    made: Timing,
    catch_up: CatchUp,
    missed: int,
    late: int,
    jitter: int,
    limit: int | None,
    end: int | None,
    catch_up_limit: int,
    window: int,
) -> None:
    anchor = NOW - 30 * DAY
    first = next_after(made, NOW, anchor)
    assert first is not None
    made = msgspec.structs.replace(
        made,
        catch_up=catch_up,
        jitter=jitter,
        limit=limit,
        end=None if end is None else first + end * 7 * MINUTE,
        catch_up_limit=catch_up_limit,
        catch_up_window=window,
    )
    now = first + missed * 7 * MINUTE + late
    answer = due(made, "some", first, now, 3, anchor)
    assert answer == expected(made, "some", first, now, 3, anchor)
    assert all(due_at(made, "some", one) <= now for one in answer.fire + answer.skip)
