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
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.app.app import Headrace
from headrace.core.access import Role, grants
from headrace.web.problems import Refused, problem_response
from headrace.web.remote_workers import RemoteWorkers, never_disconnected
from headrace.web.security.credentials import LOCAL, AuthMethod, Caller, Credentials, credentials_in
from headrace.web.security.rate_limit import RateLimiter
from headrace.web.security.site_auth import SiteAuth
from headrace.web.sse import LiveFeeds

COOKIE = "headrace_session"
FORM_FIELD = "form_token"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_HEALTH_PATHS = frozenset({"/healthz", "/readyz"})
_PUBLIC_PATHS = _HEALTH_PATHS | {"/login"}
_PUBLIC_PREFIX = "/static/"
_PROXY_HEADERS = frozenset(
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

    `is_disconnected` returns whether the client has disconnected; only endpoints that wait set it.
    """

    app: Headrace
    caller: Caller
    credentials: Credentials
    read_only: bool
    live_feeds: LiveFeeds
    remote_workers: RemoteWorkers
    is_disconnected: Callable[[], bool] = never_disconnected

    def is_allowed(self, role: Role) -> bool:
        return grants(self.caller.role, role) and not (self.read_only and role != "viewer")

    def require(self, role: Role) -> None:
        if self.read_only and role != "viewer":
            raise Refused(403, "read-only", "this server is read-only (web_read_only)")
        if not self.is_allowed(role):
            raise Refused(403, "forbidden", f"this needs the role {role}; {self.caller.name} is a {self.caller.role}")

    @property
    def form_token(self) -> str:
        """The required value of the form field `form_token`."""
        return self.credentials.form_token(self.caller)


def context_of(scope: Scope) -> RequestContext:
    context: RequestContext = scope["headrace.context"]
    return context


def refuse_forgery(scope: Scope, form_token: str | None = None) -> None:
    """Refuse a write that a page of another site may have sent through the caller's browser.

    Browsers do not send bearer tokens by themselves. Other credentials also need the form token, or a header that a
    cross-site page can only send after a CORS preflight, which this server never allows.
    """
    context, headers = context_of(scope), Headers(scope=scope)
    if context.caller.method == "bearer" or headers.get("sec-fetch-site") == "same-origin":
        return
    if form_token is not None and context.credentials.is_form_token(context.caller, form_token):
        return
    if scope["method"] in _PREFLIGHTED or headers.get("x-requested-with"):
        return
    # Form tokens differ between the processes of a site without credentials. The origin was compared before.
    if context.caller.method == "site" and headers.get("origin") is not None:
        return
    if headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json":
        return
    raise Refused(403, "forgery", "add the header `X-Requested-With: headrace`, or send JSON as application/json")


class SecurityMiddleware:
    """The middleware around `inner`."""

    def __init__(
        self,
        inner: ASGIApp,
        app: Headrace,
        credentials: Credentials,
        settings: Any,
        *,
        refusal_page: Callable[[Request, Refused], Response],
        site_auth: SiteAuth | None = None,
    ) -> None:
        self._inner = inner
        self._app = app
        self._credentials = credentials
        self._read_only: bool = settings.web_read_only
        self._max_body: int = settings.web_max_body
        rate: float | None = settings.web_rate
        self._rate_limiter = None if rate is None else RateLimiter(rate, 2 * rate)
        self._refusal_page = refusal_page
        self._site_auth = site_auth
        self._live_feeds = LiveFeeds(app)
        self._remote_workers = RemoteWorkers(app)

    def end(self) -> None:
        """End event streams and waiting claims."""
        self._live_feeds.close()
        self._remote_workers.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"headrace only serves HTTP, not {scope['type']}")
        started = False

        async def reply(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                _harden(scope, MutableHeaders(scope=message))
            await send(message)

        try:
            await self._authorize(scope)
            await self._inner(scope, _limited(scope, receive, self._max_body), reply)
        except Refused as refused:
            if started:
                raise
            response = await self._response_to(scope, refused)
            await response(scope, receive, reply)

    # -- authentication

    async def _authorize(self, scope: Scope) -> None:
        request = Request(scope)
        client = request.client.host if request.client else ""
        _refuse_other_sites(scope, request)
        caller = await self._caller(request, client)
        if caller is None:
            if not is_public(scope):
                raise self._unauthenticated(request)
            caller = Caller("anonymous", "viewer", "session")
        if self._rate_limiter is not None and caller.role != "worker" and _path(scope) not in _HEALTH_PATHS:
            refuse_if_limited(
                self._rate_limiter.take(client if caller.name == "anonymous" else f"{caller.name}@{client}")
            )
        scope["headrace.context"] = RequestContext(
            self._app, caller, self._credentials, self._read_only, self._live_feeds, self._remote_workers
        )

    async def _caller(self, request: Request, client: str) -> Caller | None:
        if self._site_auth is None:
            return self._own_caller(request, client)
        return None if is_public(request.scope) else await self._site_caller(self._site_auth, request, client)

    async def _site_caller(self, site_auth: SiteAuth, request: Request, client: str) -> Caller | None:
        """The bearer of a token of ours, or whom the site knows; the site may have tokens of its own."""
        name, secret, method = credentials_in(request.headers.get("authorization", ""))
        attempts, is_token = self._credentials.login_attempts, method == "bearer" and self._credentials.has_credentials
        if is_token:
            refuse_if_limited(attempts.wait_time(client, name, secret))
            if (caller := self._credentials.by_secret(None, secret, method)) is not None:
                attempts.record_success(client, name, secret)
                return caller
        if (caller := await site_auth.caller(request)) is None and is_token:
            attempts.record_failure(client, name)
        return caller

    def _own_caller(self, request: HTTPConnection, client: str) -> Caller | None:
        if not self._credentials.has_credentials:
            return LOCAL if _is_local(request, client) else None
        if (header := request.headers.get("authorization")) is not None:
            if (caller := authenticate(self._credentials, client, *credentials_in(header))) is None:
                raise Refused(401, "unauthorized", "wrong credentials", _challenge(request))
            return caller
        cookie = request.cookies.get(COOKIE)
        return None if cookie is None else self._credentials.by_session(cookie, time.time())

    def _unauthenticated(self, request: HTTPConnection) -> Refused:
        if self._site_auth is not None:
            return Refused(401, "unauthorized", "log in to this site first", {"www-authenticate": "Bearer"})
        if self._credentials.has_credentials:
            detail = "credentials are required: basic authentication or a bearer token"
            return Refused(401, "unauthorized", detail, _challenge(request))
        return Refused(
            403,
            "closed",
            "no credentials are set, so only clients on the same machine are allowed, at localhost and not through a "
            "proxy; set web_auth or web_tokens",
        )

    # -- refusals

    async def _response_to(self, scope: Scope, refused: Refused) -> Response:
        """A login or a page for a browser, a problem document for everything else."""
        accepts = Headers(scope=scope).get("accept", "")
        if scope["method"] != "GET" or "text/html" not in accepts or _path(scope).startswith("/api/"):
            return problem_response(refused)
        if refused.status == 401 and (login := self._login_page(scope)) is not None:
            return RedirectResponse(login, 303)
        return await run_in_threadpool(self._refusal_page, Request(scope), refused)

    def _login_page(self, scope: Scope) -> str | None:
        if self._site_auth is not None:
            return self._site_auth.login_page(scope)
        requested = scope["path"] + (f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else "")
        return f"{scope.get('root_path', '')}/login?next={quote(requested, safe='/')}"


def is_public(scope: Scope) -> bool:
    """Whether everybody may request this path."""
    path = _path(scope)
    return path in _PUBLIC_PATHS or path.startswith(_PUBLIC_PREFIX)


def _is_local(request: HTTPConnection, client: str) -> bool:
    """Whether the client is on this machine and was not redirected by a foreign page or proxy.

    DNS rebinding: a page may resolve its host name to 127.0.0.1, but the Host header then shows that name. A client
    behind a proxy on this machine is not local.
    """
    if any(name in _PROXY_HEADERS or name.startswith("x-forwarded-") for name in request.headers):
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
    if origin is not None and not _same_host(origin, request.headers.get("host", "")):
        raise Refused(403, "forgery", "cross-origin request refused")


def _same_host(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower() != ""
    except ValueError:  # not an IP address
        return False


def authenticate(
    credentials: Credentials, client: str, name: str | None, secret: str, method: AuthMethod
) -> Caller | None:
    """The caller with these credentials; wrong ones are rate-limited."""
    refuse_if_limited(credentials.login_attempts.wait_time(client, name, secret))
    caller = credentials.by_secret(name, secret, method)
    if caller is None:
        credentials.login_attempts.record_failure(client, name)
    else:
        credentials.login_attempts.record_success(client, name, secret)
    return caller


def refuse_if_limited(seconds: float) -> None:
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


def _limited(scope: Scope, receive: Receive, limit: int) -> Receive:
    """Wrap `receive` to refuse a body as soon as it exceeds the limit."""
    length = Headers(scope=scope).get("content-length", "0")
    too_large = Refused(413, "body-too-large", f"the body exceeds {limit:,} bytes (web_max_body)")
    if not length.isdecimal() or int(length) > limit:
        raise too_large
    received = 0

    async def limited() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > limit:
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
