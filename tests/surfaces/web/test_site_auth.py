"""The site's own login decides who sees the dashboard: `app.asgi(auth=function)`."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from headrace import ConfigError, Headrace
from tests.surfaces.web.client import BEYOND, Client, bearer

QUEUES = "/api/v1/queues"
PAUSE = "/api/v1/queues/mail/pause"
HOST = "shop.example.com"
BROWSER = {"accept": "text/html,*/*"}


@pytest.fixture
def app() -> Iterator[Headrace]:
    with Headrace("memory://") as app:
        yield app


def site(app: Headrace, auth: Any, **options: Any) -> Client:
    return Client(app.asgi(auth=auth, **options), host=HOST, at=BEYOND)


def by_cookie(request: Request) -> Any:
    return {"ann": "ann", "bob": ("bob", "viewer")}.get(request.cookies.get("user", ""))


async def by_cookie_async(request: Request) -> Any:
    await asyncio.sleep(0)
    return by_cookie(request)


class ByCookie:
    async def __call__(self, request: Request) -> Any:
        return by_cookie(request)


def as_user(name: str) -> dict[str, str]:
    return {"cookie": f"user={name}"}


@pytest.mark.parametrize("auth", [by_cookie, by_cookie_async, ByCookie(), functools.partial(by_cookie_async)])
def test_the_function_says_who_it_is_and_what_they_may_do(app: Headrace, auth: Any) -> None:
    there = site(app, auth)
    assert there.get(QUEUES).status_code == 401
    assert there.get(QUEUES, headers=as_user("ann")).json() == []
    assert there.post(PAUSE, json={}, headers=as_user("ann")).status_code == 200
    assert there.get("/queues", headers=as_user("bob") | BROWSER).status_code == 200
    assert there.post(PAUSE, json={}, headers=as_user("bob")).status_code == 403
    assert [entry.who for entry in app.audit.list()] == ["ann"]


def test_a_blocking_function_does_not_block_the_event_loop(app: Headrace) -> None:
    threads: list[threading.Thread] = []

    def auth(request: Request) -> str:
        threads.append(threading.current_thread())
        return "ann"

    assert site(app, auth).get(QUEUES).status_code == 200
    assert threads != [threading.current_thread()]


def test_a_browser_is_sent_to_the_login_of_the_site_and_scripts_are_told(app: Headrace) -> None:
    there = site(app, by_cookie, login_url="/accounts/login?from=jobs")
    response = there.get("/queues?sort=name", headers=BROWSER)
    assert response.status_code == 303
    assert response.headers["location"] == "/accounts/login?from=jobs&next=/queues%3Fsort%3Dname"
    assert there.get("/queues").json()["detail"] == "log in to this site first"
    assert there.get(QUEUES, headers=BROWSER).status_code == 401


def test_without_a_login_page_a_browser_gets_a_page(app: Headrace) -> None:
    response = site(app, by_cookie).get("/queues", headers=BROWSER)
    assert response.status_code == 401
    assert response.headers["content-type"].startswith("text/html")
    assert "Basic" not in response.headers["www-authenticate"], "no password dialog"
    assert "Log in to this site first" in response.text


def test_there_is_no_login_of_our_own_and_no_password_works(app: Headrace) -> None:
    there = site(app, by_cookie)
    assert there.get("/login", headers=BROWSER).headers["location"] == "/"
    assert there.post("/login", data={"name": "ann", "password": "s3cret"}).status_code == 405
    with Headrace("memory://", web_auth=["ann:s3cret"]) as other:
        headers = {"authorization": "Basic YW5uOnMzY3JldA=="}
        assert site(other, by_cookie).get(QUEUES, headers=headers).status_code == 401


def test_health_and_static_files_are_served_without_asking(app: Headrace) -> None:
    def never(request: Request) -> None:
        raise AssertionError("asked")

    there = site(app, never)
    assert there.get("/healthz").status_code == 200
    assert there.get("/static/x/none.css").status_code == 404


def test_tokens_go_on_working_and_the_site_may_have_its_own(app: Headrace) -> None:
    def auth(request: Request) -> str | None:
        return "robot" if request.headers.get("authorization") == "Bearer of-the-site" else None

    there = site(app, auth, tokens=["worker=node:81d0e4b2", "viewer=grafana:5f2a91c7"])
    assert there.get(QUEUES, headers=bearer("5f2a91c7")).status_code == 200
    assert there.post(PAUSE, json={}, headers=bearer("5f2a91c7")).status_code == 403
    assert there.get(QUEUES, headers=bearer("of-the-site")).status_code == 200
    assert there.get(QUEUES, headers=bearer("wrong")).status_code == 401
    guesses = [there.get(QUEUES, headers=bearer(f"guess {n}")).status_code for n in range(60)]
    assert guesses[-1] == 429, "guessing is slowed down"


def test_a_form_is_accepted_from_a_page_of_the_site_and_from_no_other(app: Headrace) -> None:
    """In another process of the site, too, whose form token differs."""
    there = site(app, by_cookie)
    form = {"queue": "mail"}

    def post(**headers: str) -> int:
        given = as_user("ann") | {name.replace("_", "-"): value for name, value in headers.items()}
        return there.post("/queues/mail/pause", data=form, headers=given).status_code

    assert post(origin=f"https://{HOST}") == 303
    assert post() == 403
    assert post(origin="https://evil.example.com") == 403
    assert post(origin="null") == 403
    assert post(origin=f"https://{HOST}", sec_fetch_site="cross-site") == 403


@pytest.mark.parametrize("answer", [42, "", ("ann", "owner"), ("ann", "admin", "more"), (None, "admin"), True])
def test_an_answer_that_makes_no_sense_lets_nobody_in(app: Headrace, answer: Any, caplog: Any) -> None:
    response = site(app, lambda request: answer).get(QUEUES)
    assert response.status_code == 500
    assert "auth= returned" in caplog.text


def test_a_function_may_refuse_with_an_error_of_its_framework(app: Headrace) -> None:
    def auth(request: Request) -> None:
        raise HTTPException(403, "staff only", {"x-reason": "not staff"})

    response = site(app, auth).get("/", headers=BROWSER)
    assert (response.status_code, response.headers["x-reason"]) == (403, "not staff")
    assert "Staff only." in response.text

    def broken(request: Request) -> None:
        raise KeyError("user")

    assert site(app, broken).get(QUEUES).status_code == 500


def test_options_that_do_not_fit_are_refused(app: Headrace) -> None:
    with pytest.raises(ConfigError, match="auth=function"):
        app.asgi(login_url="/login")
    with pytest.raises(ConfigError, match="login_url: 3"):
        app.asgi(auth=by_cookie, login_url=3)  # type: ignore[arg-type]


def test_a_closed_dashboard_tells_a_browser_what_to_do(app: Headrace) -> None:
    response = Client(app.asgi(), host=HOST, at=BEYOND).get("/", headers=BROWSER)
    assert response.status_code == 403
    assert response.headers["content-type"].startswith("text/html")
    assert "<code>app.asgi(auth=function)</code>" in response.text
    assert response.headers["x-frame-options"] == "DENY"
