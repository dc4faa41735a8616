"""Backups of every engine, restored into every engine: all is there, what ran begins anew, nothing is overwritten."""

from __future__ import annotations

import asyncio
import os
import secrets
import sqlite3
import time
from collections.abc import (
    Callable,
    Iterator,
    Sequence,
)
from contextlib import ExitStack, closing
from pathlib import Path

import msgspec
import pytest

from headrace import Headrace, chain
from headrace.app.admin import backups
from headrace.core.jobs.dependencies import Dependency, FlowRow
from headrace.core.jobs.queue_rules import QueueRules, TaskRules
from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import State, Trigger
from headrace.core.jobs.transfer import JobExport, StoreStatus
from headrace.engines.protocol.engine import Engine
from headrace.engines.protocol.maintenance import StoreView
from headrace.engines.protocol.transfer import Record
from headrace.engines.sqlite.engine import SqliteEngine
from headrace.errors import ConfigError, SchemaMismatch
from tests.runtime.transfer.store_contents import contents, dead_letters, fill, without_nul
from tests.support.builders import lease_of, new_job, rows, schedule, states, succeed, want, worker_row
from tests.support.cases import PAIRS
from tests.support.engines import StoreUnderTest
from tests.support.waiting import PATIENCE

JOBS = 600  # more than two pages


@pytest.fixture
def make_store(folder: Path) -> Iterator[Callable[[str, str], Engine]]:
    """Makes an empty store of an engine under a name."""
    with ExitStack() as at_end:

        def make(kind: str, name: str) -> Engine:
            (folder / name).mkdir()
            return StoreUnderTest(kind, folder / name, at_end).open()

        yield make


@pytest.fixture
def source(make_store: Callable[[str, str], Engine], engine_name: str) -> Engine:
    return make_store(engine_name, "source")


def settled(job_exports: list[JobExport]) -> list[JobExport]:
    """The contents that do not depend on the jobs that ran during the backup."""
    return [job_export for job_export in job_exports if job_export.job.state is not State.RUNNING]


# -- there and back


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
def test_a_backup_of_any_store_restores_to_any_store(
    make_store: Callable[[str, str], Engine], folder: Path, kind: str, other_kind: str
) -> None:
    source, target = make_store(kind, "source"), make_store(other_kind, "target")
    fill(source, JOBS)
    now = source.clock.now()
    flow_jobs = [new_job("parent", flow="f", created_at=now), new_job("child", flow="f", state=State.WAITING)]
    source.insert(flow_jobs, edges=[Dependency("parent", "child", "hold")], flow=FlowRow("f", "flow", now))
    source.rule_store.set_rules("mail", QueueRules(max_length=9_000_000))
    source.rule_store.set_rules("work", TaskRules(concurrency=7))
    source.schedule_store.put(schedule("tick"), new=True)
    source.renew(worker_row("old", seen_at=now), [], 0)
    before, running = without_nul(contents(source)), states(source)
    taken = backups.take(source, folder / "copy.db")
    assert (taken.jobs, taken.path) == (JOBS + 2, str(folder / "copy.db"))
    assert taken.bytes == (folder / "copy.db").stat().st_size

    done = backups.restore(target, folder / "copy.db")
    ran = {name for name, state in running.items() if state is State.RUNNING}
    assert ran
    assert (done.jobs, done.released) == (JOBS + 2, len(ran))
    after = without_nul(contents(target))
    assert [job_export for job_export in after if job_export.job.id not in ran] == settled(before)
    assert {states(target)[name] for name in ran} == {State.PENDING}
    assert {rows(target)[name].attempt for name in ran} == {0}, "no attempt is lost"
    assert dead_letters(target) == dead_letters(source)
    assert target.queries.rules().queues == source.queries.rules().queues
    assert target.queries.rules().tasks == source.queries.rules().tasks
    assert target.schedule_store.get() == source.schedule_store.get()
    assert target.flow_store.edges(["child"]) == source.flow_store.edges(["child"])
    assert [summary.flow for summary in target.flow_store.flows(9)] == [
        summary.flow for summary in source.flow_store.flows(9)
    ]
    assert target.queries.workers() == []
    assert target.transfer.store_status() is None
    assert not any(finding.code.startswith(("orphan", "damaged", "stray")) for finding in target.maintenance.inspect())


def test_a_restored_store_goes_on(make_store: Callable[[str, str], Engine], source: Engine, folder: Path) -> None:
    source.insert([new_job("a"), new_job("b")])
    (claimed,) = source.exchange([], want(1)).claims
    backups.take(source, folder / "copy.db")
    backups.restore(source, folder / "copy.db", replace_all=True)
    assert source.exchange([succeed(claimed)], None).refused, "the run of the other life is fenced out"
    again = source.exchange([], want(2)).claims
    assert sorted(claim.id for claim in again) == ["a", "b"]
    assert source.exchange([succeed(claim) for claim in again], None).refused == []
    source.insert([new_job("c")])
    assert source.queries.count(Filter(states=(State.COMPLETED,))).jobs == 2


