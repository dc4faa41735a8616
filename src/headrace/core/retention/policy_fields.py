"""The fields of a lifecycle policy as users write them: their bounds, texts and checks. Times in seconds."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, Struct

from headrace.core.clock import to_ms
from headrace.core.fields import checked, entry, fields_of
from headrace.core.option_times import SHORTEST
from headrace.core.text import short
from headrace.errors import InvalidJob

OnStale = Literal["dead", "fail", "review"]
MAX_SECONDS = 100 * 366 * 86_400
MAX_KEPT = 1_000_000


def _span(name: str, value: Any) -> int | None:
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    least = 0 if name.startswith("keep_") else SHORTEST
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not least <= seconds <= MAX_SECONDS:
        text = f"lifecycle: {name} should be seconds, a timedelta, or None for no limit, got {short(value)}"
        raise InvalidJob(text, field=name, value=value)
    return to_ms(seconds)


def _on_stale(name: str, value: Any) -> OnStale:
    if value not in get_args(OnStale):
        text = f"lifecycle: {name} should be one of {', '.join(get_args(OnStale))}, got {short(value)}"
        raise InvalidJob(text, field=name, value=value)
    known: OnStale = value
    return known


def _archive(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidJob(f"lifecycle: {name} should be True or False, got {short(value)}", field=name, value=value)
    return value


def check_removal(name: str, value: Any) -> bool | int:
    """Whether finished jobs are removed at once, or how many of the newest stay."""
    if isinstance(value, bool) or (type(value) is int and 1 <= value <= MAX_KEPT):
        return value
    raise InvalidJob(
        f"{name}: expected True, False, or how many of the newest stay (1 to {MAX_KEPT:,}), got {short(value)}",
        value=value,
    )


def _time(name: str, text: str) -> Meta:
    label = f"{name.replace('_', ' ').capitalize()}, seconds"
    return entry(text, "TIME", label, "unchanged", typed=": seconds or 10m, 2h, 3d; none for no limit.")


def _longest(state: str) -> Meta:
    return _time(f"max_{state}", f"Maximum time a job may be {state}")


def _kept(state: str) -> Meta:
    return _time(f"keep_{state}", f"Retention of {state} jobs")


def _removed(state: str) -> Meta:
    return entry(f"Remove {state} jobs at once", "WORD", typed=": yes, no, or the number of newest to keep.")


_Limit = Annotated[float, checked(_span, minimum=SHORTEST, maximum=MAX_SECONDS)]
_Retention = Annotated[float, checked(_span, minimum=0, maximum=MAX_SECONDS)]
Kept = Annotated[int, checked(check_removal, minimum=1, maximum=MAX_KEPT)]


class PolicyFields(Struct, frozen=True, kw_only=True):
    """The fields of a lifecycle policy, of a task, a queue or any job."""

    task: str | None
    queue: str | None
    max_scheduled: Annotated[_Limit | None, _longest("scheduled")]
    max_waiting: Annotated[_Limit | None, _longest("waiting")]
    max_pending: Annotated[_Limit | None, _longest("pending")]
    max_retrying: Annotated[_Limit | None, _longest("retrying")]
    max_running: Annotated[_Limit | None, _longest("running")]
    max_age: Annotated[_Limit | None, _time("max_age", "Maximum age of a job")]
    on_stale: Annotated[
        OnStale,
        checked(_on_stale),
        entry("Action on stale jobs: dead, fail or review.", "WORD", "Stale jobs", "unchanged"),
    ]
    keep_completed: Annotated[_Retention | None, _kept("completed")]
    keep_failed: Annotated[_Retention | None, _kept("failed")]
    keep_cancelled: Annotated[_Retention | None, _kept("cancelled")]
    archive: Annotated[
        bool,
        checked(_archive),
        entry("Archive jobs past their retention instead of deleting them", "WORD", typed=": yes or no."),
    ]
    remove_on_complete: Annotated[bool | Kept, _removed("completed")]
    remove_on_fail: Annotated[bool | Kept, _removed("failed")]


POLICY_FIELDS = {name: field for name, field in fields_of(PolicyFields).items() if field.text}
SPANS = tuple(name for name, field in POLICY_FIELDS.items() if field.kind is float)
