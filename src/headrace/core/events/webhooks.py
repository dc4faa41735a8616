"""Webhooks: stored records, message bodies and signatures.

Messages are signed by the Standard Webhooks specification: `webhook-signature` is `v1,` and the HMAC-SHA256, in Base64,
of the id, the time and the body with dots between them, keyed by the bytes of a secret written as `whsec_…`.
Messages of alert channels are signed in the same way.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from headrace.core.damaged_records import items_of
from headrace.core.events.event import Event, EventFilter
from headrace.errors import InvalidJob

TASK = "headrace.webhook"  # the task that delivers
PREFIX = "whsec_"
TOLERANCE = 300  # seconds that a message may be old, or from the future


class WebhookRow(Struct, frozen=True):
    """A webhook as stored. The secret is encrypted where an app has keys."""

    id: str
    url: str
    types: tuple[str, ...]
    secret: str
    created_at: int
    since: str
    queue: str | None = None
    task: str | None = None
    paused: bool = False
    reason: str | None = None  # why it was paused, if not by hand
    resumed_at: int = 0

    @property
    def began(self) -> int:
        """Earlier events are not sent: without a webhook, none may have been read."""
        return max(self.created_at, self.resumed_at)

    @property
    def wanted(self) -> EventFilter:
        return EventFilter(frozenset(self.types), self.queue, self.task)


def key_of(secret: Any) -> bytes:
    """The bytes of a secret: of `whsec_` and Base64."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (AttributeError, binascii.Error, ValueError):
        key = b""
    if not 24 <= len(key) <= 64:
        raise InvalidJob("secret: it should be whsec_ and 24 to 64 bytes in Base64; without one, a good one is made")
    return key


def secret_of(key: bytes) -> str:
    return PREFIX + base64.b64encode(key).decode()


def signature(secret: str, message_id: str, at: int, body: str) -> str:
    """The signature of a message sent at this time, in seconds."""
    return sign(key_of(secret), message_id, at, body.encode())


def sign(key: bytes, message_id: str, at: int, body: bytes) -> str:
    """The same with the bytes of any secret."""
    signed = hmac.new(key, f"{message_id}.{at}.".encode() + body, hashlib.sha256)
    return "v1," + base64.b64encode(signed.digest()).decode()


def verify(secret: str, headers: Mapping[str, str], body: str | bytes, now: datetime) -> bool:
    """Whether a received message is signed with the secret, and was sent just now."""
    lowered = {name.lower(): value for name, value in headers.items()}
    message_id, at = lowered.get("webhook-id", ""), lowered.get("webhook-timestamp", "")
    if not at.isdecimal() or len(at) > 12 or abs(now.timestamp() - int(at)) > TOLERANCE:
        return False
    try:
        given = [one.encode() for one in lowered.get("webhook-signature", "").split()]
        content = (
            body if isinstance(body, bytes) else body.encode()
        )  # bytes as they are: different bytes may decode to the same text
        right = sign(key_of(secret), message_id, int(at), content).encode()
    except UnicodeEncodeError:  # such a text was never sent
        return False
    return any(hmac.compare_digest(right, one) for one in given)


def body_of(event: Event) -> str:
    """The message body of an event. It never has the arguments of a job, nor its result."""
    about = {name: getattr(event, name) for name in ("job_id", "task", "queue", "worker", "attempt")}
    fields = {name: value for name, value in about.items() if value is not None}
    message = {"type": event.type, "timestamp": event.at, "data": {**event.data, **fields, "cursor": event.cursor}}
    return msgspec.json.encode(message).decode()


def job_of(body: str) -> str | None:
    """The job that the event of a message is about; None if it is about none, or is damaged."""
    message = items_of(body, dict)
    about = message.get("data")
    found = about.get("job_id") if isinstance(about, dict) else None
    return found if isinstance(found, str) else None