def test_replacing_removes_what_was_there(source: Engine, folder: Path) -> None:
    source.insert([new_job("old", tags=("t",))])
    backups.take(source, folder / "copy.db")
    source.insert([new_job("new", queue="new", tags=("t",))])
    source.queries.move(Filter(ids=("old",)), Trigger.CANCEL, 1)
    with pytest.raises(ConfigError, match="2 jobs"):
        backups.restore(source, folder / "copy.db")
    assert states(source) == {"old": State.CANCELLED, "new": State.PENDING}
    assert backups.restore(source, folder / "copy.db", replace_all=True).jobs == 1
    assert states(source) == {"old": State.PENDING}
    assert source.queries.count(Filter(tag="t")).jobs == 1


def test_a_process_that_enqueued_before_a_restore_may_go_on(engine_name: str, folder: Path) -> None:
    """It knows its queue already, and would not add it again."""
    with ExitStack() as at_end:
        store = StoreUnderTest(engine_name, folder, at_end)
        operator, producer = store.open(), store.open()
        operator.insert([new_job("old")])
        backups.take(operator, folder / "copy.db")
        producer.insert([new_job("lost", queue="mail")])
        backups.restore(operator, folder / "copy.db", replace_all=True)
        producer.insert([new_job("new", queue="mail")])
        assert {claim.id for claim in operator.exchange([], want(5)).claims} == {"old", "new"}


# -- what is refused


def test_nothing_is_restored_while_a_worker_is_alive(source: Engine, folder: Path) -> None:
    source.insert([new_job("job")])
    backups.take(source, folder / "copy.db")
    source.renew(worker_row("w1", seen_at=source.clock.now()), [], 0)
    with pytest.raises(ConfigError, match="1 worker is alive, such as w1"):
        backups.restore(source, folder / "copy.db", replace_all=True)


@pytest.mark.engines("sqlite")
def test_an_existing_file_is_overwritten_only_on_request(source: Engine, folder: Path) -> None:
    source.insert([new_job("job")])
    (folder / "copy.db").write_text("dear to somebody")
    with pytest.raises(ConfigError, match="overwrite"):
        backups.take(source, folder / "copy.db")
    assert (folder / "copy.db").read_text() == "dear to somebody"
    assert backups.take(source, folder / "copy.db", overwrite=True).jobs == 1
    assert backups.examine(folder / "copy.db") == 1


@pytest.mark.engines("sqlite")
def test_a_place_that_can_not_be_is_refused_and_nothing_is_left_behind(source: Engine, folder: Path) -> None:
    assert isinstance(source, SqliteEngine)
    source.insert([new_job("job")])
    for path, expected in (
        (source.store.path, "the store itself"),
        (folder, "folder"),
        (folder / "no/x.db", "no folder"),
    ):
        with pytest.raises(ConfigError, match=expected):
            backups.take(source, path, overwrite=True)
    with pytest.raises(ConfigError, match="the store itself"):
        backups.restore(source, source.store.path, replace_all=True)
    assert [path.name for path in folder.iterdir()] == ["source"]


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    half = len(data) // 2 // 4096 * 4096
    data[half : half + 4096] = b"\xee" * 4096
    path.write_bytes(data)


