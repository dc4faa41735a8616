"""The options of a task, a call and a schedule as type checkers and editors know them.

`options.py` checks the values; a test keeps the names equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol, Required, TypedDict

from headrace.core.jobs.dependencies import Policy
from headrace.core.jobs.records import Isolation
from headrace.core.retention.lifecycle import Lifecycle
from headrace.core.schedules.dst import Gap, Overlap
from headrace.core.schedules.schedule import CatchUp, RunOverlap
from headrace.core.tasks.retry import Retry
from headrace.core.tasks.unique import Cache, Unique

Seconds = float | timedelta


class JobRef(Protocol):
    """A job, or a node of a flow."""

    @property
    def result_ref_id(self) -> str: ...


class SharedOptions(TypedDict, total=False):
    """The options that a task, a call and a schedule share."""

    queue: str
    priority: int
    delay: Seconds
    expires: Seconds | None
    timeout: Seconds | None
    retry: Retry | int | None
    isolation: Isolation
    keep_result: bool
    lifo: bool
    preemptible: bool
    unique: Unique | bool | None
    debounce: Seconds | None
    throttle: Seconds | None
    cache: Cache | None
    on_parent_failure: Policy
    needs: Iterable[str]
    rate_key: str | None
    concurrency_key: str | None
    cost: int
    budget: int
    tags: Iterable[str] | Mapping[str, object]
    metadata: Mapping[str, Any]
    redact: Iterable[str]
    remove_on_complete: bool | int
    remove_on_fail: bool | int


class TaskOptions(SharedOptions, total=False):
    """The options of `@app.task()`."""

    rate: str | Sequence[str] | None
    burst: int | None
    concurrency: int | None
    keep_logs: bool
    interrupt: Seconds | bool
    index: Iterable[str]
    lifecycle: Lifecycle


class BatchOptions(TaskOptions, total=False):
    """The options of `@app.task()` for a batch task."""

    batch: Required[int]
    within: Seconds


class CallOptions(SharedOptions, total=False):
    """The options of `using()`."""

    run_at: datetime
    job_id: str
    idempotency_key: str | None
    after: JobRef | str | Iterable[JobRef | str]
    parent: JobRef | str | None
    connection: Any


class ScheduleOptions(SharedOptions, total=False):
    """The options of `@app.cron()`, `@app.every()` and `schedules.create()`, except for the times themselves."""

    args: Sequence[Any]
    kwargs: Mapping[str, Any] | None
    immediate: bool
    tz: Any
    start: datetime | None
    end: datetime | None
    limit: int | None
    jitter: Seconds
    dst_gap: Gap
    dst_overlap: Overlap
    catch_up: CatchUp
    catch_up_limit: int
    catch_up_window: Seconds
    overlap: RunOverlap


class IntervalOptions(ScheduleOptions, total=False):
    """The options of `@app.every()`."""

    weeks: float
    days: float
    hours: float
    minutes: float
    seconds: float
