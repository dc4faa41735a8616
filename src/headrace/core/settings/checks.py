"""Checks of setting values."""

from __future__ import annotations

import re

from headrace.core.dead_letters.records import REASONS
from headrace.core.settings.queue_weights import Queues

_CHANNEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,49}=(?:(?:slack|webhook)\+https?|smtps?)://\S+")
LONGEST = 100 * 366 * 86_400


def weighted(queues: Queues | None) -> bool:
    return queues is None or (bool(queues) and all(weight >= 1 for weight in queues.values()))


def are_channels(*texts: str) -> bool:
    return all(_CHANNEL.fullmatch(text) for text in texts)


def are_reasons(value: bool | tuple[str, ...]) -> bool:
    return isinstance(value, bool) or set(value) <= set(REASONS)


def is_time(seconds: float | None) -> bool:
    return seconds is None or 0 < seconds <= 366 * 86_400


def is_pause(seconds: float | None) -> bool:
    return not seconds or 0.1 <= seconds <= 366 * 86_400


def is_span(seconds: float | None) -> bool:
    return seconds is None or 0.001 <= seconds <= LONGEST


def is_kept(seconds: float | None) -> bool:
    return seconds is None or 0 <= seconds <= LONGEST


def is_label(value: str | None) -> bool:
    """None, or a short text in one line."""
    return value is None or (0 < len(value.strip()) <= 24 and value.isprintable())


def is_at_least(least: int, value: float | None) -> bool:
    return value is None or value >= least


def is_path(text: str) -> bool:
    return bool(text.strip()) and "\0" not in text and "://" not in text


def is_sql(url: str | None) -> bool:
    return url is None or url.lower().startswith(("sqlite:", "postgresql:", "postgres:"))


def is_local(url: object) -> bool:
    return str(url).lower().startswith(("sqlite:", "memory:"))
