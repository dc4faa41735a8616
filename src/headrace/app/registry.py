"""The tasks of an app: registered ones, and lookup by name or function."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any, ParamSpec, TypeVar, overload

from msgspec import UNSET

from headrace.core.jobs.known_tasks import RESERVED, is_reserved
from headrace.core.tasks.batches import BatchLimits
from headrace.core.tasks.options import Options, check_task_name, checked
from headrace.core.text import short, why
from headrace.errors import ConfigError, InvalidJob
from headrace.runtime.jobs.task import BatchTask, Call, Submits, Task, default_name

A = TypeVar("A")
P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


class Decorator:
    """For type checkers: what `app.task(...)` returns."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, T]]) -> Task[P, Coroutine[Any, Any, T], T]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> Task[P, R, R]: ...
    def __call__(self, function: Any) -> Any: ...


class BatchDecorator:
    """For type checkers: what `app.task(batch=...)` returns."""

    @overload
    def __call__(
        self, function: Callable[[list[A]], Coroutine[Any, Any, None]]
    ) -> BatchTask[A, Coroutine[Any, Any, None], None]: ...
    @overload
    def __call__(
        self, function: Callable[[list[A]], Coroutine[Any, Any, Sequence[R | Exception]]]
    ) -> BatchTask[A, Coroutine[Any, Any, Sequence[R | Exception]], R]: ...
    @overload
    def __call__(self, function: Callable[[list[A]], None]) -> BatchTask[A, None, None]: ...
    @overload
    def __call__(
        self, function: Callable[[list[A]], Sequence[R | Exception]]
    ) -> BatchTask[A, Sequence[R | Exception], R]: ...
    def __call__(self, function: Any) -> Any: ...


class Registry:
    """Tasks by name. `importable` are the modules whose functions may be run without being registered."""

    def __init__(self, submits: Submits, importable: Collection[str]) -> None:
        self.tasks: dict[str, Task[..., Any, Any]] = {}
        self._submits = submits
        self._importable_from = importable

    def names(self) -> Iterable[str]:
        """The names of known tasks; "jobs.*" stands for importable ones."""
        return (*self.tasks, *(f"{root}.*" for root in self._importable_from))

    def batches(self) -> dict[str, BatchLimits]:
        """The limits of the batch tasks, by name."""
        return {name: task.batch for name, task in self.tasks.items() if task.batch is not None}

    def register(self, function: Any, *, name: str | None, options: Options) -> Task[..., Any, Any]:
        """Make the function a task."""
        if isinstance(function, Task):
            function = function.function
        if not callable(function):
            raise ConfigError(f"@app.task: {function!r} is not a function")
        kind = Task if options.batch is UNSET else BatchTask
        task: Task[..., Any, Any] = kind(function, name or default_name(function), options, self._submits)
        if is_reserved(task.name):
            raise ConfigError(f"@app.task: {task.name!r}: names that begin with {RESERVED!r} are headrace's own")
        known = self.tasks.get(task.name)
        if known is not None and _place(known.function) != _place(function):
            raise ConfigError(
                f"two tasks are called {task.name!r}: {_place(known.function)} and {_place(function)}; "
                "give one of them another name with @app.task(name=...)"
            )
        self.tasks[task.name] = task
        return task

    def builtin(self, function: Callable[..., Any], *, name: str, **options: Any) -> Task[..., Any, Any]:
        """Register an internal task, which is not among those of the app."""
        return Task(function, name, task_options(options), self._submits)

    def find(self, name: str) -> Task[..., Any, Any] | None:
        """The task with that name: registered, or a function of an importable module."""
        return self.tasks.get(name) or self._importable(name)

    def by_name(self, name: str) -> Task[..., Any, Any]:
        """A task to enqueue by name; its code need not be known here."""
        if is_reserved(check_task_name(name)):
            raise InvalidJob(
                f"task: {name!r} is headrace's own: names that begin with {RESERVED!r} are not enqueued", value=name
            )
        return self.find(name) or Task(_unknown_code, name, Options(), self._submits)

    def as_task(self, task: Any) -> Task[..., Any, Any]:
        """Resolve a task given as a task, a name, or a plain importable function."""
        if isinstance(task, Task):
            return task
        if isinstance(task, str):
            return self.by_name(task)
        if not callable(task):
            raise InvalidJob(f"task: expected a task, a name or a function, got {task!r}", value=task)
        known = next((known for known in self.tasks.values() if known.function is task), None)
        return known or self._plain(task)

    def _plain(self, function: Callable[..., Any]) -> Task[..., Any, Any]:
        place = _place(function)
        module, qualname = getattr(function, "__module__", None), getattr(function, "__qualname__", ".")
        if not module or module == "__main__" or "." in qualname or "<" in place:
            raise InvalidJob(f"{place} can't be imported by a worker; make it a task with @app.task")
        return Task(function, place, Options(), self._submits)

    def as_calls(self, calls: Iterable[Any]) -> Iterator[Call[Any]]:
        """Validate a list of calls."""
        if not isinstance(calls, Iterable):
            raise InvalidJob(f"enqueue_many: expected a list of calls, got {short(calls)}", value=calls)
        return map(self.as_call, calls)

    def as_call(self, call: Any) -> Call[Any]:
        """Resolve a call: `task.bind(...)`, or a dict with a task, its arguments and any options."""
        if isinstance(call, Call):
            return call
        if not isinstance(call, Mapping) or "task" not in call:
            raise InvalidJob(
                f"enqueue_many: expected task.bind(...) or a dict with a task, got {short(call)}", value=call
            )
        options = {name: value for name, value in call.items() if name not in ("task", "args", "kwargs")}
        args, kwargs = call.get("args", ()), call.get("kwargs", {})
        if not isinstance(args, list | tuple) or not isinstance(kwargs, Mapping):
            raise InvalidJob(f"enqueue_many: args must be a list and kwargs a dict, got {short(call)}", value=call)
        return self.as_task(call["task"]).using(**options).bind(*args, **kwargs)

    def _importable(self, name: str) -> Task[..., Any, Any] | None:
        module, _, attribute = name.rpartition(".")
        if not self._allows(module) or any(part.startswith("_") for part in name.split(".")):
            return None
        try:
            found = getattr(importlib.import_module(module), attribute, None)
        except BaseException as error:  # user code runs at import; its sys.exit() must not end the worker
            _log_import_error(name, error)
            return None
        # A function that the module imported from elsewhere does not count.
        if not isinstance(found, Task | FunctionType | BuiltinFunctionType) or not self._allows(found.__module__):
            return None
        return found if isinstance(found, Task) else Task(found, name, Options(), self._submits)

    def _allows(self, module: str | None) -> bool:
        return bool(module) and any(
            module == root or f"{module}".startswith(f"{root}.") for root in self._importable_from
        )


def task_options(given: Mapping[str, Any]) -> Options:
    for name in ("job_id", "run_at", "connection", "idempotency_key", "after", "parent"):
        if name in given:
            raise ConfigError(f"@app.task: {name} belongs to one call; give it with using({name}=...)", field=name)
    try:
        return checked(given)
    except InvalidJob as error:
        raise ConfigError(f"@app.task: {error}", field=error.field, value=error.value) from None


def _place(function: Any) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"


def _log_import_error(task: str, error: BaseException) -> None:
    import logging  # deferred: it would be a sixth of the time of `import headrace`

    logging.getLogger("headrace.app").warning("task %r can't be imported: %s", task, why(error))


def _unknown_code(*args: Any, **kwargs: Any) -> Any:
    """A placeholder for a task whose code is unknown here."""
    raise ConfigError("the code of this task is not known here")
