"""Hooks around workers and attempts, and values that a worker injects, for `def` and `async def` tasks."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import INJECTED, ConfigError, Headrace, JobContext, JobFailed, Retry
from tests.runtime.worker import hooked_tasks
from tests.support.waiting import PATIENCE, eventually

seen: contextvars.ContextVar[str] = contextvars.ContextVar("seen", default="nothing")


class Pool:
    def __init__(self) -> None:
        self.is_open = True
        self.loop: asyncio.AbstractEventLoop | None = None


class Session:
    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.is_open = True


def run(app: Headrace, task: Any, *args: Any) -> Any:
    with app.worker(concurrency=2):
        return task.enqueue(*args).result(PATIENCE)


# -- around a worker


def test_hooks_run_before_the_first_and_after_the_last_job(app: Headrace) -> None:
    told: list[Any] = []

    @app.on_worker_start
    def first(worker: Any) -> None:
        told.append(worker.id)

    @app.on_worker_start
    async def second() -> None:
        await asyncio.sleep(0)
        told.append("second")

    @app.on_worker_stop
    async def last() -> None:
        told.append("last")

    @app.on_worker_stop
    def before_last(worker: Any) -> None:
        told.append("before last")

    @app.task
    def work() -> None:
        told.append("work")

    with app.worker() as worker:
        work.enqueue().result(PATIENCE)
    assert told == [worker.id, "second", "work", "before last", "last"]


def test_a_hook_that_raises_keeps_the_worker_from_starting_and_a_stop_goes_on(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    stopped: list[str] = []

    @app.on_worker_start
    def broken() -> None:
        raise OSError("no database")

    @app.on_worker_stop
    def tidy() -> None:
        stopped.append("tidy")

    with pytest.raises(OSError, match="no database"):
        app.worker().start()
    assert app.workers() == []
    app.submitter.hooks.worker_start.clear()

    @app.on_worker_stop
    def broken_stop() -> None:
        raise OSError("no database")

    with app.worker():
        pass
    assert stopped[-1] == "tidy"
    assert "broken_stop failed while the worker stopped" in caplog.text


# -- around an attempt


@pytest.mark.parametrize("is_async", [False, True])
def test_hooks_surround_each_attempt_in_order_and_see_its_error(app: Headrace, is_async: bool) -> None:
    told: list[Any] = []

    @app.around_attempt
    def outer(job: JobContext) -> Iterator[None]:
        told.append(("outer", job.task, job.attempt))
        token = seen.set("set by a hook")
        try:
            yield
        except OSError as error:
            told.append(("outer saw", str(error)))
            raise
        finally:
            seen.reset(token)

    @app.around_attempt
    async def inner(job: JobContext) -> AsyncIterator[None]:
        await asyncio.sleep(0)
        told.append("inner")
        yield
        told.append("inner ended")

    @app.around_attempt
    def before(job: JobContext) -> None:
        told.append("before")

    def work() -> str:
        told.append(seen.get())
        if len(told) < 6:
            raise OSError("not yet")
        return "done"

    async def awork() -> str:
        return work()

    task = app.task(name="work", retry=Retry(limit=2, backoff="fixed", base=0))(awork if is_async else work)
    assert run(app, task) == "done"
    once = ["inner", "before", "set by a hook"]
    assert told == [
        ("outer", "work", 1),
        *once,
        ("outer saw", "not yet"),
        ("outer", "work", 2),
        *once,
        "inner ended",
    ]


def test_an_error_of_a_hook_is_an_error_of_the_attempt(app: Headrace) -> None:
    @app.around_attempt
    def broken(job: JobContext) -> None:
        raise ValueError("the hook failed")

    @app.task(retry=0)
    def work() -> None: ...

    with pytest.raises(JobFailed, match="the hook failed"):
        run(app, work)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_coroutine_hook_sets_context_variables_and_resets_them(app: Headrace, is_async: bool) -> None:
    @app.around_attempt
    async def tenant(job: JobContext) -> AsyncIterator[None]:
        token = seen.set(job.id)
        yield
        seen.reset(token)

    @app.around_attempt
    async def check(job: JobContext) -> None:
        assert seen.get() == job.id

    def work() -> str:
        return seen.get()

    async def awork() -> str:
        return work()

    task = app.task(name="work", retry=0)(awork if is_async else work)
    with app.worker(concurrency=1):
        for job in (task.enqueue(), task.enqueue()):
            assert job.result(PATIENCE) == job.id


def test_a_context_variable_of_a_job_does_not_reach_the_next_job_of_its_thread(app: Headrace) -> None:
    @app.task
    def work() -> str:
        before = seen.get()
        seen.set("a tenant")
        return before

    with app.worker(concurrency=1):
        assert [work.enqueue().result(PATIENCE) for _ in range(2)] == ["nothing", "nothing"]


class Around:
    """A hook that is an object."""

    def __init__(self, told: list[str]) -> None:
        self.told = told

    def __call__(self, job: JobContext) -> Iterator[None]:
        self.told.append("object began")
        yield
        self.told.append("object ended")


def decorated(hook: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(hook)
    def call(*args: Any) -> Any:
        return hook(*args)

    return call


@pytest.mark.parametrize("is_async", [False, True])
def test_objects_wrapped_functions_and_context_managers_are_hooks(app: Headrace, is_async: bool) -> None:
    told: list[str] = []
    app.around_attempt(Around(told))

    @app.around_attempt
    @decorated
    def wrapped(job: JobContext) -> Iterator[None]:
        yield
        told.append("wrapped ended")

    @app.around_attempt
    @contextlib.contextmanager
    def managed(job: JobContext) -> Iterator[None]:
        yield
        told.append("managed ended")

    @app.around_attempt
    @contextlib.asynccontextmanager
    async def amanaged(job: JobContext) -> AsyncIterator[None]:
        yield
        told.append("amanaged ended")

    @app.around_attempt
    def leaves_early(job: JobContext) -> Iterator[None]:
        if job.task == "other":
            yield

    @app.provide
    @contextlib.asynccontextmanager
    async def pool() -> AsyncIterator[Pool]:
        yield Pool()
        told.append("pool closed")

    def work(pool: Pool = INJECTED) -> bool:
        return pool.is_open

    async def awork(pool: Pool = INJECTED) -> bool:
        return pool.is_open

    assert run(app, app.task(name="work", retry=0)(awork if is_async else work)) is True
    ended = ["pool closed", "amanaged ended", "managed ended", "wrapped ended", "object ended"]
    assert told == ["object began", *ended]


# -- injected values


@pytest.fixture
def values(app: Headrace) -> list[Any]:
    """Every pool and session that was made."""
    made: list[Any] = []

    @app.provide(per="worker")
    def pool() -> Iterator[Pool]:
        made.append(pool := Pool())
        yield pool
        pool.is_open = False

    @app.provide
    def session(pool: Pool) -> Iterator[Session]:
        made.append(session := Session(pool))
        yield session
        session.is_open = False

    return made


@pytest.mark.parametrize("is_async", [False, True])
def test_values_are_injected_by_annotation_and_closed(app: Headrace, values: list[Any], is_async: bool) -> None:
    def work(number: int, *, session: Session = INJECTED, pool: Pool = INJECTED) -> tuple[int, bool]:
        assert session.pool is pool
        return number, session.is_open and pool.is_open

    async def awork(number: int, session: Session = INJECTED, pool: Pool = INJECTED) -> tuple[int, bool]:
        return work(number, session=session, pool=pool)

    task = app.task(name="work")(awork if is_async else work)
    with app.worker():
        assert [task.enqueue(number).result(PATIENCE) for number in (1, 2)] == [(1, True), (2, True)]
        assert [type(value) for value in values] == [Pool, Session, Session]
        assert [value.is_open for value in values] == [True, False, False]
    assert not values[0].is_open


@pytest.mark.parametrize("is_async", [False, True])
def test_a_coroutine_makes_values_on_the_loop_of_the_coroutines(app: Headrace, is_async: bool) -> None:
    loops: list[Any] = []

    @app.provide(per="worker")
    async def pool() -> AsyncIterator[Pool]:
        made = Pool()
        made.loop = asyncio.get_running_loop()
        yield made
        loops.append(asyncio.get_running_loop() is made.loop)

    @app.task
    async def on_loop(pool: Pool = INJECTED) -> bool:
        return pool.loop is asyncio.get_running_loop()

    @app.task
    def in_thread(pool: Pool = INJECTED) -> bool:
        return pool.loop is not None

    first, second = (on_loop, in_thread) if is_async else (in_thread, on_loop)
    with app.worker():
        assert first.enqueue().result(PATIENCE)
        assert second.enqueue().result(PATIENCE)
    assert loops == [True]


def test_a_value_of_the_worker_is_made_once_by_concurrent_attempts(app: Headrace) -> None:
    made: list[int] = []
    both = threading.Barrier(2)

    @app.provide(per="worker")
    def pool() -> Pool:
        made.append(1)
        return Pool()

    @app.around_attempt
    def wait(job: JobContext) -> None:
        both.wait(PATIENCE)

    @app.task
    def work(pool: Pool = INJECTED) -> int:
        return id(pool)

    with app.worker(concurrency=2):
        jobs = app.enqueue_many([work.bind(), work.bind()])
        assert len({job.result(PATIENCE) for job in jobs}) == 1
    assert made == [1]


def test_a_provider_that_raises_fails_the_attempt_and_the_next_one_tries_again(app: Headrace) -> None:
    tries: list[int] = []

    @app.provide(per="worker")
    def pool() -> Pool:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("the database starts")
        return Pool()

    @app.task(retry=Retry(limit=1, backoff="fixed", base=0))
    def work(pool: Pool = INJECTED) -> str:
        return "done"

    assert run(app, work) == "done"
    assert len(tries) == 2


def test_the_maker_of_a_value_is_cancelled_and_the_attempt_that_waits_makes_it(app: Headrace) -> None:
    tries: list[int] = []
    asked: list[str] = []

    @app.provide(per="worker")
    async def pool() -> Pool:
        tries.append(1)
        if len(tries) == 1:
            await asyncio.Event().wait()
        return Pool()

    @app.around_attempt
    def note(job: JobContext) -> None:
        asked.append(job.id)

    @app.task(retry=0)
    async def work(pool: Pool = INJECTED) -> str:
        return "done"

    with app.worker(concurrency=2):
        first = work.enqueue()
        eventually(lambda: tries, "the first try")
        second = work.enqueue()
        eventually(lambda: second.id in asked, "the second attempt")
        first.cancel()
        assert second.result(PATIENCE) == "done"
    assert len(tries) == 2


def test_a_cancelled_attempt_that_waits_for_a_value_does_not_spoil_it(app: Headrace) -> None:
    go = threading.Event()
    asked: list[str] = []

    @app.provide(per="worker")
    async def pool() -> Pool:
        while not go.is_set():
            await asyncio.sleep(0)
        return Pool()

    @app.around_attempt
    def note(job: JobContext) -> None:
        asked.append(job.id)

    @app.task(retry=0)
    async def work(pool: Pool = INJECTED) -> str:
        return "done"

    with app.worker(concurrency=2):
        first = work.enqueue()
        eventually(lambda: first.id in asked, "the first attempt")
        second = work.enqueue()
        eventually(lambda: second.id in asked, "the second attempt")
        second.cancel()
        eventually(lambda: second.refresh().is_finished, "its end")
        go.set()
        assert first.result(PATIENCE) == "done"


def test_clean_up_that_raises_fails_the_attempt_and_all_others_still_run(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    closed: list[str] = []

    @app.provide(per="worker")
    def pool() -> Iterator[Pool]:
        yield Pool()
        closed.append("pool")
        raise OSError("the pool can't be closed")

    @app.provide
    def session(pool: Pool) -> Iterator[Session]:
        yield Session(pool)
        closed.append("session")
        raise OSError("the commit failed")

    @app.around_attempt
    def outer(job: JobContext) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            closed.append(str(error))
            raise

    @app.task(retry=0)
    def work(session: Session = INJECTED) -> str:
        return "done"

    with pytest.raises(JobFailed, match="the commit failed"):
        run(app, work)
    assert closed == ["session", "the commit failed", "pool"]
    assert "a value of the worker could not be closed" in caplog.text


def test_nobody_passes_an_injected_value_in_a_job(app: Headrace, values: list[Any]) -> None:
    @app.task
    def work(number: int, session: Session = INJECTED) -> int:
        return number

    with pytest.raises(Exception, match="session"):
        work.enqueue(1, session="mine")  # type: ignore[arg-type]
    assert work(1, session=Session(Pool())) == 1

    @app.task
    def use(session: Session = INJECTED) -> bool:
        return session.is_open

    with pytest.raises(AttributeError, match="a worker injects this parameter"):
        use()


def test_a_missing_provider_fails_the_job_and_a_worker_says_so_at_its_start(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(retry=0)
    def work(pool: Pool = INJECTED) -> None: ...

    with app.worker():
        assert re.search(r"task 'work': nothing provides .*Pool.*; its jobs will fail", caplog.text)
        with pytest.raises(JobFailed, match=r"nothing provides .*Pool.*@app\.provide"):
            work.enqueue().result(PATIENCE)


def test_a_generator_that_provides_nothing_says_so(app: Headrace) -> None:
    @app.provide
    def pool() -> Iterator[Pool]:
        if seen.get() != "nothing":
            yield Pool()

    @app.task(retry=0)
    def work(pool: Pool = INJECTED) -> None: ...

    with pytest.raises(JobFailed, match="pool ended before its yield, so there is no value"):
        run(app, work)


def pool() -> Pool:
    return Pool()


def session(pool) -> Session:
    return Session(pool)


async def coroutine(call: Any) -> None: ...


def misplaced(pool: Pool = INJECTED, number: int = 1) -> None: ...


def unannotated(pool=INJECTED) -> None: ...


def without_argument() -> None: ...


def yielding() -> Iterator[None]:
    yield


def with_host(host: str, port: int) -> None: ...


WRONG: dict[str, Callable[[Any], object]] = {
    "per='day' is unknown; use 'worker' or 'attempt'": lambda app: app.provide(per="day")(pool),
    "annotate what it returns or yields": lambda app: app.provide(lambda: 1),
    "pool already provides": lambda app: (app.provide(pool), app.provide(pool)),
    "'pool' has no annotation": lambda app: app.provide(session),
    "must be a `def`": lambda app: app.around_enqueue(coroutine),
    "'pool' is injected; put 'number' in front of it": lambda app: app.task(misplaced),
    "unannotated: 'pool' is injected by its annotation; annotate it": lambda app: app.task(unannotated),
    "around_attempt: without_argument must take one argument, the job": lambda app: app.around_attempt(
        without_argument
    ),
    "around_enqueue: without_argument must take one argument, the call": lambda app: app.around_enqueue(
        without_argument
    ),
    "on_worker_start: yielding must not yield": lambda app: app.on_worker_start(yielding),
    "on_worker_stop: with_host takes no argument, or the worker": lambda app: app.on_worker_stop(with_host),
    "decorate a function, not 7": lambda app: app.on_worker_start(7),
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong_declarations_are_refused_at_once(app: Headrace, text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(text)):
        WRONG[text](app)


def test_a_value_of_the_worker_can_t_use_one_of_an_attempt(app: Headrace) -> None:
    @app.provide
    def session() -> Session:
        return Session(Pool())

    @app.provide(per="worker")
    def pool(session: Session) -> Pool:
        return Pool()

    @app.task(retry=0)
    def work(pool: Pool = INJECTED) -> None: ...

    with pytest.raises(JobFailed, match=r"pool is made once per worker, so it can't use .*session"):
        run(app, work)


def test_a_test_overrides_a_provider(app: Headrace, values: list[Any]) -> None:
    @app.task
    def work(session: Session = INJECTED) -> bool:
        return session.is_open

    fake = Session(Pool())
    fake.is_open = False
    with app.overriding(Session, fake):
        assert run(app, work) is False
    assert run(app, work) is True


def test_a_test_overrides_a_value_that_another_provider_uses(app: Headrace) -> None:
    @app.provide
    def session(pool: Pool) -> Session:
        return Session(pool)

    @app.task(retry=0)
    def work(session: Session = INJECTED) -> bool:
        return session.pool.is_open

    with app.overriding(Pool, Pool()):
        assert run(app, work) is True


# -- around enqueue


def test_hooks_around_enqueue_change_the_call_and_see_the_job(app: Headrace) -> None:
    told: list[Any] = []

    @app.around_enqueue
    def tag(call: Any) -> Any:
        return call.using(tags=["eu"])

    @app.around_enqueue
    def watch(call: Any) -> Iterator[Any]:
        job = yield None
        told.append((call.options.tags, job and job.id))

    @app.task
    def work(number: int) -> None: ...

    one = work.enqueue(1)
    two, three = app.enqueue_many([work.bind(2), work.bind(3)])
    four = asyncio.run(work.aenqueue(4))
    assert [job.tags for job in (one, two, three, four)] == [("eu",)] * 4
    assert sorted(job_id for _, job_id in told) == sorted(job.id for job in (one, two, three, four))
    flow = app.flow("f")
    flow.add(work.bind(5))
    [five] = flow.enqueue().jobs
    assert five.tags == ("eu",)


def test_a_hook_around_enqueue_refuses_a_call_and_sees_errors(app: Headrace) -> None:
    told: list[str] = []

    @app.around_enqueue
    def watch(call: Any) -> Iterator[None]:
        try:
            yield
        except PermissionError:
            told.append("refused")
            raise

    @app.around_enqueue
    def refuse(call: Any) -> None:
        raise PermissionError("read only")

    @app.task
    def work() -> None: ...

    for enqueue in (work.enqueue, lambda: app.enqueue_many([work.bind()])):
        with pytest.raises(PermissionError, match="read only"):
            enqueue()
    assert (told, app.jobs.count()) == (["refused", "refused"], 0)


def test_a_hook_that_raises_after_the_insert_is_seen_by_the_hooks_around_it(app: Headrace) -> None:
    told: list[str] = []

    @app.around_enqueue
    def outer(call: Any) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            told.append(str(error))
            raise

    @app.around_enqueue
    def inner(call: Any) -> Iterator[None]:
        yield
        raise OSError("no route to the audit log")

    @app.task
    def work() -> None: ...

    with pytest.raises(OSError, match="no route"):
        work.enqueue()
    assert (told, app.jobs.count()) == (["no route to the audit log"], 1)


@pytest.mark.parametrize("hook", [lambda call: 7, lambda call: iter([1, 2])])
def test_a_hook_around_enqueue_gives_a_call_or_nothing(app: Headrace, hook: Callable[[Any], Any]) -> None:
    app.around_enqueue(hook)
    work = app.task(name="work")(lambda: None)
    with pytest.raises(ConfigError, match="gives a call or None"):
        work.enqueue()


# -- in a process of its own


@pytest.mark.parametrize("name", ["work", "awork"])
def test_a_sandbox_makes_its_own_values_and_runs_the_hooks(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, closed = hooked_tasks.app, tmp_path / "closed"
    monkeypatch.setenv("HOOKED_TASKS_CLOSED", str(closed))
    with app.worker(concurrency=1):
        jobs = [app.enqueue(name) for _ in range(2)]
        answers = [job.result(PATIENCE) for job in jobs]
        assert not closed.exists()
    assert [answer["hooked"] for answer in answers] == [job.id for job in jobs], "of its own job"
    assert answers[0]["sandboxed"] is True
    assert [answer["count"] for answer in answers] == [1, 2], "one value per process, used by both jobs"
    assert closed.read_text() == "2", "closed at the end of the worker"
