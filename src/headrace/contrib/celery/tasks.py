"""A task as Celery knows it: `delay`, `apply_async`, `self.request`, `self.retry`, hooks and signals."""

from __future__ import annotations

import contextlib
import functools
import inspect
import signal
import threading
import traceback
import uuid
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct, field

from headrace import Task as HeadraceTask
from headrace.contrib.celery import signals
from headrace.contrib.celery.canvas import CelerySignature
from headrace.contrib.celery.current import Proxy, current_app
from headrace.contrib.celery.exceptions import (
    CeleryError,
    CeleryRetry,
    Ignore,
    MaxRetriesExceededError,
    SoftTimeLimitExceeded,
    refuse,
)
from headrace.contrib.celery.options import refuse_foreign, seconds_of, task_options
from headrace.contrib.celery.results import FAILURE, REVOKED, STATE_KEY, SUCCESS, AsyncResult, EagerResult
from headrace.errors import CancelJob, Snooze
from headrace.runtime.context.current_job import current_job


class Context(Struct):
    """`self.request`: the running call."""

    id: str | None = None
    task: str | None = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    retries: int = 0
    delivery_info: dict[str, Any] = field(default_factory=dict)
    hostname: str | None = None
    correlation_id: str | None = None
    headers: dict[str, Any] = field(default_factory=dict)
    timelimit: tuple[float | None, float | None] = (None, None)
    is_eager: bool = False
    called_directly: bool = True

    @property
    def queue(self) -> str | None:
        found: str | None = self.delivery_info.get("routing_key")
        return found


_request: ContextVar[Context] = ContextVar("headrace_celery_request")
_Answer = tuple[str, Any]


def _current_task() -> Any:
    request = _request.get(Context())
    if request.task is None:
        raise CeleryError("current_task: no task runs here")
    return current_app.tasks[request.task]


current_task = Proxy(_current_task)


