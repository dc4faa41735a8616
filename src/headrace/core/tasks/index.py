"""Indexed arguments: which values of a call can be found, and under which tag.

An indexed value is a hidden tag of its job, so every store already has the index and the archive keeps it. A hidden tag
begins with a control character, which no tag of a user has. Values match by their text: 7 and "7" have the same tag.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from headrace.core.codec import codec
from headrace.core.codec.result_refs import MARK, is_result_ref
from headrace.core.tasks.arguments import scalar_of
from headrace.core.text import a_kind, short
from headrace.errors import InvalidJob

HIDDEN = "\x1f"
MAX_INDEXED = 10
_MAX_TEXT = 100  # characters of a name and its value; longer ones are hashed
_STORABLE = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]*")
_ABSENT = object()

Places = tuple[tuple[str, int], ...]  # names, each with its position among the positional arguments, or -1


def places_of(names: Sequence[str], positional: Sequence[str]) -> Places:
    """Where the values of these parameters are in a call."""
    return tuple((name, positional.index(name) if name in positional else -1) for name in names)


def index_tags(task: str, places: Places, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[str]:
    """The hidden tags of a call. An argument that is not given, None, or the result of another job has none."""
    for name, place in places:
        value = args[place] if 0 <= place < len(args) else kwargs.get(name, _ABSENT)
        if value is _ABSENT or value is None or is_result_ref(value):
            continue
        text = _text_of(value)
        if text is None:
            raise InvalidJob(
                f"{task}() argument '{name}': the index takes a text, a number, a bool, a date, a time or a UUID, "
                f"not {a_kind(value)}; leave it out of index=(...)",
                field=name,
            )
        yield _tag(name, text)


def tag_of(name: Any, value: Any) -> str:
    """The hidden tag to search for; InvalidJob if no job can have it."""
    text = _text_of(value)
    if not isinstance(name, str) or not name.isidentifier():
        raise InvalidJob(f"args: {short(name)} is not the name of a parameter", field="args", value=name)
    if text is None:
        raise InvalidJob(
            f"args: {name}: expected a text, a number, a bool, a date, a time or a UUID, got {short(value)}",
            field="args",
            value=value,
        )
    return _tag(name, text)


def _text_of(value: Any) -> str | None:
    if type(value) is str:
        return value
    if type(value) is int and -(1 << 63) < value < 1 << 63:
        return str(value)
    try:
        encoded = codec.encode(value, models=True)
    except InvalidJob:
        return None
    if MARK in encoded:
        return None
    tree = msgspec.json.decode(encoded)
    content = scalar_of(tree)
    return content if content is None or isinstance(content, str) else msgspec.json.encode(content).decode()


def _tag(name: str, text: str) -> str:
    found = f"{name}={text}"
    if len(found) > _MAX_TEXT or not _STORABLE.fullmatch(found):
        digest = hashlib.blake2b(found.encode("utf-8", "surrogatepass"), digest_size=16)
        found = f"#{digest.hexdigest()}"
    return HIDDEN + found
