"""An erasure deletes the payloads of a person at once, and those of others stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace import ConfigError, Headrace, PermanentError
from headrace.testing import drain

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
