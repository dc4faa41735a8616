"""enqueue() stores a valid call completely, and refuses an invalid one by name, without a trace."""

from __future__ import annotations

import asyncio
import shutil
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headrace import (
    ConfigError,
    DuplicateJob,
    Headrace,
    HeadraceError,
    InvalidJob,
    Job,
    JobNotFound,
    PayloadTooLarge,
    Retry,
    Task,
    Worker,
)
from tests.support.gates import Gate, through
from tests.support.waiting import PATIENCE, eventually

LIMIT = 1_048_576
OVERHEAD = len('{"args":[""],"kwargs":{}}')


@pytest.fixture
def add(app: Headrace) -> Task[[int, int], int, int]:
    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    return add


@pytest.fixture
def echo(app: Headrace) -> Task[[Any], Any, Any]:
    @app.task
    def echo(it: Any) -> Any:
        return it

    return echo


def is_empty(app: Headrace) -> bool:
    return app.jobs.count() == 0 and app.queues() == []


# -- wrong input


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((1,), {}, r"add\(\) misses the argument 'b'"),
        ((1, 2, 3), {}, r"add\(\) takes 2 positional arguments but 3 were given"),
        ((1,), {"c": 2}, r"add\(\) has no argument 'c'"),
        ((1, 2), {"b": 3}, r"add\(\) argument 'b' is given twice"),
        ((1, "2"), {}, r"add\(\) argument 'b'.*"),
        ((1, None), {}, r"add\(\) argument 'b'.*"),
        ((), {"a": 1.5, "b": 2}, r"add\(\) argument 'a'.*"),
    ],
)
def test_a_call_the_function_would_refuse_is_refused_and_nothing_is_stored(
    app: Headrace, add: Any, args: tuple[Any, ...], kwargs: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidJob, match=message):
        add.enqueue(*args, **kwargs)
    with pytest.raises(InvalidJob, match=message):
        asyncio.run(add.aenqueue(*args, **kwargs))
    with pytest.raises(InvalidJob, match=message):
        app.enqueue("add", *args, **kwargs)
    with pytest.raises(InvalidJob, match=message):
        app.enqueue_many([add.bind(1, 2), add.bind(*args, **kwargs)])
    assert is_empty(app)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (socket, "a module can't be stored as JSON"),
        (object(), "an object can't be stored as JSON"),
        (lambda: None, "a function can't be stored as JSON"),
        ([{"deep": [1, threading.Lock()]}], r"argument 'it'\[0\]\.deep\[1\]: a lock can't be stored"),
        ("\ud800", "lone surrogate"),
    ],
)
def test_an_argument_that_can_not_be_stored_is_refused_with_its_place(
    app: Headrace, echo: Any, value: Any, message: str
) -> None:
    with pytest.raises(InvalidJob, match=message):
        echo.enqueue(value)
    with pytest.raises(InvalidJob, match=message):
        echo.enqueue(it=value)
    assert is_empty(app)


@pytest.mark.every_engine
def test_a_nul_arrives_in_the_first_job_in_a_later_one_and_in_a_batch(app: Headrace, echo: Any) -> None:
    texts = ["first\0", "later\0", "\0", {"key\0": ["\0"]}]
    jobs = [echo.enqueue(text) for text in texts] + app.enqueue_many([echo.bind(text) for text in texts])
    assert [app.jobs.get(job.id).args for job in jobs] == [(text,) for text in texts] * 2
    with app.worker():
        assert [job.result(PATIENCE) for job in jobs] == texts * 2


def test_a_payload_of_exactly_the_limit_is_stored_and_one_byte_more_is_not(app: Headrace, echo: Any) -> None:
    with pytest.raises(PayloadTooLarge, match="limit is 1,048,576 bytes"):
        echo.enqueue("x" * (LIMIT - OVERHEAD + 1))
    assert is_empty(app)
    job = echo.enqueue("x" * (LIMIT - OVERHEAD))
    assert len(job.refresh().args[0]) == LIMIT - OVERHEAD


