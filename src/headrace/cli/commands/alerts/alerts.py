"""`headrace alerts`: active alerts, their history and silences. Rules and channels have their own modules."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from headrace.app.alerts.records import Alert, AlertChange, AlertSilence
from headrace.cli.commands.alerts.channels import channel, channels
from headrace.cli.commands.alerts.rules import labels_option, rule, rules
from headrace.cli.options import by_option, duration, example, limit_option, moment
from headrace.cli.output import Column, ago, paint, say, stamp
from headrace.cli.resource import Output, Resource, facts, line, table
from headrace.cli.session import Session
from headrace.core.alerts.alert import SEVERITIES
from headrace.core.alerts.text import labels_text

_ID = "0197b6f3-5c1e-7d2a-9c3e-0a1b2c3d4e5f"
_COLUMNS = (
    Column("ID"),
    Column("SEVERITY"),
    Column("STATE"),
    Column("RULE", min_width=8),
    Column("FOR", right=True),
    Column("WHAT", min_width=12),
)
_HISTORY = (
    Column("AT"),
    Column("WHAT"),
    Column("SEVERITY"),
    Column("RULE", min_width=8),
    Column("BY", min_width=4),
    Column("ALERT", min_width=12),
)
_SILENCES = (
    Column("ID"),
    Column("RULE", min_width=6),
    Column("LABELS", min_width=6),
    Column("UNTIL"),
    Column("BY"),
    Column("NOTE"),
)


alerts = Resource(
    "alerts",
    "List and acknowledge alerts; manage rules, channels and silences. Without a command: list alerts.",
    "headrace alerts",
    "headrace alerts ack no_worker --by kim",
    "headrace alerts silence --for 2h",
)


@alerts.command("list", epilog=example("headrace alerts list --severity critical", "headrace alerts list --pending"))
@click.option("--severity", type=click.Choice(SEVERITIES), help="Only of this severity.")
@click.option("--unacknowledged", is_flag=True, help="Only unacknowledged ones.")
@click.option("--pending", is_flag=True, help="Also alerts whose rule has not held long enough to fire.")
def list_alerts(session: Session, severity: str | None, unacknowledged: bool, pending: bool) -> Output:
    """List the firing alerts, most severe first."""
    acknowledged = False if unacknowledged else None
    found = session.store().alerts.active(severity=severity, acknowledged=acknowledged, pending=pending)
    now = datetime.now(UTC)
    return table(found, _COLUMNS, (_row(alert, now) for alert in found), "no alert fires")


def _row(alert: Alert, now: datetime) -> list[str]:
    flags = [flag for flag, holds in (("silenced", alert.silenced), ("no data", alert.no_data)) if holds]
    state = f"{alert.state} ({', '.join(flags)})" if flags else alert.state
    return [alert.id, alert.severity, state, alert.rule, ago(alert.since, now), alert.summary]


@alerts.command("show", epilog=example(f"headrace alerts show {_ID}", "headrace alerts show no_worker"))
@click.argument("alert_id", metavar="ID")
def show(session: Session, alert_id: str) -> Output:
    """Show everything about one alert. ID may be the name of its rule if that rule has only one open alert."""
    alert = session.store().alerts.get(alert_id)
    return facts(alert, _facts(alert))


def _facts(alert: Alert) -> list[tuple[str, str]]:
    acknowledged_by = f" by {alert.acknowledged_by}" if alert.acknowledged_by else ""
    resolved_by = f" by {alert.resolved_by}" if alert.resolved_by else ""
    return [
        ("id", alert.id),
        ("rule", alert.rule),
        ("severity", alert.severity),
        ("state", alert.state + (" (silenced)" if alert.silenced else "") + (" (no data)" if alert.no_data else "")),
        ("what", alert.summary),
        ("labels", labels_text(alert.labels) or "-"),
        ("since", stamp(alert.since)),
        ("fired", stamp(alert.fired_at)),
        ("notified", "once" if alert.notified == 1 else f"{alert.notified} times"),
        ("acknowledged", stamp(alert.acknowledged_at) + acknowledged_by),
        ("resolved", stamp(alert.resolved_at) + resolved_by),
        ("note", alert.note or "-"),
        ("runbook", alert.runbook or "-"),
    ]


@alerts.command("history", epilog=example("headrace alerts history -n 20", "headrace alerts history --rule no_worker"))
@click.option("--rule", "rule_name", metavar="RULE", help="Only of this rule.")
@click.option("--before", metavar="TIME", callback=moment, help="Only entries before this ISO time (UTC).")
@limit_option
def history(session: Session, rule_name: str | None, before: datetime | None, limit: int) -> Output:
    """List the history of alerts, newest first."""
    found = session.store().alerts.history(limit=limit, before=before, rule=rule_name)
    return table(found, _HISTORY, map(_history_row, found), "there is no history yet")


def _history_row(change: AlertChange) -> list[str]:
    alert = change.alert
    by = change.by or (alert.resolved_by if change.what == "resolved" else None) or "-"
    note = f" ({change.note})" if change.note else ""
    return [stamp(change.at), change.what, alert.severity, alert.rule, by, alert.summary + note]


_note_option = click.option("--note", metavar="TEXT", help="A note, for the record.")


@alerts.command("ack", epilog=example(f"headrace alerts ack {_ID} --by kim --note 'on it'"))
@click.argument("alert_id", metavar="ID")
@by_option
@_note_option
def ack(session: Session, alert_id: str, by: str | None, note: str | None) -> Output:
    """Acknowledge an alert, which stops its repeated notifications. ID may be the name of its rule."""
    alert = session.store().alerts.acknowledge(alert_id, by=by, note=note)
    return line(alert, f"acknowledged: {alert.rule}; it resolves when its rule no longer holds")


@alerts.command("resolve", epilog=example(f"headrace alerts resolve {_ID} --by kim"))
@click.argument("alert_id", metavar="ID")
@by_option
@_note_option
def resolve(session: Session, alert_id: str, by: str | None, note: str | None) -> Output:
    """Resolve an alert by hand. It fires again if its rule still holds."""
    alert = session.store().alerts.resolve(alert_id, by=by, note=note)
    return line(alert, f"resolved: {alert.rule}")


@alerts.command("trigger", epilog=example("headrace alerts trigger deploy 'the deploy failed' --label host=web1"))
@click.argument("name")
@click.argument("summary")
@labels_option
@click.option("--severity", type=click.Choice(SEVERITIES), default="warning", show_default=True)
def trigger(session: Session, name: str, summary: str, labels: dict[str, str], severity: str) -> Output:
    """Raise an alert by hand, for a problem that no rule can see. A worker sends the notifications."""
    alert = session.store().alerts.trigger(name, summary, labels=labels, severity=severity)
    return line(alert, f"{alert.state}: {alert.rule}, {alert.id}")


@alerts.command("evaluate", epilog=example("headrace alerts evaluate"))
def evaluate(session: Session) -> Output:
    """Evaluate every rule now and send notifications, as workers do. Exits with 1 while a critical alert fires.

    Run it from cron or a systemd timer to be alerted when no worker is alive.
    """
    app_alerts = session.store().alerts
    changed = app_alerts.evaluate()
    firing = app_alerts.active()

    def show() -> None:
        for alert in changed:
            say(paint(f"{alert.state}: {alert.rule}: {alert.summary}", "green" if alert.resolved_at else "red"))
        say(f"{len(firing)} alerts fire" if len(firing) != 1 else "1 alert fires")

    is_critical = any(alert.severity == "critical" and alert.state == "firing" for alert in firing)
    return Output({"changed": changed, "firing": firing}, show, int(is_critical))


# -- silences


@alerts.command("silence", epilog=example("headrace alerts silence queue_depth --label queue=mail --for 2h --by kim"))
@click.argument("rule_name", metavar="[RULE]", required=False)
@labels_option
@click.option(
    "--for",
    "length",
    metavar="TIME",
    callback=duration,
    default="1h",
    show_default=True,
    help="Duration: 30m, 2h, 1d.",
)
@by_option
@_note_option
def silence(session: Session, /, rule_name: str | None, length: float, **labels_by_and_note: Any) -> Output:
    """Mute notifications of RULE, or of every rule, for a time. Alerts are still listed."""
    created = session.store().alerts.silence(rule_name, for_=length, **labels_by_and_note)
    return line(created, f"{created.id}: silent until {stamp(created.until)}")


@alerts.command("silences", epilog=example("headrace alerts silences"))
def silences(session: Session) -> Output:
    """List the active silences."""
    found = session.store().alerts.silences()
    return table(found, _SILENCES, map(_silence_row, found), "nothing is silenced")


def _silence_row(row: AlertSilence) -> list[str]:
    return [
        row.id,
        row.rule or "any",
        labels_text(row.labels) or "any",
        stamp(row.until),
        row.by or "-",
        row.note or "-",
    ]


@alerts.command("unsilence", epilog=example(f"headrace alerts unsilence {_ID}"))
@click.argument("silence_id", metavar="ID")
def unsilence(session: Session, silence_id: str) -> Output:
    """End a silence."""
    done = session.store().alerts.unsilence(silence_id)
    return line({"ended": done}, "the silence has ended" if done else "there is no such silence", int(not done))


for command in (rules, rule, channels, channel):
    alerts.add_command(command)
