"""Jobs by filters; bulk actions on picked or matching jobs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.datastructures import QueryParams

from headrace.app.queues.queues import QueueStats
from headrace.core.jobs.states import State, Trigger, sources
from headrace.errors import InvalidJob
from headrace.web import text_search
from headrace.web.pages import formatting
from headrace.web.pages.background import run_with_timeout
from headrace.web.pages.job_view import summaries
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, Confirmation, View

PAGE = 50
# Jobs a page scans when no index serves the filters; text search is slower.
SCAN_LIMIT, TEXT_SCAN_LIMIT = 50_000, 5_000
AGES = {"15m": 900, "1h": 3600, "24h": 86_400, "7d": 7 * 86_400}
_TEXTS = ("queue", "task", "tag", "worker", "text", "flow")
_ARGUMENT = re.compile(r'(?:^|(?<=\s))args\.(?P<name>[^\W\d]\w*):(?:"(?P<quoted>[^"]*)"|(?P<plain>\S+))')
_OTHER_PARAMETERS = ("state", "since", "until", "archived", "cursor")
_TRIGGERS = {
    "cancel": Trigger.CANCEL,
    "retry": Trigger.REVIVE,
    "promote": Trigger.PROMOTE_NOW,
    "delete": Trigger.DELETE,
}
_PAST_TENSE = {"cancel": "cancelled", "retry": "started anew", "promote": "promoted", "delete": "deleted"}


def show(request: PageRequest) -> Mapping[str, Any]:
    given = request.http.query_params
    filters = filters_of(given, request.now)
    archived = given.get("archived") == "yes"
    scan_limit = TEXT_SCAN_LIMIT if "text" in filters else SCAN_LIMIT
    page = text_search.find(
        request.app, filters, archived=archived, limit=PAGE, cursor=request.query("cursor"), reach=scan_limit
    )
    queues = request.page_cache.queues_or_none()
    return {
        "jobs": summaries(page, request.app),
        "cursor": page.cursor,
        "scanned": page.searched,
        "unindexed": next(
            (name for name in filters.get("args", ()) if not request.app.services.is_indexed(name)), None
        ),
        "given": {name: given.get(name, "").strip() for name in (*_TEXTS, *_OTHER_PARAMETERS)},
        "filters": filters,
        "archived": archived,
        "count": None if queues is None or archived else _by_state(queues, filters.get("queue")),
        "countable": not (filters.keys() - {"state", "queue"}),
        "queues": [stats.queue for stats in queues or ()],
        "tasks": known_tasks(request),
        "ages": AGES,
        "query": {name: value for name, value in given.items() if name != "cursor" and value},
        "topics": (f"queue:{filters['queue']}",) if "queue" in filters else (),
    }


def _by_state(queues: Sequence[QueueStats], queue: str | None) -> dict[str, int]:
    counted = [stats for stats in queues if queue in (None, stats.queue)]
    return {state.value: sum(getattr(stats, state) for stats in counted) for state in State}


def known_tasks(request: PageRequest) -> list[str]:
    """The names of tasks known to this app or a worker."""
    return sorted({*request.app.tasks, *(name for worker in request.page_cache.workers() for name in worker.tasks)})


def filters_of(given: QueryParams, now: datetime) -> dict[str, Any]:
    """The filters of `app.jobs` in the query."""
    filters: dict[str, Any] = {name: text for name in _TEXTS if (text := given.get(name, "").strip())}
    if found := _ARGUMENT.search(filters.get("text", "")):
        filters["args"] = {found["name"]: found["quoted"] if found["quoted"] is not None else found["plain"]}
        filters["text"] = (filters["text"][: found.start()] + filters["text"][found.end() :]).strip()
        if not filters["text"]:
            del filters["text"]
    if state := given.get("state", "").strip():
        filters["state"] = state.split(",") if "," in state else state
    for name in ("since", "until"):
        if text := given.get(name, "").strip():
            filters[name] = _moment(name, text, now)
    return filters


def _moment(name: str, text: str, now: datetime) -> datetime:
    if text in AGES:
        return now - timedelta(seconds=AGES[text])
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise InvalidJob(f"{name}: {text!r} is neither an age such as 1h nor a time such as 2025-06-01T12:00") from None


# -- in bulk


def _selection(request: PageRequest) -> tuple[str, dict[str, Any], str]:
    """The action, its filters, and their description."""
    action = request.form_field("do") or ""
    if action not in _TRIGGERS:
        raise InvalidJob(f"do: expected one of {', '.join(_TRIGGERS)}, got {action!r}")
    if ids := request.form.getlist("id"):
        return action, {"ids": ids}, "picked"
    query = request.form_field("query") or ""
    filters = filters_of(QueryParams(query), request.now)
    if not filters:
        raise InvalidJob("Pick jobs, or filter the list first.")
    return action, filters, ", ".join(f"{name} {_value_text(value)}" for name, value in filters.items())


def _value_text(value: Any) -> str:
    if isinstance(value, datetime):
        return formatting.stamp(value)
    if isinstance(value, dict):
        return ", ".join(f"{name}={one}" for name, one in value.items())
    return " or ".join(value) if isinstance(value, list) else str(value)


def _applicable(action: str, filters: Mapping[str, Any]) -> dict[str, Any]:
    """The filters, narrowed to states that the action applies to."""
    requested = filters.get("state")
    try:
        states = (
            set(State)
            if requested is None
            else {State(requested)}
            if isinstance(requested, str)
            else {*map(State, requested)}
        )
    except ValueError:
        raise InvalidJob(f"state: {_value_text(requested)!r} is not one of {', '.join(State)}") from None
    if action == "retry" and requested is None and "ids" not in filters:
        states = {State.FAILED}
    return {**filters, "state": sorted(states & sources(_TRIGGERS[action]))}


def _confirm_bulk(request: PageRequest) -> Confirmation | None:
    action, filters, description = _selection(request)
    count = request.app.jobs.count(**text_search.with_ids_for_text(request.app, _applicable(action, filters)))
    if not count:
        raise InvalidJob(f"None of these jobs can be {_PAST_TENSE[action]}.")
    count_text = "1 job" if count == 1 else f"{formatting.exact(count)} jobs"
    detail = "This can’t be undone." if action in ("delete", "cancel") else "Jobs in other states do not change."
    return Confirmation(
        f"{action.capitalize()} {count_text}?",
        f"{action.capitalize()} {count_text}",
        f"Selected: {description}. {detail}",
    )


def _bulk(request: PageRequest) -> ActionResult:
    action, filters, description = _selection(request)
    function: Callable[..., int] = getattr(request.app.jobs, action)
    count = run_with_timeout(
        lambda: function(**text_search.with_ids_for_text(request.app, _applicable(action, filters)))
    )
    if count is None:
        return ActionResult(f"The jobs are being {_PAST_TENSE[action]} in the background.", target=description)
    count_text = "1 job was" if count == 1 else f"{formatting.exact(count)} jobs were"
    return ActionResult(f"{count_text} {_PAST_TENSE[action]}.", target=description)


VIEWS = [View(path="/jobs", template="jobs/jobs.html", show=show, label="Jobs", icon="jobs", key="j")]
ACTIONS = [Action(path="/jobs", name="jobs.bulk", run=_bulk, confirmation=_confirm_bulk)]