def test_the_limit_can_be_set() -> None:
    with Headrace("memory://", max_payload=2000) as app:
        echo = app.task(name="echo")(lambda it: it)
        with pytest.raises(PayloadTooLarge, match="limit is 2,000 bytes"):
            echo.enqueue("x" * 2000)
        with pytest.raises(PayloadTooLarge, match=r"the metadata is .* limit is 2,000 bytes"):
            echo.using(metadata={"note": "x" * 2000}).enqueue(1)
        assert is_empty(app)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queue": "no spaces"}, "queue: 'no spaces' is not a queue name"),
        ({"queue": "x" * 51}, "queue: .* is not a queue name"),
        ({"priority": 101}, "priority: 101 is not a whole number from -100 to 100"),
        ({"priority": "high"}, "priority: 'high' is not a whole number"),
        ({"delay": -1}, "delay: expected seconds .* got -1"),
        ({"run_at": datetime(2030, 1, 1)}, "run_at: .* has no time zone"),
        ({"run_at": 5}, "run_at: expected a datetime with a time zone, got 5"),
        ({"delay": 1, "run_at": datetime(2030, 1, 1, tzinfo=UTC)}, "delay and run_at exclude each other"),
        ({"timeout": 0}, "timeout: expected seconds .* got 0"),
        ({"expires": -5}, "expires: expected seconds .* got -5"),
        ({"retry": "often"}, "retry: expected a Retry"),
        ({"job_id": "not an id!"}, "job_id is 'not an id!'"),
        ({"tags": "mail"}, "tags: expected a list of words"),
        ({"tags": 7}, "tags: expected a list of words"),
        ({"metadata": [1]}, "metadata: expected a dict"),
        ({"isolation": "fiber"}, "isolation: expected 'thread', 'async' or 'process', got 'fiber'"),
        ({"isolation": "async"}, "isolation: task 'add' can run as 'thread' or 'process'"),
        ({"metadata": {"who": socket}}, r"metadata\.who: a module can't be stored"),
        ({"priorty": 5}, r"unknown option 'priorty' \(did you mean 'priority'\?\)"),
        ({"retry": Retry(backoff=lambda attempt, error: 1)}, "a backoff function belongs on the task"),
    ],
)
def test_a_wrong_option_is_refused_by_name_and_nothing_is_stored(
    app: Headrace, add: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises((InvalidJob, ConfigError), match=message):
        add.using(**options).enqueue(1, 2)
    assert is_empty(app)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"priority": 101}, "@app.task: priority: 101"),
        ({"colour": "red"}, "@app.task: unknown option 'colour'"),
        ({"job_id": "x"}, "job_id belongs to one call"),
        ({"run_at": datetime(2030, 1, 1, tzinfo=UTC)}, "run_at belongs to one call"),
        ({"isolation": "async"}, "isolation='async' needs an `async def`"),
    ],
)
def test_a_wrong_option_of_a_task_is_refused_where_it_is_declared(
    app: Headrace, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        app.task(name="noop", **options)(lambda: None)
    assert app.tasks == {}


@pytest.mark.parametrize("name", ["", "two words", "x" * 101, "\ud800", 5])
def test_a_task_name_that_is_none_is_refused(app: Headrace, name: Any) -> None:
    with pytest.raises(InvalidJob, match="task"):
        app.enqueue(name)
    assert is_empty(app)


def test_two_tasks_of_one_name_are_refused_but_the_same_one_may_be_declared_twice(app: Headrace) -> None:
    first = app.task(name="twice")(shutil.copyfile)
    assert app.task(name="twice")(shutil.copyfile).name == first.name
    with pytest.raises(ConfigError, match=r"two tasks are called 'twice': shutil\.copyfile and shutil\.copytree"):
        app.task(name="twice")(shutil.copytree)


def test_a_lambda_needs_a_name_and_a_number_is_no_task(app: Headrace) -> None:
    with pytest.raises(InvalidJob, match="give the task one with name="):
        app.task(lambda: None)
    with pytest.raises(ConfigError, match="5 is not a function"):
        app.task(5)  # type: ignore[call-overload]
    with pytest.raises(InvalidJob, match="expected a task, a name or a function, got 5"):
        app.enqueue(5)  # type: ignore[arg-type]


# -- right input


def test_a_job_is_what_was_asked_for(app: Headrace, add: Any) -> None:
    before = datetime.now(UTC)
    job = add.using(
        queue="q", priority=7, delay=60, tags=["a", "b"], metadata={"who": "ann"}, expires=3600, retry=5, job_id="my-1"
    ).enqueue(1, b=2)
    for seen in (job, app.jobs.get("my-1")):
        assert (seen.id, seen.task, seen.queue, seen.priority, seen.state) == ("my-1", "add", "q", 7, "scheduled")
        assert (seen.args, seen.kwargs, seen.tags, seen.metadata) == ((1,), {"b": 2}, ("a", "b"), {"who": "ann"})
        assert (seen.attempt, seen.max_attempts) == (0, 6)
        assert 59.9 < (seen.run_at - before).total_seconds() < 65
        assert seen.expires_at is not None
        assert 3599 < (seen.expires_at - before).total_seconds() < 3605
        assert (seen.started_at, seen.finished_at, seen.worker, seen.progress) == (None, None, None, None)


def test_ids_sort_by_the_time_of_their_making(add: Any) -> None:
    ids = [add.enqueue(n, n).id for n in range(50)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 50


def test_a_taken_id_is_refused_and_the_first_job_stays_as_it_is(app: Headrace, add: Any) -> None:
    first = add.using(job_id="order-7").enqueue(1, 2)
    with pytest.raises(DuplicateJob, match="'order-7' is taken") as caught:
        add.using(job_id="order-7", priority=9).enqueue(3, 4)
    assert caught.value.job_id == "order-7"
    assert (first.refresh().args, first.priority, app.jobs.count()) == ((1, 2), 0, 1)


def test_only_one_of_many_that_want_the_same_id_gets_it(app: Headrace, add: Any) -> None:
    together = threading.Barrier(8)
    task = add.using(job_id="only-one")

    def attempt(n: int) -> int:
        together.wait(PATIENCE)
        try:
            task.enqueue(n, n)
        except DuplicateJob:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(8))) == 1
    assert app.jobs.count() == 1


