"""The dashboard and the REST API under WSGI."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Iterator
from typing import Any
from wsgiref.validate import validator

import httpx
import pytest
from starlette.requests import Request

from headrace import ConfigError, Headrace
from headrace.web.wsgi import scope_of

BROWSER = {"accept": "text/html"}
local = threading.local()


@pytest.fixture
def app() -> Iterator[Headrace]:
    with Headrace("memory://") as app:
        yield app


def client(wsgi: Any, *, script_name: str = "", host: str = "localhost", at: str = "127.0.0.1") -> httpx.Client:
    transport = httpx.WSGITransport(app=wsgi, script_name=script_name, remote_addr=at)
    return httpx.Client(transport=transport, base_url=f"http://{host}")


def test_it_follows_the_protocol(app: Headrace) -> None:
    """The standard library checks every call."""
    served = validator(app.wsgi())
    environ = {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/healthz",
        "QUERY_STRING": "",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": io.StringIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    told: list[Any] = []
    body = served(environ, lambda status, headers, exc_info=None: told.append(status))  # type: ignore[arg-type]
    try:
        assert b"".join(body) == b'{"status":"ok"}'
    finally:
        body.close()  # type: ignore[attr-defined]
    assert told == ["200 OK"]


def test_pages_and_rest_work_below_a_mount_path(app: Headrace) -> None:
    from werkzeug.middleware.dispatcher import DispatcherMiddleware

    def other(environ: Any, start_response: Any) -> Any:
        start_response("404 Not Found", [])
        return [b""]

    there = client(DispatcherMiddleware(other, {"/background": app.wsgi()}))
    assert there.get("/else").status_code == 404
    made = there.post("/background/api/v1/jobs", json={"task": "add", "args": [1, 2]})
    assert made.status_code == 201
    assert made.headers["location"].startswith("/background/api/v1/jobs/")
    assert there.get(made.headers["location"]).json()["args"] == [1, 2]
    page = there.get("/background/queues/ünïcode", headers=BROWSER)
    assert 'href="/background/' in page.text
    assert there.get("/background/queues", headers=BROWSER).status_code == 200
    form = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}
    assert there.post("/background/queues/mail/pause", data={}, headers=form).status_code == 303
    assert there.get("/background/api/v1/queues/mail").json()["paused"] is True


def test_a_name_with_an_encoded_slash_is_one_name() -> None:
    environ = {"REQUEST_METHOD": "GET", "SCRIPT_NAME": "/x", "PATH_INFO": "/a/b", "RAW_URI": "/x/a%2Fb?q=1"}
    scope = scope_of(environ)
    assert (scope["path"], scope["raw_path"], scope["root_path"]) == ("/x/a/b", b"/x/a%2Fb", "/x")
    assert scope["client"] is None


def test_it_is_closed_by_default(app: Headrace) -> None:
    served = app.wsgi()
    assert client(served).get("/api/v1/queues").status_code == 200
    assert client(served, at="203.0.113.9").get("/api/v1/queues").status_code == 403
    assert (
        client(served, host="shop.example.com")
        .get("/", headers=BROWSER)
        .headers["content-type"]
        .startswith("text/html")
    )
    assert client(served, at="").get("/api/v1/queues").status_code == 403, "a socket without an address"


def test_a_body_that_is_too_large_is_refused_unread(app: Headrace) -> None:
    there = client(app.wsgi(max_body=2048))
    assert there.post("/api/v1/jobs", content=b"x" * 4096).status_code == 413


def test_a_body_without_a_length_is_read_up_to_the_limit(app: Headrace) -> None:
    def post(body: bytes, **more: Any) -> str:
        said: list[str] = []
        environ = {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": "/api/v1/jobs",
            "REMOTE_ADDR": "127.0.0.1",
            "HTTP_HOST": "localhost",
            "CONTENT_TYPE": "application/json",
            "wsgi.input": io.BytesIO(body),
            **more,
        }
        app.wsgi(max_body=2048)(environ, lambda status, headers: said.append(status))
        return said[0]

    job = b'{"task": "add"}'
    assert post(job, **{"wsgi.input_terminated": True}).startswith("201")
    assert post(job).startswith("4"), "its end is not known, so it is not read"
    assert post(b" " * 4096, **{"wsgi.input_terminated": True}).startswith("413")


def test_streams_end_by_themselves_and_lose_nothing(app: Headrace) -> None:
    there = client(app.wsgi())
    assert there.get("/live").status_code == 204, "pages poll"
    first = there.get("/api/v1/events")
    assert first.headers["content-type"].startswith("text/event-stream")
    begin = last_id(first.text)
    job = app.enqueue("add", 1, 2)
    second = there.get("/api/v1/events", headers={"last-event-id": begin})
    assert job.id in second.text
    third = there.get("/api/v1/events", headers={"last-event-id": last_id(second.text)})
    assert job.id not in third.text
    assert last_id(third.text) == last_id(second.text)


def last_id(stream: str) -> str:
    return [line.removeprefix("id: ") for line in stream.splitlines() if line.startswith("id: ")][-1]


def test_the_function_of_the_site_runs_in_the_thread_of_the_request(app: Headrace) -> None:
    """Outside of an event loop: Django's models refuse to be used inside of one."""
    seen: list[Any] = []

    def auth(request: Request) -> Any:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        seen.append(threading.current_thread())
        return request.scope["wsgi.environ"].get("HTTP_X_USER"), "viewer"

    there = client(app.wsgi(auth=auth), host="shop.example.com", at="203.0.113.9")
    assert there.get("/api/v1/queues", headers={"x-user": "bob"}).status_code == 200
    assert there.post("/api/v1/queues/mail/pause", json={}, headers={"x-user": "bob"}).status_code == 403
    assert seen == [threading.current_thread()] * 2
    assert there.get("/healthz").status_code == 200
    assert len(seen) == 2


def test_a_coroutine_of_the_site_may_decide_and_a_broken_one_lets_nobody_in(app: Headrace) -> None:
    async def auth(request: Request) -> str | None:
        await asyncio.sleep(0)
        return request.headers.get("x-user")

    def broken(request: Request) -> str:
        raise KeyError("user")

    there = client(app.wsgi(auth=auth), at="203.0.113.9")
    assert there.get("/api/v1/queues").status_code == 401
    assert there.get("/api/v1/queues", headers={"x-user": "ann"}).status_code == 200
    assert client(app.wsgi(auth=broken)).get("/api/v1/queues").status_code == 500


def test_a_server_with_an_event_loop_in_its_thread_is_served_too(app: Headrace) -> None:
    served = app.wsgi()

    async def within() -> int:
        return client(served).get("/api/v1/queues").status_code

    assert asyncio.run(within()) == 200


def test_requests_of_many_threads_do_not_meet(app: Headrace) -> None:
    there = client(app.wsgi(rate=None))
    codes: list[int] = []
    threads = [threading.Thread(target=lambda: codes.append(there.get("/queues").status_code)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [200] * 8


def test_a_wrong_option_is_told(app: Headrace) -> None:
    with pytest.raises(ConfigError, match="did you mean 'read_only'"):
        app.wsgi(read_onli=True)  # type: ignore[call-arg]
