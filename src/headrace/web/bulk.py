"""Bulk actions on jobs by a filter, and counts for confirmation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

from headrace.app.app import Headrace
from headrace.core.jobs.states import State, Trigger, sources

BulkAction = Literal["cancel", "retry", "promote", "delete"]
BULK_ACTIONS: tuple[BulkAction, ...] = get_args(BulkAction)
_TRIGGERS: dict[BulkAction, Trigger] = {
    "cancel": Trigger.CANCEL,
    "retry": Trigger.REVIVE,
    "promote": Trigger.PROMOTE_NOW,
    "delete": Trigger.DELETE,
}


def run_bulk(app: Headrace, action: BulkAction, filters: dict[str, Any]) -> int:
    """Run the action; return the number of changed jobs."""
    functions: dict[BulkAction, Callable[..., int]] = {
        "cancel": app.jobs.cancel,
        "retry": app.jobs.retry,
        "promote": app.jobs.promote,
        "delete": app.jobs.delete,
    }
    return functions[action](**filters)


def count_affected(app: Headrace, action: BulkAction, filters: dict[str, Any]) -> int:
    """The number of jobs the action would change now."""
    requested = filters.get("state") or ([State.FAILED] if action == "retry" and "ids" not in filters else [*State])
    states = [state for state in requested if State(state) in sources(_TRIGGERS[action])]
    return app.jobs.count(**{**filters, "state": states}) if states else 0