def test_options_are_layered_and_a_copy_changes_nothing_else(app: Headrace) -> None:
    task = app.task(name="noop", queue="low", priority=1)(lambda: None)
    urgent = task.using(priority=9)
    again = urgent.using(queue="high")
    assert [(j.queue, j.priority) for j in (task.enqueue(), urgent.enqueue(), again.enqueue(), task.enqueue())] == [
        ("low", 1),
        ("low", 9),
        ("high", 9),
        ("low", 1),
    ]


def test_a_copy_of_a_task_that_was_enqueued_before_has_options_of_its_own(add: Any) -> None:
    add.enqueue(1, 1)
    copy, call = add.using(queue="mail"), add.bind(1, 1).using(priority=3)
    assert copy.enqueue(1, 1).queue == "mail"
    assert call.using(queue="post").task.enqueue(1, 1).row.priority == 3
    assert (call.options.priority, add.enqueue(1, 1).queue, add.enqueue(1, 1).row.priority) == (3, "default", 0)


def test_a_plain_call_runs_here_and_stores_nothing(app: Headrace, add: Any) -> None:
    assert add(1, 2) == 3
    assert add.__name__ == "add"
    assert is_empty(app)


def test_many_are_stored_in_one_go_in_their_order(app: Headrace, add: Any) -> None:
    jobs = app.enqueue_many(add.bind(n, n) for n in range(3000))
    assert app.jobs.count() == 3000
    assert [job.args[0] for job in app.queue("default").peek(5)] == [0, 1, 2, 3, 4]
    assert [job.args for job in jobs[-2:]] == [(2998, 2998), (2999, 2999)]
    assert app.enqueue_many([]) == []
    assert len(asyncio.run(app.aenqueue_many([add.bind(1, 1)]))) == 1


def test_many_are_stored_all_or_none(app: Headrace, add: Any) -> None:
    add.using(job_id="taken").enqueue(0, 0)
    with pytest.raises(DuplicateJob, match="taken"):
        app.enqueue_many([add.bind(1, 1), add.using(job_id="taken").bind(2, 2), add.bind(3, 3)])
    with pytest.raises(DuplicateJob, match="twin"):
        app.enqueue_many([add.using(job_id="twin").bind(1, 1), add.using(job_id="twin").bind(2, 2)])
    with pytest.raises(InvalidJob, match=r"expected task\.bind"):
        app.enqueue_many([add.bind(1, 1), add])

    def broken() -> Any:
        yield add.bind(1, 1)
        raise RuntimeError("while making the list")

    with pytest.raises(RuntimeError, match="while making"):
        app.enqueue_many(broken())
    assert app.jobs.count() == 1


def test_many_of_different_tasks_queues_and_tags_are_stored_together(app: Headrace, add: Any, echo: Any) -> None:
    app.enqueue_many([add.using(tags=["t"], queue="x").bind(1, 2), echo.using(tags=["t", "u"]).bind("y")])
    assert app.jobs.count(tag="t") == 2
    assert [job.task for job in app.jobs.find(tag="u")] == ["echo"]
    assert sorted(stats.queue for stats in app.queues()) == ["default", "x"]


