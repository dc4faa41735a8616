"""What the facade of lifecycles hands out."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, structs

from headrace.core.lifecycle import OnStale, Terms, TermsBook


class LifecycleTerms(Struct, frozen=True, kw_only=True):
    """How long jobs of a task, of a queue, or of any may stay: seconds, None for no limit.

    `origin` tells of each field who says so: "task, by an operator", "task, by its code", "queue, by an operator", or
    "setting".
    """

    task: str | None
    queue: str | None
    max_scheduled: float | None
    max_waiting: float | None
    max_pending: float | None
    max_retrying: float | None
    max_running: float | None
    max_age: float | None
    on_stale: OnStale
    keep_completed: float | None
    keep_failed: float | None
    keep_cancelled: float | None
    archive: bool
    remove_on_complete: bool | int
    remove_on_fail: bool | int
    origin: dict[str, str]


SPANS = tuple(name for name in Terms.__struct_fields__ if name.startswith(("max_", "keep_")))


def terms_of(book: TermsBook, task: str | None, queue: str | None) -> LifecycleTerms:
    """What holds for jobs of this task in this queue, and who says so."""
    # The empty text names no task and no queue: nothing is said of it.
    holding = structs.asdict(book.of(task or "", queue or ""))
    origin = dict.fromkeys(holding, "setting")
    for who, terms in reversed(list(book.layers(task, queue))):
        origin |= {name: who for name, value in structs.asdict(terms).items() if value is not UNSET}
    if origin["on_stale"] == "setting" and any(who != "setting" for name, who in origin.items() if _is_limit(name)):
        origin["on_stale"] = "follows from its thresholds"
    values = {name: in_seconds(name, value) for name, value in holding.items()}
    return LifecycleTerms(task=task, queue=queue, origin=origin, **values)


def _is_limit(name: str) -> bool:
    return name.startswith("max_")


def in_seconds(name: str, value: Any) -> Any:
    """The value of a field of Terms as people write it."""
    return value / 1000 if name in SPANS and isinstance(value, int) else value
