"""SQLite: the file under the engine, as others see it who open it too."""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace.engines.sqlite.engine import SqliteEngine
from headrace.engines.wakeup.local import PollBell
from headrace.errors import EngineUnavailable
from tests.support.builders import (
    EVERYTHING,
    NOW,
    claim,
    ids,
    kinds,
    new_job,
)
from tests.support.waiting import PATIENCE


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[SqliteEngine]:
    made = SqliteEngine(tmp_path / "q.db")
    made.insert([new_job("job")], now=NOW)
    yield made
    made.close()


def test_a_write_has_the_file_to_itself_from_its_first_moment(engine: SqliteEngine) -> None:
    """A transaction that began as a read could not become a write once somebody else has written."""
    with (
        engine.store.writing(),
        closing(sqlite3.connect(engine.store.path, timeout=0, isolation_level=None)) as other,
        pytest.raises(sqlite3.OperationalError, match="locked"),
    ):
        other.execute("BEGIN IMMEDIATE")


def test_an_exception_undoes_the_whole_transaction_and_frees_the_file(engine: SqliteEngine) -> None:
    def fail_half_way() -> None:
        with engine.store.writing() as db:
            db.execute("DELETE FROM headrace_jobs")
            raise KeyError("half way")

    with pytest.raises(KeyError):
        fail_half_way()
    assert engine.queries.count(EVERYTHING).jobs == 1
    assert kinds(engine.insert([new_job("next")], now=NOW)) == ["new"]


def test_reads_are_not_held_up_by_a_write_and_see_only_what_is_committed(engine: SqliteEngine) -> None:
    with engine.store.writing() as db:
        db.execute("DELETE FROM headrace_jobs")
        assert engine.queries.count(EVERYTHING).jobs == 1


def test_a_listener_without_a_socket_notices_what_was_stored_while_its_connection_was_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new connection counts changes from the start again, so its number may be the one seen before."""

    def refuse(*_: object) -> None:
        raise OSError("operation not supported")

    monkeypatch.setattr(socket.socket, "bind", refuse, raising=False)
    listening, acting = SqliteEngine(tmp_path / "q.db"), SqliteEngine(tmp_path / "q.db")
    acting.insert([new_job("before")], now=NOW)
    bell = listening.listen("work")
    assert isinstance(bell, PollBell)
    assert not bell.wait(0)
    listening.close()
    acting.insert([new_job("meanwhile")], now=NOW)
    assert bell.wait(PATIENCE)
    listening.close()
    acting.close()


def test_a_plain_copy_of_the_database_made_by_sqlite_is_a_working_store(engine: SqliteEngine, tmp_path: Path) -> None:
    with (
        closing(sqlite3.connect(engine.store.path)) as source,
        closing(sqlite3.connect(tmp_path / "copy.db")) as target,
    ):
        source.backup(target)
    copy = SqliteEngine(tmp_path / "copy.db")
    assert ids(claim(copy)) == ["job"]
    copy.close()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE headrace_jobs SET state = 'running'",
        "UPDATE headrace_jobs SET lease_until = 1",
        "UPDATE headrace_jobs SET state = 'asleep'",
        "UPDATE headrace_jobs SET priority = 101",
    ],
)
def test_the_file_itself_refuses_what_no_job_can_be(engine: SqliteEngine, change: str) -> None:
    with pytest.raises(sqlite3.IntegrityError), engine.store.writing() as db:
        db.execute(change)


def delete(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink()


def replace(path: Path) -> None:
    delete(path)
    sqlite3.connect(path).close()
    path.touch()


@pytest.mark.parametrize("change", [delete, replace])
def test_a_file_that_is_deleted_or_replaced_takes_no_more_jobs(
    engine: SqliteEngine, change: Callable[[Path], None]
) -> None:
    change(engine.store.path)
    for _ in range(2):
        with pytest.raises(EngineUnavailable, match="deleted or replaced"):
            engine.insert([new_job("lost")], now=NOW)
        with pytest.raises(EngineUnavailable, match="deleted or replaced"):
            engine.queries.count(EVERYTHING)
    engine.close()
    assert kinds(engine.insert([new_job("anew")], now=NOW)) == ["new"]


def test_a_file_that_is_put_back_goes_on(engine: SqliteEngine) -> None:
    away = engine.store.path.rename(engine.store.path.with_name("away.db"))
    with pytest.raises(EngineUnavailable, match="deleted or replaced"):
        engine.insert([new_job("next")], now=NOW)
    away.rename(engine.store.path)
    assert kinds(engine.insert([new_job("next")], now=NOW)) == ["new"]


def test_tables_that_are_gone_are_told_in_our_words(engine: SqliteEngine) -> None:
    with closing(sqlite3.connect(engine.store.path)) as db:
        db.execute("DROP TABLE headrace_jobs")
    with pytest.raises(EngineUnavailable, match="the tables are gone"):
        engine.queries.count(EVERYTHING)
    with pytest.raises(EngineUnavailable, match="the tables are gone"):
        engine.insert([new_job("next")], now=NOW)
