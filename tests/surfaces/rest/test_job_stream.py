"""The stream of a job over REST: live and as a list, by cursors, to its end, redacted, for viewers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from headrace import Headrace, Job, current_job
from headrace.testing import drain
from headrace.web.job_stream import ChunkStream
from headrace.web.sse import BOUNDED, LiveFeeds
from tests.support.gates import Gate
from tests.support.site import serve
from tests.support.waiting import PATIENCE, eventually
from tests.surfaces.rest.live_stream import Listening


@pytest.fixture
def port(app: Headrace) -> Iterator[int]:
    with serve(app) as site:
        yield site.port


def path(job: Job[Any]) -> str:
    return f"/api/v1/jobs/{job.id}/stream"


def told(app: Headrace, *chunks: Any) -> Job[Any]:
    """A finished job that streamed these."""

    @app.task(name="tell")
    def tell() -> None:
        for chunk in chunks:
            current_job().stream(chunk)

    job = app.enqueue("tell")
    drain(app)
    return job


def frames(listening: Listening) -> list[dict[str, str]]:
    return list(iter(listening.frame, {}))


def test_a_listener_gets_what_was_streamed_and_what_comes_and_the_end(app: Headrace, port: int) -> None:
    gate, further = Gate(), Gate()

    @app.task
    def tell() -> None:
        current_job().stream("one\n")
        gate.pass_through()
        current_job().stream({"two": 2})
        further.pass_through()

    job = tell.enqueue()
    with app.worker(), Listening(port, path(job)) as listening:
        assert listening.response.headers["content-type"].startswith("text/event-stream")
        first = listening.frame()
        chunk = json.loads(first["data"])
        assert (chunk["data"], chunk["attempt"], chunk["number"], chunk["cursor"]) == ("one\n", 1, 1, first["id"])
        assert "event" not in first, "an EventSource needs only onmessage"
        gate.open()
        assert listening.event()["data"] == {"two": 2}
        further.open()
        (end,) = frames(listening)
    assert (end["event"], json.loads(end["data"])) == ("end", {"state": "completed"})


def test_a_client_that_was_cut_off_goes_on_behind_its_last_chunk(app: Headrace, port: int) -> None:
    job = told(app, *range(10))
    with Listening(port, path(job)) as listening:
        seen = [listening.frame() for _ in range(4)]
    with Listening(port, path(job), **{"Last-Event-ID": seen[-1]["id"]}) as listening:
        rest = frames(listening)
    assert [json.loads(frame["data"])["data"] for frame in (*seen, *rest[:-1])] == list(range(10))
    with Listening(port, f"{path(job)}?since={seen[0]['id']}") as listening:
        assert listening.event()["data"] == 1


def test_a_client_that_has_seen_the_end_is_told_not_to_come_back(app: Headrace, port: int) -> None:
    job = told(app)
    with Listening(port, path(job)) as listening:
        (end,) = frames(listening)
    with Listening(port, path(job), **{"Last-Event-ID": end["id"]}) as listening:
        assert listening.response.status == 204, "which ends an EventSource"


def test_a_client_that_comes_back_after_a_retry_sees_the_new_attempt(app: Headrace, port: int) -> None:
    job = told(app, "x")
    with Listening(port, path(job)) as listening:
        *_, end = frames(listening)
    assert job.retry()
    drain(app)
    with Listening(port, path(job), **{"Last-Event-ID": end["id"]}) as listening:
        chunk = listening.event()
    assert (chunk["number"], chunk["data"]) == (1, "x")


def test_the_list_goes_on_by_its_cursor_and_says_when_it_is_all(app: Headrace, port: int) -> None:
    job = told(app, *range(25))
    url, found, cursor = f"http://127.0.0.1:{port}/api/v1/jobs/{job.id}/chunks", [], None
    while True:
        page = httpx.get(url, params={"limit": 10} | ({"cursor": cursor} if cursor else {})).json()
        found += [chunk["data"] for chunk in page["chunks"]]
        cursor = page["cursor"]
        if page["is_over"]:
            break
        assert len(page["chunks"]) == 10
    assert found == list(range(25))
    assert httpx.get(url, params={"cursor": cursor}).json() == {"chunks": [], "cursor": cursor, "is_over": True}


def test_a_running_job_has_no_last_page(app: Headrace, port: int) -> None:
    gate = Gate()

    @app.task
    def tell() -> None:
        current_job().stream("x")
        gate.pass_through()

    job = tell.enqueue()
    url = f"http://127.0.0.1:{port}/api/v1/jobs/{job.id}/chunks"
    assert httpx.get(url).json() == {"chunks": [], "cursor": None, "is_over": False}
    with app.worker():
        gate.wait_until_reached()
        eventually(lambda: httpx.get(url).json()["chunks"])
        assert httpx.get(url).json()["is_over"] is False
        gate.open()
        job.wait(PATIENCE)
    assert httpx.get(url).json()["is_over"] is True


def test_secrets_in_data_are_masked(app: Headrace, port: int) -> None:
    job = told(app, {"password": "s3cret", "user": "ann"})
    with Listening(port, path(job)) as listening:
        assert listening.event()["data"] == {"password": "***", "user": "ann"}
    listed = httpx.get(f"http://127.0.0.1:{port}/api/v1/jobs/{job.id}/chunks").json()
    assert listed["chunks"][0]["data"] == {"password": "***", "user": "ann"}


def test_a_job_that_is_deleted_meanwhile_ends_its_stream(app: Headrace, port: int) -> None:
    @app.task
    def tell() -> None: ...

    job = tell.using(delay=3600).enqueue()
    with Listening(port, path(job)) as listening:
        assert listening.response.readline() == b"retry: 2000\n"
        assert job.delete()
        (end,) = frames(listening)
    assert json.loads(end["data"]) == {"state": None}


@pytest.mark.parametrize("query", ["since=17", "since=1-2-x"])
def test_a_bad_cursor_is_refused(app: Headrace, port: int, query: str) -> None:
    answer = httpx.get(f"http://127.0.0.1:{port}{path(told(app))}?{query}")
    assert answer.status_code == 422
    assert "not the cursor of a chunk" in answer.text


def test_an_unknown_job_has_no_stream(port: int) -> None:
    assert httpx.get(f"http://127.0.0.1:{port}/api/v1/jobs/ghost/stream").status_code == 404
    assert httpx.get(f"http://127.0.0.1:{port}/api/v1/jobs/ghost/chunks").status_code == 404


def test_it_needs_the_same_role_as_a_result(app: Headrace) -> None:
    job = told(app, "x")
    with serve(app, tokens=["viewer=bob:letmein", "worker=node:letmerun"]) as site:
        for name in ("stream", "chunks"):
            url = f"http://127.0.0.1:{site.port}/api/v1/jobs/{job.id}/{name}"
            codes = [
                httpx.get(url, headers={"authorization": f"Bearer {token}"} if token else {}).status_code
                for token in ("letmein", "letmerun", "")
            ]
            assert codes == [200, 403, 401]


def test_without_events_it_looks_every_second(url: str) -> None:
    with Headrace(url, events=False, shutdown_timeout=5.0) as app, serve(app) as site:
        gate = Gate()

        @app.task
        def tell() -> None:
            gate.pass_through()
            current_job().stream("x")

        job = tell.enqueue()
        with app.worker(), Listening(site.port, path(job)) as listening:
            gate.wait_until_reached()
            gate.open()
            assert listening.event()["data"] == "x"
            assert frames(listening)[-1]["event"] == "end"


def test_under_wsgi_it_has_what_is_stored(app: Headrace) -> None:
    job = told(app, *range(500))
    reader = app.services.stream_of(job.row).reader(None)
    stream, sent = ChunkStream(app, LiveFeeds(app), job, reader, None), list[bytes]()

    async def read() -> None:
        async def receive() -> Any:
            await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message.get("body", b""))

        await stream({"method": "GET", BOUNDED: True}, receive, send)

    asyncio.run(read())
    assert b"".join(sent).count(b"data: ") == 501
