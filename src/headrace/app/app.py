"""Headrace: the app. It holds the settings, the tasks and the engine, and hands out everything else."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

from msgspec import structs

from headrace.app.config import find_settings, open_archive, open_engine, open_spool
from headrace.app.forking import start_afresh_after_fork
from headrace.app.hub import AppHub
from headrace.app.jobs import Jobs
from headrace.app.queues import Queue, QueueStats, all_stats
from headrace.app.registry import Decorator, Registry, task_options
from headrace.app.surfaces import ASGI, asgi_of
from headrace.app.task_rules import rule_task, rules_of_tasks
from headrace.app.workers import WorkerInfo, all_workers, wish
from headrace.core import codec
from headrace.core.clock import Clock
from headrace.core.options import check_name, check_text
from headrace.core.regulation import TaskRules
from headrace.core.rules import changed
from headrace.core.settings import Settings
from headrace.core.words import short
from headrace.engines.protocol import Engine
from headrace.errors import EngineUnavailable, InvalidJob
from headrace.runtime.job import Job
from headrace.runtime.submit import Submitter
from headrace.runtime.task import Call, Task
from headrace.runtime.twin import in_thread, twin

if TYPE_CHECKING:
    from headrace.app.admin import Admin
    from headrace.app.alerts import Alerts
    from headrace.app.audit import Audit
    from headrace.app.dead import Dead
    from headrace.app.flows import Flows
    from headrace.app.lifecycle import Lifecycles
    from headrace.app.metrics import Metrics
    from headrace.app.schedules import Schedules
    from headrace.runtime.flow import Flow
    from headrace.runtime.spool import Spool
    from headrace.runtime.worker import Worker

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


class Headrace:
    """A background-job system on one store.

    `url` is `sqlite:///file.db`, `memory://`, `postgresql://…` or `redis://…`; without it $HEADRACE_URL, else
    headrace.db in the current folder.
    Other settings may be given by name; `headrace doctor` prints them all and where they came from.
    """

    def __init__(self, url: str | None = None, *, clock: Clock | None = None, **settings: Any) -> None:
        found = find_settings({"url": url, **settings})
        self.settings: Settings = found.settings
        self.settings_origin = found.origin
        self.engine: Engine = open_engine(self.settings, clock)
        self.clock: Clock = self.engine.clock
        self.spool: Spool | None = open_spool(self.settings, self.engine)
        self._hub = AppHub(self.engine, self.clock, self.find_task, self.settings, self.spool)
        self.seal = self._hub.seal
        self._archive = open_archive(self.settings)
        self._hub.keep_archive_in(self._archive)
        self._submitter = Submitter(self.engine, self.clock, self.settings.max_payload, self._hub, self.spool)
        self._registry = Registry(self._submitter, self.settings.importable)
        self.tasks: dict[str, Task[..., Any, Any]] = self._registry.tasks
        self._workers: list[Worker] = []
        self.jobs = Jobs(self._hub)
        start_afresh_after_fork(self)
        if self.spool is not None:
            self.spool.start()

    # -- tasks

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, T]], /) -> Task[P, Coroutine[Any, Any, T], T]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R, R]: ...
    @overload
    def task(self, /, *, name: str | None = None, **options: Any) -> Decorator: ...
    def task(self, function: Any = None, /, *, name: str | None = None, **options: Any) -> Any:
        """Register a function as a task; use it bare or with a name and options."""
        checked_options = task_options(options)
        if function is None:
            return functools.partial(self._registry.register, name=name, options=checked_options)
        return self._registry.register(function, name=name, options=checked_options)

    # -- schedules

    @functools.cached_property
    def schedules(self) -> Schedules:
        """The schedules of this app's store."""
        # Deferred: many programs have none, and zones and calendars take their time to load.
        from headrace.app.schedules import Schedules

        return Schedules(self._hub, self._submitter, self._registry.as_task, self.tasks)

    def cron(self, expression: str, /, *, name: str | None = None, **how: Any) -> Decorator:
        """Run the task below at these times: "0 9 * * MON", tz="Europe/Vienna"; options as for schedules.create()."""
        return cast(Decorator, self.schedules.declaring(self.task, name, {**how, "cron": expression}))

    def every(self, interval: float | timedelta | None = None, /, *, name: str | None = None, **how: Any) -> Decorator:
        """Run the task below every(minutes=5), or of weeks, days, hours and seconds; the rest is as for cron()."""
        return cast(Decorator, self.schedules.declaring(self.task, name, {**how, "every": interval}))

    # -- flows

    def flow(self, name: str) -> Flow:
        """A new flow: jobs that wait for each other, to be enqueued together."""
        from headrace.runtime.flow import Flow  # deferred: many programs have none

        return Flow(name, self._submitter)

    @functools.cached_property
    def flows(self) -> Flows:
        """The flows of this app's store."""
        from headrace.app.flows import Flows  # as above

        return Flows(self._hub)

    @functools.cached_property
    def dead(self) -> Dead:
        """The dead letters of this app's store: jobs that failed for good."""
        from headrace.app.dead import Dead  # as above

        return Dead(self._hub, self.task_by_name, self.settings.max_payload)

    @functools.cached_property
    def lifecycle(self) -> Lifecycles:
        """How long the jobs of this app's store may stay, and those that stay too long."""
        from headrace.app.lifecycle import Lifecycles  # as above

        return Lifecycles(self._hub, self.settings, self.tasks)

    @functools.cached_property
    def alerts(self) -> Alerts:
        """What is wrong now and who is told: rules, alerts, channels, silences."""
        from headrace.app.alerts import Alerts  # as above

        return Alerts(self._hub, self.settings)

    @functools.cached_property
    def metrics(self) -> Metrics:
        """How this app's store does: what became of jobs, how fast, and what waits."""
        from headrace.app.metrics import Metrics  # as above

        return Metrics(self._hub, self.settings)

    @functools.cached_property
    def admin(self) -> Admin:
        """What keeps this app's store sound: backups, checks, upkeep by hand."""
        from headrace.app.admin import Admin  # as above

        return Admin(self._hub, self.settings)

    @functools.cached_property
    def audit(self) -> Audit:
        """Who did what over HTTP."""
        from headrace.app.audit import Audit  # as above

        return Audit(self._hub)

    # -- tasks by name

    def find_task(self, name: str) -> Task[..., Any, Any] | None:
        """The task of that name: registered, or a function of a module in the setting `importable`."""
        return self._registry.find(name)

    def task_by_name(self, name: str) -> Task[..., Any, Any]:
        """A task to enqueue by name; its code need not be known here, then its arguments are not checked here."""
        return self._registry.by_name(name)

    # -- submitting

    def enqueue(self, task: str | Callable[..., Any], /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Store a job for a task, given as such, by name, or as a plain importable function."""
        return self._registry.as_task(task).enqueue(*args, **kwargs)

    async def aenqueue(self, task: str | Callable[..., Any], /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Like enqueue(), without blocking the event loop."""
        return await self._registry.as_task(task).aenqueue(*args, **kwargs)

    def enqueue_many(self, calls: Iterable[Call[R] | Mapping[str, Any]]) -> list[Job[R]]:
        """Store many jobs in one commit: all of them or, if one is not valid, none.

        A call is `task.bind(1, 2)`, or a dict with `task`, `args`, `kwargs` and any options.
        """
        if not isinstance(calls, Iterable):
            raise InvalidJob(f"enqueue_many: expected a list of calls, got {short(calls)}")
        return self._submitter.submit_many(map(self._registry.as_call, calls))

    async def aenqueue_many(self, calls: Iterable[Call[R] | Mapping[str, Any]]) -> list[Job[R]]:
        """Like enqueue_many(), without blocking the event loop."""
        if not isinstance(calls, Iterable):
            raise InvalidJob(f"enqueue_many: expected a list of calls, got {short(calls)}")
        return await self._submitter.asubmit_many(map(self._registry.as_call, calls))

    # -- events

    def signal(self, job: Job[Any] | str, name: str, data: Any = None) -> bool:
        """Send an event to a job, which gets it with `current_job().wait_event(name)`; False if the job is over.

        It need not wait for it yet: events are kept for it, in the order they came. `job` may be its id.
        """
        job_id = check_text("job", job.id if isinstance(job, Job) else job)
        limit = self.settings.max_payload
        text = None if data is None else codec.encode(data, models=True, limit=limit, where="data")
        if text is not None:
            text = self._hub.sealed(text, f"event {check_name('event', name)}", job_id)
        checksum = None if text is None else codec.checksum(text)
        return self._hub.signal(job_id, check_name("event", name), text, checksum)

    # -- looking

    def queue(self, name: str) -> Queue:
        """The queue of that name; it need not exist yet."""
        return Queue(name, self._hub)

    def queues(self) -> list[QueueStats]:
        """Every queue with its counts, by name."""
        return all_stats(self._hub)

    def workers(self) -> list[WorkerInfo]:
        """The workers that are alive, on what, and since when."""
        return all_workers(self.engine, self.clock.now())

    def pause_worker(self, worker_id: str) -> bool:
        """Have a worker start no more jobs; False if it is not known."""
        return wish(self.engine, worker_id, "pause")

    def resume_worker(self, worker_id: str) -> bool:
        """Have a paused worker start jobs again."""
        return wish(self.engine, worker_id, "run")

    def stop_worker(self, worker_id: str) -> bool:
        """Have a worker finish what it runs and end."""
        return wish(self.engine, worker_id, "stop")

    def task_rules(self) -> dict[str, TaskRules]:
        """The rules of every task that has any, by its name."""
        return rules_of_tasks(self.engine)

    def configure_task(self, name: str, /, **rules: Any) -> TaskRules:
        """Change rules of a task, for every worker from its next claim on; all the rules it has then.

        `rate` is how many of its jobs may start in a time ("10/s"), `burst` how many of them at once after a rest,
        `concurrency` how many may run at the same time, over all queues and workers. None lifts a rule.
        """
        return rule_task(self.engine, name, lambda before: changed(before, rules))

    def pause_task(self, name: str) -> None:
        """Let no worker start jobs of this task; those that run go on, and jobs of other tasks pass them."""
        rule_task(self.engine, name, lambda before: structs.replace(before, paused=True))

    def resume_task(self, name: str) -> None:
        """Let workers start jobs of this task again."""
        rule_task(self.engine, name, lambda before: structs.replace(before, paused=False))

    def spooled(self) -> int:
        """How many jobs wait in the spool for the server to return; 0 without a spool."""
        return 0 if self.spool is None else self.spool.count()

    asignal = twin(signal)
    aqueues = twin(queues)
    aworkers = twin(workers)
    aspooled = twin(spooled)
    atask_rules = twin(task_rules)
    aconfigure_task = twin(configure_task)
    apause_task = twin(pause_task)
    aresume_task = twin(resume_task)

    # -- working

    def worker(self, **settings: Any) -> Worker:
        """A worker of this process's threads, for `with app.worker(concurrency=4): ...`."""
        worker = self._make_worker(self._with(settings))
        self._workers = [known for known in self._workers if not known.stopped.is_set()] + [worker]
        return worker

    def run_worker(self, *, drain: bool = False, at_most: int | None = None, **settings: Any) -> int:
        """Run workers and block until SIGTERM or SIGINT; a second one hurries."""
        from headrace.runtime.supervisor import Supervisor, run_here  # deferred: see _make_worker

        chosen = self._with(settings)
        make = functools.partial(self._make_worker, chosen, drain=drain, at_most=at_most)
        supervised = chosen.processes > 1 or chosen.max_jobs is not None or chosen.max_memory is not None
        if drain or at_most is not None:
            with contextlib.suppress(EngineUnavailable):  # a worker that stays declares them beside its schedules
                self.lifecycle.sync()
            return run_here(make())
        if not supervised:
            return run_here(make())
        if self.spool is not None:
            self.spool.pause()  # the workers forward; here its thread would connect again
        self.engine.disconnect()  # no connection may cross the fork
        return Supervisor(make, chosen.processes, chosen.shutdown_timeout).run()

    def asgi(self, **options: Any) -> ASGI:
        """The REST API and the dashboard, to serve or to mount; options are the settings web_*, without `web_`."""
        return asgi_of(self, options)

    def _with(self, settings: dict[str, Any]) -> Settings:
        base = {name: getattr(self.settings, name) for name in Settings.__struct_fields__}
        given = {name: value for name, value in settings.items() if value is not None}
        return find_settings({**base, **given}).settings

    def _make_worker(self, settings: Settings, **how: Any) -> Worker:
        # Deferred: a program that only enqueues need not load the machinery that runs jobs.
        from headrace.runtime.worker import Worker

        if self.spool is not None:
            self.spool.watch()
        how |= {"declare": self._declare, "archive": lambda: self._hub.archive, "seal": self.seal}
        return Worker(self.engine, settings, self.find_task, self.tasks.keys, self.clock, **how)

    def _declare(self) -> None:
        """Store what the code says of its tasks. Terms first: a schedule that can't be stored is an error."""
        self.lifecycle.sync()
        self.schedules.sync()

    # -- for tests

    @contextlib.contextmanager
    def on_another_store(self, engine: Engine, clock: Clock) -> Iterator[None]:
        """Work on this store, by this clock, inside a `with`; tasks, handles and facades follow."""
        before, workers = (self.engine, self.clock, self.spool), self._workers
        self._workers = []
        self._attach(engine, clock)
        try:
            yield
        finally:
            self.close()
            self._workers = workers
            self._attach(*before)

    @contextlib.contextmanager
    def intercepting(self, hook: Callable[[Job[Any]], None]) -> Iterator[None]:
        """Inside a `with`, hand every job to `hook` as soon as it is stored, in the thread that enqueued it."""
        before, self._submitter.intercept = self._submitter.intercept, hook
        try:
            yield
        finally:
            self._submitter.intercept = before

    def _attach(self, engine: Engine, clock: Clock, spool: Spool | None = None) -> None:
        self.engine, self.clock, self.spool = engine, clock, spool
        self._hub.attach(engine, clock, spool)
        self._submitter.attach(engine, clock, spool)

    def start_afresh(self) -> None:
        """In a forked child: threads and locks of the parent are not ours, nor are its workers."""
        self._workers = []
        if self.spool is not None:
            self.spool.start_afresh()
        self._attach(self.engine, self.clock, self.spool)

    # -- closing

    def close(self) -> None:
        """Stop embedded workers and release the store; jobs that wait in the spool stay there."""
        for worker in self._workers:
            if not worker.stopped.is_set():
                worker.stop()
        self._workers.clear()
        self._hub.close()
        if self.spool is not None:
            self.spool.close()
        self.engine.close()
        if self._archive is not None:
            self._archive.close()

    def __enter__(self) -> Headrace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Headrace:
        return self

    async def __aexit__(self, *_: object) -> None:
        await in_thread(self.close)

    def __repr__(self) -> str:
        return f"<Headrace {self.engine.url}>"
