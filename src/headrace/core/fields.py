"""Fields that users write, each described once: for Python, REST, the command line and the forms of the dashboard.

    class TaskRuleFields(Struct, frozen=True, kw_only=True):
        burst: Annotated[Burst | None, entry("Maximum starts at once after a pause.", "N", "Burst")] = None

The type has the bounds for the schema and the function that checks a value, the entry has the texts.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from msgspec import Meta, Struct, structs

Check = Callable[[str, Any], Any]


class Field(NamedTuple):
    """One field.

    `kind` is the plain type of its value, or of each of its `many`; `choices` are the words that are allowed.
    """

    name: str
    type: Any
    kind: type
    choices: tuple[str, ...] = ()
    many: bool = False
    may_be_none: bool = False
    text: str = ""
    help: str = ""  # on the command line
    metavar: str | None = None
    label: str = ""
    hint: str = ""
    check: Check | None = None


def checked(check: Check, **schema: Any) -> Meta:
    """The function that checks a value and returns it as stored, and the schema that documents what it accepts."""
    return Meta(extra_json_schema=schema, extra={"check": check})


def between(minimum: float, maximum: float) -> Meta:
    """The bounds of a number, for the schema."""
    return Meta(extra_json_schema={"minimum": minimum, "maximum": maximum})


def entry(text: str, metavar: str | None = None, label: str = "", hint: str = "", *, typed: str = "") -> Meta:
    """What it means, its metavar on the command line, and its label and placeholder in a form.

    `typed` continues the text on the command line: how a value is typed there.
    """
    meaning = text.removesuffix(".") + "."
    texts = {"text": meaning, "help": text + typed, "metavar": metavar, "label": label, "hint": hint}
    return Meta(description=meaning, extra=texts)


def fields_of(record: type[Struct]) -> dict[str, Field]:
    return {info.name: _field(info.name, info.type) for info in structs.fields(record)}


def _field(name: str, type_: Any) -> Field:
    kinds, texts = _parts(type_)
    choices = tuple(kind for kind in kinds if isinstance(kind, str))
    kind = next((kind for kind in kinds if kind in (bool, int, float, datetime)), str)
    return Field(name, type_, kind, choices, Ellipsis in kinds, NoneType in kinds, **texts)


def _parts(type_: Any) -> tuple[list[Any], dict[str, Any]]:
    """The plain types and the words in a type, and what its annotations say."""
    if get_origin(type_) is Literal:
        return list(get_args(type_)), {}
    if not get_args(type_):
        return [type_], {}  # or the ellipsis of a tuple
    parts = get_args(type_)[:1] if get_origin(type_) is Annotated else get_args(type_)
    found = [_parts(part) for part in parts]
    texts = {name: value for _, said in found for name, value in said.items()}
    for meta in get_args(type_)[1:] if get_origin(type_) is Annotated else ():
        texts |= getattr(meta, "extra", None) or {}
    return [kind for kinds, _ in found for kind in kinds], texts
