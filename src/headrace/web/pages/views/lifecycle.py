"""Lifecycle: stale jobs, the archive and its partitions, lifecycle terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from headrace.app.retention.lifecycle_records import SPANS, StaleJob
from headrace.core.retention.lifecycle import OnStale
from headrace.errors import InvalidJob
from headrace.web.pages import formatting
from headrace.web.pages.background import patiently
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, Confirmation, View

_SHOWN = 100
_MOST = 1000  # jobs handled at once
_RARELY = 5.0  # seconds
_DOES = {"dead": "become dead letters", "fail": "fail", "review": "stay, marked for review"}


def show(visit: PageRequest) -> Mapping[str, Any]:
    cycle = visit.app.lifecycle
    detect = _stale(visit)
    visit.page_cache.prepare(detect, fresh=_RARELY)
    archive = visit.page_cache.shared(cycle.stats, fresh=_RARELY)
    partitions = visit.page_cache.shared(cycle.partitions, fresh=_RARELY)
    found = visit.page_cache.soon(detect, fresh=_RARELY)
    stale = found or []
    return {
        "is_known": found is not None,
        "stale": stale[:_SHOWN],
        "many": sum(one.is_stale for one in stale),
        "nearly": sum(not one.is_stale for one in stale),
        "more": len(stale) >= _MOST,
        "does": _DOES,
        "archive": archive,
        "partitions": partitions,
        "terms": [(kind, name, terms) for (kind, name), terms in cycle.terms_by_name().items()],
        "spans": SPANS,
        "stays": sum(name.startswith("max_") for name in SPANS),
        "on_stales": get_args(OnStale),
        "topics": ("none",),
    }


def _stale(visit: PageRequest) -> Any:
    def look() -> list[StaleJob]:
        return visit.app.lifecycle.detect_stale(warnings=True, limit=_MOST)

    return look


# -- actions


def _ask_stale(visit: PageRequest) -> Confirmation:
    found = visit.app.lifecycle.detect_stale(limit=_MOST)
    if not found:
        raise InvalidJob("No job is stale.")
    return Confirmation(f"Apply the on_stale action to {_jobs(len(found))}?", "Apply", _told(found))


def _told(found: Sequence[StaleJob]) -> str:
    many = Counter(one.action for one in found)
    return "; ".join(f"{formatting.exact(count)} {_DOES[action]}" for action, count in many.items()) + "."


def _deal(visit: PageRequest) -> ActionResult:
    found = patiently(lambda: visit.app.lifecycle.detect_stale(dry_run=False, limit=_MOST))
    if found is None:
        return ActionResult("Stale jobs are being handled in the background.", target="stale jobs")
    ended = sum(one.applied and one.action != "review" for one in found)
    noted = sum(one.applied and one.action == "review" for one in found)
    left = f" {_jobs(noted)} marked for review." if noted else ""
    return ActionResult(f"{_jobs(ended)} ended as stale.{left}", target="stale jobs")


def _ask_archive(visit: PageRequest) -> Confirmation:
    would = visit.app.lifecycle.archive(dry_run=True)
    if not would.archived + would.deleted:
        raise InvalidJob("No job is past its retention.")
    return Confirmation(
        f"Archive or delete {_jobs(would.archived + would.deleted)}?",
        "Archive now",
        f"{formatting.exact(would.archived)} are archived, {formatting.exact(would.deleted)} are deleted permanently.",
    )


def _archive(visit: PageRequest) -> ActionResult:
    done = patiently(lambda: visit.app.lifecycle.archive(dry_run=False))
    if done is None:
        return ActionResult("Jobs are being archived in the background.", target="archive")
    told = f"{_jobs(done.archived)} archived, {formatting.exact(done.deleted)} deleted."
    return ActionResult(told, target="archive")


def _restore(visit: PageRequest) -> ActionResult:
    job_id = visit.said("job")
    if job_id is None:
        raise InvalidJob("job: give the id of the archived job")
    job = visit.app.lifecycle.restore(job_id)
    return ActionResult(f"Job {job.id} is restored and {job.state}.", goto=visit.at(f"/jobs/{job.id}"), target=job.id)


def _configure(visit: PageRequest) -> ActionResult:
    kind, name = visit.said("kind") or "", visit.said("name")
    if kind not in ("task", "queue") or name is None:
        raise InvalidJob("Give the task or queue.")
    fields: dict[str, Any] = {field: _term(field, text) for field in SPANS if (text := visit.said(field)) is not None}
    if (action := visit.said("on_stale")) is not None:
        fields["on_stale"] = action
    visit.app.lifecycle.configure(**{kind: name}, **fields)
    return ActionResult(f"The terms of {kind} {name} apply from the next check of a worker.", target=f"{kind} {name}")


def _term(name: str, text: str) -> float | str | None:
    if text in ("none", "default"):
        return None if text == "none" else text
    try:
        return float(text)
    except ValueError:
        raise InvalidJob(f"{name}: {text!r} is neither a number of seconds, nor none, nor default") from None


def _reset(visit: PageRequest) -> ActionResult:
    kind, name = visit.said("kind") or "", visit.said("name") or ""
    if kind not in ("task", "queue"):
        raise InvalidJob("Give the task or queue.")
    visit.app.lifecycle.reset(**{kind: name})
    return ActionResult(f"The terms of {kind} {name} are removed.", target=f"{kind} {name}")


def _jobs(many: int) -> str:
    return "1 job" if many == 1 else f"{formatting.exact(many)} jobs"


VIEWS = [
    View(path="/lifecycle", template="lifecycle.html", show=show, label="Lifecycle", icon="lifecycle", key="l"),
]
ACTIONS = [
    Action(path="/lifecycle/stale", what="lifecycle.stale", do=_deal, ask=_ask_stale),
    Action(path="/lifecycle/archive", what="lifecycle.archive", do=_archive, ask=_ask_archive),
    Action(path="/lifecycle/restore", what="lifecycle.restore", do=_restore),
    Action(path="/lifecycle/terms", what="lifecycle.configure", do=_configure),
    Action(path="/lifecycle/reset", what="lifecycle.reset", do=_reset),
]
