"""Schemas that several endpoints share."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, defstruct

from headrace.core.codec import codec
from headrace.core.fields import Field
from headrace.core.jobs.states import State
from headrace.errors import InvalidJob

MAX_LIMIT = 1000
Limit = Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="Maximum number.")]
Cursor = Annotated[str, Meta(max_length=500, description="The `cursor` of the previous page.")]
Argument = Annotated[str, Meta(max_length=10_000, description="The value of an indexed argument, as `order_id=40199`.")]
Note = Annotated[str, Meta(max_length=10_000)]


class Changed(Struct, frozen=True):
    """The number of changed items; for a dry run, the number that would change."""

    changed: int
    dry_run: bool = False


class Done(Struct, frozen=True):
    """Whether something changed; false if there was nothing to do."""

    done: bool


class TestOutcome(Struct, frozen=True):
    """Whether the test message was accepted, and the error if not."""

    taken: bool
    error: str | None = None


class _JobFilters(Struct, frozen=True, kw_only=True):
    state: list[State] | None = None
    queue: str | None = None
    task: str | None = None
    tag: str | None = None
    arg: Argument | None = None
    worker: str | None = None
    text: str | None = None
    flow: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class JobQuery(_JobFilters, frozen=True, kw_only=True):
    """Filters of jobs, newest first."""

    state: list[State] = []  # a parameter that may be repeated
    archived: bool = False
    total: bool = False
    limit: Limit = 50
    cursor: Cursor | None = None


class JobFilter(_JobFilters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters of a bulk action, at least one; `dry_run` only counts the jobs."""

    ids: Annotated[list[str], Meta(max_length=10_000)] | None = None
    dry_run: bool = False


class DeleteFilter(JobFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs to delete, at most `limit`; with `finished_before` only jobs that finished before, oldest first."""

    finished_before: datetime | None = None
    limit: Annotated[int, Meta(ge=1)] | None = None


_BODY: dict[str, Any] = {"kw_only": True, "frozen": True, "forbid_unknown_fields": True}


def change_type(
    name: str, fields: Mapping[str, Field], doc: str, /, *, or_text: bool = False, **others: Any
) -> type[Struct]:
    """The body that changes a record: any of its fields, or a text in its place, and others by their types."""
    types = {field: _or_text(described) if or_text else described.type for field, described in fields.items()} | others
    given = [(field, kind | UnsetType, UNSET) for field, kind in types.items()]
    return defstruct(name, given, namespace={"__doc__": doc}, **_BODY)


def _or_text(field: Field) -> Any:
    plain = get_args(field.type)[0]  # without its entry, or the schema would nest
    kind = str if field.kind is str else plain | str
    return Annotated[kind, Meta(description=field.text)]


def new_type(name: str, change: type[Struct], doc: str, /, **required: Any) -> type[Struct]:
    """The body that creates a record: what changes it, and what every record needs."""
    return defstruct(name, list(required.items()), bases=(change,), namespace={"__doc__": doc}, **_BODY)


def given_fields(struct: Struct, *, exclude: tuple[str, ...] = ()) -> dict[str, Any]:
    """The given fields."""
    fields = msgspec.structs.asdict(struct)
    return {name: value for name, value in fields.items() if name not in exclude and value is not UNSET}


def filters_of(struct: Struct, *, exclude: tuple[str, ...]) -> dict[str, Any]:
    """The given filters; an empty list of states is no filter."""
    given = given_fields(struct, exclude=exclude).items()
    filters = {name: value for name, value in given if value is not None and value != []}
    if (argument := filters.pop("arg", None)) is not None:
        filters["args"] = _argument(argument)
    return filters


def _argument(text: str) -> dict[str, str]:
    name, is_given, value = text.partition("=")
    if not is_given:
        raise InvalidJob(f"arg: {text!r} is not a name and a value, such as order_id=40199", field="arg", value=text)
    return {name: value}


def decoded(value: Any) -> Any:
    """Decode JSON arguments, including tagged values."""
    return codec.decode(msgspec.json.encode(value).decode())
