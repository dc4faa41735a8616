"""get, find and finished: the jobs that are meant, all of them, none twice."""

from __future__ import annotations

import pytest

from headrace.core.jobs.records import Filter, JobRow
from headrace.core.jobs.states import FINAL, State, Trigger
from headrace.engines.protocol.engine import Engine
from headrace.errors import InvalidJob
from tests.support.builders import EVERYTHING, NOW, bring, new_job, only, row, settle, submit_and_claim, succeed


def names(jobs: list[JobRow]) -> list[str]:
    return [job.id for job in jobs]


def found(engine: Engine, which: Filter) -> list[str]:
    return names(engine.queries.find(which, 100).jobs)


@pytest.fixture
def full(engine: Engine) -> Engine:
    """A store with jobs that differ in every field a filter knows."""
    engine.insert(
        [
            new_job("a", queue="mail", task="send", tags=("red", "big"), created_at=NOW - 30, payload='["needle"]'),
            new_job("b", queue="mail", task="sort", tags=("red",), created_at=NOW - 20, run_at=NOW + 9),
            new_job("c", queue="web", task="send", created_at=NOW - 10, metadata='{"k":"needle"}'),
            new_job("needle d", queue="web", task="fetch needles", tags=("blue",), created_at=NOW, priority=9),
        ],
        now=NOW,
    )
    engine.exchange([], only("web", 1, worker="w7"), now=NOW)
    return engine


FILTERS = [
    (EVERYTHING, ["needle d", "c", "b", "a"]),
    (Filter(ids=("a", "c", "ghost")), ["c", "a"]),
    (Filter(ids=("ghost",)), []),
    (Filter(states=(State.SCHEDULED,)), ["b"]),
    (Filter(states=(State.SCHEDULED, State.PENDING)), ["c", "b", "a"]),
    (Filter(states=(State.RUNNING,)), ["needle d"]),
    (Filter(states=(State.FAILED, State.CANCELLED, State.COMPLETED, State.WAITING)), []),
    (Filter(queue="mail"), ["b", "a"]),
    (Filter(queue="mai"), []),
    (Filter(queue=""), []),
    (Filter(task="send"), ["c", "a"]),
    (Filter(tag="red"), ["b", "a"]),
    (Filter(tag="big"), ["a"]),
    (Filter(tag="re"), []),
    (Filter(worker="w7"), ["needle d"]),
    (Filter(worker="w8"), []),
    (Filter(text="needle"), ["needle d", "c", "a"]),
    (Filter(text="fetch"), ["needle d"]),
    (Filter(text="%"), []),
    (Filter(text="_"), []),
    (Filter(since=NOW - 20), ["needle d", "c", "b"]),
    (Filter(until=NOW - 20), ["a"]),
    (Filter(since=NOW - 20, until=NOW), ["c", "b"]),
    (Filter(queue="mail", task="send"), ["a"]),
    (Filter(queue="web", tag="red"), []),
    (Filter(tag="red", states=(State.SCHEDULED,)), ["b"]),
    (Filter(text="needle", queue="web", states=(State.PENDING,)), ["c"]),
    (
        Filter(
            ids=("a", "b"),
            states=(State.PENDING,),
            queue="mail",
            task="send",
            tag="big",
            text="needle",
            since=NOW - 30,
            until=NOW - 29,
        ),
        ["a"],
    ),
]


@pytest.mark.parametrize(("which", "expected"), FILTERS)
def test_find_and_count_and_move_mean_the_same_jobs(full: Engine, which: Filter, expected: list[str]) -> None:
    assert found(full, which) == expected
    assert full.queries.count(which).jobs == len(expected)
    cancelled = full.queries.move(which, Trigger.CANCEL, 100, now=NOW)  # all of these may be cancelled
    assert sorted(cancelled) == sorted(expected)


def test_the_reason_of_a_failure_is_searched_too(engine: Engine) -> None:
    bring(engine, State.FAILED)
    assert found(engine, Filter(text="permanent")) == ["job"]


@pytest.mark.parametrize(
    "unreadable",
    ['{"$sealed":["2026","bm9uY2U=","bmVlZGxlneedle"]}', '{"$stored":["0/2026/needle.call.0",1,"needle"]}'],
    ids=["encrypted", "in a payload store"],
)
def test_a_sealed_call_says_nothing_whatever_it_looks_like(engine: Engine, unreadable: str) -> None:
    engine.insert([new_job("sealed", payload=unreadable), new_job("clear", payload='["needle"]')], now=NOW)
    engine.insert([new_job("told", payload=unreadable, metadata='{"k":"needle"}')], now=NOW)
    for which in (Filter(text="needle"), Filter(text="needle", queue="default")):
        assert sorted(found(engine, which)) == ["clear", "told"]
        assert engine.queries.count(which).jobs == 2
    assert sorted(engine.queries.move(Filter(text="needle"), Trigger.CANCEL, 100, now=NOW)) == ["clear", "told"]


