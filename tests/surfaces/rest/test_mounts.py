"""The web app mounted in other apps: below a prefix, with the right links."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace import Headrace
from tests.surfaces.web.client import Client

pytestmark = pytest.mark.engines("sqlite")


@pytest.fixture(autouse=True)
def site() -> Iterator[None]:
    """Django has one configuration per process: other tests may have set it."""
    from django.conf import settings
    from django.test import override_settings

    if not settings.configured:
        settings.configure(DATABASES={}, LOGGING_CONFIG=None, SECRET_KEY="x")
    with override_settings(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"]):
        yield


def in_starlette(app: Headrace) -> Any:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    return Starlette(routes=[Mount("/jobs", app.asgi())])


def in_fastapi(app: Headrace) -> Any:
    from fastapi import FastAPI

    api = FastAPI()
    api.mount("/jobs", app.asgi())
    return api


def in_litestar(app: Headrace) -> Any:
    from litestar import Litestar, asgi

    mounted = asgi("/jobs", is_mount=True, copy_scope=True)(app.asgi(prefix="/jobs"))
    return Litestar(route_handlers=[mounted], openapi_config=None)


def in_django(app: Headrace) -> Any:
    """Django can't mount: paths with the prefix go to headrace, all others to Django."""
    from django.core.asgi import get_asgi_application

    site, jobs = get_asgi_application(), app.asgi(prefix="/jobs")

    async def application(scope: Any, receive: Any, send: Any) -> None:
        is_ours = scope["type"] == "http" and scope["path"].startswith("/jobs/")
        await (jobs if is_ours else site)(scope, receive, send)

    return application


urlpatterns: list[Any] = []


def bare(app: Headrace) -> Any:
    return app.asgi()


@pytest.mark.parametrize(
    ("house", "prefix"),
    [(bare, ""), (in_starlette, "/jobs"), (in_fastapi, "/jobs"), (in_litestar, "/jobs"), (in_django, "/jobs")],
)
def test_it_serves_below_a_prefix_and_its_links_have_the_prefix(app: Headrace, house: Any, prefix: str) -> None:
    there = Client(house(app))
    assert there.get(f"{prefix}/healthz").json() == {"status": "ok"}
    assert there.get(f"{prefix}/api/v1/queues").json() == []
    answer = there.get(f"{prefix}/api/v1/openapi.json").json()
    assert answer["servers"] == [{"url": f"{prefix}/api/v1"}]
    made = there.post(f"{prefix}/api/v1/jobs", json={"task": "add", "args": [1, 2]})
    assert made.status_code == 201
    assert made.headers["location"] == f"{prefix}/api/v1/jobs/{made.json()['id']}"
    assert there.get(made.headers["location"]).json()["args"] == [1, 2]
    assert there.get(f"{prefix}/api/v1/nowhere").json()["type"] == "urn:headrace:not-found"


def test_paths_outside_the_prefix_are_left_to_the_host_app(app: Headrace) -> None:
    assert Client(in_django(app)).get("/else").status_code == 404
    assert Client(in_starlette(app)).get("/api/v1/queues").status_code == 404


def test_the_error_for_a_missing_package_names_its_extra(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    import headrace.web
    from headrace import ConfigError

    monkeypatch.setattr(headrace, "web", headrace.web)  # a new import replaces it
    for name in [name for name in sys.modules if name.startswith(("headrace.web", "starlette"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    with pytest.raises(ConfigError, match=r"pip install 'headrace\[web\]'"):
        app.asgi()
