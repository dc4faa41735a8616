"""Calls the function of a task inside the app's hooks, in a test that may have an event loop of its own."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from headrace.runtime.jobs.hooks import Hooks
from headrace.runtime.jobs.task import Task
from headrace.runtime.worker.worker_scope import WorkerScope

T = TypeVar("T")


def function_in_scope(hooks: Hooks, task: Task[..., Any, Any]) -> Callable[..., Any]:
    """The task's function inside the hooks. Each attempt has a scope of its own: a value of a worker ends with it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        runner = asyncio.Runner()  # it opens its event loop on first use
        scope = WorkerScope(
            hooks, lambda todo, context: in_own_thread_if_looping(lambda: runner.run(todo, context=context))
        )
        try:
            return scope.function_of(task)(*args, **kwargs)
        finally:
            scope.close()
            in_own_thread_if_looping(runner.close)

    async def acall(*args: Any, **kwargs: Any) -> Any:
        scope = WorkerScope(hooks, lambda todo, context: asyncio.run(todo))
        try:
            return await scope.function_of(task)(*args, **kwargs)
        finally:
            await scope.aclose()

    return acall if task.is_async else call


def in_own_thread_if_looping(call: Callable[[], T]) -> T:
    """Call it here or, if an event loop already runs, in a thread: event loops can't be nested."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return call()
    answer: Future[T] = Future()
    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(_answer, answer, call), name="headrace-testing")
    thread.start()
    thread.join()
    return answer.result()


def _answer(answer: Future[T], call: Callable[[], T]) -> None:
    try:
        answer.set_result(call())
    except BaseException as error:  # result() raises it in the waiting thread
        answer.set_exception(error)
