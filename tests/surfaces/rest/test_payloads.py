"""Jobs with large payloads over REST: shown by reference, loaded when asked, resolved for HTTP workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace
from headrace.core.codec.payload_refs import reference_in
from headrace.testing import drain
from tests.surfaces.rest.kit import Api

BIG = "x" * 5000
ASK = {"worker": "node-1", "tasks": ["echo"], "queues": {"default": 1}, "limit": 10}


@pytest.fixture
def app(url: str, folder: Path) -> Iterator[Headrace]:
    with Headrace(url, payload_store=f"{folder}/payloads", payload_threshold=1024, max_payload=10_000) as app:
        app.task(name="echo")(lambda text: text)
        yield app


@pytest.fixture
def api(app: Headrace) -> Api:
    return Api(app.asgi(rate=None))


def test_a_record_has_the_reference_and_loads_when_asked(app: Headrace, api: Api) -> None:
    job = app.enqueue("echo", BIG)
    drain(app)
    record = api.ask("GET", f"/jobs/{job.id}")
    ref = reference_in(job.full_row.payload)
    assert ref is not None
    assert record["stored_call"] == {"path": ref.path, "size": ref.size, "sha256": ref.sha256}
    assert record["stored_result"]["size"] == len(BIG) + 2
    assert (record["args"], record["arguments"]) == (None, None)
    assert record["unreadable"] == f"not loaded: payload {ref.path} of 5,025 bytes is in the payload store"
    assert record["result"]["$unreadable"].startswith("not loaded: payload ")
    record = api.ask("GET", f"/jobs/{job.id}?payloads=true")
    assert (record["args"], record["result"]) == ([BIG], BIG)
    assert "unreadable" not in record
    [listed] = api.ask("GET", "/jobs")["jobs"]
    assert listed["arguments"] is None


def test_more_than_an_answer_can_bear_is_not_loaded(app: Headrace, api: Api) -> None:
    job = app.enqueue("echo", BIG * 3)
    assert "not loaded" in api.ask("GET", f"/jobs/{job.id}?payloads=true")["unreadable"]


def test_a_missing_file_and_an_outage_are_errors_of_the_record_alone(app: Headrace, api: Api, folder: Path) -> None:
    job = app.enqueue("echo", BIG)
    ref = reference_in(job.row.payload)
    assert ref is not None
    (folder / "payloads" / ref.path).unlink()
    assert "missing from the payload store" in api.ask("GET", f"/jobs/{job.id}?payloads=true")["unreadable"]
    (folder / "payloads").rename(folder / "away")
    assert "is not mounted" in api.ask("GET", f"/jobs/{job.id}?payloads=true")["unreadable"]
    assert len(api.ask("GET", "/jobs")["jobs"]) == 1


def test_an_http_worker_gets_the_arguments_and_stores_a_large_result(app: Headrace, api: Api) -> None:
    job = app.enqueue("echo", BIG)
    [claim] = api.ask("POST", "/worker/claim", json=ASK)["jobs"]
    assert claim["args"] == [BIG]
    outcome: dict[str, Any] = {"id": claim["id"], "version": claim["version"], "outcome": "success", "result": BIG}
    [done] = api.ask("POST", "/worker/settle", json={"worker": "node-1", "outcomes": [outcome]})["results"]
    assert done["applied"]
    assert job.refresh().outcome() == BIG
    assert reference_in(job.full_row.result or "") is not None


def test_during_an_outage_an_http_worker_gets_other_jobs(
    app: Headrace, api: Api, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away, other = app.enqueue("echo", BIG), app.enqueue("echo", "small")
    (folder / "payloads").rename(folder / "away")
    claims = api.ask("POST", "/worker/claim", json=ASK)["jobs"]
    assert [claim["id"] for claim in claims] == [other.id]
    assert away.refresh().state == "scheduled"
    assert "is not mounted" in (away.reason or "")
    assert away.attempt == 0


@pytest.mark.parametrize("damage", ["missing", "away"])
def test_an_error_of_an_http_worker_is_not_stored_unmasked(app: Headrace, api: Api, folder: Path, damage: str) -> None:
    app.task(name="login", redact=["secret"], retry=0)(lambda text, secret: text)
    job = app.enqueue("login", BIG, secret="hunter2")
    [claim] = api.ask("POST", "/worker/claim", json={**ASK, "tasks": ["login"]})["jobs"]
    assert claim["kwargs"] == {"secret": "hunter2"}
    ref = reference_in(job.row.payload)
    assert ref is not None
    if damage == "missing":
        (folder / "payloads" / ref.path).unlink()
    else:
        (folder / "payloads").rename(folder / "away")
    error = {"type": "ValueError", "message": "no hunter2", "traceback": "with hunter2"}
    outcome = {"id": claim["id"], "version": claim["version"], "outcome": "failure", "error": error}
    api.ask("POST", "/worker/settle", json={"worker": "node-1", "outcomes": [outcome]})
    [stored] = job.refresh().errors
    assert stored.type == "ValueError"
    assert "hunter2" not in f"{stored.message}{stored.traceback}"
