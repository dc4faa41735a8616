"""Who comes in, and what is refused at the door."""

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
    """For those who guess, so that a slow machine gives them no more time than a fast one."""
    monkeypatch.setattr("headrace.web.security.credentials.LoginAttempts", lambda: LoginAttempts(clock=lambda: 1.0))


def client(
    app: Headrace, *, host: str = "localhost:8080", at: tuple[str, int] = LOCAL, headers: Any = None, **options: Any
) -> Client:
    return Client(app.asgi(**options), host=host, at=at, headers=headers)


# -- without credentials


def test_without_credentials_who_is_on_the_machine_is_an_admin(app: Headrace) -> None:
    local = client(app)
    assert local.get(QUEUES).json() == []
    assert local.post(PAUSE, json={}).json()["paused"] is True


@pytest.mark.parametrize(
    ("host", "at", "headers"),
    [
        ("localhost:8080", BEYOND, {}),
        ("jobs.example.com", LOCAL, {}),  # a name that somebody made point here
        ("localhost:8080", LOCAL, {"x-forwarded-for": "203.0.113.9"}),
        ("localhost:8080", LOCAL, {"forwarded": "for=203.0.113.9"}),
        ("localhost:8080", LOCAL, {"via": "1.1 proxy"}),
        ("localhost:8080", LOCAL, {"x-forwarded-host": "jobs.example.com"}),
        ("localhost:8080", LOCAL, {"x-forwarded-proto": "https"}),
        ("localhost:8080", LOCAL, {"cf-connecting-ip": "203.0.113.9"}),
    ],
)
def test_without_credentials_nobody_else_is_answered(app: Headrace, host: str, at: Any, headers: Any) -> None:
    told = client(app, host=host, at=at, headers=headers).get(QUEUES)
    assert told.status_code == 403
    assert told.headers["content-type"] == "application/problem+json"
    assert told.json()["type"] == "urn:headrace:closed"
    assert "web_auth" in told.json()["detail"]


# -- with credentials


def test_a_user_and_a_token_come_in_with_their_roles(app: Headrace) -> None:
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
def test_wrong_credentials_are_refused_also_on_the_machine(app: Headrace, written: str) -> None:
    told = client(app, auth=["ann:s3cret"], tokens=["5f2a"]).get(QUEUES, headers={"authorization": written})
    assert told.status_code == 401
    assert "Basic" in told.headers["www-authenticate"]
    assert "s3cret" not in told.text


@pytest.mark.usefixtures("time_stands_still")
def test_guessing_is_slowed_down_and_who_knows_the_word_is_not_locked_out_elsewhere(app: Headrace) -> None:
    there = client(app, at=BEYOND, auth=["ann:s3cret"])
    codes = [there.get(QUEUES, headers=basic("ann", f"wrong{n}")).status_code for n in range(15)]
    assert codes[:10] == [401] * 10
    assert codes[10:] == [429] * 5
    assert there.get(QUEUES, headers=basic("ann", "s3cret")).status_code == 429  # else a guess would be answered


def from_everywhere(asgi: Any, headers: list[dict[str, str]]) -> list[int]:
    """What each of these is answered, from an address of its own."""
    return [
        Client(asgi, at=(f"203.0.113.{n}", 1)).get(QUEUES, headers=one).status_code for n, one in enumerate(headers)
    ]


@pytest.mark.usefixtures("time_stands_still")
def test_guesses_in_one_name_are_slowed_down_wherever_they_come_from(app: Headrace) -> None:
    asgi = app.asgi(auth=["ann:s3cret", "bob:geheim"])
    assert Client(asgi, at=BEYOND).get(QUEUES, headers=basic("ann", "s3cret")).status_code == 200
    codes = from_everywhere(asgi, [basic("ann", f"wrong{n}") for n in range(15)])
    assert (codes[:10], codes[10:]) == ([401] * 10, [429] * 5)
    assert from_everywhere(asgi, [basic("ann", "s3cret")]) == [429]  # else a guess would be answered
    assert from_everywhere(asgi, [basic("bob", "geheim")]) == [200]
    assert Client(asgi, at=BEYOND).get(QUEUES, headers=basic("ann", "s3cret")).status_code == 200  # was right before


