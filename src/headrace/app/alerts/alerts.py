"""`app.alerts`: alerts, their history, acknowledgement and silences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from headrace.app.alerts.channels import AlertChannels
from headrace.app.alerts.records import (
    Alert,
    AlertChange,
    AlertSilence,
    shown_alert,
    shown_change,
    shown_silence,
)
from headrace.app.alerts.rules import AlertRules
from headrace.app.services.services import Services
from headrace.core.alerts import alert as core
from headrace.core.alerts.conditions import MetricSource
from headrace.core.alerts.rules import check_labels, check_line, check_rule_name, check_span, rule
from headrace.core.documents import Document
from headrace.core.jobs import ids
from headrace.core.option_times import check_moment
from headrace.core.settings.settings import Settings
from headrace.core.tasks.options import check_limit, check_text
from headrace.core.text import short
from headrace.errors import AlertNotFound, EngineUnavailable, InvalidAlert
from headrace.runtime.alerts.evaluate import AlertEvaluation, open_alerts
from headrace.runtime.alerts.inputs import AlertInputs
from headrace.runtime.alerts.outbox import Outbox
from headrace.runtime.alerts.store import SILENCE, AlertStore, cursor_of
from headrace.runtime.jobs.async_twin import twin
from headrace.runtime.metrics.reader import MetricsReader

_ATTEMPTS = 50
_ORDER = {"critical": 0, "warning": 1, "info": 2}
_MAX_SILENCE = 90 * 86_400_000


class Alerts:
    """`app.alerts`."""

    def __init__(self, services: Services, settings: Settings) -> None:
        self._services = services
        self._settings = settings

    @cached_property
    def rules(self) -> AlertRules:
        """The alert rules."""
        return AlertRules(lambda: self._store, self._readings)

    @cached_property
    def channels(self) -> AlertChannels:
        """The alert channels."""
        return AlertChannels(lambda: self._store, lambda: self._services.clock, self._settings)

    @property
    def _store(self) -> AlertStore:
        return AlertStore(self._services.engine, self._settings, self._services.cipher)

    def _readings(self) -> MetricSource:
        MetricsReader(self._services.engine, self._settings).catch_up()
        return AlertInputs(self._services.engine, self._settings)

    # -- reading

    def active(
        self, *, severity: str | None = None, acknowledged: bool | None = None, pending: bool = False
    ) -> list[Alert]:
        """The firing alerts, most severe first; with `pending` also those whose rule has not held long enough.

        Filter by severity or by acknowledged.
        """
        if severity is not None and severity not in core.SEVERITIES:
            raise InvalidAlert(
                f"severity: expected one of {', '.join(core.SEVERITIES)}, got {short(severity)}", value=severity
            )
        found = [
            alert
            for _, alert in open_alerts(self._store)
            if severity in (None, alert.severity)
            and acknowledged in (None, alert.state == "acknowledged")
            and (pending or alert.state != "pending")
        ]
        return self._shown(sorted(found, key=lambda alert: (_ORDER[alert.severity], alert.since, alert.id)))

    def get(self, alert_id: str) -> Alert:
        """The alert with this id, or the only open alert of the rule with this name; otherwise AlertNotFound."""
        return self._shown([self._find(alert_id)[1]])[0]

    def history(
        self,
        *,
        limit: int = 100,
        before: datetime | None = None,
        cursor: str | None = None,
        rule: str | None = None,
    ) -> list[AlertChange]:
        """The history of alerts, newest first; kept for `alert_keep` seconds.

        It continues after the entry with this `cursor`, or before a time.
        """
        most, found = check_limit("limit", limit), list[AlertChange]()
        last = None if before is None else cursor_of(check_moment("before", before))
        last = last if cursor is None else check_text("cursor", cursor)
        while len(found) < most:
            page = self._store.history(most, last)
            found += [shown_change(key, one) for key, one in page if rule in (None, one.alert.rule)]
            if len(page) < most:
                break
            last = page[-1][0]
        return found[:most]

    def _shown(self, alerts: list[core.AlertRow]) -> list[Alert]:
        silences, now = [silence for _, silence in self._store.silences()], self._services.clock.now()
        return [shown_alert(alert, silences, now) for alert in alerts]

    # -- changing

    def acknowledge(self, alert_id: str, *, by: str | None = None, note: str | None = None) -> Alert:
        """Acknowledge an alert: it is not repeated, and resolves when its rule no longer holds."""
        return self._act(alert_id, by, note, lambda alert, now: core.acknowledge(alert, now, by, note))

    def resolve(self, alert_id: str, *, by: str | None = None, note: str | None = None) -> Alert:
        """Resolve an alert by hand. If its rule still holds it fires again, and notifies after its cooldown."""
        return self._act(
            alert_id,
            by,
            note,
            lambda alert, now: core.resolve(alert, now, by=by, muted=self._is_muted(alert.rule, alert.all_labels, now)),
        )

    def _is_muted(self, rule: str, labels: Mapping[str, str], now: int) -> bool:
        return any(silence.mutes(rule, labels, now) for _, silence in self._store.silences())

    def _act(
        self,
        alert_id: str,
        by: str | None,
        note: str | None,
        change: Callable[[core.AlertRow, int], core.AlertTransition],
    ) -> Alert:
        check_line("by", by)
        check_line("note", note)
        for _ in range(_ATTEMPTS):
            document, alert = self._find(alert_id)
            if not alert.is_open:
                raise InvalidAlert(f"alert {alert.id} is resolved already")
            if alert.state == "pending":
                raise InvalidAlert(f"alert {alert.id} is pending: its rule has not held long enough")
            transition = change(alert, self._services.clock.now())
            if self._store.keep(document, transition, by, note):
                assert transition.alert is not None
                return self._shown([transition.alert])[0]
        raise EngineUnavailable(f"alert {alert_id!r} keeps being changed by others; try again")

    def _find(self, alert_id: str) -> tuple[Document, core.AlertRow]:
        found = list(self._store.alerts())
        exact = [one for one in found if one[1].id == alert_id]
        of_rule = [one for one in found if one[1].rule == alert_id and one[1].is_open]
        if exact or len(of_rule) == 1:
            return (exact or of_rule)[0]
        hint = f"; {len(of_rule)} alerts of this rule are open, use an id" if of_rule else ""
        raise AlertNotFound(alert_id, hint)

    def trigger(self, name: str, summary: str, /, *, labels: Mapping[str, str] | None = None, **how: Any) -> Alert:
        """Raise an alert by hand, for a problem that no rule can see; resolve() ends it.

        While an alert with this name and labels is open, it is repeated only after its cooldown. `how` may have
        severity, cooldown, notify and runbook, as for a rule.
        """
        series = check_labels("labels", labels)
        made = rule(name, {**how, "summary": summary, "when": "1 > 0"})
        if check_rule_name(name) in self._store.rules():
            raise InvalidAlert(f"name: {name!r} is the name of a rule; use another name")
        self._store.ensure_channels(made.notify)
        for _ in range(_ATTEMPTS):
            now, known = self._services.clock.now(), self._store.alert(name, series)
            muted = self._is_muted(name, {**made.labels, **series}, now)
            transition = core.trigger(made, series, known and known[1], now, ids.new_id(now), muted)
            if self._store.keep(known and known[0], transition) and transition.alert is not None:
                return self._shown([transition.alert])[0]
        raise EngineUnavailable(f"alert {name!r} keeps being changed by others; try again")

    def evaluate(self) -> list[Alert]:
        """Evaluate every rule now and send notifications, as workers do every `alert_check` seconds.

        Returns the changed alerts.
        """
        clock, store = self._services.clock, self._store
        transitions = AlertEvaluation(store, self._readings(), clock.now()).finish()
        Outbox(store, clock).deliver()
        return self._shown([one.alert for one in transitions if one.alert is not None])

    # -- silences

    def silence(
        self,
        rule: str | None = None,
        /,
        *,
        labels: Mapping[str, str] | None = None,
        for_: float | timedelta | None = None,
        until: datetime | None = None,
        by: str | None = None,
        note: str | None = None,
    ) -> AlertSilence:
        """Mute notifications of a rule, of labels, or of everything, for a time or until a time.

        Alerts are still listed; those that still fire at the end of the silence are sent then.
        """
        if rule is not None:
            check_rule_name(rule)
        now = self._services.clock.now()
        made = core.SilenceRow(
            id=ids.new_id(now),
            at=now,
            until=_end(now, for_, until),
            rule=rule,
            labels=check_labels("labels", labels),
            by=check_line("by", by),
            note=check_line("note", note),
        )
        self._store.put(SILENCE, made.id, 0, made)
        return shown_silence(made)

    def silences(self) -> list[AlertSilence]:
        """The active silences, by their end."""
        now = self._services.clock.now()
        found = [silence for _, silence in self._store.silences() if silence.until > now]
        return [shown_silence(silence) for silence in sorted(found, key=lambda one: one.until)]

    def unsilence(self, silence_id: str) -> bool:
        """End a silence; False if there is none with this id."""
        document = self._store.get(SILENCE, check_text("silence", silence_id))
        return document is not None and self._store.remove(document)

    aactive = twin(active)
    aget = twin(get)
    ahistory = twin(history)
    aacknowledge = twin(acknowledge)
    aresolve = twin(resolve)
    atrigger = twin(trigger)
    aevaluate = twin(evaluate)
    asilence = twin(silence)
    asilences = twin(silences)
    aunsilence = twin(unsilence)


def _end(now: int, for_: float | timedelta | None, until: datetime | None) -> int:
    if (for_ is None) == (until is None):
        raise InvalidAlert("for_, until: give exactly one of them")
    end = now + check_span("for_", for_) if until is None else check_moment("until", until)
    if not now < end <= now + _MAX_SILENCE:
        raise InvalidAlert("for_, until: a silence ends within 90 days from now, and not in the past")
    return end
