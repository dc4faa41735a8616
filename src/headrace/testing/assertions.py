"""Assertions about enqueued jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from headrace import Headrace, Job, Task
from headrace.core.text import counted, short
from headrace.errors import CorruptPayload

AnyTask = Task[..., Any, Any] | Callable[..., Any] | str

_SHOWN = 20
_PAGE = 1000
_READ: dict[str, Callable[[Job[Any]], Any]] = {
    "queue": lambda job: job.queue,
    "state": lambda job: job.state,
    "priority": lambda job: job.priority,
    "job_id": lambda job: job.id,
    "run_at": lambda job: job.run_at,
    "delay": lambda job: (job.run_at - job.created_at).total_seconds(),
    "tags": lambda job: set(job.tags),
    "metadata": lambda job: job.metadata,
    "max_attempts": lambda job: job.max_attempts,
}
_AS_READ: dict[str, Callable[[Any], Any]] = {
    "tags": set,
    "delay": lambda delay: getattr(delay, "total_seconds", lambda: delay)(),
}


def enqueued(
    app: Headrace,
    task: AnyTask | None = None,
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    **options: Any,
) -> list[Job[Any]]:
    """The jobs that enqueue() stored, oldest first, in any state.

    `task` is a task or its name. `args` and `kwargs`, if given, are the whole call, no matter which arguments were
    passed by position and which by name. `options` are queue, state, priority, delay, run_at, job_id, tags, metadata
    and max_attempts.
    """
    for name in options:
        if name not in _READ:
            raise TypeError(f"unknown option {name!r}; options are {', '.join(_READ)}")
    wanted = {name: _AS_READ.get(name, _as_is)(value) for name, value in options.items() if value is not None}
    jobs = [job for job in _all(app, task) if all(_READ[name](job) == value for name, value in wanted.items())]
    if args is None and kwargs is None:
        return jobs
    call = (tuple(args or ()), dict(kwargs or {}))
    return [job for job in jobs if _is_call(app, job, call)]


def assert_enqueued(
    app: Headrace,
    task: AnyTask,
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    queue: str | None = None,
    count: int | None = None,
    **options: Any,
) -> None:
    """At least one such job was enqueued, or exactly `count` of them. The arguments are those of enqueued()."""
    __tracebackhide__ = True
    found = len(enqueued(app, task, args=args, kwargs=kwargs, queue=queue, **options))
    if found == count or (count is None and found):
        return
    expected = "at least 1 job" if count is None else counted(count, "job")
    such = _such(_name(app, task), args, kwargs, {"queue": queue, **options})
    raise AssertionError(f"expected {expected} {such}, found {found}\n{_instead(app)}")


def assert_not_enqueued(
    app: Headrace,
    task: AnyTask,
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    queue: str | None = None,
    **options: Any,
) -> None:
    """No such job was enqueued."""
    __tracebackhide__ = True
    found = enqueued(app, task, args=args, kwargs=kwargs, queue=queue, **options)
    if found:
        such = _such(_name(app, task), args, kwargs, {"queue": queue, **options})
        raise AssertionError(f"expected no job {such}, found {len(found)}\n{_instead(app)}")


def _as_is(value: Any) -> Any:
    return value


def _name(app: Headrace, task: AnyTask) -> str:
    if isinstance(task, str):
        return task
    if isinstance(task, Task):
        return task.name
    known = next((known for known in app.tasks.values() if known.function is task), None)
    return known.name if known else f"{task.__module__}.{task.__qualname__}"


def _all(app: Headrace, task: AnyTask | None) -> Iterator[Job[Any]]:
    name = None if task is None else _name(app, task)
    pages, cursor = [], None
    while True:
        page = app.jobs.find(task=name, limit=_PAGE, cursor=cursor, whole=True)
        pages.append(page.jobs)
        cursor = page.cursor
        if cursor is None:
            break
    for jobs in reversed(pages):
        yield from reversed(jobs)


def _is_call(app: Headrace, job: Job[Any], call: tuple[tuple[Any, ...], dict[str, Any]]) -> bool:
    """Compare by parameter names, with dataclasses and models as a worker rebuilds them."""
    signature = app.task_by_name(job.task).signature
    return bool(signature.names(*signature.rebuild(job.args, job.kwargs)) == signature.names(*call))


# -- assertion messages


def _such(name: str, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None, options: Mapping[str, Any]) -> str:
    parts = [f"of task {name!r}"]
    if args is not None or kwargs is not None:
        parts.append(f", called as {name}({_written(args or (), kwargs or {})}),")
    details = [f"{option}={short(value)}" for option, value in options.items() if value is not None]
    if details:
        parts.append(f" with {', '.join(details)}")
    return "".join(parts).removesuffix(",")


def _written(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    return ", ".join([*map(short, args), *(f"{name}={short(value)}" for name, value in kwargs.items())])


def _instead(app: Headrace) -> str:
    lines = [_line(job) for job in _all(app, None)]
    if not lines:
        return "nothing is enqueued"
    more = [f"  … and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return "\n".join(["enqueued are:", *lines[:_SHOWN], *more])


def _line(job: Job[Any]) -> str:
    try:
        call = _written(*job.redacted_call(most=None))
    except CorruptPayload as error:
        call = f"<{error}>"
    line = f"  {job.task}({call}) in queue {job.queue!r}, {job.state}"
    return line + (f", priority {job.priority}" if job.priority else "")
