"""Alert channels: create, change, test, delete. Secrets can be set but not read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from headrace.core.alerts.alert import SEVERITIES
from headrace.errors import AlertChannelNotFound, InvalidAlert
from headrace.runtime.alerts.channels import Kind, Security
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, Confirmation, View

_FIELDS = ("url", "secret", "host", "security", "user", "password", "sender", "to", "severity")


def show_one(visit: PageRequest) -> Mapping[str, Any]:
    one = visit.app.alerts.channels.get(visit.name("channel"))
    users = [rule.name for rule in visit.app.alerts.rules.list() if one.name in (rule.notify or ())]
    return {"one": one, "users": users, **_editor(one.kind, one.severity), "topics": ("alert",)}


def show_new(visit: PageRequest) -> Mapping[str, Any]:
    return {**_editor(None, "info"), "kinds": get_args(Kind), "topics": ("none",)}


def _editor(kind: str | None, severity: str) -> dict[str, Any]:
    return {"kind": kind, "severity": severity, "severities": SEVERITIES, "securities": get_args(Security)}


def _fields(visit: PageRequest) -> dict[str, Any]:
    """The fields of the form; empty ones keep their value or the default."""
    fields: dict[str, Any] = {name: text for name in _FIELDS if (text := visit.said(name)) is not None}
    if (port := visit.said("port")) is not None:
        if not port.isdecimal() or len(port) > 5:
            raise InvalidAlert(f"port: {port[:20]!r} is not a number from 1 to 65535")
        fields["port"] = int(port)
    return fields


# -- actions


def _create(visit: PageRequest) -> ActionResult:
    name, kind = visit.said("name"), visit.said("kind")
    if name is None or kind is None:
        raise InvalidAlert("name, kind: both are required")
    made = visit.app.alerts.channels.create(name, kind=kind, **_fields(visit))
    where = visit.at(f"/alerts/channels/{made.name}")
    return ActionResult(f"Channel {made.name} was created; send a test message.", goto=where, target=made.name)


def _update(visit: PageRequest) -> ActionResult:
    name, fields = visit.name("channel"), _fields(visit)
    if fields.get("severity") == visit.app.alerts.channels.get(name).severity:
        del fields["severity"]
    if not fields:
        raise InvalidAlert("Nothing was changed.")
    visit.app.alerts.channels.update(name, **fields)
    return ActionResult(f"Channel {name} was changed; send a test message.", target=name)


def _switch(visit: PageRequest) -> ActionResult:
    name, on = visit.name("channel"), visit.said("enabled") == "yes"
    visit.app.alerts.channels.update(name, enabled=on)
    return ActionResult(f"Channel {name} is {'on' if on else 'off'}.", target=name)


def _test(visit: PageRequest) -> ActionResult:
    name = visit.name("channel")
    error = visit.app.alerts.channels.test(name)
    if error is not None:
        return ActionResult(f"Channel {name} failed: {error}", ok=False, target=name)
    return ActionResult(f"Channel {name} accepted the test message.", target=name)


def _delete(visit: PageRequest) -> ActionResult:
    name = visit.name("channel")
    if not visit.app.alerts.channels.delete(name):
        raise AlertChannelNotFound(name)
    return ActionResult(f"Channel {name} was deleted.", goto=visit.at("/alerts"), target=name)


def _ask_delete(visit: PageRequest) -> Confirmation:
    one = visit.app.alerts.channels.get(visit.name("channel"))
    waiting = f"The {one.waiting} waiting notifications are dropped." if one.waiting else ""
    return Confirmation(f"Delete channel {one.name}?", "Delete the channel", waiting)


VIEWS = [
    View(path="/alerts/new-channel", template="channel_new.html", show=show_new),
    View(path="/alerts/channels/{channel}", template="channel.html", show=show_one),
]
ACTIONS = [
    Action(path="/alerts/new-channel", what="alert.channel.create", do=_create),
    Action(path="/alerts/channels/{channel}/update", what="alert.channel.update", do=_update),
    Action(path="/alerts/channels/{channel}/switch", what="alert.channel.switch", do=_switch),
    Action(path="/alerts/channels/{channel}/test", what="alert.channel.test", do=_test),
    Action(path="/alerts/channels/{channel}/delete", what="alert.channel.delete", do=_delete, ask=_ask_delete),
]
