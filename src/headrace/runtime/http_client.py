"""Messages over http or https: where they may go, and sending one, with nothing but the standard library."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import SplitResult, urlsplit

from headrace.core.text import short
from headrace.errors import InvalidJob


class NotTaken(Exception):
    """The message was not taken. `status` is that of the answer, None if there was none.

    What else the server answered is told to nobody: it may be of a network that only headrace can reach.
    """

    def __init__(self, why: str, status: int | None = None) -> None:
        super().__init__(why)
        self.status = status


def check_url(url: Any, *, insecure: bool) -> str:
    """The address, if messages may be sent there: by https, or to this machine, unless it is said that http will do."""
    parts = parts_of(url)
    if parts is None:
        raise InvalidJob(
            f"url: {short(url)} should look like https://example.com/hooks, with %-codes for what is not ASCII",
            value=url,
        )
    if parts.username is not None:
        raise InvalidJob("url: it has a user or password in it, which would be shown; a receiver checks the signature")
    if parts.scheme == "http" and not insecure and not _is_here(parts.hostname or ""):
        raise InvalidJob(f"url: {url} is not encrypted; use https, or allow it with insecure=True")
    return str(url)


def parts_of(url: Any) -> SplitResult | None:
    """The parts of an address that a request can be made of; None if none can."""
    if not isinstance(url, str) or not url.isprintable() or " " in url:
        return None
    try:
        parts = urlsplit(url)
        is_there = bool(parts.hostname) and (parts.port is None or parts.port > 0)
        (parts.hostname or "").encode("idna")  # as it will be looked up
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
    """Send JSON there; the status of the answer. A redirect is not followed: what is signed for one is not for another.

    `networks` are those that may be reached besides the public internet. No message of an error has the address in it,
    which may hold a token.
    """
    parts = parts_of(url)
    if parts is None or parts.username is not None:  # it was stored when these were not refused
        raise NotTaken("its address can't be used; change it")
    # Deferred: with http and email it takes more than a megabyte, and few workers send anything.
    import http.client
    import urllib.error
    import urllib.request

    from headrace.runtime.http_connections import opener

    told = {"content-type": "application/json", "user-agent": "headrace", **headers}
    request = urllib.request.Request(url, data=body, headers=told, method="POST")
    try:
        with opener(parts.scheme, parts.hostname or "", networks).open(request, timeout=timeout) as answer:
            return int(answer.status)  # it is taken, whatever else comes, and whether that ever ends
    except urllib.error.HTTPError as error:
        error.close()
        moved = " (it leads elsewhere, where nothing is sent)" if 300 <= error.code < 400 else ""
        raise NotTaken(f"the server answered {error.code}{moved}", error.code) from None
    except urllib.error.URLError as error:
        raise NotTaken(str(error.reason) or type(error).__name__) from None
    except http.client.HTTPException as error:
        raise NotTaken(f"the server can't be understood: {type(error).__name__}") from None
    except OSError as error:
        raise NotTaken(str(error) or type(error).__name__) from None
