"""An app on a store of its own, of each engine, and tasks that are tested once as threads and once as coroutines."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace import Headrace, Task, Worker
from tests.support.gates import as_kind

# What these are about happens between the worker and the task, or on the test kit's own store: on three engines
# they would take three times as long and tell nothing more.
ABOUT_NO_ENGINE = {
    "test_interrupts",
    "test_sandbox",
    "test_slots",
    "test_stall",
    "test_testing_kit",
    "test_timeouts",
    "test_watchdog",
}


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    module = metafunc.module.__name__.rpartition(".")[2]
    if module in ABOUT_NO_ENGINE:
        metafunc.definition.add_marker(pytest.mark.engines("sqlite"))


@pytest.fixture
def worker(app: Headrace) -> Iterator[Worker]:
    with app.worker(concurrency=4) as worker:
        yield worker


@pytest.fixture(params=["thread", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def task(app: Headrace, kind: str) -> Callable[..., Any]:
    """Registers a plain function as a task of this kind: `@task` or `@task(retry=...)`."""

    def register(function: Callable[..., Any] | None = None, **options: Any) -> Any:
        if function is None:
            return functools.partial(register, **options)
        registered: Task[..., Any, Any] = app.task(**options)(as_kind(kind, function))
        return registered

    return register
