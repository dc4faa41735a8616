"""`app.alerts.rules`: when somebody is to be told. Every change is one to the version that was read."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from headrace.app.alerts.records import AlertReading, AlertRule, shown_rule
from headrace.core.alerts.alert import AlertRuleRow, in_words, look
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
    """The rules of one store: those that are shipped, and an operator's own."""

    def __init__(self, queries: Callable[[], AlertStore], readings: Callable[[], MetricSource]) -> None:
        self._make_queries = queries
        self._readings = readings

    @property
    def _queries(self) -> AlertStore:
        return self._make_queries()

    def create(self, name: str, /, **fields: Any) -> AlertRule:
        """Store a new rule: `when`, a condition in text, or `metric`, `op`, `threshold` and `window`.

        `for_` is how long it has to hold, `cooldown` when it is told again, both in seconds; `severity` is info,
        warning or critical; with `per` ("queue", "task", "worker") it holds for each by itself. `labels`, `summary` and
        `runbook` are for whoever is told, `notify` names the channels, by default those of `alert_notify`.
        """
        made = rule(name, fields)
        self._queries.ensure_channels(made.notify)
        if made.name in SHIPPED or not self._queries.put(RULE, made.name, 0, made):
            raise InvalidAlert(f"name: there is a rule {made.name!r} already; change it with update()")
        self._queries.tell_health(f"rule {made.name}", None)  # what was wrong with another one of this name
        return self.get(made.name)

    def get(self, name: str) -> AlertRule:
        """The rule, or AlertRuleNotFound."""
        return next(one for one in self.list() if one.name == self._known(name).name)

    def list(self) -> builtins.list[AlertRule]:
        """Every rule with its state, by name."""
        queries = self._queries
        health, alerts = queries.health(), [alert for _, alert in open_alerts(queries)]
        rules = queries.rules()
        return [shown_rule(rules[name], alerts, health.get(f"rule {name}")) for name in sorted(rules)]

    def update(self, name: str, /, **fields: Any) -> AlertRule:
        """Change fields of a rule, also of a shipped one; the others stay. `enabled=False` switches it off."""
        for _ in range(_ATTEMPTS):
            document = self._queries.get(RULE, check_rule_name(name))
            before = self._known(name) if document is None else rule_on(document)
            after = rule(name, fields, before)
            self._queries.ensure_channels(after.notify)
            if self._queries.put(RULE, name, 0 if document is None else document.version, after):
                return self.get(name)
        raise EngineUnavailable(f"rule {name!r} is being changed by others all the time; try again")

    def delete(self, name: str) -> bool:
        """Remove a rule; a shipped one becomes again what it was shipped as. False if there is nothing to remove."""
        document = self._queries.get(RULE, check_rule_name(name))
        if document is not None:
            return self._queries.remove(document)
        if name in SHIPPED:
            raise InvalidAlert(
                f"rule {name!r} is shipped, and as it was; switch it off with update(enabled=False), or "
                f"`headrace alerts rule set {name} --disabled`"
            )
        return False

    def test(self, name: str | None = None, /, **fields: Any) -> builtins.list[AlertReading]:
        """Whether a rule holds now, for each set of its labels; nothing is stored and nobody is told.

        It is a rule that there is, one with some fields changed, or, without a name, one that is only tried.
        """
        tried = rule("trial", fields) if name is None else rule(name, fields, self._known(name))
        found = look(tried, self._readings(), [])
        return [
            AlertReading(
                labels=series,
                holds=answer.holds,
                figures=answer.figures,
                summary=in_words(tried, series, answer.figures),
            )
            for series, answer in found
        ]

    def _known(self, name: str) -> AlertRuleRow:
        rules = self._queries.rules()
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
