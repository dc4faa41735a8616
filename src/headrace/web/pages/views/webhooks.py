"""Webhooks and their last deliveries."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from headrace.core.events.event import TYPES
from headrace.core.events.webhooks import secret_of
from headrace.errors import InvalidJob, RetryableError
from headrace.web.pages.job_view import cards
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, Confirmation, View

_DELIVERIES = 50


def show(visit: PageRequest) -> Mapping[str, Any]:
    return {"hooks": visit.app.webhooks.list(), "where": _where, "topics": ("none",)}


def show_one(visit: PageRequest) -> Mapping[str, Any]:
    hook = visit.app.webhooks.get(visit.name("webhook"))
    sent = visit.app.webhooks.deliveries(hook.id, _DELIVERIES)
    return {"hook": hook, "where": _where, "sent": cards(sent, visit.app), "topics": ("task:headrace.webhook",)}


def show_new(visit: PageRequest) -> Mapping[str, Any]:
    """Generates the secret here: the page shows it once, to the user who creates the webhook."""
    return {
        "secret": secret_of(secrets.token_bytes(32)) if visit.visitor.may_write else "",
        "types": TYPES,
        "queues": [queue.name for queue in visit.page_cache.names()],
        "topics": ("none",),
    }


def _where(url: str) -> str:
    """The URL without its query, which may contain a token."""
    path, _, query = url.partition("?")
    return f"{path}?***" if query else path


# -- actions


def _create(visit: PageRequest) -> ActionResult:
    url = visit.said("url")
    if url is None:
        raise InvalidJob("url: required")
    types = [name.strip() for name in (visit.said("types") or "").split(",") if name.strip()]
    made = visit.app.webhooks.create(
        url,
        types or ("job.failed",),
        queue=visit.said("queue"),
        task=visit.said("task"),
        secret=visit.said("secret"),
        insecure=visit.said("insecure") == "yes",
    )
    where = visit.at(f"/webhooks/{made.id}")
    return ActionResult(f"Events are sent to {_where(made.url)} from now on.", goto=where, target=made.id)


def _pause(visit: PageRequest) -> ActionResult:
    hook = visit.app.webhooks.pause(visit.name("webhook"))
    return ActionResult("The webhook is paused.", target=hook.id)


def _resume(visit: PageRequest) -> ActionResult:
    hook = visit.app.webhooks.resume(visit.name("webhook"))
    return ActionResult("The webhook is active, with events from now on.", target=hook.id)


def _test(visit: PageRequest) -> ActionResult:
    hook = visit.app.webhooks.get(visit.name("webhook"))
    try:
        status = visit.app.webhooks.test(hook.id)
    except RetryableError as error:
        return ActionResult(f"The delivery failed: {error}", ok=False, target=hook.id)
    return ActionResult(f"The webhook answered {status}.", target=hook.id)


def _delete(visit: PageRequest) -> ActionResult:
    hook = visit.app.webhooks.get(visit.name("webhook"))
    visit.app.webhooks.delete(hook.id)
    return ActionResult(f"The webhook to {_where(hook.url)} was deleted.", goto=visit.at("/webhooks"), target=hook.id)


def _ask_delete(visit: PageRequest) -> Confirmation:
    hook = visit.app.webhooks.get(visit.name("webhook"))
    return Confirmation(
        "Delete this webhook?", "Delete the webhook", f"Pending deliveries to {_where(hook.url)} are dropped."
    )


VIEWS = [
    View(path="/webhooks", template="webhooks.html", show=show),
    View(path="/new-webhook", template="webhook_new.html", show=show_new),
    View(path="/webhooks/{webhook}", template="webhook.html", show=show_one),
]
ACTIONS = [
    Action(path="/new-webhook", what="webhook.create", do=_create),
    Action(path="/webhooks/{webhook}/pause", what="webhook.pause", do=_pause),
    Action(path="/webhooks/{webhook}/resume", what="webhook.resume", do=_resume),
    Action(path="/webhooks/{webhook}/test", what="webhook.test", do=_test),
    Action(path="/webhooks/{webhook}/delete", what="webhook.delete", do=_delete, ask=_ask_delete),
]
