"""Findings about alerts: firing ones, broken rules, failing channels."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.app.alerts.records import Alert
from headrace.app.app import Headrace
from headrace.core.health.findings import Finding


def findings(app: Headrace) -> Iterator[Finding]:
    yield from map(_of_alert, app.alerts.active())
    yield from _of_channels(app)
    for rule in app.alerts.rules.list():
        if rule.state == "broken":
            yield Finding(
                code="rule_broken",
                sentence=f"alert rule {rule.name!r} can't be evaluated: {rule.error}",
                advice=f"change it with `headrace alerts rule set {rule.name}`",
            )
    if not app.settings.alert_check:
        yield Finding(
            code="alert_check_off",
            sentence="workers do not evaluate alert rules: `alert_check` is off",
            advice="evaluate them with `headrace alerts evaluate`",
            note=True,
        )


def _of_alert(alert: Alert) -> Finding:
    is_acknowledged = alert.state == "acknowledged"
    by = f" by {alert.acknowledged_by}" if alert.acknowledged_by else ""
    return Finding(
        code="alert",
        sentence=f"alert {alert.rule} ({alert.severity}): {alert.summary}",
        advice=f"acknowledged{by}" if is_acknowledged else f"acknowledge it with `headrace alerts ack {alert.id}`",
        note=is_acknowledged,
    )


def _of_channels(app: Headrace) -> Iterator[Finding]:
    channels = {channel.name: channel for channel in app.alerts.channels.list()}
    for name in app.settings.alert_notify:
        if name not in channels:
            yield Finding(
                code="channel_missing",
                sentence=f"alert_notify names the channel {name!r}, which does not exist",
                advice=f"create it with `headrace alerts channel add {name}`, or remove its name from the setting",
            )
    for channel in channels.values():
        if channel.error:
            yield Finding(
                code="channel_failing",
                sentence=f"notifications to channel {channel.name!r} fail: {channel.error}; {channel.waiting} wait",
                advice=f"test it with `headrace alerts channel test {channel.name}`",
                count=channel.failures,
            )
