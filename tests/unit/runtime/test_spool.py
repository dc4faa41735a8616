"""The spool keeps what the server can't take now, in order, and hands each job over once. The server is a stand-in."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from headrace.app.doctor.spool import findings
from headrace.app.services.why import explain_spooled
from headrace.core.clock import SystemClock
from headrace.core.jobs.records import Filter, JobRow, NewJob
from headrace.core.jobs.states import State
from headrace.core.jobs.transfer import JobExport
from headrace.core.jobs.unique_rules import InsertResult, results_of
from headrace.core.retention.archive import ArchivePage, row_of
from headrace.core.settings.settings import Settings, resolve
from headrace.engines.protocol.engine import Engine
from headrace.errors import ConfigError, DuplicateJob, EngineUnavailable, QueueFull, SchemaMismatch, StoreMoved
from headrace.runtime.jobs.rows import as_row
from headrace.runtime.spool import forwarder, markers
from headrace.runtime.spool.file import SpoolFile, address_of
from headrace.runtime.spool.spool import Spool
from tests.support.builders import kinds
from tests.support.waiting import PATIENCE, eventually

URL = "postgresql://app@db/shop"


class Server:
    """Takes jobs as an engine does, when it is there; `stored` is what it has, in the order it came."""

    def __init__(self, url: str = URL) -> None:
        self.url = url
        self.clock = SystemClock()
        self.queries = self
        self.archive: Shelf | None = None
        self.away: Exception | None = None
        self.loses_replies = False
        self.refuses: Callable[[NewJob], bool] = lambda _: False
        self.capacity: dict[str, int] = {}  # how many jobs more each queue has room for, if it is not for all
        self.stored: dict[str, NewJob] = {}
        self.batches: list[int] = []
        self.refused = threading.Semaphore(0)  # once for each insert that found it away
        self._lock = threading.Lock()

    def insert(self, jobs: Sequence[NewJob], *, all_or_nothing: bool = False) -> list[InsertResult]:
        with self._lock:
            if self.away is not None:
                self.refused.release()
                raise self.away
            if any(map(self.refuses, jobs)):
                raise ValueError("what is this?")
            for queue, capacity in self.capacity.items():
                if sum(job.queue == queue for job in jobs) > capacity:
                    raise QueueFull(f"queue {queue!r} is full")
            for job in jobs:
                self.capacity.update({job.queue: self.capacity[job.queue] - 1} if job.queue in self.capacity else {})
            fresh = [job.id not in self.stored for job in jobs]
            if all_or_nothing and not all(fresh):
                raise DuplicateJob(jobs[fresh.index(False)].id)
            for job in jobs:
                self.stored.setdefault(job.id, job)
            self.batches.append(len(jobs))
            if self.loses_replies:
                self.loses_replies = False
                raise EngineUnavailable("the connection broke off")
            return results_of(jobs, fresh)

    def finished(self, ids: Collection[str]) -> set[str]:
        if self.away is not None:
            raise self.away
        return set(ids) - self.stored.keys()

    def get(self, ids: Sequence[str], *, light: bool = False) -> list[JobRow]:
        return [as_row(self.stored[job_id]) for job_id in ids if job_id in self.stored]

    def go(self, error: Exception | None = None) -> None:
        self.away = error or EngineUnavailable("connection refused")

    def come_back(self) -> None:
        self.away = None


class Shelf:
    """The part of an archive that the spool needs."""

    def __init__(self, *jobs: NewJob) -> None:
        self.away: Exception | None = None
        self._rows = [
            row_of(JobExport(replace(as_row(job), finished_at=job.created_at + 1), [], [], [])) for job in jobs
        ]

    def find(self, which: Filter, limit: int, cursor: str | None = None) -> ArchivePage:
        if self.away is not None:
            raise self.away
        return ArchivePage([row for row in self._rows if row.id in (which.ids or ())], None)


def job(job_id: str, *, version: int = 1, **given: Any) -> NewJob:
    values: dict[str, Any] = {
        "task": "add", "queue": "default", "state": State.PENDING, "priority": 0, "rank": 0, "payload": "{}",
        "checksum": 7, "created_at": 1000, "run_at": 1000, "max_attempts": 4,
    }  # fmt: skip
    return NewJob(id=job_id, version=version, **{**values, **given})


def jobs(*ids: str) -> list[NewJob]:
    return [job(job_id) for job_id in ids]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests do not need the pauses that spare a real server."""
    monkeypatch.setattr(forwarder, "_PAUSE_FIRST", 0.001)
    monkeypatch.setattr(forwarder, "_PAUSE_LONGEST", 0.005)
    monkeypatch.setattr(forwarder, "_CHECK_EVERY", 0.005)
    monkeypatch.setattr(forwarder, "_IDLE_CHECK", 0.005)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Spool]]:
    """Opens a spool as an app would, any number of times at the same file."""
    with contextlib.ExitStack() as at_end:

        def open_one(
            server: Server, limit: int = 100_000, name: str = "spool.db", archive: Server | None = None
        ) -> Spool:
            spool = Spool(tmp_path / name, cast(Engine, server), limit, cast(Engine | None, archive))
            at_end.callback(spool.close)
            return spool

        yield open_one


