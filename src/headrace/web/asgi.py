"""The app of `app.asgi()`: the security middleware around the REST API, the health checks and the dashboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from msgspec import structs
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.app.app import Headrace
from headrace.app.config import find_settings
from headrace.core.settings.settings import NAMES, Settings
from headrace.core.text import nearest
from headrace.errors import ConfigError
from headrace.web import monitoring
from headrace.web.api import router
from headrace.web.pages import login
from headrace.web.problems import Refused, problem_response, refusal_of
from headrace.web.security.credentials import Credentials
from headrace.web.security.middleware import SecurityMiddleware, context_of
from headrace.web.security.site_auth import SiteAuth, site_auth_of
from headrace.web.sse import BOUNDED, ChangedTopics, Stream

_PREFIX = "web_"


def make(app: Headrace, *, prefix: str = "", **options: Any) -> Web:
    """Build the ASGI app. `prefix` is its mount path, for frameworks that do not set root_path.

    `auth` may be a function of the site, which says who is logged in; `login_url` is then the login page of the site.
    """
    site_auth = site_auth_of(options)
    settings = settings_with(app, options)
    users = settings.credentials("web_auth") if site_auth is None else ()
    credentials = Credentials(users, settings.credentials("web_tokens"))
    dashboard = login.dashboard(app, settings.web_label)
    # The dashboard's routes come last: its last route matches every path.
    routes: list[BaseRoute] = [
        *monitoring.ROUTES,
        Route("/live", _live_changes),
        Mount(router.PREFIX, router.router()),
        *login.routes(dashboard, has_login=site_auth is None),
    ]
    routed = Starlette(
        routes=routes, exception_handlers={HTTPException: _http_error, Refused: _refusal, ClientDisconnect: _refusal}
    )
    refusal_page = login.LoginPages(dashboard).refusal
    middleware = SecurityMiddleware(routed, app, credentials, settings, refusal_page=refusal_page, site_auth=site_auth)
    mounted: ASGIApp = middleware if not prefix else _with_prefix(prefix.rstrip("/"), middleware)
    web = Web(mounted, dashboard.warm_up, middleware.end, site_auth, settings.web_max_body)
    app.web_apps.add(web)
    return web


class Web:
    """The ASGI app of a Headrace app."""

    def __init__(
        self,
        inner: ASGIApp,
        warm_up: Callable[[], None],
        end: Callable[[], None],
        site_auth: SiteAuth | None,
        max_body: int,
    ) -> None:
        self._inner = inner
        self.site_auth = site_auth
        self.max_body = max_body
        self._warm_up = warm_up
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._inner(scope, receive, send)

    def warm_up(self) -> None:
        """Warm up, so that the first request does not wait. Only for servers, because it reads the store."""
        self._warm_up()

    def end(self) -> None:
        """End event streams and waiting claims, so that a server can stop. Thread-safe."""
        self._end()


async def _live_changes(request: Request) -> ASGIApp:
    """The event stream of dashboard pages; where a request must end, pages poll instead."""
    context = context_of(request.scope)
    context.require("viewer")
    if BOUNDED in request.scope:
        return Response(status_code=204)
    return Stream(context.live_feeds, ChangedTopics(), None)


def settings_with(app: Headrace, options: dict[str, Any]) -> Settings:
    """The app's settings, overridden by web options: auth, tokens, read_only, …"""
    names = [name.removeprefix(_PREFIX) for name in NAMES if name.startswith(_PREFIX)]
    for name in options:
        if name not in names:
            suggestion = nearest(name, names)
            hint = (
                f"did you mean {suggestion!r}?" if suggestion else f"options are prefix, login_url, {', '.join(names)}"
            )
            raise ConfigError(f"asgi: there is no option {name!r}; {hint}")
    given = {f"{_PREFIX}{name}": value for name, value in options.items()}
    return find_settings({**structs.asdict(app.settings), **given}).settings if given else app.settings


async def _http_error(request: Request, error: Exception) -> Response:
    """Errors of Starlette: unknown paths and methods."""
    assert isinstance(error, HTTPException)
    kind = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "refused")
    detail = f"{request.method} {request.url.path}: {error.detail.lower()}"
    return problem_response(Refused(error.status_code, kind, detail, dict(error.headers or {})), request.url.path)


async def _refusal(request: Request, error: Exception) -> Response:
    """Errors of the middleware, or while reading a body."""
    return problem_response(refusal_of(error), request.url.path)


def _with_prefix(prefix: str, inner: ASGIApp) -> ASGIApp:
    """For hosts that do not set root_path or rewrite the path: derive both from the raw path."""

    async def mounted(scope: Scope, receive: Receive, send: Send) -> None:
        if "path" in scope and not scope.get("root_path", "").endswith(prefix):
            raw = scope.get("raw_path") or b""
            path = unquote(raw.decode("latin-1").partition("?")[0]) or scope["path"]
            path = path if path.startswith(prefix) else prefix + path
            scope = {**scope, "root_path": prefix, "path": path}
        await inner(scope, receive, send)

    return mounted
