"""The app of `app.wsgi()`: the REST API and the dashboard for WSGI servers, such as gunicorn's, and for views.

Each request runs the ASGI app on an event loop of its own, in the thread that the server gave it, and is answered as a
whole. So nothing is shared between requests, a server may fork at any time, and no thread is held by a stream: pages
poll, and a stream of events ends after the events that the client has missed.
"""

from __future__ import annotations

import asyncio
import contextvars
import http
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

from msgspec import Struct
from starlette.types import Message, Scope

from headrace.app.app import Headrace
from headrace.web import asgi
from headrace.web.asgi import Web
from headrace.web.security.middleware import is_public
from headrace.web.sse import BOUNDED

Environ = Mapping[str, Any]
StartResponse = Callable[[str, list[tuple[str, str]]], Any]
_CHUNK = 65_536


class WsgiAnswer(Struct, frozen=True):
    """A whole response."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


def make(app: Headrace, **options: Any) -> WebWSGI:
    """Build the WSGI app; options are those of `app.asgi()`."""
    return WebWSGI(asgi.make(app, **options))


class WebWSGI:
    """The WSGI app of a Headrace app."""

    def __init__(self, web: Web) -> None:
        self._web = web

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        scope = scope_of(environ)
        answer = self.answer(scope, _body_of(environ, self._web.max_body))
        start_response(f"{answer.status} {http.HTTPStatus(answer.status).phrase}", answer.headers)
        return [answer.body]

    def answer(self, scope: Scope, body: bytes) -> WsgiAnswer:
        """Serve one request in this thread; in another one if an event loop runs in this one."""
        if self._web.site_auth is not None and not is_public(scope):
            self._web.site_auth.ask_before(scope)
        if not _is_in_event_loop():
            return _run(self._web, scope, body)
        answers: list[WsgiAnswer] = []
        context = contextvars.copy_context()
        thread = threading.Thread(target=lambda: answers.append(context.run(_run, self._web, scope, body)))
        thread.start()
        thread.join()
        return answers[0]


def scope_of(environ: Environ) -> Scope:
    """The ASGI scope of a request; the environment itself is under `wsgi.environ`."""
    root, path = _text(environ.get("SCRIPT_NAME", "")).rstrip("/"), _text(environ.get("PATH_INFO", ""))
    raw_path = environ.get("REQUEST_URI") or environ.get("RAW_URI")  # with %2F as the client wrote it
    if not isinstance(raw_path, str) or not raw_path.startswith("/"):
        raw_path = quote(root + path, safe="/:@!$&'()*+,;=~")
    host, port = environ.get("REMOTE_ADDR") or "", str(environ.get("REMOTE_PORT") or "0")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": str(environ.get("SERVER_PROTOCOL", "HTTP/1.1")).removeprefix("HTTP/"),
        "method": environ["REQUEST_METHOD"],
        "scheme": environ.get("wsgi.url_scheme", "http"),
        "path": root + path,
        "raw_path": raw_path.partition("?")[0].encode("latin-1", "replace"),
        "root_path": root,
        "query_string": str(environ.get("QUERY_STRING", "")).encode("latin-1", "replace"),
        "headers": list(_headers_of(environ)),
        "client": (str(host), int(port) if port.isdecimal() else 0) if host else None,
        "server": (str(environ.get("SERVER_NAME", "")), int(environ.get("SERVER_PORT") or 0)),
        "wsgi.environ": environ,
        BOUNDED: True,
    }


def _text(value: str) -> str:
    """A path, which WSGI gives as bytes in the shape of Latin-1."""
    return value.encode("latin-1", "replace").decode("utf-8", "replace")


def _headers_of(environ: Environ) -> Iterable[tuple[bytes, bytes]]:
    for name, value in environ.items():
        if name.startswith("HTTP_"):
            header = name.removeprefix("HTTP_")
        elif name in ("CONTENT_TYPE", "CONTENT_LENGTH") and value:
            header = name
        else:
            continue
        yield header.replace("_", "-").lower().encode("latin-1"), str(value).encode("latin-1", "replace")


def _body_of(environ: Environ, limit: int) -> bytes:
    """The body; only a part of one that is too large, which is refused."""
    length = str(environ.get("CONTENT_LENGTH") or "")
    if length.isdecimal():
        left = int(length) if int(length) <= limit else 0
    else:
        left = limit + 1 if environ.get("wsgi.input_terminated") else 0  # else its end can't be found
    chunks = []
    while left > 0 and (chunk := environ["wsgi.input"].read(min(left, _CHUNK))):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run(web: Web, scope: Scope, body: bytes) -> WsgiAnswer:
    # With a factory, the runner leaves the thread's own event loop alone.
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(_serve(web, scope, body))


async def _serve(web: Web, scope: Scope, body: bytes) -> WsgiAnswer:
    status, headers, chunks = 500, list[tuple[str, str]](), list[bytes]()
    is_read = False

    async def receive() -> Message:
        nonlocal is_read
        if is_read:
            await asyncio.Event().wait()  # WSGI does not tell when a client disconnects
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status = message["status"]
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"]]
        else:
            chunks.append(message.get("body", b""))

    await web(scope, receive, send)
    return WsgiAnswer(status, headers, b"".join(chunks))
