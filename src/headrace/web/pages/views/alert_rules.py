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
_OPTIONAL_TEXTS = ("summary", "runbook")
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
        given = _fields(request.query, request.http.query_params.getlist("per")) if fields is None else fields
        names = () if name is None else (name,)
        return RulePreview(request.app.alerts.rules.test(*names, **given)[:_MAX_SHOWN])
    except HeadraceError as error:
        return RulePreview([], str(error))


def _editor(request: PageRequest, rule: AlertRule | None, preview: RulePreview | None) -> dict[str, Any]:
    return {
        "preview": preview,
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
        "channels": request.app.alerts.channels.list(),
    }


def _fields(field: Callable[[str], str | None], per: list[str]) -> dict[str, Any]:
    """The fields of a rule in a form or a query."""
    fields: dict[str, Any] = {name: text for name in _TEXTS if (text := field(name)) is not None}
    fields |= {name: field(name) for name in _OPTIONAL_TEXTS}
    for name in _SPANS:
        if (text := field(name)) is not None:
            try:
                fields[name] = float(text)
            except ValueError:
                raise InvalidAlert(f"{name.rstrip('_')}: {text!r} is not a number of seconds") from None
    channels = field("notify")
    fields["notify"] = None if channels is None else [name.strip() for name in channels.split(",") if name.strip()]
    fields["per"] = per
    return fields


# -- actions


def _create(request: PageRequest) -> ActionResult:
    name = request.form_field("name")
    if name is None:
        raise InvalidAlert("name: required")
    created = request.app.alerts.rules.create(name, **_fields(request.form_field, request.form.getlist("per")))
    return ActionResult(f"Rule {created.name} was created.", goto=request.url(f"/alerts/rules/{name}"), target=name)


def _update(request: PageRequest) -> ActionResult:
    name = request.path_param("rule")
    request.app.alerts.rules.update(name, **_fields(request.form_field, request.form.getlist("per")))
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