@pytest.mark.parametrize("state", State)
def test_every_state_can_be_asked_for_alone(engine: Engine, state: State) -> None:
    for number, each in enumerate(State):
        bring(engine, each, each.value, priority=number)
    assert found(engine, Filter(states=(state,))) == [state.value]


def test_newest_first_means_by_submission_not_by_name_or_priority(engine: Engine) -> None:
    for name in ("m", "z", "a"):
        engine.insert([new_job(name, priority=ord(name) % 7)], now=NOW)
    assert found(engine, EVERYTHING) == ["a", "z", "m"]


# -- pages


def pages_of(engine: Engine, which: Filter, size: int) -> list[list[str]]:
    pages, cursor = [], None
    while True:
        page = engine.queries.find(which, size, cursor)
        pages.append(names(page.jobs))
        assert len(pages) < 100, "the pages never end"
        cursor = page.cursor
        if cursor is None:
            return pages


@pytest.mark.parametrize("size", [1, 2, 3, 9, 10, 11])
def test_pages_leave_no_gap_and_repeat_nothing(engine: Engine, size: int) -> None:
    engine.insert([new_job(f"j{number}", queue="ab"[number % 2]) for number in range(20)], now=NOW)
    pages = pages_of(engine, Filter(queue="a"), size)
    assert [name for page in pages for name in page] == [f"j{number}" for number in range(18, -1, -2)]
    assert all(len(page) == size for page in pages[:-1])
    assert pages[-1], "a cursor led to an empty page"


def test_a_page_that_holds_all_has_no_cursor(engine: Engine) -> None:
    assert engine.queries.find(EVERYTHING, 5).cursor is None
    engine.insert([new_job(f"j{number}") for number in range(5)], now=NOW)
    assert engine.queries.find(EVERYTHING, 5).cursor is None


def test_jobs_that_come_and_go_between_pages_disturb_no_other(engine: Engine) -> None:
    engine.insert([new_job(f"j{number}") for number in range(6)], now=NOW)
    first = engine.queries.find(EVERYTHING, 2)
    engine.insert([new_job("newcomer")], now=NOW)
    engine.queries.move(Filter(ids=("j4", "j3")), Trigger.DELETE, 9, now=NOW)  # j4 is the job the cursor points at
    second = engine.queries.find(EVERYTHING, 2, first.cursor)
    assert (names(first.jobs), names(second.jobs)) == (["j5", "j4"], ["j2", "j1"])


def test_pages_of_a_tag_and_of_some_states_are_whole_too(engine: Engine) -> None:
    engine.insert([new_job(f"j{number}", tags=("t",) if number % 3 else ()) for number in range(12)], now=NOW)
    engine.queries.move(Filter(ids=("j1", "j5")), Trigger.CANCEL, 9, now=NOW)
    which = Filter(tag="t", states=(State.PENDING, State.CANCELLED))
    assert [name for page in pages_of(engine, which, 3) for name in page] == [
        f"j{number}" for number in range(11, -1, -1) if number % 3
    ]


@pytest.mark.parametrize(
    "cursor", ["", "x", "-1", "1.5", " 1", "1; DROP TABLE headrace_jobs", "9" * 30, "0x10", "None"]
)
def test_a_cursor_nobody_gave_out_is_refused_in_words(engine: Engine, cursor: str) -> None:
    engine.insert([new_job("job")], now=NOW)
    with pytest.raises(InvalidJob, match="cursor"):
        engine.queries.find(EVERYTHING, 5, cursor)


# -- get and finished


def test_get_returns_the_jobs_that_exist(engine: Engine) -> None:
    engine.insert([new_job("a"), new_job("b"), new_job("c")], now=NOW)
    assert sorted(names(engine.queries.get(["c", "ghost", "a", "a"]))) == ["a", "c"]
    assert engine.queries.get([]) == []


def test_get_sees_what_another_engine_committed(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    assert row(engine).state is State.RUNNING
    settle(engine, succeed(claimed))
    assert row(engine).state is State.COMPLETED


@pytest.mark.parametrize("state", State)
def test_finished_are_the_final_states(engine: Engine, state: State) -> None:
    bring(engine, state)
    assert engine.queries.finished(["job"]) == ({"job"} if state in FINAL else set())


def test_what_does_not_exist_counts_as_finished_so_that_nobody_waits_for_it(engine: Engine) -> None:
    engine.insert([new_job("open")], now=NOW)
    assert engine.queries.finished({"open", "ghost"}) == {"ghost"}
    assert engine.queries.finished([]) == set()
