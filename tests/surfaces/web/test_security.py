"""Authentication, forgery checks, rate limits and security headers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from headrace import ConfigError, Headrace
from headrace.web.security.rate_limit import LoginAttempts
from tests.surfaces.web.client import BEYOND, LOCAL, Client, basic, bearer

QUEUES = "/api/v1/queues"
PAUSE = "/api/v1/queues/mail/pause"


@pytest.fixture
def app() -> Iterator[Headrace]:
    with Headrace("memory://") as app:
        yield app


@pytest.fixture
def time_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock of login attempts, so that a slow machine allows no more of them."""
    monkeypatch.setattr("headrace.web.security.credentials.LoginAttempts", lambda: LoginAttempts(clock=lambda: 1.0))


def client(
    app: Headrace, *, host: str = "localhost:8080", at: tuple[str, int] = LOCAL, headers: Any = None, **options: Any
) -> Client:
    return Client(app.asgi(**options), host=host, at=at, headers=headers)


# -- without credentials


def test_without_credentials_a_local_client_is_an_admin(app: Headrace) -> None:
    local = client(app)
    assert local.get(QUEUES).json() == []
    assert local.post(PAUSE, json={}).json()["paused"] is True


@pytest.mark.parametrize(
    ("host", "at", "headers"),
    [
        ("localhost:8080", BEYOND, {}),
        ("jobs.example.com", LOCAL, {}),  # DNS rebinding: a foreign name that resolves to this machine
        ("localhost:8080", LOCAL, {"x-forwarded-for": "203.0.113.9"}),
        ("localhost:8080", LOCAL, {"forwarded": "for=203.0.113.9"}),
        ("localhost:8080", LOCAL, {"via": "1.1 proxy"}),
        ("localhost:8080", LOCAL, {"x-forwarded-host": "jobs.example.com"}),
        ("localhost:8080", LOCAL, {"x-forwarded-proto": "https"}),
        ("localhost:8080", LOCAL, {"cf-connecting-ip": "203.0.113.9"}),
    ],
)
def test_without_credentials_other_clients_are_refused(app: Headrace, host: str, at: Any, headers: Any) -> None:
    response = client(app, host=host, at=at, headers=headers).get(QUEUES)
    assert response.status_code == 403
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["type"] == "urn:headrace:closed"
    assert "web_auth" in response.json()["detail"]


# -- with credentials


def test_a_user_and_a_token_have_their_roles(app: Headrace) -> None:
    there = client(app, at=BEYOND, auth=["ann:s3cret", "viewer=bob:geheim"], tokens=["viewer=grafana:5f2a"])
    assert there.get(QUEUES).status_code == 401
    assert there.get(QUEUES, headers=basic("ann", "s3cret")).status_code == 200
    assert there.get(QUEUES, headers=bearer("5f2a")).status_code == 200
    assert there.post(PAUSE, json={}, headers=basic("ann", "s3cret")).status_code == 200
    refused = there.post(PAUSE, json={}, headers=basic("bob", "geheim"))
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:headrace:forbidden")
    assert there.post(PAUSE, headers=bearer("5f2a")).status_code == 403


@pytest.mark.parametrize(
    "written",
    [
        "",
        "Basic",
        "Basic !!!",
        "Basic YW5u",
        "Bearer",
        "Bearer wrong",
        "Digest x",
        basic("ann", "5f2a")["authorization"],
    ],
)
def test_wrong_credentials_are_refused_also_for_a_local_client(app: Headrace, written: str) -> None:
    response = client(app, auth=["ann:s3cret"], tokens=["5f2a"]).get(QUEUES, headers={"authorization": written})
    assert response.status_code == 401
    assert "Basic" in response.headers["www-authenticate"]
    assert "s3cret" not in response.text


@pytest.mark.usefixtures("time_stands_still")
def test_guessing_is_slowed_down_and_does_not_lock_out_other_clients(app: Headrace) -> None:
    there = client(app, at=BEYOND, auth=["ann:s3cret"])
    codes = [there.get(QUEUES, headers=basic("ann", f"wrong{n}")).status_code for n in range(15)]
    assert codes[:10] == [401] * 10
    assert codes[10:] == [429] * 5
    assert there.get(QUEUES, headers=basic("ann", "s3cret")).status_code == 429  # otherwise a guess would get an answer


def from_everywhere(asgi: Any, headers: list[dict[str, str]]) -> list[int]:
    """The status for each of these, each from another address."""
    return [
        Client(asgi, at=(f"203.0.113.{n}", 1)).get(QUEUES, headers=one).status_code for n, one in enumerate(headers)
    ]


