"""What the doctor finds about alerts: those that fire, rules that can't be evaluated, channels that can't be told."""

from __future__ import annotations

from headrace.app.app import Headrace


def look_at_alerts(app: Headrace, findings: list[str], remarks: list[str]) -> None:
    """Add what is wrong, and what somebody sees to already."""
    for alert in app.alerts.active():
        told = f"alert {alert.rule} ({alert.severity}): {alert.summary}"
        if alert.state == "acknowledged":
            remarks.append(f"{told}; {alert.acknowledged_by or 'somebody'} sees to it")
        else:
            findings.append(f"{told}; say that you see to it with `headrace alerts ack {alert.id}`")
    channels = {channel.name: channel for channel in app.alerts.channels.list()}
    for name in app.settings.alert_notify:
        if name not in channels:
            findings.append(
                f"alert_notify names the channel {name!r}, which is not there: nobody is told of alerts there"
            )
    for rule in app.alerts.rules.list():
        if rule.state == "broken":
            findings.append(
                f"alert rule {rule.name!r} can't be evaluated: {rule.error}; change it with "
                f"`headrace alerts rule set {rule.name}`"
            )
    for channel in channels.values():
        if channel.error:
            findings.append(
                f"channel {channel.name!r} can't be told of alerts: {channel.error}; {channel.waiting} wait for it"
            )
    if not app.settings.alert_check:
        remarks.append("no worker looks at alert rules: `alert_check` is off")
