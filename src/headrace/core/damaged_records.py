"""Reads what a store holds, any of which may be damaged: one record that no longer decodes must not cost the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from headrace.errors import CorruptPayload

_json = msgspec.json.Decoder()
_tags = msgspec.json.Decoder(tuple[str, ...])
T = TypeVar("T")
S = TypeVar("S")

# What decoding raises for what was never encoded.
DAMAGE = (msgspec.MsgspecError, CorruptPayload, ValueError, RecursionError)
# Why a job failed whose own record could not be read.
CORRUPT_RECORD = "corrupt_record"


def read_or(decode: Callable[[S], T], stored: S, otherwise: T) -> T:
    """What is stored, or this if it is damaged."""
    try:
        return decode(stored)
    except DAMAGE:
        return otherwise


def read(decode: Callable[[S], T], stored: S) -> T | None:
    """What is stored, None if it is damaged."""
    return next(readable(decode, (stored,)), None)


def items_of(stored: str, *kinds: type) -> Any:
    """What is stored in JSON, if it is one of these kinds of containers; an empty one of the first if it is not."""
    found = read(_json.decode, stored)
    return found if isinstance(found, kinds) else kinds[0]()


def tags_of(stored: str | None) -> tuple[str, ...]:
    """The tags of a job as they are stored; none if they are damaged."""
    return read_or(_tags.decode, stored, ()) if stored else ()


def readable(decode: Callable[[S], T], stored: Iterable[S]) -> Iterator[T]:
    """What is stored, without what is damaged."""
    for each in stored:
        try:
            found = decode(each)
        except DAMAGE:
            continue
        yield found
