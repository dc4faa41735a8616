"""A run leaves nothing behind that only the garbage collector could free, at a cost for every job."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace import Headrace
from headrace.runtime.worker.attempt import Attempt
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.engines("sqlite")


@pytest.fixture
def uncollected() -> Iterator[Callable[[], int]]:
    """How many more runs there are in memory than at the beginning, without garbage collection."""
    gc.collect()
    gc.disable()
    before = _runs()
    yield lambda: _runs() - before
    gc.enable()


def _runs() -> int:
    return sum(type(found) is Attempt for found in gc.get_objects())  # isinstance() would wake whatever is lazy


def test_a_run_that_is_over_goes_without_the_garbage_collector(
    app: Headrace, task: Callable[..., Any], uncollected: Callable[[], int]
) -> None:
    @task
    def echo(number: int) -> int:
        return number

    with app.worker(concurrency=8):
        jobs = app.enqueue_many([echo.bind(number) for number in range(100)])
        assert [job.result(PATIENCE) for job in jobs] == list(range(100))
        assert uncollected() <= 8  # a runner may still know its last one
