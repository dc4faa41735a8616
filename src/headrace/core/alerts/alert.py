"""Alerts: rules, the state machine of an alert, and when to notify. Pure; times are milliseconds.

An alert is a rule that holds for one set of labels, and there is one of each at a time:

    (none) ──holds──▶ pending ──for so long──▶ firing ──a person has seen it──▶ acknowledged
                         │                        │                                  │
                         └──does not hold──▶ (none)└──────────does not hold──────────┴──▶ resolved

Without data an alert keeps its state, and says so; after an hour of that it is resolved, with a notification. The
notification of an alert is repeated after its cooldown, until the alert is acknowledged. An alert that comes back
within its cooldown is shown at once, and notified after the cooldown if it still holds.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from headrace.core.alerts.conditions import Evaluation, MetricSource
from headrace.core.alerts.expressions import parsed
from headrace.core.metrics.catalog import METRICS

Severity = Literal["info", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
AlertState = Literal["pending", "firing", "acknowledged", "resolved"]
AlertAction = Literal["raised", "repeated", "acknowledged", "resolved"]
OPEN: tuple[AlertState, ...] = ("pending", "firing", "acknowledged")
NO_DATA_TIMEOUT = 3_600_000
_MAX_SHOWN_FIGURES = 4
_MAX_KEY_BYTES = 2000  # bytes
_PLACEHOLDER = re.compile(r"\{(\w+)(?::([^{}]*))?\}")


class AlertRuleRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An alert rule. With `per`, it holds for each queue, task or worker separately.

    Without `notify`, the channels of the setting `alert_notify` are used.
    """

    name: str
    when: str
    for_: int = field(default=0, name="for")
    cooldown: int = 300_000
    severity: Severity = "warning"
    per: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    notify: tuple[str, ...] | None = None
    summary: str | None = None
    runbook: str | None = None
    enabled: bool = True


class AlertRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a rule for these labels. `since` is when it began to hold.

    `notified_at` is the time of the last notification, also of the alert before it; `notified` is the number of
    notifications of this alert. An alert raised `by_hand` has no rule that would end it: it stores its own `cooldown`.
    """

    id: str
    rule: str
    series: dict[str, str]
    labels: dict[str, str]
    severity: Severity
    state: AlertState
    since: int
    summary: str
    figures: dict[str, float | None] = {}
    runbook: str | None = None
    fired_at: int | None = None
    acknowledged_at: int | None = None
    acknowledged_by: str | None = None
    note: str | None = None
    resolved_at: int | None = None
    resolved_by: str | None = None
    notified_at: int | None = None
    notified: int = 0
    no_data_since: int | None = None
    notify: tuple[str, ...] | None = None
    by_hand: bool = False
    cooldown: int | None = None

    @property
    def is_open(self) -> bool:
        return self.state in OPEN

    @property
    def all_labels(self) -> dict[str, str]:
        return {**self.labels, **self.series}


class SilenceRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """No notifications of matching alerts until then: those of a rule, with these labels, or both."""

    id: str
    until: int
    at: int
    rule: str | None = None
    labels: dict[str, str] = {}
    by: str | None = None
    note: str | None = None

    def mutes(self, rule: str, labels: Mapping[str, str], now: int) -> bool:
        """Whether notifications of this rule with these labels are muted."""
        matches = all(labels.get(name) == value for name, value in self.labels.items())
        return now < self.until and self.rule in (None, rule) and matches


class AlertHistoryEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry of the alert history: what happened, and the alert at that time."""

    at: int
    what: AlertAction
    alert: AlertRow
    by: str | None = None
    note: str | None = None


class AlertTransition(NamedTuple):
    """The new state of an alert, what happened to it (None: nothing), and whether to notify."""

    alert: AlertRow | None
    action: AlertAction | None = None
    notify: bool = False


AlertEvent = tuple[AlertAction, AlertRow]  # the content of a notification


