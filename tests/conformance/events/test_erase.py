"""Erasing the events of jobs: their ids and data are gone, and every other event and every place stays."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.events.event import Event
from headrace.core.events.log import EventGroup
from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import Trigger
from headrace.engines.protocol.engine import Engine
from headrace.engines.redis import events
from headrace.engines.redis.events import RedisEventStore
from headrace.engines.redis.script_loader import Script
from tests.conformance.events.reading import read_events
from tests.support.builders import NOW, claim, new_job, retry, settle, submit_and_claim, succeed

MARK = "ann@example.com"


def tell(engine: Engine, job_id: str, text: str, at: int = NOW) -> None:
    data = [{"progress": text}, {"progress": "of another"}]
    engine.events.append(
        [EventGroup("job.progress", at, "default", "work", "w1", [job_id, "other"], [1, 1], data=data)]
    )


def outline(events: list[Event]) -> list[tuple[str, str, object, object]]:
    return [(event.cursor, event.type, event.at, event.task) for event in events]


def test_the_events_of_a_job_keep_only_their_place(engine: Engine) -> None:
    claimed = submit_and_claim(engine, "job")
    settle(engine, retry(claimed, NOW + 1, message=f"no mail to {MARK}"))
    tell(engine, "job", MARK)
    before = read_events(engine)
    count = sum(event.job_id == "job" for event in before)
    assert engine.events.erase(["job", "unknown"]) == count
    after = read_events(engine)
    assert outline(after) == outline(before)
    assert "job" not in {event.job_id for event in after}
    assert MARK not in str(after)
    assert [event for event in after if event.job_id] == [event for event in before if event.job_id != "job"]
    assert engine.events.erase(["job"]) == 0


def test_nothing_is_erased_for_no_jobs(engine: Engine) -> None:
    assert engine.events.erase([]) == engine.events.erase(["job"]) == 0
    submit_and_claim(engine, "job")
    before = read_events(engine)
    assert engine.events.erase([]) == engine.events.erase(["other"]) == 0
    assert read_events(engine) == before


def test_a_reader_continues_behind_any_event_of_an_erased_page(engine: Engine) -> None:
    tell(engine, "job", MARK)
    first = read_events(engine)[0]
    engine.events.erase(["job"])
    assert [(event.job_id, event.data) for event in read_events(engine, first.cursor)] == [
        ("other", {"progress": "of another"})
    ]


def test_what_comes_after_an_erasure_is_read_and_trimmed(engine: Engine) -> None:
    for number in range(450):  # more than one step of pages
        tell(engine, f"job{number}", MARK, at=NOW + number)
    cursor = read_events(engine)[-1].cursor
    assert engine.events.erase([f"job{number}" for number in range(450)]) == 450
    assert MARK not in str(read_events(engine))
    tell(engine, "later", "new")
    assert [event.job_id for event in read_events(engine, cursor)] == ["later", "other"]
    while engine.events.trim(NOW + 400, 1_000_000, 100) == 100:
        pass
    assert len(read_events(engine)) == 2 * 51
    while engine.events.trim(0, 4, 100) == 100:
        pass
    assert len(read_events(engine)) == 4


def test_a_success_that_the_store_refused_stays_refused(engine: Engine) -> None:
    good, late = (submit_and_claim(engine, name) for name in ("good", "late"))
    engine.queries.move(Filter(ids=("late",)), Trigger.CANCEL, 1, now=NOW)
    ids = ["good", "late"]
    ran = [EventGroup("ran", NOW, "default", "work", "w1", ids, [1, 1], [7, 7], [5, 5])]
    engine.exchange([succeed(good), succeed(late)], None, now=NOW, groups=ran)
    before = read_events(engine)
    assert engine.events.erase(["late"])
    assert outline(read_events(engine)) == outline(before)
    assert [event.job_id for event in read_events(engine) if event.type == "job.completed"] == ["good"]
    assert engine.events.erase(["good"])
    assert outline(read_events(engine)) == outline(before)


@pytest.mark.engines("redis")
def test_an_erasure_that_another_one_overtakes_begins_anew(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    store = engine.events
    assert isinstance(store, RedisEventStore)
    tell(engine, "one", MARK)
    tell(engine, "two", MARK)
    put_copy_in_place = events._use_copy
    was_overtaken: list[bool] = []

    def run(script: Script, *args: str | int, **how: Any) -> Any:
        if script is put_copy_in_place and not was_overtaken:
            was_overtaken.append(True)
            assert store.erase(["two"]) == 1
        return run_script(script, *args, **how)

    connections = store._database.connections
    run_script = connections.run
    monkeypatch.setattr(connections, "run", run)
    assert store.erase(["one"]) == 1
    assert was_overtaken
    assert [event.job_id for event in read_events(engine)] == [None, "other", None, "other"]
    assert not engine.maintenance.storage("events_copy:*", 10)


def test_erased_events_still_count_in_a_claimed_job(engine: Engine) -> None:
    engine.insert([new_job("job"), new_job("other")], now=NOW)
    engine.events.erase(["job"])
    claimed = claim(engine, 2)
    assert {one.id for one in claimed} == {"job", "other"}