@pytest.fixture
def spool(opened: Callable[..., Spool], server: Server) -> Spool:
    return opened(server)


def drained(spool: Spool) -> None:
    eventually(lambda: not spool.count() and not spool._file.marks.waiting, "that the spool is empty")


# -- in


def test_with_the_server_there_no_file_is_made(spool: Spool, server: Server, tmp_path: Path) -> None:
    spool.start()
    assert kinds(spool.insert(jobs("a", "b"))) == ["new", "new"]
    assert kinds(spool.insert(jobs("b", "c"))) == ["taken", "new"]
    assert spool.count() == 0
    assert spool.row("x") is None
    assert spool.stats().waiting == 0
    assert list(tmp_path.iterdir()) == []


def test_while_it_is_away_jobs_are_kept_and_forwarded_in_order_when_it_returns(spool: Spool, server: Server) -> None:
    server.go()
    for name in "abc":
        assert kinds(spool.insert(jobs(name))) == ["spooled"]
    assert kinds(spool.insert(jobs(*"def"))) == ["spooled"] * 3
    assert (spool.count(), server.stored) == (6, {})
    server.come_back()
    drained(spool)
    assert list(server.stored) == list("abcdef")


def test_nothing_overtakes_a_job_that_waits(spool: Spool, server: Server) -> None:
    spool.insert(jobs("a"))
    server.go()
    spool.insert(jobs("b"))
    with server._lock:  # at which the forwarder has to wait
        server.come_back()
        assert kinds(spool.insert(jobs("c"))) == ["spooled"], "the server is back, and b is not there yet"
    drained(spool)
    assert kinds(spool.insert(jobs("d"))) == ["new"]
    assert list(server.stored) == list("abcd")


def test_a_spool_gets_empty_although_a_producer_never_stops(spool: Spool, server: Server) -> None:
    server.go()
    spool.insert(jobs(*(f"{n:05}" for n in range(1200))))
    server.come_back()
    number = 1200
    while kinds(spool.insert(jobs(f"{number:05}"))) == ["spooled"]:
        number += 1
        assert number < 20_000, "it goes on for ever"
    drained(spool)
    assert list(server.stored) == [f"{n:05}" for n in range(number + 1)]