class CeleryTask:
    """A task of a Celery-like app. Subclass it for hooks, and name the class with `@app.task(base=...)`."""

    name: str = ""
    max_retries: int | None = 3
    default_retry_delay: float = 180
    autoretry_for: tuple[type[BaseException], ...] = ()
    dont_autoretry_for: tuple[type[BaseException], ...] = ()
    retry_kwargs: dict[str, Any] | None = None
    retry_backoff: bool | float = False
    retry_backoff_max: float = 600
    retry_jitter: bool = True
    rate_limit: str | float | None = None
    time_limit: float | None = None
    soft_time_limit: float | None = None
    ignore_result: bool | None = None
    queue: str | None = None
    priority: int | None = None
    expires: float | None = None
    app: Any = None
    headrace_task: HeadraceTask[..., Any, Any]

    # -- made by the app

    def bind_to(
        self, app: Any, function: Callable[..., Any], name: str, given: dict[str, Any], *, bind: bool
    ) -> CeleryTask:
        """Make this the task of a function, with Celery's options; `bind` passes the task as `self`."""
        refuse_foreign(given)
        for option, value in given.items():
            setattr(self, option, value)
        self.name = name
        self.app = app
        self.run = functools.partial(function, self) if bind else function  # type: ignore[method-assign]
        functools.update_wrapper(self, function)
        options = task_options(self._option)
        self.headrace_task = app.register(self._runner(function, bind), name, options)
        return self

    def _option(self, option: str) -> Any:
        value = getattr(self, option, None)
        return self.app.conf.default_of(option) if value is None else value

    def _runner(self, function: Callable[..., Any], bind: bool) -> Callable[..., Any]:
        """The function that the worker calls: without `self`, with the request, the hooks and the signals."""
        if inspect.iscoroutinefunction(function):
            raise refuse(f"{self.name} is an `async def`", "define it with @app.headrace.task, which runs coroutines")

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            signals.begin_process(self.app)
            return self._execute(self._context(args, kwargs), args, kwargs)

        parameters = list(inspect.signature(function).parameters.values())
        own = inspect.signature(function).replace(parameters=parameters[1:] if bind else parameters)
        setattr(run, "__signature__", own)  # noqa: B010 - a type checker knows no such attribute of a function
        return run

    def _context(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Context:
        job = current_job()
        return Context(
            id=job.id,
            task=self.name,
            args=args,
            kwargs=kwargs,
            retries=job.attempt - 1,
            delivery_info={"routing_key": job.queue, "exchange": "", "redelivered": job.attempt > 1},
            hostname=job.worker,
            correlation_id=job.correlation_id,
            headers=dict(job.metadata),
            timelimit=(self.time_limit, self.soft_time_limit),
            called_directly=False,
        )

    # -- running

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it here and now, as a plain function."""
        return self.run(*args, **kwargs)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """The body of the task; a class-based task defines it."""
        raise CeleryError(f"task {self.name!r} has no run()")

    @property
    def request(self) -> Context:
        """The call that runs now; an empty one outside of a job."""
        return _request.get(Context())

    def _execute(self, request: Context, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        token = _request.set(request)
        about = {"task_id": request.id, "task": self, "args": args, "kwargs": kwargs}
        state, value = FAILURE, None
        try:
            signals.task_prerun.send(self, **about)
            self.before_start(request.id, args, kwargs)
            try:
                with _soft_limit(self.soft_time_limit):
                    value = self.run(*args, **kwargs)
            except BaseException as error:
                state, value = self._failed(error, request)
                raise
            state = SUCCESS
            self.on_success(value, request.id, args, kwargs)
            signals.task_success.send(self, result=value)
            return value
        finally:
            self.after_return(state, value, request.id, args, kwargs, None)
            signals.task_postrun.send(self, **about, retval=value, state=state)
            _request.reset(token)

    def _failed(self, error: BaseException, request: Context) -> _Answer:
        text = "".join(traceback.format_exception(error))
        if isinstance(error, CancelJob | Snooze):
            return REVOKED if isinstance(error, CancelJob) else "RETRY", error
        if self._will_retry(error, request.retries):
            self.on_retry(error, request.id, request.args, request.kwargs, text)
            signals.task_retry.send(self, request=request, reason=error, einfo=text)
            return "RETRY", error
        self.on_failure(error, request.id, request.args, request.kwargs, text)
        about = {"args": request.args, "kwargs": request.kwargs, "traceback": error.__traceback__, "einfo": text}
        signals.task_failure.send(self, task_id=request.id, exception=error, **about)
        return FAILURE, error

    def _will_retry(self, error: BaseException, retries: int) -> bool:
        retry = self.headrace_task.retry
        return retries < retry.limit and retry.covers(error)

    # -- inside the task

    def retry(
        self,
        args: Any = None,
        kwargs: Any = None,
        exc: BaseException | None = None,
        throw: bool = True,
        eta: datetime | None = None,
        countdown: float | timedelta | None = None,
        max_retries: int | None = None,
        **_: Any,
    ) -> CeleryRetry:
        """End this attempt and run the task again, after `countdown` seconds, at `eta`, or as the task says."""
        request = self.request
        if request.called_directly:
            raise exc or CeleryError(f"retry() of {self.name!r} was called outside of a job")
        if args is not None or kwargs is not None:
            raise refuse(
                "retry(args=..., kwargs=...)", "a job keeps its arguments; enqueue another one with apply_async"
            )
        limit = self.headrace_task.retry.limit
        if max_retries is not None and max_retries > limit:
            raise CeleryError(
                f"retry(max_retries={max_retries}): the task has {limit}; give it @app.task(max_retries=)"
            )
        if request.retries >= (limit if max_retries is None else max_retries):
            raise exc or MaxRetriesExceededError(f"can't retry {self.name}[{request.id}] more often")
        when = seconds_of(countdown)
        if eta is not None:
            due = eta if eta.tzinfo else eta.replace(tzinfo=UTC)
            when = max((due - self.app.now()).total_seconds(), 0.0)
        error = CeleryRetry("retry later", exc, self._delay(request.retries, exc) if when is None else when)
        if throw:
            raise error from exc
        return error

    def _delay(self, retries: int, exc: BaseException | None) -> float:
        given = (self.retry_kwargs or {}).get("countdown")
        found = self.default_retry_delay if given is None else given
        return float(seconds_of(found) or 0)

    def update_state(self, task_id: str | None = None, state: str = "PROGRESS", meta: Any = None, **_: Any) -> None:
        """Report the state and the progress of the running job; `AsyncResult.state` and `.info` show them."""
        if task_id is not None and task_id != self.request.id:
            raise refuse("update_state(task_id=...)", "a task reports its own progress only")
        if not self.request.is_eager:
            current_job().progress({**(meta or {}), STATE_KEY: state})

    def replace(self, sig: Any) -> None:
        raise refuse("self.replace()", "use headrace.current_job().spawn(call), which this job then waits for")

    add_to_chord = replace

    # -- hooks of a subclass

    def before_start(self, task_id: Any, args: Any, kwargs: Any) -> None:
        """Called before the task runs."""

    def on_success(self, retval: Any, task_id: Any, args: Any, kwargs: Any) -> None:
        """Called after the task returned."""

    def on_retry(self, exc: Any, task_id: Any, args: Any, kwargs: Any, einfo: Any) -> None:
        """Called if an attempt failed and another one follows."""

    def on_failure(self, exc: Any, task_id: Any, args: Any, kwargs: Any, einfo: Any) -> None:
        """Called if the task failed for good."""

    def after_return(self, status: Any, retval: Any, task_id: Any, args: Any, kwargs: Any, einfo: Any) -> None:
        """Called at the end of every attempt."""

    # -- calling it

    def s(self, *args: Any, **kwargs: Any) -> CelerySignature:
        return self.signature(args, kwargs)

    def si(self, *args: Any, **kwargs: Any) -> CelerySignature:
        """A signature that takes no result of the task before it."""
        return self.signature(args, kwargs, immutable=True)

    def signature(self, args: Any = (), kwargs: Any = None, immutable: bool = False, **options: Any) -> CelerySignature:
        self._ensure_bound()
        return CelerySignature(self.name, args, kwargs, {**options.pop("options", {}), **options}, self.app, immutable)

    subtask = signature

    def delay(self, *args: Any, **kwargs: Any) -> Any:
        return self.apply_async(args, kwargs)

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Enqueue a call; returns its AsyncResult."""
        return self.signature(args or (), kwargs).apply_async(**options)

    def apply(self, args: Any = None, kwargs: Any = None, throw: bool = False, **options: Any) -> EagerResult:
        """Run it here with its retries, without waiting between them; returns its result."""
        self._ensure_bound()
        args, kwargs = tuple(args or ()), dict(kwargs or {})
        task_id = options.get("task_id") or str(uuid.uuid4())
        retries = 0
        while True:
            request = Context(task_id, self.name, args, kwargs, retries, is_eager=True, called_directly=False)
            try:
                return EagerResult(task_id, self._execute(request, args, kwargs), SUCCESS, name=self.name)
            except (Exception, Ignore) as error:
                if self._will_retry(error, retries):
                    retries += 1
                    continue
                if throw:
                    raise
                state = REVOKED if isinstance(error, CancelJob) else FAILURE
                last = error.exc if isinstance(error, CeleryRetry) and error.exc is not None else error
                return EagerResult(task_id, last, state, "".join(traceback.format_exception(error)), self.name)

    def AsyncResult(self, task_id: str, **_: Any) -> AsyncResult:  # noqa: N802 - the name that Celery gave it
        self._ensure_bound()
        found: AsyncResult = self.app.AsyncResult(task_id)
        return found

    def chunks(self, *_: Any, **__: Any) -> None:
        raise refuse("chunks(), map() and starmap()", "use a group(...), or app.headrace.enqueue_many([...])")

    map = starmap = chunks

    def _ensure_bound(self) -> None:
        if self.app is None:
            raise CeleryError(f"task {self.name!r} has no app yet: create app = Celery(...) before it is used")

    def __repr__(self) -> str:
        return f"<@task: {self.name}>"


@contextlib.contextmanager
def _soft_limit(seconds: float | None) -> Iterator[None]:
    """Raise SoftTimeLimitExceeded in the main thread after this time; a task with a limit runs there, in a process."""
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def expire(*_: object) -> None:
        raise SoftTimeLimitExceeded(f"the task has run for {seconds:g} s")

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
