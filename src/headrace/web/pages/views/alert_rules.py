"""Alert rules: create, change, test, switch on and off, delete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from headrace.app.alerts.records import AlertReading, AlertRule
from headrace.core.alerts.alert import SEVERITIES
from headrace.errors import HeadraceError, InvalidAlert
from headrace.web.pages import formatting
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, Confirmation, View

PER = ("queue", "task", "worker")
_SPANS = ("for_", "cooldown")
_TEXTS = ("when", "severity")
_WORDS = ("summary", "runbook")
_SHOWN = 20


class RuleTrial(Struct, frozen=True):
    """The current evaluation of a rule, or why it is invalid."""

    readings: list[AlertReading]
    wrong: str = ""


def show(visit: PageRequest) -> Mapping[str, Any]:
    return {"rules": visit.app.alerts.rules.list(), "span": formatting.span, "topics": ("alert",)}


def show_one(visit: PageRequest) -> Mapping[str, Any]:
    rule = visit.app.alerts.rules.get(visit.name("rule"))
    fields: dict[str, Any] | None = {} if visit.asked("try") is None else None
    return {
        "rule": rule,
        "history": visit.app.alerts.history(limit=_SHOWN, rule=rule.name),
        **_editor(visit, rule, _tried(visit, rule.name, fields)),
        "topics": ("alert",),
    }


def show_new(visit: PageRequest) -> Mapping[str, Any]:
    trial = None if visit.asked("when") is None else _tried(visit, None, None)
    return {**_editor(visit, None, trial), "topics": ("none",)}


def _tried(visit: PageRequest, name: str | None, fields: dict[str, Any] | None) -> RuleTrial:
    """Evaluate the stored rule, or the one in the query."""
    try:
        given = _fields(visit.asked, visit.request.query_params.getlist("per")) if fields is None else fields
        known = () if name is None else (name,)
        return RuleTrial(visit.app.alerts.rules.test(*known, **given)[:_SHOWN])
    except HeadraceError as error:
        return RuleTrial([], str(error))


def _editor(visit: PageRequest, rule: AlertRule | None, trial: RuleTrial | None) -> dict[str, Any]:
    return {
        "trial": trial,
        "form": {
            "when": rule.when if rule else "",
            "for_": f"{rule.for_:g}" if rule else "",
            "cooldown": f"{rule.cooldown:g}" if rule else "",
            "severity": rule.severity if rule else "warning",
            "per": rule.per if rule else (),
            "summary": rule.summary or "" if rule else "",
            "runbook": rule.runbook or "" if rule else "",
            "notify": ", ".join(rule.notify) if rule and rule.notify is not None else "",
        },
        "severities": SEVERITIES,
        "per": PER,
        "channels": visit.app.alerts.channels.list(),
    }


def _fields(said: Callable[[str], str | None], per: list[str]) -> dict[str, Any]:
    """The fields of a rule in a form or a query."""
    fields: dict[str, Any] = {name: text for name in _TEXTS if (text := said(name)) is not None}
    fields |= {name: said(name) for name in _WORDS}
    for name in _SPANS:
        if (text := said(name)) is not None:
            try:
                fields[name] = float(text)
            except ValueError:
                raise InvalidAlert(f"{name.rstrip('_')}: {text!r} is not a number of seconds") from None
    told = said("notify")
    fields["notify"] = None if told is None else [name.strip() for name in told.split(",") if name.strip()]
    fields["per"] = per
    return fields


# -- actions


def _create(visit: PageRequest) -> ActionResult:
    name = visit.said("name")
    if name is None:
        raise InvalidAlert("name: required")
    made = visit.app.alerts.rules.create(name, **_fields(visit.said, visit.form.getlist("per")))
    return ActionResult(f"Rule {made.name} was created.", goto=visit.at(f"/alerts/rules/{name}"), target=name)


def _update(visit: PageRequest) -> ActionResult:
    name = visit.name("rule")
    visit.app.alerts.rules.update(name, **_fields(visit.said, visit.form.getlist("per")))
    return ActionResult(f"Rule {name} was changed.", target=name)


def _switch(visit: PageRequest) -> ActionResult:
    name, on = visit.name("rule"), visit.said("enabled") == "yes"
    visit.app.alerts.rules.update(name, enabled=on)
    return ActionResult(f"Rule {name} is {'on' if on else 'off'}.", target=name)


def _delete(visit: PageRequest) -> ActionResult:
    name = visit.name("rule")
    rule = visit.app.alerts.rules.get(name)
    visit.app.alerts.rules.delete(name)
    if rule.shipped:
        return ActionResult(f"Rule {name} was reset to its defaults.", target=name)
    return ActionResult(f"Rule {name} was deleted.", goto=visit.at("/alerts/rules"), target=name)


def _ask_delete(visit: PageRequest) -> Confirmation:
    rule = visit.app.alerts.rules.get(visit.name("rule"))
    if rule.shipped:
        return Confirmation(f"Reset rule {rule.name} to its defaults?", "Reset the rule", "Your changes are lost.")
    return Confirmation(f"Delete rule {rule.name}?", "Delete the rule", "It sends no more notifications.")


VIEWS = [
    View(path="/alerts/rules", template="rules.html", show=show),
    View(path="/alerts/new-rule", template="rule_new.html", show=show_new),
    View(path="/alerts/rules/{rule}", template="rule.html", show=show_one),
]
ACTIONS = [
    Action(path="/alerts/new-rule", what="alert.rule.create", do=_create),
    Action(path="/alerts/rules/{rule}/update", what="alert.rule.update", do=_update),
    Action(path="/alerts/rules/{rule}/switch", what="alert.rule.switch", do=_switch),
    Action(path="/alerts/rules/{rule}/delete", what="alert.rule.delete", do=_delete, ask=_ask_delete),
]
