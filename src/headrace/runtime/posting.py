"""Sending a message to a webhook: where to, and one attempt of it, with nothing but the standard library."""

from __future__ import annotations

import http.client
import ipaddress
import ssl
from typing import Any
from urllib.parse import urlsplit

from headrace.core.webhooks import signature
from headrace.core.words import short
from headrace.errors import HeadraceError, InvalidJob, RetryableError

_TIMEOUT = 15.0
_LONGEST = 300  # characters of an answer that are worth a note


class Gone(HeadraceError):
    """The receiver says that it does not want any more of this."""


def check_url(url: Any, *, insecure: bool) -> str:
    """The address, if messages may be sent there: by https, or to this machine, unless it is said that http will do."""
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        host = parts.hostname if parts else None
        _ = parts.port if parts else None
    except ValueError:
        parts = host = None
    if parts is None or parts.scheme not in ("http", "https") or not host or any(mark in url for mark in "\r\n\t "):
        raise InvalidJob(f"url: {short(url)} should look like https://example.com/hooks")
    if parts.username is not None:
        raise InvalidJob("url: it has a user or password in it, which would be shown; a receiver checks the signature")
    if parts.scheme == "http" and not insecure and not _is_here(host):
        raise InvalidJob(f"url: {url} is not encrypted; use https, or allow it with insecure=True")
    return str(url)


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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