@pytest.mark.usefixtures("time_stands_still")
def test_guesses_at_the_login_page_are_slowed_down_wherever_they_come_from(app: Headrace) -> None:
    asgi = app.asgi(auth=["ann:s3cret"])
    codes = [
        Client(asgi, at=(f"203.0.113.{n}", 1)).post("/login", data={"name": "ann", "password": f"wrong{n}"}).status_code
        for n in range(15)
    ]
    assert (codes[:10], codes[10:]) == ([401] * 10, [429] * 5)


@pytest.mark.usefixtures("time_stands_still")
def test_guesses_of_tokens_are_slowed_down_wherever_they_come_from(app: Headrace) -> None:
    asgi = app.asgi(tokens=["worker=node:81d0"])
    assert Client(asgi, at=BEYOND).get("/api/v1/jobs/x", headers=bearer("81d0")).status_code == 403
    codes = from_everywhere(asgi, [bearer(f"wrong{n}") for n in range(25)])
    assert (codes[:20], codes[-1]) == ([401] * 20, 429)
    assert Client(asgi, at=BEYOND).get("/api/v1/jobs/x", headers=bearer("81d0")).status_code == 403


@pytest.mark.parametrize("path", ["/", "/jobs", "/queues/mail", "/system", "/palette?q=mail", "/nowhere", "/live"])
def test_a_worker_may_not_look_at_the_dashboard(app: Headrace, path: str) -> None:
    there = client(app, at=BEYOND, auth=["worker=node:5f2a"], tokens=["worker=node:81d0"])
    for who in (basic("node", "5f2a"), bearer("81d0")):
        told = there.get(path, headers=who)
        assert (told.status_code, told.json()["type"]) == (403, "urn:headrace:forbidden")
        assert "needs the role viewer" in told.json()["detail"]
    assert there.get("/login", headers=basic("node", "5f2a")).status_code == 200  # to come back as somebody else


@pytest.mark.parametrize("options", [{}, {"auth": ["ann:s3cret"]}])
def test_who_is_not_known_sees_nothing_of_the_store_below_an_open_path(app: Headrace, options: Any) -> None:
    there = client(app, at=BEYOND, **options)
    for path in ("/loginx", "/login/x", "/healthz/x", "/readyzx"):
        assert there.get(path).status_code == (401 if options else 403), path
    for path in ("/static/", "/static/x", "/static/x/y/z"):
        told = there.get(path)
        assert (told.status_code, told.text) == (404, ""), path


def test_a_read_only_server_changes_nothing_whoever_asks(app: Headrace) -> None:
    there = client(app, read_only=True)
    told = there.post(PAUSE, json={})
    assert (told.status_code, told.json()["type"]) == (403, "urn:headrace:read-only")
    assert app.queue("mail").paused is False


# -- pages of others


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
def test_a_write_that_a_foreign_page_could_send_is_refused(app: Headrace, headers: dict[str, str]) -> None:
    for there in (client(app), client(app, auth=["ann:s3cret"], headers=basic("ann", "s3cret"))):
        told = there.post(PAUSE, headers=headers)
        assert (told.status_code, told.json()["type"]) == (403, "urn:headrace:forgery")
    assert app.queue("mail").paused is False


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "same-origin", "origin": "http://localhost:8080"},
        {"x-requested-with": "headrace"},
        {"content-type": "application/json"},
    ],
)
def test_a_write_of_our_own_page_or_of_a_program_is_done(app: Headrace, headers: dict[str, str]) -> None:
    assert client(app).post(PAUSE, headers=headers).status_code == 200


# -- limits and headers


