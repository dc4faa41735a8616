"""The template of a task's next job: its resolved options, as far as its arguments do not matter."""

from __future__ import annotations

from msgspec import Struct

from headrace.core.jobs.dependencies import Policy
from headrace.core.tasks.index import Places
from headrace.core.tasks.unique import UniquePolicy


class JobTemplate(Struct, frozen=True, gc=False):
    """Everything about a task's next job that depends on neither its arguments nor the time."""

    task: str
    queue: str
    priority: int
    delay: int
    run_at: int | None
    expires: int | None
    max_attempts: int
    lifo: bool
    job_id: str | None
    options: str | None
    tags: str | None
    metadata: str | None
    unique: UniquePolicy | None
    lane: str
    alone: bool  # whether jobs of one key run one after the other
    after: tuple[str, ...] = ()
    policy: Policy = "cancel"
    parent: str | None = None
    index: Places = ()
    own_tags: tuple[str, ...] = ()
