"""Webhooks: HTTP endpoints that receive events. A generated secret is returned once, on creation."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from headrace.app.events.webhooks import Webhook
from headrace.app.jobs.records import JobRecord, record_of
from headrace.errors import PermanentError, RetryableError
from headrace.web.api.route_table import Table
from headrace.web.api.schemas import Limit, TestOutcome, given_fields
from headrace.web.security.middleware import RequestContext

table = Table("webhooks", "Webhooks: HTTP endpoints that receive events.")
_NEW = {"url": "https://example.com/hooks", "types": ["job.failed", "dead.*"], "queue": "emails"}
Types = Annotated[list[str], Meta(min_length=1, max_length=50)]


class NewWebhook(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new webhook. Without `secret`, one is generated; `insecure` allows plain HTTP to other machines."""

    url: str
    types: Types | UnsetType = UNSET
    queue: str | None = None
    task: str | None = None
    secret: str | None = None
    insecure: bool = False


class WebhookChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields to change; null means any queue or any task."""

    url: str | UnsetType = UNSET
    types: Types | UnsetType = UNSET
    queue: str | UnsetType | None = UNSET
    task: str | UnsetType | None = UNSET
    insecure: bool = False


class DeliveriesQuery(Struct, frozen=True):
    """The number of deliveries to return."""

    limit: Limit = 50


@table.get("/webhooks")
def find(context: RequestContext) -> list[Webhook]:
    """List the webhooks, oldest first. The query of a URL is hidden, because it may contain a token."""
    return [_shown(hook) for hook in context.app.webhooks.list()]


@table.post("/webhooks", status=201, example=_NEW)
def create(context: RequestContext, body: NewWebhook) -> Webhook:
    """Create a webhook. A generated secret is returned here and never again."""
    created = context.app.webhooks.create(body.url, **given_fields(body, exclude=("url",)))
    return _shown(created, created.secret if body.secret is None else None)


@table.get("/webhooks/{webhook_id}/deliveries")
def deliveries(context: RequestContext, webhook_id: str, query: DeliveriesQuery) -> list[JobRecord]:
    """List the newest deliveries of a webhook. Each delivery is a job."""
    return [record_of(job) for job in context.app.webhooks.deliveries(webhook_id, query.limit)]


@table.post("/webhooks/{webhook_id}/pause")
def pause(context: RequestContext, webhook_id: str) -> Webhook:
    """Pause a webhook. Events during the pause are not sent."""
    return _shown(context.app.webhooks.pause(webhook_id))


@table.post("/webhooks/{webhook_id}/resume")
def resume(context: RequestContext, webhook_id: str) -> Webhook:
    """Resume a webhook, with events from now on."""
    return _shown(context.app.webhooks.resume(webhook_id))


@table.post("/webhooks/{webhook_id}/test", waits=True)
def test(context: RequestContext, webhook_id: str) -> TestOutcome:
    """Send one event of the type `webhook.test` now and return whether it was accepted."""
    try:
        context.app.webhooks.test(webhook_id)
    except (RetryableError, PermanentError) as error:
        return TestOutcome(False, str(error))
    return TestOutcome(True)


@table.get("/webhooks/{webhook_id}")
def get(context: RequestContext, webhook_id: str) -> Webhook:
    """Return one webhook."""
    return _shown(context.app.webhooks.get(webhook_id))


@table.patch("/webhooks/{webhook_id}", example={"types": ["job.*"]})
def update(context: RequestContext, webhook_id: str, body: WebhookChange) -> Webhook:
    """Change a webhook. Pending deliveries go to the new URL, too."""
    return _shown(context.app.webhooks.update(webhook_id, **given_fields(body)))


@table.delete("/webhooks/{webhook_id}")
def delete(context: RequestContext, webhook_id: str) -> None:
    """Delete a webhook. Pending deliveries are dropped."""
    context.app.webhooks.delete(webhook_id)


def _shown(hook: Webhook, secret: str | None = None) -> Webhook:
    parts = urlsplit(hook.url)
    return structs.replace(hook, url=parts._replace(query="***" if parts.query else "").geturl(), secret=secret)
