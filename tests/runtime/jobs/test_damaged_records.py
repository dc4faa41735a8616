"""A damaged row fails its own job, with a dead letter, and never the ones beside it."""

from __future__ import annotations

import asyncio
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headrace import CorruptPayload, EngineUnavailable, Headrace, JobFailed, current_job
from headrace.core.jobs.queue_rules import TaskRules
from headrace.testing import VirtualClock, adrain, drain
from tests.support.damage import put_field, values_of
from tests.support.engines import KINDS
from tests.support.waiting import PATIENCE, eventually


@pytest.fixture
def file(folder: Path) -> Path:
    return folder / "jobs.db"


@pytest.fixture
def stored(file: Path) -> Iterator[Headrace]:
    with Headrace(f"sqlite:///{file}") as app:
        yield app


def damage(file: Path, job_id: str, **columns: Any) -> None:
    """Damage of a row, as by a bad disk or a manual edit."""
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
        assert db.execute("SELECT job_id, reason FROM headrace_dead_letters").fetchall() == [
            (jobs[1].id, "corrupt_payload")
        ]
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


def test_a_damaged_result_raises_for_its_reader_and_the_job_stays_completed(stored: Headrace, file: Path) -> None:
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
    with app.worker(concurrency=1) as worker:
        # Not as late as an idle worker looks by itself.
        assert [job.wait(30) for job in jobs] == ["completed", "completed", "failed", "completed", "completed"]
        eventually(lambda: (worker.completed, worker.failed) == (4, 1), "the count of the failed one among the failed")
    assert jobs[2].reason == "unstorable_outcome"
    assert jobs[2].errors[0].message == "this one can't be written"


