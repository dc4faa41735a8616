"""Events: told in the commit that makes them true, in one order for everybody, from any cursor on."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from typing import Any

import pytest

from headrace.core.dead_letters.records import DeadLetterFilter
from headrace.core.events.event import Event
from headrace.core.events.log import EventGroup, events_of
from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.records import Claim, Filter
from headrace.core.jobs.states import State, Trigger
from headrace.engines.protocol.engine import Engine
from headrace.errors import InvalidJob
from headrace.runtime.event_log import last_cursor
from tests.conformance.events.reading import read_events
from tests.support.builders import (
    LATER,
    NOW,
    claim,
    claim_one,
    fail,
    firing,
    new_job,
    numbered,
    release,
    retry,
    row,
    schedule,
    settle,
    snooze,
    submit_and_claim,
    succeed,
    together,
)
from tests.support.engines import StoreUnderTest
from tests.support.waiting import PATIENCE


def stories(engine: Engine) -> dict[str | None, list[str]]:
    found: dict[str | None, list[str]] = {}
    for event in read_events(engine):
        found.setdefault(event.job_id, []).append(event.type)
    return found


def story(engine: Engine, job_id: str = "job") -> list[str]:
    return stories(engine).get(job_id, [])


def ran(*claims: Claim, at: int = NOW) -> list[EventGroup]:
    """What a worker tells of runs that began and succeeded since its last turn."""
    ids, attempts = [each.id for each in claims], [each.attempt for each in claims]
    return [EventGroup("ran", at, "default", "work", "w1", ids, attempts, [7] * len(ids), [5] * len(ids))]


def test_a_store_where_nothing_has_happened_tells_nothing(engine: Engine) -> None:
    assert engine.events.read(None, 10) == []
    assert last_cursor(engine.events) == "0"
    assert engine.events.trim(LATER, 0, 10) == 0


def test_a_job_is_told_from_its_beginning_to_its_end(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    engine.exchange([succeed(claimed, at=NOW + 5)], None, now=NOW + 5, groups=ran(claimed, at=NOW + 5))
    enqueued, started, completed = read_events(engine)
    assert (enqueued.type, enqueued.job_id, enqueued.queue, enqueued.task) == ("job.enqueued", "job", "default", "work")
    assert (started.type, started.attempt, started.worker, started.data) == ("job.started", 1, "w1", {"wait": 0.007})
    assert (completed.type, completed.data) == ("job.completed", {"run": 0.005})
    assert (completed.at - started.at).total_seconds() == 0.005


def test_what_was_refused_was_not_told(engine: Engine) -> None:
    good, late = (submit_and_claim(engine, name) for name in ("good", "late"))
    settle(engine, release(late))
    engine.exchange([succeed(good), succeed(late)], None, now=NOW, groups=ran(good, late))
    assert story(engine, "good") == ["job.enqueued", "job.started", "job.completed"]
    assert story(engine, "late") == ["job.enqueued", "job.released", "job.started", "job.lease_lost"]


def test_a_taken_id_is_told_once(engine: Engine) -> None:
    engine.insert([new_job("a")], now=NOW)
    engine.insert([new_job("a"), new_job("b"), new_job("b")], now=NOW)
    engine.insert([new_job("a")], now=NOW)
    assert stories(engine) == {"a": ["job.enqueued"], "b": ["job.enqueued"]}


def test_the_start_comes_before_what_follows_from_it(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    begun = [EventGroup("job.started", NOW, "default", "work", "w1", ["job"], [1], [0])]
    engine.exchange([retry(claimed, NOW + 100)], None, now=NOW, groups=begun)
    assert story(engine) == ["job.enqueued", "job.started", "job.attempt_failed", "job.retry_scheduled"]
    failed, again = read_events(engine)[-2:]
    assert failed.data["error"] == "ValueError"
    assert again.data == {"run_at": NOW + 100}


def test_a_start_is_told_without_any_outcome(engine: Engine) -> None:
    submit_and_claim(engine)
    begun = [EventGroup("job.started", NOW, "default", "work", "w1", ["job"], [1], [0])]
    engine.exchange([], None, now=NOW, groups=begun)
    assert story(engine) == ["job.enqueued", "job.started"]


@pytest.mark.parametrize(
    ("outcome", "types"),
    [
        (fail, ["job.attempt_failed", "job.failed", "dead.entered"]),
        (lambda c: snooze(c, LATER), ["job.scheduled"]),
        (release, ["job.released"]),
    ],
    ids=["fail", "snooze", "release"],
)
def test_whatever_becomes_of_a_run_is_told(engine: Engine, outcome: Any, types: list[str]) -> None:
    settle(engine, outcome(submit_and_claim(engine)))
    assert sorted(story(engine)[1:]) == sorted(types)


def test_what_is_done_by_hand_is_told(engine: Engine) -> None:
    engine.insert([new_job("job", state=State.SCHEDULED, run_at=LATER)], now=NOW)
    for event in (Trigger.PROMOTE_NOW, Trigger.CANCEL, Trigger.REVIVE, Trigger.DELETE):
        engine.queries.move(Filter(ids=("job",)), event, 1, now=NOW)
    assert story(engine) == ["job.scheduled", "job.promoted", "job.cancelled", "job.enqueued", "job.removed"]


def test_a_job_that_is_due_is_told_to_be_promoted(engine: Engine) -> None:
    engine.insert([new_job("job", state=State.SCHEDULED, run_at=NOW + 10)], now=NOW)
    claim_one(engine, now=NOW + 20)
    assert story(engine) == ["job.scheduled", "job.promoted"]


def test_a_child_is_told_that_all_it_waited_for_has_ended(engine: Engine) -> None:
    engine.insert(
        [new_job("parent"), new_job("child", state=State.WAITING)],
        edges=[Dependency("parent", "child", "cancel")],
        now=NOW,
    )
    claimed = claim_one(engine)
    engine.exchange([succeed(claimed)], None, now=NOW, groups=ran(claimed))
    assert story(engine, "parent") == ["job.enqueued", "job.started", "job.completed"]
    assert story(engine, "child") == ["job.enqueued", "job.dependencies_met"]
    order = [(event.job_id, event.type) for event in read_events(engine)]
    assert order.index(("parent", "job.completed")) < order.index(("child", "job.dependencies_met"))


def test_a_stall_tells_who_had_the_job_since_when(engine: Engine) -> None:
    submit_and_claim(engine)
    engine.reap(10, now=NOW + 10_000_000)
    stalled = read_events(engine)[-1]
    assert (stalled.type, stalled.worker, stalled.attempt) == ("job.stalled", "w1", 1)
    assert stalled.data["started_at"] == NOW


def test_pauses_and_schedules_are_told(engine: Engine) -> None:
    engine.queries.pause_queue("mail", True)
    engine.queries.pause_queue("mail", False)
    standing = schedule()
    engine.schedule_store.put(standing, new=True)
    engine.schedule_store.fire([firing(standing, new_job("tick-1"))], now=NOW)
    types = [event.type for event in read_events(engine)]
    assert types[:2] == ["queue.paused", "queue.resumed"]
    assert sorted(types[2:]) == ["job.enqueued", "schedule.fired"]
    assert {event.queue for event in read_events(engine)[:2]} == {"mail"}


def test_a_letter_is_told_when_it_is_opened_and_when_it_is_resolved(engine: Engine) -> None:
    settle(engine, fail(submit_and_claim(engine)))
    [dead_letter] = engine.dead_letters.find(DeadLetterFilter(latest_of=("job",)), 10)
    engine.dead_letters.update([dead_letter.id], "manually_resolved", by="ann", now=NOW)
    resolved = read_events(engine)[-1]
    assert (resolved.type, resolved.job_id) == ("dead.resolved", "job")
    assert resolved.data["id"] == dead_letter.id
    assert resolved.data["by"] == "ann"


def test_what_is_carried_over_is_not_told_again(store: StoreUnderTest, engine: Engine) -> None:
    settle(engine, fail(submit_and_claim(engine)))
    job_exports, dead_letters = (
        engine.transfer.export_jobs(0, 10),
        engine.dead_letters.find(DeadLetterFilter(), 10, oldest_first=True),
    )
    engine.queries.move(Filter(ids=("job",)), Trigger.DELETE, 1, now=NOW)
    engine.dead_letters.delete(DeadLetterFilter(statuses=("pending",), ended_before=LATER), 10)
    before = last_cursor(engine.events)
    engine.transfer.import_records(job_exports)
    engine.transfer.import_records(dead_letters)
    assert row(engine).state is State.FAILED
    assert read_events(engine, before) == []


def test_anybody_can_go_on_behind_any_event(engine: Engine) -> None:
    engine.insert(numbered(3), now=NOW)
    settle(engine, *[retry(each, NOW) for each in claim(engine)])
    engine.events.append([EventGroup("queue.paused", NOW, "a"), EventGroup("queue.resumed", NOW, "a")])
    everything = read_events(engine)
    assert len(everything) == 3 + 6 + 2
    for place, event in enumerate(everything):
        assert read_events(engine, event.cursor) == everything[place + 1 :]
    assert everything[-1].cursor == last_cursor(engine.events)


@pytest.mark.parametrize("cursor", ["", "x", "1-2-3", "-1", "1.", "1\n", 7, "9" * 30, "9" * 20, "1-" + "9" * 20])
def test_what_is_no_cursor_is_refused(engine: Engine, cursor: Any) -> None:
    with pytest.raises(InvalidJob, match="cursor"):
        engine.events.read(cursor, 1)


def test_old_pages_are_forgotten_a_few_at_a_time_but_never_the_newest(engine: Engine) -> None:
    for place in range(5):
        engine.events.append([EventGroup("queue.paused", NOW + place, f"q{place}")])
    assert engine.events.trim(NOW + 3, 1000, 2) == 2
    assert engine.events.trim(NOW + 3, 1000, 10) == 1
    assert [event.queue for event in read_events(engine)] == ["q3", "q4"]
    last = last_cursor(engine.events)
    assert engine.events.trim(NOW + 100, 0, 10) == 1
    assert last_cursor(engine.events) == last
    assert engine.events.trim(NOW + 100, 0, 10) == 0


def test_pages_beyond_so_many_events_are_forgotten(engine: Engine) -> None:
    for place in range(5):
        engine.insert(numbered(10, f"p{place}-"), now=NOW)
    assert engine.events.trim(0, 25, 10) == 2
    assert len(read_events(engine)) == 30
    assert engine.events.trim(0, 25, 10) == 0


def test_those_who_write_at_once_lose_nothing_and_keep_an_order(engine: Engine) -> None:
    def work(thread: int) -> None:
        for number in range(10):
            job_id = f"{thread}-{number}"
            engine.insert([new_job(job_id, queue=f"q{thread}")], now=NOW)
            engine.queries.move(Filter(ids=(job_id,)), Trigger.CANCEL, 1, now=NOW)

    seen: list[Event] = []
    deadline = time.monotonic() + PATIENCE
    workers = together(4, lambda thread: work(thread) if thread else _follow(engine, seen, 60, deadline))
    assert len(workers) == 4
    assert len({(event.job_id, event.type) for event in seen}) == len(seen) == 60
    for thread in range(1, 4):
        mine = [(event.job_id, event.type) for event in seen if event.queue == f"q{thread}"]
        expected = [(f"{thread}-{n}", kind) for n in range(10) for kind in ("job.enqueued", "job.cancelled")]
        assert mine == expected


def _follow(engine: Engine, seen: list[Event], count: int, deadline: float) -> None:
    cursor = None
    while len(seen) < count and time.monotonic() < deadline:
        for page, groups in engine.events.read(cursor, 3):
            seen += events_of(page, groups, cursor)
            cursor = page


@pytest.mark.engines("postgres")
def test_tables_that_were_restored_from_another_server_are_followed_from_then_on(
    store: StoreUnderTest, engine: Engine
) -> None:
    import psycopg  # as below

    engine.insert(numbered(3), now=NOW)
    address, _, options = store.address.partition("?")
    with psycopg.connect(address) as db:  # as if it had made very many transactions
        schema = options.partition("schema=")[2]
        db.execute(f"UPDATE {schema}.headrace_events SET xid = '1000000000000'")
    for place in range(4):
        engine.events.append([EventGroup("queue.paused", NOW, f"q{place}")])
    assert [event.queue for event in read_events(engine)] == ["q0", "q1", "q2", "q3"]
    for cursor in ("1000000000000-1", "1000000000000-1.2"):
        assert [event.queue for event in read_events(engine, cursor)] == ["q0", "q1", "q2", "q3"]
    assert engine.events.trim(0, 4, 2) == 1, "what is of there goes first, and pushes nothing out"
    assert engine.events.trim(0, 4, 2) == 0
    assert len(read_events(engine)) == 4


@pytest.mark.engines("postgres")
def test_a_page_that_is_committed_late_is_not_passed_over(store: StoreUnderTest, engine: Engine) -> None:
    import psycopg  # a run on the other engines alone needs no driver

    engine.insert([new_job("first")], now=NOW)
    with psycopg.connect(store.address.partition("?")[0]) as slow:
        engine.joined.insert(slow, [new_job("slow")])
        engine.insert([new_job("quick")], now=NOW)
        assert [event.job_id for event in read_events(engine)] == ["first"], "what is behind an open one is held back"
        assert last_cursor(engine.events) == read_events(engine)[-1].cursor
        slow.commit()
    assert sorted(str(event.job_id) for event in read_events(engine)) == ["first", "quick", "slow"]


@pytest.mark.engines("sqlite")
def test_what_is_rolled_back_was_never_told(store: StoreUnderTest, engine: Engine) -> None:
    engine.insert([new_job("first")], now=NOW)
    before = last_cursor(engine.events)
    with contextlib.closing(sqlite3.connect(store.address)) as db:
        engine.joined.insert(db, [new_job("never")])
        db.rollback()
        engine.joined.insert(db, [new_job("ever")])
        db.commit()
    assert [event.job_id for event in read_events(engine, before)] == ["ever"]


def test_pages_are_read_from_either_end(engine: Engine) -> None:
    for place in range(3):
        engine.events.append([EventGroup("queue.paused", NOW, f"q{place}")])
    pages = engine.events.read(None, 10)
    assert len(pages) == 3
    assert engine.events.read(None, 10, newest_first=True) == pages[::-1]
    assert engine.events.read(None, 2, newest_first=True) == pages[:0:-1]
    assert engine.events.read(pages[0][0], 10, newest_first=True) == pages[:0:-1]
    assert engine.events.read(pages[2][0], 10, newest_first=True) == []
