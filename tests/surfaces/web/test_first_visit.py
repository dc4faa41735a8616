"""The first request after a start: it waits neither for templates nor for each chart."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from headrace import Headrace
from headrace.web.asgi import make
from headrace.web.pages import page_cache
from headrace.web.pages.page_cache import CachedValue, PageCache
from headrace.web.pages.templating import compile_all, environment
from tests.support.waiting import PATIENCE, eventually
from tests.surfaces.web.client import Client
from tests.surfaces.web.test_pages import app

__all__ = ["app"]  # the fixture: an app on each engine
NUMBERS_OF = "These numbers are from"


@pytest.mark.engines("sqlite")
def test_no_page_compiles_a_template_after_the_warm_up(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_all()

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a visitor waits for a template")

    monkeypatch.setattr(environment(), "compile", refuse)
    client = Client(app.asgi())
    for path in ("/", "/jobs", "/flows", "/dead", "/schedules", "/alerts", "/lifecycle", "/workers", "/system"):
        assert client.get(path).status_code == 200, path


@pytest.mark.engines("sqlite")
def test_a_request_waits_once_for_all_metrics_while_a_backlog_is_counted(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    timeouts: list[float] = []
    original = CachedValue.get_within

    def count(*_: Any, **__: Any) -> Any:
        gate.wait(PATIENCE)
        raise AssertionError("it was not to be counted")

    def get_within(cached: CachedValue[Any], seconds: float | None) -> Any:
        if seconds is not None:
            timeouts.append(seconds)
        return original(cached, seconds)

    monkeypatch.setattr(type(app.metrics), "snapshot", count)
    monkeypatch.setattr(type(app.metrics), "series", count)
    monkeypatch.setattr(CachedValue, "get_within", get_within)
    try:
        assert Client(app.asgi()).get("/").status_code == 200
    finally:
        gate.set()
    assert len(timeouts) > 3
    assert sum(timeouts) < 2 * page_cache._TIMEOUT


@pytest.mark.engines("sqlite")
def test_metrics_are_aggregated_by_one_thread(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once, most, lock = 0, 0, threading.Lock()
    series = type(app.metrics).series

    def counted(*given: Any, **how: Any) -> Any:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        try:
            return series(*given, **how)
        finally:
            with lock:
                at_once -= 1

    monkeypatch.setattr(type(app.metrics), "series", counted)
    shared = PageCache(app)
    visits = [
        threading.Thread(target=shared.for_request().series, args=(name, "1h")) for name in ("depth", "throughput")
    ]
    for visit in visits:
        visit.start()
    for visit in visits:
        visit.join(PATIENCE)
    assert most == 1


@pytest.mark.engines("sqlite")
def test_a_server_starts_counting_before_the_first_request(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = threading.Event()

    def count() -> list[Any]:
        counted.set()
        return []

    monkeypatch.setattr(app, "queues", count)
    make(app).warm_up()
    assert counted.wait(PATIENCE)


@pytest.mark.engines("sqlite")
def test_pages_that_only_list_names_of_queues_count_no_jobs(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    app.queue("orders").pause()

    def refuse() -> Any:
        raise AssertionError("jobs are counted")

    monkeypatch.setattr(app, "queues", refuse)
    client = Client(app.asgi())
    for path in ("/enqueue", "/new-schedule", "/new-webhook"):
        assert "orders" in client.get(path).text, path
    assert "Resume queue orders" in client.get("/palette?q=resume").text


@pytest.mark.engines("sqlite")
def test_old_numbers_are_shown_with_their_age_while_new_ones_are_counted(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, passed, count = threading.Event(), 0.0, app.queues

    def count_when_allowed() -> Any:
        assert not passed or gate.wait(PATIENCE)
        return count()

    monkeypatch.setattr(app, "queues", count_when_allowed)
    monkeypatch.setattr(page_cache, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + passed))
    client = Client(app.asgi())
    assert NUMBERS_OF not in client.get("/queues").text
    app.queue("orders").pause()
    passed = 60.0
    old = client.get("/queues").text
    assert (NUMBERS_OF in old, "data-counting" in old, "orders" in old) == (True, True, False)
    gate.set()
    eventually(lambda: "orders" in client.get("/queues").text, "that the new count is shown")
    assert NUMBERS_OF not in client.get("/queues").text
