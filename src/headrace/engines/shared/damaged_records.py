"""Reads what is left of damaged records; shared by the engines.

Undamaged records never come here: an answer is decoded at once, and only a failure is taken apart value by value.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Generic, TypeVar, get_args

import msgspec
from msgspec import Struct

from headrace.core.damaged_records import DAMAGE
from headrace.core.jobs.states import State

T = TypeVar("T", bound=Struct)
_lists = msgspec.json.Decoder(list[list[Any]])
_numbered_lists = msgspec.json.Decoder(list[tuple[int, list[Any]]])
_EMPTY_VALUES = (None, 0, "", False, State.FAILED)  # replaces a lost value: the first of these with the right type


@cache
def types_of(kind: type[Struct]) -> tuple[Any, ...]:
    """The types of a record's fields, by position."""
    return tuple(field.type for field in msgspec.structs.fields(kind))


def valid_values(kind: type[Struct], values: Sequence[Any]) -> dict[int, Any]:
    """Those of these values that have the right type, by position."""
    found = {}
    for place, (wanted, value) in enumerate(zip(types_of(kind), values, strict=False)):
        try:
            found[place] = msgspec.convert(value, wanted)
        except DAMAGE:
            continue
    return found


def record_from(kind: type[T], values: dict[int, Any]) -> T:
    """The record with these values; missing ones are empty."""
    complete = [values[place] if place in values else _empty(wanted) for place, wanted in enumerate(types_of(kind))]
    return kind(**dict(zip(kind.__struct_fields__, complete, strict=True)))


def _empty(wanted: Any) -> Any:
    for value in (*_EMPTY_VALUES, *get_args(wanted)):
        try:
            return msgspec.convert(value, wanted)
        except DAMAGE:
            continue
    raise TypeError(f"nothing stands for a {wanted}")


class Rows(Generic[T]):
    """Decodes a list of records from a SQL database's JSON. A file of SQLite may have a text for a number."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._decoder = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]  # mypy takes it for a value

    def decode(self, text: str) -> list[T]:
        try:
            return self._decoder.decode(text)
        except DAMAGE:
            return [record_from(self._kind, valid_values(self._kind, values)) for values in _lists.decode(text)]


class NumberedRows(Generic[T]):
    """Decodes a list of records, each with the number of its job in front."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._decoder = msgspec.json.Decoder(list[tuple[int, kind]])  # type: ignore[valid-type]

    def decode(self, text: str) -> list[tuple[int, T]]:
        try:
            return self._decoder.decode(text)
        except DAMAGE:
            return [
                (job, record_from(self._kind, valid_values(self._kind, values)))
                for job, values in _numbered_lists.decode(text)
            ]