def test_a_server_that_hangs_with_the_last_jobs_blocks_no_producer_for_long(
    spool: Spool, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    clock = SimpleNamespace(
        time=lambda: time.time() + sum(slept), monotonic=lambda: time.monotonic() + sum(slept), sleep=slept.append
    )
    monkeypatch.setattr(markers, "time", clock)
    spool._file.prepare()
    spool._file._set_mark()
    spool._file.marks.set_closing()
    with server._lock:
        for name in "abcdefgh":
            assert kinds(spool.insert(jobs(name))) == ["spooled"]
    assert sum(slept) < 2 * markers._LONGEST_WAIT, "one of them waited, not all"


def test_another_process_stays_behind_as_well(opened: Callable[..., Spool], server: Server) -> None:
    one, other = opened(server), opened(Server())
    server.go()
    one.insert(jobs("a"))
    assert kinds(other.insert(jobs("b"))) == ["spooled"], "its own connection is well, but it sees that one waits"


def test_many_jobs_go_in_batches(spool: Spool, server: Server) -> None:
    server.go()
    spool.insert(jobs(*(f"{n:04}" for n in range(1201))))
    server.come_back()
    drained(spool)
    assert list(server.stored) == sorted(server.stored)
    assert server.batches == [500, 500, 201]


def test_large_jobs_go_in_smaller_batches(spool: Spool, server: Server) -> None:
    server.go()
    spool.insert([job(f"{n}", payload="x" * 1_500_000) for n in range(5)])
    server.come_back()
    drained(spool)
    assert server.batches == [2, 2, 1]


def test_everything_about_a_job_is_kept(spool: Spool, server: Server) -> None:
    sent = job(
        "a", version=55, state=State.SCHEDULED, priority=-3, rank=-9, payload='{"args":["é\\u0000 \\ud83d"]}',
        checksum=2**32 - 1, run_at=2**45, expires_at=17, options='{"timeout":5}', tags='["x"]', metadata="{}",
    )  # fmt: skip
    server.go()
    spool.insert([sent])
    row = spool.row("a")
    assert row is not None
    assert msgspec.structs.asdict(row).items() >= msgspec.structs.asdict(sent).items()
    server.come_back()
    drained(spool)
    assert server.stored == {"a": sent}


# -- ids


def test_an_id_can_wait_only_once(spool: Spool, server: Server) -> None:
    server.go()
    assert kinds(spool.insert(jobs("a", "b", "a"))) == ["spooled", "spooled", "taken"]
    assert kinds(spool.insert(jobs("b"))) == ["taken"]
    with pytest.raises(DuplicateJob, match="'b'"):
        spool.insert(jobs("c", "b", "d"), all_or_nothing=True)
    with pytest.raises(DuplicateJob, match="'e'"):
        spool.insert(jobs("e", "e"), all_or_nothing=True)
    assert spool.count() == 2
    assert kinds(spool.insert(jobs("c", "d"), all_or_nothing=True)) == ["spooled", "spooled"]


def test_a_job_whose_id_is_taken_is_dropped_and_counted(
    spool: Spool, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.insert([job("mine", version=10, created_at=10)])
    server.go()
    spool.insert([job("before"), job("mine", version=20, created_at=20), job("after")])
    with caplog.at_level(logging.WARNING):
        server.come_back()
        drained(spool)
    assert list(server.stored) == ["mine", "before", "after"]
    assert server.stored["mine"].created_at == 10
    assert spool.stats().duplicates == 1
    assert "job mine (add) is dropped from the spool" in caplog.text


def test_a_job_that_is_sent_again_after_a_lost_reply_is_no_duplicate(spool: Spool, server: Server) -> None:
    server.go()
    spool.insert([job("mine", version=20, created_at=20), job("made-by-headrace")])
    server.loses_replies = True
    server.come_back()
    drained(spool)
    assert server.batches == [2, 2]
    assert list(server.stored) == ["mine", "made-by-headrace"]
    assert spool.stats().duplicates == 0


def test_a_job_that_was_stored_before_the_server_went_is_forwarded_as_the_same(spool: Spool, server: Server) -> None:
    server.loses_replies = True
    assert kinds(spool.insert([job("mine", version=20, created_at=20)])) == ["spooled"]
    drained(spool)
    assert (list(server.stored), spool.stats().duplicates) == (["mine"], 0)


def test_a_job_that_was_stored_and_is_archived_by_now_is_not_run_again(spool: Spool, server: Server) -> None:
    server.go()
    spool.insert([job("mine", version=20, created_at=20), job("made")])
    server.archive = Shelf(job("made"), job("mine", version=20, created_at=10))  # one of the same id, from long ago
    server.come_back()
    drained(spool)
    assert list(server.stored) == ["mine"]


@pytest.mark.parametrize("is_away", [False, True])
def test_a_separate_archive_is_read_and_not_waited_for(
    opened: Callable[..., Spool], server: Server, is_away: bool
) -> None:
    archive_engine = Server("sqlite:///archive.db")
    archive_engine.archive = Shelf(job("made"))
    if is_away:
        archive_engine.archive.away = EngineUnavailable("connection refused")
    spool = opened(server, archive=archive_engine)
    server.go()
    spool.insert([job("made"), job("new")])
    server.come_back()
    drained(spool)
    assert list(server.stored) == (["made", "new"] if is_away else ["new"])


# -- limits


def test_a_full_spool_says_so_and_takes_all_or_nothing(opened: Callable[..., Spool], server: Server) -> None:
    spool = opened(server, limit=3)
    server.go()
    spool.insert(jobs("a", "b"))
    with pytest.raises(QueueFull, match=r"limited to 3 jobs; 2 wait and 2 more came. .* or raise spool_limit"):
        spool.insert(jobs("c", "d"), all_or_nothing=True)
    assert spool.count() == 2
    assert kinds(spool.insert(jobs("c"))) == ["spooled"]
    with pytest.raises(QueueFull):
        spool.insert(jobs("d"))
    server.come_back()
    drained(spool)
    assert list(server.stored) == list("abc")
    server.go()
    assert kinds(spool.insert(jobs("d", "e", "f"))) == ["spooled"] * 3


def test_the_limit_counts_jobs_and_not_their_numbers(tmp_path: Path) -> None:
    one_file, other_file = (SpoolFile(tmp_path / "spool.db", url, 3) for url in ("redis://a", "redis://b"))
    for n in range(3):
        one_file.add(jobs(f"ours-{n}"), False, 0)
        other_file.add(jobs(f"theirs-{n}"), False, 0)
    with pytest.raises(QueueFull):
        one_file.add(jobs("one-more"), False, 0)
    one_file.remove(one_file.first(2)[1:])
    one_file.add(jobs("one-more"), False, 0)
    assert [spooled.id for spooled in one_file.first(9)] == ["ours-0", "ours-2", "one-more"]
    one_file.close()
    other_file.close()


# -- what the server does not take


def test_a_job_that_is_refused_is_set_aside_and_the_rest_goes_on(
    spool: Spool, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.go()
    spool.insert(jobs(*(f"{n}" for n in range(9))))
    server.refuses = lambda job: job.id in ("3", "8")
    with caplog.at_level(logging.ERROR):
        server.come_back()
        drained(spool)
    assert list(server.stored) == list("0124567")
    stats = spool.stats()
    assert (stats.refused, stats.refusal, stats.duplicates) == (2, "ValueError: what is this?", 0)
    row = spool.row("3")
    assert row is not None
    assert (row.state, row.reason) == (State.FAILED, "refused when it was forwarded: ValueError: what is this?")
    assert "the store refused job 8" in caplog.text


def test_a_damaged_job_is_set_aside(spool: Spool, server: Server) -> None:
    server.go()
    spool.insert(jobs("a", "b", "c"))
    spool.pause()
    with spool._file.store.writing() as db:
        db.execute("UPDATE spooled SET job = '[1, 2' WHERE id = 'b'")
    server.come_back()
    spool.start()
    drained(spool)
    assert list(server.stored) == ["a", "c"]
    assert "damaged" in str(spool.stats().refusal)
    assert spool.row("b") is None


def test_a_job_that_is_refused_by_accident_gets_another_chance(spool: Spool, server: Server) -> None:
    server.go()
    spool.insert(jobs("a", "b"))
    accidents = iter([True] * 4)  # the batch, its first half, and both again
    server.refuses = lambda job: job.id == "a" and next(accidents, False)
    server.come_back()
    drained(spool)
    assert (list(server.stored), spool.stats().refused) == (["a", "b"], 0)


@pytest.mark.parametrize("error", [QueueFull("full"), SchemaMismatch("too new"), StoreMoved("redis://other")])
def test_what_no_job_is_to_blame_for_is_waited_for(spool: Spool, server: Server, error: Exception) -> None:
    server.go()
    spool.insert(jobs("a", "b"))
    server.away = error
    for _ in range(3):
        assert server.refused.acquire(timeout=PATIENCE)
    assert (spool.stats().waiting, spool.stats().refused) == (2, 0)
    eventually(lambda: spool.stats().error == str(error), "that the reason is recorded")
    server.come_back()
    drained(spool)
    assert list(server.stored) == ["a", "b"]
    assert spool.stats().error is None


def test_of_a_full_queue_as_much_is_forwarded_as_fits_and_other_queues_do_not_wait(
    spool: Spool, server: Server
) -> None:
    server.go()
    spool.insert([job(f"small-{number}", queue="small") for number in range(5)])
    spool.insert(jobs("a", "b"))
    server.capacity = {"small": 3}
    server.come_back()
    eventually(lambda: spool.stats().waiting == 2, "that what fits is forwarded")
    assert sorted(server.stored) == ["a", "b", "small-0", "small-1", "small-2"]
    server.capacity["small"] = 1
    eventually(lambda: spool.stats().waiting == 1, "that one more is forwarded")
    assert list(server.stored)[-1] == "small-3"
    server.capacity["small"] = 1
    drained(spool)
    assert list(server.stored)[-1] == "small-4"


def test_a_store_that_moved_gets_its_spool_from_an_app_with_the_new_url(opened: Callable[..., Spool]) -> None:
    old, new = Server("redis://old:6379/0?prefix=shop"), Server("redis://app:***@new:6379/0?prefix=shop&timeout=3")
    before = opened(old)
    old.go(EngineUnavailable("away"))
    before.insert(jobs("a", "b"))
    old.away = StoreMoved("redis://new:6379/0?prefix=shop")
    eventually(lambda: "were copied to" in str(before.stats().error), "that it knows of the move")
    before.close()
    after = opened(new)
    assert kinds(after.insert(jobs("c"))) == ["spooled"]
    drained(after)
    assert list(new.stored) == ["a", "b", "c"]
    assert old.stored == {}


def test_jobs_of_one_file_go_each_to_their_own_server(opened: Callable[..., Spool]) -> None:
    shop, mail = Server("postgresql://db/shop"), Server("postgresql://db/mail")
    for server in (shop, mail):
        server.go()
    for_shop, for_mail = opened(shop), opened(mail)
    for_shop.insert(jobs("same-id", "s"))
    for_mail.insert(jobs("same-id", "m"))
    assert for_shop.stats().others == {"postgresql://db/mail": 2}
    shop.come_back()
    drained(for_shop)
    assert (list(shop.stored), mail.stored, for_mail.count()) == (["same-id", "s"], {}, 2)
    assert kinds(for_shop.insert(jobs("t"))) == ["new"], "jobs for another server block no others"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("postgresql://app:secret@db:5432/shop?schema=x&connections=5", "postgresql://db:5432/shop?schema=x"),
        ("postgresql://app@/shop?host=/run/pg", "postgresql:///shop?host=/run/pg"),
        ("redis://:***@one:6379/0?prefix=p&timeout=3", "redis://one:6379/0?prefix=p"),
        ("redis+sentinel://u@one:26379,two/mymaster/0", "redis+sentinel://one:26379,two/mymaster/0"),
    ],
)
def test_a_store_is_known_by_where_it_is(url: str, address: str) -> None:
    assert address_of(url) == address


# -- the file


def test_only_its_owner_can_read_it(spool: Spool, server: Server, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        server.go()
        spool.insert(jobs("a"))
    finally:
        os.umask(before)
    made = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert made == {"spool.db": 0o600, "spool.db-wal": 0o600, "spool.db-shm": 0o600, "spool.db.d": 0o700}


def test_a_commit_is_on_the_disk_when_it_returns(spool: Spool) -> None:
    with spool._file.store.writing() as db:
        assert db.execute("PRAGMA synchronous").fetchone() == (2,)  # full
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_job_is_kept_where_no_thread_is_to_be_had(
    spool: Spool, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    server.go()
    with monkeypatch.context() as at_the_end:
        at_the_end.setattr(threading.Thread, "start", refuse)
        assert kinds(spool.insert(jobs("a"))) == ["spooled"]
    server.come_back()
    spool.start()
    drained(spool)
    assert list(server.stored) == ["a"]


def test_jobs_outlive_the_process_that_spooled_them(opened: Callable[..., Spool], server: Server) -> None:
    server.go()
    first = opened(server)
    first.insert(jobs("a", "b"))
    first.close()
    second = opened(server)
    second.start()
    assert server.refused.acquire(timeout=PATIENCE)
    assert kinds(second.insert(jobs("c"))) == ["spooled"]
    second.close()
    server.come_back()
    third = opened(server)
    third.start()
    drained(third)
    assert list(server.stored) == ["a", "b", "c"]


def test_a_closing_app_forwards_what_it_can(opened: Callable[..., Spool], server: Server) -> None:
    spool = opened(server)
    server.go()
    spool.insert(jobs("a"))
    assert server.refused.acquire(timeout=PATIENCE)
    server.come_back()
    spool.close()
    assert list(server.stored) == ["a"]
    assert kinds(spool.insert(jobs("b"))) == ["new"], "a closed one can be used again"


def test_a_lost_mark_is_found_missing_by_the_next_process(
    opened: Callable[..., Spool], server: Server, tmp_path: Path
) -> None:
    server.go()
    first = opened(server)
    first.insert(jobs("a"))
    first.close()
    for mark in (tmp_path / "spool.db.d").glob("waiting-*"):
        mark.unlink()
    server.come_back()
    second = opened(server)
    assert kinds(second.insert(jobs("b"))) == ["spooled"]
    drained(second)
    assert list(server.stored) == ["a", "b"]


def test_a_mark_without_jobs_is_taken_away(spool: Spool, server: Server) -> None:
    spool._file.prepare()
    spool._file._set_mark()  # as left by a process that died before its commit
    assert kinds(spool.insert(jobs("a"))) == ["spooled"]
    drained(spool)
    assert kinds(spool.insert(jobs("b"))) == ["new"]


def test_one_forwards_while_the_others_watch(opened: Callable[..., Spool], server: Server) -> None:
    spools = [opened(server) for _ in range(3)]
    server.go()
    for n, spool in enumerate(spools * 50):
        spool.insert(jobs(f"{n:03}"))
    server.come_back()
    for spool in spools:
        drained(spool)
    assert list(server.stored) == sorted(server.stored)
    assert len(server.stored) == 150
    assert sum(server.batches) == 150, "none was sent twice"


def test_one_that_watches_forwards_what_others_leave_later(opened: Callable[..., Spool], server: Server) -> None:
    watching = opened(server)
    watching.keep_forwarding()
    other = opened(server)
    server.go()
    other.insert(jobs("a"))
    other.close()
    server.come_back()
    drained(watching)
    assert list(server.stored) == ["a"]


def test_to_watch_makes_no_file(spool: Spool, tmp_path: Path) -> None:
    spool.keep_forwarding()
    assert spool._forwarder._thread is not None
    spool.pause()
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_something_else_is_left_alone(opened: Callable[..., Spool], server: Server, tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "other.db")) as db:
        db.execute("CREATE TABLE precious (x)")
    spool = opened(server, name="other.db")
    with pytest.raises(ConfigError, match="is a database of another program; use a separate file"):
        spool.insert(jobs("a"))


def test_a_file_of_a_newer_headrace_is_left_alone(opened: Callable[..., Spool], server: Server, tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "spool.db")) as db:
        db.execute("PRAGMA user_version=99")
    with pytest.raises(ConfigError, match="newer headrace"):
        opened(server).insert(jobs("a"))


def test_a_spool_that_can_not_be_written_says_why_and_what_for(
    opened: Callable[..., Spool], server: Server, tmp_path: Path
) -> None:
    (tmp_path / "folder").write_text("no folder at all")
    spool = opened(server, name="folder/spool.db")
    assert kinds(spool.insert(jobs("a"))) == ["new"], "the server is there: the spool is not needed"
    server.go()
    with pytest.raises(EngineUnavailable, match=r"connection refused; it can't be spooled either: .*folder"):
        spool.insert(jobs("b"))


def test_a_damaged_spool_does_not_keep_jobs_from_a_server_that_is_there(
    opened: Callable[..., Spool], server: Server, tmp_path: Path
) -> None:
    (tmp_path / "spool.db").write_text("this is not a database, and long enough to be looked at as one\n" * 20)
    assert kinds(opened(server).insert(jobs("a"))) == ["new"]


# -- waiting for a job to leave


def test_waiting_ends_when_the_job_has_left(spool: Spool, server: Server) -> None:
    server.go()
    spool.insert(jobs("a"))
    assert not spool.waiting().wait("a", 0.01)
    left = threading.Event()

    def wait() -> None:
        if spool.waiting().wait("a", PATIENCE):
            left.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert not left.is_set()
    server.come_back()
    assert left.wait(PATIENCE)
    thread.join()
    assert "a" in server.stored


def test_waiting_goes_on_until_the_server_answers_here_too(opened: Callable[..., Spool], server: Server) -> None:
    spool, other = opened(server), Server()
    server.go()
    spool.insert(jobs("a"))
    there = opened(other)  # the same server, by a connection that is well
    there.start()
    drained(there)
    assert list(other.stored) == ["a"]
    assert not spool.waiting().wait("a", 0.05), "it has left, but this process can't read it"
    server.come_back()
    assert spool.waiting().wait("a", PATIENCE)


def test_the_place_in_the_spool_is_explained(spool: Spool, server: Server) -> None:
    server.go()
    spool.insert(jobs("a", "b", "c"))
    where, in_front, error = spool.place("c")
    assert where.endswith("spool.db")
    assert (in_front, error) == (2, "connection refused")
    sentence = explain_spooled("web-1:/var/spool.db", 2, "connection refused")
    assert sentence == (
        "It waits in the spool of web-1:/var/spool.db: the server is unavailable (connection refused), 2 jobs are in "
        "front of it; it is forwarded when the server returns."
    )
    assert explain_spooled("web-1:/x", 2, None).endswith("which is being forwarded now: 2 jobs are in front of it.")


def examined(spool: Spool) -> tuple[list[str], list[str]]:
    """The findings and the remarks."""
    found = list(findings(spool))
    return [str(one) for one in found if not one.note], [str(one) for one in found if one.note]


def test_the_doctor_reports_refused_and_dropped_jobs_and_those_of_other_stores(
    opened: Callable[..., Spool], server: Server
) -> None:
    spool, other = opened(server, limit=4), Server("redis://archive_engine")
    other.go()
    opened(other).insert(jobs("z"))
    server.insert([job("mine", version=1000)])
    server.go()
    spool.insert([job("bad"), job("mine", version=2000, created_at=2000), job("a"), job("b")])
    full, _ = examined(spool)
    assert [sentence for sentence in full if "nearly full; it refuses jobs beyond 4" in sentence]
    assert [sentence for sentence in full if sentence.startswith("4 jobs wait in the spool since")]
    server.refuses = lambda job: job.id == "bad"
    server.come_back()
    drained(spool)
    wrong, good_to_know = examined(spool)
    assert len(wrong) == 1
    assert wrong[0].startswith("the server refused 1 forwarded job, the last one with")
    assert good_to_know == [
        "1 job of the spool was dropped; the store already had jobs with their ids",
        "1 job waits in the same spool for redis://archive_engine; an app with that URL forwards them",
    ]


def test_the_doctor_says_if_a_spool_can_not_be_used(
    opened: Callable[..., Spool], server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spool.db").write_text("this is not a database, and long enough to be looked at as one\n" * 20)
    assert "not an SQLite database" in examined(opened(server))[0][0]
    assert examined(opened(server, name="new/folder/spool.db"))[0] == []
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "this user may not write to" in examined(opened(server, name="new/folder/spool.db"))[0][0]


# -- the settings


def found(arguments: Any = (), environment: Any = (), file: Any = ()) -> Settings:
    return resolve(dict(arguments), dict(environment), dict(file), "headrace.toml").settings


@pytest.mark.parametrize("url", ["sqlite:///x.db", "memory://", None])
def test_a_spool_is_only_for_a_server(url: str | None) -> None:
    with pytest.raises(ConfigError, match=r"^spool: only for a server"):
        found({"url": url, "spool": "s.db"})


@pytest.mark.parametrize("path", [" ", "sqlite:///s.db", "a\0b"])
def test_a_spool_is_the_path_of_a_file(path: str) -> None:
    with pytest.raises(ConfigError, match=r"^spool: .* should be the path of a file"):
        found({"url": URL, "spool": path})


def test_a_limit_has_to_let_one_in() -> None:
    with pytest.raises(ConfigError, match=r"^spool_limit: 0 must be at least 1"):
        found({"spool_limit": 0})
    assert found(environment={"HEADRACE_SPOOL_LIMIT": "5"}).spool_limit == 5


def test_a_spool_can_come_from_anywhere_and_be_switched_off() -> None:
    assert found({"url": URL, "spool": "s.db"}).spool == "s.db"
    assert found({"url": URL}, {"HEADRACE_SPOOL": "s.db"}).spool == "s.db"
    assert found({"url": URL, "spool": None}, {"HEADRACE_SPOOL": "s.db"}).spool is None
    assert found({"url": URL}, {"HEADRACE_SPOOL": "none"}, {"spool": "s.db"}).spool is None
    assert found(file={"url": URL, "spool": "s.db"}).spool == "s.db"


def test_a_nearer_url_of_a_local_store_leaves_the_spool_of_the_server_behind() -> None:
    file = {"url": URL, "spool": "s.db"}
    got = resolve({"url": "memory://"}, {}, file, "headrace.toml")
    assert (got.settings.spool, "spool" in got.origin) == (None, False)
    assert found({}, {"HEADRACE_URL": "sqlite:///x.db"}, file).spool is None
    assert found({"url": "redis://other"}, {}, file).spool == "s.db"
    with pytest.raises(ConfigError, match=r"^spool: only for a server"):
        found({}, {"HEADRACE_URL": "sqlite:///x.db", "HEADRACE_SPOOL": "s.db"})