def test_a_client_that_asks_too_often_is_told_when_to_come_back(app: Headrace) -> None:
    there = client(app, rate=5)
    told = [there.get(QUEUES) for _ in range(10)]
    assert {each.status_code for each in told} == {200}
    late = next(each for each in (there.get(QUEUES) for _ in range(1000)) if each.status_code != 200)
    assert (late.status_code, late.json()["type"]) == (429, "urn:headrace:too-many-requests")
    assert int(late.headers["retry-after"]) >= 1


def test_a_body_that_is_too_large_is_refused_by_the_length_it_tells(app: Headrace) -> None:
    told = client(app, max_body=2048).post(PAUSE, content=b"x" * 4096)
    assert (told.status_code, told.json()["type"]) == (413, "urn:headrace:body-too-large")


@pytest.mark.parametrize("path", ["/login", "/jobs", "/logout", "/api/v1/jobs"])
def test_a_body_that_does_not_tell_its_length_is_refused_once_it_is_too_large(app: Headrace, path: str) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b"x" * 1024

    told = client(app, max_body=2048).post(path, content=parts(), headers={"x-requested-with": "x"})
    assert (told.status_code, told.json()["type"]) == (413, "urn:headrace:body-too-large")


def test_every_answer_carries_the_headers_that_protect_a_browser(app: Headrace) -> None:
    for told in (client(app).get(QUEUES), client(app).get("/nowhere"), client(app, at=BEYOND).get(QUEUES)):
        assert told.headers["x-content-type-options"] == "nosniff"
        assert told.headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in told.headers["content-security-policy"]
        assert "access-control-allow-origin" not in told.headers


def test_health_is_open_to_all_however_often(app: Headrace) -> None:
    there = client(app, at=BEYOND, auth=["ann:s3cret"], rate=1)
    assert {there.get(path).status_code for path in ("/healthz", "/readyz") * 4} == {200}
    assert there.get("/healthz").json() == {"status": "ok"}
    assert there.get("/readyz").json() == {"status": "ok"}


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/login"])
def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_failure_of_ours(
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


def test_a_method_that_is_not_allowed_is_told_with_those_that_are(app: Headrace) -> None:
    there = client(app)
    assert there("PUT", f"{QUEUES}/mail").headers["allow"] == "DELETE, GET, HEAD, PATCH"
    assert there("PUT", f"{QUEUES}/mail/clear").headers["allow"] == "POST"
    assert there("DELETE", "/api/v1/jobs").headers["allow"] == "GET, HEAD, POST"


def test_what_is_not_there_is_a_problem_document(app: Headrace) -> None:
    there = client(app)
    assert there.get("/api/v1/nowhere").json()["type"] == "urn:headrace:not-found"
    told = there.delete(QUEUES)
    assert (told.status_code, told.json()["type"]) == (405, "urn:headrace:method-not-allowed")


# -- settings


@pytest.mark.parametrize("written", [{"auth": ["nobody"]}, {"auth": ["ann:"]}, {"tokens": ["abc"]}, {"auth": [":x"]}])
def test_a_bad_credential_is_refused_without_being_shown(app: Headrace, written: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="entry 1 should look like"):
        app.asgi(**written)


def test_an_option_that_does_not_exist_is_named(app: Headrace) -> None:
    with pytest.raises(ConfigError, match="did you mean 'auth'"):
        app.asgi(aut=["ann:s3cret"])


def test_proxies_that_are_no_addresses_are_refused(app: Headrace) -> None:
    with pytest.raises(ConfigError, match=r"web_trusted_proxies: 'proxy\.example'"):
        app.asgi(trusted_proxies=["proxy.example"])


def test_settings_are_shown_without_secrets() -> None:
    with Headrace("memory://", web_auth="ann:s3cret,viewer=bob:geheim", web_tokens=["worker=node:5f2a"]) as app:
        assert app.settings.shown()["web_auth"] == ("admin=ann:***", "viewer=bob:***")
        assert "s3cret" not in repr(app.settings)
        assert "5f2a" not in repr(app.settings)
