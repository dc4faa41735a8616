"""The holder of a busy file: an error must not blame another process for a transaction of our own."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.engines.sqlite_file.errors import translated
from headrace.engines.sqlite_file.lock_holder import is_written_here

pytestmark = pytest.mark.skipif(not Path("/proc/locks").exists(), reason="this system does not tell its locks")
_BEGIN = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None); db.execute('BEGIN IMMEDIATE'); "


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = wal")
    db.execute("CREATE TABLE orders (id)")
    db.close()
    return path


def busy(path: Path) -> str:
    db = sqlite3.connect(path, timeout=0, isolation_level=None)
    with pytest.raises(sqlite3.OperationalError) as raised:
        db.execute("BEGIN IMMEDIATE")
    message = str(translated(raised.value, path))
    db.close()
    return message


def test_a_transaction_of_this_process_is_known_as_such(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("SELECT * FROM orders").fetchall()
    assert not is_written_here(path)
    connection.execute("BEGIN IMMEDIATE")
    assert is_written_here(path)
    message = busy(path)
    assert "this process holds the file itself" in message
    assert "using(connection=...)" in message
    connection.execute("ROLLBACK")
    assert not is_written_here(path)
    connection.close()


def test_that_of_another_process_is_not_ours(path: Path) -> None:
    code = _BEGIN + "print('begun', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        other.stdout.readline()
        assert not is_written_here(path)
        assert "another process holds the lock" in busy(path)
        other.stdin.close()


def test_a_missing_file_has_no_lock_holder(tmp_path: Path) -> None:
    assert not is_written_here(tmp_path / "nothing.db")
