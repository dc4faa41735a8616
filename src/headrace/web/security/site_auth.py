"""Authentication by the site that the dashboard is mounted in: `app.asgi(auth=function)`.

The function gets the request and returns None, a name, or a name and a role. It decides about people; tokens of the
setting `web_tokens` go on working beside it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Scope

from headrace.core.access import ROLES
from headrace.errors import ConfigError
from headrace.web.problems import Refused, refusal_of
from headrace.web.security.credentials import Caller

SiteFunction = Callable[[Request], Any]
ANSWER = "headrace.site_answer"  # in a scope: what the function said, if it was called before the event loop


class SiteAuth:
    """Asks the function of the site. `login_url` is where a browser without a login is sent."""

    def __init__(self, ask: SiteFunction, login_url: str | None = None) -> None:
        self._ask = ask
        self._login_url = login_url
        self.is_async = inspect.iscoroutinefunction(ask) or inspect.iscoroutinefunction(getattr(ask, "__call__", ask))  # noqa: B004

    async def caller(self, request: Request) -> Caller | None:
        """The caller; None if the site knows none. A function that fails lets nobody in."""
        try:
            return caller_of(await self._answer(request))
        except Exception as error:
            raise _refusal(error) from error

    async def _answer(self, request: Request) -> Any:
        if ANSWER in request.scope:
            answer, error = request.scope[ANSWER]
            if error is not None:
                raise error
            return answer
        answer = self._ask(request) if self.is_async else await run_in_threadpool(self._ask, request)
        return await answer if inspect.isawaitable(answer) else answer

    def ask_before(self, scope: Scope) -> None:
        """Ask in this thread, before the event loop: a function may use what belongs to the thread of a request."""
        if self.is_async:
            return
        try:
            scope[ANSWER] = (self._ask(Request(scope)), None)
        except Exception as error:
            scope[ANSWER] = (None, error)

    def login_page(self, scope: Scope) -> str | None:
        """The URL of the site's login, which leads back here."""
        if self._login_url is None:
            return None
        query = scope["query_string"].decode("latin-1")
        requested = quote(scope["path"], safe="/") + (f"?{query}" if query else "")
        return f"{self._login_url}{'&' if '?' in self._login_url else '?'}next={quote(requested, safe='/')}"


def site_auth_of(options: dict[str, Any]) -> SiteAuth | None:
    """Take `auth`, if it is a function, and `login_url` out of the options."""
    if not callable(options.get("auth")):
        if "login_url" in options:
            raise ConfigError("login_url: it needs auth=function, which says who is logged in")
        return None
    login_url = options.pop("login_url", None)
    if login_url is not None and not (isinstance(login_url, str) and login_url):
        raise ConfigError(f"login_url: {login_url!r} should be the URL of your login page, such as '/login'")
    return SiteAuth(options.pop("auth"), login_url)


def caller_of(answer: Any) -> Caller | None:
    """The caller in what the function returned."""
    if answer is None or answer is False:
        return None
    name, role = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, "admin")
    if not isinstance(name, str) or not name:
        raise TypeError(f"auth= returned {answer!r}; it should return None, a name, or a tuple of a name and a role")
    if role not in ROLES:
        raise ValueError(f"auth= returned the role {role!r}; it should be one of {', '.join(ROLES)}")
    return Caller(name, role, "site")


def _refusal(error: Exception) -> Refused:
    if isinstance(error, HTTPException):
        return Refused(error.status_code, "refused", str(error.detail), dict(error.headers or {}))
    return refusal_of(error)
