"""Python values to JSON trees: the writing side of the tags, which `decode` describes and reads.

The encoder walks a value once. It refuses an unstorable part by its path, and a too large value before it becomes text.
Only a value that an annotation can rebuild may lose its type, and only if the caller allows it. This module knows
nothing of text, signatures or tasks.
"""

from __future__ import annotations

import binascii
import sys
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from types import NoneType
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from headrace.core.codec.decode import MAX_DEPTH, Tree, lift
from headrace.core.codec.models import is_model, is_pydantic, json_fields, plain_fields
from headrace.core.codec.result_refs import MARK, ParentFailure, ResultRef, failure_fields, is_result_ref
from headrace.core.jobs.ids import check_id
from headrace.core.text import a_kind, short, why
from headrace.errors import PayloadTooLarge

# 617 digits. Python may be set to read no more than 640, and msgspec never reads more than 4300.
LONGEST_PLAIN_INT = 2**2048

_MICROSECOND = timedelta(microseconds=1)
_canonical = msgspec.json.Encoder().encode
_parsed = msgspec.json.Decoder().decode


class NotEncodable(Exception):
    """A value that JSON can't represent. `path` leads to it from the given value."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.steps: list[str] = []

    def inside(self, step: str) -> NotEncodable:
        self.steps.append(step)
        return self

    @property
    def path(self) -> str:
        steps = self.steps[::-1]
        return "".join(steps if len(steps) <= 12 else [*steps[:6], "…", *steps[-3:]])


class ValueEncoder:
    """One walk through a value: whether models are allowed, and how many bytes are left before it is too large.

    Only in a `call`, a handle stands for the result of its job.
    """

    __slots__ = ("call", "left", "limit", "models")

    def __init__(self, models: bool, limit: int | None, *, call: bool = False) -> None:
        self.models = models
        self.call = call
        self.limit = limit
        self.left = sys.maxsize if limit is None else limit

    def spend(self, least: int) -> None:
        """Each character and item takes a byte or more, so a huge value is refused before it is encoded."""
        self.left -= least
        if self.left < 0:
            raise too_large(None, self.limit or 0)

    def enter(self, depth: int, items: int) -> None:
        self.spend(items)
        if depth > MAX_DEPTH:
            raise NotEncodable(f"nested deeper than {MAX_DEPTH} levels, or it contains itself; pass flatter data")


def too_large(size: int | None, limit: int, what: str = "payload") -> PayloadTooLarge:
    size_text = f"more than {limit:,}" if size is None else f"{size:,}"
    return PayloadTooLarge(
        f"the {what} is {size_text} bytes and the limit is {limit:,} bytes; "
        "keep the data in a file or a table and pass its name or id",
        size=size,
        limit=limit,
    )


def lower(encoder: ValueEncoder, value: Any, depth: int = 1) -> Tree:
    """The JSON tree of a value, ready for a plain JSON encoder. Raises NotEncodable."""
    return _LOWER.get(type(value), _lower_other)(encoder, value, depth)


def _lower_itself(encoder: ValueEncoder, value: Any, depth: int) -> Tree:
    return value


def _lower_int(encoder: ValueEncoder, value: int, depth: int) -> Tree:
    return value if -LONGEST_PLAIN_INT < value < LONGEST_PLAIN_INT else {"$int": hex(value)}


def _lower_float(encoder: ValueEncoder, value: float, depth: int) -> Tree:
    # Only nan and the infinities do not give zero here, and a JSON encoder would write them as null.
    return value if value - value == 0.0 else {"$float": repr(value)}


def _lower_str(encoder: ValueEncoder, value: str, depth: int) -> Tree:
    encoder.spend(len(value))
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise NotEncodable(
                f"the text has a lone surrogate at position {error.start} and can't be written as UTF-8; "
                "pass bytes, or text decoded with errors='replace'"
            ) from None
    return value


def _lower_bytes(encoder: ValueEncoder, value: bytes | bytearray, depth: int) -> Tree:
    encoder.spend(len(value))
    return {"$bytes": binascii.b2a_base64(value, newline=False).decode()}


def _lower_list(encoder: ValueEncoder, value: list[Any], depth: int) -> Tree:
    items = lower_items(encoder, value, depth)
    if len(items) > 1 and all(type(item) is dict and "$result" in item for item in items):
        return {"$results": [item["$result"] for item in items]}  # a job may wait for thousands of others
    return items


def lower_items(encoder: ValueEncoder, value: Iterable[Any], depth: int = 1) -> list[Tree]:
    """The trees of several values, as a list whatever they are."""
    items: list[Tree] = value if type(value) is list else list(value)
    encoder.enter(depth, len(items))
    lowered: list[Tree] = []
    try:
        for item in items:
            # A comprehension would be one more frame on the stack for each level.
            lowered.append(_LOWER.get(type(item), _lower_other)(encoder, item, depth + 1))
    except NotEncodable as error:
        raise error.inside(f"[{len(lowered)}]") from None
    return lowered


def _lower_tuple(encoder: ValueEncoder, value: tuple[Any, ...], depth: int) -> Tree:
    return {"$tuple": lower_items(encoder, value, depth + 1)}


def _lower_set(encoder: ValueEncoder, value: set[Any], depth: int) -> Tree:
    return {"$set": _lower_members(encoder, value, depth)}


def _lower_frozenset(encoder: ValueEncoder, value: frozenset[Any], depth: int) -> Tree:
    return {"$frozenset": _lower_members(encoder, value, depth)}


def _lower_members(encoder: ValueEncoder, value: Iterable[Any], depth: int) -> list[Tree]:
    members = lower_items(encoder, value, depth + 1)
    for member in members:
        _ensure_hashable(member)
    return sorted(members, key=_canonical)


def _ensure_hashable(tree: Tree) -> None:
    """A frozen dataclass may be in a set, but its encoded form, a dict, may not: no decoder could build that set."""
    if type(tree) is dict or type(tree) is list:
        text = _canonical(tree)
        if MARK.encode() in text:
            raise NotEncodable("the result of a job can't be a member of a set or a key of a dict; pass a list of them")
        try:
            hash(lift(_parsed(text)))
        except TypeError:
            raise NotEncodable(
                "a member of a set or a key of a dict comes back as a list or dict, which can't be one; "
                "pass a list instead of the set, or other keys"
            ) from None


def _lower_dict(encoder: ValueEncoder, value: dict[Any, Any], depth: int) -> Tree:
    encoder.enter(depth, len(value))
    for key in value:
        if type(key) is not str or key[:1] == "$":
            return _lower_pairs(encoder, value, depth)
    lowered, key = {}, None
    try:
        for key, item in value.items():
            _lower_str(encoder, key, depth)
            lowered[key] = _LOWER.get(type(item), _lower_other)(encoder, item, depth + 1)
    except NotEncodable as error:
        raise error.inside(step_to(key)) from None
    return lowered


def _lower_pairs(encoder: ValueEncoder, value: dict[Any, Any], depth: int) -> Tree:
    encoder.enter(depth + 2, 0)
    pairs, key = [], None
    try:
        for key, item in value.items():
            name = lower(encoder, key, depth + 3)
            _ensure_hashable(name)
            pairs.append([name, lower(encoder, item, depth + 3)])
    except NotEncodable as error:
        raise error.inside(step_to(key)) from None
    return {"$dict": pairs}


def step_to(key: Any) -> str:
    """The step of a path that leads under `key`: `.name`, or `['any other key']`."""
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{short(key)}]"


def _lower_moment(tag: str, iso: Callable[[Any], str]) -> Callable[[ValueEncoder, Any, int], Tree]:
    """For datetime and time. The base class writes the text: a subclass may have its own isoformat."""

    def lowered(encoder: ValueEncoder, value: Any, depth: int) -> Tree:
        text = iso(value) + _zone_mark(value)
        return {tag: text + "[fold=1]" if value.fold else text}

    return lowered


def _zone_mark(value: Any) -> str:
    zone, offset = value.tzinfo, value.utcoffset()
    if isinstance(zone, ZoneInfo) and zone.key:
        return f"[{zone.key}]"
    if zone is not None and offset is None:
        raise NotEncodable(f"the time zone {short(zone)} has no offset here; use zoneinfo.ZoneInfo or UTC")
    # Python reads an offset below one second as UTC, so a broken second is written once more.
    return f"[offset={_seconds(offset)}]" if offset and offset.microseconds else ""


def _lower_date(encoder: ValueEncoder, value: date, depth: int) -> Tree:
    return {"$date": date.isoformat(value)}


def _lower_timedelta(encoder: ValueEncoder, value: timedelta, depth: int) -> Tree:
    return {"$timedelta": _seconds(value)}


def _seconds(value: timedelta) -> str:
    seconds, fraction = divmod(abs(value) // _MICROSECOND, 1_000_000)
    return f"{'-' if value < timedelta() else ''}{seconds}.{fraction:06}"


def _lower_decimal(encoder: ValueEncoder, value: Decimal, depth: int) -> Tree:
    return {"$decimal": Decimal.__str__(value)}


def _lower_result_ref(encoder: ValueEncoder, value: Any, depth: int) -> Tree:
    job_id = check_id(value.result_ref_id)
    encoder.spend(len(job_id))
    return {"$result": job_id}


def _lower_failure(encoder: ValueEncoder, value: ParentFailure, depth: int) -> Tree:
    return {"$failure": lower_items(encoder, failure_fields(value), depth + 1)}


def _lower_uuid(encoder: ValueEncoder, value: UUID, depth: int) -> Tree:
    return {"$uuid": str(value)}


_LOWER: dict[type, Callable[[ValueEncoder, Any, int], Tree]] = {
    str: _lower_str,
    int: _lower_int,
    float: _lower_float,
    bool: _lower_itself,
    NoneType: _lower_itself,
    list: _lower_list,
    dict: _lower_dict,
    tuple: _lower_tuple,
    set: _lower_set,
    frozenset: _lower_frozenset,
    bytes: _lower_bytes,
    bytearray: _lower_bytes,
    datetime: _lower_moment("$datetime", datetime.isoformat),
    time: _lower_moment("$time", time.isoformat),
    date: _lower_date,
    timedelta: _lower_timedelta,
    Decimal: _lower_decimal,
    UUID: _lower_uuid,
    ResultRef: _lower_result_ref,
    ParentFailure: _lower_failure,
}
# A subclass of these equals its plain form, and is written as that. A datetime is a date: it comes first.
_DEGRADABLE = (
    datetime,
    *(kind for kind in _LOWER if kind not in (str, int, float, bool, NoneType, datetime)),
)


def _lower_other(encoder: ValueEncoder, value: Any, depth: int) -> Tree:
    if encoder.call and is_result_ref(value):
        return _lower_result_ref(encoder, value, depth)
    if is_model(type(value)):
        return _lower_model(encoder, value, depth)
    for base in _DEGRADABLE:
        if isinstance(value, base):
            return _LOWER[base](encoder, value, depth)
    raise NotEncodable(_refusal(value))


def _refusal(value: Any) -> str:
    for base in (str, int, float):
        if isinstance(value, base):
            return f"{a_kind(value)} would come back as a plain {base.__name__}; pass {base.__name__}(value)"
    return (
        f"{a_kind(value)} can't be stored as JSON; pass plain data such as an id, a path or a dict, "
        "and open or build it inside the task"
    )


def _lower_model(encoder: ValueEncoder, value: Any, depth: int) -> Tree:
    if not encoder.models:
        raise NotEncodable(
            f"{a_kind(value)} comes back as plain data; annotate the parameter so that the worker can "
            f"rebuild it, or pass {'its .value' if isinstance(value, Enum) else 'a dict'}"
        )
    left = encoder.left
    try:
        return lower(encoder, _fields_of(plain_fields, value), depth)
    except NotEncodable as error:
        if not is_pydantic(type(value)):
            raise
        encoder.left = left
        try:
            return lower(encoder, _fields_of(json_fields, value), depth)
        except NotEncodable:
            raise error from None


def _fields_of(how: Callable[[Any], Any], value: Any) -> Any:
    try:
        return how(value)
    except Exception as error:  # properties and serializers are the user's own code
        raise NotEncodable(f"{a_kind(value)} can't be taken apart: {why(error)}") from error
