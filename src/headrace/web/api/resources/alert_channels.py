"""Channels of alerts: whom to tell, and how. What is secret goes in and never comes out."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from headrace.app.alerts.records import AlertChannel
from headrace.core.alerts.alert import Severity
from headrace.errors import AlertChannelNotFound
from headrace.runtime.alerts.channels import Kind, Security
from headrace.web.api.routes import Table
from headrace.web.api.schemas import Trial, said
from headrace.web.security.middleware import RequestContext

table = Table("channels", "Channels of alerts: whom to tell, and how.")
_NEW = {"name": "ops", "kind": "slack", "url": "https://hooks.slack.com/services/T0/B0/secret", "severity": "warning"}
Port = Annotated[int, Meta(ge=1, le=65_535)]


class ChannelFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of a channel, of which each kind has its own."""

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
    """A channel to be made: `slack` and `webhook` have a `url`, `email` has `host` and `to`; `log` needs nothing."""

    name: str
    kind: Kind
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
def find(visit: RequestContext) -> list[AlertChannel]:
    """Who is told, without anything secret, and whether that works."""
    return visit.app.alerts.channels.list()


@table.post("/alert-channels", status=201, example=_NEW)
def create(visit: RequestContext, body: NewChannel) -> AlertChannel:
    """Store a channel."""
    return visit.app.alerts.channels.create(body.name, kind=body.kind, **said(body, but=("name", "kind")))


@table.post("/alert-channels/{name}/test", waits=True)
def test(visit: RequestContext, name: str) -> Trial:
    """Send a message that says it is a test, now, and tell whether it was taken."""
    trouble = visit.app.alerts.channels.test(name)
    return Trial(trouble is None, trouble)


@table.get("/alert-channels/{name}")
def get(visit: RequestContext, name: str) -> AlertChannel:
    """One channel."""
    return visit.app.alerts.channels.get(name)


@table.patch("/alert-channels/{name}", example={"enabled": False})
def update(visit: RequestContext, name: str, body: ChannelFields) -> AlertChannel:
    """Change a channel that is stored; what is not named stays, also what is secret."""
    return visit.app.alerts.channels.update(name, **said(body))


@table.delete("/alert-channels/{name}")
def delete(visit: RequestContext, name: str) -> None:
    """Remove a channel that is stored and that no rule names."""
    if not visit.app.alerts.channels.delete(name):
        raise AlertChannelNotFound(name)
