"""Of several equal calls one is a job, wherever and however they are made, for as long as the option says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from headrace import (
    DuplicateJob,
    EngineUnavailable,
    Headrace,
    InvalidJob,
    Job,
    QueueFull,
    State,
    Task,
    Unique,
    current_job,
)
from headrace.testing import VirtualClock, drain, inline
from tests.support.gates import Gate
from tests.support.waiting import PATIENCE

DAY = 86_400


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def app(url: str, clock: VirtualClock) -> Iterator[Headrace]:
    with Headrace(url, clock=clock, heartbeat=2.0, shutdown_timeout=5.0) as app:
        yield app


@pytest.fixture
def mail(app: Headrace) -> Task[..., Any, Any]:
    @app.task
    def mail(to: str, text: str = "hello", *, copies: int = 1) -> str:
        if text == "fail":
            raise ValueError(text)
        return f"{to}: {text} x{copies}"

    return mail


def by(**how: Any) -> dict[str, Any]:
    return {"unique": Unique(**how)}


def ids(*jobs: Job[Any]) -> set[str]:
    return {job.id for job in jobs}


# -- the same call


def test_the_same_call_gives_the_same_job_however_it_is_written(app: Headrace, mail: Any) -> None:
    once = mail.using(unique=True)
    first = once.enqueue("ann")
    again = [once.enqueue(to="ann"), once.enqueue("ann", "hello"), once.enqueue("ann", copies=1, text="hello")]
    assert ids(first, *again) == {first.id}
    assert once.enqueue("bob").id != first.id
    assert app.jobs.count() == 2


def test_the_job_that_is_given_back_is_as_it_is_stored(app: Headrace, mail: Any) -> None:
    first = mail.using(unique=True, priority=5, tags=["a"], queue="post").enqueue("ann")
    again = mail.using(unique=True, priority=9, delay=60).enqueue("ann")
    assert (again.id, again.priority, again.tags, again.queue) == (first.id, 5, ("a",), "post")
    assert (again.state, again.run_at, again.args) == (State.PENDING, first.run_at, ("ann",))
    drain(app)
    assert again.result(timeout=PATIENCE) == "ann: hello x1"


def test_when_the_job_is_finished_the_next_call_is_a_new_one(app: Headrace, mail: Any) -> None:
    once = mail.using(unique=True, retry=0)
    for text, state in (("hello", State.COMPLETED), ("fail", State.FAILED)):
        first = once.enqueue("ann", text)
        drain(app)
        assert first.refresh().state is state
        assert once.enqueue("ann", text).id != first.id
        app.jobs.cancel(task="mail")
        assert once.enqueue("ann", text).id != first.id
        app.jobs.cancel(task="mail")


def test_a_job_that_is_deleted_stands_for_nothing(app: Headrace, mail: Any) -> None:
    for how in ({"unique": True}, {"idempotency_key": "k"}, {"throttle": 60}):
        first = mail.using(**how).enqueue("ann")
        assert mail.using(**how).enqueue("ann").id == first.id
        assert first.delete()
        assert mail.using(**how).enqueue("ann").id != first.id
        app.jobs.delete(task="mail")


def test_only_what_is_named_makes_calls_the_same(app: Headrace, mail: Any) -> None:
    to_each = mail.using(**by(by=("to",)))
    assert to_each.enqueue("ann", "one").id == to_each.enqueue(text="two", to="ann").id
    assert to_each.enqueue("bob").id != to_each.enqueue("ann").id
    at_all = mail.using(**by(by=("task",)))
    assert at_all.enqueue("ann").id == at_all.enqueue("bob").id
    in_queue = mail.using(**by(by=("args", "queue")))
    assert in_queue.using(queue="a").enqueue("eve").id != in_queue.using(queue="b").enqueue("eve").id
    other = app.task(name="other")(lambda: None)
    assert mail.using(**by(key="x")).enqueue("ann").id == other.using(**by(key="x")).enqueue().id


def test_a_parameter_the_task_does_not_have_is_refused_and_nothing_is_stored(app: Headrace, mail: Any) -> None:
    with pytest.raises(InvalidJob, match=r"unique by: 'mail' has no parameter 'too'.*it has 'to', 'text', 'copies'"):
        mail.using(**by(by=("too",))).enqueue("ann")
    assert app.jobs.count() == 0


def test_of_a_task_that_is_not_known_here_arguments_are_known_by_their_names(app: Headrace) -> None:
    away = app.task_by_name("elsewhere").using(**by(by=("user",)))
    assert away.enqueue(user=1, text="a").id == away.enqueue(text="b", user=1).id
    with pytest.raises(InvalidJob, match="has no argument 'user' by name"):
        away.enqueue(1)


def test_a_call_may_unset_an_option_of_its_task(app: Headrace) -> None:
    task = app.task(name="once", unique=True)(lambda: None)
    assert task.enqueue().id == task.enqueue().id
    assert task.using(unique=None).enqueue().id != task.enqueue().id
    with pytest.raises(InvalidJob, match=r"unique and idempotency_key exclude each other.*using\(unique=None\)"):
        task.using(idempotency_key="x").enqueue()
    assert task.using(idempotency_key="x", unique=None).enqueue().state is State.PENDING


# -- on conflict


def test_raise_names_the_job_that_is_there(app: Headrace, mail: Any) -> None:
    strict = mail.using(**by(on_conflict="raise"))
    first = strict.enqueue("ann")
    with pytest.raises(DuplicateJob, match="counts as the same exists already") as caught:
        strict.enqueue("ann")
    assert caught.value.job_id == first.id
    assert app.jobs.get(caught.value.job_id) == first
    assert app.jobs.count() == 1


def test_replace_gives_the_job_that_waits_everything_of_the_new_call(app: Headrace, mail: Any) -> None:
    latest = mail.using(**by(by=("to",), on_conflict="replace"))
    first = latest.using(tags=["old"]).enqueue("ann", "one")
    second = latest.using(priority=3, queue="post", tags=["new"]).enqueue("ann", "two")
    assert (second.id, second.args, second.priority, second.queue) == (first.id, ("ann", "two"), 3, "post")
    assert [job.id for job in app.jobs.find(tag="new", queue="post")] == [first.id]
    assert app.jobs.count(tag="old") == 0
    drain(app)
    assert first.result(timeout=PATIENCE) == "ann: two x1"


def test_reschedule_gives_the_job_that_waits_the_new_time_only(app: Headrace, mail: Any, clock: VirtualClock) -> None:
    later = mail.using(**by(by=("to",), on_conflict="reschedule"))
    first = later.using(delay=10).enqueue("ann", "one")
    moved = later.using(delay=60, priority=9).enqueue("ann", "two")
    assert (moved.id, moved.args, moved.priority) == (first.id, ("ann", "one"), 0)
    assert (moved.run_at - clock.moment).total_seconds() == 60
    assert later.enqueue("ann").state is State.PENDING
    assert drain(app) == 1


def test_to_keep_the_last_at_most_one_waits_behind_the_one_that_runs(app: Headrace) -> None:
    gate, seen = Gate(), []

    @app.task(unique=Unique(by=("task",), on_conflict="keep_last_if_running"))
    def index(version: int) -> int:
        gate.pass_through()
        seen.append(version)
        return version

    with app.worker(concurrency=1):
        first = index.enqueue(1)
        gate.wait_until_reached()
        waiting = [index.enqueue(version) for version in (2, 3, 4)]
        assert first.id not in ids(*waiting)
        assert len(ids(*waiting)) == 1
        gate.open()
        assert waiting[-1].result(timeout=PATIENCE) == 4
    assert seen == [1, 4]


# -- states and times


def test_a_window_holds_through_completion_and_ends_on_time(app: Headrace, mail: Any, clock: VirtualClock) -> None:
    hourly = mail.using(**by(window=3600))
    first = hourly.enqueue("ann")
    drain(app)
    clock.advance(3599)
    assert hourly.enqueue("ann").id == first.id
    clock.advance(1)
    assert hourly.enqueue("ann").id != first.id


def test_only_jobs_in_the_states_that_are_named_count(app: Headrace, mail: Any) -> None:
    waiting = mail.using(**by(states=("failed",)), retry=0)
    first = waiting.enqueue("ann", "fail")
    second = waiting.enqueue("ann", "fail")
    assert first.id != second.id
    drain(app)
    assert waiting.enqueue("ann", "fail").id == second.id


def test_an_idempotency_key_stands_for_a_day_whatever_became_of_its_job(
    app: Headrace, mail: Any, clock: VirtualClock
) -> None:
    first = mail.using(idempotency_key="order 7", retry=0).enqueue("ann", "fail")
    other = app.task(name="other")(lambda: None).using(idempotency_key="order 7")
    assert other.enqueue().id == first.id
    drain(app)
    clock.advance(DAY - 1)
    assert other.enqueue().refresh().state is State.FAILED
    assert mail.using(idempotency_key="order 8").enqueue("ann").id != first.id
    clock.advance(1)
    assert other.enqueue().id != first.id


def test_an_idempotency_key_stands_as_long_as_its_job_is_not_finished(
    app: Headrace, mail: Any, clock: VirtualClock
) -> None:
    first = mail.using(idempotency_key="k", delay=10 * DAY).enqueue("ann")
    clock.advance(9 * DAY)
    assert mail.using(idempotency_key="k").enqueue("ann").id == first.id


def test_keys_of_idempotency_and_of_uniqueness_are_not_the_same_keys(app: Headrace, mail: Any) -> None:
    one = mail.using(idempotency_key="k").enqueue("ann")
    assert mail.using(**by(key="k")).enqueue("ann").id != one.id


def test_debounce_runs_the_last_call_once_it_has_been_quiet(app: Headrace, mail: Any, clock: VirtualClock) -> None:
    quiet = mail.using(debounce=5, unique=Unique(by=("to",)))
    jobs = []
    for text in ("a", "ab", "abc"):
        jobs.append(quiet.enqueue("ann", text))
        clock.advance(4)
        assert drain(app) == 0
    assert len(ids(*jobs)) == 1
    clock.advance(1)
    assert drain(app) == 1
    assert jobs[0].result(timeout=PATIENCE) == "ann: abc x1"
    assert quiet.enqueue("ann", "x").id != jobs[0].id


def test_debounce_without_a_key_goes_by_all_arguments(app: Headrace, mail: Any) -> None:
    quiet = mail.using(debounce=5)
    assert quiet.enqueue("ann").id == quiet.enqueue(to="ann").id != quiet.enqueue("bob").id


def test_throttle_takes_one_call_in_each_window(app: Headrace, mail: Any, clock: VirtualClock) -> None:
    seldom = mail.using(throttle=60, unique=Unique(by=("to",)), retry=0)
    first = seldom.enqueue("ann", "fail")
    drain(app)
    clock.advance(59)
    again = seldom.enqueue("ann", "other")
    assert (again.id, again.state) == (first.id, State.FAILED)
    assert seldom.enqueue("bob").id != first.id
    clock.advance(1)
    assert seldom.enqueue("ann").id != first.id


# -- ids, batches, coroutines, threads


def test_an_id_of_ones_own_goes_with_it(app: Headrace, mail: Any) -> None:
    first = mail.using(unique=True, job_id="a").enqueue("ann")
    assert first.id == "a"
    assert mail.using(unique=True, job_id="b").enqueue("ann").id == "a"
    with pytest.raises(DuplicateJob, match="job_id 'a' is taken"):
        mail.using(unique=True, job_id="a").enqueue("bob")
    with pytest.raises(DuplicateJob, match="job_id 'a' is taken"):
        app.enqueue_many([mail.using(unique=True, job_id="a").bind("bob")])


def test_a_batch_finds_duplicates_in_the_store_and_in_itself(app: Headrace, mail: Any) -> None:
    once = mail.using(unique=True)
    known = once.enqueue("ann")
    jobs = app.enqueue_many([once.bind("ann"), once.bind("bob"), mail.bind("ann"), once.bind(to="bob")])
    assert jobs[0].id == known.id
    assert jobs[1] == jobs[3]
    assert app.jobs.count() == 3
    assert {job.state for job in jobs} == {State.PENDING}


def test_in_a_batch_the_last_call_replaces_those_before(app: Headrace, mail: Any) -> None:
    latest = mail.using(**by(by=("to",), on_conflict="replace"))
    jobs = app.enqueue_many([latest.bind("ann", text) for text in ("one", "two", "three")])
    assert len(ids(*jobs)) == 1
    assert {job.args for job in jobs} == {("ann", "three")}
    assert app.jobs.get(jobs[0].id).args == ("ann", "three")


def test_a_batch_with_a_call_that_is_refused_stores_nothing(app: Headrace, mail: Any) -> None:
    strict = mail.using(**by(on_conflict="raise"))
    known = strict.enqueue("ann")
    for refused, expected in (
        ([mail.bind("x"), strict.bind("bob"), strict.bind("ann")], "counts as the same exists already"),
        ([mail.bind("x"), strict.bind("bob"), strict.bind("bob")], "two of these calls count as the same"),
    ):
        with pytest.raises(DuplicateJob, match=expected):
            app.enqueue_many(refused)
        with pytest.raises(DuplicateJob, match=expected):
            asyncio.run(app.aenqueue_many(refused))
    assert [job.id for job in app.jobs.find()] == [known.id]


def test_coroutines_get_the_same_answers(app: Headrace, mail: Any) -> None:
    async def main() -> list[Job[Any]]:
        once = mail.using(unique=True)
        jobs = await asyncio.gather(*(once.aenqueue("ann") for _ in range(20)), once.aenqueue("bob"))
        with pytest.raises(DuplicateJob):
            await mail.using(**by(on_conflict="raise")).aenqueue("ann")
        many = await app.aenqueue_many([once.bind("ann"), once.bind("eve")])
        return [*jobs, *many]

    jobs = asyncio.run(main())
    assert len(ids(*jobs[:20], jobs[21])) == 1
    assert len(ids(*jobs)) == 3
    assert app.jobs.count() == 3


def test_of_many_threads_only_one_makes_the_job(app: Headrace, mail: Any) -> None:
    line = threading.Barrier(8)

    def enqueue(n: int) -> list[str]:
        line.wait(PATIENCE)
        return [mail.using(unique=True).enqueue(f"user-{k}").id for k in range(25)]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(enqueue, range(8)))
    assert len({tuple(answer) for answer in answers}) == 1
    assert app.jobs.count() == 25


# -- beside the rest


def test_run_inline_a_duplicate_is_run_once(app: Headrace, mail: Any) -> None:
    waiting = mail.using(unique=True).enqueue("ann")
    with inline(app):
        again = mail.using(unique=True).enqueue("ann")
        assert (again.id, again.state) == (waiting.id, State.COMPLETED)
        jobs = app.enqueue_many([mail.using(unique=True).bind("bob") for _ in range(3)])
        assert [job.state for job in jobs] == [State.COMPLETED] * 3
        assert asyncio.run(mail.using(unique=True).aenqueue("eve")).state is State.COMPLETED
    assert app.jobs.count() == 3


def test_on_a_full_queue_a_duplicate_is_still_answered(app: Headrace, mail: Any) -> None:
    once = mail.using(unique=True)
    first = once.enqueue("ann")
    app.queue("default").configure(max_length=1)
    assert once.enqueue("ann").id == first.id
    with pytest.raises(QueueFull, match="'default'"):
        once.enqueue("bob")


@pytest.mark.engines("postgres", "redis")
def test_what_only_the_server_can_decide_is_not_spooled(engine_name: str, tmp_path: Any) -> None:
    nowhere = {"postgres": "postgresql://u@127.0.0.1:1/shop", "redis": "redis://127.0.0.1:1/0"}[engine_name]
    with Headrace(nowhere, spool=str(tmp_path / "spool.db")) as app:
        task = app.task(name="once")(lambda: None)
        for how in ({"unique": True}, {"idempotency_key": "k"}, {"debounce": 5}, {"throttle": 5}):
            with pytest.raises(EngineUnavailable, match="it can't be spooled, as only the server knows"):
                task.using(**how).enqueue()
        with pytest.raises(EngineUnavailable, match="it can't be spooled"):
            app.enqueue_many([task.bind(), task.using(unique=True).bind()])
        assert app.spooled() == 0
        assert task.enqueue().spooled


@pytest.mark.parametrize(
    ("how", "results"),
    [
        ({"unique": Unique(by=("task",), on_conflict="replace")}, [[1, 1]]),
        ({"unique": Unique(by=("task",), on_conflict="keep_last_if_running")}, [[1, 1], [3, 3]]),
        ({"unique": Unique(by=("task",)), "debounce": 1}, [[1, 1], [3, 3]]),
    ],
    ids=["replace", "keep_last_if_running", "debounce"],
)
def test_a_job_that_sleeps_between_its_steps_keeps_its_arguments_and_no_call_is_lost(
    app: Headrace, clock: VirtualClock, how: dict[str, Any], results: list[list[int]]
) -> None:
    ended: list[list[int]] = []

    @app.task(**how)
    def order(number: int) -> None:
        charged = current_job().step("charge", lambda: number)
        current_job().sleep(60)
        ended.append([charged, number])

    order.enqueue(1)
    clock.advance(1)
    drain(app)
    for number in (2, 3):
        order.enqueue(number)
    for _ in range(3):
        clock.advance(60)
        drain(app)
    assert ended == results
