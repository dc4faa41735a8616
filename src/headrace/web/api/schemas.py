"""What several endpoints take and give."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct

from headrace.core.codec import codec
from headrace.core.jobs.states import State

MOST = 1000
Limit = Annotated[int, Meta(ge=1, le=MOST, description="How many at most.")]
Cursor = Annotated[str, Meta(max_length=500, description="Where a list goes on: the `cursor` of the one before.")]
Note = Annotated[str, Meta(max_length=10_000)]


class Changed(Struct, frozen=True):
    """How many were changed; of a dry run, how many would be."""

    changed: int
    dry_run: bool = False


class Done(Struct, frozen=True):
    """Whether it was done; False where there was nothing to do any more."""

    done: bool


class Trial(Struct, frozen=True):
    """Whether a message was taken that says it is a test, and if not, why."""

    taken: bool
    error: str | None = None


class JobQuery(Struct, frozen=True, kw_only=True):
    """Which jobs, newest first."""

    state: list[State] = []
    queue: str | None = None
    task: str | None = None
    tag: str | None = None
    worker: str | None = None
    text: str | None = None
    flow: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    archived: bool = False
    total: bool = False
    limit: Limit = 50
    cursor: Cursor | None = None


class JobFilter(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs are meant, with at least one filter; with `dry_run` they are counted and stay as they are."""

    ids: Annotated[list[str], Meta(max_length=10_000)] | None = None
    state: list[State] | None = None
    queue: str | None = None
    task: str | None = None
    tag: str | None = None
    worker: str | None = None
    text: str | None = None
    flow: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    dry_run: bool = False


class DeleteFilter(JobFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs to remove; with `finished_before` only those that ended before, the oldest first. At most `limit`."""

    finished_before: datetime | None = None
    limit: Annotated[int, Meta(ge=1)] | None = None


def said(struct: Struct, *, but: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields that were given."""
    told = msgspec.structs.asdict(struct)
    return {name: value for name, value in told.items() if name not in but and value is not UNSET}


def filters_of(struct: Struct, *, but: tuple[str, ...]) -> dict[str, Any]:
    """The filters that were given; an empty list of states is none."""
    return {name: value for name, value in said(struct, but=but).items() if value is not None and value != []}


def lifted(value: Any) -> Any:
    """Arguments as they came in JSON, with what is tagged as what it stands for."""
    return codec.decode(msgspec.json.encode(value).decode())
