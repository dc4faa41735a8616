"""A task: a function, its name, its options, and the ways to call it now or later."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, ParamSpec, Protocol, TypeVar, Unpack, cast

from msgspec import UNSET, Struct, structs

from headrace.core.codec.redaction import MASK, redact
from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.records import Isolation, NewJob
from headrace.core.queues.limits import Limit
from headrace.core.tasks.batches import BatchLimits
from headrace.core.tasks.index import places_of
from headrace.core.tasks.job_template import JobTemplate
from headrace.core.tasks.options import Options, check_task_name, checked
from headrace.core.tasks.other_libraries import TASK_ATTRIBUTES, unknown_attribute
from headrace.core.tasks.retry import Retry, as_retry
from headrace.core.tasks.signature import Signature
from headrace.errors import ConfigError, InvalidJob
from headrace.runtime.jobs.flow_run import FlowRun
from headrace.runtime.jobs.hooks import Hooks
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.tracing import Tracer

if TYPE_CHECKING:
    from headrace.core.tasks.option_types import CallOptions

P = ParamSpec("P")
A = TypeVar("A")  # the argument of a job
C = TypeVar("C")  # what a call returns: the result, or for `async def` a coroutine of it
R = TypeVar("R")


class Enqueues(Protocol):
    """Calls that are stored together."""

    def enqueue(self) -> FlowRun: ...
    async def aenqueue(self) -> FlowRun: ...


class Mapped(Protocol):
    """Makes a call of a task for each item, of which at most so many run at once."""

    def __call__(self, task: Task[..., Any, Any], items: Iterable[Any], at_most: int | None, /) -> Enqueues: ...


class ChildDraft(NamedTuple):
    """A job that a running job spawns, before it is inserted."""

    job: Job[Any]
    new: NewJob
    edges: list[Dependency]


class ChildSubmits(Protocol):
    """Stores the jobs that a running job makes, as the context of that job needs it."""

    def inheritable(self, parent: str) -> dict[str, Any]: ...
    def draft(
        self,
        call: Call[Any],
        parent: str,
        now: int,
        job_id: str | None = None,
        after: Sequence[str] = (),
        limits: Sequence[Limit] = (),
    ) -> ChildDraft: ...
    def submit(self, draft: ChildDraft, parent: str) -> Job[Any]: ...
    def submit_compensation(
        self, call: Call[Any], parent: str, name: str, now: int, earlier: Sequence[str]
    ) -> Job[Any]: ...


class Submits(Protocol):
    """Where a task's calls go."""

    @property
    def tracer(self) -> Tracer | None: ...
    @property
    def hooks(self) -> Hooks: ...
    @property
    def words(self) -> frozenset[str]:
        """Names whose values no error may show."""
        ...

    @property
    def retry(self) -> Retry:
        """The retry policy of tasks that set none."""
        ...

    @property
    def encrypts(self) -> bool:
        """Whether arguments are encrypted."""
        ...

    @property
    def mapped(self) -> Mapped: ...

    def submit(self, call: Call[Any], /) -> Job[Any]: ...
    async def asubmit(self, call: Call[Any], /) -> Job[Any]: ...
    @property
    def children(self) -> ChildSubmits: ...


class Call(Struct, Generic[R], frozen=True):
    """A task with its arguments: everything about a job except its id and time."""

    task: Task[..., Any, R]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    is_detached: bool = False

    @property
    def options(self) -> Options:
        """The options of this call beyond those of its task's definition."""
        return self.task.overrides

    @property
    def keeps_result(self) -> bool:
        own = self.options.keep_result
        return (self.task.options.keep_result if own is UNSET else own) is not False

    def detached(self) -> Call[R]:
        """The call for a place in a chain where it gets no result: it waits for the part before and takes nothing."""
        return structs.replace(self, is_detached=True)

    def using(self, /, **options: Unpack[CallOptions]) -> Call[R]:
        """The same call with these options."""
        return structs.replace(self, task=self.task.using(**options))

    def with_defaults(self, options: Mapping[str, Any]) -> Call[R]:
        """The same call with those of these options that neither it nor its task has."""
        own = self.task.overrides.over(self.task.options)
        return self.using(**{name: value for name, value in options.items() if getattr(own, name) is UNSET})


