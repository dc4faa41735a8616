"""The body of a new job."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType, field, structs

from headrace.app.app import Headrace
from headrace.app.parts import declared_task
from headrace.core.jobs.states import State
from headrace.core.tasks.option_fields import JobOptionFields, Key, Span, TaskName
from headrace.core.tasks.retry import BackoffKind, Retry
from headrace.core.tasks.unique import OnConflict, Unique
from headrace.runtime.jobs.task import Call
from headrace.web.api.schemas import decoded, given_fields
from headrace.web.api.values import RetryLimit

_NOT_OPTIONS = ("task", "args", "kwargs")


class NewRetry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A retry policy; times in seconds, errors by their dotted names."""

    limit: RetryLimit = 3
    backoff: BackoffKind | list[float] = "exponential"
    base: float = 1.0
    factor: float = 2.0
    cap: float = 3600.0
    floor: float = 0.1
    jitter: float = 0.1
    on: list[str] = []
    never: list[str] = []
    on_timeout: bool = True


class NewUnique(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A uniqueness rule: at most one open job per key."""

    by: tuple[str, ...] = ("args",)
    key: Key | None = None
    states: list[State] | None = None
    window: Span | None = None
    on_conflict: OnConflict = "return_existing"


class JobRequest(JobOptionFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call of a task, with the options of `using()`: times in seconds; omitted options follow the task."""

    task: TaskName
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    retry: RetryLimit | NewRetry | UnsetType = UNSET
    unique: bool | NewUnique | UnsetType = UNSET


def options_of(job: Struct) -> dict[str, Any]:
    """The options of the body, as `using()` takes them."""
    given = given_fields(job, exclude=_NOT_OPTIONS)
    retry, unique = given.get("retry"), given.get("unique")
    if isinstance(retry, NewRetry):
        fields = structs.asdict(retry)
        given["retry"] = Retry(**{**fields, "on": tuple(retry.on), "never": tuple(retry.never)})
    if isinstance(unique, bool | NewUnique):
        fields = structs.asdict(unique) if isinstance(unique, NewUnique) else {}
        given["unique"] = Unique(**fields) if unique else None
    return given


def call_of(app: Headrace, job: JobRequest) -> Call[Any]:
    """The call, checked against the task's signature if this process knows it."""
    return declared_task(app, job.task).using(**options_of(job)).bind(*decoded(job.args), **decoded(job.kwargs))