def alter(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(statement)


@pytest.mark.parametrize(
    ("spoil", "error", "expected"),
    [
        (damage, ConfigError, "damaged"),
        (lambda path: path.write_text("no database " * 1000), Exception, "not a database|not an SQLite"),
        (lambda path: path.unlink(), ConfigError, "there is no file"),
        (lambda path: alter(path, "DROP TABLE headrace_schema"), ConfigError, "no tables of headrace"),
        (lambda path: alter(path, "UPDATE headrace_schema SET version = version + 100"), SchemaMismatch, "newer"),
        (lambda path: alter(path, "INSERT INTO headrace_tags VALUES ('t', 12345)"), ConfigError, "does not exist"),
    ],
    ids=["damaged", "no database", "missing", "not ours", "newer", "orphans"],
)
def test_what_is_no_whole_backup_changes_nothing(
    source: Engine, folder: Path, spoil: Callable[[Path], object], error: type[Exception], expected: str
) -> None:
    fill(source, 50)
    backups.take(source, folder / "copy.db")
    spoil(folder / "copy.db")
    before = contents(source)
    with pytest.raises(error, match=expected):
        backups.restore(source, folder / "copy.db", replace_all=True)
    assert contents(source) == before
    assert source.transfer.store_status() is None


@pytest.mark.engines("sqlite")
def test_a_backup_can_be_read_where_nothing_can_be_written(
    make_store: Callable[[str, str], Engine], source: Engine, folder: Path
) -> None:
    source.insert([new_job("job")])
    (folder / "shelf").mkdir()
    backups.take(source, folder / "shelf" / "copy.db")
    assert os.listdir(folder / "shelf") == ["copy.db"]
    before = (folder / "shelf" / "copy.db").read_bytes()
    backups.restore(make_store("sqlite", "target"), folder / "shelf" / "copy.db")
    assert os.listdir(folder / "shelf") == ["copy.db"]
    assert (folder / "shelf" / "copy.db").read_bytes() == before


@pytest.mark.engines("sqlite")
def test_what_a_killed_backup_left_behind_goes_after_a_day(source: Engine, folder: Path) -> None:
    source.insert([new_job("job")])
    for name, age in (("old", 90_000), ("new", 80_000)):
        part = folder / f".copy.db.{name}" / "part.db"
        part.parent.mkdir()
        part.write_text("half")
        os.utime(part, (time.time() - age, time.time() - age))
    backups.take(source, folder / "copy.db")
    assert sorted(path.name for path in folder.iterdir()) == [".copy.db.new", "copy.db", "source"]


# -- while it is in use


class _Busy:
    """A store that goes on between the pages that are read of it."""

    def __init__(self, engine: Engine, between: Callable[[int], object]) -> None:
        self.engine, self.between, self.page = engine, between, 0
        self.queries, self.schedule_store, self.staleness_store, self.transfer = (
            engine.queries,
            engine.schedule_store,
            engine.staleness_store,
            self,
        )
        self.document_store, self.flow_store, self.rule_store = (
            engine.document_store,
            engine.flow_store,
            engine.rule_store,
        )
        self.dead_letters = engine.dead_letters

    def export_jobs(self, after: int, limit: int) -> list[JobExport]:
        found = self.engine.transfer.export_jobs(after, 1)
        self.page += 1
        self.between(self.page)
        return found

    def __getattr__(self, name: str) -> object:
        return getattr(self.engine.transfer, name)


@pytest.mark.parametrize("moment", [1, 2, 3])
def test_families_are_whole_however_they_moved_on_between_two_pages(source: Engine, folder: Path, moment: int) -> None:
    """Redis is read job by job: parent and child may be of different moments."""
    flow_jobs = [new_job("parent"), new_job("child", state=State.WAITING), new_job("grandchild", state=State.WAITING)]
    source.insert(flow_jobs, edges=[Dependency("parent", "child"), Dependency("child", "grandchild")])

    def go_on(page: int) -> None:
        if page == moment:
            for _ in range(2):
                (claimed,) = source.exchange([], want(1)).claims
                source.exchange([succeed(claimed)], None)

    view: StoreView = _Busy(source, go_on)  # type: ignore[assignment]
    backups._fill(folder / "copy.db", view, None, in_use=True)
    with closing(SqliteEngine(folder / "copy.db", durability="off")) as copy:
        assert len(states(copy)) == 3
        assert not [
            finding for finding in copy.maintenance.inspect() if finding.code in ("forlorn", "orphan_dependencies")
        ]
        seen = []
        for _ in range(10):
            for claim in copy.exchange([], want(1)).claims:
                seen.append(claim.id)
                copy.exchange([succeed(claim)], None)
        assert set(states(copy).values()) == {State.COMPLETED}
        assert seen == [name for name in ("parent", "child", "grandchild") if name in seen], "in order"


def test_what_comes_while_a_store_is_read_stays_out_unless_a_job_waits_for_it(source: Engine, folder: Path) -> None:
    source.insert([new_job("one"), new_job("two")])

    def go_on(page: int) -> None:
        source.insert([new_job(f"late-{page}")])
        if page == 1:
            source.insert([new_job("helper")], edges=[Dependency("helper", "two")])

    view: StoreView = _Busy(source, go_on)  # type: ignore[assignment]
    backups._fill(folder / "copy.db", view, None, in_use=True)
    with closing(SqliteEngine(folder / "copy.db", durability="off")) as copy:
        assert states(copy) == {"one": State.PENDING, "two": State.WAITING, "helper": State.PENDING}
        assert copy.flow_store.edges(["two"]) == [Dependency("helper", "two")]


@pytest.mark.engines("postgres", "redis")
def test_a_restore_that_was_cut_off_is_gone_on_with(
    make_store: Callable[[str, str], Engine], source: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(source, JOBS)
    backups.take(source, folder / "copy.db")
    before = without_nul(contents(source))
    real, calls = type(source.transfer).import_records, 0

    def fails_later(self: object, records: Sequence[Record]) -> int:
        nonlocal calls
        if isinstance(self, type(source.transfer)) and isinstance(records[0], JobExport):
            calls += 1
            if calls == 3:
                raise ConnectionError("cut off")
        return real(self, records)  # type: ignore[arg-type]

    monkeypatch.setattr(type(source.transfer), "import_records", fails_later)
    with pytest.raises(ConnectionError):
        backups.restore(source, folder / "copy.db", replace_all=True)
    monkeypatch.undo()
    store_status = source.transfer.store_status()
    assert store_status is not None
    assert store_status.kind == "arriving"
    assert source.exchange([], want(1)).claims == [], "no worker begins before all jobs are there"
    backups.restore(source, folder / "copy.db")
    assert settled(before) == [
        job_export
        for job_export in without_nul(contents(source))
        if job_export.job.id in {p.job.id for p in settled(before)}
    ]
    assert source.transfer.store_status() is None


def test_a_backup_of_a_closed_store_is_open_when_it_is_restored(source: Engine, folder: Path) -> None:
    source.insert([new_job("job")])
    source.transfer.set_status(StoreStatus("moved", "elsewhere", 5))
    backups.take(source, folder / "copy.db")
    source.transfer.set_status(None)
    backups.restore(source, folder / "copy.db", replace_all=True)
    assert source.transfer.store_status() is None, "it is restored to be used"
    assert source.exchange([], want(1)).claims


def test_nothing_is_restored_to_a_store_that_a_copy_fills(source: Engine, folder: Path) -> None:
    source.insert([new_job("job")])
    backups.take(source, folder / "copy.db")
    store_status = StoreStatus("arriving", "sqlite:////elsewhere.db", 5)
    source.transfer.set_status(store_status)
    with pytest.raises(ConfigError, match=r"is being filled from sqlite:////elsewhere\.db"):
        backups.restore(source, folder / "copy.db", replace_all=True)
    assert source.transfer.store_status() == store_status
    assert states(source) == {"job": State.PENDING}


# -- by the facade


def test_the_facade_backs_up_and_restores_with_handles_that_go_on(app: Headrace, folder: Path) -> None:
    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    job = add.enqueue(1, 2)
    run = chain(add.bind(1, 1), add.bind(5)).enqueue()
    progress: list[tuple[int, int]] = []
    taken = app.admin.backup(folder / "copy.db", progress=lambda done, total: progress.append((done, total)))
    assert taken.jobs == 3
    assert progress[-1][0] == progress[-1][1]
    app.jobs.delete(state="pending")

    async def restore() -> int:
        return (await app.admin.arestore(str(folder / "copy.db"), replace=True)).jobs

    assert asyncio.run(restore()) == 3
    with app.worker():
        assert job.result(PATIENCE) == 3
        assert run.result(PATIENCE) == 7
    assert [str(finding) for finding in app.admin.check(deep=True) if finding.code != "fsync"] == []
    assert app.admin.repair(dry_run=True) == {}


@pytest.mark.parametrize("path", ["", "postgresql://db/x", 7, None])
@pytest.mark.engines("sqlite")
def test_a_path_that_is_none_is_refused(app: Headrace, path: object) -> None:
    with pytest.raises(ConfigError, match="path"):
        app.admin.backup(path)  # type: ignore[arg-type]


def test_a_deep_check_finds_damaged_arguments_and_the_largest_jobs(app: Headrace) -> None:
    app.engine.insert([new_job("bad", payload='{"args":[1]}', checksum=1)])
    from headrace.core.codec.codec import checksum

    heavy = f'{{"args":["{"x" * 300_000}"]}}'
    app.engine.insert([new_job("heavy", payload=heavy, checksum=checksum(heavy))])
    assert not [finding for finding in app.admin.check() if finding.code.startswith(("damaged", "largest"))]
    found = {finding.code: finding for finding in app.admin.check(deep=True)}
    assert found["damaged_payloads"].examples == ("bad",)
    assert found["largest_jobs"].examples == ("heavy",)
    assert (found["damaged_payloads"].note, found["largest_jobs"].note) == (False, True)
    assert msgspec.json.encode(found["largest_jobs"])


def test_the_size_limit_of_a_store_is_checked(url: str) -> None:
    with Headrace(url, max_size=1) as app:
        for number in range(30):
            app.engine.insert([new_job(f"job-{number}", payload=f'["{secrets.token_hex(30_000)}"]')])
        (finding,) = [finding for finding in app.admin.check() if finding.code == "size"]
        assert not finding.note
        assert "of the 1 MB it may have" in finding.sentence


def test_lost_leases_of_the_old_life_can_not_be_renewed(source: Engine, folder: Path) -> None:
    source.insert([new_job("job")])
    (claimed,) = source.exchange([], want(1)).claims
    backups.take(source, folder / "copy.db")
    backups.restore(source, folder / "copy.db", replace_all=True)
    now = source.clock.now()
    lost = source.renew(worker_row("w1", seen_at=now), [lease_of(claimed)], 30_000).lost
    assert lost == {lease_of(claimed)}
