"""An app on a store of its own, of each engine, and tasks that are tested once as threads and once as coroutines."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace, Task, Worker
from tests.conformance.stores import empty_store
from tests.runtime.kit import as_kind

# What these are about happens between the worker and the task, or on the test kit's own store: on three engines
# they would take three times as long and tell nothing more.
ABOUT_NO_ENGINE = {"test_sandbox", "test_slots", "test_stall", "test_testing_kit", "test_timeouts", "test_watchdog"}


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    module = metafunc.module.__name__.rpartition(".")[2]
    if module in ABOUT_NO_ENGINE:
        metafunc.definition.add_marker(pytest.mark.engines("sqlite"))


@pytest.fixture
def url(engine_name: str, folder: Path) -> Iterator[str]:
    """An empty store of this engine."""
    with empty_store(engine_name, folder) as url:
        yield url


@pytest.fixture
def app(url: str) -> Iterator[Headrace]:
    with Headrace(url, heartbeat=2.0, shutdown_timeout=5.0) as app:
        yield app


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


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path: a Unix socket's name has room for about 100 characters, tmp_path takes most."""
    folder = Path(tempfile.mkdtemp(prefix="hr-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