class Task(Generic[P, C, R]):
    """A registered function. Calling it runs it here; `enqueue` has a worker run it."""

    def __init__(self, function: Callable[P, C], name: str, options: Options, submits: Submits) -> None:
        self.function = function
        self.name = check_task_name(name)
        self.options = options
        self.overrides = Options()
        self.template: JobTemplate | None = None  # made by the first call
        self.batch = BatchLimits.of(options)
        is_batch = self.batch is not None
        self.signature = Signature.of(function, name, options.redact or (), submits.words, is_batch=is_batch)
        self.indexed = places_of(options.index or (), self.signature.positional)
        self.is_async = inspect.iscoroutinefunction(function)
        self._submits = submits
        _check_isolation(self)
        if options.index:
            _check_index(self, options.index)
        functools.update_wrapper(self, function)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> C:
        return self.function(*args, **kwargs)

    def bind(self, /, *args: Any, **kwargs: Any) -> Call[R]:
        """The call as a value, for enqueue_many, flows, chains and groups."""
        return Call(cast("Task[..., Any, R]", self), args, kwargs)

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Store a job that runs this task with these arguments."""
        return self._submits.submit(self.bind(*args, **kwargs))

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Like enqueue(), without blocking the event loop."""
        return await self._submits.asubmit(self.bind(*args, **kwargs))

    def map(self, /, items: Iterable[Any], *, at_most: int | None = None) -> FlowRun:
        """Store a job for each item, in one commit; the result of the run is the list of results, in their order.

        With `at_most`, only so many of them run at once, over all workers.
        """
        return self._submits.mapped(self, items, at_most).enqueue()

    async def amap(self, /, items: Iterable[Any], *, at_most: int | None = None) -> FlowRun:
        """Like map(), without blocking the event loop."""
        return await self._submits.mapped(self, items, at_most).aenqueue()

    delay = enqueue
    """The name Celery uses for it."""

    def using(self, /, **options: Unpack[CallOptions]) -> Task[P, C, R]:
        """A cheap copy of this task with other options for the calls made through it."""
        return with_overrides(self, checked(options).over(self.overrides))

    @property
    def submits(self) -> Submits:
        """Where its calls go."""
        return self._submits

    @property
    def isolation(self) -> Isolation:
        chosen = self.options.isolation
        return chosen if chosen is not UNSET else ("async" if self.is_async else "thread")

    @property
    def retry(self) -> Retry:
        return retry_of(self, self.options)

    if not TYPE_CHECKING:  # for a type checker, it would allow every name
        __getattr__ = unknown_attribute("a task", TASK_ATTRIBUTES)

    def __repr__(self) -> str:
        return f"<Task {self.name}>"


class BatchTask(Task[[A], C, R], Generic[A, C, R]):
    """A task whose function takes the arguments of several jobs. As any other, it is enqueued job by job."""

    def __call__(self, items: Iterable[A], /, **injected: Any) -> C:  # type: ignore[override]  # not as it is enqueued
        return cast("Callable[..., C]", self.function)(items, **injected)


def with_overrides(task: Task[P, C, R], overrides: Options) -> Task[P, C, R]:
    """A copy of the task with these options for its calls, in place of those that it has."""
    copy = object.__new__(type(task))
    copy.__dict__.update(task.__dict__)
    copy.overrides, copy.template = overrides, None
    return copy


def retry_of(task: Task[..., Any, Any], options: Options) -> Retry:
    """The retry policy of a call of the task with these options alone."""
    usual = task.submits.retry
    return usual if options.retry is UNSET else as_retry(options.retry, usual)


def _check_isolation(task: Task[..., Any, Any]) -> None:
    chosen = task.options.isolation
    if chosen == "async" and not task.is_async:
        raise ConfigError(f"task {task.name!r}: isolation='async' needs an `async def` function")
    if chosen == "thread" and task.is_async:
        raise ConfigError(f"task {task.name!r} is an `async def`; its isolation is 'async' or 'process'")


def _check_index(task: Task[..., Any, Any], names: tuple[str, ...]) -> None:
    known = {parameter.name for parameter in task.signature.parameters if not parameter.gathers}
    if task.submits.encrypts:
        raise ConfigError(
            f"task {task.name!r}: index={names!r} would store arguments that encryption_keys hides; leave index out",
            field="index",
        )
    for name in names:
        if name not in known:
            raise ConfigError(
                f"task {task.name!r}: index: {name!r} is not one of its parameters ({', '.join(sorted(known))})",
                field="index",
            )
        if MASK in redact({name: ""}, frozenset(task.options.redact or ()), task.submits.words).values():
            raise ConfigError(
                f"task {task.name!r}: index: {name!r} is secret, and an index would store it readable; "
                "leave it out, or rename the parameter if only its name looks secret",
                field="index",
            )


def default_name(function: Callable[..., Any]) -> str:
    """The default name of a task: the function's own."""
    name = getattr(function, "__name__", "")
    if not name or name == "<lambda>":
        raise InvalidJob(f"{function!r} has no name of its own; give the task one with name=...")
    return name
