"""Alerts, their history, their rules and silences."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from headrace.app.alerts.records import Alert, AlertChange, AlertReading, AlertRule, AlertSilence
from headrace.core.alerts.alert import Severity
from headrace.core.alerts.rules import ALERT_RULE, MAX_SPAN
from headrace.errors import AlertSilenceNotFound
from headrace.web.api.route_table import Table
from headrace.web.api.schemas import Cursor, Limit, Note, change_type, given_fields, new_type
from headrace.web.api.values import AlertWindow
from headrace.web.security.middleware import RequestContext

table = Table("alerts", "Alerts, their history, their rules and silences.")
_RULE = {"name": "mail-fails", "when": 'error_rate{queue="emails"}[5m] > 5%', "for_": 60, "severity": "critical"}


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


class NoteBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A note."""

    note: Note | None = None


RuleFields = change_type(
    "RuleFields",
    ALERT_RULE,
    "Fields of a rule: `when`, or `metric`, `op`, `threshold` and `window`; times in seconds.",
    metric=str,
    op=str,
    threshold=float,
    window=AlertWindow,
)
NewRule = new_type("NewRule", RuleFields, "A new rule.", name=str)


class NewSilence(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Mute notifications of a rule, of labels, or of everything, for a number of seconds."""

    rule: str | None = None
    labels: dict[str, str] | None = None
    for_: Annotated[float, Meta(gt=0, le=MAX_SPAN)]
    note: Note | None = None


# -- alerts


@table.get("/alerts")
def active(context: RequestContext, query: AlertQuery) -> list[Alert]:
    """List the firing alerts, most severe first."""
    return context.app.alerts.active(severity=query.severity, acknowledged=query.acknowledged, pending=query.pending)


@table.get("/alert-history")
def history(context: RequestContext, query: HistoryQuery) -> list[AlertChange]:
    """List the history of alerts, newest first. The `cursor` of the last entry continues the list."""
    return context.app.alerts.history(limit=query.limit, before=query.before, cursor=query.cursor, rule=query.rule)


@table.post("/alerts/{alert_id}/acknowledge", example={"note": "looking into it"})
def acknowledge(context: RequestContext, alert_id: str, body: NoteBody) -> Alert:
    """Acknowledge an alert, which stops its repeated notifications."""
    return context.app.alerts.acknowledge(alert_id, by=context.caller.name, note=body.note)


@table.post("/alerts/{alert_id}/resolve", example={"note": "the mail server is back"})
def resolve(context: RequestContext, alert_id: str, body: NoteBody) -> Alert:
    """Resolve an alert by hand. It fires again if its rule still holds."""
    return context.app.alerts.resolve(alert_id, by=context.caller.name, note=body.note)


@table.get("/alerts/{alert_id}")
def get(context: RequestContext, alert_id: str) -> Alert:
    """Return one alert by its id, or the only open alert of the rule with this name."""
    return context.app.alerts.get(alert_id)


# -- rules


@table.get("/alert-rules")
def rules(context: RequestContext) -> list[AlertRule]:
    """List the rules with their states, by name."""
    return context.app.alerts.rules.list()


@table.post("/alert-rules", status=201, body=NewRule, example=_RULE)
def create_rule(context: RequestContext, body: Struct) -> AlertRule:
    """Create a rule."""
    fields = given_fields(body)
    return context.app.alerts.rules.create(fields.pop("name"), **fields)


@table.post("/alert-rule-test", body=RuleFields, writes=False, example={"when": "depth > 1000"})
def test_rule(context: RequestContext, body: Struct) -> list[AlertReading]:
    """Evaluate a rule that is not stored. No notification is sent."""
    return context.app.alerts.rules.test(**given_fields(body))


@table.get("/alert-rules/{name}/test")
def test_stored_rule(context: RequestContext, name: str) -> list[AlertReading]:
    """Evaluate a stored rule. No notification is sent."""
    return context.app.alerts.rules.test(name)


@table.get("/alert-rules/{name}")
def rule(context: RequestContext, name: str) -> AlertRule:
    """Return one rule with its state."""
    return context.app.alerts.rules.get(name)


@table.patch("/alert-rules/{name}", body=RuleFields, example={"enabled": False})
def update_rule(context: RequestContext, name: str, body: Struct) -> AlertRule:
    """Change a rule, also a built-in one."""
    return context.app.alerts.rules.update(name, **given_fields(body))


@table.delete("/alert-rules/{name}")
def delete_rule(context: RequestContext, name: str) -> None:
    """Delete a rule. A built-in rule returns to its defaults."""
    context.app.alerts.rules.delete(name)


# -- silences


@table.get("/alert-silences")
def silences(context: RequestContext) -> list[AlertSilence]:
    """List the active silences."""
    return context.app.alerts.silences()


@table.post("/alert-silences", status=201, example={"rule": "mail-fails", "for_": 3600, "note": "migration"})
def silence(context: RequestContext, body: NewSilence) -> AlertSilence:
    """Mute notifications for a time."""
    return context.app.alerts.silence(
        body.rule, labels=body.labels, for_=body.for_, by=context.caller.name, note=body.note
    )


@table.delete("/alert-silences/{silence_id}")
def unsilence(context: RequestContext, silence_id: str) -> None:
    """End a silence."""
    if not context.app.alerts.unsilence(silence_id):
        raise AlertSilenceNotFound(silence_id)
