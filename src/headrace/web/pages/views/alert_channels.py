"""Alert channels: create, change, test, delete. Secrets can be set but not read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from headrace.errors import AlertChannelNotFound, InvalidAlert
from headrace.runtime.alerts.channels import CHANNEL_FIELDS, StoredKind
from headrace.web.pages.forms import form_fields, form_values
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, Confirmation, View


def show_one(request: PageRequest) -> Mapping[str, Any]:
    channel = request.app.alerts.channels.get(request.path_param("channel"))
    users = [rule.name for rule in request.app.alerts.rules.list() if channel.name in (rule.notify or ())]
    return {"channel": channel, "users": users, **_editor(channel.kind, channel.severity), "topics": ("alert",)}


def show_new(request: PageRequest) -> Mapping[str, Any]:
    return {**_editor(None, "info"), "kinds": get_args(StoredKind), "topics": ("none",)}


def _editor(kind: str | None, severity: str) -> dict[str, Any]:
    form = form_fields(CHANNEL_FIELDS, {"severity": severity})
    return {"kind": kind, "form": {one.name: one for one in form}}


def _fields(request: PageRequest) -> dict[str, Any]:
    """The fields of the form; empty ones keep their value or the default."""
    given = form_values(request.form, CHANNEL_FIELDS).items()
    return {name: value for name, value in given if value is not None}


# -- actions


def _create(request: PageRequest) -> ActionResult:
    name, kind = request.form_field("name"), request.form_field("kind")
    if name is None or kind is None:
        raise InvalidAlert("name, kind: both are required")
    created = request.app.alerts.channels.create(name, kind=kind, **_fields(request))
    url_of_page = request.url(f"/alerts/channels/{created.name}")
    return ActionResult(
        f"Channel {created.name} was created; send a test message.", goto=url_of_page, target=created.name
    )


def _update(request: PageRequest) -> ActionResult:
    name, fields = request.path_param("channel"), _fields(request)
    if fields.get("severity") == request.app.alerts.channels.get(name).severity:
        del fields["severity"]
    if not fields:
        raise InvalidAlert("Nothing was changed.")
    request.app.alerts.channels.update(name, **fields)
    return ActionResult(f"Channel {name} was changed; send a test message.", target=name)


def _switch(request: PageRequest) -> ActionResult:
    name, is_on = request.path_param("channel"), request.form_field("enabled") == "yes"
    request.app.alerts.channels.update(name, enabled=is_on)
    return ActionResult(f"Channel {name} is {'on' if is_on else 'off'}.", target=name)


def _test(request: PageRequest) -> ActionResult:
    name = request.path_param("channel")
    error = request.app.alerts.channels.test(name)
    if error is not None:
        return ActionResult(f"Channel {name} failed: {error}", ok=False, target=name)
    return ActionResult(f"Channel {name} accepted the test message.", target=name)


def _delete(request: PageRequest) -> ActionResult:
    name = request.path_param("channel")
    if not request.app.alerts.channels.delete(name):
        raise AlertChannelNotFound(name)
    return ActionResult(f"Channel {name} was deleted.", goto=request.url("/alerts"), target=name)


def _confirm_delete(request: PageRequest) -> Confirmation:
    channel = request.app.alerts.channels.get(request.path_param("channel"))
    waiting = f"The {channel.waiting} waiting notifications are dropped." if channel.waiting else ""
    return Confirmation(f"Delete channel {channel.name}?", "Delete the channel", waiting)


VIEWS = [
    View(path="/alerts/new-channel", template="alerts/channel_new.html", show=show_new),
    View(path="/alerts/channels/{channel}", template="alerts/channel.html", show=show_one),
]
ACTIONS = [
    Action(path="/alerts/new-channel", name="alert.channel.create", run=_create),
    Action(path="/alerts/channels/{channel}/update", name="alert.channel.update", run=_update),
    Action(path="/alerts/channels/{channel}/switch", name="alert.channel.switch", run=_switch),
    Action(path="/alerts/channels/{channel}/test", name="alert.channel.test", run=_test),
    Action(
        path="/alerts/channels/{channel}/delete", name="alert.channel.delete", run=_delete, confirmation=_confirm_delete
    ),
]
