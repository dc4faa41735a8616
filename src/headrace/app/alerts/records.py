"""Alerts, their rules and channels as users see them: seconds and aware datetimes, no secrets."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct, structs

from headrace.core.alerts import alert as core
from headrace.core.alerts.alert import AlertAction, AlertState, Severity
from headrace.core.alerts.defaults import SHIPPED
from headrace.core.alerts.rules import AlertRuleFields
from headrace.core.clock import to_datetime
from headrace.runtime.alerts.channels import BUILT_IN, Channel, Kind
from headrace.runtime.alerts.store import ChannelHealth

RuleState = Literal["ok", "pending", "firing", "acknowledged", "no_data", "broken", "off"]
_MOST_SEVERE_FIRST: tuple[AlertState, ...] = ("firing", "acknowledged", "pending")


class Alert(Struct, frozen=True, kw_only=True):
    """A rule that holds, or held, for these labels. `since` is when that began, `fired_at` when it fired.

    `figures` are the last values. `notified` counts the notifications; `silenced`: notifications are muted now;
    `no_data`: there is no current value, so it is unknown whether the rule still holds.
    """

    id: str
    rule: str
    state: AlertState
    severity: Severity
    summary: str
    labels: dict[str, str]
    figures: dict[str, float | None]
    since: datetime
    fired_at: datetime | None
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    resolved_at: datetime | None
    resolved_by: str | None
    note: str | None
    runbook: str | None
    notified: int
    silenced: bool
    no_data: bool


class AlertChange(Struct, frozen=True, kw_only=True):
    """A history entry of an alert (raised, repeated, acknowledged or resolved), with the alert as of then.

    The history continues after its `cursor`.
    """

    cursor: str
    at: datetime
    what: AlertAction
    alert: Alert
    by: str | None
    note: str | None


class AlertRule(AlertRuleFields, frozen=True, kw_only=True):
    """An alert rule. Times in seconds.

    `shipped`: it is built in; `changed`: an operator has changed a built-in rule. `state` is that of its most severe
    alert, "ok" without any, or "no_data", "broken" (with its `error`) or "off".
    """

    shipped: bool
    changed: bool
    state: RuleState
    error: str | None = None


class AlertReading(Struct, frozen=True, kw_only=True):
    """Whether a rule holds for these labels now, None without data, and the values."""

    labels: dict[str, str]
    holds: bool | None
    figures: dict[str, float | None]
    summary: str


class AlertSilence(Struct, frozen=True, kw_only=True):
    """A silence of this rule with these labels until a time; None and {} mean any."""

    id: str
    rule: str | None
    labels: dict[str, str]
    at: datetime
    until: datetime
    by: str | None
    note: str | None


class AlertChannel(Struct, frozen=True, kw_only=True):
    """An alert channel. `target` is its destination without secrets; `severity` the lowest severity to send.

    `error` is the last error, `failures` the number of failures in a row, `waiting` the number of unsent notifications.
    """

    name: str
    kind: Kind
    target: str
    severity: Severity
    enabled: bool
    signed: bool
    origin: Literal["built-in", "setting", "store"]
    error: str | None = None
    failing_since: datetime | None = None
    failures: int = 0
    waiting: int = 0


def _moment(ms: int) -> datetime:
    moment = to_datetime(ms)
    assert moment is not None
    return moment


def shown_alert(alert: core.AlertRow, silences: list[core.SilenceRow], now: int) -> Alert:
    return Alert(
        id=alert.id,
        rule=alert.rule,
        state=alert.state,
        severity=alert.severity,
        summary=alert.summary,
        labels=alert.all_labels,
        figures=alert.figures,
        since=_moment(alert.since),
        fired_at=to_datetime(alert.fired_at),
        acknowledged_at=to_datetime(alert.acknowledged_at),
        acknowledged_by=alert.acknowledged_by,
        resolved_at=to_datetime(alert.resolved_at),
        resolved_by=alert.resolved_by,
        note=alert.note,
        runbook=alert.runbook,
        notified=alert.notified,
        silenced=any(silence.mutes(alert.rule, alert.all_labels, now) for silence in silences),
        no_data=alert.no_data_since is not None,
    )


def shown_change(cursor: str, change: core.AlertHistoryEntry) -> AlertChange:
    alert = shown_alert(change.alert, [], change.at)
    at = _moment(change.at)
    return AlertChange(cursor=cursor, at=at, what=change.what, alert=alert, by=change.by, note=change.note)


def shown_rule(rule: core.AlertRuleRow, open_alerts: list[core.AlertRow], health: ChannelHealth | None) -> AlertRule:
    known = structs.asdict(rule)
    known |= {"for_": rule.for_ / 1000, "cooldown": rule.cooldown / 1000}
    return AlertRule(
        **known,
        shipped=rule.name in SHIPPED,
        changed=rule.name in SHIPPED and rule != SHIPPED[rule.name],
        state=_state_of(rule, open_alerts, health),
        error=health.error if health is not None and health.state == "broken" else None,
    )


def _state_of(rule: core.AlertRuleRow, open_alerts: list[core.AlertRow], health: ChannelHealth | None) -> RuleState:
    if not rule.enabled:
        return "off"
    if health is not None and health.state == "broken":
        return "broken"
    states = {alert.state for alert in open_alerts if alert.rule == rule.name}
    for state in _MOST_SEVERE_FIRST:
        if state in states:
            return "firing" if state == "firing" else "acknowledged" if state == "acknowledged" else "pending"
    return "ok" if health is None else "no_data"


def shown_silence(silence: core.SilenceRow) -> AlertSilence:
    known = structs.asdict(silence)
    return AlertSilence(**{**known, "at": _moment(silence.at), "until": _moment(silence.until)})


def shown_channel(channel: Channel, is_set: bool, health: ChannelHealth | None, waiting: int) -> AlertChannel:
    return AlertChannel(
        name=channel.name,
        kind=channel.kind,
        target=channel.target,
        severity=channel.severity,
        enabled=channel.enabled,
        signed=channel.secret is not None,
        origin="setting" if is_set else "built-in" if channel is BUILT_IN else "store",
        error=channel.trouble or (None if health is None else health.error),
        failing_since=None if health is None else to_datetime(health.since),
        failures=0 if health is None else health.count,
        waiting=waiting,
    )
