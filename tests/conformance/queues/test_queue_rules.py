"""set_queue_rules and max_length: a queue is never longer than its rules allow, whoever fills it and however fast."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace

import msgspec
import pytest

from headrace.core.jobs.queue_rules import QueueRow, QueueRules
from headrace.core.jobs.records import Filter, JobUpdate, NewJob
from headrace.core.jobs.states import NOT_STARTED, State, Trigger
from headrace.core.schedules.records import ScheduleFire
from headrace.engines.protocol.engine import Engine
from headrace.errors import DuplicateJob, QueueFull
from tests.support.builders import (
    EVERYTHING,
    HOUR,
    LATER,
    NOTHING,
    NOW,
    SECOND,
    bring,
    candidate,
    claim,
    claim_one,
    ids,
    insert_unique,
    kinds,
    new_job,
    only,
    retry,
    row,
    rows,
    schedule,
    settle,
    states,
    together,
)
from tests.support.engines import StoreUnderTest
from tests.support.schedules import stored_schedule
from tests.support.waiting import PATIENCE

THREADS = 8


def rules_of(queue: QueueRow) -> QueueRules:
    return QueueRules() if queue.rules is None else msgspec.json.decode(queue.rules, type=QueueRules)


def known(engine: Engine) -> dict[str, QueueRules]:
    return {queue.name: rules_of(queue) for queue in engine.queries.rules().queues}


def at_most(engine: Engine, jobs: int | None, queue: str = "default") -> None:
    engine.rule_store.set_rules(queue, QueueRules(max_length=jobs))


def some(count: int, prefix: str = "j", queue: str = "default") -> list[NewJob]:
    return [new_job(f"{prefix}{number}", queue=queue) for number in range(count)]


def is_stored(engine: Engine, jobs: list[NewJob]) -> bool:
    try:
        return kinds(engine.insert(jobs, now=NOW)) == ["new"] * len(jobs)
    except QueueFull:
        return False


# -- the rules themselves


def test_a_queue_has_no_rules_until_somebody_makes_them(engine: Engine) -> None:
    engine.insert([new_job("a", queue="a")], now=NOW)
    engine.queries.pause_queue("b", True)
    assert [queue.rules for queue in engine.queries.rules().queues] == [None, None]


def test_rules_are_shown_with_their_queue_and_with_no_other(engine: Engine) -> None:
    engine.insert([new_job("a"), new_job("b", queue="mail")], now=NOW)
    at_most(engine, 7, "mail")
    assert known(engine) == {"default": QueueRules(), "mail": QueueRules(max_length=7)}


@pytest.mark.parametrize("name", ["fresh", "it's %s", "a:b{c}*?", "grüße 🚰", " space "])
def test_a_rule_makes_the_queue_known(engine: Engine, name: str) -> None:
    at_most(engine, 2, name)
    assert known(engine) == {name: QueueRules(max_length=2)}
    assert kinds(engine.insert(some(2, queue=name), now=NOW)) == ["new", "new"]
    with pytest.raises(QueueFull):
        engine.insert([new_job("one more", queue=name)], now=NOW)


def test_new_rules_take_the_place_of_the_old_ones(engine: Engine) -> None:
    for length in (5, 3, 3, None, 4):
        at_most(engine, length)
        assert known(engine) == {"default": QueueRules(max_length=length)}


def test_rules_leave_the_age_and_the_pause_of_a_queue_alone(engine: Engine) -> None:
    engine.insert([new_job("a")], now=NOW)
    engine.queries.pause_queue("default", True)
    at_most(engine, 5)
    (queue,) = engine.queries.rules().queues
    assert (queue.created_at, queue.paused) == (NOW, True)


def test_a_pause_and_new_jobs_leave_the_rules_alone(engine: Engine) -> None:
    at_most(engine, 5)
    engine.insert(some(2), now=NOW)
    for paused in (True, False):
        engine.queries.pause_queue("default", paused)
        assert known(engine) == {"default": QueueRules(max_length=5)}


def test_rules_survive_the_engine(store: StoreUnderTest) -> None:
    first = store.open()
    at_most(first, 1)
    first.insert([new_job("a")], now=NOW)
    first.close()
    second = store.open()
    assert known(second) == {"default": QueueRules(max_length=1)}
    assert not is_stored(second, [new_job("b")])


def test_a_new_rule_wakes_the_workers(store: StoreUnderTest) -> None:
    engine, listening = store.open(), store.open()
    engine.insert([new_job("a")], now=NOW)
    bell = listening.listen("work")
    at_most(engine, 5)
    assert bell.wait(PATIENCE)
    bell.close()


def test_a_rule_holds_for_everybody_within_a_second(store: StoreUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=time.monotonic)
    monkeypatch.setattr("headrace.engines.sql.rules_cache.time", clock)
    operator, producer = store.open(), store.open()
    assert is_stored(producer, [new_job("before")])
    at_most(operator, 0)
    clock.monotonic = lambda: time.monotonic() + 1
    assert not is_stored(producer, [new_job("after")])


def test_rules_arrive_at_another_store(engine: Engine, target: Engine) -> None:
    at_most(engine, 2)
    engine.insert([new_job("free", queue="free")], now=NOW)
    at_most(target, 9)
    at_most(target, 9, "free")
    target.transfer.import_records(engine.queries.rules().queues)
    assert known(target) == {"default": QueueRules(max_length=2), "free": QueueRules()}
    assert not is_stored(target, some(3))


def test_what_is_carried_over_is_not_refused_for_its_length(engine: Engine, target: Engine) -> None:
    engine.insert(some(5), now=NOW)
    at_most(target, 2)
    assert target.transfer.import_records(engine.transfer.export_jobs(0, 100)) == 5
    assert not is_stored(target, [new_job("new")])


# -- how long a queue is


@pytest.mark.parametrize("state", sorted(State))
def test_what_has_not_started_counts_and_what_has_does_not(engine: Engine, state: State) -> None:
    bring(engine, state, "there")
    at_most(engine, 1)
    assert is_stored(engine, [new_job("new")]) == (state not in NOT_STARTED)


@pytest.mark.parametrize("state", [State.PENDING, State.SCHEDULED, State.WAITING])
def test_a_full_queue_takes_no_new_job_of_any_state(engine: Engine, state: State) -> None:
    at_most(engine, 1)
    assert is_stored(engine, [new_job("there")])
    assert not is_stored(engine, [new_job("new", state=state, run_at=LATER)])


def test_the_states_are_counted_together(engine: Engine) -> None:
    for state in (State.RETRYING, State.SCHEDULED, State.WAITING, State.PENDING):
        bring(engine, state, state)
    at_most(engine, 5)
    assert not is_stored(engine, some(2))
    assert is_stored(engine, some(1))


@pytest.mark.parametrize("length", [1, 2, 150])
def test_exactly_full_is_allowed_and_one_more_is_not(engine: Engine, length: int) -> None:
    at_most(engine, length)
    assert is_stored(engine, some(length))
    assert not is_stored(engine, [new_job("one more")])
    assert engine.queries.count(EVERYTHING).jobs == length


@pytest.mark.parametrize("all_or_nothing", [False, True])
@pytest.mark.parametrize("size", [3, 150])
def test_a_batch_with_too_many_is_refused_as_a_whole(engine: Engine, size: int, all_or_nothing: bool) -> None:
    at_most(engine, size)
    engine.insert([new_job("there")], now=NOW)
    batch = [new_job(f"j{number}", tags=("t",)) for number in range(size)]
    with pytest.raises(QueueFull):
        engine.insert(batch, all_or_nothing=all_or_nothing, now=NOW)
    assert list(rows(engine)) == ["there"]
    assert engine.queries.count(Filter(tag="t")).jobs == 0
    assert is_stored(engine, batch[1:])


def test_the_refusal_names_the_queue_and_its_limit(engine: Engine) -> None:
    at_most(engine, 37, "letters")
    with pytest.raises(QueueFull, match="letters") as refused:
        engine.insert(some(38, queue="letters"), now=NOW)
    assert "37" in str(refused.value)


def test_a_length_of_zero_takes_nothing(engine: Engine) -> None:
    at_most(engine, 0)
    assert not is_stored(engine, [new_job("a")])
    assert engine.insert([], now=NOW) == []


def test_only_the_queue_with_the_rule_is_short(engine: Engine) -> None:
    at_most(engine, 1, "short")
    assert is_stored(engine, some(1, "s", queue="short"))
    assert is_stored(engine, some(50, "l", queue="long"))


@pytest.mark.parametrize("full_first", [True, False])
def test_a_batch_of_which_one_queue_is_full_is_refused_with_its_other_queues(engine: Engine, full_first: bool) -> None:
    at_most(engine, 1, "full")
    at_most(engine, 9, "roomy")
    batch = [*some(2, "f", queue="full"), *some(2, "r", queue="roomy"), *some(2, "n", queue="new")]
    assert not is_stored(engine, batch if full_first else batch[::-1])
    assert rows(engine) == {}
    assert list(known(engine)) == ["full", "roomy"]


def test_a_repeated_insert_of_what_filled_the_queue_is_told_so(engine: Engine) -> None:
    """After a lost reply: to say that the queue is full would be to say that the jobs are not stored."""
    at_most(engine, 2)
    engine.insert(some(2), now=NOW)
    assert kinds(engine.insert(some(2), now=NOW)) == ["taken", "taken"]
    assert kinds(engine.insert([new_job("j0")], now=NOW)) == ["taken"]
    with pytest.raises(DuplicateJob):
        engine.insert([new_job("j1")], all_or_nothing=True, now=NOW)


def test_taken_ids_need_no_room(engine: Engine) -> None:
    at_most(engine, 2)
    engine.insert([new_job("a")], now=NOW)
    assert kinds(engine.insert([new_job("a"), new_job("b")], now=NOW)) == ["taken", "new"]


# -- room comes and goes


def take(engine: Engine) -> None:
    claim_one(engine)


def cancel(engine: Engine) -> None:
    engine.queries.move(EVERYTHING, Trigger.CANCEL, 1, now=NOW)


def delete(engine: Engine) -> None:
    engine.queries.move(EVERYTHING, Trigger.DELETE, 1, now=NOW)


def move_elsewhere(engine: Engine) -> None:
    engine.queries.update("there", JobUpdate(queue="elsewhere"), now=NOW)


def let_lapse(engine: Engine) -> None:
    engine.exchange([], NOTHING, now=NOW + HOUR)


@pytest.mark.parametrize("leave", [take, cancel, delete, move_elsewhere, let_lapse])
def test_room_returns_when_a_job_leaves(engine: Engine, leave: Callable[[Engine], None]) -> None:
    at_most(engine, 1)
    engine.insert([new_job("there", expires_at=NOW + SECOND)], now=NOW)
    assert not is_stored(engine, [new_job("new")])
    leave(engine)
    assert is_stored(engine, [new_job("new")])
    assert not is_stored(engine, [new_job("newer")])


def test_a_job_that_comes_due_takes_no_more_room(engine: Engine) -> None:
    at_most(engine, 2)
    engine.insert([new_job("a", run_at=LATER)], now=NOW)
    engine.exchange([], NOTHING, now=LATER)
    assert states(engine) == {"a": State.PENDING}
    assert is_stored(engine, [new_job("b")])
    assert not is_stored(engine, [new_job("c")])


def test_a_job_that_retries_returns_to_a_queue_that_filled_up_meanwhile(engine: Engine) -> None:
    at_most(engine, 1)
    engine.insert([new_job("a")], now=NOW)
    claimed = claim_one(engine)
    assert is_stored(engine, [new_job("b")])
    assert settle(engine, retry(claimed, NOW)) == []
    assert not is_stored(engine, [new_job("c")])
    assert ids(claim(engine, 1, now=NOW)) != []
    assert not is_stored(engine, [new_job("c")]), "one of two left: still as many as there may be"
    assert ids(claim(engine, 1, now=NOW)) != []
    assert is_stored(engine, [new_job("c")])


def test_a_shorter_rule_keeps_the_jobs_that_are_there(engine: Engine) -> None:
    engine.insert(some(5), now=NOW)
    at_most(engine, 2)
    assert engine.queries.count(EVERYTHING).jobs == 5
    claim(engine, 3)
    assert not is_stored(engine, [new_job("new")])
    claim(engine, 1)
    assert is_stored(engine, [new_job("new")])


@pytest.mark.parametrize("length", [None, 2])
def test_a_rule_that_is_lifted_or_raised_lets_jobs_in_again(engine: Engine, length: int | None) -> None:
    at_most(engine, 1)
    engine.insert([new_job("a")], now=NOW)
    assert not is_stored(engine, [new_job("b")])
    at_most(engine, length)
    assert is_stored(engine, [new_job("b")])
    assert is_stored(engine, some(20)) == (length is None)


# -- uniqueness in a full queue


def full_of_one(engine: Engine) -> None:
    at_most(engine, 1)
    insert_unique(engine, [candidate("there", run_at=LATER)], now=NOW)


@pytest.mark.parametrize("all_or_nothing", [False, True])
@pytest.mark.parametrize(
    "more", [{"key": "other"}, {"key": None}, {"where": ()}], ids=["other key", "no key", "no condition"]
)
def test_a_new_job_is_refused_by_admit_too(engine: Engine, more: dict[str, object], all_or_nothing: bool) -> None:
    full_of_one(engine)
    with pytest.raises(QueueFull):
        insert_unique(engine, [candidate("new", **more)], all_or_nothing=all_or_nothing, now=NOW)  # type: ignore[arg-type]
    assert list(rows(engine)) == ["there"]


@pytest.mark.parametrize(
    ("act", "kind"),
    [("keep", "existing"), ("refuse", "refused"), ("replace", "replaced"), ("reschedule", "rescheduled")],
)
def test_one_that_is_there_already_needs_no_room(engine: Engine, act: str, kind: str) -> None:
    full_of_one(engine)
    (result,) = insert_unique(engine, [candidate("again", act)], now=NOW)  # type: ignore[arg-type]
    assert (result.kind, result.id) == (kind, "there")
    assert list(rows(engine)) == ["there"]
    assert not is_stored(engine, [new_job("new")])


def test_duplicates_within_a_batch_need_room_once(engine: Engine) -> None:
    at_most(engine, 1)
    results = insert_unique(engine, [candidate("a"), candidate("b"), candidate("c", "replace")], now=NOW)
    assert [(result.kind, result.id) for result in results] == [("new", "a"), ("existing", "a"), ("replaced", "a")]


def test_an_admission_with_too_many_undoes_all_of_it(engine: Engine) -> None:
    full_of_one(engine)
    at_most(engine, 2)
    before = row(engine, "there")
    batch = [candidate("again", "replace", payload='["new"]'), candidate("a", key="a"), candidate("b", key="b")]
    with pytest.raises(QueueFull):
        insert_unique(engine, batch, now=NOW)
    assert rows(engine) == {"there": before}
    assert engine.queries.details("there").history == []
    assert [result.kind for result in insert_unique(engine, batch[:2], now=NOW)] == ["replaced", "new"]


def test_a_job_is_not_replaced_into_a_full_queue(engine: Engine) -> None:
    insert_unique(engine, [candidate("there")], now=NOW)
    at_most(engine, 1, "full")
    engine.insert([new_job("a", queue="full")], now=NOW)
    with pytest.raises(QueueFull):
        insert_unique(engine, [candidate("again", "replace", queue="full")], now=NOW)
    assert row(engine, "there").queue == "default"
    assert ids(engine.exchange([], only("default"), now=NOW).claims) == ["there"]


# -- at the same moment


@pytest.mark.parametrize(("size", "fit"), [(1, 50), (3, 48)])
def test_many_that_fill_a_queue_at_once_never_overfill_it(store: StoreUnderTest, size: int, fit: int) -> None:
    engines = [store.open() for _ in range(THREADS)]
    at_most(engines[0], 50)

    def fill(number: int) -> int:
        return sum(size * is_stored(engines[number], some(size, f"{number}-{turn}-")) for turn in range(12))

    assert sum(together(THREADS, fill)) == fit
    assert engines[0].queries.count(EVERYTHING).jobs == fit


def test_many_that_admit_at_once_never_overfill_a_queue(store: StoreUnderTest) -> None:
    engines = [store.open() for _ in range(THREADS)]
    at_most(engines[0], 20)

    def fill(number: int) -> list[str]:
        kinds: list[str] = []
        for turn in range(30):  # the same thirty keys for everybody, of which twenty find room
            try:
                (result,) = insert_unique(engines[number], [candidate(f"{number}-{turn}", key=f"key {turn}")], now=NOW)
                kinds.append(result.kind)
            except QueueFull:
                kinds.append("full")
        return kinds

    kinds = [kind for one in together(THREADS, fill) for kind in one]
    assert kinds.count("new") == engines[0].queries.count(EVERYTHING).jobs == 20
    assert kinds.count("existing") == 20 * (THREADS - 1)


def test_batches_that_name_the_queues_in_opposite_order_do_not_block_each_other(store: StoreUnderTest) -> None:
    engines = [store.open() for _ in range(4)]
    for queue in ("a", "b", "c"):
        at_most(engines[0], 60, queue)

    def fill(number: int) -> int:
        queues = "abc" if number % 2 else "cba"
        batches = ([new_job(f"{number}-{turn}-{queue}", queue=queue) for queue in queues] for turn in range(25))
        return sum(is_stored(engines[number], batch) for batch in batches)

    assert sum(together(4, fill)) == 60
    assert engines[0].queries.count(EVERYTHING).jobs == 180


def test_a_schedule_does_not_fire_into_a_full_queue(engine: Engine) -> None:
    at_most(engine, 1, "full")
    engine.insert([new_job("a", queue="full")], now=NOW)
    engine.schedule_store.put(schedule("nightly"), new=True)
    row = stored_schedule(engine.schedule_store, "nightly")
    assert row is not None
    with pytest.raises(QueueFull):
        engine.schedule_store.fire([ScheduleFire(row, (new_job("b", queue="full"),))], now=NOW)
    assert stored_schedule(engine.schedule_store, "nightly") == row
    assert sorted(rows(engine)) == ["a"]
