"""Events reach who listens: at once, once, in order, behind the last one seen; and a slow one holds up nobody."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import cast

import pytest

from headrace import Headrace, Job
from headrace.core.events.event import EventFilter
from headrace.core.events.log import EventGroup
from headrace.web.sse import ChangedTopics, EachEvent, LiveFeed, Page, StreamFormat, StreamSubscriber, position
from tests.support.site import serve
from tests.support.waiting import PATIENCE
from tests.surfaces.rest.live_stream import Listening


@pytest.fixture
def app(app: Headrace) -> Headrace:
    @app.task(name="add")
    def add(a: int, b: int) -> int:
        return a + b

    return app


def enqueued(app: Headrace, count: int) -> list[str]:
    """The ids of so many jobs, stored together."""
    jobs: list[Job[int]] = app.enqueue_many([{"task": "add", "args": [n, n]} for n in range(count)])
    return [job.id for job in jobs]


@pytest.fixture
def port(app: Headrace) -> Iterator[int]:
    app.enqueue("add", 0, 0)  # the store is there, and has something to tell
    with serve(app) as site:
        yield site.port


def test_a_listener_is_told_what_happens_from_now_on(app: Headrace, port: int) -> None:
    with Listening(port) as listening:
        assert listening.response.headers["content-type"].startswith("text/event-stream")
        assert listening.response.headers["x-accel-buffering"] == "no"
        assert listening.response.readline() == b"retry: 2000\n"
        job = app.enqueue("add", 1, 2)
        frame = listening.frame()
        assert frame["event"] == "job.enqueued"
        assert job.id in frame["data"]
        assert frame["id"]


def test_who_was_cut_off_goes_on_behind_the_last_event_it_saw(app: Headrace, port: int) -> None:
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


def test_from_inside_a_page_too(app: Headrace, port: int) -> None:
    with Listening(port) as listening:
        listening.response.readline()
        ids = enqueued(app, 5)
        frames = [listening.frame() for _ in range(5)]
    assert len({frame["id"] for frame in frames}) == 5
    with Listening(port, f"/api/v1/events?since={frames[2]['id']}") as again:
        assert [again.event()["job_id"] for _ in range(2)] == ids[3:]


def test_a_cursor_from_beyond_the_last_event_goes_on_from_now_and_keeps_nobody_from_hearing(
    app: Headrace, port: int
) -> None:
    with Listening(port, **{"Last-Event-ID": "99999999999999"}) as lost:  # it is the first to listen
        assert lost.response.readline() == b"retry: 2000\n"
        with Listening(port) as other:
            other.response.readline()
            ids = [app.enqueue("add", n, n).id for n in range(2)]
            assert [lost.event()["job_id"] for _ in ids] == ids
            assert [other.event()["job_id"] for _ in ids] == ids


def test_what_is_told_while_one_joins_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [(str(n), [EventGroup("job.enqueued", 0, "mail", "add", None, [str(n)])]) for n in range(1, 5)]
    known = ["1"]  # the last page that the store has

    class Events:
        def last(self) -> str:
            return known[0]

        def read(self, after: str, limit: int) -> list[Page]:
            return [page for page in pages if position(after) < position(page[0]) <= position(known[0])]

    class Store:
        engine = type("Engine", (), {"events": Events()})()

    async def heard() -> bytes:
        live = LiveFeed(cast(Headrace, Store()))
        reader = asyncio.get_running_loop().create_future()
        join = live._join

        async def late(telling: StreamFormat, seen: str | None) -> StreamSubscriber:
            """Joins when the reader has come to page 2, and the store to page 3."""
            live._cursor, known[0] = "2", "3"
            return await join(telling, seen)

        monkeypatch.setattr(live, "_join", late)
        monkeypatch.setattr(live, "_task", reader)
        stream = live.listen(EachEvent(EventFilter()), "1")
        told = await anext(stream)
        [listener] = live._listeners
        for page in pages[2:]:
            live._send_to(listener, [page], {})
        return told + b"".join([await anext(stream) for _ in range(3)])  # that nothing is missed now, and two pages

    told = asyncio.run(heard())
    assert re.findall(rb"^id: (.+)$", told, re.MULTILINE) == [b"2", b"3", b"4"]


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize("path", ["/live", "/api/v1/events"])
def test_who_asks_for_the_headers_of_a_stream_alone_can_ask_for_more(port: int, path: str) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    for method, asked in (("HEAD", path), ("GET", "/healthz")):
        connection.request(method, asked)
        with connection.getresponse() as told:
            assert (told.status, len(told.read()) > 0) == (200, method == "GET")
    connection.close()


def test_filters_choose_types_queue_and_task(app: Headrace, port: int) -> None:
    path = "/api/v1/events?types=job.completed&types=worker.*&queue=mail"
    with Listening(port, path) as listening:
        listening.response.readline()
        app.enqueue("add", 1, 1)
        wanted = app.task_by_name("add").using(queue="mail").enqueue(2, 2)
        with app.worker(concurrency=1):
            wanted.wait(PATIENCE)
        event = listening.event()
        assert (event["type"], event["job_id"], event["queue"]) == ("job.completed", wanted.id, "mail")


def test_pages_of_the_dashboard_hear_what_changed(app: Headrace, port: int) -> None:
    with Listening(port, "/live") as listening:
        listening.response.readline()
        job = app.task_by_name("add").using(queue="mail").enqueue(2, 2)
        frame = listening.frame()
        assert frame["event"] == "changed"
        assert f'"job:{job.id}"' in frame["data"]
        assert '"queue:mail"' in frame["data"]


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize("query", ["since=nonsense", "types=job.exploded", "queue=%00"])
def test_a_bad_wish_is_refused_before_the_stream_begins(port: int, query: str) -> None:
    with Listening(port, f"/api/v1/events?{query}") as listening:
        assert listening.response.status == 422


@pytest.mark.slow
@pytest.mark.engines("sqlite")
def test_one_that_takes_nothing_is_dropped_and_the_others_hear_all(app: Headrace, port: int) -> None:
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


def test_a_listener_that_is_too_far_behind_is_let_go() -> None:
    listener = StreamSubscriber(EachEvent(EventFilter()), (0,))
    taken = 0
    while listener.offer(b"x" * 100_000):
        taken += 1
        assert taken < 1000
    assert 10 < taken <= 32


def test_what_is_told_of_very_many_jobs_is_that_everything_changed() -> None:
    few = EventGroup("job.enqueued", 0, "mail", "add", None, ["1", "2"])
    many = EventGroup("job.enqueued", 0, "mail", "add", None, [str(n) for n in range(1000)])
    told = ChangedTopics().write([("7", [few])], None)
    assert told == b'id: 7\nevent: changed\ndata: ["job","queue:mail","task:add","job:1","job:2"]\n\n'
    assert b'["*"]' in ChangedTopics().write([("8", [many])], None)


def test_cursors_of_pages_are_in_the_order_of_events() -> None:
    assert position("9") < position("10")
    assert position("1700000000000-2") < position("1700000000000-10")
    assert position("12.3") == position("12")
