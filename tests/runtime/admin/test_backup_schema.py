"""Backups that were changed: a restore takes nothing but jobs, and its errors are headrace's own."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from headrace.app.admin import backups
from headrace.engines.protocol.engine import Engine
from headrace.engines.sqlite.engine import SqliteEngine
from headrace.errors import ConfigError, HeadraceError
from tests.runtime.transfer.store_contents import contents, fill
from tests.support.engines import StoreUnderTest

WIPE = "DELETE FROM headrace_jobs WHERE id <> '';"


@pytest.fixture
def source(folder: Path, engine_name: str) -> Iterator[Engine]:
    (folder / "source").mkdir()
    with ExitStack() as at_end:
        yield StoreUnderTest(engine_name, folder / "source", at_end).open()


def alter(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(statement)


def replace_by_view(path: Path) -> None:
    alter(path, "ALTER TABLE headrace_tags RENAME TO elsewhere")
    alter(path, "CREATE VIEW headrace_tags AS SELECT * FROM elsewhere")


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (
            lambda path: alter(path, f"CREATE TRIGGER evil AFTER INSERT ON headrace_jobs BEGIN {WIPE} END"),
            "trigger evil",
        ),
        (lambda path: alter(path, f"CREATE TRIGGER evil AFTER DELETE ON mine BEGIN {WIPE} END"), "trigger evil"),
        (lambda path: alter(path, "CREATE UNIQUE INDEX evil ON headrace_jobs (id, task)"), "index evil"),
        (lambda path: alter(path, "ALTER TABLE headrace_jobs ADD COLUMN evil"), "table headrace_jobs"),
        (lambda path: alter(path, "DROP TRIGGER headrace_dead_letter_event"), "headrace_dead_letter_event is missing"),
        (lambda path: alter(path, "CREATE VIEW headrace_more AS SELECT 1"), "view headrace_more"),
        (replace_by_view, "view headrace_tags"),
    ],
    ids=["trigger", "far trigger", "index", "column", "missing", "view", "view for a table"],
)
def test_a_backup_with_another_schema_is_refused(
    source: Engine, folder: Path, spoil: Callable[[Path], object], expected: str
) -> None:
    fill(source, 5)
    copy = folder / "copy.db"
    backups.take(source, copy)
    alter(copy, "CREATE TABLE mine (id INTEGER)")
    spoil(copy)
    before = contents(source)
    with pytest.raises(ConfigError, match=expected):
        backups.examine(copy)
    with pytest.raises(ConfigError, match=expected):
        backups.restore(source, copy, replace_all=True)
    assert contents(source) == before


@pytest.mark.engines("sqlite")
def test_tables_of_others_beside_the_jobs_come_with_a_backup(source: Engine, folder: Path) -> None:
    assert isinstance(source, SqliteEngine)
    fill(source, 5)
    for statement in (
        "CREATE TABLE orders (id INTEGER)",
        "CREATE VIEW late AS SELECT id FROM headrace_jobs",
        "CREATE TRIGGER counted AFTER INSERT ON orders BEGIN DELETE FROM orders WHERE id < 0; END",
    ):
        alter(source.store.path, statement)
    jobs = backups.take(source, folder / "copy.db").jobs
    assert backups.examine(folder / "copy.db") == jobs
    assert backups.restore(source, folder / "copy.db", replace_all=True).jobs == jobs


@pytest.mark.engines("sqlite")
def test_a_file_with_flipped_bits_is_intact_or_refused_with_our_error(source: Engine, folder: Path) -> None:
    fill(source, 20)
    copy = folder / "copy.db"
    backups.take(source, copy)
    whole = copy.read_bytes()
    places = [found.end() for found in re.finditer(b"headrace_", whole)]  # in what tells the schema, among others
    for place in places[::6]:
        flipped = bytearray(whole)
        flipped[place] ^= 0xFF
        copy.write_bytes(flipped)
        with suppress(HeadraceError):
            backups.examine(copy)
