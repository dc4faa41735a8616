"""A failing task is retried as declared, every attempt is recorded, and no exception ends a worker or wedges it."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace import (
    CancelJob,
    Headrace,
    JobCancelled,
    JobFailed,
    PermanentError,
    Retry,
    RetryableError,
    RetryLater,
    Snooze,
    Worker,
    current_job,
)
from headrace.core.dead_letters.records import DeadLetterFilter
from tests.support.gates import SOON
from tests.support.waiting import PATIENCE, eventually

Register = Callable[..., Any]


class Attempts(list[int]):
    """The attempts a task made, and what to raise in each; nothing when the list is used up."""

    def __init__(self, *errors: BaseException) -> None:
        super().__init__()
        self._errors = list(errors)

    def next(self) -> str:
        self.append(current_job().attempt)
        if self._errors:
            raise self._errors.pop(0)
        return "done"


def still_works(app: Headrace) -> bool:
    """Whether the worker still runs and settles jobs."""

    @app.task(name="probe")
    def probe() -> str:
        return "alive"

    return bool(probe.enqueue().result(PATIENCE) == "alive")


def test_a_failed_attempt_is_retried_until_it_succeeds(task: Register, worker: Worker) -> None:
    attempts = Attempts(OSError("one"), OSError("two"))

    @task(retry=SOON)
    def flaky() -> str:
        return attempts.next()

    job = flaky.enqueue()
    assert job.result(PATIENCE) == "done"
    assert attempts == [1, 2, 3]
    assert (job.attempt, job.max_attempts, job.state) == (3, 4, "completed")
    assert [(error.attempt, error.type, error.message) for error in job.errors] == [
        (1, "OSError", "one"),
        (2, "OSError", "two"),
    ]


def test_three_retries_are_four_runs_and_then_the_job_fails(task: Register, worker: Worker) -> None:
    attempts = Attempts(*(OSError(str(n)) for n in range(9)))

    @task(retry=SOON)
    def flaky() -> str:
        return attempts.next()

    job = flaky.enqueue()
    with pytest.raises(JobFailed, match=r"\(attempts_used_up\): OSError: 3"):
        job.result(PATIENCE)
    assert attempts == [1, 2, 3, 4]
    assert job.reason == "attempts_used_up"
    assert len(job.errors) == 4


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x"), PermanentError("x"), AssertionError("x")])
def test_an_error_that_can_not_go_away_fails_at_once(task: Register, worker: Worker, error: Exception) -> None:
    attempts = Attempts(error)

    @task(retry=SOON)
    def wrong() -> str:
        return attempts.next()

    job = wrong.enqueue()
    with pytest.raises(JobFailed, match="permanent_error"):
        job.result(PATIENCE)
    assert attempts == [1]


def test_a_retryable_error_is_retried_whatever_the_lists_say(task: Register, worker: Worker) -> None:
    attempts = Attempts(RetryableError("busy"))

    @task(retry=Retry(limit=1, base=0.001, floor=0, never=(Exception,)))
    def busy() -> str:
        return attempts.next()

    assert busy.enqueue().result(PATIENCE) == "done"


def test_the_options_of_a_call_replace_those_of_its_task(task: Register, worker: Worker) -> None:
    attempts = Attempts(*(OSError(str(n)) for n in range(9)))

    @task(retry=SOON)
    def flaky() -> str:
        return attempts.next()

    job = flaky.using(retry=Retry(limit=1, backoff=[0.001], floor=0)).enqueue()
    assert job.max_attempts == 2
    with pytest.raises(JobFailed):
        job.result(PATIENCE)
    assert attempts == [1, 2]


def test_retry_later_spends_an_attempt_and_waits_as_long_as_it_says(task: Register, worker: Worker) -> None:
    attempts = Attempts(RetryLater(delay=0.03), RetryLater(delay=timedelta(milliseconds=30)))
    times = []

    @task(retry=Retry(limit=2, base=3600))
    def patient() -> str:
        times.append(datetime.now(UTC))
        return attempts.next()

    job = patient.enqueue()
    assert job.result(PATIENCE) == "done"
    assert attempts == [1, 2, 3]
    assert all(later - earlier >= timedelta(milliseconds=29) for earlier, later in itertools.pairwise(times))


def test_retry_later_ends_when_the_attempts_do(task: Register, worker: Worker) -> None:
    attempts = Attempts(*(RetryLater("not yet", delay=0.001) for _ in range(9)))

    @task(retry=Retry(limit=1))
    def patient() -> str:
        return attempts.next()

    with pytest.raises(JobFailed, match="RetryLater: not yet"):
        patient.enqueue().result(PATIENCE)
    assert attempts == [1, 2]


def test_retry_later_without_a_delay_follows_the_backoff(task: Register, worker: Worker) -> None:
    attempts = Attempts(RetryLater())

    @task(retry=SOON)
    def patient() -> str:
        return attempts.next()

    assert patient.enqueue().result(PATIENCE) == "done"


def test_a_snooze_spends_no_attempt_however_often(task: Register, worker: Worker) -> None:
    attempts = Attempts(*(Snooze(0.001) for _ in range(5)))

    @task(retry=0)
    def sleepy() -> str:
        return attempts.next()

    job = sleepy.enqueue()
    assert job.result(PATIENCE) == "done"
    assert attempts == [1] * 6
    assert (job.attempt, job.errors) == (1, [])


def test_a_snooze_is_no_business_of_the_backoff_function(task: Register, worker: Worker) -> None:
    attempts = Attempts(Snooze(0.001))
    calls = []

    def backoff(attempt: int, error: BaseException) -> float:
        calls.append(error)
        return 0.001

    @task(retry=Retry(backoff=backoff))
    def sleepy() -> str:
        return attempts.next()

    assert sleepy.enqueue().result(PATIENCE) == "done"
    assert calls == []


def test_a_task_may_cancel_its_own_job(task: Register, worker: Worker) -> None:
    attempts = Attempts(CancelJob("the order is gone"))

    @task(retry=SOON)
    def give_up() -> str:
        return attempts.next()

    job = give_up.enqueue()
    with pytest.raises(JobCancelled, match="the order is gone"):
        job.result(PATIENCE)
    assert (job.state, attempts) == ("cancelled", [1])


# -- backoff functions


def test_a_backoff_function_decides_when_and_whether(task: Register, worker: Worker) -> None:
    attempts = Attempts(OSError("a"), OSError("b"), OSError("c"))
    calls = []

    def backoff(attempt: int, error: BaseException) -> float | None:
        calls.append((attempt, str(error)))
        return 0.001 if attempt < 3 else None

    @task(retry=Retry(limit=50, backoff=backoff))
    def flaky() -> str:
        return attempts.next()

    job = flaky.enqueue()
    with pytest.raises(JobFailed, match="OSError: c"):
        job.result(PATIENCE)
    assert calls == [(1, "a"), (2, "b"), (3, "c")]


def test_a_backoff_function_may_be_async(task: Register, worker: Worker) -> None:
    attempts = Attempts(OSError("a"), OSError("b"))

    async def backoff(attempt: int, error: BaseException) -> float:
        await asyncio.sleep(0)
        return 0.001

    @task(retry=Retry(backoff=backoff))
    def flaky() -> str:
        return attempts.next()

    assert flaky.enqueue().result(PATIENCE) == "done"


@pytest.mark.parametrize("answer", ["soon", float("nan"), object()])
def test_a_backoff_function_that_answers_nonsense_fails_the_job_and_says_so(
    app: Headrace, task: Register, worker: Worker, answer: Any
) -> None:
    attempts = Attempts(OSError("away"))

    @task(retry=Retry(backoff=lambda attempt, error: answer))
    def flaky() -> str:
        return attempts.next()

    job = flaky.enqueue()
    with pytest.raises(JobFailed, match="broken_backoff") as caught:
        job.result(PATIENCE)
    assert str(caught.value.error_message).startswith("away (and its backoff function raised")
    assert still_works(app)


def test_a_backoff_function_that_raises_fails_the_job_and_shows_both_errors(task: Register, worker: Worker) -> None:
    attempts = Attempts(OSError("away"))

    def backoff(attempt: int, error: BaseException) -> float:
        raise LookupError("no such delay")

    @task(retry=Retry(backoff=backoff))
    def flaky() -> str:
        return attempts.next()

    with pytest.raises(JobFailed, match=r"OSError: away .*LookupError: no such delay"):
        flaky.enqueue().result(PATIENCE)


# -- errors that could hurt the worker


class Unspeakable(RuntimeError):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Unprintable(RuntimeError):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]  # noqa: PLE0307


def test_an_exception_that_can_not_be_shown_is_recorded_by_its_name(
    app: Headrace, task: Register, worker: Worker
) -> None:
    @task(retry=0)
    def clumsy(which: str) -> None:
        raise {"a": Unspeakable, "b": Unprintable}[which]

    for which, name in (("a", "Unspeakable"), ("b", "Unprintable")):
        with pytest.raises(JobFailed, match=f"{name}: <{name} that can't be shown"):
            clumsy.enqueue(which).result(PATIENCE)
    assert still_works(app)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_what_would_end_a_process_ends_only_the_attempt(
    app: Headrace, task: Register, worker: Worker, error: BaseException
) -> None:
    attempts = Attempts(error)

    @task(retry=0)
    def leave() -> str:
        return attempts.next()

    with pytest.raises(JobFailed, match=type(error).__name__):
        leave.enqueue().result(PATIENCE)
    assert still_works(app)


def test_endless_recursion_fails_the_job_alone(app: Headrace, task: Register, worker: Worker) -> None:
    def down(n: int) -> int:
        return down(n + 1) + 1

    @task(retry=0)
    def dive() -> int:
        return down(0)

    with pytest.raises(JobFailed, match="RecursionError"):
        dive.enqueue().result(PATIENCE)
    assert still_works(app)


def test_a_result_nested_too_deeply_is_unavailable_and_the_worker_goes_on(
    app: Headrace, task: Register, worker: Worker
) -> None:
    @task
    def dig() -> Any:
        hole: list[Any] = []
        for _ in range(sys.getrecursionlimit() * 2):
            hole = [hole]
        return hole

    assert dig.enqueue().wait(PATIENCE) == "completed"
    assert still_works(app)


UGLY = "nul \x00, half a character \ud800, ümlaut"


@pytest.mark.parametrize(
    "error", [RuntimeError(UGLY), CancelJob(UGLY), Snooze(3600, UGLY), RetryLater(UGLY, delay=3600)]
)
def test_a_message_no_store_can_hold_does_not_keep_the_worker_from_settling(
    app: Headrace, task: Register, worker: Worker, error: Exception
) -> None:
    attempts = Attempts(error)

    @task(retry=1)
    def ugly() -> str:
        return attempts.next()

    job = ugly.enqueue()
    eventually(lambda: job.refresh().state not in ("pending", "running"), "the outcome")
    assert still_works(app)
    assert "ümlaut" in (job.reason or "") + "".join(error.message for error in job.errors)


@pytest.mark.parametrize("seconds", [1e20, 1e300, float("inf")])
def test_a_delay_beyond_all_time_does_not_keep_the_worker_from_settling(
    app: Headrace, task: Register, worker: Worker, seconds: float
) -> None:
    errors = [Snooze(seconds), RetryLater(delay=seconds), OSError("by function")]

    @task(retry=Retry(limit=1, backoff=lambda attempt, error: seconds))
    def endless(which: int) -> None:
        raise errors[which]

    jobs = [endless.enqueue(which) for which in range(3)]
    for job in jobs:
        eventually(lambda job=job: job.refresh().state in ("scheduled", "retrying"), "the outcome")  # type: ignore[misc]
        assert 100 <= job.run_at.year - job.created_at.year <= 101
    assert still_works(app)


def test_a_delay_of_less_than_nothing_means_at_once(task: Register, worker: Worker) -> None:
    attempts = Attempts(Snooze(-5), RetryLater(delay=-1e20), OSError("by function"))

    @task(retry=Retry(backoff=lambda attempt, error: -1.0))
    def eager() -> str:
        return attempts.next()

    assert eager.enqueue().result(PATIENCE) == "done"
    assert attempts == [1, 1, 2, 3]


def test_a_coroutine_that_is_cancelled_by_its_own_doing_has_failed(app: Headrace, worker: Worker) -> None:
    @app.task(retry=0)
    async def selfish() -> None:
        raise asyncio.CancelledError("by myself")

    with pytest.raises(JobFailed, match="CancelledError"):
        selfish.enqueue().result(PATIENCE)
    assert still_works(app)


def test_a_failed_job_leaves_one_dead_letter(app: Headrace, task: Register, worker: Worker) -> None:
    @task(retry=SOON)
    def flaky() -> None:
        raise OSError("away")

    job = flaky.enqueue()
    assert job.wait(PATIENCE) == "failed"
    [found] = app.engine.dead_letters.find(DeadLetterFilter(), 10, oldest_first=True)
    assert (found.job_id, found.task, found.reason, found.status) == (job.id, "flaky", "attempts_used_up", "pending")


def test_a_stored_traceback_begins_with_the_code_of_the_task(task: Register, worker: Worker) -> None:
    @task(retry=0)
    def fail() -> None:
        raise ValueError("no such thing")

    job = fail.enqueue()
    job.wait(PATIENCE)
    [error] = job.errors
    first_frame = next(line for line in error.traceback.splitlines() if line.startswith("  File"))
    assert "headrace" not in first_frame.replace(str(Path(__file__).parents[3]), "")
