"""What a page asks of the store does not grow with what is in it: the questions are few, and always the same."""

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
# Questions for one page, its frame and navigation included. Curves are read one by one, once in five seconds for all
# who look; the doctor asks about everything, in the background, at most every 15 seconds.
MOST = 30
WITH_CURVES = {"overview": 60, "queue": 60, "worker": 60, "system": 60}


class Spy:
    """Counts what is asked of an engine, and of each of its parts; not what these ask of each other."""

    def __init__(self, app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
        self._here = threading.local()
        self.asked: Counter[str] = Counter()
        parts = [part for name in dir(app.engine) if not name.startswith("_") and (part := getattr(app.engine, name))]
        ours = {type(part) for part in parts if type(part).__module__.startswith("headrace.engines.")}
        for kind in {type(app.engine), *ours}:
            for name, function in list(vars(kind).items()):
                if callable(function) and not name.startswith("_"):
                    monkeypatch.setattr(kind, name, self._counting(f"{kind.__name__}.{name}", function))

    def _counting(self, name: str, function: Any) -> Any:
        @functools.wraps(function)
        def counted(*args: Any, **named: Any) -> Any:
            if getattr(self._here, "inside", False):
                return function(*args, **named)
            self.asked[name] += 1
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
    """More of everything that a page may list."""
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
    """What each page asks, of a surface that has seen nothing yet."""
    found = {}
    for name, path in PAGES.items():
        client = Client(app.asgi())
        app.metrics.snapshot()  # who looks at figures first counts what happened since, for everybody
        spy.asked.clear()
        answer = client.get(path.format(**names))
        assert answer.status_code == 200, path
        assert re.fullmatch(r"page;dur=\d+\.\d", answer.headers["server-timing"])
        found[name] = spy.asked.copy()
    return found


@pytest.mark.slow
def test_a_page_asks_as_little_of_a_full_store_as_of_a_small_one(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.web.pages.page_cache._TIMEOUT", 60.0)  # whatever is asked is asked before the answer
    monkeypatch.setattr("headrace.web.pages.page_cache.time", SimpleNamespace(monotonic=lambda: 1.0))  # and only once
    names, spy = stock(app, register(app)), Spy(app, monkeypatch)
    grow(app, range(1))
    few = costs(app, spy, names)
    grow(app, range(1, 9))
    many = costs(app, spy, names)
    # Looks that pages share may be asked for by one visit or the next: one more is none for each of the eight.
    grown = {(name, what): more for name in PAGES for what, more in (many[name] - few[name]).items() if more >= 4}
    assert grown == {}
    assert {name: dict(asked) for name, asked in many.items() if asked.total() > WITH_CURVES.get(name, MOST)} == {}
