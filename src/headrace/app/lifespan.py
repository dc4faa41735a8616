"""The lifespan of an ASGI app: opens the store, runs an embedded worker, and lets the server stop in time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from headrace.engines.protocol.engine import Engine
from headrace.errors import ConfigError, EngineUnavailable
from headrace.runtime.jobs.async_twin import in_thread
from headrace.runtime.process.stop_signals import on_stop_signal

if TYPE_CHECKING:
    from headrace.core.settings.setting_types import WorkerSettings
    from headrace.runtime.worker.worker import Worker

log = logging.getLogger("headrace.app")
Lifespan = Callable[..., AbstractAsyncContextManager[Any]]
_START_TIMEOUT = 5.0  # seconds that the site waits for its worker to start; then it starts without it


class WebApp(Protocol):
    """A mounted dashboard."""

    def end(self) -> None:
        """End event streams and waiting claims."""


class LifespanApp(Protocol):
    """The attributes of an app that its lifespan uses."""

    engine: Engine

    @property
    def web_apps(self) -> Collection[WebApp]: ...

    def worker(self, **settings: Unpack[WorkerSettings]) -> Worker: ...


def lifespan_of(app: LifespanApp, inner: Lifespan | None, worker_settings: WorkerSettings | None) -> Lifespan:
    """The lifespan; `inner` is one of the site's own, `worker_settings` is None without a worker."""
    if inner is not None and not callable(inner):
        raise ConfigError(f"lifespan: inner={inner!r} should be a function that returns an async context manager")

    @asynccontextmanager
    async def lifespan(*site: Any) -> AsyncIterator[Any]:
        """Frameworks pass their app, or nothing."""
        async with AsyncExitStack() as stack:
            await in_thread(_open_store, app)
            # The site's own resources are there before the first job, and until the last one has ended.
            state = None if inner is None else await stack.enter_async_context(inner(*site))
            await stack.enter_async_context(_running(app, worker_settings))
            yield state

    return lifespan


def _open_store(app: LifespanApp) -> None:
    """Create or migrate the tables, or raise what an operator has to fix. A store that is away stops no site."""
    try:
        app.engine.maintenance.facts()
    except EngineUnavailable as error:
        if error.permanent:
            raise
        log.warning("the store is not available: %s; starting without it", error)


@asynccontextmanager
async def _running(app: LifespanApp, worker_settings: WorkerSettings | None) -> AsyncIterator[None]:
    """Run the worker. From a stop signal on it claims no job, and streams end, although requests may go on."""
    worker = None if worker_settings is None else app.worker(**worker_settings)

    def end() -> None:
        if worker is not None:
            worker.request_stop()
        for web_app in list(app.web_apps):
            web_app.end()

    # Not in the signal handler itself: the code that it interrupts may hold the lock of a bell.
    loop = asyncio.get_running_loop()
    undo = on_stop_signal(lambda: loop.call_soon_threadsafe(end))
    starting = None if worker is None else asyncio.ensure_future(in_thread(worker.start))
    try:
        if starting is not None:
            await asyncio.wait({starting}, timeout=_START_TIMEOUT)
            if starting.done():
                starting.result()
            else:
                starting.add_done_callback(_log_failure)
        yield
    finally:
        end()
        undo()
        if worker is not None and starting is not None:
            await asyncio.wait({starting})
            if starting.exception() is None:
                await in_thread(worker.stop)


def _log_failure(starting: asyncio.Future[Any]) -> None:
    if not starting.cancelled() and (error := starting.exception()) is not None:
        log.error("the embedded worker could not start: %s", error)
