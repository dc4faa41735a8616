"""Webhooks and their last deliveries."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from headrace.core.events.event import TYPES
from headrace.core.events.webhooks import secret_of
from headrace.errors import InvalidJob, RetryableError
from headrace.web.pages.job_view import summaries
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, Confirmation, View

_DELIVERIES = 50


def show(request: PageRequest) -> Mapping[str, Any]:
    return {"hooks": request.app.webhooks.list(), "shown_url": _shown_url, "topics": ("none",)}


def show_one(request: PageRequest) -> Mapping[str, Any]:
    hook = request.app.webhooks.get(request.path_param("webhook"))
    deliveries = request.app.webhooks.deliveries(hook.id, _DELIVERIES)
    return {
        "hook": hook,
        "shown_url": _shown_url,
        "deliveries": summaries(deliveries, request.app),
        "topics": ("task:headrace.webhook",),
    }


def show_new(request: PageRequest) -> Mapping[str, Any]:
    """Generates the secret here: the page shows it once, to the user who creates the webhook."""
    return {
        "secret": secret_of(secrets.token_bytes(32)) if request.viewer.may_write else "",
        "types": TYPES,
        "queues": [queue.name for queue in request.page_cache.queue_rows()],
        "topics": ("none",),
    }


def _shown_url(url: str) -> str:
    """The URL without its query, which may contain a token."""
    path, _, query = url.partition("?")
    return f"{path}?***" if query else path


# -- actions


def _create(request: PageRequest) -> ActionResult:
    url = request.form_field("url")
    if url is None:
        raise InvalidJob("url: required")
    types = [name.strip() for name in (request.form_field("types") or "").split(",") if name.strip()]
    created = request.app.webhooks.create(
        url,
        types or ("job.failed",),
        queue=request.form_field("queue"),
        task=request.form_field("task"),
        secret=request.form_field("secret"),
        insecure=request.form_field("insecure") == "yes",
    )
    url_of_page = request.url(f"/webhooks/{created.id}")
    return ActionResult(
        f"Events are sent to {_shown_url(created.url)} from now on.", goto=url_of_page, target=created.id
    )


def _pause(request: PageRequest) -> ActionResult:
    hook = request.app.webhooks.pause(request.path_param("webhook"))
    return ActionResult("The webhook is paused.", target=hook.id)


def _resume(request: PageRequest) -> ActionResult:
    hook = request.app.webhooks.resume(request.path_param("webhook"))
    return ActionResult("The webhook is active, with events from now on.", target=hook.id)


def _test(request: PageRequest) -> ActionResult:
    hook = request.app.webhooks.get(request.path_param("webhook"))
    try:
        status = request.app.webhooks.test(hook.id)
    except RetryableError as error:
        return ActionResult(f"The delivery failed: {error}", ok=False, target=hook.id)
    return ActionResult(f"The webhook answered {status}.", target=hook.id)


def _delete(request: PageRequest) -> ActionResult:
    hook = request.app.webhooks.get(request.path_param("webhook"))
    request.app.webhooks.delete(hook.id)
    return ActionResult(
        f"The webhook to {_shown_url(hook.url)} was deleted.", goto=request.url("/webhooks"), target=hook.id
    )


def _confirm_delete(request: PageRequest) -> Confirmation:
    hook = request.app.webhooks.get(request.path_param("webhook"))
    return Confirmation(
        "Delete this webhook?", "Delete the webhook", f"Pending deliveries to {_shown_url(hook.url)} are dropped."
    )


VIEWS = [
    View(path="/webhooks", template="webhooks/webhooks.html", show=show),
    View(path="/new-webhook", template="webhooks/webhook_new.html", show=show_new),
    View(path="/webhooks/{webhook}", template="webhooks/webhook.html", show=show_one),
]
ACTIONS = [
    Action(path="/new-webhook", name="webhook.create", run=_create),
    Action(path="/webhooks/{webhook}/pause", name="webhook.pause", run=_pause),
    Action(path="/webhooks/{webhook}/resume", name="webhook.resume", run=_resume),
    Action(path="/webhooks/{webhook}/test", name="webhook.test", run=_test),
    Action(path="/webhooks/{webhook}/delete", name="webhook.delete", run=_delete, confirmation=_confirm_delete),
]
