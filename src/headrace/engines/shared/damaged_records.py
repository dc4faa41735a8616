"""What is left of records with values that are not what they should be; shared by the engines.

Nothing here is called as long as all is well: a whole answer is decoded at once, and only one that can't be is taken
apart value by value.
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
_filed = msgspec.json.Decoder(list[tuple[int, list[Any]]])
_NOTHING = (None, 0, "", False, State.FAILED)  # what stands for a value that is lost: the first that fits


@cache
def types_of(kind: type[Struct]) -> tuple[Any, ...]:
    """The types of a record's values, by their places."""
    return tuple(field.type for field in msgspec.structs.fields(kind))


def whole_values(kind: type[Struct], values: Sequence[Any]) -> dict[int, Any]:
    """Those of these values that are of the type they should be, by their places."""
    found = {}
    for place, (wanted, value) in enumerate(zip(types_of(kind), values, strict=False)):
        try:
            found[place] = msgspec.convert(value, wanted)
        except DAMAGE:
            continue
    return found


def made_of(kind: type[T], values: dict[int, Any]) -> T:
    """The record of these values; the others are empty."""
    whole = [values[place] if place in values else _empty(wanted) for place, wanted in enumerate(types_of(kind))]
    return kind(**dict(zip(kind.__struct_fields__, whole, strict=True)))


def _empty(wanted: Any) -> Any:
    for value in (*_NOTHING, *get_args(wanted)):
        try:
            return msgspec.convert(value, wanted)
        except DAMAGE:
            continue
    raise TypeError(f"nothing stands for a {wanted}")


class Rows(Generic[T]):
    """Decodes a list of records that a SQL database tells in JSON. A file of SQLite may have a text for a number."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._decoder = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]  # mypy takes it for a value

    def decode(self, told: str) -> list[T]:
        try:
            return self._decoder.decode(told)
        except DAMAGE:
            return [made_of(self._kind, whole_values(self._kind, values)) for values in _lists.decode(told)]


class FiledRows(Generic[T]):
    """Decodes a list of records each of which has the number of its job in front."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._decoder = msgspec.json.Decoder(list[tuple[int, kind]])  # type: ignore[valid-type]

    def decode(self, told: str) -> list[tuple[int, T]]:
        try:
            return self._decoder.decode(told)
        except DAMAGE:
            return [(job, made_of(self._kind, whole_values(self._kind, values))) for job, values in _filed.decode(told)]
