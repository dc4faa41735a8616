"""The guard at the door: every request passes here before anything else sees it.

It says who the caller is or refuses, refuses what another site's page has sent, keeps each client to its pace and its
bodies to their size, and puts the headers on every answer that keep a browser from being used against its user. What
a caller may do is asked later, by role (`RequestContext.require`).
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
_PREFLIGHTED = frozenset({"PUT", "PATCH", "DELETE"})  # no page sends these to another site without asking it first
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
    """One request as the guard has seen it: by whom, and at which app.

    `has_left` tells whether nobody waits for the answer any more; it is known only where an answer may take its time.
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
            raise Refused(403, "read-only", "this server only shows; it was started with web_read_only")
        if not self.may(role):
            raise Refused(403, "forbidden", f"this needs the role {role}; {self.caller.name} is a {self.caller.role}")

    @property
    def form_token(self) -> str:
        """What a form has to carry in a field `form_token`."""
        return self.door.form_token(self.caller)


def visit_of(scope: Scope) -> RequestContext:
    visit: RequestContext = scope["headrace.visit"]
    return visit


def refuse_forgery(scope: Scope, form_token: str | None = None) -> None:
    """Refuse a write that a page of somebody else may have had the caller's browser send.

    A token can't be sent by accident. Whatever a browser adds by itself needs a proof besides: the form token, or
    something that no page can add to a request to another site without being allowed to by that site, which this one
    never does.
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
    """Lets requests in to `inner`."""

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
        """Let go of those who listen, or wait for jobs."""
        self._lives.close()
        self._remote.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"headrace answers HTTP alone, not {scope['type']}")
        begun = False

        async def reply(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                _harden(scope, MutableHeaders(scope=message))
            await send(message)

        try:
            self._insert_unique(scope)
            await self._inner(scope, _limited(scope, receive, self._max_body), reply)
        except Refused as refused:
            if begun:
                raise
            response = self._to_login(scope) if self._is_page_without_login(scope, refused) else answer(refused)
            await response(scope, receive, reply)

    # -- who

    def _insert_unique(self, scope: Scope) -> None:
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
                raise Refused(401, "unauthorized", "the credentials are not known here", _challenge(request))
            return caller
        cookie = request.cookies.get(COOKIE)
        return None if cookie is None else self._door.by_session(cookie, time.time())

    def _nobody(self, request: HTTPConnection) -> Refused:
        if self._door.has_credentials:
            detail = "say who you are: basic authentication, or a bearer token"
            return Refused(401, "unauthorized", detail, _challenge(request))
        return Refused(
            403,
            "closed",
            "no credentials are set, so only clients on the same machine are answered, at localhost and not through a "
            "proxy; set web_auth or web_tokens",
        )

    # -- people without a session

    def _is_page_without_login(self, scope: Scope, refused: Refused) -> bool:
        accepts = Headers(scope=scope).get("accept", "")
        is_page = scope["method"] == "GET" and "text/html" in accepts and not _path(scope).startswith("/api/")
        return self._login and refused.status == 401 and is_page

    def _to_login(self, scope: Scope) -> RedirectResponse:
        asked = scope["path"] + (f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else "")
        return RedirectResponse(f"{scope.get('root_path', '')}/login?next={quote(asked, safe='/')}", 303)


def _is_local(request: HTTPConnection, client: str) -> bool:
    """Whether the client is on this machine, and has not been led here.

    A page may give its own host name the address 127.0.0.1; it is then the Host that betrays it. And whoever comes
    through a proxy on this machine is not on this machine.
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
    """A browser tells, and no page can keep it from telling, where a write comes from."""
    if scope["method"] in SAFE:
        return
    if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        raise Refused(403, "forgery", "another site's page has sent this; nothing was done")
    origin = request.headers.get("origin")
    if origin is not None and not _is_of(origin, request.headers.get("host", "")):
        raise Refused(403, "forgery", "the page that has sent this is of another origin; nothing was done")


def _is_of(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower() != ""
    except ValueError:  # it is no address at all
        return False


def known_by(door: Credentials, client: str, name: str | None, secret: str, how: How) -> Caller | None:
    """Who has these credentials; wrong ones are slowed down."""
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
    # A script's request must not make the browser ask for a password.
    is_script = request.headers.get("sec-fetch-mode") not in (None, "navigate")
    return {"www-authenticate": "Bearer" if is_script else 'Basic realm="headrace", charset="UTF-8", Bearer'}


def _path(scope: Scope) -> str:
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _limited(scope: Scope, receive: Receive, most: int) -> Receive:
    """`receive`, which refuses a body that is too large as soon as that shows."""
    told = Headers(scope=scope).get("content-length", "0")
    too_large = Refused(413, "body-too-large", f"a body may have {most:,} bytes at most (web_max_body)")
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
