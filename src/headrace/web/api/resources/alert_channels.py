"""Alert channels: where notifications are sent. Secrets can be set but not read."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from headrace.app.alerts.records import AlertChannel
from headrace.core.alerts.alert import Severity
from headrace.errors import AlertChannelNotFound
from headrace.runtime.alerts.channels import Security, StoredKind
from headrace.web.api.route_table import Table
from headrace.web.api.schemas import TestOutcome, given_fields
from headrace.web.security.middleware import RequestContext

table = Table("channels", "Alert channels: where notifications are sent.")
_NEW = {"name": "ops", "kind": "slack", "url": "https://hooks.slack.com/services/T0/B0/secret", "severity": "warning"}
Port = Annotated[int, Meta(ge=1, le=65_535)]


class ChannelFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of a channel; each kind uses its own."""

    severity: Severity | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    url: str | UnsetType = UNSET
    secret: str | UnsetType | None = UNSET
    host: str | UnsetType = UNSET
    port: Port | UnsetType | None = UNSET
    security: Security | UnsetType = UNSET
    user: str | UnsetType | None = UNSET
    password: str | UnsetType | None = UNSET
    sender: str | UnsetType | None = UNSET
    to: list[str] | UnsetType = UNSET


class NewChannel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new channel: `slack` and `webhook` need `url`, `email` needs `host` and `to`, `log` needs nothing."""

    name: str
    kind: StoredKind
    severity: Severity | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    url: str | UnsetType = UNSET
    secret: str | UnsetType | None = UNSET
    host: str | UnsetType = UNSET
    port: Port | UnsetType | None = UNSET
    security: Security | UnsetType = UNSET
    user: str | UnsetType | None = UNSET
    password: str | UnsetType | None = UNSET
    sender: str | UnsetType | None = UNSET
    to: list[str] | UnsetType = UNSET


@table.get("/alert-channels")
def find(context: RequestContext) -> list[AlertChannel]:
    """List the channels with their health, without secrets."""
    return context.app.alerts.channels.list()


@table.post("/alert-channels", status=201, example=_NEW)
def create(context: RequestContext, body: NewChannel) -> AlertChannel:
    """Create a channel."""
    return context.app.alerts.channels.create(body.name, kind=body.kind, **given_fields(body, exclude=("name", "kind")))


@table.post("/alert-channels/{name}/test", waits=True)
def test(context: RequestContext, name: str) -> TestOutcome:
    """Send a test message now and return whether the channel accepted it."""
    error = context.app.alerts.channels.test(name)
    return TestOutcome(error is None, error)


@table.get("/alert-channels/{name}")
def get(context: RequestContext, name: str) -> AlertChannel:
    """Return one channel."""
    return context.app.alerts.channels.get(name)


@table.patch("/alert-channels/{name}", example={"enabled": False})
def update(context: RequestContext, name: str, body: ChannelFields) -> AlertChannel:
    """Change a stored channel. Omitted fields and secrets stay."""
    return context.app.alerts.channels.update(name, **given_fields(body))


@table.delete("/alert-channels/{name}")
def delete(context: RequestContext, name: str) -> None:
    """Delete a stored channel that no rule uses."""
    if not context.app.alerts.channels.delete(name):
        raise AlertChannelNotFound(name)
