"""Where a backup is refused: over its own store by another name, and beside the log of another database."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.engines.sqlite.maintenance import SqliteMaintenance
from headrace.engines.sqlite_file.errors import explained
from headrace.errors import ConfigError, EngineUnavailable


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Headrace]:
    with Headrace(f"sqlite:///{tmp_path / 'jobs.db'}") as app:
        app.task_by_name("x").using(delay=60).enqueue()
        yield app


def test_the_store_is_known_by_every_name(app: Headrace, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "link.db").symlink_to("jobs.db")
    os.link(tmp_path / "jobs.db", tmp_path / "twin.db")
    before = (tmp_path / "jobs.db").stat().st_ino
    for name in ("sub/../jobs.db", "link.db", "twin.db"):
        with pytest.raises(ConfigError, match="the store itself"):
            app.admin.backup(tmp_path / name, overwrite=True)
        with pytest.raises(ConfigError, match="the store itself"):
            app.admin.restore(tmp_path / name, replace=True)
    assert (tmp_path / "jobs.db").stat().st_ino == before
    assert app.jobs.count() == 1


def test_no_backup_is_put_beside_a_log_that_would_be_read_with_it(app: Headrace, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    app.admin.backup(copy)
    with closing(sqlite3.connect(copy)) as somebody:
        somebody.execute("PRAGMA journal_mode=WAL")
        somebody.execute("CREATE TABLE theirs (x)")
        somebody.commit()
        with pytest.raises(ConfigError, match="db-wal is beside it"):
            app.admin.backup(copy, overwrite=True)
    assert app.admin.backup(copy, overwrite=True).jobs == 1  # closed, it has no log
    assert app.admin.examine(copy) == 1


def test_a_place_that_can_not_be_written_is_reported(
    app: Headrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkdtemp", refused)
    with pytest.raises(ConfigError, match="copy.db can't be written: Permission denied; choose"):  # noqa: RUF043
        app.admin.backup(tmp_path / "copy.db")


def test_the_disk_that_is_full_is_the_one_that_is_named(
    app: Headrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_up(_self: object, part: Path, *_: object) -> None:
        with explained(tmp_path / "jobs.db"), closing(sqlite3.connect(part)) as copy:
            copy.execute("PRAGMA max_page_count=2")
            copy.execute("CREATE TABLE t (x)")
            copy.execute("INSERT INTO t VALUES (zeroblob(100000))")

    monkeypatch.setattr(SqliteMaintenance, "backup", fill_up)
    with pytest.raises(EngineUnavailable) as refused:
        app.admin.backup(tmp_path / "copy.db")
    assert str(refused.value).startswith(f"the disk of {tmp_path / 'copy.db'} is full")
    assert not (tmp_path / "copy.db").exists()
