"""The export of archived jobs: it has their logs, and names a missing package."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import ConfigError, Headrace, current_job
from headrace.testing import VirtualClock, drain


@pytest.fixture
def app() -> Iterator[Headrace]:
    """One job is in the archive. It has logged two lines."""
    clock = VirtualClock()
    with Headrace("memory://", clock=clock) as app:

        @app.task(name="talk")
        def talk() -> None:
            current_job().log("careful", level="warning", step=1)
            current_job().log("done")

        talk.enqueue()
        drain(app)
        clock.advance(60 * 86_400)
        assert app.lifecycle.archive(dry_run=False).archived == 1
        yield app


def test_the_logs_of_a_job_are_exported_with_their_fields(app: Headrace, tmp_path: Path) -> None:
    assert app.lifecycle.export(tmp_path / "jobs.jsonl") == 1
    [line] = (tmp_path / "jobs.jsonl").read_text().splitlines()
    record = json.loads(line)
    logs = [(log["level"], log["message"], log["fields"]) for log in record["logs"]]
    assert logs == [("warning", "careful", {"step": 1}), ("info", "done", {})]
    assert record["logs"][0]["at"] == record["finished_at"], "the clock stood still"


def test_a_table_without_its_package_is_refused_and_leaves_no_file(
    app: Headrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"pip install 'headrace\[parquet\]'"):
        app.lifecycle.export(tmp_path / "jobs.parquet")
    assert list(tmp_path.iterdir()) == []
