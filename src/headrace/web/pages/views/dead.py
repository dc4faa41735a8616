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
from headrace.web.pages.background import patiently
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, Confirmation, View
from headrace.web.pages.views.jobs import AGES, filters_of

_PAGE = 50
_GROUPS = 20
_AT_ONCE = 500
_FILTERS = ("reason", "task", "queue", "fingerprint", "since", "until")


def show(visit: PageRequest) -> Mapping[str, Any]:
    given = visit.request.query_params
    status = given.get("status") or "pending"
    filters = which(given, visit)
    page = visit.app.dead.list(
        status=None if status == "any" else status, limit=_PAGE, cursor=visit.asked("cursor"), **filters
    )
    tallies = visit.page_cache.soon(visit.app.dead.stats)
    return {
        "letters": page.letters,
        "cursor": page.cursor,
        "here": visit.asked("cursor"),
        "status": status,
        "statuses": STATUSES,
        "count": {} if tallies is None else {one: sum(getattr(it, one) for it in tallies) for one in STATUSES},
        "reasons": tallies or [],
        "groups": [] if filters or visit.asked("cursor") else _groups(visit, status),
        "filters": filters,
        "given": {name: given.get(name, "") for name in _FILTERS},
        "ages": AGES,
        "query": str(QueryParams({name: given[name] for name in _FILTERS if given.get(name)})),
        "resolutions": RESOLUTIONS,
        "by_hand": BY_HAND,
        "topics": ("job", "dead"),
    }


def _groups(visit: PageRequest, status: str) -> list[DeadGroup] | None:
    """The groups; None while they are counted."""

    def read(of: str | None) -> list[DeadGroup]:
        return visit.app.dead.groups(status=of, limit=_GROUPS)

    return visit.page_cache.soon(read, None if status == "any" else status)


def which(given: QueryParams, visit: PageRequest) -> dict[str, Any]:
    """The filters of `app.dead` in a query."""
    filters = {name: text for name in ("reason", "fingerprint") if (text := given.get(name, "").strip())}
    others = filters_of(given, visit.now)
    return filters | {name: others[name] for name in ("task", "queue", "since", "until") if name in others}


def pending(visit: PageRequest) -> int:
    """The number of pending dead letters. Must not raise: error pages show the navigation too."""
    try:
        return sum(tally.pending for tally in visit.page_cache.soon(visit.app.dead.stats) or ())
    except HeadraceError:
        return 0


# -- by hand


def _add(visit: PageRequest) -> ActionResult:
    job_id, reason = visit.said("job_id") or "", visit.said("reason") or BY_HAND
    letter = visit.app.dead.add(job_id, reason=reason, note=visit.said("note"), by=visit.visitor.name)
    return ActionResult("The dead letter was created.", goto=f"/dead/{letter.id}", target=letter.id)


# -- in bulk


def _meant(visit: PageRequest) -> tuple[list[str], dict[str, Any], str]:
    """The picked ids or the filters of the list, and their description."""
    if ids := visit.form.getlist("id"):
        if visit.said("rate"):
            raise InvalidJob("A rate applies to all that match: filter the list, and pick none.")
        return ids, {}, "picked"
    filters = which(QueryParams(visit.said("query") or ""), visit)
    if not filters:
        raise InvalidJob("Pick dead letters, or filter the list first.")
    words = ", ".join(
        f"{name} {formatting.stamp(value) if isinstance(value, datetime) else value}" for name, value in filters.items()
    )
    return [], {"until": _asked_at(visit), **filters}, words


def _asked_at(visit: PageRequest) -> datetime:
    """The time of the confirmation: later failures are not included."""
    try:
        return datetime.fromisoformat(visit.said("confirmed") or "")
    except ValueError:
        return visit.now + timedelta(milliseconds=1)


def _ask_requeue(visit: PageRequest) -> Confirmation:
    ids, filters, words = _meant(visit)
    if ids:
        many, given_up = len(ids), 0
    else:
        would = visit.app.dead.requeue_where(dry_run=True, rate=visit.said("rate"), **filters)
        many, given_up = would.requeued, would.permanently_failed
    if not many and not given_up:
        raise InvalidJob("None of these dead letters is pending.")
    often = f" {_given_up(given_up)}" if given_up else ""
    pace = f" They start at {visit.said('rate')}." if visit.said("rate") else ""
    return Confirmation(
        f"Requeue {_jobs(many)}?",
        f"Requeue {_jobs(many)}",
        f"Meant: {words}.{pace}{often}",
        _asked_at(visit).isoformat(),
    )


