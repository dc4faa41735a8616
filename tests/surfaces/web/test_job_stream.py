"""The stream of a job on its page: the newest part, by attempts, escaped, without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from headrace import Headrace, Job, current_job
from headrace.core.codec.encryption import locked
from headrace.testing import drain
from headrace.web.pages import stream_text
from headrace.web.pages.stream_text import RunText, stream_texts
from tests.surfaces.web.client import Client


@pytest.fixture
def app() -> Iterator[Headrace]:
    with Headrace("memory://") as app:
        yield app


def told(app: Headrace, *chunks: Any) -> Job[Any]:
    @app.task(name="tell")
    def tell() -> None:
        for chunk in chunks:
            current_job().stream(chunk)

    job = app.enqueue("tell")
    drain(app)
    return job


def test_texts_continue_each_other_and_data_is_a_line(app: Headrace) -> None:
    job = told(app, "to", "ken", {"n": 1, "password": "s3cret"}, "rest")
    assert stream_texts(app, job) == [RunText(1, 'token\n{"n": 1, "password": "***"}\nrest', False)]


def test_each_run_has_its_text(app: Headrace) -> None:
    job = told(app, "x")
    assert job.retry()
    drain(app)
    assert [run.text for run in stream_texts(app, job)] == ["x", "x"]


def test_a_long_stream_shows_its_newest_part(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_text, "_MAX_CHARS", 10)
    job = told(app, *(f"{number} " for number in range(100)))
    assert stream_texts(app, job) == [RunText(1, " 97 98 99 ", True)]


def test_a_job_that_streamed_nothing_has_no_block(app: Headrace) -> None:
    job = told(app)
    assert stream_texts(app, job) == []
    assert "j-stream" not in Client(app.asgi())("GET", f"/jobs/{job.id}").text


def test_it_is_escaped(app: Headrace) -> None:
    job = told(app, "<script>alert(1)</script>", {"<b>": "</pre><img src=x onerror=alert(1)>"})
    page = Client(app.asgi())("GET", f"/jobs/{job.id}").text
    (block,) = re.findall(r'<div class="log stream".*?</div>', page, re.DOTALL)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in block
    assert set(re.findall(r"<(\w+)", block)) == {"div", "pre"}


def test_without_the_key_the_page_says_so(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    job = told(app, "x")

    def refuse(*_: str) -> str:
        raise locked("2026a")

    monkeypatch.setattr(app.services, "decrypted", refuse)
    (run,) = stream_texts(app, job)
    assert "encrypted with key '2026a'" in run.text
