"""A text search over HTTP finds shown text of jobs, and no redacted text."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from headrace import Headrace
from tests.surfaces.rest.kit import Api
from tests.surfaces.web.client import Client

HIDDEN = ["hunter2", '"password":"h', "hunter2-in-metadata", "letter-3"]


@pytest.fixture
def app(app: Headrace) -> Headrace:
    @app.task(name="sign_in", redact=("pin",))
    def sign_in(user: str, password: str, pin: str = "") -> None: ...

    sign_in.using(metadata={"token": "hunter2-in-metadata", "shop": "vienna"}).enqueue("Ann", "hunter2", pin="letter-3")
    sign_in.enqueue("Bob", "other")
    return app


def users(found: dict[str, Any], app: Headrace) -> list[str]:
    return [app.jobs.get(job["id"]).args[0] for job in found["jobs"]]


@pytest.mark.parametrize("text", HIDDEN)
def test_redacted_text_is_not_found(app: Headrace, api: Api, text: str) -> None:
    found = api.ask("GET", f"/jobs?limit=1&total=true&text={quote(text)}")
    assert (found["jobs"], found["cursor"], found["total"]) == ([], None, 0)
    for act in ("cancel", "delete"):
        assert api.ask("POST", f"/jobs/{act}", json={"text": text, "dry_run": True})["changed"] == 0
        assert api.ask("POST", f"/jobs/{act}", json={"text": text})["changed"] == 0
    assert app.jobs.count(state="pending") == 2
    assert app.jobs.find()[1].id not in Client(app.asgi()).get(f"/jobs?text={quote(text)}").text


@pytest.mark.parametrize("text", ["Ann", "vienna", '"pin":"***"', '"shop":"vien'])
def test_shown_text_is_found_and_selects_jobs_for_actions(app: Headrace, api: Api, text: str) -> None:
    found = api.ask("GET", f"/jobs?limit=1&total=true&text={quote(text)}")
    assert (users(found, app), found["total"], found["total_is_exact"]) == (["Ann"], 1, True)
    assert found["jobs"][0]["id"] in Client(app.asgi()).get(f"/jobs?text={quote(text)}").text
    assert api.ask("POST", "/jobs/cancel", json={"text": text, "dry_run": True})["changed"] == 1
    assert api.ask("POST", "/jobs/cancel", json={"text": text, "queue": "default"})["changed"] == 1
    assert app.jobs.count(state="cancelled") == 1


def test_the_cursor_continues_after_the_last_found_job(app: Headrace, api: Api) -> None:
    page = api.ask("GET", "/jobs?limit=1&text=sign_in")
    rest = api.ask("GET", f"/jobs?limit=5&text=sign_in&cursor={page['cursor']}")
    assert (users(page, app), users(rest, app), rest["cursor"]) == (["Bob"], ["Ann"], None)


def test_an_action_that_would_scan_too_many_jobs_is_refused(
    app: Headrace, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.web.text_search._MAX_SCANNED", 1)
    response = api("POST", "/jobs/delete", json={"text": "Ann"})
    assert (response.status_code, "add another filter" in response.text) == (422, True)
    assert app.jobs.count() == 2


def test_a_search_that_stops_says_how_far_it_came_and_goes_on_from_there(
    app: Headrace, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.enqueue_many([{"task": "other", "args": [n]} for n in range(5)])
    monkeypatch.setattr("headrace.web.api.resources.jobs._TEXT_SCAN_LIMIT", 4)
    first = api.ask("GET", "/jobs?text=Ann")
    assert (first["jobs"], first["searched"]) == ([], 4)
    second = api.ask("GET", f"/jobs?text=Ann&cursor={first['cursor']}")
    assert (users(second, app), second["cursor"], second["searched"]) == (["Ann"], None, None)
    monkeypatch.setattr("headrace.web.pages.views.jobs.TEXT_SCAN_LIMIT", 4)
    page = Client(app.asgi()).get("/jobs?text=Ann").text
    assert "None of the newest 4 jobs matches" in page
    assert "4 jobs searched, there are older ones" in page
    assert "Search older jobs <svg" in page
    rest = Client(app.asgi()).get(f"/jobs?text=Ann&cursor={first['cursor']}").text
    assert "jobs searched" not in rest
    assert second["jobs"][0]["id"] in rest


def test_a_page_in_python_says_how_far_the_search_came(app: Headrace) -> None:
    app.enqueue_many([{"task": "other", "args": [n]} for n in range(50)])
    stopped = app.jobs.find(text="Ann", reach=10)
    assert (list(stopped), stopped.searched) == ([], 10)
    assert stopped.cursor is not None
    rest = app.jobs.find(text="Ann", cursor=stopped.cursor)
    assert ([job.args[0] for job in rest], rest.searched) == (["Ann"], None)
    assert app.jobs.find(limit=10, reach=1000).searched is None