def key_of(rule: str, series: Mapping[str, str]) -> str:
    """The key of an alert among all concurrent ones. Bounded, as a PostgreSQL key is."""
    key = "\n".join([rule, *(f"{name}={series[name]}" for name in sorted(series))])
    return key if len(key.encode()) <= _MAX_KEY_BYTES else f"{rule}\n#{hashlib.sha256(key.encode()).hexdigest()}"


# -- state changes


def step(
    rule: AlertRuleRow,
    series: dict[str, str],
    before: AlertRow | None,
    evaluation: Evaluation,
    now: int,
    new_id: str,
    muted: bool = False,
) -> AlertTransition:
    """The alert after this evaluation. `muted` says that it is silenced."""
    if before is not None and before.notified_at is not None:
        before = replace(before, notified_at=_not_ahead(before.notified_at, rule.cooldown, now))
    known = before if before is not None and before.is_open else None
    if evaluation.holds is None:
        return _no_data(known, before, now, muted)
    if not evaluation.holds:
        return _not_holding(known, before, now, muted)
    if known is None:
        known = _new_alert(rule, series, before, now, new_id)
    current = replace(
        known,
        severity=rule.severity,
        labels=rule.labels,
        runbook=rule.runbook,
        notify=rule.notify,
        figures=evaluation.figures,
        summary=format_summary(rule, series, evaluation.figures),
        no_data_since=None,
        by_hand=False,
        cooldown=None,
    )
    return _holding(rule, current, now, muted)


def _new_alert(rule: AlertRuleRow, series: dict[str, str], before: AlertRow | None, now: int, new_id: str) -> AlertRow:
    return AlertRow(
        id=new_id,
        rule=rule.name,
        series=series,
        labels=rule.labels,
        severity=rule.severity,
        state="pending",
        since=now,
        summary="",
        notified_at=None if before is None else before.notified_at,
    )


def _holding(rule: AlertRuleRow, alert: AlertRow, now: int, muted: bool) -> AlertTransition:
    if alert.state == "pending":
        alert = replace(alert, since=_not_ahead(alert.since, rule.for_, now))
    if alert.state == "acknowledged" or (alert.state == "pending" and now - alert.since < rule.for_):
        return AlertTransition(alert)
    is_new = alert.state == "pending"
    if is_new:
        alert = replace(alert, state="firing", fired_at=now)
    if _is_cooldown_over(alert, rule.cooldown, now) and not muted:
        sent = replace(alert, notified_at=now, notified=alert.notified + 1)
        return AlertTransition(sent, "repeated" if alert.notified else "raised", notify=True)
    return AlertTransition(alert, "raised" if is_new else None)


def _not_holding(known: AlertRow | None, before: AlertRow | None, now: int, muted: bool) -> AlertTransition:
    if known is None:
        return AlertTransition(before)
    if known.state == "pending":
        return AlertTransition(None)
    return resolve(known, now, muted=muted)


def _no_data(known: AlertRow | None, before: AlertRow | None, now: int, muted: bool) -> AlertTransition:
    if known is None:
        return AlertTransition(before)
    since = _not_ahead(known.no_data_since or now, NO_DATA_TIMEOUT, now)
    if now - since < NO_DATA_TIMEOUT:
        return AlertTransition(replace(known, no_data_since=since))
    return (
        AlertTransition(None)
        if known.state == "pending"
        else resolve(known, now, by="no data for an hour", muted=muted)
    )


def resolve(alert: AlertRow, now: int, *, by: str | None = None, muted: bool = False) -> AlertTransition:
    """Resolve the alert. It notifies of the end if it notified of the beginning."""
    return AlertTransition(
        replace(alert, state="resolved", resolved_at=now, resolved_by=by), "resolved", alert.notified > 0 and not muted
    )


def acknowledge(alert: AlertRow, now: int, by: str | None, note: str | None) -> AlertTransition:
    """Acknowledge the alert: its notifications are not repeated."""
    acknowledged = replace(
        alert, state="acknowledged", acknowledged_at=now, acknowledged_by=by, note=note or alert.note
    )
    return AlertTransition(acknowledged, "acknowledged")


