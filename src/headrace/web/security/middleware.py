"""The security middleware: every request passes it first.

It authenticates the caller, refuses cross-site writes, limits request rates and body sizes, and adds security headers
to every response. Authorization by role comes later (`RequestContext.require`).
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

from msgspec import Struct
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.app.app import Headrace
from headrace.core.access import Role, grants
from headrace.web.problems import Refused, answer
from headrace.web.remote_workers import RemoteWorkers, stays
from headrace.web.security.credentials import LOCAL, Caller, Credentials, How, credentials_in
from headrace.web.security.rate_limit import RateLimiter
from headrace.web.sse import LiveFeeds

COOKIE = "headrace_session"
FORM_FIELD = "form_token"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_HEALTH = frozenset({"/healthz", "/readyz"})
_OPEN = _HEALTH | {"/login"}
_OPEN_BELOW = "/static/"
_OF_PROXIES = frozenset(
    {
        "forwarded",
        "via",
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-original-host",
        "true-client-ip",
        "cf-connecting-ip",
        "cf-ray",
        "fastly-client-ip",
        "fly-client-ip",
        "x-envoy-external-address",
    }
)
_PREFLIGHTED = frozenset({"PUT", "PATCH", "DELETE"})  # browsers send a CORS preflight before these
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
}


class RequestContext(Struct, frozen=True):
    """One authenticated request: its caller and its app.

    `has_left` returns whether the client has disconnected; only endpoints that wait set it.
    """

    app: Headrace
    caller: Caller
    door: Credentials
    read_only: bool
    lives: LiveFeeds
    remote: RemoteWorkers
    has_left: Callable[[], bool] = stays

    def may(self, role: Role) -> bool:
        return grants(self.caller.role, role) and not (self.read_only and role != "viewer")

    def require(self, role: Role) -> None:
        if self.read_only and role != "viewer":
            raise Refused(403, "read-only", "this server is read-only (web_read_only)")
        if not self.may(role):
            raise Refused(403, "forbidden", f"this needs the role {role}; {self.caller.name} is a {self.caller.role}")

    @property
    def form_token(self) -> str:
        """The required value of the form field `form_token`."""
        return self.door.form_token(self.caller)


def visit_of(scope: Scope) -> RequestContext:
    visit: RequestContext = scope["headrace.visit"]
    return visit


def refuse_forgery(scope: Scope, form_token: str | None = None) -> None:
    """Refuse a write that a page of another site may have sent through the caller's browser.

    Browsers do not send bearer tokens by themselves. Other credentials also need the form token, or a header that a
    cross-site page can only send after a CORS preflight, which this server never allows.
    """
    visit, headers = visit_of(scope), Headers(scope=scope)
    if visit.caller.how == "bearer" or headers.get("sec-fetch-site") == "same-origin":
        return
    if form_token is not None and visit.door.is_form_token(visit.caller, form_token):
        return
    if scope["method"] in _PREFLIGHTED or headers.get("x-requested-with"):
        return
    if headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json":
        return
    raise Refused(403, "forgery", "add the header `X-Requested-With: headrace`, or send JSON as application/json")


class SecurityMiddleware:
    """The middleware around `inner`."""

    def __init__(self, inner: ASGIApp, app: Headrace, door: Credentials, settings: Any, *, login: bool) -> None:
        self._inner = inner
        self._app = app
        self._door = door
        self._read_only: bool = settings.web_read_only
        self._max_body: int = settings.web_max_body
        rate: float | None = settings.web_rate
        self._pace = None if rate is None else RateLimiter(rate, 2 * rate)
        self._login = login
        self._lives = LiveFeeds(app)
        self._remote = RemoteWorkers(app)

    def end(self) -> None:
        """End event streams and waiting claims."""
        self._lives.close()
        self._remote.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"headrace only serves HTTP, not {scope['type']}")
        begun = False

        async def reply(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                _harden(scope, MutableHeaders(scope=message))
            await send(message)

        try:
            self._authorize(scope)
            await self._inner(scope, _limited(scope, receive, self._max_body), reply)
        except Refused as refused:
            if begun:
                raise
            response = self._to_login(scope) if self._is_page_without_login(scope, refused) else answer(refused)
            await response(scope, receive, reply)

    # -- authentication

    def _authorize(self, scope: Scope) -> None:
        request = HTTPConnection(scope)
        client = request.client.host if request.client else ""
        _refuse_other_sites(scope, request)
        caller = self._caller(request, client)
        if caller is None:
            if (path := _path(scope)) not in _OPEN and not path.startswith(_OPEN_BELOW):
                raise self._nobody(request)
            caller = Caller("nobody", "viewer", "session")
        if self._pace is not None and caller.role != "worker" and _path(scope) not in _HEALTH:
            refuse_haste(self._pace.wait(client if caller.name == "nobody" else f"{caller.name}@{client}"))
        scope["headrace.visit"] = RequestContext(
            self._app, caller, self._door, self._read_only, self._lives, self._remote
        )

    def _caller(self, request: HTTPConnection, client: str) -> Caller | None:
        if not self._door.has_credentials:
            return LOCAL if _is_local(request, client) else None
        if (written := request.headers.get("authorization")) is not None:
            if (caller := known_by(self._door, client, *credentials_in(written))) is None:
                raise Refused(401, "unauthorized", "wrong credentials", _challenge(request))
            return caller
        cookie = request.cookies.get(COOKIE)
        return None if cookie is None else self._door.by_session(cookie, time.time())

    def _nobody(self, request: HTTPConnection) -> Refused:
        if self._door.has_credentials:
            detail = "credentials are required: basic authentication or a bearer token"
            return Refused(401, "unauthorized", detail, _challenge(request))
        return Refused(
            403,
            "closed",
            "no credentials are set, so only clients on the same machine are allowed, at localhost and not through a "
            "proxy; set web_auth or web_tokens",
        )

    # -- requests without a session

    def _is_page_without_login(self, scope: Scope, refused: Refused) -> bool:
        accepts = Headers(scope=scope).get("accept", "")
        is_page = scope["method"] == "GET" and "text/html" in accepts and not _path(scope).startswith("/api/")
        return self._login and refused.status == 401 and is_page

    def _to_login(self, scope: Scope) -> RedirectResponse:
        asked = scope["path"] + (f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else "")
        return RedirectResponse(f"{scope.get('root_path', '')}/login?next={quote(asked, safe='/')}", 303)


def _is_local(request: HTTPConnection, client: str) -> bool:
    """Whether the client is on this machine and was not redirected by a foreign page or proxy.

    DNS rebinding: a page may resolve its host name to 127.0.0.1, but the Host header then shows that name. A client
    behind a proxy on this machine is not local.
    """
    if any(name in _OF_PROXIES or name.startswith("x-forwarded-") for name in request.headers):
        return False
    return _is_loopback(client) and _is_loopback(_host_name(request.headers.get("host", "")))


def _is_loopback(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _refuse_other_sites(scope: Scope, request: HTTPConnection) -> None:
    """Check the Sec-Fetch-Site and Origin headers, which a page can't forge."""
    if scope["method"] in SAFE:
        return
    if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        raise Refused(403, "forgery", "cross-site request refused")
    origin = request.headers.get("origin")
    if origin is not None and not _is_of(origin, request.headers.get("host", "")):
        raise Refused(403, "forgery", "cross-origin request refused")


