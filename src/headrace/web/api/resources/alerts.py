"""Alerts, their history, their rules and silences."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from headrace.app.alerts.records import Alert, AlertChange, AlertReading, AlertRule, AlertSilence
from headrace.core.alerts.alert import Severity
from headrace.errors import AlertSilenceNotFound
from headrace.web.api.routes import Table
from headrace.web.api.schemas import Cursor, Limit, Note, said
from headrace.web.security.middleware import RequestContext

table = Table("alerts", "Alerts, their history, their rules and silences.")
_RULE = {"name": "mail-fails", "when": 'error_rate{queue="emails"}[5m] > 5%', "for_": 60, "severity": "critical"}
Per = Literal["queue", "task", "worker"]


class AlertQuery(Struct, frozen=True, kw_only=True):
    """Filters; `pending` adds alerts whose rule has not held long enough to fire."""

    severity: Severity | None = None
    acknowledged: bool | None = None
    pending: bool = False


class HistoryQuery(Struct, frozen=True, kw_only=True):
    """Filters of the history: a rule, before a time, or after the entry with this cursor."""

    rule: str | None = None
    before: datetime | None = None
    limit: Limit = 100
    cursor: Cursor | None = None


class Word(Struct, frozen=True, forbid_unknown_fields=True):
    """A note."""

    note: Note | None = None


class RuleFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of a rule: `when`, or `metric`, `op`, `threshold` and `window`; times in seconds."""

    when: str | UnsetType = UNSET
    metric: str | UnsetType = UNSET
    op: str | UnsetType = UNSET
    threshold: float | UnsetType = UNSET
    window: float | UnsetType = UNSET
    for_: float | UnsetType = UNSET
    cooldown: float | UnsetType = UNSET
    severity: Severity | UnsetType = UNSET
    per: list[Per] | UnsetType = UNSET
    labels: dict[str, str] | UnsetType = UNSET
    notify: list[str] | UnsetType | None = UNSET
    summary: str | UnsetType | None = UNSET
    runbook: str | UnsetType | None = UNSET
    enabled: bool | UnsetType = UNSET


class NewRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new rule."""

    name: str
    when: str | UnsetType = UNSET
    metric: str | UnsetType = UNSET
    op: str | UnsetType = UNSET
    threshold: float | UnsetType = UNSET
    window: float | UnsetType = UNSET
    for_: float | UnsetType = UNSET
    cooldown: float | UnsetType = UNSET
    severity: Severity | UnsetType = UNSET
    per: list[Per] | UnsetType = UNSET
    labels: dict[str, str] | UnsetType = UNSET
    notify: list[str] | UnsetType | None = UNSET
    summary: str | UnsetType | None = UNSET
    runbook: str | UnsetType | None = UNSET
    enabled: bool | UnsetType = UNSET


class NewSilence(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Mute notifications of a rule, of labels, or of everything, for a number of seconds."""

    rule: str | None = None
    labels: dict[str, str] | None = None
    for_: Annotated[float, Meta(gt=0)]
    note: Note | None = None


# -- alerts


@table.get("/alerts")
def active(visit: RequestContext, query: AlertQuery) -> list[Alert]:
    """List the firing alerts, most severe first."""
    return visit.app.alerts.active(severity=query.severity, acknowledged=query.acknowledged, pending=query.pending)


@table.get("/alert-history")
def history(visit: RequestContext, query: HistoryQuery) -> list[AlertChange]:
    """List the history of alerts, newest first. The `cursor` of the last entry continues the list."""
    return visit.app.alerts.history(limit=query.limit, before=query.before, cursor=query.cursor, rule=query.rule)


@table.post("/alerts/{alert_id}/acknowledge", example={"note": "looking into it"})
def acknowledge(visit: RequestContext, alert_id: str, body: Word) -> Alert:
    """Acknowledge an alert, which stops its repeated notifications."""
    return visit.app.alerts.acknowledge(alert_id, by=visit.caller.name, note=body.note)


@table.post("/alerts/{alert_id}/resolve", example={"note": "the mail server is back"})
def resolve(visit: RequestContext, alert_id: str, body: Word) -> Alert:
    """Resolve an alert by hand. It fires again if its rule still holds."""
    return visit.app.alerts.resolve(alert_id, by=visit.caller.name, note=body.note)


@table.get("/alerts/{alert_id}")
def get(visit: RequestContext, alert_id: str) -> Alert:
    """Return one alert by its id, or the only open alert of the rule with this name."""
    return visit.app.alerts.get(alert_id)


# -- rules


@table.get("/alert-rules")
def rules(visit: RequestContext) -> list[AlertRule]:
    """List the rules with their states, by name."""
    return visit.app.alerts.rules.list()


@table.post("/alert-rules", status=201, example=_RULE)
def create_rule(visit: RequestContext, body: NewRule) -> AlertRule:
    """Create a rule."""
    return visit.app.alerts.rules.create(body.name, **said(body, but=("name",)))


@table.post("/alert-rule-test", writes=False, example={"when": "depth > 1000"})
def test_rule(visit: RequestContext, body: RuleFields) -> list[AlertReading]:
    """Evaluate a rule that is not stored. No notification is sent."""
    return visit.app.alerts.rules.test(**said(body))


@table.get("/alert-rules/{name}/test")
def test_stored_rule(visit: RequestContext, name: str) -> list[AlertReading]:
    """Evaluate a stored rule. No notification is sent."""
    return visit.app.alerts.rules.test(name)


@table.get("/alert-rules/{name}")
def rule(visit: RequestContext, name: str) -> AlertRule:
    """Return one rule with its state."""
    return visit.app.alerts.rules.get(name)


@table.patch("/alert-rules/{name}", example={"enabled": False})
def update_rule(visit: RequestContext, name: str, body: RuleFields) -> AlertRule:
    """Change a rule, also a built-in one."""
    return visit.app.alerts.rules.update(name, **said(body))


@table.delete("/alert-rules/{name}")
def delete_rule(visit: RequestContext, name: str) -> None:
    """Delete a rule. A built-in rule returns to its defaults."""
    visit.app.alerts.rules.delete(name)


# -- silences


@table.get("/alert-silences")
def silences(visit: RequestContext) -> list[AlertSilence]:
    """List the active silences."""
    return visit.app.alerts.silences()


@table.post("/alert-silences", status=201, example={"rule": "mail-fails", "for_": 3600, "note": "migration"})
def silence(visit: RequestContext, body: NewSilence) -> AlertSilence:
    """Mute notifications for a time."""
    return visit.app.alerts.silence(body.rule, labels=body.labels, for_=body.for_, by=visit.caller.name, note=body.note)


@table.delete("/alert-silences/{silence_id}")
def unsilence(visit: RequestContext, silence_id: str) -> None:
    """End a silence."""
    if not visit.app.alerts.unsilence(silence_id):
        raise AlertSilenceNotFound(silence_id)
