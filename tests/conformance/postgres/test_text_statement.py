"""PostgreSQL: a statement for texts answers as a cursor of the driver does."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from headrace.engines.postgres.store_url import PostgresUrl
from headrace.engines.postgres.text_statement import TextStatement
from tests.support import servers
from tests.support.engines import StoreUnderTest

pytestmark = pytest.mark.engines("postgres")

LENGTH = TextStatement("SELECT 1 WHERE length(%(text)s) = %(expected)s::integer OR %(text)s IS NULL")


@pytest.fixture
def db(store: StoreUnderTest) -> Iterator[psycopg.Connection]:
    with PostgresUrl(store.address).connect() as connection:
        yield connection


def prepared(db: psycopg.Connection) -> int:
    [(count,)] = db.execute("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'headrace%'").fetchall()
    return int(count)


@pytest.mark.parametrize("text", ["", "häßlich", "a\0b", "\\u0000", "x" * 4_000_000])
def test_a_text_of_any_length_arrives_before_and_after_it_is_prepared(db: psycopg.Connection, text: str) -> None:
    db.prepare_threshold = 1
    for _ in range(3):
        assert LENGTH.rows(db, {"text": text, "expected": len(text)}) == 1
        assert LENGTH.rows(db, {"text": text, "expected": len(text) + 1}) == 0
    assert LENGTH.rows(db, {"text": None, "expected": 0}) == 1


@pytest.mark.parametrize("threshold", [0, 2, None])
def test_it_is_prepared_when_the_driver_would_do_so(db: psycopg.Connection, threshold: int | None) -> None:
    db.prepare_threshold = threshold
    seen = []
    for _ in range(4):
        LENGTH.rows(db, {"text": "", "expected": 0})
        seen.append(prepared(db))
    assert seen == [int(threshold is not None and use >= threshold) for use in range(4)]


def test_each_connection_prepares_it(db: psycopg.Connection, store: StoreUnderTest) -> None:
    with PostgresUrl(store.address).connect() as other:
        for connection in (db, other):
            connection.prepare_threshold = 0
            LENGTH.rows(connection, {"text": "", "expected": 0})
            assert prepared(connection) == 1


def test_it_is_prepared_again_when_the_driver_has_deallocated_it(db: psycopg.Connection) -> None:
    db.prepare_threshold = 0
    for _ in range(3):
        assert LENGTH.rows(db, {"text": "", "expected": 0}) == 1
        assert prepared(db) == 1
        db.execute("BEGIN")
        db.execute("ROLLBACK")
        assert prepared(db) == 0


@pytest.mark.parametrize("threshold", [0, None])
def test_an_error_of_the_server_is_that_of_the_driver(db: psycopg.Connection, threshold: int | None) -> None:
    db.prepare_threshold = threshold
    with pytest.raises(psycopg.errors.InvalidTextRepresentation, match="invalid input syntax"):
        LENGTH.rows(db, {"text": "", "expected": "three"})
    assert LENGTH.rows(db, {"text": "", "expected": 0}) == 1


def test_a_lost_connection_is_an_error_of_the_driver(db: psycopg.Connection, store: StoreUnderTest) -> None:
    servers.postgres_connection(store.address).execute("SELECT pg_terminate_backend(%s)", [db.info.backend_pid])
    with pytest.raises(psycopg.OperationalError):
        LENGTH.rows(db, {"text": "", "expected": 0})
    assert db.closed
