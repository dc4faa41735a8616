"""`app.webhooks`: HTTP endpoints that receive events.

A delivery is a job of the built-in task `headrace.webhook`, with an id derived from the webhook and the event. So it is
stored once, retried with backoff, and becomes a dead letter if it fails.
"""

from __future__ import annotations

import builtins
import secrets
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct, structs

from headrace.app.jobs.jobs import Jobs
from headrace.app.services.services import Services
from headrace.core.clock import to_datetime
from headrace.core.codec.encryption import decrypted
from headrace.core.damaged_records import readable
from headrace.core.documents import Document
from headrace.core.events.event import Event, EventFilter, event_filter
from headrace.core.events.webhooks import TASK, WebhookRow, body_of, key_of, secret_of, signature
from headrace.core.tasks.options import check_limit, check_name, check_text
from headrace.core.tasks.retry import Retry
from headrace.errors import (
    DuplicateJob,
    EngineUnavailable,
    InvalidJob,
    PermanentError,
    QueueFull,
    RetryableError,
    WebhookNotFound,
)
from headrace.runtime.event_log import last_cursor
from headrace.runtime.events.handlers import KIND as PLACES
from headrace.runtime.events.handlers import HandlerCursor, Subscription
from headrace.runtime.http_client import NotTaken, check_url, post
from headrace.runtime.jobs.async_twin import twin
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.task import Task

QUEUE = "headrace.webhooks"  # a separate queue: a backlog of jobs does not delay deliveries
_KIND = "webhooks"
_HANDLER = "headrace.webhooks"
_REFRESH_INTERVAL = 10.0  # seconds; a webhook created elsewhere gets all events since its creation
_TIMEOUT = 15.0
_GONE = 410
_CHANGEABLE = ("url", "types", "queue", "task")
_RETRY = Retry(limit=10, backoff="exponential", base=5, factor=3, cap=6 * 3600, jitter=0.2)
_hook = msgspec.json.Decoder(WebhookRow)


class _Gone(RetryableError):
    """The receiver refuses further deliveries."""


class Webhook(Struct, frozen=True):
    """A webhook. Only create() returns its secret."""

    id: str
    url: str
    types: tuple[str, ...]
    queue: str | None
    task: str | None
    paused: bool
    reason: str | None
    created_at: datetime
    secret: str | None = None

    def __repr__(self) -> str:
        return f"<Webhook {self.id} {self.url} {', '.join(self.types)}{' paused' if self.paused else ''}>"


