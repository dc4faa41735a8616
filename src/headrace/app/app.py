"""Headrace: the app. It holds the settings, the tasks and the engine, and creates everything else."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, cast, overload
from weakref import WeakSet

from headrace.app import parts
from headrace.app.config import find_settings, open_archive, open_engine, open_spool
from headrace.app.forking import start_afresh_after_fork
from headrace.app.hook_methods import HookMethods
from headrace.app.jobs.jobs import Jobs
from headrace.app.queues.queues import Queue, QueueStats, all_stats
from headrace.app.queues.task_rule_methods import TaskRuleMethods
from headrace.app.registry import BatchDecorator, Decorator, Registry, task_options
from headrace.app.services.declared_tasks import declare
from headrace.app.services.services import Services
from headrace.app.surfaces import ASGI, WSGI, BackgroundReads, asgi_of, load_extensions, wsgi_of
from headrace.app.workers import WorkerInfo, all_workers
from headrace.core.clock import Clock
from headrace.core.settings.settings import Settings
from headrace.core.tasks.options import check_name, check_text
from headrace.core.tasks.other_libraries import APP_ATTRIBUTES, unknown_attribute
from headrace.engines.protocol.engine import Engine
from headrace.errors import ConfigError
from headrace.runtime.context.trace import correlated
from headrace.runtime.jobs.async_twin import in_thread, twin
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.task import Call, Task
from headrace.runtime.jobs.tracing import Tracer
from headrace.runtime.submit.submitter import Submitter

if TYPE_CHECKING:
    from headrace.app.lifespan import Lifespan, WebApp
    from headrace.app.metrics.task_stats import TaskStats
    from headrace.core.events.event import Event
    from headrace.core.settings.setting_types import AppSettings, WebOptions, WorkerSettings
    from headrace.core.tasks.option_types import BatchOptions, IntervalOptions, ScheduleOptions, TaskOptions
    from headrace.runtime.flows.flow import Flow
    from headrace.runtime.spool.spool import Spool
    from headrace.runtime.worker.worker import Worker

P = ParamSpec("P")
H = TypeVar("H", bound=Callable[..., Any])
T = TypeVar("T")
R = TypeVar("R")


class Headrace(HookMethods, TaskRuleMethods):
    """A background-job system on one store.

    `url` is `sqlite:///file.db`, `memory://`, `postgresql://…` or `redis://…`; without it $HEADRACE_URL, else
    headrace.db in the current folder.
    Other settings may be given by name; `headrace doctor` prints them all and where they came from.
    """

    def __init__(self, url: str | None = None, *, clock: Clock | None = None, **settings: Unpack[AppSettings]) -> None:
        found = find_settings({"url": url, **settings})
        self.settings: Settings = found.settings
        self.settings_origin = found.origin
        self.engine: Engine = open_engine(self.settings, clock)
        self.clock: Clock = self.engine.clock
        self._archive = open_archive(self.settings)
        self.spool: Spool | None = open_spool(self.settings, self.engine, self._archive)
        self.services = Services(self.engine, self.clock, self.find_task, self.settings, self.spool)
        self.cipher = self.services.cipher
        self.services.use_archive(self._archive)
        self.submitter = Submitter(self.engine, self.clock, self.settings, self.services, self.spool)
        self.submitter.mapped = parts.mapped
        self.registry = Registry(self.submitter, self.settings.importable)
        self.tasks: dict[str, Task[..., Any, Any]] = self.registry.tasks
        self.services.tasks = self.tasks
        self._workers: list[Worker] = []
        self.background_reads: WeakSet[BackgroundReads] = WeakSet()  # of the dashboard
        self.web_apps: WeakSet[WebApp] = WeakSet()
        self.jobs = Jobs(self.services)
        start_afresh_after_fork(self)
        if self.spool is not None:
            self.spool.start()
        load_extensions(self, self.settings)

    # -- its parts, each created on first use

    schedules = functools.cached_property(parts.schedules)
    flows = functools.cached_property(parts.flows)
    dead = functools.cached_property(parts.dead)
    lifecycle = functools.cached_property(parts.lifecycle)
    events = functools.cached_property(parts.events)
    webhooks = functools.cached_property(parts.webhooks)
    metrics = functools.cached_property(parts.metrics)
    alerts = functools.cached_property(parts.alerts)
    questions = functools.cached_property(parts.questions)
    breakers = functools.cached_property(parts.breakers)
    audit = functools.cached_property(parts.audit)
    admin = functools.cached_property(parts.admin)

    # -- tasks

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, T]], /) -> Task[P, Coroutine[Any, Any, T], T]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R, R]: ...
    @overload
    def task(self, /, *, name: str | None = None, **options: Unpack[BatchOptions]) -> BatchDecorator: ...
    @overload
    def task(self, /, *, name: str | None = None, **options: Unpack[TaskOptions]) -> Decorator: ...
    def task(self, function: Any = None, /, *, name: str | None = None, **options: Any) -> Any:
        """Register a function as a task; use it bare or with a name and options."""
        checked_options = task_options(options)
        if function is None:
            return functools.partial(self.registry.register, name=name, options=checked_options)
        return self.registry.register(function, name=name, options=checked_options)

    # -- schedules

    def cron(self, expression: str, /, *, name: str | None = None, **how: Unpack[ScheduleOptions]) -> Decorator:
        """Schedule the decorated task: cron("0 9 * * MON", tz="Europe/Vienna"); options as for schedules.create()."""
        return cast(Decorator, self.schedules.declaring(self.task, name, {**how, "cron": expression}))

    def every(
        self, interval: float | timedelta | None = None, /, *, name: str | None = None, **how: Unpack[IntervalOptions]
    ) -> Decorator:
        """Schedule the decorated task: every(minutes=5), or weeks, days, hours, seconds; options as for cron()."""
        return cast(Decorator, self.schedules.declaring(self.task, name, {**how, "every": interval}))

    # -- flows

    def flow(self, name: str, *, budget: int | None = None) -> Flow:
        """A new flow: jobs with dependencies, enqueued together, which may report so many units in all."""
        from headrace.runtime.flows.flow import Flow  # deferred: many programs use no flows

        return Flow(name, self.submitter, budget)

    # -- tasks by name

    def find_task(self, name: str) -> Task[..., Any, Any] | None:
        """The task of that name: registered, or a function of a module in the setting `importable`."""
        return self.webhooks.task() if name == "headrace.webhook" else self.registry.find(name)

    def task_by_name(self, name: str) -> Task[..., Any, Any]:
        """A task to enqueue by name. If its code is unknown here, its arguments are not checked."""
        return self.registry.by_name(name)

    # -- submitting

    def enqueue(self, task: str | Callable[..., Any], /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Store a job for a task, given as a task, by name, or as a plain importable function."""
        return self.registry.as_task(task).enqueue(*args, **kwargs)

    async def aenqueue(self, task: str | Callable[..., Any], /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Like enqueue(), without blocking the event loop."""
        return await self.registry.as_task(task).aenqueue(*args, **kwargs)

    def enqueue_many(self, calls: Iterable[Call[R] | Mapping[str, Any]]) -> list[Job[R]]:
        """Store many jobs in one commit: all, or none if one is invalid.

        A call is `task.bind(1, 2)`, or a dict with `task`, `args`, `kwargs` and any options.
        """
        return self.submitter.submit_many(self.registry.as_calls(calls))

    async def aenqueue_many(self, calls: Iterable[Call[R] | Mapping[str, Any]]) -> list[Job[R]]:
        """Like enqueue_many(), without blocking the event loop."""
        return await self.submitter.asubmit_many(self.registry.as_calls(calls))

    # -- events

    def signal(self, job: Job[Any] | str, name: str, data: Any = None) -> bool:
        """Send an event to a job, which gets it with `current_job().wait_event(name)`; False if the job is finished.

        The job need not wait yet: events are kept for it in order. `job` may be its id.
        """
        job_id = check_text("job", job.id if isinstance(job, Job) else job)
        return self.services.signal(job_id, check_name("event", name), data)

    # -- following events

    def aevents(self, since: str | datetime | None = None, **which: Any) -> AsyncIterator[Event]:
        """Like events(), for `async for`."""
        return self.events.follow_async(since, **which)

    def on(self, *types: str, name: str | None = None, everywhere: bool = False, **where: Any) -> Callable[[H], H]:
        """Register the decorated function as a handler of event types: on("job.failed", queue="emails").

        Workers call it. One process handles each event, in order and at least once; with `everywhere`, every process
        handles each event from now on.
        """
        return self.events.on(types, name, everywhere, **where)

    def listening(self) -> AbstractContextManager[None]:
        """Call event handlers in this process inside a `with`, as a worker does."""
        return self.events.listening()

    def correlation(self, correlation_id: str) -> contextlib.AbstractContextManager[None]:
        """Inside a `with`, enqueued jobs, their descendants and log lines carry this correlation id."""
        return correlated(correlation_id)

    def trace(self, tracer: Tracer | None) -> None:
        """Install a tracer for later enqueues and for workers started later."""
        self.submitter.tracer = tracer

    # -- queries

    def queue(self, name: str) -> Queue:
        """The queue of that name; it need not exist yet."""
        return Queue(name, self.services)

    def queues(self) -> list[QueueStats]:
        """All queues with their counts, by name."""
        return all_stats(self.services)

    def workers(self) -> list[WorkerInfo]:
        """The live workers."""
        return all_workers(self.engine, self.clock.now())

    def pause_worker(self, worker_id: str) -> bool:
        """Pause a worker: it starts no more jobs. False if it is unknown."""
        return self.services.command_worker(worker_id, "pause")

    def resume_worker(self, worker_id: str) -> bool:
        """Resume a paused worker; False if it is unknown."""
        return self.services.command_worker(worker_id, "run")

    def stop_worker(self, worker_id: str) -> bool:
        """Stop a worker after its running jobs; False if it is unknown."""
        return self.services.command_worker(worker_id, "stop")

    def set_worker_log_level(self, worker_id: str, level: str) -> bool:
        """Set the log level of a worker's process, such as "INFO,headrace.store=DEBUG"; False if it is unknown."""
        return self.services.set_log_level(worker_id, level)

    def task_stats(self) -> list[TaskStats]:
        """Each task with its open jobs, its metrics of the last hour, its newest failure and its rules, by name."""
        return parts.task_stats(self)

    def spooled(self) -> int:
        """The number of jobs in the spool, waiting for the server; 0 without a spool."""
        return 0 if self.spool is None else self.spool.count()

    asignal = twin(signal)
    aqueues = twin(queues)
    aworkers = twin(workers)
    aspooled = twin(spooled)
    atask_stats = twin(task_stats)

    # -- workers

    def worker(self, **settings: Unpack[WorkerSettings]) -> Worker:
        """A worker in threads of this process: `with app.worker(concurrency=4): ...`."""
        worker = self._make_worker(self._with(settings))
        self._workers = [known for known in self._workers if not known.stopped.is_set()] + [worker]
        return worker

    def run_worker(self, *, drain: bool = False, at_most: int | None = None, **settings: Unpack[WorkerSettings]) -> int:
        """Run workers and block until SIGTERM or SIGINT; a second signal cuts the shutdown short."""
        from headrace.app.run_workers import run_until_empty, run_until_stopped  # deferred: see _make_worker

        chosen = self._with(settings)
        make = functools.partial(self._make_worker, chosen, drain=drain, at_most=at_most)
        if drain or at_most is not None:
            return run_until_empty(make, chosen, self._declare_rules)
        return run_until_stopped(make, chosen, self.engine, self.spool)

    def asgi(self, **options: Unpack[WebOptions]) -> ASGI:
        """The REST API and the dashboard as an ASGI app; options are the settings web_*, without `web_`."""
        return asgi_of(self, options)

    def wsgi(self, **options: Unpack[WebOptions]) -> WSGI:
        """The same as a WSGI app; pages poll, because a WSGI server has few threads for streams."""
        return wsgi_of(self, options)

    def lifespan(
        self, *, worker: bool = False, inner: Lifespan | None = None, **settings: Unpack[WorkerSettings]
    ) -> Lifespan:
        """A lifespan for FastAPI, Starlette or Litestar: `FastAPI(lifespan=app.lifespan(worker=True, concurrency=2))`.

        It opens the store, runs a worker with these settings if asked to, and ends open event streams so that the
        server can stop. `inner` is a lifespan of your own to run inside; its state is yielded.
        """
        from headrace.app.lifespan import lifespan_of  # deferred: only web apps have one

        if settings and not worker:
            raise ConfigError(f"lifespan: {', '.join(settings)}: settings are those of a worker; add worker=True")
        self._with(settings)  # a wrong setting is an error here, not when the server starts
        return lifespan_of(self, inner, settings if worker else None)

    def _with(self, settings: Mapping[str, Any]) -> Settings:
        base = {name: getattr(self.settings, name) for name in Settings.__struct_fields__}
        given = {name: value for name, value in settings.items() if value is not None}
        return find_settings({**base, **given}).settings

    def _make_worker(self, settings: Settings, **how: Any) -> Worker:
        # Deferred: a program that only enqueues need not import the worker.
        from headrace.runtime.worker.worker import Worker

        if self.spool is not None:
            self.spool.keep_forwarding()
        how |= {"declare": self._declare, "archive": lambda: self.services.archive}
        how["payloads"] = self.services.payloads
        listener = functools.partial(self.events.listener, finish=bool(how.get("drain")))
        how |= {"listener": listener, "hooks": self.submitter.hooks}
        return Worker(self.engine, settings, self.find_task, self.registry.names, self.clock, **how)

    def _declare(self) -> None:
        """Store the declarations of the code. Rules first, because storing a schedule may raise."""
        self._declare_rules()
        self.schedules.sync()

    def _declare_rules(self) -> None:
        from headrace.app.queues.declared_rules import sync_rules  # deferred: only workers declare

        self.lifecycle.sync()
        declare(self.engine, self.tasks)
        sync_rules(self.engine, self.tasks)

    # -- for tests

    @contextlib.contextmanager
    def on_another_store(self, engine: Engine, clock: Clock) -> Iterator[None]:
        """Use this store and clock inside a `with`; tasks, handles and facades follow."""
        before, workers, closed = (self.engine, self.clock, self.spool), self._workers, self.submitter.closed
        self._workers, self.submitter.closed = [], False
        self._attach(engine, clock)
        try:
            yield
        finally:
            self.close()
            self._workers, self.submitter.closed = workers, closed
            self._attach(*before)

    @contextlib.contextmanager
    def intercepting(self, hook: Callable[[Job[Any]], None]) -> Iterator[None]:
        """Inside a `with`, call `hook` with every job after it is stored, in the enqueuing thread."""
        before, self.submitter.intercept = self.submitter.intercept, hook
        try:
            yield
        finally:
            self.submitter.intercept = before

    def _attach(self, engine: Engine, clock: Clock, spool: Spool | None = None) -> None:
        self.engine, self.clock, self.spool = engine, clock, spool
        self.services.attach(engine, clock, spool)
        self.submitter.attach(engine, clock, spool)

    def reset_after_fork(self) -> None:
        """Reset in a forked child: it must not use the threads, locks and workers of the parent."""
        self._workers = []
        if self.spool is not None:
            self.spool.reset_after_fork()
        self._attach(self.engine, self.clock, self.spool)

    # -- closing

    def close(self) -> None:
        """Stop embedded workers and close the store; jobs in the spool stay there.

        Afterwards enqueue() raises AppClosed, until `with app:` opens the app again.
        """
        self.submitter.closed = True
        for worker in self._workers:
            if not worker.stopped.is_set():
                worker.stop()
        self._workers.clear()
        for reads in list(self.background_reads):
            reads.finish()  # a read that goes on would connect to the store again
        self.services.close()
        if self.spool is not None:
            self.spool.close()
        self.engine.close()
        if self._archive is not None:
            self._archive.close()

    def __enter__(self) -> Headrace:
        self.submitter.closed = False
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Headrace:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        await in_thread(self.close)

    if not TYPE_CHECKING:
        __getattr__ = unknown_attribute("an app", APP_ATTRIBUTES)

    def __repr__(self) -> str:
        return f"<Headrace {self.engine.url}>"
