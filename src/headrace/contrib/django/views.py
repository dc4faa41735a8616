"""The dashboard and the REST API as a view, behind Django's login and permissions, under WSGI and ASGI.

A user with `headrace.view_job` may look, one with `headrace.change_job` may do everything.
"""

from __future__ import annotations

import functools
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, Resolver404, resolve, reverse
from django.views.decorators.csrf import csrf_exempt

from headrace.app.app import Headrace
from headrace.contrib.django.backend import get_app
from headrace.contrib.django.task_api import DEFAULT_ALIAS

try:
    from starlette.exceptions import HTTPException

    from headrace.web.asgi import make
    from headrace.web.wsgi import WebWSGI, scope_of
except ImportError as error:
    raise ImproperlyConfigured(
        f"the dashboard needs a package ({error}); install it: pip install 'headrace[web]'"
    ) from error

VIEW, CHANGE = "headrace.view_job", "headrace.change_job"
_REQUEST = "django.request"


@csrf_exempt  # the dashboard has a check of its own
def dashboard(request: HttpRequest, path: str = "", alias: str = DEFAULT_ALIAS) -> HttpResponse:
    """Serve a page or the REST API; `path` is the part of the URL below the dashboard."""
    if not hasattr(request, "user"):
        raise ImproperlyConfigured(
            "the dashboard asks who is logged in: add django.contrib.auth.middleware.AuthenticationMiddleware to "
            "MIDDLEWARE"
        )
    answer = _web_of(get_app(alias)).answer(_scope_of(request, path), request.body)
    response = HttpResponse(answer.body, status=answer.status)
    del response["content-type"]
    for name, value in answer.headers:
        if name.lower() == "set-cookie":
            response.cookies.load(value)
        else:
            response[name] = value
    return response


def dashboard_url(path: str = "") -> str | None:
    """The URL of a page; None if urls.py does not include `headrace.contrib.django.urls`."""
    try:
        url: str = reverse("headrace:dashboard", kwargs={"path": path})
    except NoReverseMatch:
        return None
    return url


@functools.cache
def _web_of(app: Headrace) -> WebWSGI:
    return WebWSGI(make(app, auth=_caller, login_url=_login_url()))


def _caller(request: Any) -> tuple[str, str] | None:
    """Called in the thread of the request, outside of an event loop, where Django's models may be used."""
    user = request.scope[_REQUEST].user
    if not user.is_authenticated:
        return None
    if not user.is_active or not (user.has_perm(VIEW) or user.has_perm(CHANGE)):
        raise HTTPException(403, f"{user.get_username()} needs the permission {VIEW} or {CHANGE}")
    return user.get_username(), "admin" if user.has_perm(CHANGE) else "viewer"


def _login_url() -> str:
    """The login page of the project; the admin's if LOGIN_URL leads nowhere."""
    url: str = resolve_url(settings.LOGIN_URL)
    try:
        resolve(url)
    except Resolver404:
        try:
            return str(reverse("admin:login"))
        except NoReverseMatch:
            pass
    return url


def _scope_of(request: HttpRequest, path: str) -> Any:
    root = request.path.removesuffix(path).rstrip("/")
    environ = {
        **request.META,
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": _wsgi_text(root),
        "PATH_INFO": _wsgi_text(request.path.removeprefix(root)),
        "wsgi.url_scheme": request.scheme,
    }
    if (raw_path := getattr(request, "scope", {}).get("raw_path")) is not None:  # under ASGI
        environ["RAW_URI"] = raw_path.decode("latin-1")
    return {**scope_of(environ), _REQUEST: request}


def _wsgi_text(text: str) -> str:
    return text.encode().decode("latin-1")
