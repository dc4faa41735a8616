"""The page of a job with large payloads shows where they are, and loads what a page can bear when asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.core.codec.payload_refs import reference_in
from headrace.testing import drain
from tests.surfaces.web.client import Client
from tests.surfaces.web.test_pages import FORM

BIG = "n33dle" * 1000


@pytest.fixture
def app(folder: Path) -> Iterator[Headrace]:
    with Headrace("memory://", payload_store=f"{folder}/payloads", payload_threshold=1024, max_payload=10_000) as app:
        app.task(name="echo")(lambda text: text)
        yield app


@pytest.fixture
def client(app: Headrace) -> Client:
    return Client(app.asgi(), headers={**FORM, "x-requested-with": "test"})


def test_the_page_shows_the_reference_and_loads_on_request(app: Headrace, client: Client) -> None:
    job = app.enqueue("echo", BIG)
    drain(app)
    page = client.get(f"/jobs/{job.id}").text
    ref = reference_in(job.full_row.payload)
    assert ref is not None
    assert f"not loaded: payload {ref.path} of 6,025 bytes is in the payload store" in page
    assert "n33dle" not in page
    assert f'href="/jobs/{job.id}?payloads=1"' in page
    loaded = client.get(f"/jobs/{job.id}?payloads=1").text
    assert loaded.count("n33dle") >= 2000
    assert "Load payloads" not in loaded
    for path in ("/jobs", "/", "/flows", "/queues/default"):
        listed = client.get(path)
        assert listed.status_code == 200
        assert "n33dle" not in listed.text


def test_a_page_offers_no_more_than_it_can_bear(app: Headrace, client: Client) -> None:
    job = app.enqueue("echo", BIG * 3)
    assert "Load payloads" not in client.get(f"/jobs/{job.id}").text
    assert "n33dle" not in client.get(f"/jobs/{job.id}?payloads=1").text


def test_a_missing_file_is_an_error_on_the_page_of_its_job_alone(app: Headrace, client: Client, folder: Path) -> None:
    job = app.enqueue("echo", BIG)
    for path in (folder / "payloads").rglob("*.call.*"):
        path.unlink()
    for query in ("", "?payloads=1"):
        page = client.get(f"/jobs/{job.id}{query}")
        assert page.status_code == 200
    assert "missing from the payload store" in page.text


def test_the_form_to_enqueue_it_again_has_its_arguments(app: Headrace, client: Client) -> None:
    job, too_large = app.enqueue("echo", BIG), app.enqueue("echo", BIG * 3)
    assert "n33dle" in client.get(f"/enqueue?like={job.id}").text
    page = client.get(f"/enqueue?like={too_large.id}")
    assert "not loaded" in page.text
    assert "n33dle" not in page.text


def test_a_dead_letter_shows_where_its_arguments_are(app: Headrace, client: Client) -> None:
    def broken(text: str) -> None:
        raise ValueError("no")

    app.task(name="broken", retry=0)(broken)
    app.enqueue("broken", BIG)
    drain(app)
    [dead] = app.dead.list()
    page = client.get(f"/dead/{dead.id}")
    assert page.status_code == 200
    assert "not loaded: payload" in page.text
    assert "n33dle" not in page.text
