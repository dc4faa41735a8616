"""Listeners get events at once, once, in order, after their last one; a slow listener does not block others."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any, cast

import pytest

from headrace import Headrace, Job
from headrace.core.events.event import EventFilter
from headrace.core.events.log import EventGroup
from headrace.runtime.events.follow import EventBell
from headrace.web.sse import ChangedTopics, EachEvent, LiveFeed, Page, StreamFormat, StreamSubscriber, position
from tests.support.site import serve
from tests.support.waiting import PATIENCE, eventually
from tests.surfaces.rest.live_stream import Listening


@pytest.fixture
def app(app: Headrace) -> Headrace:
    @app.task(name="add")
    def add(a: int, b: int) -> int:
        return a + b

    return app


def enqueued(app: Headrace, count: int) -> list[str]:
    """The ids of new jobs, stored in one commit."""
    jobs: list[Job[int]] = app.enqueue_many([{"task": "add", "args": [n, n]} for n in range(count)])
    return [job.id for job in jobs]


@pytest.fixture
def port(app: Headrace) -> Iterator[int]:
    app.enqueue("add", 0, 0)  # the store exists and has an event
    with serve(app) as site:
        yield site.port


def test_a_listener_gets_events_from_now_on(app: Headrace, port: int) -> None:
    with Listening(port) as listening:
        assert listening.response.headers["content-type"].startswith("text/event-stream")
        assert listening.response.headers["x-accel-buffering"] == "no"
        assert listening.response.readline() == b"retry: 2000\n"
        job = app.enqueue("add", 1, 2)
        frame = listening.frame()
        assert frame["event"] == "job.enqueued"
        assert job.id in frame["data"]
        assert frame["id"]


def test_a_quiet_stream_asks_the_bell_and_not_the_store(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, reads, looks = app.engine, list[str | None](), list[bool]()
    real, look = type(engine.events).read, EventBell.is_due

    def read(self: Any, after: str | None, limit: int, *, newest_first: bool = False) -> object:
        if not newest_first:  # or it asks where the log ends
            reads.append(after)
        return real(self, after, limit, newest_first=newest_first)

    def is_due(self: EventBell, wait: float = 0.0) -> bool:
        looks.append(look(self, wait))
        return looks[-1]

    monkeypatch.setattr(type(engine.events), "read", read)
    monkeypatch.setattr(EventBell, "is_due", is_due)
    app.enqueue("add", 0, 0)
    with serve(app) as site, Listening(site.port) as listening:
        listening.response.readline()
        eventually(lambda: len(looks) >= 10, "the reader looks at the bell")
        assert len(reads) <= 2 + sum(looks), "a read at the start, and one for each ring"
        assert not all(looks)
        assert app.enqueue("add", 1, 2).id in listening.frame()["data"]


def test_a_reconnected_listener_continues_after_its_last_event(app: Headrace, port: int) -> None:
    with Listening(port) as listening:
        listening.response.readline()
        ids = [app.enqueue("add", n, n).id for n in range(3)]
        first = listening.frame()
        assert ids[0] in first["data"]
    ids += [app.enqueue("add", n, n).id for n in range(3)]
    with Listening(port, **{"Last-Event-ID": first["id"]}) as again:
        assert [again.event()["job_id"] for _ in range(5)] == ids[1:]
        late = app.enqueue("add", 9, 9).id
        assert again.event()["job_id"] == late


def test_it_continues_inside_a_page_too(app: Headrace, port: int) -> None:
    with Listening(port) as listening:
        listening.response.readline()
        ids = enqueued(app, 5)
        frames = [listening.frame() for _ in range(5)]
    assert len({frame["id"] for frame in frames}) == 5
    with Listening(port, f"/api/v1/events?since={frames[2]['id']}") as again:
        assert [again.event()["job_id"] for _ in range(2)] == ids[3:]


def test_a_cursor_after_the_last_event_starts_now_and_does_not_block_other_listeners(app: Headrace, port: int) -> None:
    with Listening(port, **{"Last-Event-ID": "99999999999999"}) as lost:  # it is the first listener
        assert lost.response.readline() == b"retry: 2000\n"
        with Listening(port) as other:
            other.response.readline()
            ids = [app.enqueue("add", n, n).id for n in range(2)]
            assert [lost.event()["job_id"] for _ in ids] == ids
            assert [other.event()["job_id"] for _ in ids] == ids


def test_events_during_a_join_are_sent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [(str(n), [EventGroup("job.enqueued", 0, "mail", "add", None, [str(n)])]) for n in range(1, 5)]
    known = ["1"]  # the last page of the store

    class Events:
        def read(self, after: str, limit: int, *, newest_first: bool = False) -> list[Page]:
            if newest_first:
                return [(known[0], [])]
            return [page for page in pages if position(after) < position(page[0]) <= position(known[0])]

    class Store:
        engine = type("Engine", (), {"events": Events()})()

    async def heard() -> bytes:
        live = LiveFeed(cast(Headrace, Store()))
        reader = asyncio.get_running_loop().create_future()
        join = live._join

        async def late(stream_format: StreamFormat, seen: str | None) -> StreamSubscriber:
            """Joins when the reader is at page 2 and the store at page 3."""
            live._cursor, known[0] = "2", "3"
            return await join(stream_format, seen)

        monkeypatch.setattr(live, "_join", late)
        monkeypatch.setattr(live, "_task", reader)
        stream = live.listen(EachEvent(EventFilter()), "1")
        received = await anext(stream)
        [listener] = live._listeners
        for page in pages[2:]:
            live._send_to(listener, [page], {})
        return received + b"".join([await anext(stream) for _ in range(3)])  # the retry frame and two pages

    received = asyncio.run(heard())
    assert re.findall(rb"^id: (.+)$", received, re.MULTILINE) == [b"2", b"3", b"4"]


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize("path", ["/live", "/api/v1/events"])
def test_a_head_request_of_a_stream_keeps_the_connection_usable(port: int, path: str) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    for method, request_path in (("HEAD", path), ("GET", "/healthz")):
        connection.request(method, request_path)
        with connection.getresponse() as received:
            assert (received.status, len(received.read()) > 0) == (200, method == "GET")
    connection.close()


def test_filters_choose_types_queue_and_task(app: Headrace, port: int) -> None:
    path = "/api/v1/events?types=job.completed&types=worker.*&queue=mail"
    with Listening(port, path) as listening:
        listening.response.readline()
        app.enqueue("add", 1, 1)
        enqueued_job = app.task_by_name("add").using(queue="mail").enqueue(2, 2)
        with app.worker(concurrency=1):
            enqueued_job.wait(PATIENCE)
        event = listening.event()
        assert (event["type"], event["job_id"], event["queue"]) == ("job.completed", enqueued_job.id, "mail")


def test_pages_of_the_dashboard_get_changed_topics(app: Headrace, port: int) -> None:
    with Listening(port, "/live") as listening:
        listening.response.readline()
        job = app.task_by_name("add").using(queue="mail").enqueue(2, 2)
        frame = listening.frame()
        assert frame["event"] == "changed"
        assert f'"job:{job.id}"' in frame["data"]
        assert '"queue:mail"' in frame["data"]


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize("query", ["since=nonsense", "types=job.exploded", "queue=%00"])
def test_a_bad_parameter_is_refused_before_the_stream_begins(port: int, query: str) -> None:
    with Listening(port, f"/api/v1/events?{query}") as listening:
        assert listening.response.status == 422


@pytest.mark.slow
@pytest.mark.engines("sqlite")
def test_a_stalled_listener_is_dropped_and_the_others_get_all_events(app: Headrace, port: int) -> None:
    stalled = socket.create_connection(("127.0.0.1", port))
    stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stalled.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    heard: list[str] = []
    sent = 200 * 50
    with Listening(port) as listening:
        listening.response.readline()

        def listen() -> None:
            while len(heard) < sent:
                heard.append(listening.event()["job_id"])

        thread = threading.Thread(target=listen)
        thread.start()
        ids: list[str] = []
        for _ in range(50):
            ids += enqueued(app, 200)
        thread.join(PATIENCE)
        assert heard == ids
    stalled.close()


def test_a_listener_that_lags_too_far_is_dropped() -> None:
    listener = StreamSubscriber(EachEvent(EventFilter()), (0,))
    taken = 0
    while listener.offer(b"x" * 100_000):
        taken += 1
        assert taken < 1000
    assert 10 < taken <= 32


def test_changes_of_very_many_jobs_are_sent_as_everything() -> None:
    few = EventGroup("job.enqueued", 0, "mail", "add", None, ["1", "2"])
    many = EventGroup("job.enqueued", 0, "mail", "add", None, [str(n) for n in range(1000)])
    received = ChangedTopics().write([("7", [few])], None)
    assert received == b'id: 7\nevent: changed\ndata: ["job","queue:mail","task:add","job:1","job:2"]\n\n'
    assert b'["*"]' in ChangedTopics().write([("8", [many])], None)


def test_cursors_of_pages_are_in_the_order_of_events() -> None:
    assert position("9") < position("10")
    assert position("1700000000000-2") < position("1700000000000-10")
    assert position("12.3") == position("12")
