"""What a task with `keep_logs` logs and prints is kept with its job: all of it, and nothing of other jobs."""

from __future__ import annotations

import asyncio
import io
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace import Headrace, InvalidJob, Job, Worker, current_job
from headrace.runtime.context import output
from headrace.testing import drain, inline
from tests.runtime.jobs import shop
from tests.support.gates import SOON, Gate, through
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.engines("sqlite")
log = logging.getLogger("shop")


@pytest.fixture(autouse=True)
def everything_else_as_before() -> Iterator[None]:
    root = logging.getLogger()
    before, level, stdout = root.handlers[:], root.level, sys.stdout
    log.setLevel("INFO")
    yield
    root.handlers[:], sys.stdout = before, stdout
    root.setLevel(level)
    log.setLevel(logging.NOTSET)


def kept(job: Job[Any]) -> list[tuple[str, str]]:
    return [(line.level, line.message) for line in job.logs()]


@pytest.mark.every_engine
@pytest.mark.engines("sqlite", "postgres", "redis")
def test_lines_are_kept_in_order_beside_those_of_the_job_itself(
    worker: Worker, task: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    @task(keep_logs=True, retry=SOON)
    def speak() -> None:
        print("begin", current_job().attempt)
        log.info("%d rows", 3, extra={"table": "orders", "api_key": "sesame"})
        current_job().log("its own")
        log.debug("too low")
        print("no end", end="")
        if current_job().attempt == 1:
            raise OSError("away")

    job = speak.enqueue()
    job.result(PATIENCE)
    run = [("info", "3 rows"), ("info", "its own"), ("info", "no end")]
    assert kept(job) == [("info", "begin 1"), *run, ("info", "begin 2"), *run]
    fields = job.logs()[1].fields
    assert fields == {"logger": "shop", "table": "orders", "api_key": "sesame"}
    assert job.redacted(fields)["api_key"] == "***"
    assert capsys.readouterr().out == "begin 1\nno endbegin 2\nno end"


def test_without_the_option_nothing_is_kept(worker: Worker, task: Callable[..., Any]) -> None:
    @task(keep_logs=True)
    def speaks() -> None:
        print("kept")

    @task
    def silent() -> None:
        print("not kept")
        log.info("not kept")

    first, second = speaks.enqueue(), silent.enqueue()
    first.result(PATIENCE)
    second.result(PATIENCE)
    print("nor what no job prints")
    assert (kept(first), kept(second)) == ([("info", "kept")], [])


def test_jobs_side_by_side_keep_each_their_own(app: Headrace, kind: str) -> None:
    def speak(number: int) -> None:
        print(f"job {number}", end=" ")
        print("is here")
        log.warning("job %d warns", number)

    gates = [Gate() for _ in range(4)]
    tasks = []
    for number, gate in enumerate(gates):
        after = through(kind, gate, lambda number=number: speak(number))
        tasks.append(app.task(name=f"side-{number}", keep_logs=True)(after))
    with app.worker(concurrency=4):
        jobs = [each.enqueue() for each in tasks]
        for gate in gates:
            gate.wait_until_reached()
        for gate in reversed(gates):
            gate.open()
        for number, job in enumerate(jobs):
            job.result(PATIENCE)
            assert kept(job) == [("info", f"job {number} is here"), ("warning", f"job {number} warns")]


def test_threads_that_know_the_job_are_heard_and_others_are_not(app: Headrace, worker: Worker) -> None:
    @app.task(keep_logs=True)
    async def speak() -> None:
        await asyncio.to_thread(print, "with its context")
        stranger = threading.Thread(target=print, args=("without",))
        stranger.start()
        stranger.join()

    job = speak.enqueue()
    job.result(PATIENCE)
    assert kept(job) == [("info", "with its context")]


@pytest.mark.parametrize("function", [shop.speak, shop.aspeak])
def test_a_process_of_its_own_is_heard_too(app: Headrace, worker: Worker, function: Any) -> None:
    speak = app.task(isolation="process", keep_logs=True)(function)
    jobs = [speak.enqueue(word) for word in ("one", "two")]
    for job, word in zip(jobs, ("one", "two"), strict=True):
        job.result(PATIENCE)
        assert kept(job) == [("info", f"prints {word}"), ("error", f"logs {word}")]


def test_an_exception_and_the_levels_of_others_are_kept(worker: Worker, task: Callable[..., Any]) -> None:
    @task(keep_logs=True)
    def speak() -> None:
        log.critical("critical")
        log.log(25, "between")
        try:
            raise OSError("away")
        except OSError:
            log.exception("it raised")

    job = speak.enqueue()
    job.result(PATIENCE)
    *others, (level, text) = kept(job)
    assert others == [("error", "critical"), ("info", "between")]
    assert level == "error"
    assert text.startswith("it raised\nTraceback")
    assert text.endswith("OSError: away")


def test_a_secret_of_the_call_is_masked(worker: Worker, task: Callable[..., Any]) -> None:
    @task(keep_logs=True, redact=("card",))
    def pay(card: str, password: str) -> None:
        print("pay with", card)
        log.info("login with %s", password, extra={"query": f"card={card}"})

    job = pay.using(redact=("card",)).enqueue("4111-1111", password="open sesame")
    job.result(PATIENCE)
    assert kept(job) == [("info", "pay with ***"), ("info", "login with ***")]
    assert job.logs()[1].fields["query"] == "card=***"


def test_lines_of_headrace_and_blank_ones_are_not_kept(worker: Worker, task: Callable[..., Any]) -> None:
    @task(keep_logs=True)
    def speak() -> None:
        logging.getLogger("headrace.worker").warning("of the worker")
        print()
        print("windows\r")
        print("  \n\nend")

    job = speak.enqueue()
    job.result(PATIENCE)
    assert kept(job) == [("info", "windows"), ("info", "end")]


def test_odd_values_cost_no_line(worker: Worker, task: Callable[..., Any]) -> None:
    @task(keep_logs=True)
    def speak() -> None:
        log.info("odd", extra={"lock": threading.Lock(), "level": 1, "name_of": "x"})
        print("nul \x00 half \ud800".encode("utf-8", "replace").decode())

    job = speak.enqueue()
    job.result(PATIENCE)
    assert [line.message for line in job.logs()] == ["odd", "nul \ufffd half ?"]
    fields = job.logs()[0].fields
    assert fields["name_of"] == "x"
    assert "lock" in fields["lock"]


def test_a_run_keeps_so_many_lines(monkeypatch: pytest.MonkeyPatch, worker: Worker, task: Callable[..., Any]) -> None:
    monkeypatch.setattr(output, "MAX_LINES", 3)

    @task(keep_logs=True)
    def count() -> None:
        for number in range(9):
            print(number)
        current_job().log("its own")

    job = count.enqueue()
    job.result(PATIENCE)
    found = [line.message for line in job.logs()]
    assert found == ["0", "1", "2", "further output of this run is not kept: it has 3 lines", "its own"]


def test_text_without_an_end_does_not_gather(worker: Worker, task: Callable[..., Any]) -> None:
    @task(keep_logs=True)
    def dots() -> None:
        for _ in range(25):
            print("." * 1000, end="")

    job = dots.enqueue()
    job.result(PATIENCE)
    assert [len(line.message) for line in job.logs()] == [11_000, 11_000, 3000]


def test_what_comes_after_the_end_of_the_run_is_not_kept(app: Headrace, worker: Worker) -> None:
    gate, is_over = Gate(), threading.Event()
    late = []

    @app.task(keep_logs=True)
    async def leave() -> None:
        async def linger() -> None:
            await gate.apass_through()
            print("late")
            is_over.set()

        late.append(asyncio.create_task(linger()))

    job = leave.enqueue()
    job.result(PATIENCE)
    gate.open()
    assert is_over.wait(PATIENCE)
    app.task(name="next")(lambda: None).enqueue().result(PATIENCE)  # the worker has sent what came before
    assert kept(job) == []


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_the_test_kit_keeps_them_as_a_worker_does(app: Headrace, isolation: Any) -> None:
    speak = app.task(keep_logs=True, isolation=isolation)(shop.speak)
    job = speak.enqueue("one")
    drain(app)
    assert kept(job) == [("info", "prints one"), ("error", "logs one")]


def test_a_job_that_runs_inside_of_another_one_keeps_its_own(app: Headrace) -> None:
    inner = app.task(name="inner")(shop.speak)
    jobs = []

    @app.task(keep_logs=True)
    def outer() -> None:
        print("before")
        jobs.append(inner.enqueue("inside"))
        print("after")

    with inline(app):
        job = outer.enqueue()
    assert (kept(job), kept(jobs[0])) == ([("info", "before"), ("info", "after")], [])


def test_another_stand_in_for_stdout_keeps_no_line_twice(worker: Worker, task: Callable[..., Any]) -> None:
    class Wrapper(io.TextIOBase):
        def __init__(self, stream: Any) -> None:
            self.stream = stream

        def write(self, text: str) -> int:
            return int(self.stream.write(text))

    @task(keep_logs=True)
    def speak() -> None:
        print("once")
        sys.stdout.writelines(["a\n", "b\n"])
        sys.stdout.flush()

    speak.enqueue().result(PATIENCE)
    sys.stdout = Wrapper(sys.stdout)
    job = speak.enqueue()
    job.result(PATIENCE)
    assert [line.message for line in job.logs()] == ["once", "a", "b"]


def test_a_warning_that_no_handler_shows_is_still_shown_by_python(
    worker: Worker, task: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()

    @task(keep_logs=True)
    def speak() -> None:
        root.handlers[:] = [output._handler]
        log.warning("nobody listens")
        log.info("not shown")
        handled = logging.getLogger("shop.handled")
        handled.addHandler(logging.NullHandler())
        handled.warning("handled elsewhere")

    job = speak.enqueue()
    job.result(PATIENCE)
    assert [line.message for line in job.logs()] == ["nobody listens", "not shown", "handled elsewhere"]
    assert capsys.readouterr().err.splitlines() == ["nobody listens"]


def test_it_is_an_option_of_the_task_and_not_of_a_call(app: Headrace) -> None:
    with pytest.raises(InvalidJob, match=r"keep_logs: set it for the task, with @app.task\(keep_logs=...\)"):
        app.task(shop.speak).using(keep_logs=True).enqueue("x")  # type: ignore[call-arg]
