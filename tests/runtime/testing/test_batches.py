"""The testing kit runs what is due of a batch task in one call, and settles each job as a worker does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace import Headrace, HeadraceError, current_jobs
from headrace.testing import adrain, drain, inline


def batch_task(app: Headrace, calls: list[list[int]], *, is_async: bool) -> Any:
    def halve(numbers: list[int]) -> list[float | Exception]:
        calls.append(numbers)
        assert len(current_jobs()) == len(numbers)
        return [OSError(f"{number} is odd") if number % 2 else number / 2 for number in numbers]

    async def ahalve(numbers: list[int]) -> list[float | Exception]:
        await asyncio.sleep(0)
        return halve(numbers)

    return app.task(name="halve", batch=4, within=60, retry=0)(ahalve if is_async else halve)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("drains", [drain, lambda app: asyncio.run(adrain(app))])
def test_what_is_due_is_run_in_full_batches(app: Headrace, drains: Any, is_async: bool) -> None:
    calls: list[list[int]] = []
    halve = batch_task(app, calls, is_async=is_async)
    other = app.task(name="other")(lambda: calls.append([]))
    jobs = []
    for number in range(6):
        jobs.append(halve.enqueue(number))
        other.enqueue()
    assert drains(app) == 12
    assert [call for call in calls if call] == [[0, 1, 2, 3], [4, 5]]
    assert calls.count([]) == 6
    assert [job.refresh().state for job in jobs] == ["completed", "failed"] * 3
    assert jobs[2].result(0) == 1
    assert [error.message for error in jobs[3].errors] == ["3 is odd"]


def test_inline_runs_each_job_alone_and_raises_its_error(app: Headrace) -> None:
    calls: list[list[int]] = []
    halve = batch_task(app, calls, is_async=False)
    with inline(app):
        assert halve.enqueue(4).result(0) == 2
        with pytest.raises(OSError, match="3 is odd"):
            halve.enqueue(3)
    assert calls == [[4], [3]]


def test_an_error_of_the_call_fails_all_and_an_interruption_gives_all_back(app: Headrace) -> None:
    errors: list[BaseException] = [KeyboardInterrupt(), OSError("away")]

    @app.task(batch=3, retry=0)
    def send(letters: list[str]) -> None:
        raise errors.pop(0)

    jobs = [send.enqueue(letter) for letter in "ab"]
    with pytest.raises(KeyboardInterrupt):
        drain(app)
    assert [(job.refresh().state, job.attempt) for job in jobs] == [("pending", 0)] * 2
    assert drain(app) == 2
    assert [job.refresh().state for job in jobs] == ["failed"] * 2


def test_a_batch_beyond_the_limit_is_given_back(app: Headrace) -> None:
    calls: list[list[int]] = []
    halve = batch_task(app, calls, is_async=False)
    jobs = [halve.enqueue(2) for _ in range(4)]
    with pytest.raises(HeadraceError, match="still due"):
        drain(app, limit=3)
    assert {job.refresh().state for job in jobs} == {"pending"}
    assert calls == []
