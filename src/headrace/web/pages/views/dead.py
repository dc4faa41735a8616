"""Dead letters by groups: requeue, resolve, purge, one or many."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from starlette.datastructures import QueryParams

from headrace.app.dead_letters.records import DeadGroup
from headrace.core.dead_letters.records import BY_HAND, RESOLUTIONS, STATUSES
from headrace.errors import DeadLetterClosed, DeadLetterNotFound, HeadraceError, InvalidJob
from headrace.web.pages import formatting
from headrace.web.pages.background import run_with_timeout
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, Confirmation, View
from headrace.web.pages.views.jobs import AGES, filters_of

_PAGE = 50
_GROUPS = 20
_BATCH_SIZE = 500
_FILTERS = ("reason", "task", "queue", "fingerprint", "since", "until")


def show(request: PageRequest) -> Mapping[str, Any]:
    given = request.http.query_params
    status = given.get("status") or "pending"
    filters = filters_in(given, request)
    page = request.app.dead.list(
        status=None if status == "any" else status, limit=_PAGE, cursor=request.query("cursor"), **filters
    )
    stats = request.page_cache.shared_or_none(request.app.dead.stats)
    return {
        "dead_letters": page.dead_letters,
        "cursor": page.cursor,
        "current_cursor": request.query("cursor"),
        "status": status,
        "statuses": STATUSES,
        "count": {}
        if stats is None
        else {
            status_name: sum(getattr(reason_stats, status_name) for reason_stats in stats) for status_name in STATUSES
        },
        "reasons": stats or [],
        "groups": [] if filters or request.query("cursor") else _groups(request, status),
        "filters": filters,
        "given": {name: given.get(name, "") for name in _FILTERS},
        "ages": AGES,
        "query": str(QueryParams({name: given[name] for name in _FILTERS if given.get(name)})),
        "resolutions": RESOLUTIONS,
        "by_hand": BY_HAND,
        "topics": ("job", "dead"),
    }


def _groups(request: PageRequest, status: str) -> list[DeadGroup] | None:
    """The groups; None while they are counted."""

    def read(status_filter: str | None) -> list[DeadGroup]:
        return request.app.dead.groups(status=status_filter, limit=_GROUPS)

    return request.page_cache.shared_or_none(read, None if status == "any" else status)


def filters_in(given: QueryParams, request: PageRequest) -> dict[str, Any]:
    """The filters of `app.dead` in a query."""
    filters = {name: text for name in ("reason", "fingerprint") if (text := given.get(name, "").strip())}
    others = filters_of(given, request.now)
    return filters | {name: others[name] for name in ("task", "queue", "since", "until") if name in others}


def pending(request: PageRequest) -> int:
    """The number of pending dead letters. Must not raise: error pages show the navigation too."""
    try:
        return sum(
            reason_stats.pending for reason_stats in request.page_cache.shared_or_none(request.app.dead.stats) or ()
        )
    except HeadraceError:
        return 0


# -- by hand


def _add(request: PageRequest) -> ActionResult:
    job_id, reason = request.form_field("job_id") or "", request.form_field("reason") or BY_HAND
    dead_letter = request.app.dead.add(job_id, reason=reason, note=request.form_field("note"), by=request.viewer.name)
    return ActionResult(
        "The dead letter was created.", goto=request.url(f"/dead/{dead_letter.id}"), target=dead_letter.id
    )


# -- in bulk


def _selection(request: PageRequest) -> tuple[list[str], dict[str, Any], str]:
    """The picked ids or the filters of the list, and their description."""
    if ids := request.form.getlist("id"):
        if request.form_field("rate"):
            raise InvalidJob("A rate applies to all that match: filter the list, and pick none.")
        return ids, {}, "picked"
    filters = filters_in(QueryParams(request.form_field("query") or ""), request)
    if not filters:
        raise InvalidJob("Pick dead letters, or filter the list first.")
    description = ", ".join(
        f"{name} {formatting.stamp(value) if isinstance(value, datetime) else value}" for name, value in filters.items()
    )
    return [], {"until": _confirmed_at(request), **filters}, description


def _confirmed_at(request: PageRequest) -> datetime:
    """The time of the confirmation: later failures are not included."""
    try:
        return datetime.fromisoformat(request.form_field("confirmed") or "")
    except ValueError:
        return request.now + timedelta(milliseconds=1)


def _confirm_requeue(request: PageRequest) -> Confirmation:
    ids, filters, description = _selection(request)
    if ids:
        count, failed = len(ids), 0
    else:
        planned = request.app.dead.requeue_where(dry_run=True, rate=request.form_field("rate"), **filters)
        count, failed = planned.requeued, planned.permanently_failed
    if not count and not failed:
        raise InvalidJob("None of these dead letters is pending.")
    failed_text = f" {_permanently_failed_text(failed)}" if failed else ""
    rate_text = f" They start at {request.form_field('rate')}." if request.form_field("rate") else ""
    return Confirmation(
        f"Requeue {_jobs(count)}?",
        f"Requeue {_jobs(count)}",
        f"Selected: {description}.{rate_text}{failed_text}",
        _confirmed_at(request).isoformat(),
    )


def _requeue(request: PageRequest) -> ActionResult:
    ids, filters, description = _selection(request)
    by, note = request.viewer.name, request.form_field("note")
    if ids:
        results, skipped = [], 0
        for dead_letter_id in ids:
            try:
                results.append(request.app.dead.requeue(dead_letter_id, by=by, note=note))
            except (DeadLetterClosed, DeadLetterNotFound, InvalidJob):  # already handled, or its job is open again
                skipped += 1
        requeued = sum(result.requeued for result in results)
        skipped_text = f"; {skipped} had been handled already" if skipped else ""
        failed_text = f" {_permanently_failed_text(len(results) - requeued)}" if requeued < len(results) else ""
        return ActionResult(f"{_jobs(requeued)} requeued{skipped_text}.{failed_text}", target=", ".join(ids))
    done = run_with_timeout(
        lambda: request.app.dead.requeue_where(rate=request.form_field("rate"), by=by, note=note, limit=None, **filters)
    )
    if done is None:
        return ActionResult("They are being requeued in the background.", target=description)
    failed_text = f" {_permanently_failed_text(done.permanently_failed)}" if done.permanently_failed else ""
    return ActionResult(f"{_jobs(done.requeued)} requeued.{failed_text}", target=description)


def _permanently_failed_text(count: int) -> str:
    return f"Permanently failed, because requeued too often: {_dead_letters(count)}."


def _confirm_resolve(request: PageRequest) -> Confirmation:
    ids, filters, description = _selection(request)
    count = len(ids) or request.app.dead.count(status="pending", **filters)
    if not count:
        raise InvalidJob("None of these dead letters is pending.")
    count_text = _dead_letters(count)
    status_text = (request.form_field("status") or RESOLUTIONS[0]).replace("_", " ")
    return Confirmation(
        f"Resolve {count_text} as {status_text}?",
        f"Resolve {count_text}",
        f"Selected: {description}. Their jobs do not change.",
        _confirmed_at(request).isoformat(),
    )


def _resolve(request: PageRequest) -> ActionResult:
    ids, filters, description = _selection(request)
    status, by, note = request.form_field("status") or RESOLUTIONS[0], request.viewer.name, request.form_field("note")
    if status not in RESOLUTIONS:
        raise InvalidJob(f"status: expected one of {', '.join(RESOLUTIONS)}, got {status!r}")

    def resolve_matching() -> int:
        done, dead_letters = 0, request.app.engine.dead_letters
        while page := request.app.dead.list(status="pending", limit=_BATCH_SIZE, **filters):
            resolved_ids = dead_letters.update([dead_letter.id for dead_letter in page], status, by, note)
            if not resolved_ids:  # others handle the same ones
                break
            done += len(resolved_ids)
        return done

    if ids:
        resolved: int | None = len(request.app.engine.dead_letters.update(ids, status, by, note))
    else:
        resolved = run_with_timeout(resolve_matching)
    if resolved is None:
        return ActionResult("They are being resolved in the background.", target=description)
    return ActionResult(f"{_dead_letters(resolved)} {'is' if resolved == 1 else 'are'} resolved.", target=description)


def _confirm_purge(request: PageRequest) -> Confirmation:
    count = request.app.dead.purge(dry_run=True)
    if not count:
        raise InvalidJob("Nothing was resolved more than 30 days ago.")
    return Confirmation(
        f"Remove {_dead_letters(count)}?", f"Remove {_dead_letters(count)}", "They were resolved more than 30 days ago."
    )


def _purge(request: PageRequest) -> ActionResult:
    return ActionResult(f"{_dead_letters(request.app.dead.purge())} removed.", target="resolved for 30 days")


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{formatting.exact(count)} jobs"


def _dead_letters(count: int) -> str:
    return "1 dead letter" if count == 1 else f"{formatting.exact(count)} dead letters"


VIEWS = [
    View(
        path="/dead",
        template="dead_letters/dead.html",
        show=show,
        label="Dead letters",
        icon="dead",
        key="d",
        badge=pending,
    ),
]
ACTIONS = [
    Action(path="/dead/requeue", name="dead.requeue", run=_requeue, confirmation=_confirm_requeue),
    Action(path="/dead/resolve", name="dead.resolve", run=_resolve, confirmation=_confirm_resolve),
    Action(path="/dead/add", name="dead.add", run=_add),
    Action(path="/dead/purge", name="dead.purge", run=_purge, confirmation=_confirm_purge),
]
