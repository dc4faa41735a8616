"""A damaged row fails its own job, with a dead letter, and never the ones beside it."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headrace import CorruptPayload, EngineUnavailable, Headrace, JobFailed
from tests.support.waiting import PATIENCE, eventually


@pytest.fixture
def file(folder: Path) -> Path:
    return folder / "jobs.db"


@pytest.fixture
def stored(file: Path) -> Iterator[Headrace]:
    with Headrace(f"sqlite:///{file}") as app:
        yield app


def damage(file: Path, job_id: str, **columns: Any) -> None:
    """What a bad disk, or a hand that meant well, may do to a row."""
    changes = ", ".join(f"{name} = :{name}" for name in columns)
    with closing(sqlite3.connect(file)) as db, db:
        db.execute(f"UPDATE headrace_jobs SET {changes} WHERE id = :id", {**columns, "id": job_id})
    db.close()


def signed(payload: str) -> dict[str, Any]:
    return {"payload": payload, "checksum": zlib.crc32(payload.encode())}


@pytest.mark.parametrize(
    "columns",
    [
        {"payload": '{"args":[1,3],"kwargs":{}}'},
        {"payload": "not json"},
        {"checksum": 0},
        signed("not json"),
        signed('{"args":[1,2],"kwargs":{},"more":1}'),
        signed('{"args":[{"$pickle":"gASVAA=="}],"kwargs":{}}'),
        signed('{"args":' + "[" * 5000 + "]" * 5000 + ',"kwargs":{}}'),
        signed('{"args":[1,2],"kwargs":[1]}'),
        signed(""),
    ],
)
@pytest.mark.parametrize("kind", ["thread", "async"])
def test_a_damaged_payload_fails_its_job_alone(stored: Headrace, file: Path, kind: str, columns: Any) -> None:
    ran = []

    def run(a: int, b: int) -> str:
        ran.append((a, b))
        return "ran"

    async def arun(a: int, b: int) -> str:
        return run(a, b)

    task = stored.task(name="run", retry=5)(arun if kind == "async" else run)
    jobs = [task.enqueue(1, 2) for _ in range(3)]
    damage(file, jobs[1].id, **columns)
    with stored.worker(concurrency=1):
        assert [jobs[n].result(PATIENCE) for n in (0, 2)] == ["ran", "ran"]
        with pytest.raises(JobFailed, match="CorruptPayload"):
            jobs[1].result(PATIENCE)
    assert ran == [(1, 2), (1, 2)]
    assert (jobs[1].reason, jobs[1].attempt) == ("corrupt_payload", 1)
    with closing(sqlite3.connect(file)) as db, db:
        assert db.execute("SELECT job_id, reason FROM headrace_dead").fetchall() == [(jobs[1].id, "corrupt_payload")]
    db.close()
    with pytest.raises(CorruptPayload):
        assert jobs[1].args


@pytest.mark.parametrize("options", ["not json", "[]", '{"timeout":"soon"}', '{"retry":{"limit":-5}}'])
def test_damaged_options_fail_their_job_alone(stored: Headrace, file: Path, options: str) -> None:
    task = stored.task(name="run")(lambda: "ran")
    jobs = [task.enqueue() for _ in range(3)]
    damage(file, jobs[1].id, options=options)
    with stored.worker(concurrency=3):
        assert [jobs[n].result(PATIENCE) for n in (0, 2)] == ["ran", "ran"]
        assert jobs[1].wait(PATIENCE) == "failed"
    assert stored.jobs.count(state="running") == 0


def test_a_damaged_result_is_told_to_who_asks_for_it_and_the_job_stays_completed(stored: Headrace, file: Path) -> None:
    task = stored.task(name="run")(lambda: "ran")
    with stored.worker():
        job = task.enqueue()
        job.wait(PATIENCE)
    damage(file, job.id, result='"run"')
    with pytest.raises(CorruptPayload, match="checksum"):
        job.result(0)
    assert job.state == "completed"


def test_a_job_written_for_an_older_signature_fails_with_what_does_not_fit(file: Path) -> None:
    url = f"sqlite:///{file}"
    with Headrace(url) as before:
        job = before.task(name="greet")(lambda name: None).enqueue("ann")
    with Headrace(url) as after:

        @after.task(name="greet", retry=0)
        def greet(first: str, last: str) -> None: ...

        with after.worker(), pytest.raises(JobFailed, match="missing 1 required positional argument: 'last'"):
            after.jobs.get(job.id).result(PATIENCE)


# -- outcomes that the store refuses


def completes(outcomes: Any, job_id: str) -> bool:
    return any(outcome.id == job_id and outcome.state == "completed" for outcome in outcomes)


def test_an_outcome_the_store_refuses_fails_its_job_alone(
    app: Headrace, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    task = app.task(name="run")(lambda: "ran")
    jobs = [task.enqueue() for _ in range(5)]
    exchange = app.engine.exchange

    def picky(outcomes: Any, *rest: Any, **named: Any) -> Any:
        if completes(outcomes, jobs[2].id):
            raise ValueError("this one can't be written")
        return exchange(outcomes, *rest, **named)

    monkeypatch.setattr(app.engine, "exchange", picky)
    with app.worker(concurrency=1):
        assert [job.wait(PATIENCE) for job in jobs] == ["completed", "completed", "failed", "completed", "completed"]
    assert jobs[2].reason == "unstorable_outcome"
    assert jobs[2].errors[0].message == "this one can't be written"


def test_a_store_that_goes_away_while_outcomes_are_sorted_out_loses_none_of_them(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.runtime.worker.OUTAGE_LONGEST", 0.05)
    task = app.task(name="run")(lambda: "ran")
    jobs = [task.enqueue() for _ in range(5)]
    exchange, outages = app.engine.exchange, iter(range(6))

    def picky(outcomes: Any, *rest: Any, **named: Any) -> Any:
        if completes(outcomes, jobs[2].id):
            raise ValueError("this one can't be written")
        if outcomes and next(outages, None) is not None:
            raise EngineUnavailable("away for a moment")
        return exchange(outcomes, *rest, **named)

    monkeypatch.setattr(app.engine, "exchange", picky)
    with app.worker(concurrency=5):
        assert [job.wait(PATIENCE) for job in jobs] == ["completed", "completed", "failed", "completed", "completed"]
    assert app.jobs.count(state="running") == 0


@pytest.mark.engines("sqlite")
def test_a_worker_tells_that_its_file_was_deleted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "jobs.db"
    with (
        caplog.at_level("WARNING", "headrace.worker"),
        Headrace(f"sqlite:///{path}", shutdown_timeout=0) as app,
        app.worker() as worker,
    ):
        path.unlink()
        eventually(lambda: any("deleted or replaced" in each.getMessage() for each in caplog.records), "it is logged")
        with pytest.raises(EngineUnavailable, match="deleted or replaced"):
            app.enqueue("add", 1, 2)
        worker.request_stop(0)
