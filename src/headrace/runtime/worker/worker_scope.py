"""Runs attempts inside an app's hooks, with the injected values of one worker.

One implementation serves threads and the event loop. In a thread nothing suspends: a coroutine runs on the worker's
event loop while the thread waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from headrace.core.tasks.injection import needs_of
from headrace.errors import ConfigError
from headrace.runtime.context.current_job import current
from headrace.runtime.jobs.hooks import Hook, Hooks, Provider
from headrace.runtime.jobs.task import Task

log = logging.getLogger("headrace.worker")

RunCoroutine = Callable[[Coroutine[Any, Any, Any]], Any]


class _Mode(Protocol):
    async def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any: ...
    async def wait(self, future: Future[Any]) -> Any: ...


class _OnLoop:
    """In a coroutine of the event loop."""

    async def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return await coroutine

    async def wait(self, future: Future[Any]) -> Any:
        return await asyncio.wrap_future(future)


class _InThread:
    """In a thread: nothing here suspends."""

    def __init__(self, run: RunCoroutine) -> None:
        self._run = run

    async def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self._run(coroutine)

    async def wait(self, future: Future[Any]) -> Any:
        return future.result()


class WorkerScope:
    """The values of one worker, made on first use and closed when it stops."""

    def __init__(self, hooks: Hooks, run_coroutine: RunCoroutine) -> None:
        self._hooks = hooks
        self._in_thread = _InThread(run_coroutine)
        self._on_loop = _OnLoop()
        self._lock = threading.Lock()
        self._values: dict[Any, Future[Any]] = {}
        self._closing = contextlib.AsyncExitStack()
        self._closer: _Mode = self._in_thread

    def function_of(self, task: Task[..., Any, Any]) -> Callable[..., Any]:
        """The task's function inside the hooks, with its injected values; the function itself if there are none."""
        title = f"task {task.name!r}"
        try:
            needs = needs_of(task.function, title)
            self._hooks.check({name: kind for name, kind in needs.items() if kind not in self._hooks.overrides}, title)
        except ConfigError as error:
            return functools.partial(_raise, error)  # it fails the job, not the worker
        if not needs and not self._hooks.attempt:
            return task.function
        mode = self._on_loop if task.is_async else self._in_thread
        attempt = functools.partial(self._attempt, mode, task.function, needs)
        if task.is_async:
            return lambda *args, **kwargs: attempt(args, kwargs)
        return lambda *args, **kwargs: _finish(attempt(args, kwargs))

    def start(self, worker: object, undo: Sequence[Callable[[], object]] = ()) -> None:
        """Call the hooks of the start. After an error it stops, calls `undo` and raises: the worker does not start."""
        try:
            for hook in self._hooks.worker_start:
                self._call(hook, worker)
        except BaseException:
            self.stop(worker)
            for each in undo:
                each()
            raise

    def stop(self, worker: object) -> None:
        """Call the hooks of the stop and close the values, newest first. An error is logged; the others still run."""
        for hook in reversed(self._hooks.worker_stop):
            try:
                self._call(hook, worker)
            except Exception:
                log.exception("hook %s failed while the worker stopped", getattr(hook, "__qualname__", hook))
        self.close()

    def close(self) -> None:
        """Close the values, from a thread."""
        try:
            _finish(self._closing.aclose())
        except Exception:
            log.exception("a value of the worker could not be closed")

    async def aclose(self) -> None:
        """Close the values on the event loop that made them."""
        self._closer = self._on_loop
        await self._closing.aclose()

    def _call(self, hook: Hook, worker: object) -> None:
        result = hook(worker) if inspect.signature(hook).parameters else hook()
        if inspect.iscoroutine(result):
            self._in_thread._run(result)

    # -- one attempt

    async def _attempt(
        self,
        mode: _Mode,
        function: Callable[..., Any],
        needs: Mapping[str, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        async with contextlib.AsyncExitStack() as stack:
            for hook in self._hooks.attempt:
                await _enter(mode, stack, hook, {"": current.get()})
            values: dict[Any, Any] = {}
            injected = {name: await self._value(mode, kind, stack, values) for name, kind in needs.items()}
            result = function(*args, **kwargs, **injected)
            return await result if inspect.iscoroutine(result) else result

    async def _value(self, mode: _Mode, kind: Any, stack: contextlib.AsyncExitStack, values: dict[Any, Any]) -> Any:
        """A value for this attempt. `values` are the ones it has already."""
        if kind in self._hooks.overrides:
            return self._hooks.overrides[kind]
        provider = self._hooks.provider_of(kind, "an injected parameter")
        if provider.per == "worker":
            return await self._value_of_worker(mode, kind, provider)
        if kind not in values:
            needed = {name: await self._value(mode, each, stack, values) for name, each in provider.needs.items()}
            values[kind] = await _enter(mode, stack, provider.function, needed)
        return values[kind]

    async def _value_of_worker(self, mode: _Mode, kind: Any, provider: Provider) -> Any:
        with self._lock:
            future = self._values.get(kind)
            is_first = future is None
            if future is None:
                future = self._values[kind] = Future()
        if not is_first:
            return await mode.wait(future)
        try:
            needed = {name: await self._value(mode, each, self._closing, {}) for name, each in provider.needs.items()}
            # Closed from the thread that stops the worker, whichever thread made it.
            future.set_result(await _enter(mode, self._closing, provider.function, needed, lambda: self._closer))
        except BaseException as error:
            with self._lock:
                del self._values[kind]  # the next attempt tries again
            future.set_exception(error)
        return future.result()


async def _enter(
    mode: _Mode,
    stack: contextlib.AsyncExitStack,
    function: Hook,
    arguments: Mapping[str, Any],
    closer: Callable[[], _Mode] | None = None,
) -> Any:
    """Call a hook or a provider, and have the stack close it; returns the value it yields or returns."""
    args, kwargs = ((arguments[""],), {}) if "" in arguments else ((), arguments)
    if inspect.isasyncgenfunction(function):
        opened = contextlib.asynccontextmanager(function)(*args, **kwargs)
        value = await mode.run(opened.__aenter__())

        async def leave(*details: Any) -> bool | None:
            left: bool | None = await (mode if closer is None else closer()).run(opened.__aexit__(*details))
            return left

        stack.push_async_exit(leave)
        return value
    if inspect.isgeneratorfunction(function):
        return stack.enter_context(contextlib.contextmanager(function)(*args, **kwargs))
    result = function(*args, **kwargs)
    if inspect.iscoroutine(result):
        return await mode.run(result)
    return stack.enter_context(result) if isinstance(result, contextlib._GeneratorContextManager) else result


def _raise(error: ConfigError, *args: Any, **kwargs: Any) -> Any:
    raise error


def _finish(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    coroutine.close()
    raise RuntimeError("a hook in a thread tried to suspend")
