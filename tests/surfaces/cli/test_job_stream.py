"""`headrace jobs stream`: texts as they are, data as JSON, live, without secrets and without control characters."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from headrace import Headrace, Job, current_job
from tests.support.command_line import Shell, finish


@pytest.fixture
def app(shell: Shell) -> Iterator[Headrace]:
    with shell.app() as app:
        yield app


def told(app: Headrace, *chunks: Any) -> Job[Any]:
    def tell() -> None:
        for chunk in chunks:
            current_job().stream(chunk)

    job = app.task(name="tell", retry=0)(tell).using(job_id="told-0001").enqueue()
    app.run_worker(drain=True)
    return job


def test_texts_continue_each_other_and_data_is_a_line(shell: Shell, app: Headrace) -> None:
    job = told(app, "to", "ken", {"n": 1}, "a line\n", "rest")
    assert shell("jobs", "stream", job.id) == (0, 'token\n{"n":1}\na line\nrest\n', "")


def test_a_retry_is_told(shell: Shell, app: Headrace) -> None:
    job = told(app, "x")
    assert job.retry()
    app.run_worker(drain=True)
    assert shell("jobs", "stream", job.id) == (0, "x\nx\n", "the stream begins anew, in attempt 1\n")


def test_it_goes_on_behind_a_cursor_that_json_shows(shell: Shell, app: Headrace) -> None:
    job = told(app, "a", "b", "c")
    chunks = shell("jobs", "stream", job.id, "--json").json
    assert [chunk["data"] for chunk in chunks] == ["a", "b", "c"]
    assert shell("jobs", "stream", job.id, "--after", chunks[0]["cursor"]).out == "bc\n"
    assert shell("jobs", "stream", job.id, "--after", "x").code == 2


def test_it_shows_no_secret_and_steers_no_terminal(shell: Shell, app: Headrace) -> None:
    job = told(app, "\x1b[31mred", {"password": "hunter2", "\x1b": 1})
    for form in ((), ("--json",), ("--follow",)):
        out = shell("jobs", "stream", job.id, *form).out
        assert "\x1b" not in out
        assert "hunter2" not in out


def test_a_job_without_a_stream_says_so(shell: Shell, app: Headrace) -> None:
    assert shell("jobs", "stream", told(app).id) == (0, "", "the job has streamed nothing\n")


def test_following_shows_chunks_as_they_come_and_ends_with_the_job(shell: Shell, app: Headrace) -> None:
    gate = threading.Event()

    def tell() -> None:
        current_job().stream("before\n")
        assert gate.wait(30)
        current_job().stream("after\n")

    app.task(name="tell")(tell).using(job_id="told-0001").enqueue()
    with app.worker():
        follower = shell.start("jobs", "stream", "told-0001", "--follow")
        assert follower.stdout is not None
        assert follower.stdout.readline() == "before\n"
        gate.set()
        assert finish(follower) == (0, "after\n", "the job is completed\n")


def test_json_and_following_exclude_each_other(shell: Shell, app: Headrace) -> None:
    assert shell("jobs", "stream", told(app).id, "--follow", "--json").code == 2
