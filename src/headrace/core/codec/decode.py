"""The tags: how a Python value that JSON has no type for becomes a JSON tree, and comes back.

A tag is an object with exactly one key, and that key starts with "$":

    $int         a whole number too long for a JSON reader, in hex
    $float       nan, inf, -inf
    $datetime    ISO 8601, then zone and fold: "2026-10-25T02:30:00+01:00[Europe/Vienna][fold=1]"
    $date  $time  $decimal  $uuid
    $timedelta   seconds, exact to the microsecond: "-0.000001"
    $bytes       base64
    $tuple  $set  $frozenset    the items; those of a set are sorted, so equal sets have equal texts
    $dict        [[key, value], …], for a dict with a key that is not a str or that starts with "$"
    $result  $results  $failure    what `result_refs` puts in place of other jobs' results

$dict makes a tag impossible to forge: the encoder writes a user's own {"$set": …} as a $dict.
Text that merely looks like a date stays text.

This module is the reading side, `encode` the writing side. Neither knows of text, signatures or tasks.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from headrace.core.codec.result_refs import ResultRef, as_failure
from headrace.core.text import a_kind, short
from headrace.errors import CorruptPayload

# Levels of the JSON tree, so a tuple counts as two. Far below the interpreter's own limit, which a
# worker may already have half used up when it decodes.
MAX_DEPTH = 200
# The reader allows for the frame of a call and for a tag in the deepest place.
_DEEPEST = MAX_DEPTH + 10

_SECONDS = re.compile(r"(-?)(\d+)(?:\.(\d{1,6}))?", re.ASCII)
_ZONE_KEY = re.compile(r"[\w+-]+(?:/[\w+-]+)*", re.ASCII)

Tree = Any


def ensure_shallow(text: str, *trees: Tree) -> None:
    """Refuse trees deeper than the encoder writes. A text with few brackets needs no walk through the trees."""
    if len(text) <= 2 * _DEEPEST or text.count("[") + text.count("{") <= _DEEPEST:
        return
    level: list[Tree] = [*trees]
    for _ in range(_DEEPEST):
        nodes = (node.values() if type(node) is dict else node for node in level)
        level = [item for node in nodes for item in node if type(item) is dict or type(item) is list]
        if not level:
            return
    raise CorruptPayload("nested too deeply")


def lift(tree: Tree) -> Any:
    """The value of a tree. Works in place: the tree was decoded for this call only."""
    kind = type(tree)
    if kind is list:
        for index, item in enumerate(tree):
            if type(item) is dict or type(item) is list:
                tree[index] = lift(item)
    elif kind is dict:
        for key, item in tree.items():
            if key[:1] == "$":
                return _read(key, item, alone=len(tree) == 1)
            if type(item) is dict or type(item) is list:
                tree[key] = lift(item)
    return tree


def _read(tag: str, content: Any, *, alone: bool) -> Any:
    if not alone:
        raise CorruptPayload(f"tag {short(tag)} among other keys")
    if tag not in _READ:
        raise CorruptPayload(f"unknown tag {short(tag)}")
    shape, reader = _READ[tag]
    if type(content) is not shape:
        raise CorruptPayload(f"tag {tag} holds {a_kind(content)} instead of a {shape.__name__}")
    return reader(content)


def _read_float(text: str) -> float:
    return {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}[text]


def _read_moment(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        head, *marks = text.split("[")
        value = parse(head)
        for mark in marks:
            value = value.replace(fold=1) if mark == "fold=1]" else value.replace(tzinfo=_zone(mark))
        return value

    return read


def _zone(mark: str) -> tzinfo:
    key = mark.removesuffix("]")
    if key.startswith("offset="):
        return timezone(_read_timedelta(key.removeprefix("offset=")))
    # Checked before ZoneInfo sees it, because ZoneInfo opens files and packages by this name.
    if key == mark or not _ZONE_KEY.fullmatch(key):
        raise CorruptPayload(f"bad time zone {short(key)}")
    try:
        return ZoneInfo(key)
    except (KeyError, OSError, ValueError):
        raise CorruptPayload(f"time zone {key!r} is not known here; install the tzdata package") from None


def _read_timedelta(text: str) -> timedelta:
    match = _SECONDS.fullmatch(text)
    if match is None:
        raise CorruptPayload(f"bad $timedelta {short(text)}")
    sign, seconds, fraction = match.groups()
    value = timedelta(seconds=int(seconds), microseconds=int((fraction or "").ljust(6, "0")))
    return -value if sign else value


def _read_dict(pairs: list[Any]) -> dict[Any, Any]:
    return {lift(key): lift(value) for key, value in pairs}


_READ: dict[str, tuple[type, Callable[[Any], Any]]] = {
    "$int": (str, lambda text: int(text, 16)),
    "$float": (str, _read_float),
    "$datetime": (str, _read_moment(datetime.fromisoformat)),
    "$date": (str, date.fromisoformat),
    "$time": (str, _read_moment(time.fromisoformat)),
    "$timedelta": (str, _read_timedelta),
    "$decimal": (str, Decimal),
    "$uuid": (str, UUID),
    "$bytes": (str, lambda text: binascii.a2b_base64(text, strict_mode=True)),
    "$tuple": (list, lambda items: tuple(lift(items))),
    "$set": (list, lambda items: set(lift(items))),
    "$frozenset": (list, lambda items: frozenset(lift(items))),
    "$dict": (list, _read_dict),
    "$result": (str, ResultRef),
    "$results": (list, lambda ids: [ResultRef(job_id) for job_id in ids]),
    "$failure": (list, as_failure),
}
