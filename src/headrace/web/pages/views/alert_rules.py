"""Alert rules: create, change, test, switch on and off, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, structs

from headrace.app.alerts.records import AlertReading, AlertRule
from headrace.core.alerts.rules import ALERT_RULE
from headrace.errors import HeadraceError, InvalidAlert
from headrace.web.pages import formatting
from headrace.web.pages.forms import form_fields, form_values
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, Confirmation, View

_MAX_SHOWN = 20


class RulePreview(Struct, frozen=True):
    """The current evaluation of a rule, or why it is invalid."""

    readings: list[AlertReading]
    error: str = ""


def show(request: PageRequest) -> Mapping[str, Any]:
    return {"rules": request.app.alerts.rules.list(), "span": formatting.span, "topics": ("alert",)}


def show_one(request: PageRequest) -> Mapping[str, Any]:
    rule = request.app.alerts.rules.get(request.path_param("rule"))
    fields: dict[str, Any] | None = {} if request.query("try") is None else None
    return {
        "rule": rule,
        "history": request.app.alerts.history(limit=_MAX_SHOWN, rule=rule.name),
        **_editor(request, rule, _preview(request, rule.name, fields)),
        "topics": ("alert",),
    }


def show_new(request: PageRequest) -> Mapping[str, Any]:
    preview = None if request.query("when") is None else _preview(request, None, None)
    return {**_editor(request, None, preview), "topics": ("none",)}


def _preview(request: PageRequest, name: str | None, fields: dict[str, Any] | None) -> RulePreview:
    """Evaluate the stored rule, or the one in the query."""
    try:
        given = form_values(request.http.query_params, ALERT_RULE) if fields is None else fields
        names = () if name is None else (name,)
        return RulePreview(request.app.alerts.rules.test(*names, **given)[:_MAX_SHOWN])
    except HeadraceError as error:
        return RulePreview([], str(error))


def _editor(request: PageRequest, rule: AlertRule | None, preview: RulePreview | None) -> dict[str, Any]:
    shown = {"severity": "warning"} if rule is None else structs.asdict(rule)
    return {
        "preview": preview,
        "form": {one.name: one for one in form_fields(ALERT_RULE, shown)},
        "per": rule.per if rule else (),
        "channels": request.app.alerts.channels.list(),
    }


# -- actions


def _create(request: PageRequest) -> ActionResult:
    name = request.form_field("name")
    if name is None:
        raise InvalidAlert("name: required")
    created = request.app.alerts.rules.create(name, **form_values(request.form, ALERT_RULE))
    return ActionResult(f"Rule {created.name} was created.", goto=request.url(f"/alerts/rules/{name}"), target=name)


def _update(request: PageRequest) -> ActionResult:
    name = request.path_param("rule")
    request.app.alerts.rules.update(name, **form_values(request.form, ALERT_RULE))
    return ActionResult(f"Rule {name} was changed.", target=name)


def _switch(request: PageRequest) -> ActionResult:
    name, is_on = request.path_param("rule"), request.form_field("enabled") == "yes"
    request.app.alerts.rules.update(name, enabled=is_on)
    return ActionResult(f"Rule {name} is {'on' if is_on else 'off'}.", target=name)


def _delete(request: PageRequest) -> ActionResult:
    name = request.path_param("rule")
    rule = request.app.alerts.rules.get(name)
    request.app.alerts.rules.delete(name)
    if rule.shipped:
        return ActionResult(f"Rule {name} was reset to its defaults.", target=name)
    return ActionResult(f"Rule {name} was deleted.", goto=request.url("/alerts/rules"), target=name)


def _confirm_delete(request: PageRequest) -> Confirmation:
    rule = request.app.alerts.rules.get(request.path_param("rule"))
    if rule.shipped:
        return Confirmation(f"Reset rule {rule.name} to its defaults?", "Reset the rule", "Your changes are lost.")
    return Confirmation(f"Delete rule {rule.name}?", "Delete the rule", "It sends no more notifications.")


VIEWS = [
    View(path="/alerts/rules", template="alerts/rules.html", show=show),
    View(path="/alerts/new-rule", template="alerts/rule_new.html", show=show_new),
    View(path="/alerts/rules/{rule}", template="alerts/rule.html", show=show_one),
]
ACTIONS = [
    Action(path="/alerts/new-rule", name="alert.rule.create", run=_create),
    Action(path="/alerts/rules/{rule}/update", name="alert.rule.update", run=_update),
    Action(path="/alerts/rules/{rule}/switch", name="alert.rule.switch", run=_switch),
    Action(path="/alerts/rules/{rule}/delete", name="alert.rule.delete", run=_delete, confirmation=_confirm_delete),
]
