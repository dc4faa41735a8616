"""How long a job may stay in a state, and how long it is kept when it is over: what users say, and what is stored.

Three layers say it: a task over its queue over the settings. What one leaves unsaid, the next one down decides.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal, get_args

from msgspec import UNSET, Struct, UnsetType, structs

from headrace.core.clock import to_ms
from headrace.core.words import short
from headrace.errors import InvalidJob

OnStale = Literal["dead", "fail", "review"]
Span = float | timedelta | None | UnsetType
_LONGEST = 100 * 366 * 86_400
_AT_ONCE = ("keep_completed", "keep_failed", "keep_cancelled")


class Terms(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A Lifecycle as it is stored: milliseconds, None for no limit. What is unset follows the next layer down."""

    max_scheduled: int | UnsetType | None = UNSET
    max_waiting: int | UnsetType | None = UNSET
    max_pending: int | UnsetType | None = UNSET
    max_retrying: int | UnsetType | None = UNSET
    max_running: int | UnsetType | None = UNSET
    max_age: int | UnsetType | None = UNSET
    on_stale: OnStale | UnsetType = UNSET
    keep_completed: int | UnsetType | None = UNSET
    keep_failed: int | UnsetType | None = UNSET
    keep_cancelled: int | UnsetType | None = UNSET
    archive: bool | UnsetType = UNSET
    remove_on_complete: bool | int | UnsetType = UNSET
    remove_on_fail: bool | int | UnsetType = UNSET

    def over(self, below: Terms) -> Terms:
        """These terms, and what they leave unsaid taken from `below`."""
        said = {name: value for name, value in structs.asdict(self).items() if value is not UNSET}
        return structs.replace(below, **said)


class Lifecycle(Struct, frozen=True, kw_only=True):
    """What becomes of jobs that stay too long, and how long finished ones are kept.

    Times are seconds or a timedelta; None is no limit. `max_pending` and its like are how long a job may be in that
    state: a scheduled, pending or retrying one from the time it is due, a waiting one from its submission, a running
    one from its start. `max_age` counts from the time it was first due. A job that is over them is stale, and
    `on_stale` tells what happens: "dead" fails it and puts it on the desk of dead letters, "fail" only fails it, and
    "review" leaves it as it is and shows it. `keep_completed`, `keep_failed` and `keep_cancelled` are how long a
    finished job stays with the others before it goes into the archive or, without `archive`, is deleted.
    """

    max_scheduled: Span = UNSET
    max_waiting: Span = UNSET
    max_pending: Span = UNSET
    max_retrying: Span = UNSET
    max_running: Span = UNSET
    max_age: Span = UNSET
    on_stale: OnStale | UnsetType = UNSET
    keep_completed: Span = UNSET
    keep_failed: Span = UNSET
    keep_cancelled: Span = UNSET
    archive: bool | UnsetType = UNSET

    def __post_init__(self) -> None:
        self.terms()

    def terms(self) -> Terms:
        """As it is stored; InvalidJob that names the field if a value is not allowed."""
        return Terms(**{name: _checked(name, value) for name, value in structs.asdict(self).items()})


def _checked(name: str, value: Any) -> Any:
    if value is UNSET:
        return UNSET
    if name == "archive":
        if not isinstance(value, bool):
            raise InvalidJob(f"lifecycle: archive should be True or False, got {short(value)}")
        return value
    if name == "on_stale":
        if value not in get_args(OnStale):
            raise InvalidJob(f"lifecycle: on_stale should be one of {', '.join(get_args(OnStale))}, got {short(value)}")
        return value
    return _span(name, value)


def _span(name: str, value: Any) -> int | None:
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    least = 0 if name in _AT_ONCE else 0.001
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not least <= seconds <= _LONGEST:
        raise InvalidJob(f"lifecycle: {name} should be seconds, a timedelta, or None for no limit, got {short(value)}")
    return to_ms(seconds)
