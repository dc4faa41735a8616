"""Evaluates alert rules and stores the alerts' state changes. Any worker does; there is no leader.

The worker that evaluates records this in the store, and others skip that round. Two at once would do no harm: only the
first to write an alert's version stores its next state, and in the same commit its notifications.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct, structs

from headrace.core.alerts.alert import (
    AlertRow,
    AlertRuleRow,
    AlertTransition,
    SilenceRow,
    evaluate,
    is_removable,
    resolve,
    step,
)
from headrace.core.alerts.conditions import Evaluation, MetricSource
from headrace.core.clock import to_ms
from headrace.core.codec.encryption import Cipher
from headrace.core.damaged_records import read_or
from headrace.core.documents import Document
from headrace.core.jobs import ids
from headrace.core.settings.settings import Settings
from headrace.core.text import why
from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable
from headrace.runtime.alerts.inputs import AlertInputs
from headrace.runtime.alerts.outbox import Outbox
from headrace.runtime.alerts.store import RULE, TURN, AlertStore, ChannelHealth, decoded
from headrace.runtime.event_log import last_cursor

log = logging.getLogger("headrace.alerts")

_TRIM_EVERY = 3_600_000
_ALERTS_PER_PIECE = 50
_FROZEN = 60_000  # milliseconds between two pieces of a round: this process was suspended, or its machine slept
_DELIVERY_CHECK = 1.0  # seconds until deliveries in progress are checked again
_QUIET_FOR = 1_800_000  # milliseconds without a round while an empty store without alerts has no new events
_Known = dict[str, tuple[Document, AlertRow]]
_State = tuple[str, list[tuple[str, int]], list[str]]  # the newest event, rules with versions, workers alive


class AlertEvaluation(Struct):
    """One evaluation of all rules. The state changes are in `steps`."""

    queries: AlertStore
    source: MetricSource
    now: int
    steps: list[AlertTransition] = []
    silences: list[SilenceRow] = []
    is_calm: bool = True  # no alert is open

    def finish(self) -> list[AlertTransition]:
        """Evaluate without pauses; returns the state changes."""
        for _ in self.walk():
            pass
        return self.steps

    def walk(self) -> Iterator[None]:
        """Evaluate each rule as a piece of work, and end alerts without a rule."""
        self.silences = [silence for _, silence in self.queries.silences() if silence.until > self.now]
        rules = self.queries.rules()
        health = self.queries.health()
        known: dict[str, _Known] = {}
        for document, alert in self.queries.alerts():
            self.is_calm &= not alert.is_open
            known.setdefault(alert.rule, {})[document.key] = (document, alert)
        for rule in rules.values():
            if rule.enabled:
                yield from self._evaluate_rule(rule, known.pop(rule.name, {}), health.get(f"rule {rule.name}"))
            elif f"rule {rule.name}" in health:
                self.queries.record_health(f"rule {rule.name}", None)
            yield
        for left in known.values():
            self._end(left, rules)

    def _evaluate_rule(self, rule: AlertRuleRow, known: _Known, health: ChannelHealth | None) -> Iterator[None]:
        by_series = {_key(one[1].series): one for one in known.values()}
        try:
            evaluations = evaluate(
                rule, self.source, [alert.series for _, alert in by_series.values() if alert.is_open]
            )
        except EngineUnavailable:
            raise
        except Exception as error:  # an error of one rule must not block the others
            if self.queries.record_health(f"rule {rule.name}", "broken", why(error)):
                log.error("alert rule %s can't be evaluated: %s", rule.name, why(error))
            return
        self._record_health(rule, evaluations, health)
        for place, (series, evaluation) in enumerate(evaluations, 1):
            self._advance(rule, series, by_series.pop(_key(series), None), evaluation)
            if place % _ALERTS_PER_PIECE == 0:
                yield
        for document, alert in by_series.values():  # ended long ago, or with labels that the rule no longer has
            if alert.is_open:
                self._keep(
                    document,
                    resolve(
                        alert, self.now, by="its rule was changed", muted=self._is_muted(alert.rule, alert.all_labels)
                    ),
                )
            elif is_removable(alert, rule.cooldown, self.now):
                self.queries.forget([document])

    def _advance(
        self,
        rule: AlertRuleRow,
        series: dict[str, str],
        known: tuple[Document, AlertRow] | None,
        evaluation: Evaluation,
    ) -> None:
        document, before = known or (None, None)
        if before is None and not evaluation.holds:
            return
        done = step(
            rule,
            series,
            before,
            evaluation,
            self.now,
            ids.new_id(self.now),
            self._is_muted(rule.name, {**rule.labels, **series}),
        )
        if (
            done.alert is not None
            and is_removable(done.alert, rule.cooldown, self.now)
            and document
            and not done.action
        ):
            self.queries.forget([document])
            return
        self._keep(document, done)

    def _keep(self, document: Document | None, done: AlertTransition) -> None:
        self.is_calm &= done.alert is None or not done.alert.is_open
        if self.queries.keep(document, done) and done.action is not None:
            self.steps.append(done)

    def _end(self, left: _Known, rules: dict[str, AlertRuleRow]) -> None:
        for document, alert in left.values():
            if alert.is_open and not alert.by_hand:
                by = "its rule was switched off" if alert.rule in rules else "its rule was deleted"
                self._keep(
                    document, resolve(alert, self.now, by=by, muted=self._is_muted(alert.rule, alert.all_labels))
                )
            elif is_removable(alert, _TRIM_EVERY if alert.cooldown is None else alert.cooldown, self.now):
                self.queries.forget([document])

    def _record_health(
        self, rule: AlertRuleRow, evaluations: list[tuple[dict[str, str], Evaluation]], health: ChannelHealth | None
    ) -> None:
        is_blind = bool(evaluations) and all(evaluation.holds is None for _, evaluation in evaluations)
        state: Literal["no_data"] | None = "no_data" if is_blind else None
        if state != (None if health is None else health.state):
            self.queries.record_health(f"rule {rule.name}", state)

    def _is_muted(self, rule: str, labels: dict[str, str]) -> bool:
        return any(silence.mutes(rule, labels, self.now) for silence in self.silences)


def _key(series: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(series.items()))


class EvaluationLock(Struct, frozen=True):
    """When rules were last evaluated, and when old history was last removed."""

    at: int
    trimmed_at: int = 0


class AlertCheck:
    """Maintenance task: one round at each interval over all workers, and the delivery of due notifications."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        every: float,
        source: Callable[[], MetricSource] | None = None,
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._every = every
        cipher = Cipher(settings.encryption_keys) if settings.encryption_keys else None
        self._queries = AlertStore(engine, settings, cipher)
        self._outbox = Outbox(self._queries, engine.clock)
        self._make_source = source or (lambda: AlertInputs(engine, settings))
        self._pieces: Iterator[None] | None = None
        self._continued_at = 0
        self._is_first = True
        self._calm: tuple[int, _State] | None = None  # since when, and the state then

    def do(self) -> float:
        if self._is_first:  # not all workers of a deploy at the same moment
            self._is_first = False
            return random.uniform(0.0, self._every)
        now = self._engine.clock.now()
        if now - self._continued_at > _FROZEN:
            self._pieces = None  # its inputs are out of date, and would start or end alerts
        self._continued_at = now
        if self._pieces is None:
            if self._is_quiet(now):
                return self._every
            if (pause := self._acquire_round(now)) is not None:
                return self._rest(pause)
            self._state_before = self._state()
            self._round = AlertEvaluation(self._queries, self._make_source(), now)
            self._pieces = self._round.walk()
        try:
            next(self._pieces)
            return 0.0
        except StopIteration:
            self._pieces = None
            pause = self._rest(self._every)
            self._calm = (now, self._state_before) if self._is_calm() else None
            return pause
        except Exception:
            self._pieces = None  # an interrupted round begins anew in the next turn
            raise

    def _state(self) -> _State:
        """The inputs of rules: any other input changes with one of these, or slowly."""
        now = self._engine.clock.now()
        alive = [worker.id for worker in self._engine.queries.workers() if not worker.is_silent(now)]
        return (
            last_cursor(self._engine.events),
            [(document.key, document.version) for document in self._queries.browse(RULE)],
            alive,
        )

    def _is_calm(self) -> bool:
        """Whether only a new event could start or end an alert: no job waits and grows old."""
        is_over = self._settings.events and self._round.is_calm and self._outbox.is_empty
        return is_over and not any(depth.jobs for depth in self._engine.queries.queue_counts(open_only=True))

    def _is_quiet(self, now: int) -> bool:
        if self._calm is None or not 0 <= now - self._calm[0] < _QUIET_FOR:
            return False
        return self._calm[1] == self._state()

    def _rest(self, pause: float) -> float:
        return min(pause, _DELIVERY_CHECK) if self._outbox.start_due() else pause

    def _acquire_round(self, now: int) -> float | None:
        """Seconds until the next round; None if it is due now and this process does it."""
        document = self._queries.get(TURN, TURN)
        last = (
            EvaluationLock(0)
            if document is None
            else read_or(lambda text: decoded(text, EvaluationLock), document, EvaluationLock(0))
        )
        wait = last.at + to_ms(self._every) - now
        if 0 < wait <= to_ms(self._every):  # a time beyond that comes from a wrong clock
            return wait / 1000
        updated = structs.replace(last, at=now)
        if now - last.trimmed_at >= _TRIM_EVERY:
            self._remove_silences(now)
            is_all = self._queries.trim(now - to_ms(self._settings.alert_keep))
            updated = structs.replace(updated, trimmed_at=now if is_all else last.trimmed_at)
        is_stored = self._queries.put(TURN, TURN, 0 if document is None else document.version, updated)
        return None if is_stored else self._every

    def _remove_silences(self, now: int) -> None:
        over = [document for document, silence in self._queries.silences() if silence.until <= now]
        self._queries.forget(over)


def open_alerts(queries: AlertStore) -> Iterator[tuple[Document, AlertRow]]:
    """Alerts that are pending, firing or acknowledged."""
    return (one for one in queries.alerts() if one[1].is_open)
