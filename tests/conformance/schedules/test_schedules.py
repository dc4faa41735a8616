"""The timetable: a version decides who changed a schedule and who fired it, and nobody else leaves a trace."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import msgspec
import pytest

from headrace.core.jobs.records import NewJob
from headrace.core.jobs.states import State
from headrace.core.jobs.transfer import StoreStatus
from headrace.core.schedules.records import Occurrence, ScheduleFire, ScheduleRow
from headrace.engines.protocol.engine import Engine
from headrace.errors import StoreMoved
from tests.support.builders import (
    EVERYTHING,
    HOUR,
    LATER,
    NOW,
    SECOND,
    claim,
    firing,
    ids,
    new_job,
    one_version_on,
    row,
    rows,
    schedule,
    states,
    together,
)
from tests.support.engines import StoreUnderTest
from tests.support.schedules import stored_schedule
from tests.support.waiting import PATIENCE

THREADS = 8
ODD = [
    "it's",
    'a "b" `c`',
    "back\\slash",
    "a:b{c}*?[d]",
    "%s $1 :id ?",
    "grüße 日本語 🚰",
    " space ",
    "a\nb",
    "x" * 500,
]


def put_all(engine: Engine, *schedules: ScheduleRow) -> None:
    for each in schedules:
        assert engine.schedule_store.put(each, new=True)


def due(engine: Engine, limit: int = 100, now: int = NOW) -> list[str]:
    return [each.id for each in engine.schedule_store.due(limit, now=now).rows]


def stored(engine: Engine, schedule_id: str = "tick") -> ScheduleRow:
    found = stored_schedule(engine.schedule_store, schedule_id)
    assert found is not None
    return found


def skip(at: int, schedule_id: str = "tick") -> Occurrence:
    return Occurrence(schedule_id, at, NOW, "skipped", skipped=1)


# -- put, get, all, delete


def test_a_new_store_has_no_schedules(engine: Engine) -> None:
    assert engine.schedule_store.get() == []
    assert stored_schedule(engine.schedule_store, "tick") is None
    assert engine.schedule_store.due(10, now=NOW).rows == []
    assert engine.schedule_store.due(0).next_at is None
    assert engine.schedule_store.occurrences("tick") == []


FULL = ScheduleRow(
    id="full",
    version=NOW + 123,
    task="mail.send",
    queue="mail",
    paused=False,
    occurrence=NOW + 456,
    due_at=NOW + 789,
    fired=2_147_483_648,
    last_fired=NOW - 1,
    last_job="job",
    created_at=NOW + 1,
    updated_at=NOW + 2,
    origin="api",
    timing='{"cron":"0 9 * * MON","tz":"Europe/Zürich"}',
    call='["a",{"b":[null,1.0,1e400,"\\u0000"]}]',
    declared="what code said",
    error="ValueError: \"why\"\nand 'how'",
)
EMPTY = schedule("empty", due_at=None, paused=True, queue="", task="")


@pytest.mark.parametrize("given", [FULL, EMPTY], ids=lambda given: given.id)
def test_every_field_comes_back_as_it_was_given(engine: Engine, given: ScheduleRow) -> None:
    assert engine.schedule_store.put(given, new=True)
    assert stored_schedule(engine.schedule_store, given.id) == given
    assert engine.schedule_store.get() == [given]


@pytest.mark.parametrize("odd", ODD)
def test_any_text_is_an_id(engine: Engine, odd: str) -> None:
    put_all(engine, schedule(odd), schedule("other"))
    assert [each.id for each in engine.schedule_store.due(10, now=NOW).rows if each.id != "other"] == [odd]
    assert engine.schedule_store.fire([firing(schedule(odd), new_job("job"))], now=NOW) == [True]
    assert [each.job_id for each in engine.schedule_store.occurrences(odd)] == ["job"]
    assert engine.schedule_store.delete(odd)
    assert [each.id for each in engine.schedule_store.get()] == ["other"]


def test_a_large_call_is_kept(engine: Engine) -> None:
    large = schedule(call=f'["{"x" * 1_000_000}"]')
    assert engine.schedule_store.put(large, new=True)
    assert stored_schedule(engine.schedule_store, "tick") == large
    assert engine.schedule_store.fire([firing(large, new_job("job", payload="y" * 1_000_000))], now=NOW) == [True]
    assert row(engine).payload == "y" * 1_000_000


def test_schedules_are_listed_by_id(engine: Engine) -> None:
    names = ("b", "ü", "a", "A", "c", "B")
    put_all(engine, *(schedule(name, due_at=NOW - place) for place, name in enumerate(names)))
    assert [each.id for each in engine.schedule_store.get()] == ["A", "B", "a", "b", "c", "ü"]
    assert engine.maintenance.facts().schedules == 6


def test_a_new_one_does_not_take_the_place_of_one_that_is_there(engine: Engine) -> None:
    first = schedule(version=7)
    assert engine.schedule_store.put(first, new=True)
    for version in (6, 7, 8):
        assert not engine.schedule_store.put(schedule(version=version, task="other"), new=True)
    assert engine.schedule_store.get() == [first]


def test_a_change_counts_the_version_up(engine: Engine) -> None:
    put_all(engine, schedule(version=7))
    changed = msgspec.structs.replace(FULL, id="tick", version=7)
    assert engine.schedule_store.put(changed)
    assert engine.schedule_store.get() == [one_version_on(changed)]
    assert engine.schedule_store.put(schedule(version=8))
    assert stored(engine) == schedule(version=9)


@pytest.mark.parametrize("version", [1, 6, 8, NOW])
def test_a_change_of_another_version_is_refused(engine: Engine, version: int) -> None:
    put_all(engine, schedule(version=7))
    assert not engine.schedule_store.put(schedule(version=version, task="other", due_at=NOW - HOUR))
    assert stored(engine) == schedule(version=7)
    assert engine.schedule_store.due(0).next_at == NOW


def test_a_change_of_a_schedule_that_is_not_there_is_refused(engine: Engine) -> None:
    assert not engine.schedule_store.put(schedule())
    assert engine.schedule_store.get() == []
    assert due(engine) == []


def test_a_deleted_schedule_is_gone_with_its_occurrences(engine: Engine) -> None:
    put_all(engine, schedule(), schedule("other"))
    engine.schedule_store.fire(
        [firing(schedule(), new_job("a"), due_at=NOW), firing(schedule("other"), new_job("b"))], now=NOW
    )
    assert engine.schedule_store.delete("tick")
    assert not engine.schedule_store.delete("tick")
    assert stored_schedule(engine.schedule_store, "tick") is None
    assert due(engine) == []
    assert engine.schedule_store.occurrences("tick") == []
    assert len(engine.schedule_store.occurrences("other")) == 1
    assert set(states(engine)) == {"a", "b"}, "jobs stay"


def test_a_schedule_made_again_begins_anew(engine: Engine) -> None:
    put_all(engine, schedule())
    engine.schedule_store.fire([firing(schedule(), new_job("a"))], now=NOW)
    engine.schedule_store.delete("tick")
    put_all(engine, schedule())
    assert stored(engine) == schedule()
    assert engine.schedule_store.occurrences("tick") == []
    assert due(engine) == ["tick"]


def test_what_was_never_there_is_not_deleted(engine: Engine) -> None:
    put_all(engine, schedule())
    assert not engine.schedule_store.delete("tic")
    assert len(engine.schedule_store.get()) == 1


@pytest.mark.parametrize("version", [1, 6, 8])
def test_a_schedule_of_another_version_is_not_deleted(engine: Engine, version: int) -> None:
    put_all(engine, schedule(version=6))
    engine.schedule_store.fire([firing(schedule(version=6), new_job("a"), due_at=NOW)], now=NOW)
    assert not engine.schedule_store.delete("tick", version)
    assert stored(engine).version == 7
    assert due(engine) == ["tick"]
    assert len(engine.schedule_store.occurrences("tick")) == 1
    assert engine.schedule_store.delete("tick", 7)
    assert not engine.schedule_store.delete("tick", 7)
    assert (engine.schedule_store.get(), due(engine), engine.schedule_store.occurrences("tick")) == ([], [], [])


# -- due


def test_nothing_is_due_early(engine: Engine) -> None:
    put_all(engine, schedule("past", due_at=NOW - 1), schedule("now"), schedule("soon", due_at=NOW + 1))
    assert due(engine) == ["past", "now"]
    assert due(engine, now=NOW - 2) == []
    assert due(engine, now=NOW + 1) == ["past", "now", "soon"]


def test_the_earliest_come_first_and_not_more_than_asked_for(engine: Engine) -> None:
    order = [f"s{(number * 37) % 100:02}" for number in range(100)]  # not by name, nor as they were put
    put_all(engine, *(schedule(name, due_at=NOW - 1000 + place) for place, name in enumerate(order) if place % 2))
    put_all(engine, *(schedule(name, due_at=NOW - 1000 + place) for place, name in enumerate(order) if not place % 2))
    assert due(engine) == order
    assert due(engine, 10) == order[:10]
    assert due(engine, 1) == order[:1]
    assert due(engine, 0) == []


def test_what_is_due_is_told_with_all_of_its_row(engine: Engine) -> None:
    put_all(engine, FULL)
    assert engine.schedule_store.due(10, now=FULL.due_at).rows == [FULL]


def test_due_goes_by_when_to_look_and_not_by_the_occurrence(engine: Engine) -> None:
    put_all(engine, schedule(due_at=NOW + SECOND, occurrence=NOW - HOUR))
    assert due(engine) == []
    assert engine.schedule_store.due(0).next_at == NOW + SECOND


def test_one_without_a_time_is_never_due(engine: Engine) -> None:
    put_all(engine, schedule("paused", due_at=None), schedule("ended", due_at=None, paused=False))
    assert due(engine, now=2 * NOW) == []
    assert engine.schedule_store.due(0).next_at is None


def test_a_pause_takes_effect_and_can_be_lifted(engine: Engine) -> None:
    put_all(engine, schedule())
    engine.schedule_store.put(schedule(due_at=None))
    assert (due(engine), engine.schedule_store.due(0).next_at) == ([], None)
    engine.schedule_store.put(schedule(version=2, due_at=NOW + 5))
    assert (due(engine), due(engine, now=NOW + 5)) == ([], ["tick"])
    assert engine.schedule_store.due(0).next_at == NOW + 5


def test_the_next_one_is_the_earliest_of_all(engine: Engine) -> None:
    times = {"a": NOW + 30, "b": NOW + 10, "c": NOW + 20, "d": None}
    put_all(engine, *(schedule(name, due_at=at) for name, at in times.items()))
    assert engine.schedule_store.due(0).next_at == NOW + 10
    engine.schedule_store.delete("b")
    assert engine.schedule_store.due(0).next_at == NOW + 20
    engine.schedule_store.put(schedule("c", due_at=NOW + 40))
    assert engine.schedule_store.due(0).next_at == NOW + 30
    engine.schedule_store.put(schedule("a", due_at=NOW - HOUR))
    assert engine.schedule_store.due(0).next_at == NOW - HOUR


def test_without_a_time_given_the_stores_clock_tells_what_is_due(engine: Engine) -> None:
    put_all(
        engine, schedule("past", due_at=engine.clock.now() - 1), schedule("future", due_at=engine.clock.now() + HOUR)
    )
    assert [each.id for each in engine.schedule_store.due(10).rows] == ["past"]


@pytest.mark.parametrize("kind", ["moved", "arriving"])
def test_nothing_is_due_while_a_notice_hangs(store: StoreUnderTest, kind: str) -> None:
    engine, other = store.open(), store.open()
    put_all(engine, schedule())
    assert due(other) == ["tick"]
    engine.transfer.set_status(msgspec.convert({"kind": kind, "other": "redis://elsewhere/0", "at": NOW}, StoreStatus))
    assert (due(engine), due(other)) == ([], [])
    assert [each.id for each in other.schedule_store.get()] == ["tick"]
    engine.transfer.set_status(None)
    assert due(other) == ["tick"]


def test_no_job_is_fired_at_a_store_that_has_moved_since_the_look(store: StoreUnderTest) -> None:
    engine, scheduler = store.open(), store.open()
    put_all(engine, schedule())
    (looked_at,) = scheduler.schedule_store.due(10, now=NOW).rows
    engine.transfer.set_status(StoreStatus("moved", "redis://elsewhere/0", NOW))
    with suppress(StoreMoved):
        assert scheduler.schedule_store.fire([firing(looked_at, new_job("job"))], now=NOW) == [False]
    assert rows(engine) == {}
    assert engine.schedule_store.get() == [schedule()]
    assert engine.schedule_store.occurrences("tick") == []


# -- fire


def test_to_fire_nothing_is_no_error(engine: Engine) -> None:
    assert engine.schedule_store.fire([], now=NOW) == []


def test_a_firing_stores_the_schedule_its_jobs_and_its_occurrences(engine: Engine) -> None:
    put_all(engine, schedule(), schedule("other", due_at=NOW + HOUR))
    fired = firing(schedule(), new_job("a"), new_job("b", run_at=LATER), due_at=NOW + SECOND)
    assert engine.schedule_store.fire([fired], now=NOW) == [True]
    assert stored(engine) == one_version_on(fired.row)
    assert states(engine) == {"a": State.PENDING, "b": State.SCHEDULED}
    assert sorted(engine.schedule_store.occurrences("tick"), key=lambda each: each.job_id or "") == list(
        fired.occurrences
    )
    assert stored(engine, "other") == schedule("other", due_at=NOW + HOUR)
    assert (due(engine), due(engine, now=NOW + SECOND)) == ([], ["tick"])
    assert engine.schedule_store.due(0).next_at == NOW + SECOND


def test_fired_jobs_are_claimed_when_they_are_due(engine: Engine) -> None:
    put_all(engine, schedule())
    engine.schedule_store.fire([firing(schedule(), new_job("now"), new_job("later", run_at=LATER))], now=NOW)
    assert ids(claim(engine)) == ["now"]
    assert claim(engine, now=LATER - 1) == []
    assert ids(claim(engine, now=LATER)) == ["later"]


def test_fired_jobs_are_stored_as_any_other(engine: Engine) -> None:
    job = new_job(
        "job",
        queue="mail",
        run_at=LATER,
        priority=-7,
        lifo=True,
        payload='[["it\'s ü 🚰"],{}]',
        checksum=4_294_967_295,
        expires_at=LATER + HOUR,
        options='{"timeout":5}',
        tags=("x", "y"),
        metadata='{"schedule_id":"tick"}',
        version=NOW,
        unique_key="key",
    )
    put_all(engine, schedule())
    engine.schedule_store.fire([firing(schedule(), job)], now=NOW)
    found = msgspec.structs.asdict(row(engine))
    assert {name: found[name] for name in NewJob.__struct_fields__} == msgspec.structs.asdict(job)
    for tag in ("x", "y"):
        assert [each.id for each in engine.queries.find(msgspec.structs.replace(EVERYTHING, tag=tag), 10).jobs] == [
            "job"
        ]


def test_the_queue_of_a_fired_job_is_known(engine: Engine) -> None:
    put_all(engine, schedule())
    engine.schedule_store.fire([firing(schedule(), new_job("job", queue="brand new"))], now=NOW)
    assert [(queue.name, queue.created_at) for queue in engine.queries.rules().queues] == [("brand new", NOW)]
    assert ids(claim(engine)) == ["job"]


@pytest.mark.parametrize("version", [1, 2, 4, NOW])
def test_a_stale_firing_is_left_alone_with_all_that_goes_with_it(engine: Engine, version: int) -> None:
    put_all(engine, schedule(version=3))
    late = firing(schedule(version=version), new_job("job", queue="brand new", tags=("t",)))
    assert engine.schedule_store.fire([late], now=NOW) == [False]
    assert engine.schedule_store.get() == [schedule(version=3)]
    assert rows(engine) == {}
    assert engine.queries.rules().queues == []
    assert engine.schedule_store.occurrences("tick") == []
    assert due(engine) == ["tick"]


def test_the_same_firing_applies_once(engine: Engine) -> None:
    put_all(engine, schedule())
    assert [engine.schedule_store.fire([firing(schedule(), new_job("job"))], now=NOW) for _ in range(2)] == [
        [True],
        [False],
    ]
    assert stored(engine).version == 2
    assert len(engine.schedule_store.occurrences("tick")) == 1


@pytest.mark.parametrize("change", ["put", "delete"])
def test_a_schedule_changed_between_look_and_firing_does_not_fire(store: StoreUnderTest, change: str) -> None:
    scheduler, operator = store.open(), store.open()
    put_all(operator, schedule())
    (looked_at,) = scheduler.schedule_store.due(10, now=NOW).rows
    assert (
        operator.schedule_store.put(schedule(due_at=None))
        if change == "put"
        else operator.schedule_store.delete("tick")
    )
    assert scheduler.schedule_store.fire([firing(looked_at, new_job("job"))], now=NOW) == [False]
    assert rows(operator) == {}
    assert operator.schedule_store.get() == ([schedule(due_at=None, version=2)] if change == "put" else [])
    assert operator.schedule_store.occurrences("tick") == []


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_stale_one_does_not_keep_the_others_from_firing(engine: Engine, place: int) -> None:
    put_all(engine, schedule("a"), schedule("b", version=5), schedule("stale", version=5))
    firings = [firing(schedule("a"), new_job("of a")), firing(schedule("b", version=5), new_job("of b"))]
    firings.insert(place, firing(schedule("stale"), new_job("of stale")))
    answers = engine.schedule_store.fire(firings, now=NOW)
    assert answers == [one.row.id != "stale" for one in firings]
    assert sorted(rows(engine)) == ["of a", "of b"]
    assert {each.id: each.version for each in engine.schedule_store.get()} == {"a": 2, "b": 6, "stale": 5}
    assert [len(engine.schedule_store.occurrences(name)) for name in ("a", "b", "stale")] == [1, 1, 0]
    assert due(engine) == ["stale"]


def test_many_fire_in_one_call(engine: Engine) -> None:
    many = [schedule(f"s{number}") for number in range(150)]
    put_all(engine, *many)
    firings = [firing(each, *(new_job(f"{each.id}-{part}") for part in range(3))) for each in many]
    assert engine.schedule_store.fire(firings, now=NOW) == [True] * 150
    assert engine.queries.count(EVERYTHING).jobs == 450
    assert due(engine, 1000) == []
    assert len(claim(engine, 1000)) == 450


def test_a_job_whose_id_is_taken_is_not_stored_again(engine: Engine) -> None:
    engine.insert([new_job("a", payload='["old"]')], now=NOW)
    before = row(engine, "a")
    put_all(engine, schedule())
    again = new_job("a", payload='["new"]', tags=("t",), run_at=LATER)
    assert engine.schedule_store.fire([firing(schedule(), again, new_job("b"))], now=NOW) == [True]
    assert row(engine, "a") == before
    assert engine.queries.count(msgspec.structs.replace(EVERYTHING, tag="t")).jobs == 0
    assert sorted(rows(engine)) == ["a", "b"]
    assert stored(engine).version == 2


def test_an_id_given_twice_in_one_call_is_stored_once(engine: Engine) -> None:
    put_all(engine, schedule("a"), schedule("b"))
    both = [firing(schedule("a"), new_job("job", payload="[1]")), firing(schedule("b"), new_job("job", payload="[2]"))]
    assert engine.schedule_store.fire(both, now=NOW) == [True, True]
    assert [each.payload for each in rows(engine).values()] == ["[1]"]


def test_a_schedule_may_fire_without_a_job(engine: Engine) -> None:
    put_all(engine, schedule())
    assert engine.schedule_store.fire([ScheduleFire(schedule(due_at=None), (), (skip(NOW),))], now=NOW) == [True]
    assert stored(engine) == schedule(due_at=None, version=2)
    assert engine.schedule_store.occurrences("tick") == [skip(NOW)]
    assert rows(engine) == {}


# -- occurrences


def test_an_occurrence_comes_back_as_it_was_given(engine: Engine) -> None:
    given = [
        Occurrence("tick", NOW + 123, NOW + 456, "enqueued", job_id="job ü"),
        Occurrence("tick", NOW + 1000, NOW + 2000, "error", detail="ValueError: \"why\"\nand 'how'"),
        Occurrence("tick", NOW + 3000, NOW + 4000, "skipped", detail="missed", skipped=1_000_000),
    ]
    put_all(engine, schedule())
    engine.schedule_store.fire([ScheduleFire(schedule(), (), tuple(given))], now=NOW)
    assert engine.schedule_store.occurrences("tick") == given[::-1]


def test_the_newest_occurrences_come_first_and_not_more_than_asked_for(engine: Engine) -> None:
    put_all(engine, schedule())
    for turn in range(3):
        batch = tuple(skip(NOW + turn * 50 + number) for number in range(50))
        assert engine.schedule_store.fire([ScheduleFire(schedule(version=turn + 1), (), batch)], now=NOW) == [True]
    newest_first = [skip(NOW + number) for number in reversed(range(150))]
    assert engine.schedule_store.occurrences("tick") == newest_first[:100]
    assert engine.schedule_store.occurrences("tick", 7) == newest_first[:7]
    assert engine.schedule_store.occurrences("tick", 0) == []
    assert engine.schedule_store.occurrences("tick", 1000) == newest_first


@pytest.mark.parametrize(("size", "version"), [(300, 98), (1200, 1), (1200, 100)])  # an engine may trim now and then
def test_of_each_schedule_the_newest_thousand_occurrences_are_kept(engine: Engine, size: int, version: int) -> None:
    put_all(engine, schedule(version=version), schedule("other"))
    engine.schedule_store.fire([ScheduleFire(schedule("other"), (), (skip(NOW - HOUR, "other"),))], now=NOW)
    for turn in range(1200 // size):
        batch = tuple(skip(NOW + turn * size + number) for number in range(size))
        assert engine.schedule_store.fire([ScheduleFire(schedule(version=version + turn), (), batch)], now=NOW) == [
            True
        ]
    kept = engine.schedule_store.occurrences("tick", 5000)
    assert [each.at - NOW for each in kept] == list(reversed(range(200, 1200)))
    assert engine.schedule_store.occurrences("other") == [skip(NOW - HOUR, "other")]


# -- bells


def test_times_is_a_topic_of_its_own(engine: Engine) -> None:
    bells = {topic: engine.listen(topic) for topic in ("work", "done", "commands", "schedules")}
    engine.ring("schedules")
    assert bells["schedules"].wait(PATIENCE)
    assert [bells[topic].wait(0) for topic in ("work", "done", "commands", "schedules")] == [False] * 4
    for bell in bells.values():
        bell.close()


CHANGES: dict[str, Callable[[Engine], object]] = {
    "new": lambda engine: engine.schedule_store.put(schedule("new"), new=True),
    "changed": lambda engine: engine.schedule_store.put(schedule(due_at=LATER)),
    "paused": lambda engine: engine.schedule_store.put(schedule(due_at=None)),
    "deleted": lambda engine: engine.schedule_store.delete("tick"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_wakes_the_schedulers(store: StoreUnderTest, change: Callable[[Engine], object]) -> None:
    listening, acting = store.open(), store.open()
    put_all(acting, schedule())
    bell = listening.listen("schedules")
    bell.wait(0)
    assert change(acting)
    assert bell.wait(PATIENCE)
    bell.close()


@pytest.mark.parametrize("queues", [(), ("mail",)], ids=["all queues", "one queue"])
def test_a_firing_wakes_the_workers(store: StoreUnderTest, queues: tuple[str, ...]) -> None:
    listening, acting = store.open(), store.open()
    put_all(acting, schedule())
    bell = listening.listen("work", queues)
    acting.schedule_store.fire([firing(schedule(), new_job("job", queue="mail"))], now=NOW)
    assert bell.wait(PATIENCE)
    assert ids(claim(listening)) == ["job"]
    bell.close()


# -- other engines, at other times and at the same moment


def test_a_timetable_survives_its_engine(store: StoreUnderTest) -> None:
    first = store.open()
    put_all(first, schedule("a"), schedule("b", due_at=NOW + 7), FULL)
    first.schedule_store.fire([firing(schedule("a"), new_job("job"))], now=NOW)

    def everything(engine: Engine) -> list[object]:
        table = engine.schedule_store
        return [table.get(), table.due(10, now=LATER), table.occurrences("a"), rows(engine)]

    before = everything(first)
    first.close()
    second = store.open()
    assert everything(second) == before
    assert everything(first) == before, "a closed engine opens itself again"
    assert second.schedule_store.fire([firing(schedule("a"), new_job("late"))], now=NOW) == [False]
    assert second.schedule_store.fire([firing(schedule("b", due_at=NOW + 7), new_job("b"))], now=NOW + 7) == [True]


def test_of_many_that_fire_one_row_at_once_one_does(store: StoreUnderTest) -> None:
    engines = [store.open() for _ in range(THREADS)]
    for turn in range(10):
        given = schedule(f"s{turn}")
        put_all(engines[0], given)
        jobs = [new_job(f"{turn} by {number}") for number in range(THREADS)]

        def fire(number: int, given: ScheduleRow = given, jobs: list[NewJob] = jobs) -> list[bool]:
            return engines[number].schedule_store.fire([firing(given, jobs[number])], now=NOW)

        answers = together(THREADS, fire)
        assert sorted(answers) == [[False]] * (THREADS - 1) + [[True]]
        winner = jobs[answers.index([True])].id
        assert [each.job_id for each in engines[0].schedule_store.occurrences(given.id)] == [winner]
        assert [each for each in rows(engines[0]) if each.startswith(f"{turn} ")] == [winner]
        assert stored(engines[0], given.id).version == 2


def test_many_schedulers_together_fire_every_time_once(store: StoreUnderTest) -> None:
    engines = [store.open() for _ in range(4)]
    put_all(engines[0], *(schedule(f"s{number}", due_at=NOW) for number in range(15)))
    last = NOW + 6 * SECOND

    def one_time(row: ScheduleRow) -> ScheduleFire:
        at = row.occurrence or 0
        return firing(row, new_job(f"{row.id}@{at - NOW}"), due_at=at + SECOND if at < last else None)

    def keep_time(number: int) -> list[str]:
        fired: list[str] = []
        while looked_at := engines[number].schedule_store.due(10, now=last).rows:
            firings = [one_time(each) for each in looked_at]
            answers = engines[number].schedule_store.fire(firings, now=last)
            fired += [one.jobs[0].id for one, applied in zip(firings, answers, strict=True) if applied]
        return fired

    every_time = sorted(f"s{number}@{second * SECOND}" for number in range(15) for second in range(7))
    assert sorted(job_id for fired in together(4, keep_time) for job_id in fired) == every_time
    assert sorted(rows(engines[0])) == every_time
    assert {each.version for each in engines[0].schedule_store.get()} == {8}
    assert {len(engines[0].schedule_store.occurrences(f"s{number}")) for number in range(15)} == {7}


def test_of_many_that_make_a_schedule_at_once_one_does(store: StoreUnderTest) -> None:
    engines = [store.open() for _ in range(THREADS)]
    answers = together(THREADS, lambda n: engines[n].schedule_store.put(schedule(task=f"of {n}"), new=True))
    assert sorted(answers) == [False] * (THREADS - 1) + [True]
    assert stored(engines[0]).task == f"of {answers.index(True)}"


def test_no_change_is_lost_among_many_at_once(store: StoreUnderTest) -> None:
    engines = [store.open() for _ in range(4)]
    put_all(engines[0], schedule())

    def count_up(number: int) -> None:
        done = 0
        while done < 15:
            found = stored(engines[number])
            done += engines[number].schedule_store.put(msgspec.structs.replace(found, fired=found.fired + 1))

    together(4, count_up)
    assert (stored(engines[0]).fired, stored(engines[0]).version) == (60, 61)


def test_of_many_that_delete_a_schedule_at_once_one_does(store: StoreUnderTest) -> None:
    engines = [store.open() for _ in range(THREADS)]
    put_all(engines[0], schedule())
    answers = together(THREADS, lambda n: engines[n].schedule_store.delete("tick"))
    assert sorted(answers) == [False] * (THREADS - 1) + [True]


def test_an_operator_and_a_scheduler_do_not_both_win(store: StoreUnderTest) -> None:
    scheduler, operator = store.open(), store.open()
    for turn in range(20):
        given = schedule(f"s{turn}")
        put_all(operator, given)
        fired, paused = firing(given, new_job(f"j{turn}")), msgspec.structs.replace(given, due_at=None, paused=True)

        def act(number: int, fired: ScheduleFire = fired, paused: ScheduleRow = paused) -> bool:
            return (
                operator.schedule_store.put(paused)
                if number
                else scheduler.schedule_store.fire([fired], now=NOW) == [True]
            )

        answers = together(2, act)
        assert sorted(answers) == [False, True]
        assert stored(operator, given.id) == one_version_on(paused if answers[1] else fired.row)
        assert (f"j{turn}" in rows(operator)) == answers[0]


def test_schedules_named_in_opposite_order_do_not_block_each_other(store: StoreUnderTest) -> None:
    engines = [store.open() for _ in range(4)]
    put_all(engines[0], *(schedule(f"s{number}") for number in range(10)))

    def fire(number: int) -> int:
        applied = 0
        for _ in range(15):
            found = engines[number].schedule_store.get()
            firings = [firing(each, new_job(f"{each.id}-{each.version}", queue=each.id)) for each in found]
            applied += sum(engines[number].schedule_store.fire(firings if number % 2 else firings[::-1], now=NOW))
        return applied

    applied = sum(together(4, fire))
    assert applied == engines[0].queries.count(EVERYTHING).jobs
    assert applied == sum(each.version - 1 for each in engines[0].schedule_store.get())


def test_readers_never_see_half_a_firing(store: StoreUnderTest) -> None:
    engine, other = store.open(), store.open()
    put_all(engine, schedule("a"), schedule("b"))

    def act(number: int) -> set[int]:
        if number:
            return {other.queries.count(EVERYTHING).jobs % 10 for _ in range(200)}
        for turn in range(1, 41):
            both = [schedule("a", version=turn), schedule("b", version=turn)]
            jobs = {each.id: [new_job(f"{each.id}{turn}-{part}") for part in range(5)] for each in both}
            assert engine.schedule_store.fire([firing(each, *jobs[each.id]) for each in both], now=NOW) == [True, True]
        return set()

    assert together(2, act)[1] == {0}


# -- carried from another store


def test_what_fired_elsewhere_is_recorded_in_order(engine: Engine) -> None:
    engine.schedule_store.put(schedule("a"), new=True)
    engine.transfer.import_records([])
    past = [Occurrence("a", NOW + number, NOW + number, "enqueued", f"job-{number}") for number in range(3)]
    engine.transfer.import_records(past)
    assert engine.schedule_store.occurrences("a") == past[::-1]
