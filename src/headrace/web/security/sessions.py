"""Login and logout of browsers. The login page is the dashboard's."""

from __future__ import annotations

import time

from starlette.requests import HTTPConnection
from starlette.responses import Response

from headrace.web.problems import Refused
from headrace.web.security.credentials import SESSION_SECONDS, Caller
from headrace.web.security.middleware import COOKIE, known_by, visit_of


def sign_in(request: HTTPConnection, name: str, password: str) -> Caller:
    """The caller with this name and password, or Refused; wrong ones are rate-limited."""
    door, client = visit_of(request.scope).door, request.client.host if request.client else ""
    caller = known_by(door, client, name, password, "session")
    if caller is None:
        raise Refused(401, "unauthorized", "wrong name or password")
    return caller


def begin(response: Response, request: HTTPConnection, caller: Caller) -> None:
    """Set the session cookie after a login."""
    response.set_cookie(
        COOKIE,
        visit_of(request.scope).door.session(caller, time.time()),
        max_age=SESSION_SECONDS,
        path=request.scope.get("root_path") or "/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="lax",
    )


def end(response: Response, request: HTTPConnection) -> None:
    """Delete the session cookie."""
    response.delete_cookie(COOKIE, path=request.scope.get("root_path") or "/")
