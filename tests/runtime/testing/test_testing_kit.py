"""The testing kit runs jobs as a worker would, only here and now; and leaves the app as it found it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

import headrace.testing
from headrace import (
    CancelJob,
    CorruptPayload,
    Headrace,
    HeadraceError,
    InvalidJob,
    LeaseLost,
    PermanentError,
    Retry,
    RetryLater,
    Snooze,
    State,
    UnknownTask,
    chain,
    current_job,
    group,
)
from headrace.testing import (
    VirtualClock,
    adrain,
    assert_enqueued,
    assert_not_enqueued,
    drain,
    enqueued,
    inline,
    isolated,
)
from tests.runtime.jobs import shop
from tests.support.waiting import PATIENCE

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
def app(clock: VirtualClock) -> Iterator[Headrace]:
    with Headrace("memory://", clock=clock) as app:
        yield app


@pytest.fixture
def add(app: Headrace) -> Any:
    @app.task
    def add(a: int, b: int = 0) -> int:
        return a + b

    return add


# -- the clock


def test_the_clock_stands_still_until_it_is_moved(clock: VirtualClock) -> None:
    assert (clock.now(), clock.moment) == (1_772_366_400_000, START)
    clock.advance(1.5)
    clock.advance(timedelta(hours=1))
    assert clock.moment == START + timedelta(hours=1, seconds=1.5)
    assert clock.now() == 1_772_370_001_500
    clock.set(datetime(2020, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))))
    assert clock.moment == datetime(2020, 1, 1, tzinfo=UTC)
    assert repr(clock) == "<VirtualClock at 2020-01-01T00:00:00+00:00>"


def test_without_a_start_it_stands_at_the_present() -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    assert before <= VirtualClock().moment <= datetime.now(UTC)


def test_a_wrong_move_is_refused_and_moves_nothing(clock: VirtualClock) -> None:
    with pytest.raises(ValueError, match="would go back in time; use set"):
        clock.advance(-1)
    with pytest.raises(InvalidJob, match=r"moment: .* has no time zone"):
        clock.set(datetime(2020, 1, 1))
    with pytest.raises(InvalidJob, match=r"start: .* has no time zone"):
        VirtualClock(datetime(2020, 1, 1))
    assert clock.moment == START


def test_many_threads_may_move_it(clock: VirtualClock) -> None:
    def move() -> None:
        for _ in range(1000):
            clock.advance(0.001)

    threads = [threading.Thread(target=move) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert clock.moment == START + timedelta(seconds=8)


# -- drain


def test_drain_runs_due_jobs_and_returns_the_number_of_attempts(app: Headrace, add: Any, clock: VirtualClock) -> None:
    jobs = [add.enqueue(n, n) for n in range(3)]
    later = add.using(delay=60).enqueue(9, 9)
    assert drain(app) == 3
    assert [job.result(0) for job in jobs] == [0, 2, 4]
    assert later.refresh().state == "scheduled"
    assert drain(app) == 0
    clock.advance(60)
    assert drain(app) == 1
    assert later.result(0) == 18


def test_drain_runs_here_in_an_order_that_never_varies(app: Headrace) -> None:
    order: list[Any] = []
    var: ContextVar[str] = ContextVar("var", default="unset")

    @app.task
    def mark(name: str) -> None:
        order.append((name, var.get(), threading.current_thread()))

    calls: list[tuple[str, dict[str, Any]]] = [
        ("b", {}),
        ("a", {"priority": 1}),
        ("d", {"queue": "zzz", "priority": 100}),
        ("c", {}),
    ]
    for name, options in calls:
        mark.using(**options).enqueue(name)
    var.set("mine")
    drain(app)
    assert order == [(name, "mine", threading.current_thread()) for name in "abcd"]


def test_drain_runs_what_jobs_enqueue_as_well(app: Headrace) -> None:
    @app.task
    def countdown(n: int) -> int:
        if n:
            countdown.enqueue(n - 1)
        return n

    countdown.enqueue(9)
    assert drain(app) == 10


def test_drain_gives_up_on_a_job_that_enqueues_itself_for_ever(app: Headrace) -> None:
    @app.task
    def endless() -> None:
        endless.enqueue()

    endless.enqueue()
    with pytest.raises(HeadraceError, match="ran 25 attempts and jobs are still due, next one of task 'endless'"):
        drain(app, limit=25)
    assert app.jobs.count(state="completed") == 25
    (left,) = app.jobs.find(state="pending")
    assert left.attempt == 0


def test_drain_honors_retries_when_their_time_has_come(app: Headrace, clock: VirtualClock) -> None:
    @app.task(retry=Retry(limit=2, backoff=[10, 20], jitter=0))
    def flaky() -> None:
        raise OSError("away")

    job = flaky.enqueue()
    assert drain(app) == 1
    assert (job.refresh().state, job.run_at) == ("retrying", START + timedelta(seconds=10))
    clock.advance(9.999)
    assert drain(app) == 0
    clock.advance(0.001)
    assert drain(app) == 1
    clock.advance(20)
    assert drain(app) == 1
    assert (job.refresh().state, job.reason) == ("failed", "attempts_used_up")
    assert [error.at - START for error in job.errors] == [timedelta(seconds=s) for s in (0, 10, 30)]


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (Snooze(60), "scheduled"),
        (RetryLater(delay=60), "retrying"),
        (CancelJob("no"), "cancelled"),
        (PermanentError("no"), "failed"),
        (ValueError("no"), "failed"),
        (SystemExit(1), "failed"),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_drain_records_every_end_as_a_worker_does(
    app: Headrace, error: BaseException, state: str, is_async: bool
) -> None:
    def plain() -> None:
        raise error

    async def coroutine() -> None:
        raise error

    job = app.task(name="ends", retry=Retry(limit=1) if state == "retrying" else 0)(
        coroutine if is_async else plain
    ).enqueue()
    assert drain(app) == 1
    assert job.refresh().state == state
    assert job.worker == (None if state in ("scheduled", "retrying") else "headrace.testing")


def test_drain_runs_coroutines_also_from_inside_an_event_loop(app: Headrace) -> None:
    var: ContextVar[str] = ContextVar("var")

    async def backoff(attempt: int, error: BaseException) -> float:
        await asyncio.sleep(0)
        return 0.0

    @app.task(retry=Retry(backoff=backoff))
    async def twice() -> str:
        await asyncio.sleep(0)
        if current_job().attempt == 1:
            raise OSError("again")
        return f"{current_job().id} {var.get()}"

    job = twice.enqueue()

    async def test() -> int:
        var.set("seen")
        return drain(app)

    assert asyncio.run(test()) == 2
    assert job.result(0) == f"{job.id} seen"


def test_adrain_runs_coroutines_on_the_tests_own_loop(app: Headrace) -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        seen = []

        async def backoff(attempt: int, error: BaseException) -> float:
            return 0.0

        @app.task(retry=Retry(backoff=backoff))
        async def coroutine() -> None:
            seen.append(asyncio.get_running_loop() is loop)
            if current_job().attempt == 1:
                raise OSError("again")

        @app.task
        def plain() -> None:
            seen.append(threading.current_thread() is threading.main_thread())

        await coroutine.aenqueue()
        await plain.aenqueue()
        assert await adrain(app) == 3
        assert seen == [True, True, True]
        await plain.aenqueue()
        with pytest.raises(HeadraceError, match="ran 0 attempts"):
            await adrain(app, limit=0)

    asyncio.run(test())


def test_a_job_in_drain_knows_itself_and_reports(app: Headrace, clock: VirtualClock) -> None:
    @app.task(timeout=60)
    def report() -> str:
        ctx = current_job()
        ctx.progress(0.5)
        ctx.log("half", rows=2)
        ctx.heartbeat()
        assert ctx.deadline == START + timedelta(seconds=60)
        assert not ctx.cancel_requested
        return f"{ctx.id} {ctx.attempt} {ctx.metadata['who']}"

    job = report.using(metadata={"who": "ann"}).enqueue()
    drain(app)
    assert job.result(0) == f"{job.id} 1 ann"
    assert (job.progress, [line.message for line in job.logs()], job.logs()[0].at) == (0.5, ["half"], START)
    with pytest.raises(HeadraceError, match="outside of a running job"):
        current_job()


def test_a_job_in_drain_that_is_cancelled_meanwhile_has_lost_its_lease(app: Headrace) -> None:
    @app.task
    def rash() -> str:
        app.jobs.get(current_job().id).cancel()
        with pytest.raises(LeaseLost):
            current_job().heartbeat()
        return "too late"

    job = rash.enqueue()
    assert drain(app) == 1
    assert job.refresh().state == "cancelled"
    assert job.history()[-1].event == "lease_lost"


def test_a_process_task_runs_here_too(app: Headrace) -> None:
    job = app.task(isolation="process")(shop.pid).enqueue()
    drain(app)
    assert job.result(0) == os.getpid()


def test_an_unknown_task_is_an_error_in_a_test_and_leaves_the_job(app: Headrace) -> None:
    job = app.enqueue("reports.build")
    with pytest.raises(UnknownTask, match=r"task 'reports\.build', which this app does not know"):
        drain(app)
    assert (job.refresh().state, job.attempt) == ("pending", 0)


def test_drain_skips_paused_queues_and_lets_lapse_what_expired(app: Headrace, add: Any, clock: VirtualClock) -> None:
    held = add.using(queue="held").enqueue(1)
    app.queue("held").pause()
    expired = add.using(expires=5).enqueue(1)
    clock.advance(5)
    assert drain(app) == 0
    assert (held.refresh().state, expired.refresh().state) == ("pending", "cancelled")
    app.queue("held").resume()
    assert drain(app) == 1


def test_what_breaks_off_a_test_also_breaks_off_drain_and_puts_the_job_back(app: Headrace) -> None:
    @app.task
    def stop() -> None:
        pytest.fail("from inside the task")

    job = stop.enqueue()
    with pytest.raises(pytest.fail.Exception, match="from inside the task"):
        drain(app)
    assert (job.refresh().state, job.attempt) == ("pending", 0)
    with pytest.raises(HeadraceError, match="outside of a running job"):
        current_job()


def test_damaged_jobs_fail_as_with_a_worker(app: Headrace, add: Any) -> None:
    job = add.enqueue(1)
    with app.engine.store.writing() as db:  # type: ignore[attr-defined]
        db.execute("UPDATE headrace_jobs SET payload = 'x'")
    assert drain(app) == 1
    assert job.refresh().reason == "corrupt_payload"
    with pytest.raises(CorruptPayload):
        assert job.args


# -- inline


def test_inline_runs_the_job_before_enqueue_returns(app: Headrace, add: Any) -> None:
    before = add.enqueue(5)
    with inline(app):
        job = add.enqueue(1, 2)
        assert (job.state, job.result(0)) == ("completed", 3)
        assert app.enqueue("add", 3).state == "completed"
        assert asyncio.run(add.aenqueue(4)).state == "completed"
        assert [job.state for job in app.enqueue_many([add.bind(n) for n in range(3)])] == ["completed"] * 3
    assert add.enqueue(6).state == "pending"
    assert (before.refresh().state, before.attempt) == ("pending", 0)


def test_inline_leaves_the_jobs_before_it_in_their_order(app: Headrace, add: Any) -> None:
    waiting = [add.enqueue(n) for n in range(250)]
    with inline(app):
        assert add.enqueue(1000).state == "completed"
    assert {job.refresh().state for job in waiting} == {"pending"}
    assert app.queue("default").peek(250) == waiting


def test_inline_raises_what_the_task_raises_and_records_it(app: Headrace) -> None:
    @app.task(retry=0)
    def broken() -> None:
        raise OSError("away")

    with inline(app), pytest.raises(OSError, match="away"):
        broken.enqueue()
    with inline(app, raise_errors=False):
        assert broken.enqueue().state == "failed"
    assert app.jobs.count(state="failed") == 2


@pytest.mark.parametrize(
    ("error", "state"), [(Snooze(5), "scheduled"), (RetryLater(delay=5), "retrying"), (CancelJob("x"), "cancelled")]
)
def test_inline_does_not_take_steering_for_an_error(app: Headrace, error: Exception, state: str) -> None:
    @app.task
    def steered() -> None:
        raise error

    with inline(app):
        assert steered.enqueue().state == state


def test_inline_leaves_what_is_delayed_or_retried_to_its_time(app: Headrace, add: Any, clock: VirtualClock) -> None:
    runs = []

    @app.task(retry=Retry(limit=1, backoff=[30], jitter=0))
    def flaky() -> str:
        runs.append(1)
        if len(runs) == 1:
            raise OSError("away")
        return "done"

    with inline(app, raise_errors=False):
        later = add.using(delay=30).enqueue(1)
        job = flaky.enqueue()
    assert (later.state, job.state) == ("scheduled", "retrying")
    clock.advance(30)
    assert drain(app) == 2
    assert job.result(0) == "done"


def test_inline_works_for_jobs_inside_of_jobs(app: Headrace) -> None:
    @app.task
    def factorial(n: int) -> int:
        job_id = current_job().id
        result = n * factorial.enqueue(n - 1).result(0) if n else 1
        assert current_job().id == job_id
        return result

    @app.task
    async def outer() -> int:
        return await (await factorial.aenqueue(3))

    with inline(app):
        assert factorial.enqueue(5).result(0) == 120
        assert outer.enqueue().result(0) == 6


def test_inline_does_not_run_what_a_worker_would_not(app: Headrace, add: Any) -> None:
    app.queue("held").pause()
    with inline(app):
        assert add.using(queue="held").enqueue(1).state == "pending"
        with pytest.raises(UnknownTask, match="nobody"):
            app.enqueue("nobody")


def test_inline_may_be_nested_and_ends_where_it_began(app: Headrace, add: Any) -> None:
    with inline(app):
        with inline(app, raise_errors=False):
            assert add.enqueue(1).state == "completed"
        assert add.enqueue(1).state == "completed"
    assert add.enqueue(1).state == "pending"


# -- isolated


def test_isolated_gives_a_module_level_app_a_store_of_the_tests_own(folder: Path) -> None:
    shop_app = Headrace(f"sqlite:///{folder}/shop.db")
    double = shop_app.task(name="double")(lambda n: 2 * n)
    urgent = double.using(priority=9)  # a copy made before, as at import
    before = double.enqueue(1)
    queue = shop_app.queue("default")
    with isolated(shop_app) as clock:
        assert (shop_app.jobs.count(), queue.length()) == (0, 0)
        jobs = [double.enqueue(2), urgent.enqueue(3), shop_app.enqueue("double", 4), double.using(delay=5).enqueue(5)]
        assert drain(shop_app) == 3
        clock.advance(5)
        assert drain(shop_app) == 1
        assert [job.result(0) for job in jobs] == [4, 6, 8, 10]
        assert repr(shop_app) == "<Headrace memory://>"
    assert shop_app.jobs.count() == 1
    assert before.refresh().state == "pending"
    assert urgent.enqueue(6).queue == "default"
    assert drain(shop_app) == 2
    shop_app.close()


def test_isolated_stops_the_workers_that_were_started_inside_and_no_others(folder: Path) -> None:
    with Headrace(f"sqlite:///{folder}/shop.db") as shop_app:
        double = shop_app.task(name="double")(lambda n: 2 * n)
        with shop_app.worker() as outside:
            with isolated(shop_app):
                inside = shop_app.worker().start()
                assert double.enqueue(4).result(PATIENCE) == 8
            assert inside.stopped.is_set()
            assert not outside.stopped.is_set()
            assert double.enqueue(5).result(PATIENCE) == 10
        abandoned = shop_app.worker().start()
    assert abandoned.stopped.is_set()


def test_isolated_ends_also_when_the_test_fails(app: Headrace, add: Any) -> None:
    engine, own = app.engine, app.clock
    with pytest.raises(RuntimeError, match="the test's own"), isolated(app):
        raise RuntimeError("the test's own")
    assert (app.engine, app.clock, app.jobs.count()) == (engine, own, 0)


def test_isolated_takes_a_clock_of_ones_own_and_may_be_nested(app: Headrace, add: Any) -> None:
    own_clock = VirtualClock(datetime(2000, 1, 1, tzinfo=UTC))
    with isolated(app, clock=own_clock) as clock:
        assert clock is own_clock
        assert add.enqueue(1).created_at == clock.moment
        with isolated(app), inline(app):
            assert add.enqueue(2).state == "completed"
        assert app.jobs.count() == 1


# -- assertions


@dataclass
class Order:
    number: int


def test_what_was_enqueued_can_be_looked_at_oldest_first(app: Headrace, add: Any) -> None:
    app.task(name="noop")(lambda: None)
    jobs = [add.enqueue(1), app.enqueue("noop"), add.using(queue="q").enqueue(2)]
    drain(app)
    jobs.append(add.using(delay=5).enqueue(1))
    assert enqueued(app) == jobs
    assert enqueued(app, add) == enqueued(app, "add") == [jobs[0], jobs[2], jobs[3]]
    assert enqueued(app, add.function, state="completed") == [jobs[0], jobs[2]]
    assert enqueued(app, queue="q") == [jobs[2]]
    assert enqueued(app, add, args=(1,)) == [jobs[0], jobs[3]]
    assert enqueued(app, state=State.SCHEDULED) == [jobs[3]]


def test_more_than_a_page_is_looked_at(app: Headrace, add: Any) -> None:
    jobs = app.enqueue_many([add.bind(n) for n in range(2100)])
    assert enqueued(app, add) == jobs
    assert_enqueued(app, add, count=2100)


def test_it_does_not_matter_how_arguments_were_passed(app: Headrace, add: Any) -> None:
    add.enqueue(1, b=2)
    for args, kwargs in [((1, 2), None), ((1,), {"b": 2}), (None, {"a": 1, "b": 2}), ((1, ANY), None)]:
        assert_enqueued(app, add, args=args, kwargs=kwargs, count=1)
    for args, kwargs in [((1,), None), ((2, 1), None), (None, {"a": 1}), ((), {}), ((1, 2), {"c": 3})]:
        assert_not_enqueued(app, add, args=args, kwargs=kwargs)


def test_models_are_compared_as_what_they_are(app: Headrace) -> None:
    @app.task
    def ship(order: Order, to: tuple[str, ...] = ()) -> None: ...

    ship.enqueue(Order(7), to=("a", "b"))
    assert_enqueued(app, ship, args=(Order(7), ("a", "b")))
    assert_not_enqueued(app, ship, args=(Order(8), ("a", "b")))


def test_the_arguments_of_a_task_whose_code_is_elsewhere_are_compared_as_given(app: Headrace) -> None:
    app.enqueue("mail", "ann", subject="hi")
    assert_enqueued(app, "mail", args=("ann",), kwargs={"subject": "hi"})
    assert_not_enqueued(app, "mail", args=("ann",))


def test_options_are_compared_by_name(app: Headrace, add: Any) -> None:
    add.using(queue="q", priority=3, delay=60, tags=["b", "a"], metadata={"who": "ann"}, job_id="x-1", retry=4).enqueue(
        1
    )
    right: dict[str, Any] = {
        "priority": 3,
        "delay": 60,
        "run_at": START + timedelta(seconds=60),
        "tags": ["a", "b"],
        "metadata": {"who": "ann"},
        "job_id": "x-1",
        "state": "scheduled",
        "max_attempts": 5,
    }
    assert_enqueued(app, add, queue="q", **right)
    assert_enqueued(app, add, delay=timedelta(minutes=1))
    wrong: dict[str, Any] = {
        "priority": 4,
        "delay": 61,
        "tags": ["a"],
        "metadata": {},
        "job_id": "x-2",
        "state": "pending",
    }
    for name, value in wrong.items():
        assert_not_enqueued(app, add, **{name: value})
    with pytest.raises(TypeError, match="unknown option 'colour'; options are queue, state"):
        assert_enqueued(app, add, colour="red")


def test_a_failed_assertion_says_what_was_expected_and_what_is_there(app: Headrace) -> None:
    @app.task(redact=("password",))
    def login(user: str, password: str = "") -> None: ...

    with pytest.raises(AssertionError) as nothing:
        assert_enqueued(app, login)
    assert str(nothing.value) == "expected at least 1 job of task 'login', found 0\nnothing is enqueued"

    login.enqueue("ann", "s3cret")
    login.using(priority=5, queue="vip").enqueue("bob", password="x")
    with pytest.raises(AssertionError) as other:
        assert_enqueued(app, login, args=("eve",), queue="vip")
    assert str(other.value).splitlines() == [
        "expected at least 1 job of task 'login', called as login('eve'), with queue='vip', found 0",
        "enqueued are:",
        "  login('ann', '***') in queue 'default', pending",
        "  login('bob', password='***') in queue 'vip', pending, priority 5",
    ]
    with pytest.raises(AssertionError, match="expected 3 jobs of task 'login', found 2"):
        assert_enqueued(app, login, count=3)
    with pytest.raises(AssertionError, match="expected no job of task 'login' with queue='vip', found 1"):
        assert_not_enqueued(app, login, queue="vip")
    for n in range(30):
        login.enqueue(str(n))
    with pytest.raises(AssertionError, match="… and 12 more"):
        assert_enqueued(app, login, args=("nobody",))


def test_assert_enqueued_counts_none_as_well(app: Headrace, add: Any) -> None:
    assert_enqueued(app, add, count=0)
    with pytest.raises(AssertionError, match="expected 1 job of task 'add', found 0"):
        assert_enqueued(app, add, count=1)


# -- the plugin


PLUGGED = """
from headrace import current_job
from headrace.testing import drain, assert_enqueued

