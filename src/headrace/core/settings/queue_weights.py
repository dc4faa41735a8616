"""Parses a worker's queues and weights, in any form that a user may write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.core.tasks.options import check_queue
from headrace.errors import ConfigError, InvalidJob

Queues = dict[str, int]


def parse_queues(value: Any) -> Queues | None:
    """Queues and weights from "critical=3,default", a list of names or a dict."""
    if value is None:
        return None
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, Iterable):
        raise ConfigError(f"queues: expected names, or names with weights, got {value!r}")
    if isinstance(value, Mapping):
        pairs = [(str(name), weight) for name, weight in value.items()]
    else:
        pairs = [_weight_of(part) for part in value]
    for name, weight in pairs:
        if not isinstance(weight, int) or isinstance(weight, bool):
            raise ConfigError(f"queues: the weight of {name!r} must be a whole number, got {weight!r}")
        _ensure_name(name)
    return dict(pairs)


def _ensure_name(queue: str) -> None:
    try:
        check_queue("queues", queue)
    except InvalidJob as error:
        raise ConfigError(str(error)) from None


def _weight_of(part: Any) -> tuple[str, int]:
    name, _, weight = str(part).partition("=")
    if weight and not weight.strip().isdecimal():
        raise ConfigError(f"queues: {part!r} is not NAME or NAME=WEIGHT")
    return name.strip(), int(weight) if weight else 1