def _requeue(visit: PageRequest) -> ActionResult:
    ids, filters, words = _meant(visit)
    by, note = visit.visitor.name, visit.said("note")
    if ids:
        results, skipped = [], 0
        for letter_id in ids:
            try:
                results.append(visit.app.dead.requeue(letter_id, by=by, note=note))
            except (DeadLetterClosed, DeadLetterNotFound, InvalidJob):  # already handled, or its job is open again
                skipped += 1
        back = sum(result.requeued for result in results)
        left = f"; {skipped} had been handled already" if skipped else ""
        often = f" {_given_up(len(results) - back)}" if back < len(results) else ""
        return ActionResult(f"{_jobs(back)} requeued{left}.{often}", target=", ".join(ids))
    done = patiently(
        lambda: visit.app.dead.requeue_where(rate=visit.said("rate"), by=by, note=note, limit=None, **filters)
    )
    if done is None:
        return ActionResult("They are being requeued in the background.", target=words)
    often = f" {_given_up(done.permanently_failed)}" if done.permanently_failed else ""
    return ActionResult(f"{_jobs(done.requeued)} requeued.{often}", target=words)


def _given_up(many: int) -> str:
    return f"Permanently failed, because requeued too often: {_dead_letters(many)}."


def _ask_resolve(visit: PageRequest) -> Confirmation:
    ids, filters, words = _meant(visit)
    many = len(ids) or visit.app.dead.count(status="pending", **filters)
    if not many:
        raise InvalidJob("None of these dead letters is pending.")
    told = _dead_letters(many)
    as_what = (visit.said("status") or RESOLUTIONS[0]).replace("_", " ")
    return Confirmation(
        f"Resolve {told} as {as_what}?",
        f"Resolve {told}",
        f"Selected: {words}. Their jobs do not change.",
        _asked_at(visit).isoformat(),
    )


def _resolve(visit: PageRequest) -> ActionResult:
    ids, filters, words = _meant(visit)
    status, by, note = visit.said("status") or RESOLUTIONS[0], visit.visitor.name, visit.said("note")
    if status not in RESOLUTIONS:
        raise InvalidJob(f"status: expected one of {', '.join(RESOLUTIONS)}, got {status!r}")

    def every() -> int:
        done, dead_letters = 0, visit.app.engine.dead_letters
        while page := visit.app.dead.list(status="pending", limit=_AT_ONCE, **filters):
            fresh = dead_letters.resolve([letter.id for letter in page], status, by, note)
            if not fresh:  # others handle the same ones
                break
            done += len(fresh)
        return done

    if ids:
        resolved: int | None = len(visit.app.engine.dead_letters.resolve(ids, status, by, note))
    else:
        resolved = patiently(every)
    if resolved is None:
        return ActionResult("They are being resolved in the background.", target=words)
    return ActionResult(f"{_dead_letters(resolved)} {'is' if resolved == 1 else 'are'} resolved.", target=words)


def _ask_purge(visit: PageRequest) -> Confirmation:
    many = visit.app.dead.purge(dry_run=True)
    if not many:
        raise InvalidJob("Nothing was resolved more than 30 days ago.")
    return Confirmation(
        f"Remove {_dead_letters(many)}?", f"Remove {_dead_letters(many)}", "They were resolved more than 30 days ago."
    )


def _purge(visit: PageRequest) -> ActionResult:
    return ActionResult(f"{_dead_letters(visit.app.dead.purge())} removed.", target="resolved for 30 days")


def _jobs(many: int) -> str:
    return "1 job" if many == 1 else f"{formatting.exact(many)} jobs"


def _dead_letters(many: int) -> str:
    return "1 dead letter" if many == 1 else f"{formatting.exact(many)} dead letters"


VIEWS = [
    View(path="/dead", template="dead.html", show=show, label="Dead letters", icon="dead", key="d", badge=pending),
]
ACTIONS = [
    Action(path="/dead/requeue", what="dead.requeue", do=_requeue, ask=_ask_requeue),
    Action(path="/dead/resolve", what="dead.resolve", do=_resolve, ask=_ask_resolve),
    Action(path="/dead/add", what="dead.add", do=_add),
    Action(path="/dead/purge", what="dead.purge", do=_purge, ask=_ask_purge),
]
