"""Sending a message to a webhook: one attempt of a job, over http or https, with nothing but the standard library."""

from __future__ import annotations

import http.client
import ssl
from urllib.parse import urlsplit

from headrace.core.webhooks import signature
from headrace.errors import HeadraceError, RetryableError

_TIMEOUT = 15.0
_LONGEST = 300  # characters of an answer that are worth a note


class Gone(HeadraceError):
    """The receiver says that it does not want any more of this."""


def post(url: str, secret: str, message_id: str, at: int, body: str) -> int:
    """Send it; the status of the answer. What is not taken raises: a redirect as well, which nobody should follow."""
    parts = urlsplit(url)
    headers = {
        "content-type": "application/json",
        "user-agent": "headrace",
        "webhook-id": message_id,
        "webhook-timestamp": str(at),
        "webhook-signature": signature(secret, message_id, at, body),
    }
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection = _connection(parts.scheme, parts.hostname or "", parts.port)
    try:
        connection.request("POST", path, body.encode(), headers)
        answer = connection.getresponse()
        said = answer.read(_LONGEST).decode("utf-8", "replace").strip()
    except (OSError, http.client.HTTPException) as error:
        raise RetryableError(f"{_shown(url)} can't be reached: {type(error).__name__}: {error}") from None
    finally:
        connection.close()
    if answer.status == 410:
        raise Gone(f"{_shown(url)} answered 410 Gone")
    if not 200 <= answer.status < 300:
        raise RetryableError(f"{_shown(url)} answered {answer.status} {answer.reason}: {said}")
    return answer.status


def _connection(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    if scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT, context=ssl.create_default_context())
    return http.client.HTTPConnection(host, port, timeout=_TIMEOUT)


def _shown(url: str) -> str:
    """The address without its query, which may hold a token."""
    return url.partition("?")[0]