def test_many_threads_enqueuing_singly_lose_nothing(app: Headrace, add: Any) -> None:
    together = threading.Barrier(16)

    def produce(first: int) -> list[str]:
        together.wait(PATIENCE)
        return [add.enqueue(n, n).id for n in range(first, first + 50)]

    with ThreadPoolExecutor(16) as pool:
        ids = [job_id for made in pool.map(produce, range(0, 800, 50)) for job_id in made]
    assert len(set(ids)) == 800
    assert {job.id for job in app.jobs.find(limit=1000)} == set(ids)
    assert {job.args[0] for job in app.jobs.find(limit=1000)} == set(range(800))


def test_many_coroutines_enqueuing_at_once_lose_nothing(app: Headrace, add: Any) -> None:
    async def main() -> None:
        await asyncio.gather(*(add.aenqueue(n, n) for n in range(200)))

    asyncio.run(main())
    assert app.jobs.count() == 200


# -- by name, and plain functions


def test_a_producer_need_not_know_the_code(folder: Path) -> None:
    url = f"sqlite:///{folder}/jobs.db"
    with Headrace(url) as producer, Headrace(url) as consumer:
        job = producer.enqueue("emails.send", "ann", subject="hi")
        consumer.task(name="emails.send")(lambda to, subject: f"{to}: {subject}")
        with consumer.worker():
            assert job.result(PATIENCE) == "ann: hi"


def test_by_name_the_options_of_the_registered_task_hold(app: Headrace) -> None:
    app.task(name="special", queue="vip", priority=5)(lambda: None)
    job = app.enqueue("special")
    assert (job.queue, job.priority) == ("vip", 5)
    assert asyncio.run(app.aenqueue("special")).queue == "vip"


def test_a_task_object_may_be_enqueued_through_its_app(app: Headrace, add: Any) -> None:
    assert app.enqueue(add.using(priority=3), 1, 2).priority == 3
    assert app.enqueue(add.function, 1, 2).task == "add"


def test_a_plain_function_runs_where_its_module_is_importable(folder: Path) -> None:
    (folder / "from").write_text("text")
    with Headrace("memory://", importable=("shutil",)) as app, app.worker():
        job = app.enqueue(shutil.copyfile, str(folder / "from"), str(folder / "to"))
        assert job.task == "shutil.copyfile"
        assert job.result(PATIENCE) == str(folder / "to")
    assert (folder / "to").read_text() == "text"


@pytest.mark.parametrize("allowed", [(), ("shut",), ("os",), ("shutil.copy",)])
def test_a_function_of_any_other_module_is_put_aside_and_never_imported(allowed: tuple[str, ...]) -> None:
    with Headrace("memory://", importable=allowed) as app, app.worker():
        job = app.enqueue(shutil.rmtree, "/nonexistent")
        eventually(lambda: "knows task 'shutil.rmtree'" in job.why(), "the worker is there")
        assert app.task(name="ok")(lambda: 1).enqueue().result(PATIENCE) == 1
        assert (job.refresh().state, job.attempt) == ("pending", 0)


def test_a_module_that_fails_to_import_harms_only_the_jobs_that_need_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "headrace_broken_module.py").write_text("raise RuntimeError('not today')")
    monkeypatch.syspath_prepend(str(folder))
    with Headrace("memory://", importable=("headrace_broken_module",)) as app:
        ok = app.task(name="ok")(lambda: "ran")
        jobs = [ok.enqueue(), app.enqueue("headrace_broken_module.run"), ok.enqueue()]
        with app.worker(concurrency=1):
            assert [jobs[n].result(PATIENCE) for n in (0, 2)] == ["ran", "ran"]
            eventually(lambda: "knows task" in jobs[1].why(), "it is left alone")
            assert (jobs[1].refresh().state, jobs[1].attempt) == ("pending", 0)


@pytest.mark.parametrize("function", [lambda: None, Path.exists, Path("x").exists, shutil.Error().with_traceback])
def test_a_function_no_worker_could_import_is_refused(app: Headrace, function: Callable[..., Any]) -> None:
    with pytest.raises(InvalidJob, match="can't be imported by a worker"):
        app.enqueue(function)
    assert is_empty(app)


def test_arguments_are_checked_for_plain_functions_too(app: Headrace) -> None:
    with pytest.raises(InvalidJob, match="misses the argument 'dst'"):
        app.enqueue(shutil.copyfile, "only one")


# -- closing


