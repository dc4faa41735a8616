"""Jobs by filters; bulk actions on picked or matching jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.datastructures import QueryParams

from headrace.app.queues.queues import QueueStats
from headrace.core.jobs.states import State, Trigger, sources
from headrace.errors import InvalidJob
from headrace.web import text_search
from headrace.web.pages import formatting
from headrace.web.pages.background import patiently
from headrace.web.pages.job_view import cards
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, Confirmation, View

PAGE = 50
# Jobs a page scans when no index serves the filters; text search is slower.
REACH, REACH_OF_TEXT = 50_000, 5_000
AGES = {"15m": 900, "1h": 3600, "24h": 86_400, "7d": 7 * 86_400}
_TEXTS = ("queue", "task", "tag", "worker", "text", "flow")
_OTHERS = ("state", "since", "until", "archived", "cursor")
_EVENTS = {"cancel": Trigger.CANCEL, "retry": Trigger.REVIVE, "promote": Trigger.HURRY, "delete": Trigger.DELETE}
_DID = {"cancel": "cancelled", "retry": "started anew", "promote": "promoted", "delete": "deleted"}


def show(visit: PageRequest) -> Mapping[str, Any]:
    given = visit.request.query_params
    filters = filters_of(given, visit.now)
    archived = given.get("archived") == "yes"
    reach = REACH_OF_TEXT if "text" in filters else REACH
    page = text_search.find(
        visit.app, filters, archived=archived, limit=PAGE, cursor=visit.asked("cursor"), reach=reach
    )
    queues = visit.page_cache.counted()
    return {
        "jobs": cards(page, visit.app),
        "cursor": page.cursor,
        "reached": reach if page.cursor and len(page) < PAGE and not archived else None,
        "given": {name: given.get(name, "").strip() for name in (*_TEXTS, *_OTHERS)},
        "filters": filters,
        "archived": archived,
        "count": None if queues is None or archived else _by_state(queues, filters.get("queue")),
        "countable": not (filters.keys() - {"state", "queue"}),
        "queues": [stats.queue for stats in queues or ()],
        "tasks": known_tasks(visit),
        "ages": AGES,
        "query": {name: value for name, value in given.items() if name != "cursor" and value},
        "topics": (f"queue:{filters['queue']}",) if "queue" in filters else (),
    }


def _by_state(queues: Sequence[QueueStats], queue: str | None) -> dict[str, int]:
    chosen = [stats for stats in queues if queue in (None, stats.queue)]
    return {state.value: sum(getattr(stats, state) for stats in chosen) for state in State}


def known_tasks(visit: PageRequest) -> list[str]:
    """The names of tasks known to this app or a worker."""
    return sorted({*visit.app.tasks, *(name for worker in visit.page_cache.workers() for name in worker.tasks)})


def filters_of(given: QueryParams, now: datetime) -> dict[str, Any]:
    """The filters of `app.jobs` in the query."""
    filters: dict[str, Any] = {name: text for name in _TEXTS if (text := given.get(name, "").strip())}
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


def _meant(visit: PageRequest) -> tuple[str, dict[str, Any], str]:
    """The action, its filters, and their description."""
    does = visit.said("do") or ""
    if does not in _EVENTS:
        raise InvalidJob(f"do: expected one of {', '.join(_EVENTS)}, got {does!r}")
    if ids := visit.form.getlist("id"):
        return does, {"ids": ids}, "picked"
    query = visit.said("query") or ""
    filters = filters_of(QueryParams(query), visit.now)
    if not filters:
        raise InvalidJob("Pick jobs, or filter the list first.")
    return does, filters, ", ".join(f"{name} {_told(value)}" for name, value in filters.items())


def _told(value: Any) -> str:
    if isinstance(value, datetime):
        return formatting.stamp(value)
    return " or ".join(value) if isinstance(value, list) else str(value)


def _movable(does: str, filters: Mapping[str, Any]) -> dict[str, Any]:
    """The filters, narrowed to states that the action applies to."""
    asked = filters.get("state")
    try:
        states = set(State) if asked is None else {State(asked)} if isinstance(asked, str) else {*map(State, asked)}
    except ValueError:
        raise InvalidJob(f"state: {_told(asked)!r} is not one of {', '.join(State)}") from None
    if does == "retry" and asked is None and "ids" not in filters:
        states = {State.FAILED}
    return {**filters, "state": sorted(states & sources(_EVENTS[does]))}


def _ask_bulk(visit: PageRequest) -> Confirmation | None:
    does, filters, words = _meant(visit)
    many = visit.app.jobs.count(**text_search.with_ids_for_text(visit.app, _movable(does, filters)))
    if not many:
        raise InvalidJob(f"None of these jobs can be {_DID[does]}.")
    told = "1 job" if many == 1 else f"{formatting.exact(many)} jobs"
    detail = "This can’t be undone." if does in ("delete", "cancel") else "Jobs in other states do not change."
    return Confirmation(f"{does.capitalize()} {told}?", f"{does.capitalize()} {told}", f"Selected: {words}. {detail}")


def _bulk(visit: PageRequest) -> ActionResult:
    does, filters, words = _meant(visit)
    act: Callable[..., int] = getattr(visit.app.jobs, does)
    many = patiently(lambda: act(**text_search.with_ids_for_text(visit.app, _movable(does, filters))))
    if many is None:
        return ActionResult(f"The jobs are being {_DID[does]} in the background.", target=words)
    told = "1 job was" if many == 1 else f"{formatting.exact(many)} jobs were"
    return ActionResult(f"{told} {_DID[does]}.", target=words)


VIEWS = [View(path="/jobs", template="jobs.html", show=show, label="Jobs", icon="jobs", key="j")]
ACTIONS = [Action(path="/jobs", what="jobs.bulk", do=_bulk, ask=_ask_bulk)]
