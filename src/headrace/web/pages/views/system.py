"""System: store health and sizes, doctor findings, settings and their origin, audit trail."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

from headrace import __version__
from headrace.app.doctor import diagnose
from headrace.core.health.findings import Finding
from headrace.errors import InvalidJob
from headrace.web.pages import formatting
from headrace.web.pages.background import run_with_timeout
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, Confirmation, View

_PAGE = 30
_MAX_AGE = 15.0  # seconds; the doctor is slow in a large store
# The page that helps with a finding, by the prefix of its code.
_PAGES_BY_CODE = {
    "alert": "/alerts",
    "archive": "/lifecycle",
    "breaker": "/tasks",
    "channel": "/alerts",
    "dead": "/dead",
    "nearly": "/lifecycle",
    "needs": "/workers",
    "queue": "/queues",
    "rule": "/alerts/rules",
    "schedule": "/schedules",
    "silent": "/workers",
    "stale": "/lifecycle",
    "task": "/workers",
}
_BYTES = ("size", "log_size", "disk_free", "memory", "peak_memory")


def show(request: PageRequest) -> Mapping[str, Any]:
    app, is_admin = request.app, request.viewer.may_write
    found = app.audit.list(_PAGE + 1, request.query("cursor")) if is_admin else []
    checked = request.page_cache.shared_or_none(diagnose, app, max_age=_MAX_AGE)
    findings = checked or []
    settings = _settings(request) if is_admin else {}
    return {
        "is_admin": is_admin,
        "versions": {"headrace": __version__, "Python": platform.python_version()},
        "facts": _facts(request, is_admin),
        "is_checked": checked is not None,
        "findings": [finding for finding in findings if not finding.note],
        "notes": [finding for finding in findings if finding.note],
        "pages_by_code": _PAGES_BY_CODE,
        "repairable": sum(finding.repairable for finding in findings),
        "set": {name: value for name, value in settings.items() if value[1] != "default"},
        "defaults": {name: value[0] for name, value in settings.items() if value[1] == "default"},
        "trail": found[:_PAGE],
        "current_cursor": request.query("cursor"),
        "cursor": found[_PAGE - 1].cursor if len(found) > _PAGE else None,
        "topics": ("none",),
    }


def _facts(request: PageRequest, is_admin: bool) -> dict[str, str]:
    """Facts of the engine; its location only for admins."""
    facts = request.page_cache.shared(request.app.engine.maintenance.facts, max_age=5.0).details
    hidden = () if is_admin else ("file", "server", "address")
    return {
        name.replace("_", " "): formatting.size(value) if name in _BYTES and isinstance(value, int) else str(value)
        for name, value in facts.items()
        if name not in hidden
    }


def _settings(request: PageRequest) -> dict[str, tuple[str, str]]:
    """Each setting with its value and origin."""
    values, origin = request.app.settings.shown(), request.app.settings_origin
    return {name: (_value_text(values[name]), origin.get(name, "default")) for name in sorted(values)}


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value)) or "none"
    if value is None:
        return "none"
    return formatting.exact(value) if isinstance(value, int | float) else str(value)


# -- actions


def _repair(request: PageRequest) -> ActionResult:
    done = run_with_timeout(request.app.admin.repair)
    if done is None:
        return ActionResult("The store is being repaired in the background.", target="store")
    text = ", ".join(f"{code} {formatting.exact(count)}" for code, count in done.items()) or "nothing"
    return ActionResult(f"Repaired: {text}.", target="store")


def _confirm_repair(request: PageRequest) -> Confirmation:
    repairable: list[Finding] = [finding for finding in request.app.admin.check() if finding.repairable]
    if not repairable:
        raise InvalidJob("There is nothing to repair.")
    return Confirmation("Repair the store?", "Repair", " ".join(f"{finding.sentence}." for finding in repairable))


def _optimize(request: PageRequest) -> ActionResult:
    done = run_with_timeout(request.app.admin.optimize)
    if not done:
        return ActionResult("The store is being optimized in the background.", target="store")
    sizes = " to ".join(formatting.size(count) for count in done.values())
    return ActionResult(f"Statistics are up to date; the store went from {sizes}.", target="store")


VIEWS = [View(path="/system", template="system.html", show=show, label="System", icon="system", key="y")]
ACTIONS = [
    Action(path="/system/repair", name="store.repair", run=_repair, confirmation=_confirm_repair),
    Action(path="/system/optimize", name="store.optimize", run=_optimize),
]
