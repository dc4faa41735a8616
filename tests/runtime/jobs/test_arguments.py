"""Arguments by name, in a process that does not have the code of the task."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.app.jobs.arguments import arguments_line
from headrace.app.jobs.records import full_record_of, record_of
from tests.runtime.jobs.test_damaged_records import damage
from tests.runtime.jobs.test_encryption import NEW
from tests.support.engines import empty_store


@pytest.fixture
def url(engine_name: str, folder: Path) -> Iterator[str]:
    """A store that several apps can open."""
    with empty_store(engine_name, folder) as url:
        yield url if url != "memory://" else f"sqlite:///{folder}/jobs.db"


def test_a_process_without_the_code_shows_the_names_that_a_worker_declared(app: Headrace, url: str) -> None:
    @app.task(redact=("card",))
    def pay(order_id: int, card: str, *rest: int, note: str = "") -> None: ...

    job = pay.enqueue(40199, "4711", 1, 2, note="x")
    with Headrace(url) as other:
        assert other.jobs.get(job.id).redacted_arguments() == {
            "0": 40199,
            "1": "***",
            "2": 1,
            "3": 2,
            "note": "x",
        }
    with app.worker(concurrency=1):
        job.result(timeout=20)
    with Headrace(url) as other:
        seen = other.jobs.get(job.id)
        named = {"order_id": 40199, "card": "***", "rest": [1, 2], "note": "x"}
        assert seen.redacted_arguments() == named
        assert arguments_line(seen) == 'order_id=40199, card=***, rest=[1,2], note="x"'
        record = full_record_of(seen)
        assert record.args == [40199, "***", 1, 2]
        assert record.arguments == named


def test_a_name_that_a_worker_declared_is_redacted_in_jobs_that_were_enqueued_by_name(app: Headrace, url: str) -> None:
    @app.task(redact=("pan",))
    def pay(order_id: int, pan: str) -> None: ...

    with Headrace(url) as producer:
        job = producer.enqueue("pay", 1, "4711")
    with app.worker(concurrency=1):
        app.jobs.get(job.id).wait(timeout=20)
    with Headrace(url) as other:
        assert other.jobs.get(job.id).redacted_call() == ((1, "***"), {})


def test_a_changed_signature_is_stored_by_the_next_worker(app: Headrace, url: str) -> None:
    app.task(name="t")(lambda old: None)
    job = app.enqueue("t", 1)
    with app.worker(concurrency=1):
        job.wait(timeout=20)
    with Headrace(url) as newer:
        newer.task(name="t")(lambda new: None)
        with newer.worker(concurrency=1):
            again = newer.enqueue("t", 2)
            again.wait(timeout=20)
    with Headrace(url) as other:
        assert other.jobs.get(again.id).redacted_arguments() == {"new": 2}


@pytest.mark.engines("sqlite")
def test_a_list_neither_reads_long_arguments_nor_opens_encrypted_ones(app: Headrace, url: str) -> None:
    long = app.enqueue("t", "x" * 2000)
    with Headrace(url, encryption_keys=[NEW]) as sealed:
        secret = sealed.enqueue("t", 1)
        listed = {job.id: arguments_line(job) for job in sealed.jobs.find()}
        assert listed == {long.id: "…", secret.id: "encrypted"}
        assert [record_of(job).arguments for job in sealed.jobs.find()] == [None, None]
        assert sealed.jobs.get(secret.id).redacted_arguments() == {"0": 1}


def test_damaged_arguments_do_not_break_a_list(tmp_path: Path) -> None:
    with Headrace(f"sqlite:///{tmp_path}/jobs.db") as app:
        job = app.enqueue("t", 1)
        damage(tmp_path / "jobs.db", job.id, payload="{")
        assert [arguments_line(job) for job in app.jobs.find()] == ["unreadable"]