@pytest.mark.usefixtures("time_stands_still")
def test_guesses_for_one_name_are_slowed_down_over_all_addresses(app: Headrace) -> None:
    asgi = app.asgi(auth=["ann:s3cret", "bob:geheim"])
    assert Client(asgi, at=BEYOND).get(QUEUES, headers=basic("ann", "s3cret")).status_code == 200
    codes = from_everywhere(asgi, [basic("ann", f"wrong{n}") for n in range(15)])
    assert (codes[:10], codes[10:]) == ([401] * 10, [429] * 5)
    assert from_everywhere(asgi, [basic("ann", "s3cret")]) == [429]  # otherwise a guess would get an answer
    assert from_everywhere(asgi, [basic("bob", "geheim")]) == [200]
    assert Client(asgi, at=BEYOND).get(QUEUES, headers=basic("ann", "s3cret")).status_code == 200  # was right before


@pytest.mark.usefixtures("time_stands_still")
def test_guesses_at_the_login_page_are_slowed_down_over_all_addresses(app: Headrace) -> None:
    asgi = app.asgi(auth=["ann:s3cret"])
    codes = [
        Client(asgi, at=(f"203.0.113.{n}", 1)).post("/login", data={"name": "ann", "password": f"wrong{n}"}).status_code
        for n in range(15)
    ]
    assert (codes[:10], codes[10:]) == ([401] * 10, [429] * 5)


@pytest.mark.usefixtures("time_stands_still")
def test_guesses_of_tokens_are_slowed_down_over_all_addresses(app: Headrace) -> None:
    asgi = app.asgi(tokens=["worker=node:81d0"])
    assert Client(asgi, at=BEYOND).get("/api/v1/jobs/x", headers=bearer("81d0")).status_code == 403
    codes = from_everywhere(asgi, [bearer(f"wrong{n}") for n in range(25)])
    assert (codes[:20], codes[-1]) == ([401] * 20, 429)
    assert Client(asgi, at=BEYOND).get("/api/v1/jobs/x", headers=bearer("81d0")).status_code == 403


@pytest.mark.parametrize("path", ["/", "/jobs", "/queues/mail", "/system", "/palette?q=mail", "/nowhere", "/live"])
def test_a_worker_role_may_not_open_the_dashboard(app: Headrace, path: str) -> None:
    there = client(app, at=BEYOND, auth=["worker=node:5f2a"], tokens=["worker=node:81d0"])
    for who in (basic("node", "5f2a"), bearer("81d0")):
        response = there.get(path, headers=who)
        assert (response.status_code, response.json()["type"]) == (403, "urn:headrace:forbidden")
        assert "needs the role viewer" in response.json()["detail"]
    assert there.get("/login", headers=basic("node", "5f2a")).status_code == 200  # to log in as another user


@pytest.mark.parametrize("options", [{}, {"auth": ["ann:s3cret"]}])
def test_an_anonymous_client_gets_no_page_below_a_public_path(app: Headrace, options: Any) -> None:
    there = client(app, at=BEYOND, **options)
    for path in ("/loginx", "/login/x", "/healthz/x", "/readyzx"):
        assert there.get(path).status_code == (401 if options else 403), path
    for path in ("/static/", "/static/x", "/static/x/y/z"):
        response = there.get(path)
        assert (response.status_code, response.text) == (404, ""), path


def test_a_read_only_server_refuses_writes_of_every_role(app: Headrace) -> None:
    there = client(app, read_only=True)
    response = there.post(PAUSE, json={})
    assert (response.status_code, response.json()["type"]) == (403, "urn:headrace:read-only")
    assert app.queue("mail").paused is False


# -- cross-site requests


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site", "content-type": "application/json"},
        {"sec-fetch-site": "same-site", "x-requested-with": "x"},
        {"origin": "https://evil.example", "content-type": "application/json"},
        {"origin": "null", "x-requested-with": "x"},
        {"origin": "http://[", "x-requested-with": "x"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "text/plain"},
        {},
    ],
)
def test_a_write_that_another_site_could_send_is_refused(app: Headrace, headers: dict[str, str]) -> None:
    for there in (client(app), client(app, auth=["ann:s3cret"], headers=basic("ann", "s3cret"))):
        response = there.post(PAUSE, headers=headers)
        assert (response.status_code, response.json()["type"]) == (403, "urn:headrace:forgery")
    assert app.queue("mail").paused is False


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "same-origin", "origin": "http://localhost:8080"},
        {"x-requested-with": "headrace"},
        {"content-type": "application/json"},
    ],
)
def test_a_write_of_the_dashboard_or_of_a_program_is_accepted(app: Headrace, headers: dict[str, str]) -> None:
    assert client(app).post(PAUSE, headers=headers).status_code == 200


