"""The calls of a page to the store are few, and do not grow with its content."""

from __future__ import annotations

import functools
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from headrace import Headrace
from tests.surfaces.web.client import Client
from tests.surfaces.web.pages.stock import PATHS, stock
from tests.surfaces.web.pages.tasks import register
from tests.surfaces.web.test_pages import app

__all__ = ["app"]  # the fixture: an app on each engine
pytestmark = pytest.mark.engines("sqlite")
PAGES = {
    "overview": "/",
    "queues": "/queues",
    "queue": "/queues/orders",
    "workers": "/workers",
    "worker": "/workers/w0",
    "jobs": "/jobs",
    "job": "/jobs/{job}",
    "enqueue": "/enqueue",
    **PATHS,
}
# Calls for one page with its frame and navigation. Each series is one call, at most once in five seconds for all
# requests; the doctor checks everything, in the background, at most every 15 seconds.
MOST = 30
WITH_CURVES = {"overview": 60, "queue": 60, "worker": 60, "system": 60}


class Spy:
    """Counts calls to an engine and to its parts, without calls between the parts."""

    def __init__(self, app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
        self._here = threading.local()
        self.calls: Counter[str] = Counter()
        parts = [part for name in dir(app.engine) if not name.startswith("_") and (part := getattr(app.engine, name))]
        engine_types = {type(part) for part in parts if type(part).__module__.startswith("headrace.engines.")}
        for kind in {type(app.engine), *engine_types}:
            for name, function in list(vars(kind).items()):
                if callable(function) and not name.startswith("_"):
                    monkeypatch.setattr(kind, name, self._counting(f"{kind.__name__}.{name}", function))

    def _counting(self, name: str, function: Any) -> Any:
        @functools.wraps(function)
        def counted(*args: Any, **named: Any) -> Any:
            if getattr(self._here, "inside", False):
                return function(*args, **named)
            self.calls[name] += 1
            with self._within():
                return function(*args, **named)

        return counted

    @contextmanager
    def _within(self) -> Iterator[None]:
        self._here.inside = True
        try:
            yield
        finally:
            self._here.inside = False


def grow(app: Headrace, numbers: range) -> None:
    """Add more of everything that a page lists."""
    for n in numbers:
        task = app.task(name=f"task{n}", queue=f"queue{n}")(lambda *_: None)
        task.enqueue(n)
        app.task_by_name("refuse").using(queue=f"queue{n}", delay=3600).enqueue(n)
        app.schedules.create(f"schedule{n}", f"task{n}", every=3600, args=[n])
        app.alerts.rules.create(f"rule{n}", when="depth > 0", per=["queue"])
        app.alerts.channels.create(f"channel{n}", kind="slack", url=f"https://chat.example.com/{n}")
        app.alerts.trigger(f"alert{n}", "somebody saw smoke")
        app.alerts.silence(f"rule{n}", for_=60)
        app.webhooks.create(f"https://example.com/{n}")
        app.lifecycle.configure(queue=f"queue{n}", max_pending=3600)
        app.queue(f"queue{n}").configure(concurrency=5)
        flow = app.flow(f"flow{n}")
        flow.add(task.bind(1)).after(flow.add(task.bind(2)))
        flow.enqueue()
    with app.worker(queues=["nothing"]) as worker:
        row = worker.describe()
    for n in numbers:
        app.engine.renew(replace(row, id=f"w{n}", state="running"), (), app.clock.now())


def costs(app: Headrace, spy: Spy, names: dict[str, str]) -> dict[str, Counter[str]]:
    """The calls of each page, with an empty cache."""
    found = {}
    for name, path in PAGES.items():
        client = Client(app.asgi())
        app.metrics.snapshot()  # the first read of metrics aggregates new events
        spy.calls.clear()
        answer = client.get(path.format(**names))
        assert answer.status_code == 200, path
        assert re.fullmatch(r"page;dur=\d+\.\d", answer.headers["server-timing"])
        found[name] = spy.calls.copy()
    return found


@pytest.mark.slow
def test_a_page_needs_as_few_calls_of_a_full_store_as_of_a_small_one(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.web.pages.page_cache._TIMEOUT", 60.0)  # all calls come before the response
    monkeypatch.setattr("headrace.web.pages.page_cache.time", SimpleNamespace(monotonic=lambda: 1.0))  # and only once
    names, spy = stock(app, register(app)), Spy(app, monkeypatch)
    grow(app, range(1))
    few = costs(app, spy, names)
    grow(app, range(1, 9))
    many = costs(app, spy, names)
    # One request or the next makes a shared call: one more call is not one for each of the eight.
    grown = {(name, what): more for name in PAGES for what, more in (many[name] - few[name]).items() if more >= 4}
    assert grown == {}
    assert {name: dict(calls) for name, calls in many.items() if calls.total() > WITH_CURVES.get(name, MOST)} == {}
