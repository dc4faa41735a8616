"""Models: values that are written as their plain fields, and that an annotation can rebuild from them.

A model is an Enum member, or an instance of a dataclass, a msgspec Struct or a pydantic model. This module
recognizes models and reads their fields; `annotations` rebuilds them.
"""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from enum import Enum
from typing import Any

import msgspec


def is_model(kind: type) -> bool:
    return issubclass(kind, (Enum, msgspec.Struct)) or dataclasses.is_dataclass(kind) or is_pydantic(kind)


def is_pydantic(kind: type) -> bool:
    """Recognized by its methods: pydantic itself is never imported."""
    return hasattr(kind, "model_dump") and hasattr(kind, "model_validate")


def field_names(kind: type) -> tuple[str, ...]:
    """The fields of a model class; an Enum has none."""
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    if is_pydantic(kind):
        return tuple(getattr(kind, "model_fields", ()))
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()


def struct_tag(kind: type) -> dict[str, Any]:
    """The field by which msgspec distinguishes the Structs of a union, if this class has one."""
    config = getattr(kind, "__struct_config__", None)
    return {} if config is None or config.tag is None else {config.tag_field: config.tag}


def plain_fields(value: Any) -> Any:
    """The fields of a model as Python values; nested models are left as they are."""
    kind = type(value)
    if isinstance(value, Enum):
        return value.value
    if is_pydantic(kind):
        return value.model_dump(round_trip=True, warnings=False)
    # A field without a default that `__init__` never set is left out.
    present = {name: getattr(value, name) for name in field_names(kind) if hasattr(value, name)}
    return struct_tag(kind) | present


def json_fields(value: Any) -> Any:
    """A pydantic model the way pydantic itself writes JSON: the only way for fields such as a URL."""
    return value.model_dump(mode="json", round_trip=True, warnings=False)


def same(one: Any, other: Any) -> bool:
    """Whether a rebuilt value is the one it was made from: models of the same class, field by field.

    Plain equality won't do: nan differs from itself, a dataclass may have no `==`, and the member of an
    IntEnum equals the bare number that a careless rebuild leaves behind.
    """
    kind = type(one)
    if kind is not type(other) and (is_model(kind) or is_model(type(other))):
        return False
    if names := field_names(kind):
        return all(same(getattr(one, name, None), getattr(other, name, None)) for name in names)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other) or (_is_nan(one) and _is_nan(other))


def _is_nan(value: Any) -> bool:
    return isinstance(value, (float, Decimal)) and str(value).lower().endswith("nan")
