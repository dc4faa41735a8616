"""Alert channels: where notifications are sent. Secrets can be set but not read."""

from __future__ import annotations

from msgspec import Struct

from headrace.app.alerts.records import AlertChannel
from headrace.errors import AlertChannelNotFound
from headrace.runtime.alerts.channels import CHANNEL_FIELDS, StoredKind
from headrace.web.api.route_table import Table
from headrace.web.api.schemas import TestOutcome, change_type, given_fields, new_type
from headrace.web.security.middleware import RequestContext

table = Table("channels", "Alert channels: where notifications are sent.")
_NEW = {"name": "ops", "kind": "slack", "url": "https://hooks.slack.com/services/T0/B0/secret", "severity": "warning"}
ChannelFields = change_type(
    "ChannelFields", CHANNEL_FIELDS, "Fields of a channel; each kind uses its own.", url=str, host=str
)
NewChannel = new_type(
    "NewChannel",
    ChannelFields,
    "A new channel: `slack` and `webhook` need `url`, `email` needs `host` and `to`, `log` needs nothing.",
    name=str,
    kind=StoredKind,
)


@table.get("/alert-channels")
def find(context: RequestContext) -> list[AlertChannel]:
    """List the channels with their health, without secrets."""
    return context.app.alerts.channels.list()


@table.post("/alert-channels", status=201, body=NewChannel, example=_NEW)
def create(context: RequestContext, body: Struct) -> AlertChannel:
    """Create a channel."""
    fields = given_fields(body)
    return context.app.alerts.channels.create(fields.pop("name"), **fields)


@table.post("/alert-channels/{name}/test", waits=True)
def test(context: RequestContext, name: str) -> TestOutcome:
    """Send a test message now and return whether the channel accepted it."""
    error = context.app.alerts.channels.test(name)
    return TestOutcome(error is None, error)


@table.get("/alert-channels/{name}")
def get(context: RequestContext, name: str) -> AlertChannel:
    """Return one channel."""
    return context.app.alerts.channels.get(name)


@table.patch("/alert-channels/{name}", body=ChannelFields, example={"enabled": False})
def update(context: RequestContext, name: str, body: Struct) -> AlertChannel:
    """Change a stored channel. Omitted fields and secrets stay."""
    return context.app.alerts.channels.update(name, **given_fields(body))


@table.delete("/alert-channels/{name}")
def delete(context: RequestContext, name: str) -> None:
    """Delete a stored channel that no rule uses."""
    if not context.app.alerts.channels.delete(name):
        raise AlertChannelNotFound(name)
