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
from headrace.web.pages.background import patiently
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, Confirmation, View

_PAGE = 30
_RARELY = 15.0  # seconds; the doctor is slow in a large store
# The page that helps with a finding, by the prefix of its code.
_PLACES = {
    "alert": "/alerts",
    "archive": "/lifecycle",
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


def show(visit: PageRequest) -> Mapping[str, Any]:
    app, is_admin = visit.app, visit.visitor.may_write
    found = app.audit.list(_PAGE + 1, visit.asked("cursor")) if is_admin else []
    checked = visit.page_cache.soon(diagnose, app, fresh=_RARELY)
    findings = checked or []
    settings = _settings(visit) if is_admin else {}
    return {
        "is_admin": is_admin,
        "versions": {"headrace": __version__, "Python": platform.python_version()},
        "facts": _facts(visit, is_admin),
        "is_checked": checked is not None,
        "findings": [one for one in findings if not one.note],
        "notes": [one for one in findings if one.note],
        "places": _PLACES,
        "repairable": sum(one.repairable for one in findings),
        "set": {name: told for name, told in settings.items() if told[1] != "default"},
        "defaults": {name: told[0] for name, told in settings.items() if told[1] == "default"},
        "trail": found[:_PAGE],
        "here": visit.asked("cursor"),
        "cursor": found[_PAGE - 1].cursor if len(found) > _PAGE else None,
        "topics": ("none",),
    }


def _facts(visit: PageRequest, is_admin: bool) -> dict[str, str]:
    """Facts of the engine; its location only for admins."""
    known = visit.page_cache.shared(visit.app.engine.facts, fresh=5.0)
    hidden = () if is_admin else ("file", "server", "address")
    return {
        name.replace("_", " "): formatting.size(value) if name in _BYTES and isinstance(value, int) else str(value)
        for name, value in known.items()
        if name not in hidden
    }


def _settings(visit: PageRequest) -> dict[str, tuple[str, str]]:
    """Each setting with its value and origin."""
    values, origin = visit.app.settings.shown(), visit.app.settings_origin
    return {name: (_told(values[name]), origin.get(name, "default")) for name in sorted(values)}


def _told(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value)) or "none"
    if value is None:
        return "none"
    return formatting.exact(value) if isinstance(value, int | float) else str(value)


# -- actions


def _repair(visit: PageRequest) -> ActionResult:
    done = patiently(visit.app.admin.repair)
    if done is None:
        return ActionResult("The store is being repaired in the background.", target="store")
    told = ", ".join(f"{code} {formatting.exact(many)}" for code, many in done.items()) or "nothing"
    return ActionResult(f"Repaired: {told}.", target="store")


def _ask_repair(visit: PageRequest) -> Confirmation:
    would: list[Finding] = [one for one in visit.app.admin.check() if one.repairable]
    if not would:
        raise InvalidJob("There is nothing to repair.")
    return Confirmation("Repair the store?", "Repair", " ".join(f"{one.sentence}." for one in would))


def _optimize(visit: PageRequest) -> ActionResult:
    done = patiently(visit.app.admin.optimize)
    if not done:
        return ActionResult("The store is being optimized in the background.", target="store")
    sizes = " to ".join(formatting.size(many) for many in done.values())
    return ActionResult(f"Statistics are up to date; the store went from {sizes}.", target="store")


VIEWS = [View(path="/system", template="system.html", show=show, label="System", icon="system", key="y")]
ACTIONS = [
    Action(path="/system/repair", what="store.repair", do=_repair, ask=_ask_repair),
    Action(path="/system/optimize", what="store.optimize", do=_optimize),
]
