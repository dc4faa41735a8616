"""Login and logout of browsers. The login page is the dashboard's."""

from __future__ import annotations

import time

from starlette.requests import HTTPConnection
from starlette.responses import Response

from headrace.web.problems import Refused
from headrace.web.security.credentials import SESSION_SECONDS, Caller
from headrace.web.security.middleware import COOKIE, authenticate, context_of


def sign_in(request: HTTPConnection, name: str, password: str) -> Caller:
    """The caller with this name and password, or Refused; wrong ones are rate-limited."""
    credentials, client = context_of(request.scope).credentials, request.client.host if request.client else ""
    caller = authenticate(credentials, client, name, password, "session")
    if caller is None:
        raise Refused(401, "unauthorized", "wrong name or password")
    return caller


def set_cookie(response: Response, request: HTTPConnection, caller: Caller) -> None:
    """Set the session cookie after a login."""
    response.set_cookie(
        COOKIE,
        context_of(request.scope).credentials.session(caller, time.time()),
        max_age=SESSION_SECONDS,
        path=request.scope.get("root_path") or "/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="lax",
    )


def delete_cookie(response: Response, request: HTTPConnection) -> None:
    """Delete the session cookie."""
    response.delete_cookie(COOKIE, path=request.scope.get("root_path") or "/")
