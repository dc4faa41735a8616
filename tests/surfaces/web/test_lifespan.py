"""The lifespan that an app gives to FastAPI, Starlette and Litestar."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import queue
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from headrace import ConfigError, EngineUnavailable, Headrace
from headrace.runtime.process.stop_signals import on_stop_signal, server_is_ending
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.engines("sqlite")


@contextmanager
def running(site: Any) -> Iterator[dict[str, Any]]:
    """The site between its startup and its shutdown; gives its state. Raises what its startup said."""
    state: dict[str, Any] = {}
    messages: queue.Queue[dict[str, Any]] = queue.Queue()
    replies: queue.Queue[dict[str, Any]] = queue.Queue()

    async def receive() -> dict[str, Any]:
        return await asyncio.to_thread(messages.get)

    async def send(message: dict[str, Any]) -> None:
        replies.put(message)

    def live() -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": state}
        with contextlib.suppress(Exception):  # what it said is enough
            asyncio.run(site(scope, receive, send))

    thread = threading.Thread(target=live, name="test-lifespan", daemon=True)
    thread.start()
    messages.put({"type": "lifespan.startup"})
    try:
        _expect("startup", replies)
        yield state
        messages.put({"type": "lifespan.shutdown"})
        _expect("shutdown", replies)
    finally:
        thread.join(PATIENCE)


def _expect(what: str, replies: queue.Queue[dict[str, Any]]) -> None:
    reply = replies.get(timeout=PATIENCE)
    if reply["type"] != f"lifespan.{what}.complete":
        raise RuntimeError(reply["message"])


def in_fastapi(lifespan: Any) -> Any:
    from fastapi import FastAPI

    return FastAPI(lifespan=lifespan)


def in_starlette(lifespan: Any) -> Any:
    from starlette.applications import Starlette

    return Starlette(lifespan=lifespan)


def in_litestar(lifespan: Any) -> Any:
    from litestar import Litestar

    return Litestar(lifespan=[lifespan], openapi_config=None)


@pytest.mark.parametrize("site", [in_fastapi, in_starlette, in_litestar])
def test_a_site_runs_jobs_between_its_start_and_its_end(app: Headrace, site: Callable[[Any], Any]) -> None:
    add = app.task(name="lifespan.add")(lambda a, b: a + b)
    web = site(app.lifespan(worker=True, concurrency=2))
    for _ in range(2):  # a site may be started again, as tests do
        with running(web):
            assert add.enqueue(1, 2).result(timeout=PATIENCE) == 3
            [worker] = app.workers()
            assert worker.concurrency == 2
        assert app.workers() == []
        assert add.enqueue(1, 2).state == "pending"


def test_without_a_worker_nothing_runs(app: Headrace) -> None:
    with running(in_starlette(app.lifespan())):
        assert app.workers() == []


def test_the_lifespan_of_the_site_runs_around_the_worker_and_gives_its_state(app: Headrace) -> None:
    told: list[Any] = []

    @asynccontextmanager
    async def own(site: Any) -> AsyncIterator[dict[str, str]]:
        told.append((type(site).__name__, len(app.workers())))
        yield {"pool": "open"}
        told.append(len(app.workers()))

    with running(in_starlette(app.lifespan(worker=True, inner=own))) as state:
        assert state == {"pool": "open"}
        assert len(app.workers()) == 1
    assert told == [("Starlette", 0), 0]


def test_the_store_is_opened_at_the_start(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Any:
        raise error

    monkeypatch.setattr(app.engine.maintenance, "facts", fail)
    error = EngineUnavailable("it is away")
    with running(in_starlette(app.lifespan())):
        pass  # a site starts without its store
    error.permanent = True
    with pytest.raises(RuntimeError, match="it is away"), running(in_starlette(app.lifespan())):
        pass


def test_wrong_settings_are_told_when_the_site_is_made(app: Headrace) -> None:
    with pytest.raises(ConfigError, match="did you mean concurrency"):
        app.lifespan(worker=True, concurency=2)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r"concurrency.*add worker=True"):
        app.lifespan(concurrency=2)
    with pytest.raises(ConfigError, match="inner=3"):
        app.lifespan(inner=3)  # type: ignore[arg-type]


# -- signals


@pytest.fixture
def handled() -> Any:
    """The signals of a handler that stands for the server's."""
    caught: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: caught.append(number))
    yield caught
    signal.signal(signal.SIGTERM, before)


def test_a_stop_signal_is_heard_before_the_handler_of_the_server(handled: list[int]) -> None:
    server = signal.getsignal(signal.SIGTERM)
    heard: list[int] = []
    undo = on_stop_signal(lambda: heard.append(len(handled)))
    signal.raise_signal(signal.SIGTERM)
    assert (heard, handled) == ([0], [signal.SIGTERM])
    undo()
    assert signal.getsignal(signal.SIGTERM) is server


def test_a_handler_that_was_put_in_front_stays_and_ours_is_silent(handled: list[int]) -> None:
    heard: list[str] = []
    undo = on_stop_signal(lambda: heard.append("ours"))
    ours: Any = signal.getsignal(signal.SIGTERM)
    theirs = signal.signal(signal.SIGTERM, functools.partial(ours))
    assert theirs is ours
    undo()
    signal.raise_signal(signal.SIGTERM)
    assert (heard, handled) == ([], [signal.SIGTERM])


def test_a_callback_that_fails_does_not_keep_the_server_from_stopping(
    handled: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    undo = on_stop_signal(lambda: 1 / 0)
    signal.raise_signal(signal.SIGTERM)
    undo()
    assert handled == [signal.SIGTERM]
    assert "callback of a stop signal failed" in caplog.text


def test_other_threads_and_signals_without_a_handler_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    undo = on_stop_signal(lambda: None)
    if before is signal.SIG_DFL:
        assert signal.getsignal(signal.SIGTERM) is before
    undo()
    found: list[Any] = []

    def elsewhere() -> None:
        interrupt = signal.getsignal(signal.SIGINT)
        on_stop_signal(lambda: None)()
        found.append(signal.getsignal(signal.SIGINT) is interrupt)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(PATIENCE)
    assert found == [True]


class Listener:
    def __init__(self) -> None:
        self.serving = True

    def is_serving(self) -> bool:
        return self.serving


class Server:
    """As much of a uvicorn server as matters."""

    should_exit = False
    started = True

    def __init__(self) -> None:
        self.servers = [Listener()]

    def handle_exit(self, number: int, frame: Any) -> None:
        self.should_exit = True


@pytest.mark.usefixtures("handled")
def test_a_server_that_stops_is_noticed_behind_other_handlers() -> None:
    server = Server()
    signal.signal(signal.SIGTERM, server.handle_exit)
    undo = on_stop_signal(lambda: None)
    assert not server_is_ending()
    server.servers[0].serving = False  # after its last request, without a signal
    assert server_is_ending()
    server.servers[0].serving = True
    signal.raise_signal(signal.SIGTERM)
    assert server_is_ending()
    undo()
