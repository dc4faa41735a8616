"""The options of a job as users write them in JSON: names, bounds and texts. Times in seconds.

Unset ones follow the task. `options.py` checks the values.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from headrace.core.fields import between, entry, fields_of
from headrace.core.jobs.dependencies import Policy
from headrace.core.jobs.ids import GIVEN
from headrace.core.jobs.records import Isolation
from headrace.core.option_times import LONGEST_WAIT, SHORTEST
from headrace.core.queues.rates import MOST_UNITS
from headrace.core.retention.policy_fields import Kept
from headrace.core.tasks.labels import LABEL, MAX_LABELS
from headrace.core.tasks.options import (
    HIGHEST_PRIORITY,
    LONGEST_TIMEOUT,
    LOWEST_PRIORITY,
    QUEUE_NAME,
    TASK_NAME,
)
from headrace.core.tasks.unique import LONGEST_KEY


def _matching(pattern: re.Pattern[str]) -> Meta:
    return Meta(extra_json_schema={"pattern": f"^(?:{pattern.pattern})$"})


QueueName = Annotated[str, _matching(QUEUE_NAME)]
TaskName = Annotated[str, _matching(TASK_NAME)]
Word = Annotated[str, _matching(LABEL)]
Words = Annotated[tuple[Word, ...], Meta(extra_json_schema={"maxItems": MAX_LABELS})]
JobId = Annotated[str, _matching(GIVEN)]
Key = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": LONGEST_KEY})]
Priority = Annotated[int, between(LOWEST_PRIORITY, HIGHEST_PRIORITY)]
Span = Annotated[float, between(SHORTEST, LONGEST_WAIT)]
Timeout = Annotated[float, between(SHORTEST, LONGEST_TIMEOUT)]


# Those that a schedule also gives to its jobs.
Queue = Annotated[QueueName | UnsetType, entry("Queue; overrides the task's.", label="Queue", hint="the task’s own")]
JobPriority = Annotated[
    Priority | UnsetType,
    entry("From -100 to 100; higher runs first.", label="Priority, -100 to 100", hint="the task’s own"),
]
JobTimeout = Annotated[
    Timeout | UnsetType | None,
    entry("Timeout of each attempt", "TIME", "Timeout, seconds", "the task’s own", typed=", or none."),
]
Tags = Annotated[
    Words | dict[str, str] | UnsetType, entry("Tags, or names with values.", label="Tags, with commas", hint="none")
]
Metadata = Annotated[dict[str, Any] | UnsetType, entry("Data that travels with the job.")]


class JobOptionFields(Struct, frozen=True, kw_only=True):
    """The options of a job."""

    queue: Queue = UNSET
    priority: JobPriority = UNSET
    delay: Annotated[
        Annotated[float, between(0, LONGEST_WAIT)] | UnsetType,
        entry("Run later", "TIME", "Delay, seconds", "none", typed=": seconds or 10m, 2h, 3d."),
    ] = UNSET
    run_at: Annotated[datetime | UnsetType, entry("Run at an ISO time", "TIME", "Run at, UTC", typed=" (UTC).")] = UNSET
    expires: Annotated[Span | UnsetType, entry("Cancel the job if it has not started after this time.", "TIME")] = UNSET
    timeout: JobTimeout = UNSET
    idempotency_key: Annotated[
        Key | UnsetType, entry("The first job with this key stands for 24 hours, and as long as it is not finished.")
    ] = UNSET
    job_id: Annotated[JobId | UnsetType, entry("Your own id for the job.")] = UNSET
    tags: Tags = UNSET
    metadata: Metadata = UNSET
    after: Annotated[tuple[JobId, ...] | UnsetType, entry("Jobs to wait for.", "JOB")] = UNSET
    parent: Annotated[JobId | UnsetType, entry("A job that has not ended and is to wait for this one.")] = UNSET
    on_parent_failure: Annotated[
        Policy | UnsetType, entry("Action when a job that it waits for fails", typed=", one given with --after.")
    ] = UNSET
    lifo: Annotated[bool | UnsetType, entry("Run before older jobs of the same priority.")] = UNSET
    needs: Annotated[Words | UnsetType, entry("Capabilities its worker must have.", "NAME,...")] = UNSET
    rate_key: Annotated[Word | UnsetType, entry("Key for the queue's rate per key, such as a tenant.", "KEY")] = UNSET
    cost: Annotated[
        Annotated[int, between(1, MOST_UNITS)] | UnsetType, entry("Units it takes from rates that count units.", "N")
    ] = UNSET
    budget: Annotated[
        Annotated[int, between(1, MOST_UNITS)] | UnsetType, entry("Units its attempts may report in all.", "N")
    ] = UNSET
    concurrency_key: Annotated[Word | UnsetType, entry("Key for the queue's concurrency limit per key.", "KEY")] = UNSET
    keep_result: Annotated[bool | UnsetType, entry("Store what the task returns.")] = UNSET
    remove_on_complete: Annotated[
        bool | Kept | UnsetType, entry("Remove it when it is completed, or how many of the newest stay.")
    ] = UNSET
    remove_on_fail: Annotated[
        bool | Kept | UnsetType, entry("Remove it when it has failed, or how many of the newest stay.")
    ] = UNSET
    isolation: Annotated[
        Isolation | UnsetType, entry("Where it runs: `thread` for def, `async` for async def, `process` for either.")
    ] = UNSET


JOB_OPTIONS = fields_of(JobOptionFields)
