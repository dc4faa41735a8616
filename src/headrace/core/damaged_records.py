"""Reads stored values that may be damaged: one undecodable record must not break the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from headrace.errors import CorruptPayload

_json = msgspec.json.Decoder()
_tags = msgspec.json.Decoder(tuple[str, ...])
_HIDDEN = "\x1f"  # see core.tasks.index
T = TypeVar("T")
S = TypeVar("S")

# The errors of decoding invalid data.
DAMAGE = (msgspec.MsgspecError, CorruptPayload, ValueError, RecursionError)
# The failure reason of a job with an unreadable record.
CORRUPT_RECORD = "corrupt_record"


def read_or(decode: Callable[[S], T], stored: S, otherwise: T) -> T:
    """The stored value, or `otherwise` if it is damaged."""
    try:
        return decode(stored)
    except DAMAGE:
        return otherwise


def read(decode: Callable[[S], T], stored: S) -> T | None:
    """The stored value, None if it is damaged."""
    return next(readable(decode, (stored,)), None)


def items_of(stored: str, *kinds: type) -> Any:
    """The stored JSON, if it is one of these container types; else an empty one of the first."""
    found = read(_json.decode, stored)
    return found if isinstance(found, kinds) else kinds[0]()


def stored_tags(stored: str | None) -> tuple[str, ...]:
    """All stored tags of a job, also the hidden ones of its indexed arguments; none if they are damaged."""
    return read_or(_tags.decode, stored, ()) if stored else ()


def tags_of(stored: str | None) -> tuple[str, ...]:
    """The tags that a user gave a job; none if they are damaged."""
    return tuple(tag for tag in stored_tags(stored) if not tag.startswith(_HIDDEN))


def readable(decode: Callable[[S], T], stored: Iterable[S]) -> Iterator[T]:
    """The stored values, without the damaged ones."""
    for each in stored:
        try:
            found = decode(each)
        except DAMAGE:
            continue
        yield found
