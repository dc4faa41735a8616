"""Sends HTTP messages with the standard library only: checks the address and posts."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import SplitResult, urlsplit

from headrace.core.text import short
from headrace.errors import InvalidJob


class NotTaken(Exception):
    """The server did not accept the message. `status` is that of the answer, None if there was none.

    The rest of the answer is never shown: it may come from a network that only headrace can reach.
    """

    def __init__(self, why: str, status: int | None = None) -> None:
        super().__init__(why)
        self.status = status


def check_url(url: Any, *, insecure: bool) -> str:
    """The address, if messages may be sent there: by https, to this machine, or by http if `insecure` allows it."""
    parts = parts_of(url)
    if parts is None:
        raise InvalidJob(
            f"url: {short(url)} should look like https://example.com/hooks, with %-codes for what is not ASCII",
            value=url,
        )
    if parts.username is not None:
        raise InvalidJob("url: it contains a user or password, which would be shown; a receiver checks the signature")
    if parts.scheme == "http" and not insecure and not _is_here(parts.hostname or ""):
        raise InvalidJob(f"url: {url} is not encrypted; use https, or allow it with insecure=True")
    return str(url)


def parts_of(url: Any) -> SplitResult | None:
    """The parts of a usable address; None if it is not one."""
    if not isinstance(url, str) or not url.isprintable() or " " in url:
        return None
    try:
        parts = urlsplit(url)
        is_there = bool(parts.hostname) and (parts.port is None or parts.port > 0)
        (parts.hostname or "").encode("idna")  # as DNS will get it
        parts._replace(netloc="").geturl().encode("ascii")
    except ValueError:
        return None
    return parts if is_there and parts.scheme in ("http", "https") else None


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def post(url: str, body: bytes, headers: Mapping[str, str], timeout: float, networks: Sequence[str]) -> int:
    """Post JSON; returns the status of the answer. Redirects are not followed, as a signature is for one receiver.

    `networks` are allowed besides the public internet. No error text contains the address, which may hold a token.
    """
    parts = parts_of(url)
    if parts is None or parts.username is not None:  # stored before these were refused
        raise NotTaken("its address can't be used; change it")
    # Deferred: with http and email it takes more than a megabyte, and few workers send anything.
    import http.client
    import urllib.error
    import urllib.request

    from headrace.runtime.http_connections import opener

    all_headers = {"content-type": "application/json", "user-agent": "headrace", **headers}
    request = urllib.request.Request(url, data=body, headers=all_headers, method="POST")
    try:
        with opener(parts.scheme, parts.hostname or "", networks).open(request, timeout=timeout) as answer:
            return int(answer.status)  # accepted, whatever else the answer holds, and even if it never ends
    except urllib.error.HTTPError as error:
        error.close()
        moved = " (redirects are not followed)" if 300 <= error.code < 400 else ""
        raise NotTaken(f"the server answered {error.code}{moved}", error.code) from None
    except urllib.error.URLError as error:
        raise NotTaken(str(error.reason) or type(error).__name__) from None
    except http.client.HTTPException as error:
        raise NotTaken(f"the server sent an invalid answer: {type(error).__name__}") from None
    except OSError as error:
        raise NotTaken(str(error) or type(error).__name__) from None