def is_removable(alert: AlertRow, cooldown: int, now: int) -> bool:
    """Whether a resolved alert can be removed: the next one would be notified at once."""
    return not alert.is_open and _is_cooldown_over(alert, cooldown, now)


def _is_cooldown_over(alert: AlertRow, cooldown: int, now: int) -> bool:
    """Whether the cooldown is over. A time further ahead than the cooldown comes from a wrong clock."""
    return alert.notified_at is None or not now - cooldown < alert.notified_at <= now + cooldown


def _not_ahead(since: int, span: int, now: int) -> int:
    """The start time, or now if a wrong clock set it more than `span` ahead."""
    return now if since > now + span else since


def trigger(
    rule: AlertRuleRow, series: dict[str, str], before: AlertRow | None, now: int, new_id: str, muted: bool
) -> AlertTransition:
    """Raise an alert by hand, with a name that no rule has. It notifies once while open or in its cooldown."""
    transition = step(rule, series, before, Evaluation(True, {}), now, new_id, muted)
    assert transition.alert is not None
    raised = replace(transition.alert, summary=rule.summary or rule.name, by_hand=True, cooldown=rule.cooldown)
    return AlertTransition(raised, transition.action, transition.notify)


# -- evaluation


def evaluate(
    rule: AlertRuleRow, source: MetricSource, open_series: list[dict[str, str]]
) -> list[tuple[dict[str, str], Evaluation]]:
    """Whether the rule holds, for each existing set of labels and each with an open alert."""
    condition = parsed(rule.when)
    if not rule.per:
        return [({}, condition.evaluate(source, {}))]
    window = max((metric.window or 0 for metric in condition.metrics()), default=0)
    all_series = {key_of("", series): series for series in [*open_series, *source.labels(rule.per, window or None)]}
    return [(series, condition.evaluate(source, series)) for series in all_series.values() if [*series] == [*rule.per]]


def format_summary(rule: AlertRuleRow, series: Mapping[str, str], figures: Mapping[str, float | None]) -> str:
    """A sentence with the figures: `queue emails has 1,204 pending jobs`.

    In the summary of a rule, `{depth}` is a figure of its condition, `{queue}` a label, and `{depth:job is|jobs are}` a
    number with its noun. Labels and figures that it does not name are added to it.
    """
    named = {
        _metric_of(text): value for text, value in reversed(list(figures.items())) if not text.startswith("baseline(")
    }
    told: set[str] = set()

    def value_of(match: re.Match[str]) -> str:
        name, noun = match[1], match[2]
        if name in series:
            told.add(name)
            return series[name].replace("_", " ") if name == "reason" else series[name]
        if name not in named:
            return match[0]
        told.add(name)
        text, value = METRICS[name].format_value(named[name]), named[name]
        return text if noun is None else f"{text} {noun.partition('|')[0 if value == 1 else 2]}"

    sentence = _PLACEHOLDER.sub(value_of, rule.summary or "")
    labels = ", ".join(f"{name} {value}" for name, value in series.items() if name not in told)
    shown = [f"{text} is {_format_figure(text, value)}" for text, value in list(figures.items())[:_MAX_SHOWN_FIGURES]]
    values = ", ".join(shown)
    if not sentence:
        sentence = f"{values} ({rule.when})" if shown else rule.when
    elif shown and told.isdisjoint(named):
        sentence = f"{sentence} ({values})"
    return f"{labels}: {sentence}" if labels else sentence


def _metric_of(text: str) -> str:
    """The metric in the text of a figure, such as `baseline(depth{queue="mail"}[5m])`."""
    return text.removeprefix("baseline(").removeprefix("absent(").partition("{")[0].partition("[")[0].rstrip(")")


def _format_figure(text: str, value: float | None) -> str:
    return METRICS[_metric_of(text)].format_value(value)