def test_one(headrace_app, headrace_clock):
    ticks = headrace_app.task(name="ticks")(lambda: current_job().attempt)
    job = ticks.using(delay=60).enqueue()
    assert_enqueued(headrace_app, ticks, delay=60)
    assert drain(headrace_app) == 0
    headrace_clock.advance(60)
    assert drain(headrace_app) == 1
    assert job.result(0) == 1

def test_another_one_starts_afresh(headrace_app):
    assert headrace_app.jobs.count() == 0
    assert headrace_app.tasks == {}
"""


def plugged(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A pytest run of a user's, with the plugin and nothing of ours."""
    source = Path(headrace.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "-p", "headrace.testing.plugin", "--rootdir", str(folder), *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
    )


def test_the_plugin_gives_every_test_an_app_of_its_own(folder: Path) -> None:
    (folder / "test_user.py").write_text(PLUGGED)
    run = plugged(folder, "-q", "-W", "error", "test_user.py")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "2 passed" in run.stdout


def test_the_plugin_costs_a_run_that_does_not_use_it_hardly_anything() -> None:
    code = "import sys, headrace.testing.plugin as plugin; print(*sorted(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": str(Path(headrace.__file__).parents[1])}
    found = subprocess.run(
        [sys.executable, "-c", f"import pytest, headrace; {code}"],
        env=environment, capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    loaded = set(found.stdout.split())
    assert {"headrace.testing.plugin"} <= loaded
    assert not {name for name in loaded if name.startswith("headrace.testing.") and not name.endswith(".plugin")}
    assert not loaded & {"headrace.runtime.worker.worker", "headrace.runtime.worker.execution", "asyncio"}


def test_every_name_of_the_kit_is_there_and_documented() -> None:
    for name in headrace.testing.__all__:
        assert getattr(headrace.testing, name).__doc__, name
    with pytest.raises(AttributeError, match="nothing_such"):
        headrace.testing.nothing_such  # noqa: B018


# -- steps


def test_a_job_in_steps_goes_on_when_the_clock_is_moved_and_the_event_sent(app: Headrace, clock: VirtualClock) -> None:
    done: list[str] = []

    @app.task
    def order() -> Any:
        job = current_job()
        job.step("charge", done.append, "charge")
        job.sleep(timedelta(days=1))
        job.step("remind", done.append, "remind")
        return job.wait_event("paid", timeout=timedelta(days=7))

    job = order.enqueue()
    assert (drain(app), done) == (1, ["charge"])
    assert job.refresh().run_at == START + timedelta(days=1)
    assert drain(app) == 0
    clock.advance(86_400)
    assert (drain(app), done) == (1, ["charge", "remind"])
    assert app.signal(job, "paid", 9)
    assert drain(app) == 1
    assert (job.result(0), job.attempt) == (9, 1)


def test_an_event_that_never_comes_is_over_with_its_time(app: Headrace, clock: VirtualClock) -> None:
    @app.task
    async def order() -> str:
        try:
            return str(await current_job().await_event("paid", timeout=60))
        except TimeoutError:
            return "cancelled"

    job = order.enqueue()
    assert asyncio.run(adrain(app)) == 1
    clock.advance(60)
    assert asyncio.run(adrain(app)) == 1
    assert job.result(0) == "cancelled"


def test_a_suspension_is_no_error_inline(app: Headrace) -> None:
    @app.task
    def order() -> Any:
        return current_job().wait_event("paid")

    @app.task
    async def group() -> None:
        async with asyncio.TaskGroup() as waits:
            waits.create_task(current_job().asleep(60))

    with inline(app):
        job = order.enqueue()
        assert group.enqueue().state == "scheduled"
    assert (job.state, job.attempt) == ("scheduled", 0)
    app.signal(job, "paid", 1)
    drain(app)
    assert job.result(0) == 1


# -- flows


def test_inline_runs_each_job_of_a_flow_as_soon_as_it_is_due() -> None:
    order: list[Any] = []
    with Headrace("memory://", clock=VirtualClock()) as app:

        @app.task
        def step(value: Any, name: str = "") -> Any:
            order.append(name)
            if name == "makes":
                current_job().spawn(step.bind(1, "made"))
            return value

        with inline(app):
            run = chain(group(step.bind(1, "a"), step.bind(2, "b")), step.bind("makes"), step.bind("last")).enqueue()
            assert run.refresh().state == "completed"
            assert order == ["a", "b", "makes", "made", "last"]
            assert run.result() == [1, 2]
            assert step.enqueue(run.jobs[0], "later").refresh().state == "completed"


def test_inline_raises_the_error_of_any_job_that_ran() -> None:
    with Headrace("memory://", clock=VirtualClock()) as app:

        @app.task
        def good(value: Any = None) -> Any:
            return value

        @app.task
        def bad(value: Any) -> None:
            raise ValueError(f"not {value}")

        with inline(app), pytest.raises(ValueError, match="not 3"):
            chain(good.bind(3), bad.bind(), good.bind()).enqueue()
        assert app.jobs.count(state="cancelled") == 1


def test_an_inline_job_has_its_state_without_a_refresh(app: Headrace, add: Any) -> None:
    @app.task
    def makes(number: int) -> int:
        current_job().spawn(add.bind(number))
        return number

    with inline(app):
        run = chain(add.bind(1), add.bind(2)).enqueue()
        job = makes.enqueue(5)
    assert (run.state, run.progress, run.counts) == ("completed", (2, 2), {"completed": 2})
    assert [one.state for one in run.jobs] == ["completed", "completed"]
    assert (job.state, job.result(0)) == ("completed", 5)
