"""Events from job history: one table for everything except starts and successes.

A store appends history rows as they are; this module decides their events when they are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.core.jobs.states import State, Trigger

_MAX_MESSAGE_CHARS = 500  # characters of a message: an event is a hint, the job has the full text


Entry = dict[str, Any]
Part = tuple[str, Entry]
ENDS_A_RUN = frozenset({"job.completed", "job.attempt_failed", "job.stalled"})


def events_from(entry: Entry) -> list[Part]:
    """The events of one history entry, each with its data; none if it concerns only the job.

    An entry has `event`, `source` and `target`, and the other fields of its history row.
    """
    to_parts = _PARTS.get(entry["event"])
    parts = to_parts(entry) if to_parts else []
    return [(kind, {name: value for name, value in data.items() if value is not None}) for kind, data in parts]


def run_of(entry: Entry, at: int) -> int | None:
    """The duration of the run that the entry ends, in milliseconds; None if there was none."""
    started = entry.get("started_at")
    return None if started is None else max((entry.get("finished_at") or at) - started, 0)


def _error(entry: Entry) -> Entry:
    message = entry.get("error_message")
    return {"error": entry.get("error_type"), "message": None if message is None else message[:_MAX_MESSAGE_CHARS]}


def _reason(entry: Entry) -> Entry:
    return {"reason": entry.get("detail")}


def _retried(entry: Entry) -> list[Part]:
    return [("job.attempt_failed", _error(entry)), ("job.retry_scheduled", {"run_at": entry.get("run_at")})]


def _failed(entry: Entry) -> list[Part]:
    final = ("job.failed", {**_reason(entry), **_error(entry)})
    return [("job.attempt_failed", _error(entry)), final] if entry["source"] == State.RUNNING else [final]


def _expired(entry: Entry) -> list[Part]:
    stalled = ("job.stalled", {**_reason(entry), "started_at": entry.get("started_at")})
    return (
        [stalled, ("job.failed", {**_reason(entry), **_error(entry)})] if entry["target"] == State.FAILED else [stalled]
    )


def _unblocked(entry: Entry) -> list[Part]:
    met: list[Part] = [("job.dependencies_met", {"state": entry["target"]})]
    return [*met, ("job.completed", {})] if entry["target"] == State.COMPLETED else met


def _again(entry: Entry) -> list[Part]:
    """An existing job that will run again, now or later."""
    if entry["target"] == State.SCHEDULED:
        return [("job.scheduled", {**_reason(entry), "run_at": entry.get("run_at")})]
    return [("job.enqueued", {**_reason(entry), "again": True})]


def _single(kind: str) -> Callable[[Entry], list[Part]]:
    return lambda entry: [(kind, _reason(entry))]


_PARTS: dict[str, Callable[[Entry], list[Part]]] = {
    Trigger.RETRY: _retried,
    Trigger.FAIL: _failed,
    Trigger.LEASE_EXPIRED: _expired,
    Trigger.UNBLOCK: _unblocked,
    Trigger.SNOOZE: _again,
    Trigger.REVIVE: _again,
    Trigger.RELEASE: _single("job.released"),
    Trigger.CANCEL: _single("job.cancelled"),
    Trigger.EXPIRE: _single("job.cancelled"),
    Trigger.CANCEL_REQUEST: _single("job.updated"),
    Trigger.PROMOTE_NOW: _single("job.promoted"),
    Trigger.UPDATE: _single("job.updated"),
    Trigger.STALE: lambda entry: [
        ("job.stale", _reason(entry)),
        ("job.failed", {**_reason(entry), "error": "StaleJob"}),
    ],
    "review": _single("job.stale"),
    "lease_lost": _single("job.lease_lost"),
}
