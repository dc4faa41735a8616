"""A client of headrace's REST API, version VERSION_OF_API. One file without dependencies, for Python 3.11+: copy it.

    client = HeadraceClient("http://127.0.0.1:8080", token="s3cret")
    job = client.jobs.create(task="emails.send", kwargs={"to": "ann@example.com"})
    print(client.jobs.why(job["id"])["why"])

Times are RFC 3339 texts, durations are seconds. Answers are plain dicts; their types are for a type checker.
Generated from the OpenAPI document by `python -m docs.tools.clients`; do not edit.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NotRequired, TypedDict, Unpack, cast
from urllib.parse import quote, urlencode


class ApiError(Exception):
    """The server refused a request. `status` is its HTTP status, `kind` the stable name of the error.

    `field` is the invalid field or parameter, if there is one.
    """

    def __init__(self, status: int, kind: str, detail: str, field: str | None = None) -> None:
        super().__init__(f"{status} {kind}: {detail}")
        self.status, self.kind, self.detail, self.field = status, kind, detail, field


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: it could send the token to another host."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


class _Connection:
    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        self._root = f"{url.rstrip('/')}/api/v1"
        self._headers = {"Content-Type": "application/json", "X-Requested-With": "headrace-client"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout = timeout
        self._opener = urllib.request.build_opener(_NoRedirect)

    def open(self, method: str, path: str, query: Mapping[str, Any] | None, body: Mapping[str, Any] | None) -> Any:
        parameters = urlencode([pair for name, value in (query or {}).items() for pair in _pairs(name, value)])
        url = f"{self._root}{path}{'?' if parameters else ''}{parameters}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, self._headers, method=method)
        # A claim may wait for jobs on the server.
        timeout = self._timeout + float((body or {}).get("wait") or 0)
        try:
            return self._opener.open(request, timeout=timeout)
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(error.code, error.read()) from None


def _pairs(name: str, value: Any) -> list[tuple[str, str]]:
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return [pair for one in value for pair in _pairs(name, one)]
    return [(name, str(value).lower() if isinstance(value, bool) else str(value))]


def _refusal(status: int, text: bytes) -> ApiError:
    try:
        problem = json.loads(text)
        return ApiError(status, problem["type"].removeprefix("urn:headrace:"), problem["detail"], problem.get("field"))
    except (ValueError, KeyError, TypeError, AttributeError):  # not from headrace: a proxy, for example
        return ApiError(status, "unknown", text[:200].decode("utf-8", "replace"))


def _quoted(name: str) -> str:
    if not name:
        raise ValueError("a name in a path must not be empty")
    return quote(name, safe="")


class _Resource:
    def __init__(self, connection: _Connection) -> None:
        self._connection = connection

    def _send(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Mapping[str, Any] | None = None
    ) -> Any:
        with self._connection.open(method, path, query, body) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def _stream(self, path: str, *, query: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """The data of each server-sent event, until the server ends the stream."""
        with self._connection.open("GET", path, query, None) as answer:
            kind, data = "", list[str]()
            for raw in answer:
                name, _, value = raw.decode().rstrip("\r\n").partition(":")
                if name == "data":
                    data.append(value.removeprefix(" "))
                elif name == "event":
                    kind = value.strip()
                elif not name and not value:  # a blank line ends an event
                    if kind == "end":
                        return
                    if data and kind != "trouble":
                        yield json.loads("\n".join(data))
                    kind, data = "", []