def test_a_closed_app_opens_its_store_again_for_a_read_or_a_worker(folder: Path) -> None:
    app = Headrace(f"sqlite:///{folder}/jobs.db")
    task = app.task(name="double")(lambda n: 2 * n)
    first = task.enqueue(1)
    app.close()
    with app:
        second = task.enqueue(2)
    with app.worker():
        assert (first.result(PATIENCE), second.result(PATIENCE)) == (2, 4)
    app.close()
    assert second.refresh().state == "completed"
    app.close()


def test_closing_an_app_stops_its_workers_and_keeps_what_they_finished(folder: Path, kind: str) -> None:
    app = Headrace(f"sqlite:///{folder}/jobs.db", shutdown_timeout=10)
    gate = Gate()
    job = app.task(name="held")(through(kind, gate, lambda: "done")).enqueue()
    worker = app.worker().start()
    gate.wait_until_reached()
    closing = threading.Thread(target=app.close)
    closing.start()
    eventually(lambda: worker.describe().state == "stopping", "the stop")
    gate.open()
    closing.join(PATIENCE)
    assert worker.stopped.is_set()
    assert job.result(0) == "done"
    app.close()


def test_a_worker_that_was_never_started_does_not_hold_up_the_closing() -> None:
    app = Headrace("memory://")
    worker = app.worker()
    closing = threading.Thread(target=app.close, daemon=True)
    closing.start()
    closing.join(PATIENCE / 4)
    assert not closing.is_alive()
    assert worker.join(0)


def test_a_wait_ends_with_an_error_when_the_app_is_closed(app: Headrace, add: Any) -> None:
    job = add.using(delay=3600).enqueue(1, 2)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(job.result)
        eventually(lambda: any(t.name == "headrace-waiter" for t in threading.enumerate()), "the wait")
        app.close()
        # Either it was waiting already, or it came too late and finds an empty store.
        with pytest.raises((HeadraceError, JobNotFound)):
            waiting.result(PATIENCE)


def test_many_jobs_may_be_given_as_dicts_with_options(app: Headrace) -> None:
    app.task(name="add")(lambda a, b: a + b)
    calls: list[dict[str, Any]] = [
        {"task": "add", "args": [1, 2], "queue": "fast"},
        {"task": "elsewhere", "kwargs": {"x": 1}, "priority": 7},
    ]
    jobs: list[Job[Any]] = app.enqueue_many(calls)
    first, second = jobs
    assert (first.task, first.args, first.queue) == ("add", (1, 2), "fast")
    assert (second.task, second.kwargs, second.priority) == ("elsewhere", {"x": 1}, 7)


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        ({"args": [1]}, "a dict with a task"),
        ({"task": "add", "args": 5}, "args must be a list"),
        ({"task": "add", "kwargs": [1]}, "kwargs a dict"),
        ({"task": "add", "prioriti": 5}, "did you mean 'priority'"),
        ({"task": ""}, "task name"),
    ],
)
def test_a_dict_that_is_no_call_is_refused_and_nothing_is_stored(
    app: Headrace, call: dict[str, Any], rule: str
) -> None:
    with pytest.raises(InvalidJob, match=rule):
        app.enqueue_many([{"task": "fine"}, call])
    assert app.jobs.count() == 0


def test_no_thread_of_a_closed_app_is_left(folder: Path, kind: str) -> None:
    before = set(threading.enumerate())
    with Headrace(f"sqlite:///{folder}/jobs.db") as app, app.worker():
        app.task(name="noop")(through(kind, gate := Gate())).enqueue()
        gate.open()
        for job in app.jobs.find():
            job.wait(PATIENCE)
    left = {thread for thread in set(threading.enumerate()) - before if thread.name.startswith("headrace")}
    for thread in left:
        thread.join(PATIENCE)
    assert not [thread for thread in left if thread.is_alive()]


def test_an_app_works_in_a_with_and_an_async_with(folder: Path) -> None:
    async def main() -> Any:
        async with Headrace(f"sqlite:///{folder}/jobs.db") as app:
            double = app.task(name="double")(lambda n: 2 * n)
            with app.worker():
                return await (await double.aenqueue(21))

    assert asyncio.run(main()) == 42


def test_two_workers_of_one_app_share_the_jobs(app: Headrace, worker: Worker) -> None:
    with app.worker() as second:
        assert {info.id for info in app.workers()} == {worker.id, second.id}
        task = app.task(name="noop")(lambda: None)
        for job in app.enqueue_many([task.bind() for _ in range(200)]):
            assert job.wait(PATIENCE) == "completed"
    assert [info.id for info in app.workers()] == [worker.id]
