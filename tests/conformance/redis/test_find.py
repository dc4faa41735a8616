"""Redis: a search in many strides, over gaps and out of time, finds what one look at everything would."""

from __future__ import annotations

from random import Random

import pytest

from headrace.core.jobs.records import Filter, JobRow
from headrace.core.jobs.states import State, Trigger
from headrace.core.jobs.transfer import JobExport
from headrace.engines.protocol.engine import Engine
from headrace.engines.redis import queries
from headrace.engines.redis.engine import RedisEngine
from headrace.engines.redis.script_loader import load
from tests.conformance.jobs.test_find_anything import found, matches, population, questions
from tests.support.builders import EVERYTHING, NOW, new_job
from tests.support.engines import StoreUnderTest

pytestmark = pytest.mark.engines("redis")
HOUR = 3_600_000


def stored(engine: Engine, seed: int) -> list[JobRow]:
    jobs = population(Random(seed))
    engine.transfer.import_jobs([JobExport(job, [], []) for job in jobs])
    return jobs


def check(engine: Engine, jobs: list[JobRow], which: Filter) -> None:
    expected = [job.id for job in reversed(jobs) if matches(job, which)]
    assert found(engine, which, 30, None) == expected, which
    assert found(engine, which, 7, 40) == expected, which
    assert engine.queries.count(which) == len(expected), which


@pytest.fixture
def in_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts are out of time after every handful."""
    walk = load("jobs/search_jobs")
    hasty = walk.text.replace("TIME_LIMIT = 5000", "TIME_LIMIT = -1").replace(
        "FETCH_BATCH_SIZE = 50", "FETCH_BATCH_SIZE = 3"
    )
    assert hasty != walk.text
    walk.text = hasty
    monkeypatch.setattr(queries, "_search_jobs", walk)


@pytest.mark.usefixtures("in_haste")
def test_a_script_that_is_out_of_time_leaves_nothing_out(engine: Engine) -> None:
    jobs = stored(engine, 1)
    for which in (EVERYTHING, Filter(text="needle"), *questions(jobs, Random(2))):
        check(engine, jobs, which)


def test_a_search_passes_over_the_numbers_of_jobs_that_are_gone(engine: Engine) -> None:
    jobs = stored(engine, 3)
    jobs += stored(engine, 4)
    going = {job.id for job in jobs[5:180] if job.state is not State.RUNNING and not job.id.endswith("7")}
    engine.queries.move(Filter(ids=tuple(going)), Trigger.DELETE, 1000, now=NOW)
    left = [job for job in jobs if job.id not in going]
    assert 0 < len(left) < len(jobs) / 2
    for which in (EVERYTHING, Filter(text="needle"), *questions(left, Random(5))):
        check(engine, left, which)


def test_strides_and_conditions_of_many_jobs_are_put_together_in_order(engine: Engine) -> None:
    def tags(number: int) -> tuple[str, ...]:
        return ("even",) if number % 2 == 0 else ("old",) if number < 40 else ()

    names = [f"j{number:04}" for number in range(2600)]
    engine.insert([new_job(name, queue="ab"[n % 3 == 0], tags=tags(n)) for n, name in enumerate(names)], now=NOW)
    engine.queries.move(Filter(tag="old"), Trigger.CANCEL, 100, now=NOW)
    newest_first = names[::-1]

    def all_of(which: Filter) -> list[str]:
        return [job.id for job in engine.queries.find(which, 10_000).jobs]

    assert all_of(EVERYTHING) == newest_first
    assert all_of(Filter(tag="even", queue="b")) == [name for name in newest_first if int(name[1:]) % 6 == 0]
    assert all_of(Filter(states=(State.CANCELLED, State.RUNNING))) == [f"j{n:04}" for n in range(39, 0, -2)]
    assert all_of(Filter(states=(State.CANCELLED,), queue="b")) == [
        "j0039",
        "j0033",
        "j0027",
        "j0021",
        "j0015",
        "j0009",
        "j0003",
    ]
    assert all_of(Filter(states=(State.PENDING,), tag="old")) == []
    assert engine.queries.count(Filter(states=(State.PENDING,), tag="even", queue="b")) == 434


def test_a_search_ends_where_it_was_told_to(engine: Engine) -> None:
    engine.insert([new_job(f"j{number:04}", payload='["hay"]') for number in range(2000)], now=NOW)
    page = engine.queries.find(Filter(text="needle"), 10, None, 400)
    assert page.jobs == []
    assert int(page.cursor or 0) == 2000 - 400 + 1


def hours(engine: Engine) -> Filter:
    """Five hours of thirty jobs each, and a filter that means two of them and parts of two others."""
    for hour in range(5):
        at = NOW - NOW % HOUR + hour * HOUR
        engine.insert([new_job(f"{hour}-{number}", created_at=at + number) for number in range(30)], now=at)
    return Filter(since=NOW - NOW % HOUR + 10, until=NOW - NOW % HOUR + 3 * HOUR + 5)


def names_of(*parts: tuple[int, int, int]) -> list[str]:
    return [f"{hour}-{number}" for hour, last, first in parts for number in range(last, first - 1, -1)]


def test_jobs_of_other_hours_do_not_match(engine: Engine) -> None:
    which = hours(engine)
    expected = names_of((3, 4, 0), (2, 29, 0), (1, 29, 0), (0, 29, 10))
    assert found(engine, which, 4, 100) == found(engine, which, 100, None) == expected
    assert engine.queries.count(which) == len(expected)


@pytest.mark.usefixtures("in_haste")
def test_jobs_of_whole_hours_are_counted_once_though_others_take_too_long(engine: Engine) -> None:
    which = hours(engine)
    assert engine.queries.count(which) == 85
    assert engine.queries.count_up_to(which, 1000).jobs == 85


def test_jobs_of_whole_hours_that_are_gone_are_not_counted(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "_MIN_SCAN_SIZE", 20)
    monkeypatch.setattr(queries, "_SCAN_SIZE", 20)
    which = hours(engine)
    engine.queries.move(Filter(ids=("2-7", "1-0", "0-29", "3-1", "4-4")), Trigger.DELETE, 10, now=NOW)
    assert engine.queries.count(which) == 81
    assert engine.queries.count(Filter(since=which.since)) == 135


def test_an_hour_that_goes_on_is_seldom_written_and_found_whole(store: StoreUnderTest) -> None:
    engine = store.open()
    assert isinstance(engine, RedisEngine)
    begin, told = NOW - NOW % HOUR, set()
    for number in range(40):
        hour = begin if number < 30 else begin + HOUR
        engine.insert([new_job(f"j{number}", created_at=hour + number)], now=NOW)
        told.update(engine.connections.command("HVALS", f"{{{engine.prefix}}}:hours"))
    engine.insert([new_job("late", created_at=begin), new_job("first", created_at=begin - HOUR)], now=NOW)
    assert len(told) == 4  # each hour as it began, and once as it went on
    assert found(engine, Filter(since=begin, until=begin + HOUR), 30, None) == ["late", *_down(29, 0)]
    assert found(engine, Filter(since=begin + HOUR), 30, None) == _down(39, 30)
    assert found(engine, Filter(until=begin), 30, None) == ["first"]


def _down(last: int, first: int) -> list[str]:
    return [f"j{number}" for number in range(last, first - 1, -1)]
