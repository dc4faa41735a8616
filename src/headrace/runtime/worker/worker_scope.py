"""Runs attempts inside an app's hooks, with the injected values of one worker.

One implementation serves threads and the event loop. In a thread nothing suspends: a coroutine runs on the worker's
event loop while the thread waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from headrace.core.tasks.injection import needs_of
from headrace.errors import ConfigError
from headrace.runtime.context.current_job import current_jobs
from headrace.runtime.jobs.hooks import Hook, Hooks, Provider, takes
from headrace.runtime.jobs.task import Task
from headrace.runtime.worker.runners.interruption import interruptible

log = logging.getLogger("headrace.worker")

RunCoroutine = Callable[[Coroutine[Any, Any, Any], contextvars.Context], Any]
_ENDED: Any = object()


class _Mode(Protocol):
    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any: ...
    async def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any: ...
    async def wait(self, future: Future[Any]) -> Any: ...


class _OnLoop:
    """In a coroutine of the event loop."""

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    async def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return await coroutine

    async def wait(self, future: Future[Any]) -> Any:
        return await asyncio.wrap_future(future)


class _InThread:
    """In a thread: nothing here suspends.

    Functions and coroutines run in one context, so that each sees the context variables that another has set.
    """

    def __init__(self, run: RunCoroutine) -> None:
        self._run = run
        self._context = contextvars.copy_context()

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return self._context.run(function, *args, **kwargs)

    async def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self._run(coroutine, self._context)

    async def wait(self, future: Future[Any]) -> Any:
        return future.result()


class _Unmade(Exception):
    """The attempt that made a value was cancelled; another one has to make it."""


class WorkerScope:
    """The values of one worker, made on first use and closed when it stops."""

    def __init__(self, hooks: Hooks, run_coroutine: RunCoroutine) -> None:
        self._hooks = hooks
        self._run_coroutine = run_coroutine
        self._on_loop = _OnLoop()
        self._lock = threading.Lock()
        self._values: dict[Any, Future[Any]] = {}
        self._closing = contextlib.AsyncExitStack()
        self._closer: _Mode = self._on_loop

    def function_of(self, task: Task[..., Any, Any]) -> Callable[..., Any]:
        """The task's function inside the hooks, with its injected values; the function itself if there are none."""
        try:
            needs = self._needs_of(task)
        except ConfigError as error:
            return functools.partial(_raise, error)  # it fails the job, not the worker
        # Hooks and providers are not interrupted: other jobs may wait for what they make.
        function = interruptible(task.function) if task.options.interrupt and not task.is_async else task.function
        if not needs and not self._hooks.attempt:
            return function
        attempt = functools.partial(self._attempt, function=function, needs=needs)
        if task.is_async:
            return lambda *args, **kwargs: attempt(self._on_loop, args=args, kwargs=kwargs)
        return lambda *args, **kwargs: _finish(attempt(_InThread(self._run_coroutine), args=args, kwargs=kwargs))

    def _needs_of(self, task: Task[..., Any, Any]) -> dict[str, Any]:
        """What is injected into a task, by parameter; ConfigError if nothing provides it."""
        title = f"task {task.name!r}"
        needs = needs_of(task.function, title)
        self._hooks.check(needs, title)
        return needs

    def start(
        self,
        worker: object,
        tasks: Iterable[Task[..., Any, Any] | None] = (),
        undo: Sequence[Callable[[], object]] = (),
    ) -> None:
        """Call the hooks of the start. After an error it stops, calls `undo` and raises: the worker does not start.

        Tasks that can't get their values are named in the log; other tasks run.
        """
        for task in tasks:
            try:
                if task is not None:
                    self._needs_of(task)
            except ConfigError as error:
                log.error("%s; its jobs will fail", error, extra={"event": "worker.task_unusable"})
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
        self._closer = _InThread(self._run_coroutine)
        try:
            _finish(self._closing.aclose())
        except Exception:
            log.exception("a value of the worker could not be closed")

    async def aclose(self) -> None:
        """Close the values on the event loop that made them."""
        await self._closing.aclose()

    def _call(self, hook: Hook, worker: object) -> None:
        result = hook() if takes(hook, 0) else hook(worker)
        if inspect.iscoroutine(result):
            self._run_coroutine(result, contextvars.copy_context())

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
                await _enter(mode, stack, functools.partial(hook, current_jobs()[0]))
            values: dict[Any, Any] = {}
            injected = {name: await self._value(mode, kind, stack, values) for name, kind in needs.items()}
            result = mode.call(function, *args, **kwargs, **injected)
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
            values[kind] = await _made(mode, stack, provider, needed)
        return values[kind]

    async def _value_of_worker(self, mode: _Mode, kind: Any, provider: Provider) -> Any:
        while True:
            with self._lock:
                future = self._values.get(kind)
                is_first = future is None
                if future is None:
                    future = self._values[kind] = Future()
                    future.set_running_or_notify_cancel()  # an attempt that waits and is cancelled must not cancel it
            if is_first:
                return await self._make(mode, kind, provider, future)
            try:
                return await mode.wait(future)
            except _Unmade:
                continue

    async def _make(self, mode: _Mode, kind: Any, provider: Provider, future: Future[Any]) -> Any:
        """Make a value of the worker, for this attempt and those that wait for it."""
        try:
            needed = {name: await self._value(mode, each, self._closing, {}) for name, each in provider.needs.items()}
            # Closed from the thread that stops the worker, whichever thread made it.
            value = await _made(mode, self._closing, provider, needed, lambda: self._closer)
        except BaseException as error:
            with self._lock:
                del self._values[kind]  # the next attempt tries again
            future.set_exception(error if isinstance(error, Exception) else _Unmade())
            raise
        future.set_result(value)
        return value


async def _made(
    mode: _Mode,
    stack: contextlib.AsyncExitStack,
    provider: Provider,
    needed: Mapping[str, Any],
    closer: Callable[[], _Mode] | None = None,
) -> Any:
    """The value of a provider; the stack closes it."""
    value = await _enter(mode, stack, functools.partial(provider.function, **needed), closer)
    if value is _ENDED:
        raise ConfigError(f"provider {provider.name} ended before its yield, so there is no value")
    return value


async def _enter(
    mode: _Mode,
    stack: contextlib.AsyncExitStack,
    function: Callable[[], Any],
    closer: Callable[[], _Mode] | None = None,
) -> Any:
    """Call a hook or a provider; returns what it yields or returns. After a yield the stack resumes it."""
    leaver = closer or (lambda: mode)
    result = mode.call(function)
    if inspect.iscoroutine(result):
        return await mode.run(result)
    if isinstance(result, contextlib._GeneratorContextManager | contextlib._AsyncGeneratorContextManager):
        result = result.gen  # its decorator is the one that is used here
    if inspect.isgenerator(result):
        if (value := mode.call(next, result, _ENDED)) is not _ENDED:
            opened = contextlib.contextmanager(lambda: result)()
            stack.push(lambda *details: leaver().call(opened.__exit__, *details))
        return value
    if inspect.isasyncgen(result):
        if (value := await mode.run(_next(result))) is not _ENDED:
            aopened = contextlib.asynccontextmanager(lambda: result)()

            async def leave(*details: Any) -> bool | None:
                left: bool | None = await leaver().run(aopened.__aexit__(*details))
                return left

            stack.push_async_exit(leave)
        return value
    return result


async def _next(generator: AsyncGenerator[Any, Any]) -> Any:
    return await anext(generator, _ENDED)


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
