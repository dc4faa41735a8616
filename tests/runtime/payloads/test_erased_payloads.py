"""An erasure deletes the payloads of a person at once, and those of others stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace import ConfigError, Headrace, PermanentError
from headrace.testing import drain
from tests.support.builders import new_job

LARGE = "x" * 5000


def files(folder: Path) -> int:
    return len([*(folder / "payloads").rglob("*.call.*"), *(folder / "payloads").rglob("*.result.*")])


def test_the_payloads_of_a_person_are_erased_at_once(url: str, folder: Path) -> None:
    with Headrace(url, payload_store=f"{folder}/payloads", payload_threshold=1024) as app:

        @app.task
        def echo(text: str) -> str:
            return text

        @app.task(retry=0)
        def give_up(text: str) -> None:
            raise PermanentError("no")

        for task in (echo, give_up):
            task.using(tags=["user:42"]).enqueue(LARGE)
        kept = echo.using(tags=["user:7"]).enqueue(LARGE)
        drain(app)
        assert files(folder) == 5
        app.admin.erase(tag="user:42", dry_run=True)
        assert files(folder) == 5
        erasure = app.admin.erase(tag="user:42", by="eve")
        assert (erasure.jobs, erasure.payloads, files(folder)) == (2, 3, 2)
        assert "3 payloads" in erasure.format_counts()
        assert kept.result() == LARGE
        assert app.admin.erase(tag="user:42", by="eve").payloads == 0


@pytest.mark.engines("sqlite")
def test_an_erasure_needs_the_payload_store_where_there_is_one(folder: Path) -> None:
    store = f"sqlite:///{folder}/q.db"
    with Headrace(store, payload_store=f"{folder}/payloads", payload_threshold=1024) as app:
        app.task(name="echo")(lambda text: text)
        app.enqueue("echo", LARGE)
    with Headrace(store) as app, pytest.raises(ConfigError, match="set payload_store"):
        app.admin.erase(tag="user:42", by="eve")


def test_an_erasure_leaves_a_job_that_one_of_its_filters_excludes(url: str, folder: Path) -> None:
    with Headrace(url, payload_store=f"{folder}/payloads", payload_threshold=1024) as app:
        app.task(name="echo")(lambda text: text)
        kept = app.enqueue("echo", LARGE)
        erasure = app.admin.erase(ids=[kept.id], tag="user:42", by="eve")
        assert (erasure.jobs, erasure.payloads, erasure.events) == (0, 0, 0)
        drain(app)
        assert kept.result() == LARGE


def test_an_erasure_leaves_the_payload_of_a_later_job_with_the_same_id(url: str, folder: Path) -> None:
    with Headrace(url, payload_store=f"{folder}/payloads", payload_threshold=1024) as app:

        @app.task(retry=0)
        def give_up(text: str) -> None:
            raise PermanentError("no")

        echo = app.task(name="echo")(lambda text: text)
        first = give_up.using(tags=["user:42"], job_id="daily").enqueue(LARGE)
        drain(app)
        first.delete()  # its dead letter stays
        later = echo.using(tags=["user:7"], job_id="daily").enqueue(LARGE)
        erasure = app.admin.erase(tag="user:42", by="eve")
        assert (erasure.jobs, erasure.dead_letters) == (0, 1)
        drain(app)
        assert later.result() == LARGE


@pytest.mark.engines("sqlite")
def test_the_payload_of_an_erased_job_in_the_spool_is_erased(
    url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Headrace(url, payload_store=f"{folder}/payloads", payload_threshold=1024) as app:
        job = app.task(name="echo")(lambda text: text).enqueue(LARGE)
        job.delete()
        assert files(folder) == 1
        spooled = new_job(job.id, tags=("user:42",))
        monkeypatch.setattr(app.services, "erase_spooled", lambda wanted, dry_run: int(wanted(spooled)))
        assert app.admin.erase(tag="user:42", dry_run=True).spooled == 1
        assert files(folder) == 1
        erasure = app.admin.erase(tag="user:42", by="eve")
        assert (erasure.spooled, erasure.payloads, files(folder)) == (1, 1, 0)
