"""The arguments of a call by the names of their parameters, and as one line of text. For people, not for the worker.

The process that shows a job need not have its code: the names come from `declared`, or are missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headrace.core.codec import codec
from headrace.core.codec.redaction import MASK
from headrace.errors import HeadraceError

MAX_LINE = 160  # characters of a call in a list
_MAX_VALUE = 80
_CUT = "…"


def by_name(names: Sequence[str] | None, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Parameter name -> value. A positional argument without a known name has its position: "0", "1".

    `names` are `Signature.positional`: the name of `*rest` comes last, with its star. Accepts any call, also one that
    the function would refuse.
    """
    places = list(names or ())
    rest = places.pop()[1:] if places and places[-1].startswith("*") else None
    named: dict[str, Any] = dict(zip(places, args, strict=False))
    surplus = args[len(places) :]
    if rest is not None and surplus:
        named[rest] = list(surplus)
    elif surplus:
        named |= {str(place): value for place, value in enumerate(surplus, len(places))}
    for name, value in kwargs.items():
        named[f"kwargs.{name}" if name in named else name] = value
    return named


def line_of(named: Mapping[str, Any], limit: int = MAX_LINE) -> str:
    """The arguments in one line: `order_id=40199, note="x"`. Long values and long lines are cut."""
    texts = []
    left = limit
    for name, value in named.items():
        text = value_text(value, min(_MAX_VALUE, limit))
        texts.append(text if name.isdigit() else f"{name}={text}")
        left -= len(texts[-1]) + 2
        if left < 0:
            break
    return cut(", ".join(texts), limit)


def value_text(value: Any, limit: int = _MAX_VALUE) -> str:
    """A value in JSON, cut to `limit` characters; a date, a UUID and the like as their plain text, and a mask bare."""
    if isinstance(value, str):
        if value == MASK:
            return value
        value = value if len(value) <= limit else value[:limit] + _CUT
    elif isinstance(value, tuple | set | frozenset):
        value = list(value)
    try:
        tree = msgspec.json.decode(codec.encode(value, models=True))
    except HeadraceError:
        return cut(repr(value), limit)
    if (waits_for := _result_of(tree)) is not None:
        return waits_for
    content = scalar_of(tree)
    if content is not None and content is not tree:
        return cut(str(content), limit)
    text = msgspec.json.encode(tree).decode()
    return text if isinstance(value, str) else cut(text, limit)


def scalar_of(tree: Any) -> str | int | float | None:
    """The single value of an encoded tree: of {"$date": "2026-03-01"} the text; None if there is none."""
    if isinstance(tree, dict) and len(tree) == 1:
        ((tag, content),) = tree.items()
        return content if tag in _SCALARS and isinstance(content, str) else None
    return tree if isinstance(tree, str | int | float) else None


def _result_of(tree: Any) -> str | None:
    """For the result of a parent job, which stands in its place until the job starts."""
    match tree:
        case {"$result": str(job_id)} if len(tree) == 1:
            return f"result of {_CUT}{job_id[-8:]}"
        case {"$results": list(job_ids)} if len(tree) == 1:
            return f"results of {len(job_ids):,} jobs"
    return None


_SCALARS = ("$int", "$float", "$datetime", "$date", "$time", "$decimal", "$uuid", "$timedelta")


def cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}{_CUT}"