# -- limits and headers


def test_a_rate_limited_client_gets_a_retry_after_header(app: Headrace) -> None:
    there = client(app, rate=5)
    responses = [there.get(QUEUES) for _ in range(10)]
    assert {each.status_code for each in responses} == {200}
    late = next(each for each in (there.get(QUEUES) for _ in range(1000)) if each.status_code != 200)
    assert (late.status_code, late.json()["type"]) == (429, "urn:headrace:too-many-requests")
    assert int(late.headers["retry-after"]) >= 1


def test_a_body_with_a_too_large_content_length_is_refused(app: Headrace) -> None:
    response = client(app, max_body=2048).post(PAUSE, content=b"x" * 4096)
    assert (response.status_code, response.json()["type"]) == (413, "urn:headrace:body-too-large")


@pytest.mark.parametrize("path", ["/login", "/jobs", "/logout", "/api/v1/jobs"])
def test_a_body_without_content_length_is_refused_once_it_is_too_large(app: Headrace, path: str) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b"x" * 1024

    response = client(app, max_body=2048).post(path, content=parts(), headers={"x-requested-with": "x"})
    assert (response.status_code, response.json()["type"]) == (413, "urn:headrace:body-too-large")


def test_every_response_has_the_security_headers(app: Headrace) -> None:
    for response in (client(app).get(QUEUES), client(app).get("/nowhere"), client(app, at=BEYOND).get(QUEUES)):
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in response.headers["content-security-policy"]
        assert "access-control-allow-origin" not in response.headers


def test_health_checks_need_no_credentials_and_have_no_rate_limit(app: Headrace) -> None:
    there = client(app, at=BEYOND, auth=["ann:s3cret"], rate=1)
    assert {there.get(path).status_code for path in ("/healthz", "/readyz") * 4} == {200}
    assert there.get("/healthz").json() == {"status": "ok"}
    assert there.get("/readyz").json() == {"status": "ok"}


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/login"])
def test_a_client_that_disconnects_during_its_body_is_no_server_error(
    app: Headrace, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    parts = [{"type": "http.request", "body": b'{"task": ', "more_body": True}, {"type": "http.disconnect"}]
    headers = [(b"host", b"localhost:8080"), (b"content-type", b"application/json"), (b"x-requested-with", b"x")]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b"", "client": LOCAL}

    async def receive() -> Any:
        return parts.pop(0)

    async def send(message: Any) -> None:
        pass

    async def ask() -> None:
        await app.asgi()({**scope, "scheme": "http", "server": ("localhost", 8080)}, receive, send)

    asyncio.run(ask())
    assert [record.getMessage() for record in caplog.records] == []


def test_a_405_response_names_the_allowed_methods(app: Headrace) -> None:
    there = client(app)
    assert there("PUT", f"{QUEUES}/mail").headers["allow"] == "DELETE, GET, HEAD, PATCH"
    assert there("PUT", f"{QUEUES}/mail/clear").headers["allow"] == "POST"
    assert there("DELETE", "/api/v1/jobs").headers["allow"] == "GET, HEAD, POST"


def test_an_unknown_path_is_a_problem_document(app: Headrace) -> None:
    there = client(app)
    assert there.get("/api/v1/nowhere").json()["type"] == "urn:headrace:not-found"
    response = there.delete(QUEUES)
    assert (response.status_code, response.json()["type"]) == (405, "urn:headrace:method-not-allowed")


# -- settings


@pytest.mark.parametrize(
    "written", [{"auth": ["anonymous"]}, {"auth": ["ann:"]}, {"tokens": ["abc"]}, {"auth": [":x"]}]
)
def test_a_bad_credential_is_refused_without_being_shown(app: Headrace, written: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="entry 1 should look like"):
        app.asgi(**written)


def test_an_option_that_does_not_exist_is_named(app: Headrace) -> None:
    with pytest.raises(ConfigError, match="did you mean 'auth'"):
        app.asgi(aut=["ann:s3cret"])  # type: ignore[call-arg]


def test_proxies_that_are_no_addresses_are_refused(app: Headrace) -> None:
    with pytest.raises(ConfigError, match=r"web_trusted_proxies: 'proxy\.example'"):
        app.asgi(trusted_proxies=["proxy.example"])


def test_settings_are_shown_without_secrets() -> None:
    with Headrace("memory://", web_auth="ann:s3cret,viewer=bob:geheim", web_tokens=["worker=node:5f2a"]) as app:
        assert app.settings.shown()["web_auth"] == ("admin=ann:***", "viewer=bob:***")
        assert "s3cret" not in repr(app.settings)
        assert "5f2a" not in repr(app.settings)