def test_a_store_that_goes_away_while_outcomes_are_sorted_out_loses_none_of_them(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.runtime.worker.worker.OUTAGE_LONGEST", 0.05)
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


def test_claims_are_released_after_an_odd_error_while_the_results_for_them_are_read(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = app.task(name="give")(lambda: 7).enqueue()
    child = app.task(name="take")(lambda value: value).enqueue(parent)
    read, errors = app.engine.queries.get, iter([RuntimeError("odd")])

    def odd(ids: Any, *, light: bool = False) -> Any:
        if parent.id in ids and (error := next(errors, None)) is not None:
            raise error
        return read(ids, light=light)

    monkeypatch.setattr(app.engine.queries, "get", odd)
    with app.worker():
        assert child.result(PATIENCE) == 7


@pytest.mark.engines("sqlite")
def test_a_worker_logs_that_its_file_was_deleted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
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


# -- what else may be damaged, on every engine


@pytest.fixture
def address(engine_name: str, folder: Path) -> Iterator[str]:
    kind = KINDS[engine_name]
    address = kind.create(folder)
    yield kind.url(address)
    kind.discard(address)


@pytest.fixture
def shop(address: str) -> Iterator[Headrace]:
    with Headrace(address, shutdown_timeout=5.0) as app:
        app.task(name="run", retry=0)(lambda: "ran")
        yield app


BAD = '{"x'


@pytest.mark.every_engine
@pytest.mark.parametrize("field", ["options", "tags", "metadata", "payload"])
def test_a_damaged_field_of_a_job_breaks_no_list(shop: Headrace, address: str, field: str) -> None:
    task = shop.task_by_name("run").using(tags=["red"], metadata={"a": 1}, timeout=9)
    jobs = [task.enqueue() for _ in range(3)]
    put_field(address, jobs[1].id, field, BAD)
    with shop.worker(concurrency=1):
        assert [job.wait(PATIENCE) for job in (jobs[0], jobs[2])] == ["completed", "completed"]
        jobs[1].wait(PATIENCE)
    fails = field in ("options", "payload")
    assert (jobs[1].state, jobs[1].reason) == (("failed", f"corrupt_{field}") if fails else ("completed", None))
    assert {job.id for job in shop.jobs.find()} == {job.id for job in jobs}
    assert all(isinstance(job.tags, tuple) for job in shop.jobs.find())
    assert [dead_letter.job_id for dead_letter in shop.dead.list()] == ([jobs[1].id] if fails else [])
    assert jobs[1].refresh().why()
    assert jobs[1].history()
    if fails:
        assert shop.dead.resolve(jobs[1].id, "manually_resolved").status == "manually_resolved"
    found = {finding.code: finding for finding in shop.admin.check(deep=True)}
    code = "damaged_payloads" if field == "payload" else "damaged_values"
    assert any(jobs[1].id in example for example in found[code].examples)
    assert jobs[1].delete()


@pytest.mark.engines("sqlite")
def test_arguments_are_hidden_if_it_is_unknown_which_are_secret(shop: Headrace, address: str) -> None:
    task = shop.task(name="sign", redact=("word",))(lambda word, other: None)
    job = task.enqueue("open sesame", other="me")
    put_field(address, job.id, "options", BAD)
    assert job.refresh().redacted_call() == (("***",), {"other": "***"})


@pytest.mark.every_engine
@pytest.mark.parametrize("drains", [drain, lambda app: asyncio.run(adrain(app))])
def test_drain_fails_a_job_with_damaged_options_like_a_worker(shop: Headrace, address: str, drains: Any) -> None:
    jobs = [shop.task_by_name("run").using(timeout=9).enqueue() for _ in range(3)]
    put_field(address, jobs[1].id, "options", BAD)
    assert drains(shop) == 2
    assert [job.refresh().state for job in jobs] == ["completed", "failed", "completed"]
    assert jobs[1].reason == "corrupt_options"


@pytest.mark.engines("sqlite", "postgres")
def test_a_damaged_lane_blocks_no_other_lane(shop: Headrace, address: str) -> None:
    keyed = shop.task_by_name("run").using(concurrency_key="ann")
    bad, good, plain = keyed.enqueue(), keyed.enqueue(), shop.task_by_name("run").enqueue()
    put_field(address, bad.id, "lane", '["c:ann')
    with shop.worker():
        assert [good.wait(PATIENCE), plain.wait(PATIENCE)] == ["completed", "completed"]
    assert bad.refresh().state == "pending"
    assert bad.why()
    assert shop.queue("default").peek(5)[0].id == bad.id


@pytest.mark.every_engine
@pytest.mark.parametrize("rules", ["{bad", '{"rate":1}', '{"rate":{"every":0,"burst":1}}', '["concurrency"]'])
def test_damaged_rules_stop_no_queue(shop: Headrace, address: str, rules: str) -> None:
    shop.queue("ruled").configure(concurrency=5)
    shop.configure_task("other", concurrency=1)
    for value in values_of(address):
        if value.kind in ("headrace_queues.rules", "headrace_tasks.rules", "tasks"):
            value.put(rules.encode() if isinstance(value.held, bytes) else rules)
        elif value.kind == "queues" and b" " in value.held:
            value.put(b"1 " + rules.encode())
    jobs = [shop.task_by_name("run").using(queue=queue).enqueue() for queue in ("ruled", "plain")]
    with shop.worker():
        assert [job.wait(PATIENCE) for job in jobs] == ["completed", "completed"]
    assert [stats.queue for stats in shop.queues()] == ["plain", "ruled"]
    assert shop.task_rules() == {"other": TaskRules()}
    assert "damaged_values" in {finding.code for finding in shop.admin.check(deep=True)}


@pytest.mark.every_engine
def test_a_damaged_schedule_is_reported_and_can_be_deleted(shop: Headrace, address: str) -> None:
    for name in ("bad", "good"):
        shop.schedules.create(name, "run", every=3600)
    for value in values_of(address):
        if value.kind in ("headrace_schedules.body", "schedules"):
            text = value.held if isinstance(value.held, bytes) else value.held.encode()
            if b"bad" in text:
                value.put(text[:20] if isinstance(value.held, bytes) else value.held[:20])
    assert [(one.id, bool(one.error)) for one in shop.schedules.list()] == [("bad", True), ("good", False)]
    assert shop.schedules.get("bad").error
    changes: list[Callable[[str], object]] = [
        *(shop.schedules.pause, shop.schedules.resume, shop.schedules.run_now, shop.schedules.preview),
        lambda name: shop.schedules.update(name, every=60),
    ]
    for change in changes:
        with pytest.raises(CorruptPayload, match=r"schedule 'bad' is damaged .* delete it and create it again"):
            change("bad")
    assert "damaged_values" in {finding.code for finding in shop.admin.check(deep=True)}
    assert shop.schedules.delete("bad")
    assert [one.id for one in shop.schedules.list()] == ["good"]


@pytest.mark.engines("sqlite", "postgres")
def test_a_schedule_with_a_damaged_id_is_shown_and_can_be_deleted(shop: Headrace, address: str) -> None:
    for name in ("empty", "blank"):
        shop.schedules.create(name, "run", every=3600)
    for value in values_of(address):
        if value.kind == "headrace_schedules.id":
            value.put({"empty": "", "blank": "two words"}[value.held])
    ids = [one.id for one in shop.schedules.list()]
    assert sorted(ids) == ["", "two words"]
    assert [shop.schedules.get(one).id for one in ids] == ids
    assert [shop.schedules.history(one) for one in ids] == [[], []]
    assert all(shop.schedules.delete(one) for one in ids)
    assert shop.schedules.list() == []


@pytest.mark.engines("sqlite")
def test_an_undecodable_text_does_not_hide_the_others(shop: Headrace, file: Path, folder: Path) -> None:
    task = shop.task_by_name("run").using(metadata={"a": "b"})
    jobs = [task.enqueue() for _ in range(3)]
    with closing(sqlite3.connect(folder / "q.db", isolation_level=None)) as db:
        db.execute("UPDATE headrace_jobs SET metadata = CAST(x'7bff7d' AS TEXT) WHERE id = ?", [jobs[1].id])
    with shop.worker():
        assert [job.wait(PATIENCE) for job in jobs] == ["completed"] * 3
    assert len(shop.jobs.find()) == 3


@pytest.mark.engines("sqlite")
def test_a_dead_letter_of_an_invalid_status_is_pending(shop: Headrace, folder: Path) -> None:
    job = shop.task(name="bad", retry=0)(lambda: 1 / 0).enqueue()
    drain(shop)
    with closing(sqlite3.connect(folder / "q.db", isolation_level=None)) as db:
        db.execute("UPDATE headrace_dead_letters SET status = 'pendinf'")
    assert shop.dead.get(job.id).status == "pending"


@pytest.mark.every_engine
@pytest.mark.parametrize("stored", ['["red', "7", '{"red":1}', '[["red"]]'])
def test_a_job_with_damaged_tags_is_archived_and_brought_back(address: str, folder: Path, stored: str) -> None:
    clock = VirtualClock()
    elsewhere = f"sqlite:///{folder / 'archive.db'}" if address.startswith("redis") else None
    with Headrace(address, clock=clock, archive_url=elsewhere) as app:
        run = app.task(name="run")(lambda: "ran")
        bad, good = (run.using(tags=["blue", 're"d']).enqueue() for _ in range(2))
        drain(app)
        put_field(address, bad.id, "tags", stored)
        clock.advance(30 * 86400)
        assert app.lifecycle.archive(dry_run=False).archived == 2
        assert [job.id for job in app.jobs.find(archived=True, tag='re"d')] == [good.id]
        assert app.jobs.find(archived=True, tag="d").jobs == []
        assert app.jobs.get(bad.id).tags == ()
        assert app.lifecycle.restore(bad.id).tags == ()
        assert not bad.refresh().archived
        assert bad.delete()


@pytest.mark.every_engine
def test_a_deep_check_counts_damaged_history_logs_and_steps(address: str) -> None:
    with Headrace(address, shutdown_timeout=5.0) as app:

        @app.task(retry=0)
        def work() -> None:
            current_job().log("adds", a=1)
            current_job().step("sum", lambda: 7)
            raise OSError("no luck")

        jobs = [work.enqueue() for _ in range(2)]
        drain(app)
        assert "damaged_values" not in {finding.code for finding in app.admin.check(deep=True)}
        kinds = {
            "headrace_history.event": "x",
            "headrace_logs.fields": BAD,
            "headrace_steps.value": "8",
            "history": b"\x01",
            "logs": b"\x01",
            "steps": b"\x01",
        }
        for kind, new in kinds.items():
            first = next((value for value in values_of(address) if value.kind == kind), None)
            if first is not None:
                first.put(new)
        [finding] = [finding for finding in app.admin.check(deep=True) if finding.code == "damaged_values"]
        assert sorted(what.rpartition(" ")[2] for what in finding.examples) == ["history", "logs", "steps"]
        assert len(app.jobs.find()) == 2
        assert all(job.history() for job in jobs)


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize("column", ["version", "due_at"])
def test_a_schedule_with_a_text_for_a_number_is_reported_and_can_be_deleted(
    shop: Headrace, address: str, column: str
) -> None:
    for name in ("bad", "good"):
        shop.schedules.create(name, "run", every=3600)
    with closing(sqlite3.connect(address.removeprefix("sqlite:///"), isolation_level=None)) as db:
        db.execute(f"UPDATE headrace_schedules SET {column} = '7x' WHERE id = 'bad'")
    assert [(one.id, bool(one.error)) for one in shop.schedules.list()] == [("bad", True), ("good", False)]
    assert shop.schedules.delete("bad")
    assert [one.id for one in shop.schedules.list()] == ["good"]
