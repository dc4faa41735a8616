"""Alerts, their history and silences: acknowledge, resolve, silence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.errors import AlertSilenceNotFound, HeadraceError, InvalidAlert
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, View

_PAGE = 50
QUIET = {"15 min": 900, "1 hour": 3600, "8 hours": 8 * 3600, "1 day": 86_400, "1 week": 7 * 86_400}


def show(visit: PageRequest) -> Mapping[str, Any]:
    rule, cursor = visit.asked("rule"), visit.asked("cursor")
    found = visit.app.alerts.history(limit=_PAGE + 1, cursor=cursor, rule=rule)
    history = found[:_PAGE]
    return {
        "active": visit.app.alerts.active(pending=True),
        "silences": visit.app.alerts.silences(),
        "channels": visit.app.alerts.channels.list(),
        "rules": visit.app.alerts.rules.list(),
        "history": history,
        "rule": rule,
        "here": cursor,
        "cursor": history[-1].cursor if len(found) > _PAGE else None,
        "quiet": QUIET,
        "topics": ("alert",),
    }


def firing(visit: PageRequest) -> int:
    """The number of unacknowledged alerts. Must not raise: error pages show the navigation too."""
    try:
        return sum(alert.state == "firing" and not alert.silenced for alert in visit.page_cache.alerts())
    except HeadraceError:
        return 0


def _acknowledge(visit: PageRequest) -> ActionResult:
    alert = visit.app.alerts.acknowledge(visit.name("alert"), by=visit.visitor.name, note=visit.said("note"))
    return ActionResult(f"{alert.rule} is acknowledged; it is not repeated.", target=alert.id)


def _resolve(visit: PageRequest) -> ActionResult:
    alert = visit.app.alerts.resolve(visit.name("alert"), by=visit.visitor.name, note=visit.said("note"))
    return ActionResult(f"{alert.rule} is resolved; it fires again if its rule still holds.", target=alert.id)


def _silence(visit: PageRequest) -> ActionResult:
    length = visit.said("for") or "1 hour"
    if length not in QUIET:
        raise InvalidAlert(f"for: expected one of {', '.join(QUIET)}, got {length!r}")
    rule, labels = visit.said("rule"), {}
    if alert_id := visit.said("alert"):
        alert = visit.app.alerts.get(alert_id)
        rule, labels = alert.rule, alert.labels
    made = visit.app.alerts.silence(
        rule, labels=labels, for_=QUIET[length], by=visit.visitor.name, note=visit.said("note")
    )
    return ActionResult(f"{made.rule or 'Every rule'} is silenced for {length}.", target=made.rule or "every rule")


def _unsilence(visit: PageRequest) -> ActionResult:
    name = visit.name("silence")
    if not visit.app.alerts.unsilence(name):
        raise AlertSilenceNotFound(name)
    return ActionResult("The silence has ended.", target=name)


VIEWS = [
    View(path="/alerts", template="alerts.html", show=show, label="Alerts", icon="alerts", key="a", badge=firing),
]
ACTIONS = [
    Action(path="/alerts/silence", what="alert.silence", do=_silence),
    Action(path="/alerts/unsilence/{silence}", what="alert.unsilence", do=_unsilence),
    Action(path="/alerts/acknowledge/{alert}", what="alert.acknowledge", do=_acknowledge),
    Action(path="/alerts/resolve/{alert}", what="alert.resolve", do=_resolve),
]
