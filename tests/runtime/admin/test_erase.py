"""Erasing a person: a marked text is stored in every place, and then it is nowhere; what others stored stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from headrace import Headrace, PermanentError, Retry, Unique, chain, current_job
from headrace.app.admin.erasure import KIND
from headrace.core.clock import to_datetime
from headrace.core.dead_letters.records import DeadLetterFilter
from headrace.core.events.event import Event
from headrace.core.events.webhooks import WebhookRow
from headrace.core.jobs.transfer import JobExport
from headrace.core.retention.archive import row_of
from tests.support.raw_contents import places_of
from tests.support.waiting import eventually

ANN, BOB = "ann@example.com", "bob@example.com"
TAGS = {ANN: "user:42", BOB: "user:7"}
SECONDS = 20


@pytest.fixture
def store(url: str, folder: Path) -> str:
    return f"sqlite:///{folder / 'q.db'}" if url == "memory://" else url


@pytest.fixture
def app(store: str, folder: Path) -> Iterator[Headrace]:
    elsewhere = f"sqlite:///{folder / 'archive.db'}" if store.startswith("redis") else None
    with Headrace(store, heartbeat=0.2, lease=2.0, shutdown_timeout=5.0, archive_url=elsewhere) as app:
        yield app


def leave_traces(app: Headrace, who: str) -> None:
    """Store the address of this person wherever a text of a job may be."""
    tag = TAGS[who]

    @app.task(name="tell")
    def tell(*names: str) -> str:
        job, who = current_job(), names[-1]
        job.log(f"mail to {who}", to=who)
        job.progress({"to": who})
        job.stream(f"hello {who}")
        job.step(who, lambda: who)
        return who

    @app.task(name="ask")
    def ask(who: str) -> None:
        current_job().wait_event("approval", ask=f"Mail {who}?", to=who, answer=str)

    @app.task(name="give_up", retry=0)
    def give_up(who: str) -> None:
        current_job().log(who)
        raise PermanentError(f"no mail to {who}")

    @app.task(name="retry", retry=Retry(limit=5, base=1000))
    def retry(who: str) -> None:
        raise ConnectionError(f"not yet {who}")

    options: dict[str, Any] = {"tags": (tag,), "metadata": {"to": who}, "concurrency_key": who}
    with app.worker(concurrency=4):
        done = tell.using(job_id=f"done:{who}", unique=Unique(key=who), **options).enqueue(who)
        failed = [give_up.using(**options).enqueue(who) for _ in range(2)]
        asked, answered, put_off = (task.using(**options).enqueue(who) for task in (ask, ask, retry))
        chain(tell.using(**options).bind(who), tell.using(delay=3600, **options).bind(who)).enqueue()
        assert done.wait(SECONDS)
        assert all(job.wait(SECONDS) for job in failed)
        eventually(lambda: {asked.id, answered.id} <= {one.job for one in app.questions.list()}, "they ask")
        app.questions.answer(answered, who, by="eve")
        assert answered.wait(SECONDS)
        eventually(lambda: put_off.refresh().state == "retrying", "it is put off")
    assert app.services.signal(asked.id, "other", who)
    tell.using(delay=3600, **options).enqueue(who)
    tell.using(**options).enqueue(who)
    app.schedules.create(f"every-day-{tag.partition(':')[2]}", tell.using(**options).bind(who), every=86_400)
    [letter] = app.engine.dead_letters.find(DeadLetterFilter(latest_of=(failed[0].id,)), 1)
    app.engine.dead_letters.update([letter.id], None, by="eve", note=f"ask {who}")
    failed[0].delete()  # its dead letter stays
    app.audit.record("eve", "jobs.bulk", f"tag {tag}", "done", {"message": who, "tag": tag})
    app.audit.record("eve", "jobs.update", done.id, "done", {"note": who})
    row = replace(app.engine.queries.get([done.id])[0], id=f"archived:{who}")
    assert app.services.archive is not None
    app.services.archive.add([row_of(JobExport(row, [], []))], "weekly")
    moment = to_datetime(app.clock.now())
    assert moment is not None
    hook = WebhookRow("h1", "http://localhost", ("job.failed",), "", 0, "0")
    app.webhooks._enqueue(hook, Event(f"1.{TAGS[who][5:]}", "job.failed", moment, done.id, data={"message": who}))


def test_nothing_of_a_person_is_left(app: Headrace, store: str, folder: Path) -> None:
    leave_traces(app, ANN)
    leave_traces(app, BOB)
    before = places_of(BOB, store)
    events = app.engine.events.read(None, 10_000)
    assert len(places_of(ANN, store)) > 5
    plan = app.admin.erase(tag=TAGS[ANN], dry_run=True)
    assert app.jobs.count(tag=TAGS[ANN]) == plan.jobs > 5
    erasure = app.admin.erase(tag=TAGS[ANN], by="dan")
    assert places_of(ANN, store) == []
    assert (erasure.jobs, erasure.archived, erasure.dead_letters, erasure.schedules) == (plan.jobs, 1, 3, 1)
    assert (plan.archived, plan.dead_letters, plan.schedules) == (1, 2, 1)
    assert (erasure.running, erasure.deliveries, erasure.questions) == (0, 1, 1)
    assert erasure.events > 10
    assert erasure.audit_entries >= 3
    assert app.jobs.count(archived=True, tag=TAGS[ANN]) == 0
    entries = [(entry.who, entry.what, entry.target, entry.outcome) for entry in app.audit.list(2)]
    assert entries == [("dan", "admin.erase", "tag user:42", "done"), ("dan", "admin.erase", "tag user:42", "begun")]
    assert app.engine.document_store.get(KIND) == []
    # What others stored is as it was.
    assert places_of(BOB, store) == before
    assert app.jobs.count(tag=TAGS[BOB]) == plan.jobs
    assert [cursor for cursor, _ in app.engine.events.read(None, len(events))] == [cursor for cursor, _ in events]
    # A second call finds nothing.
    again = app.admin.erase(tag=TAGS[ANN], by="dan")
    assert again.format_counts() == "0 jobs"
    app.admin.optimize(full=True)
    app.close()
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert [path.name for path in files if ANN.encode() in path.read_bytes()] == []
