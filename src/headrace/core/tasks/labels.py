"""The words that users give: labels, tags, capabilities, indexed parameters and keys. They are checked here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from headrace.core.tasks.index import MAX_INDEXED
from headrace.core.text import short
from headrace.errors import InvalidJob

MAX_LABELS = 100
# Lone surrogates have no UTF-8, so no store could hold them.
LABEL = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,100}")


def check_label(name: str, value: Any) -> str:
    """A short text that a user gives as a name."""
    if not isinstance(value, str) or not LABEL.fullmatch(value):
        raise InvalidJob(f"{name}: expected a name of 1 to 100 characters, got {short(value)}", value=value)
    return value


def check_labels(name: str, value: Any) -> tuple[str, ...]:
    """Words, each of them once."""
    listed = isinstance(value, Iterable) and not isinstance(value, str | bytes)
    labels: list[Any] = list(islice(value, MAX_LABELS + 1)) if listed else [None]
    if len(labels) > MAX_LABELS:
        raise InvalidJob(f"{name}: at most {MAX_LABELS} words are allowed")
    if not all(isinstance(label, str) and LABEL.fullmatch(label) for label in labels):
        raise InvalidJob(
            f"{name}: expected a list of words of 1 to 100 characters, "
            f"none of them a control character, got {short(value)}",
            value=value,
        )
    return tuple(dict.fromkeys(labels))


def check_tags(name: str, value: Any) -> tuple[str, ...]:
    """Words; for a dict, each key with its value: {"env": "prod"} is `env:prod`."""
    return check_labels(name, [f"{key}:{one}" for key, one in value.items()] if isinstance(value, Mapping) else value)


def check_index(name: str, value: Any) -> tuple[str, ...]:
    """Names of parameters."""
    labels = check_labels(name, value)
    if not all(label.isidentifier() for label in labels) or len(labels) > MAX_INDEXED:
        raise InvalidJob(
            f"{name}: expected at most {MAX_INDEXED} names of parameters, such as ('order_id',), got {short(value)}",
            value=value,
        )
    return labels


def check_capabilities(name: str, value: Any) -> tuple[str, ...]:
    """Capabilities that workers have and jobs need."""
    labels = check_labels(name, value)
    if not all(label.strip() for label in labels):
        raise InvalidJob(f"{name}: a capability needs a name, such as 'gpu', got {short(value)}", value=value)
    return labels


def check_label_or_none(name: str, value: Any) -> str | None:
    """A key of a limit, or none."""
    if value is not None and not (isinstance(value, str) and LABEL.fullmatch(value)):
        raise InvalidJob(
            f"{name}: expected a name of 1 to 100 characters, such as a tenant's, got {short(value)}", value=value
        )
    return value
