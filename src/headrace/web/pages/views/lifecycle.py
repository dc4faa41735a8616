"""Lifecycle: stale jobs, the archive and its partitions, lifecycle policies, and erasing a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.app.admin.erasure import erase_jobs
from headrace.app.retention.lifecycle_records import StaleJob
from headrace.app.services.filters import as_filter
from headrace.core.retention.policy_fields import POLICY_FIELDS, SPANS
from headrace.errors import InvalidJob
from headrace.web.pages import formatting
from headrace.web.pages.background import run_with_timeout
from headrace.web.pages.forms import form_fields
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, Confirmation, View

_MAX_SHOWN = 100
_MAX_HANDLED = 1000  # jobs handled at once
_MAX_AGE = 5.0  # seconds
_ACTION_TEXTS = {"dead": "become dead letters", "fail": "fail", "review": "stay, marked for review"}


def show(request: PageRequest) -> Mapping[str, Any]:
    lifecycle = request.app.lifecycle
    read_stale = _stale_reader(request)
    request.page_cache.prepare(read_stale, max_age=_MAX_AGE)
    archive = request.page_cache.shared(lifecycle.stats, max_age=_MAX_AGE)
    partitions = request.page_cache.shared(lifecycle.partitions, max_age=_MAX_AGE)
    found = request.page_cache.shared_or_none(read_stale, max_age=_MAX_AGE)
    stale = found or []
    return {
        "is_known": found is not None,
        "stale": stale[:_MAX_SHOWN],
        "stale_count": sum(job.is_stale for job in stale),
        "nearly_stale_count": sum(not job.is_stale for job in stale),
        "more": len(stale) >= _MAX_HANDLED,
        "action_texts": _ACTION_TEXTS,
        "archive": archive,
        "partitions": partitions,
        "policies": [(kind, name, policy) for (kind, name), policy in lifecycle.policies_by_name().items()],
        "spans": SPANS,
        "max_count": sum(name.startswith("max_") for name in SPANS),
        "form": [one._replace(mode="") for one in form_fields(POLICY_FIELDS, {}) if one.label],
        "topics": ("none",),
    }


def _stale_reader(request: PageRequest) -> Any:
    def detect() -> list[StaleJob]:
        return request.app.lifecycle.detect_stale(warnings=True, limit=_MAX_HANDLED)

    return detect


# -- actions


def _confirm_stale(request: PageRequest) -> Confirmation:
    found = request.app.lifecycle.detect_stale(limit=_MAX_HANDLED)
    if not found:
        raise InvalidJob("No job is stale.")
    return Confirmation(f"Apply the on_stale action to {_jobs(len(found))}?", "Apply", _actions_text(found))


def _actions_text(found: Sequence[StaleJob]) -> str:
    counts = Counter(job.action for job in found)
    return "; ".join(f"{formatting.exact(counts)} {_ACTION_TEXTS[action]}" for action, counts in counts.items()) + "."


def _apply_stale(request: PageRequest) -> ActionResult:
    found = run_with_timeout(lambda: request.app.lifecycle.detect_stale(dry_run=False, limit=_MAX_HANDLED))
    if found is None:
        return ActionResult("Stale jobs are being handled in the background.", target="stale jobs")
    ended = sum(job.applied and job.action != "review" for job in found)
    reviewed = sum(job.applied and job.action == "review" for job in found)
    review_text = f" {_jobs(reviewed)} marked for review." if reviewed else ""
    return ActionResult(f"{_jobs(ended)} ended as stale.{review_text}", target="stale jobs")


def _confirm_archive(request: PageRequest) -> Confirmation:
    planned = request.app.lifecycle.archive(dry_run=True)
    if not planned.archived + planned.deleted:
        raise InvalidJob("No job is past its retention.")
    return Confirmation(
        f"Archive or delete {_jobs(planned.archived + planned.deleted)}?",
        "Archive now",
        f"{formatting.exact(planned.archived)} are archived, "
        f"{formatting.exact(planned.deleted)} are deleted permanently.",
    )


def _archive(request: PageRequest) -> ActionResult:
    done = run_with_timeout(lambda: request.app.lifecycle.archive(dry_run=False))
    if done is None:
        return ActionResult("Jobs are being archived in the background.", target="archive")
    text = f"{_jobs(done.archived)} archived, {formatting.exact(done.deleted)} deleted."
    return ActionResult(text, target="archive")


def _restore(request: PageRequest) -> ActionResult:
    job_id = request.form_field("job")
    if job_id is None:
        raise InvalidJob("job: give the id of the archived job")
    job = request.app.lifecycle.restore(job_id)
    return ActionResult(
        f"Job {job.id} is restored and {job.state}.", goto=request.url(f"/jobs/{job.id}"), target=job.id
    )


def _tag(request: PageRequest) -> str:
    if (tag := request.form_field("tag")) is None:
        raise InvalidJob("tag: give the tag of the person or tenant")
    return tag


def _confirm_erase(request: PageRequest) -> Confirmation:
    tag = _tag(request)
    which = as_filter({"tag": tag})
    planned = run_with_timeout(lambda: erase_jobs(request.app.services, which, dry_run=True))
    counts = "" if planned is None else f"The store and its archive have {planned.format_counts()} of it. "
    return Confirmation(f"Erase everything about {tag}?", "Erase", f"{counts}This can’t be undone.")


def _erase(request: PageRequest) -> ActionResult:
    tag = _tag(request)
    which = as_filter({"tag": tag})
    done = run_with_timeout(lambda: erase_jobs(request.app.services, which))
    if done is None:
        return ActionResult("All about the tag is being erased in the background.", target=f"tag {tag}")
    again = f" {_jobs(done.running)} still run; erase again when they have ended." if done.running else ""
    return ActionResult(f"Erased: {done.format_counts()}.{again}", target=f"tag {tag}")


def _configure(request: PageRequest) -> ActionResult:
    kind, name = request.form_field("kind") or "", request.form_field("name")
    if kind not in ("task", "queue") or name is None:
        raise InvalidJob("Give the task or queue.")
    fields: dict[str, Any] = {
        field: _field_value(field, text) for field in SPANS if (text := request.form_field(field)) is not None
    }
    if (action := request.form_field("on_stale")) is not None:
        fields["on_stale"] = action
    request.app.lifecycle.configure(**{kind: name}, **fields)
    return ActionResult(
        f"The policy of {kind} {name} applies from the next check of a worker.", target=f"{kind} {name}"
    )


def _field_value(name: str, text: str) -> float | str | None:
    if text in ("none", "default"):
        return None if text == "none" else text
    try:
        return float(text)
    except ValueError:
        raise InvalidJob(f"{name}: {text!r} is neither a number of seconds, nor none, nor default") from None


def _reset(request: PageRequest) -> ActionResult:
    kind, name = request.form_field("kind") or "", request.form_field("name") or ""
    if kind not in ("task", "queue"):
        raise InvalidJob("Give the task or queue.")
    request.app.lifecycle.reset(**{kind: name})
    return ActionResult(f"The policy of {kind} {name} is removed.", target=f"{kind} {name}")


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{formatting.exact(count)} jobs"


VIEWS = [
    View(path="/lifecycle", template="lifecycle.html", show=show, label="Lifecycle", icon="lifecycle", key="l"),
]
ACTIONS = [
    Action(path="/lifecycle/stale", name="lifecycle.stale", run=_apply_stale, confirmation=_confirm_stale),
    Action(path="/lifecycle/archive", name="lifecycle.archive", run=_archive, confirmation=_confirm_archive),
    Action(path="/lifecycle/restore", name="lifecycle.restore", run=_restore),
    Action(path="/lifecycle/erase", name="lifecycle.erase", run=_erase, confirmation=_confirm_erase),
    Action(path="/lifecycle/policy", name="lifecycle.configure", run=_configure),
    Action(path="/lifecycle/reset", name="lifecycle.reset", run=_reset),
]
