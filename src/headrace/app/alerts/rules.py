"""`app.alerts.rules`. Every change applies to the version that was read."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from headrace.app.alerts.records import AlertReading, AlertRule, shown_rule
from headrace.core.alerts.alert import AlertRuleRow, evaluate, format_summary
from headrace.core.alerts.conditions import MetricSource
from headrace.core.alerts.defaults import SHIPPED
from headrace.core.alerts.rules import check_rule_name, rule
from headrace.core.text import nearest
from headrace.errors import AlertRuleNotFound, EngineUnavailable, InvalidAlert
from headrace.runtime.alerts.evaluate import open_alerts
from headrace.runtime.alerts.store import RULE, AlertStore, rule_on
from headrace.runtime.jobs.async_twin import twin

_ATTEMPTS = 50


class AlertRules:
    """The rules of one store: built-in and custom ones."""

    def __init__(self, store: Callable[[], AlertStore], readings: Callable[[], MetricSource]) -> None:
        self._make_store = store
        self._readings = readings

    @property
    def _store(self) -> AlertStore:
        return self._make_store()

    def create(self, name: str, /, **fields: Any) -> AlertRule:
        """Create a rule: `when`, a condition as text, or `metric`, `op`, `threshold` and `window`.

        `for_` is how long it must hold, `cooldown` the time between notifications, both in seconds; `severity` is info,
        warning or critical; `per` ("queue", "task", "worker") evaluates it separately for each. `labels`, `summary` and
        `runbook` go into notifications; `notify` names the channels, by default those of `alert_notify`.
        """
        made = rule(name, fields)
        self._store.ensure_channels(made.notify)
        if made.name in SHIPPED or not self._store.put(RULE, made.name, 0, made):
            raise InvalidAlert(f"name: rule {made.name!r} exists already; change it with update()")
        self._store.record_health(f"rule {made.name}", None)  # reset the health of an earlier one with this name
        return self.get(made.name)

    def get(self, name: str) -> AlertRule:
        """The rule, or AlertRuleNotFound."""
        return next(one for one in self.list() if one.name == self._known(name).name)

    def list(self) -> builtins.list[AlertRule]:
        """All rules with their states, by name."""
        store = self._store
        health, alerts = store.health(), [alert for _, alert in open_alerts(store)]
        rules = store.rules()
        return [shown_rule(rules[name], alerts, health.get(f"rule {name}")) for name in sorted(rules)]

    def update(self, name: str, /, **fields: Any) -> AlertRule:
        """Change fields of a rule, also of a built-in one; the others stay. `enabled=False` switches it off."""
        for _ in range(_ATTEMPTS):
            document = self._store.get(RULE, check_rule_name(name))
            before = self._known(name) if document is None else rule_on(document)
            after = rule(name, fields, before)
            self._store.ensure_channels(after.notify)
            if self._store.put(RULE, name, 0 if document is None else document.version, after):
                return self.get(name)
        raise EngineUnavailable(f"rule {name!r} keeps being changed by others; try again")

    def delete(self, name: str) -> bool:
        """Delete a rule; a built-in one returns to its defaults. False if there is nothing to delete."""
        document = self._store.get(RULE, check_rule_name(name))
        if document is not None:
            return self._store.remove(document)
        if name in SHIPPED:
            raise InvalidAlert(
                f"rule {name!r} is built in and unchanged; switch it off with update(enabled=False), or "
                f"`headrace alerts rule set {name} --disabled`"
            )
        return False

    def test(self, name: str | None = None, /, **fields: Any) -> builtins.list[AlertReading]:
        """Evaluate a rule now, for each set of its labels; nothing is stored or sent.

        The rule is a stored one, a stored one with some fields changed, or, without a name, a new one.
        """
        tested = rule("trial", fields) if name is None else rule(name, fields, self._known(name))
        found = evaluate(tested, self._readings(), [])
        return [
            AlertReading(
                labels=series,
                holds=answer.holds,
                figures=answer.figures,
                summary=format_summary(tested, series, answer.figures),
            )
            for series, answer in found
        ]

    def _known(self, name: str) -> AlertRuleRow:
        rules = self._store.rules()
        if check_rule_name(name) not in rules:
            near = nearest(name, rules)
            raise AlertRuleNotFound(name, f"; did you mean {near!r}?" if near else "")
        return rules[name]

    acreate = twin(create)
    aget = twin(get)
    alist = twin(list)
    aupdate = twin(update)
    adelete = twin(delete)
    atest = twin(test)
