"""Alerts, their history and silences: acknowledge, resolve, silence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.errors import AlertSilenceNotFound, HeadraceError, InvalidAlert
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, View

_PAGE = 50
SILENCE_LENGTHS = {"15 min": 900, "1 hour": 3600, "8 hours": 8 * 3600, "1 day": 86_400, "1 week": 7 * 86_400}


def show(request: PageRequest) -> Mapping[str, Any]:
    rule, cursor = request.query("rule"), request.query("cursor")
    found = request.app.alerts.history(limit=_PAGE + 1, cursor=cursor, rule=rule)
    history = found[:_PAGE]
    return {
        "active": request.app.alerts.active(pending=True),
        "silences": request.app.alerts.silences(),
        "channels": request.app.alerts.channels.list(),
        "rules": request.app.alerts.rules.list(),
        "history": history,
        "rule": rule,
        "current_cursor": cursor,
        "cursor": history[-1].cursor if len(found) > _PAGE else None,
        "silence_lengths": SILENCE_LENGTHS,
        "topics": ("alert",),
    }


def firing(request: PageRequest) -> int:
    """The number of unacknowledged alerts. Must not raise: error pages show the navigation too."""
    try:
        return sum(alert.state == "firing" and not alert.silenced for alert in request.page_cache.alerts())
    except HeadraceError:
        return 0


def _acknowledge(request: PageRequest) -> ActionResult:
    alert = request.app.alerts.acknowledge(
        request.path_param("alert"), by=request.viewer.name, note=request.form_field("note")
    )
    return ActionResult(f"{alert.rule} is acknowledged; it is not repeated.", target=alert.id)


def _resolve(request: PageRequest) -> ActionResult:
    alert = request.app.alerts.resolve(
        request.path_param("alert"), by=request.viewer.name, note=request.form_field("note")
    )
    return ActionResult(f"{alert.rule} is resolved; it fires again if its rule still holds.", target=alert.id)


def _silence(request: PageRequest) -> ActionResult:
    length = request.form_field("for") or "1 hour"
    if length not in SILENCE_LENGTHS:
        raise InvalidAlert(f"for: expected one of {', '.join(SILENCE_LENGTHS)}, got {length!r}")
    rule, labels = request.form_field("rule"), {}
    if alert_id := request.form_field("alert"):
        alert = request.app.alerts.get(alert_id)
        rule, labels = alert.rule, alert.labels
    created = request.app.alerts.silence(
        rule, labels=labels, for_=SILENCE_LENGTHS[length], by=request.viewer.name, note=request.form_field("note")
    )
    return ActionResult(
        f"{created.rule or 'Every rule'} is silenced for {length}.", target=created.rule or "every rule"
    )


def _unsilence(request: PageRequest) -> ActionResult:
    name = request.path_param("silence")
    if not request.app.alerts.unsilence(name):
        raise AlertSilenceNotFound(name)
    return ActionResult("The silence has ended.", target=name)


VIEWS = [
    View(
        path="/alerts", template="alerts/alerts.html", show=show, label="Alerts", icon="alerts", key="a", badge=firing
    ),
]
ACTIONS = [
    Action(path="/alerts/silence", name="alert.silence", run=_silence),
    Action(path="/alerts/unsilence/{silence}", name="alert.unsilence", run=_unsilence),
    Action(path="/alerts/acknowledge/{alert}", name="alert.acknowledge", run=_acknowledge),
    Action(path="/alerts/resolve/{alert}", name="alert.resolve", run=_resolve),
]
