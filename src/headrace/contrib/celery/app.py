"""`Celery`: an app with Celery's API over a Headrace app, so that a module of tasks runs after changing its import."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from headrace import Call, Headrace, ParentFailure, State
from headrace import Task as HeadraceTask
from headrace.contrib.celery import signals
from headrace.contrib.celery.canvas import CelerySignature
from headrace.contrib.celery.conf import Conf
from headrace.contrib.celery.current import current_app, has_current, set_current, when_current
from headrace.contrib.celery.exceptions import CeleryError, refuse
from headrace.contrib.celery.flows import FlowBuilder, chain_result
from headrace.contrib.celery.options import call_options
from headrace.contrib.celery.results import ERRBACK, GroupResult
from headrace.contrib.celery.results import AsyncResult as Result
from headrace.contrib.celery.schedules import BeatEntry, declare, entry, timing
from headrace.contrib.celery.tasks import CeleryTask, Context
from headrace.core.jobs import ids
from headrace.core.text import short

_BROKERS = ("amqp", "pyamqp", "sqs", "kafka", "gcpubsub", "confluentkafka")


class Celery:
    """An app with Celery's API. `broker` is the URL of a store; `headrace` is the Headrace app behind it."""

    Task = CeleryTask
    GroupResult = GroupResult

    def __init__(
        self, main: str | None = None, broker: str | None = None, backend: Any = None, include: Any = (), **given: Any
    ) -> None:
        self._set_up(main, _open(broker or given.pop("broker_url", None)), backend)
        self.conf.update({"include": tuple(include), **_settings(given)})

    @classmethod
    def from_headrace(cls, app: Headrace, main: str | None = None) -> Celery:
        """The same over an existing app of headrace."""
        celery = cls.__new__(cls)
        celery._set_up(main, app, None)
        return celery

    def _set_up(self, main: str | None, app: Headrace, backend: Any) -> None:
        self.main = main
        self._app = app
        self.conf = Conf()
        self.tasks: dict[str, CeleryTask] = {}
        self.control = Control(self)
        self.on_after_configure = signals.Signal("on_after_configure")
        self.on_after_finalize = signals.Signal("on_after_finalize")
        self._discover: list[Callable[[], object]] = []
        self._declared: dict[str, BeatEntry] = {}
        self._periodic: dict[str, dict[str, Any]] = {}
        self._errback = app.task(name=ERRBACK, keep_result=False)(self._call_errback)
        app.on_worker_start(self._send_start)
        app.on_worker_stop(lambda: signals.worker_shutdown.send(self))
        set_current(self)

    @property
    def headrace(self) -> Headrace:
        """The app of headrace behind it, with all tasks imported and all schedules declared."""
        self.finalize()
        return self._app

    def _send_start(self) -> None:
        signals.begin_process(self)
        signals.worker_ready.send(self)

    def finalize(self, *_: Any, **__: Any) -> None:
        """Import the modules of tasks, and declare the schedules. Running it twice does no harm."""
        discover, self._discover = self._discover, []
        for module in (*self.conf.imports, *self.conf.include):
            importlib.import_module(module)
        for find in discover:
            find()
        for signal in (self.on_after_configure, self.on_after_finalize):
            receivers, signal.receivers = signal.receivers, []
            for _, _, receiver in receivers:
                receiver(sender=self, source=self)
        for name, given in {**self._periodic, **self.conf.beat_schedule}.items():
            self._declare(entry(name, given))

    def _declare(self, beat_entry: BeatEntry) -> None:
        if self._declared.get(beat_entry.name) != beat_entry:
            options = self._options(beat_entry.task, beat_entry.args, beat_entry.kwargs, beat_entry.options)
            declare(self._app, beat_entry, options, str(self.conf.timezone or "UTC"))
            self._declared[beat_entry.name] = beat_entry

    # -- tasks

    def task(self, *args: Any, **options: Any) -> Any:
        """Register a function as a task: bare, or with Celery's options."""
        if not args:
            return functools.partial(self._make, options=options)
        return self._make(args[0], options)

    def _make(self, function: Any, options: dict[str, Any]) -> CeleryTask:
        if isinstance(function, CeleryTask):
            return function
        return self.adopt(options.get("base", self.Task)(), function, options)

    def adopt(self, task: CeleryTask, function: Callable[..., Any], options: dict[str, Any]) -> CeleryTask:
        """Make a task of this app from a function."""
        given = {name: value for name, value in options.items() if name not in ("bind", "base", "name")}
        name = options.get("name") or task.name or self.gen_task_name(function.__name__, function.__module__)
        made = task.bind_to(self, function, name, given, bind=bool(options.get("bind")))
        self.tasks[name] = made
        return made

    def register_task(self, task: Any, **options: Any) -> CeleryTask:
        """Register an instance of a class-based task."""
        found: CeleryTask = task() if isinstance(task, type) else task
        if not found.name:
            found.name = self.gen_task_name(type(found).__name__, type(found).__module__)
        return self.adopt(found, found.run, options)

    def gen_task_name(self, name: str, module: str) -> str:
        """The default name of a task: its module's and its own, as in Celery."""
        return f"{self.main or module if module == '__main__' else module}.{name}"

    def register(self, function: Callable[..., Any], name: str, options: dict[str, Any]) -> HeadraceTask[..., Any, Any]:
        """The task of headrace for a task of this app."""
        task: HeadraceTask[..., Any, Any] = self._app.task(name=name, **options)(function)
        return task

    def local_task(self, name: str) -> CeleryTask:
        """A task whose code is known here."""
        if name not in self.tasks:
            self.finalize()
        if name not in self.tasks:
            raise CeleryError(f"task {name!r} is not known here; import its module")
        return self.tasks[name]

    def autodiscover_tasks(self, packages: Any = None, related_name: str | None = "tasks", force: bool = False) -> None:
        """Import the module `tasks` of these packages, of Django's apps without any, when a worker starts."""
        self._discover.append(lambda: _discover(packages, related_name))
        if force:
            self.finalize()

    def config_from_object(self, obj: Any, silent: bool = False, force: bool = False, namespace: Any = None) -> None:
        """Read the settings of a module, an object or its dotted name."""
        self.conf.read(obj, namespace)

    def add_periodic_task(
        self, schedule: Any, sig: Any, args: Any = (), kwargs: Any = (), name: Any = None, **o: Any
    ) -> str:
        """Declare a schedule for a signature; workers fire it."""
        if not isinstance(sig, CelerySignature):
            sig = sig.signature()
        found = str(name or f"{sig.task}-{'-'.join(map(str, timing(schedule).values()))}")
        given = {
            "task": sig.task,
            "schedule": schedule,
            "args": (*sig.args, *args),
            "kwargs": {**sig.kwargs, **dict(kwargs)},
        }
        self._periodic[found] = given | {"options": {**sig.options, **o}}
        return found

    # -- calls

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._app.clock.now() / 1000, UTC)

    def send_task(self, name: str, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Enqueue a call by the name of its task; its code need not be known here."""
        return CelerySignature(name, args or (), kwargs, options, self).apply_async()

    def signature(
        self, task: Any, args: Any = (), kwargs: Any = None, immutable: bool = False, **options: Any
    ) -> CelerySignature:
        options = options.pop("options", {}) | options
        return CelerySignature(getattr(task, "name", task), args, kwargs, options, self, immutable)

    def AsyncResult(self, task_id: str, *_: Any, **__: Any) -> Result:  # noqa: N802 - the name that Celery gave it
        return Result(task_id, self._app)

    def _options(self, name: str, args: Any, kwargs: Any, given: dict[str, Any]) -> dict[str, Any]:
        task = self.tasks.get(name)
        routed = {} if "queue" in given or (task and task.queue) else self.conf.queue_of(name, args, kwargs, given)
        default = {"queue": self.conf.task_default_queue} if task is None and self.conf.task_default_queue else {}
        return call_options({**default, **routed, **given}, self.now())

    def call(self, part: CelerySignature, more: dict[str, Any]) -> Call[Any]:
        """The call of headrace for a signature."""
        options = self._options(part.task, part.args, part.kwargs, part.options)
        task = self._app.task_by_name(part.task).using(**options, **more)
        call: Call[Any] = task.bind(*part.args, **part.kwargs)
        return call

    def enqueue(self, part: CelerySignature) -> Result:
        """Enqueue one signature."""
        call = self.call(part, {})
        return Result(call.task.submits.submit(call).id, self._app)

    def enqueue_flow(self, part: Any, name: str) -> Any:
        """Enqueue a canvas, or a signature with links, in one commit."""
        flow = self._app.flow(name)
        builder = FlowBuilder(flow, self.call, self._relay)
        ends = part.add_to(builder, None, False, [])
        if builder.is_empty:
            return GroupResult(ids.new_id(self._app.clock.now()), [])
        run = flow.enqueue()
        return chain_result(ends, builder.chained, self._app, run.id)

    # -- errbacks

    def _relay(self, node: Any, errback: Any) -> Call[Any]:
        if not isinstance(errback, CelerySignature):
            raise CeleryError(f"link_error: expected a signature such as task.s(), got {short(errback)}")
        given = [errback.task, list(errback.args), errback.kwargs, errback.immutable]
        return self._errback.bind(node, *given)

    def _call_errback(self, parent: Any, task: str, args: list[Any], kwargs: dict[str, Any], immutable: bool) -> None:
        """Call an errback if its parent failed: with the request, the error and the traceback, or with the id."""
        if not isinstance(parent, ParentFailure) or parent.state is not State.FAILED:
            return
        job = self._app.jobs.get(parent.job_id)
        request = Context(job.id, job.task, job.args, job.kwargs, max(job.attempt - 1, 0), {"routing_key": job.queue})
        errback = CelerySignature(task, args, kwargs, None, self, immutable)
        self.call_errback(errback, self.AsyncResult(parent.job_id), request)

    def call_errback(self, errback: CelerySignature, failed: Any, request: Context | None = None) -> None:
        """Call it with the request, the error and the traceback; enqueue it if it takes only the id, or nothing."""
        known = self.tasks.get(errback.task)
        if errback.immutable or known is None or not _takes(known, 3):
            errback.clone(() if errback.immutable else (failed.id,)).apply_async()
            return
        request = request or Context(failed.id, failed.name, is_eager=True)
        known(request, failed.result, failed.traceback, *errback.args, **errback.kwargs)

    # -- workers

    def worker_main(self, argv: Any = None) -> int:
        """Run a worker in this process until it is stopped."""
        return self.headrace.run_worker()

    def start(self, argv: Any = None) -> None:
        raise refuse("app.start()", "run `headrace worker --app module:app`")

    def close(self) -> None:
        self._app.close()

    def __enter__(self) -> Celery:
        self._app.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Celery {self.main} on {self._app!r}>"


class Control:
    """`app.control`: what of it carries over."""

    def __init__(self, app: Celery) -> None:
        self._celery = app

    def revoke(self, task_id: Any, terminate: bool = False, **_: Any) -> None:
        """Cancel jobs by their ids."""
        for one in [task_id] if isinstance(task_id, str) else task_id:
            self._celery.AsyncResult(str(one)).revoke(terminate)

    def rate_limit(self, task_name: str, rate_limit: Any, **_: Any) -> None:
        """Set the rate of a task, for all workers."""
        from headrace.contrib.celery.options import rate

        self._celery._app.configure_task(task_name, rate=None if rate_limit in (0, "0", None) else rate(rate_limit))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        instead = _CONTROL.get(name, "use app.headrace or the command `headrace`")
        raise AttributeError(f"Celery's control.{name} does not carry over: {instead}")


_CONTROL = {
    "inspect": "use app.headrace.workers() and app.headrace.jobs.find(state='running'), or `headrace jobs`",
    "purge": "use app.headrace.queue(name).clear()",
    "shutdown": "use app.headrace.stop_worker(id)",
    "ping": "use app.headrace.workers()",
    "broadcast": "use app.headrace.stop_worker(id), pause_worker(id) or set_worker_log_level(id, level)",
    "add_consumer": "a worker serves the queues it was started with; without any, all",
    "cancel_consumer": "use app.headrace.queue(name).pause()",
    "pool_grow": "set the concurrency of the worker",
    "time_limit": "set it for the task, with @app.task(time_limit=...)",
}


def shared_task(*args: Any, **options: Any) -> Any:
    """A task of the current app; of the next one if there is none yet."""
    return _shared(args[0], options) if args else functools.partial(_shared, options=options)


def _shared(function: Callable[..., Any], options: dict[str, Any]) -> CeleryTask:
    if has_current():
        made: CeleryTask = current_app().task(function, **options)
        return made
    task: CeleryTask = options.get("base", CeleryTask)()
    task.name = options.get("name") or f"{function.__module__}.{function.__name__}"
    functools.update_wrapper(task, function)
    when_current(lambda app: app.adopt(task, function, options))
    return task


def _open(url: Any) -> Headrace:
    scheme = url.partition(":")[0].partition("+")[0].lower() if isinstance(url, str) else ""
    if scheme in _BROKERS:
        raise CeleryError(
            f"broker: {scheme}:// is a message broker; give the URL of a store, such as postgresql://…, redis://… or "
            "sqlite:///jobs.db"
        )
    return Headrace(url)


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    known = ("set_as_current", "amqp", "events", "loader", "log", "control", "fixups", "changes", "strict_typing")
    return {name: value for name, value in given.items() if name not in known and name != "config_source"}


def _takes(task: CeleryTask, count: int) -> bool:
    return len(task.headrace_task.signature.positional) >= count


def _discover(packages: Any, related_name: str | None) -> None:
    for package in _packages(packages):
        module = f"{package}.{related_name}" if related_name else package
        found = importlib.import_module(package)
        if related_name is None or (hasattr(found, "__path__") and importlib.util.find_spec(module) is not None):
            importlib.import_module(module)


def _packages(given: Any) -> Iterable[str]:
    found = given() if callable(given) else given
    if found is not None:
        return [found] if isinstance(found, str) else list(found)
    try:
        from django.apps import apps  # only a Django project leaves the packages out
    except ImportError:
        raise CeleryError("autodiscover_tasks(): name the packages, such as ['shop.orders']") from None
    return [config.name for config in apps.get_app_configs()]
