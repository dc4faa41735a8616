"""Handlers of events in trouble: a store that goes away, handlers that raise, clocks that were wrong, backlogs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec
import pytest

from headrace import Event, Headrace
from headrace.core.documents import Document
from headrace.core.events.log import EventGroup
from headrace.errors import EngineUnavailable
from headrace.runtime.events import handlers
from headrace.runtime.events.handlers import KIND, HandlerCursor
from tests.support.gates import Gate
from tests.support.waiting import eventually


def _begin_at(app: Headrace, name: str, place: HandlerCursor) -> None:
    assert app.engine.document_store.put([Document(KIND, name, 0, msgspec.json.encode(place).decode())])


@pytest.mark.engines("sqlite")
def test_a_handler_everywhere_that_fails_at_first_gets_no_earlier_events(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "_PAUSES", (0.01,))
    app.task_by_name("old").enqueue()
    gate, seen = Gate(), list[str | None]()
    _begin_at(app, "slow", HandlerCursor("0"))
    app.on("job.enqueued", name="slow")(lambda event: gate.pass_through())

    def handle(event: Event) -> None:
        seen.append(event.task)
        if len(seen) == 1:
            raise RuntimeError("not yet")

    app.on("job.enqueued", name="here", everywhere=True)(handle)
    with app.listening():
        gate.wait_until_reached()  # so that there is something to handle when it looks for the first time
        app.task_by_name("new").enqueue()
        gate.open()
        eventually(lambda: len(seen) >= 2, "it is tried again")
    assert seen == ["new", "new"]


def test_an_outage_while_a_place_is_noted_loses_no_event(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "_SAVE_EVERY", 0.0)
    monkeypatch.setattr(handlers, "_OUTAGE", 0.01)
    put, outages, seen = app.engine.document_store.put, ["on purpose"], list[str | None]()

    def put_unless_away(documents: Sequence[Document]) -> bool:
        if len(seen) == 2 and outages:
            raise EngineUnavailable(outages.pop())
        return put(documents)

    monkeypatch.setattr(app.engine.document_store, "put", put_unless_away)
    app.on("job.enqueued", name="audit")(lambda event: seen.append(event.task))
    with app.listening():
        app.enqueue_many([app.task_by_name(f"t{number}").bind() for number in range(5)])  # on one page
        app.task_by_name("last").enqueue()
        eventually(lambda: seen[-1:] == ["last"], "all are handled")
    assert outages == []
    assert sorted(map(str, seen)) == ["last", *(f"t{number}" for number in range(5))]


def test_an_outage_while_an_event_is_passed_over_loses_no_other(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "_PAUSES", ())
    monkeypatch.setattr(handlers, "_OUTAGE", 0.01)
    append, outages, seen = app.engine.events.append, ["on purpose"], list[str | None]()

    def append_unless_away(groups: Sequence[EventGroup]) -> None:
        if outages:
            raise EngineUnavailable(outages.pop())
        append(groups)

    def handle(event: Event) -> None:
        seen.append(event.task)
        if event.task == "bad":
            raise RuntimeError("not this one")

    monkeypatch.setattr(app.engine.events, "append", append_unless_away)
    app.on("job.enqueued", name="picky")(handle)
    with app.listening():
        app.enqueue_many([app.task_by_name(name).bind() for name in ("bad", "good")])
        app.task_by_name("last").enqueue()
        eventually(lambda: seen[-1:] == ["last"], "all are handled")
    assert sorted(map(str, seen)) == ["bad", "bad", "good", "last"]
    [document] = app.engine.document_store.get(KIND, ["picky"])
    assert msgspec.json.decode(document.value, type=HandlerCursor).passed_over == 1


def _leave() -> None:
    raise SystemExit(1)


def _give_up() -> None:
    raise asyncio.CancelledError


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize("is_coroutine", [False, True])
@pytest.mark.parametrize("how", [_leave, _give_up])
def test_a_handler_that_wants_to_leave_takes_no_other_with_it(
    app: Headrace, monkeypatch: pytest.MonkeyPatch, how: Callable[[], None], is_coroutine: bool
) -> None:
    monkeypatch.setattr(handlers, "_PAUSES", ())

    def plain(event: Event) -> None:
        how()

    async def coroutine(event: Event) -> None:
        how()

    seen: list[str | None] = []
    app.on("job.enqueued", name="leaves")(coroutine if is_coroutine else plain)
    app.on("job.enqueued", name="stays")(lambda event: seen.append(event.task))
    with app.listening():
        for name in ("first", "second"):
            app.task_by_name(name).enqueue()
        eventually(lambda: seen == ["first", "second"], "the other one is called")
        eventually(lambda: len(list(app.events(follow=False, types="worker.error"))) == 2, "it is emitted")


def test_a_wrong_clock_does_not_block_a_handler(app: Headrace) -> None:
    wrong = HandlerCursor(app.events.last(), holder="who-was-killed", until=app.clock.now() + 365 * 86_400_000)
    _begin_at(app, "audit", wrong)
    seen: list[str | None] = []
    app.on("job.enqueued", name="audit")(lambda event: seen.append(event.task))
    with app.listening():
        app.task_by_name("x").enqueue()
        eventually(lambda: seen == ["x"], "it is handled")


def test_a_position_is_stored_also_while_no_event_matches(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "_SAVE_EVERY", 0.0)
    began = app.events.last()
    _begin_at(app, "audit", HandlerCursor(began))
    for _ in range(101):  # more than are read at once
        app.engine.events.append([EventGroup("worker.started", app.clock.now())])
    app.task_by_name("x").enqueue()
    noted: list[str] = []

    def handle(event: Event) -> None:
        [document] = app.engine.document_store.get(KIND, ["audit"])
        noted.append(msgspec.json.decode(document.value, type=HandlerCursor).cursor)

    app.on("job.enqueued", name="audit")(handle)
    with app.listening():
        eventually(lambda: noted, "it is handled")
    assert noted != [began], "another one would have to read all of it once more"