def _is_of(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower() != ""
    except ValueError:  # not an IP address
        return False


def known_by(door: Credentials, client: str, name: str | None, secret: str, how: How) -> Caller | None:
    """The caller with these credentials; wrong ones are rate-limited."""
    refuse_haste(door.tries.late(client, name, secret))
    caller = door.by_secret(name, secret, how)
    if caller is None:
        door.tries.wrong(client, name)
    else:
        door.tries.right(client, name, secret)
    return caller


def refuse_haste(seconds: float) -> None:
    if seconds > 0:
        after = {"retry-after": str(max(round(seconds + 0.5), 1))}
        raise Refused(429, "too-many-requests", f"too many requests; try again in {seconds:.1f} s", after)


def _challenge(request: HTTPConnection) -> dict[str, str]:
    # A script's request must not open the browser's password dialog.
    is_script = request.headers.get("sec-fetch-mode") not in (None, "navigate")
    return {"www-authenticate": "Bearer" if is_script else 'Basic realm="headrace", charset="UTF-8", Bearer'}


def _path(scope: Scope) -> str:
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _limited(scope: Scope, receive: Receive, most: int) -> Receive:
    """Wrap `receive` to refuse a body as soon as it exceeds the limit."""
    told = Headers(scope=scope).get("content-length", "0")
    too_large = Refused(413, "body-too-large", f"the body exceeds {most:,} bytes (web_max_body)")
    if not told.isdecimal() or int(told) > most:
        raise too_large
    seen = 0

    async def limited() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise too_large
        return message

    return limited


def _harden(scope: Scope, headers: MutableHeaders) -> None:
    for name, value in _HEADERS.items():
        headers.setdefault(name, value)
    if scope.get("scheme") == "https":
        headers.setdefault("strict-transport-security", "max-age=31536000")
    if not _path(scope).startswith("/static/"):
        headers.setdefault("cache-control", "no-store")
