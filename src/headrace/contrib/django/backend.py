"""The task backend: Django's tasks become headrace tasks of the same name."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections, connections
from django.utils import timezone
from django.utils.connection import ConnectionDoesNotExist

from headrace.app.app import Headrace
from headrace.contrib.django.results import new_result, result_of, task_of
from headrace.contrib.django.store import SCHEMA, database_url, joining
from headrace.contrib.django.task_api import (
    DEFAULT_ALIAS,
    BaseTaskBackend,
    TaskContext,
    TaskResultDoesNotExist,
    normalize_json,
    signals,
    task_backends,
)
from headrace.contrib.django.task_signals import has_receivers, subscribe
from headrace.errors import ConfigError, JobNotFound
from headrace.runtime.context.current_job import current_job

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = "headrace_options"


def job_options(**options: Any) -> Callable[[F], F]:
    """Give a task the options of `@app.task`: `@task` above, `@job_options(retry=5, timeout=60)` below it."""

    def keep(function: F) -> F:
        setattr(function, _OPTIONS, options)
        return function

    return keep


def get_app(alias: str = DEFAULT_ALIAS) -> Headrace:
    """The Headrace app behind a backend of `TASKS`."""
    backend = task_backends[alias]
    if not isinstance(backend, HeadraceBackend):
        raise ImproperlyConfigured(f"TASKS[{alias!r}] is a {type(backend).__name__}, not a HeadraceBackend")
    subscribe(HeadraceBackend, alias, backend.app)
    return backend.app


class _Apps:
    """The apps of this process. Django makes a backend for each thread; they share one app for each store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._apps: dict[tuple[str, str], Headrace] = {}
        self._tasks: dict[str, dict[str, Any]] = {}

    def add(self, alias: str, task: Any) -> None:
        """Register a task in the apps of this alias, now and later."""
        with self._lock:
            known = self._tasks.setdefault(alias, {})
            if (same := known.get(task.module_path)) is not None and same.func is task.func:
                return  # a copy, made by using()
            known[task.module_path] = task
            for (of, _), app in self._apps.items():
                if of == alias:
                    _register(app, alias, task)

    def get(self, alias: str, url: str, settings: dict[str, Any], database: str | None) -> Headrace:
        """The app of a store. Its jobs join open transactions of the database, if one is named."""
        with self._lock:
            if (alias, url) not in self._apps:
                app = Headrace(url, **settings)
                if database is not None:
                    app.around_enqueue(joining(database))
                for task in self._tasks.get(alias, {}).values():
                    _register(app, alias, task)
                self._apps[alias, url] = app
            return self._apps[alias, url]


_apps = _Apps()


class HeadraceBackend(BaseTaskBackend):
    """Stores tasks as jobs. `OPTIONS` are `url`, or `database` and `schema`, and any setting of headrace."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        settings = dict(self.options)
        self._url: str | None = settings.pop("url", None)
        self._database: str = settings.pop("database", "default")
        self._schema: str = settings.pop("schema", SCHEMA)
        self._settings = settings

    @property
    def app(self) -> Headrace:
        """The app with all tasks of this backend that were imported."""
        return _apps.get(self.alias, self.url(), self._settings, self._database if self._url is None else None)

    def url(self) -> str:
        """The URL of the store. Read each time: a test runner changes the database."""
        if self._url is not None:
            return self._url
        connection = connections[self._database]
        return database_url(self._database, connection.settings_dict, connection.vendor, self._schema)

    def migrate(self, database: str) -> None:
        """Create or update the tables, if the jobs are in this one of Django's databases."""
        if self._url is None and database == self._database and self.url() != "memory://":
            self.app.admin.migrate()

    def validate_task(self, task: Any) -> None:
        super().validate_task(task)
        _apps.add(self.alias, task)

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Store the job, in the open transaction of the database if the jobs are in it."""
        self.validate_task(task)
        options: dict[str, Any] = {"queue": task.queue_name, "priority": task.priority}
        if task.run_after is not None:
            is_naive = timezone.is_naive(task.run_after)
            options["run_at"] = timezone.make_aware(task.run_after) if is_naive else task.run_after
        call = self.app.task_by_name(task.module_path).using(**options)
        job = call.enqueue(*normalize_json(list(args)), **normalize_json(dict(kwargs)))
        result = new_result(job.id, task, self.alias, args, kwargs, job.created_at)
        signals.task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        try:
            job = self.app.jobs.get(result_id)
            return result_of(job, task_of(job), self.alias)
        except (JobNotFound, ImportError) as error:
            raise TaskResultDoesNotExist(result_id) from error

    def check(self, **kwargs: Any) -> Iterator[checks.CheckMessage]:
        yield from super().check(**kwargs)
        try:
            app = self.app
        except (ConfigError, ConnectionDoesNotExist, ImproperlyConfigured) as error:
            yield checks.Error(f"TASKS[{self.alias!r}]: {error}", id="headrace.E001")
            return
        if app.settings.url == "memory://":
            yield checks.Warning(
                f"TASKS[{self.alias!r}]: the jobs are in memory, so no worker sees them", id="headrace.W001"
            )


def _register(app: Headrace, alias: str, task: Any) -> None:
    options = {"queue": task.queue_name, "priority": task.priority, **getattr(task.func, _OPTIONS, {})}
    try:
        app.task(name=task.module_path, **options)(_runner(alias, task))
    except ConfigError as error:
        raise ConfigError(f"{task.module_path}: {error}") from None


def _runner(alias: str, task: Any) -> Callable[..., Any]:
    """The function that runs the task in a worker, with fresh connections as for a request."""
    if inspect.iscoroutinefunction(task.func):

        async def run_async(*args: Any, **kwargs: Any) -> Any:
            await sync_to_async(close_old_connections)()
            try:
                value = await task.func(*await sync_to_async(_context)(alias, task), *args, **kwargs)
            finally:
                await sync_to_async(close_old_connections)()
            return normalize_json(value)

        return _described(run_async, task)

    def run(*args: Any, **kwargs: Any) -> Any:
        close_old_connections()
        try:
            value = task.func(*_context(alias, task), *args, **kwargs)
        finally:
            close_old_connections()
        return normalize_json(value)

    return _described(run, task)


def _context(alias: str, task: Any) -> tuple[Any, ...]:
    """The context that the task takes, if it does. It also sends `task_started`."""
    is_received = has_receivers(signals.task_started)
    if not task.takes_context and not is_received:
        return ()
    result = result_of(task_backends[alias].app.jobs.get(current_job().id), task, alias)
    if is_received:
        signals.task_started.send_robust(HeadraceBackend, task_result=result)
    return (TaskContext(task_result=result),) if task.takes_context else ()


def _described(run: Callable[..., Any], task: Any) -> Callable[..., Any]:
    """The runner with the name, place and parameters of the task's function; Django does not convert arguments."""
    functools.update_wrapper(run, task.func)
    vars(run).pop("__wrapped__")
    run.__annotations__ = {}
    parameters = list(inspect.signature(task.func).parameters.values())[1 if task.takes_context else 0 :]
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    vars(run)["__signature__"] = inspect.Signature(bare)
    return run


def headrace_backends() -> list[HeadraceBackend]:
    """The backends of `TASKS` that are headrace's."""
    return [task_backends[alias] for alias in task_backends if isinstance(task_backends[alias], HeadraceBackend)]
