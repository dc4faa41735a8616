"""Bulk actions on jobs by a filter, and counts for confirmation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

from headrace.app.app import Headrace
from headrace.core.jobs.states import State, Trigger, sources

Act = Literal["cancel", "retry", "promote", "delete"]
ACTS: tuple[Act, ...] = get_args(Act)
_EVENTS: dict[Act, Trigger] = {
    "cancel": Trigger.CANCEL,
    "retry": Trigger.REVIVE,
    "promote": Trigger.HURRY,
    "delete": Trigger.DELETE,
}


def act_on_many(app: Headrace, act: Act, filters: dict[str, Any]) -> int:
    """Run the action; return the number of changed jobs."""
    acts: dict[Act, Callable[..., int]] = {
        "cancel": app.jobs.cancel,
        "retry": app.jobs.retry,
        "promote": app.jobs.promote,
        "delete": app.jobs.delete,
    }
    return acts[act](**filters)


def would_concern(app: Headrace, act: Act, filters: dict[str, Any]) -> int:
    """The number of jobs the action would change now."""
    asked = filters.get("state") or ([State.FAILED] if act == "retry" and "ids" not in filters else [*State])
    states = [state for state in asked if State(state) in sources(_EVENTS[act])]
    return app.jobs.count(**{**filters, "state": states}) if states else 0
