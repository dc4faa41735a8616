"""The texts of alerts for logs, e-mail and webhooks. Pure; sends nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.core.alerts.alert import AlertAction, AlertEvent, AlertRow
from headrace.core.clock import to_datetime

MAX_SHOWN = 20  # alerts of one message that are shown in full


def headline(what: AlertAction, alert: AlertRow) -> str:
    """`CRITICAL no_worker: jobs are pending …`, `resolved no_worker: …`."""
    label = {"resolved": "resolved", "repeated": f"still {alert.severity.upper()}"}.get(what, alert.severity.upper())
    return f"{label} {alert.rule}: {alert.summary}"


def subject(events: Sequence[AlertEvent]) -> str:
    """All of them in one line."""
    if len(events) == 1:
        return one_line(headline(*events[0]))
    open_, over = sum(what != "resolved" for what, _ in events), sum(what == "resolved" for what, _ in events)
    parts = [f"{open_} alerts" if open_ else "", f"{over} resolved" if over else ""]
    return ", ".join(filter(None, parts))


def details(alert: AlertRow) -> list[str]:
    """Further facts, one per line."""
    lines = [f"since {stamp(alert.since)}"]
    if alert.resolved_at is not None:
        lines.append(f"resolved {stamp(alert.resolved_at)}" + (f" by {alert.resolved_by}" if alert.resolved_by else ""))
    if alert.all_labels:
        lines.append(labels_text(alert.all_labels))
    if alert.runbook:
        lines.append(f"runbook: {alert.runbook}")
    return [*map(one_line, lines), f"id: {alert.id}"]


def labels_text(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in labels.items())


def record(what: AlertAction, alert: AlertRow) -> dict[str, Any]:
    """The JSON record for a webhook."""
    return {
        "what": what,
        "id": alert.id,
        "rule": alert.rule,
        "state": alert.state,
        "severity": alert.severity,
        "summary": alert.summary,
        "labels": alert.all_labels,
        "figures": alert.figures,
        "runbook": alert.runbook,
        "since": to_datetime(alert.since),
        "fired_at": to_datetime(alert.fired_at),
        "resolved_at": to_datetime(alert.resolved_at),
        "resolved_by": alert.resolved_by,
    }


def stamp(ms: int | None) -> str:
    """2026-03-01 12:30:05 UTC."""
    return "-" if ms is None else f"{to_datetime(ms):%Y-%m-%d %H:%M:%S} UTC"


def one_line(text: str) -> str:
    """The text without anything that would break a line, a header or a terminal."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