class Webhooks:
    """`app.webhooks`."""

    def __init__(self, services: Services, make_task: Callable[..., Task[..., Any, Any]]) -> None:
        self._services = services
        self._make_task = make_task
        self._known: builtins.list[WebhookRow] = []
        self._refreshed_at = float("-inf")

    def create(
        self,
        url: str,
        types: str | Iterable[str] = ("job.failed",),
        *,
        queue: str | None = None,
        task: str | None = None,
        secret: str | None = None,
        insecure: bool = False,
    ) -> Webhook:
        """Send events of these types to this URL from now on; returns the webhook with its signing secret.

        Without `secret`, one is generated. `insecure` allows plain HTTP to other machines.
        """
        wanted = _filter(types, queue, task)
        checked = check_url(url, insecure=insecure)
        secret_text = secret_of(secrets.token_bytes(32) if secret is None else key_of(secret))
        now, hook_id = self._services.clock.now(), secrets.token_hex(6)
        since = last_cursor(self._services.engine.events)
        encrypted = self._services.encrypted(secret_text, "webhook", hook_id)
        hook = WebhookRow(hook_id, checked, tuple(sorted(wanted.types)), encrypted, now, since, queue, task)
        document_store = self._services.engine.document_store
        document_store.put(
            [Document(PLACES, _HANDLER, 0, msgspec.json.encode(HandlerCursor(since)).decode())]
        )  # a no-op if it exists
        document_store.put([Document(_KIND, hook_id, 0, _text(hook))])
        self._notify_handlers()
        return _shown(hook, secret_text)

    def list(self) -> builtins.list[Webhook]:
        """All webhooks, oldest first."""
        return [_shown(hook) for hook in sorted(self._stored(), key=lambda hook: (hook.created_at, hook.id))]

    def get(self, webhook_id: str) -> Webhook:
        return _shown(self._read(webhook_id)[1])

    def pause(self, webhook_id: str) -> Webhook:
        """Pause a webhook. Events during the pause are not sent."""
        return self._change(webhook_id, lambda hook: {"paused": True, "reason": None})

    def resume(self, webhook_id: str) -> Webhook:
        """Resume a webhook, with events from now on."""
        now = self._services.clock.now()
        return self._change(webhook_id, lambda hook: {"paused": False, "reason": None, "resumed_at": now})

    def update(self, webhook_id: str, /, *, insecure: bool = False, **fields: Any) -> Webhook:
        """Change its `url`, `types`, `queue` or `task`. Omitted fields and the secret stay."""
        for name in fields:
            if name not in _CHANGEABLE:
                raise InvalidJob(f"{name}: a webhook has no such field to change; it has {', '.join(_CHANGEABLE)}")
        self._read(webhook_id)  # raise WebhookNotFound first
        url = {"url": check_url(fields["url"], insecure=insecure)} if "url" in fields else {}

        def change(hook: WebhookRow) -> dict[str, Any]:
            wanted = _filter(*(fields.get(name, getattr(hook, name)) for name in ("types", "queue", "task")))
            return {**url, "types": tuple(sorted(wanted.types)), "queue": wanted.queue, "task": wanted.task}

        return self._change(webhook_id, change)

    def delete(self, webhook_id: str) -> None:
        """Delete the webhook; pending deliveries are dropped."""
        while not self._services.engine.document_store.put((), [self._read(webhook_id)[0]]):
            pass

    def deliveries(self, webhook_id: str, limit: int = 50) -> builtins.list[Job[Any]]:
        """The newest deliveries; each is a job with its state, attempts and errors."""
        self._read(webhook_id)
        return Jobs(self._services).find(tag=_tag(webhook_id), limit=check_limit("limit", limit)).jobs

    def test(self, webhook_id: str) -> int:
        """Send one event of the type `webhook.test` now; returns the response status."""
        hook = self._read(webhook_id)[1]
        at = to_datetime(self._services.clock.now())
        assert at is not None
        body = body_of(Event("0", "webhook.test", at))
        return self._post(hook, f"test:{secrets.token_hex(6)}", body)

    acreate = twin(create)
    alist = twin(list)
    aget = twin(get)
    apause = twin(pause)
    aresume = twin(resume)
    aupdate = twin(update)
    adelete = twin(delete)
    adeliveries = twin(deliveries)
    atest = twin(test)

    # -- in a worker

    @property
    def subscription(self) -> Subscription:
        """The service that turns events into delivery jobs; it runs in one process at a time."""
        return Subscription(
            _HANDLER,
            self._enqueue_deliveries,
            EventFilter(),
            current_filter=self._current_filter,
            waits_for=(QueueFull, EngineUnavailable),
        )

    def task(self) -> Task[..., Any, Any]:
        """The task that delivers."""
        return self._make_task(self._deliver, name=TASK, queue=QUEUE, retry=_RETRY, timeout=60, tags=("webhook",))

    def _current_filter(self, refresh: bool) -> EventFilter | None:
        """The event types of all webhooks, read again with `refresh` or after a time; None without webhooks."""
        if refresh or time.monotonic() - self._refreshed_at > _REFRESH_INTERVAL:
            self._refreshed_at = time.monotonic()  # before the read: a change during it asks for another
            try:
                self._known = [hook for hook in self._stored() if not hook.paused]
            except BaseException:
                self._refreshed_at = float("-inf")
                raise
        types = frozenset(name for hook in self._known for name in hook.types)
        return EventFilter(types) if types else None

    def _enqueue_deliveries(self, event: Event) -> None:
        if event.task == TASK:
            return
        at = int(event.at.timestamp() * 1000)
        for hook in self._known:
            if at >= hook.began and hook.wanted.covers(event.type, event.queue, event.task):
                self._enqueue(hook, event)

    def _enqueue(self, hook: WebhookRow, event: Event) -> None:
        job_id = f"webhook:{hook.id}:{event.cursor}"
        task = self.task().using(job_id=job_id, tags=("webhook", _tag(hook.id)))
        try:
            task.enqueue(hook.id, job_id, body_of(event))
        except DuplicateJob:
            return  # an earlier run stored it and could not store its position

    def _deliver(self, hook: str, message: str, body: str) -> int:
        try:
            found = self._read(hook)[1]
        except WebhookNotFound as error:
            raise PermanentError(str(error)) from None
        try:
            return self._post(found, message, body)
        except _Gone as error:
            reason = str(error)
            self._change(hook, lambda known: {"paused": True, "reason": reason})
            raise PermanentError(reason) from None

    def _post(self, hook: WebhookRow, message: str, body: str) -> int:
        secret = decrypted(self._services.cipher, hook.secret, "webhook", hook.id)
        at = self._services.clock.now() // 1000
        headers = {"webhook-id": message, "webhook-timestamp": str(at)}
        headers["webhook-signature"] = signature(secret, message, at, body)
        try:
            return post(hook.url, body.encode(), headers, _TIMEOUT, self._services.settings.webhook_networks)
        except NotTaken as error:
            where = hook.url.partition("?")[0]  # a query may contain a token
            raise (_Gone if error.status == _GONE else RetryableError)(f"{where}: {error}") from None

    # -- storage

    def _stored(self) -> builtins.list[WebhookRow]:
        return list(
            readable(_hook.decode, (document.value for document in self._services.engine.document_store.get(_KIND)))
        )

    def _read(self, webhook_id: str) -> tuple[Document, WebhookRow]:
        found = self._services.engine.document_store.get(
            _KIND, [check_name("webhook", check_text("webhook", webhook_id))]
        )
        if not found:
            raise WebhookNotFound(webhook_id)
        return found[0], _hook.decode(found[0].value)

    def _change(self, webhook_id: str, change: Callable[[WebhookRow], dict[str, Any]]) -> Webhook:
        """Apply the change to the current row; after a concurrent change it is applied again."""
        while True:
            document, hook = self._read(webhook_id)
            changed = structs.replace(hook, **change(hook))
            if self._services.engine.document_store.put([structs.replace(document, value=_text(changed))]):
                self._notify_handlers()
                return _shown(changed)

    def _notify_handlers(self) -> None:
        self._refreshed_at = float("-inf")
        self._services.engine.ring("events")


def _filter(types: str | Iterable[str], queue: str | None, task: str | None) -> EventFilter:
    wanted = event_filter(types, queue, task)
    if not wanted.types:
        raise InvalidJob("types: name at least one type of events, or a pattern such as job.*")
    return wanted


def _tag(webhook_id: str) -> str:
    return f"webhook:{webhook_id}"


def _text(hook: WebhookRow) -> str:
    return msgspec.json.encode(hook).decode()


def _shown(hook: WebhookRow, secret: str | None = None) -> Webhook:
    created = to_datetime(hook.created_at)
    assert created is not None
    return Webhook(hook.id, hook.url, hook.types, hook.queue, hook.task, hook.paused, hook.reason, created, secret)
