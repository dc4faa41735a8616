"""Where a caller's transaction could not see a double, a unique job is refused rather than doubled."""

from __future__ import annotations

from typing import cast

import psycopg
import pytest

from headrace import Headrace, InvalidJob
from headrace.engines.postgres.engine import PostgresEngine

CASES = [(True, psycopg.IsolationLevel.READ_COMMITTED, "autocommit")]
CASES += [(False, psycopg.IsolationLevel.REPEATABLE_READ, "REPEATABLE READ")]


@pytest.mark.engines("postgres")
@pytest.mark.parametrize(("autocommit", "level", "expected"), CASES)
def test_it_is_refused(url: str, autocommit: bool, level: psycopg.IsolationLevel, expected: str) -> None:
    with Headrace(url) as app:
        once = app.task(name="once", unique=True)(lambda: None)
        once.enqueue()
        address = cast(PostgresEngine, app.engine).address
        with psycopg.connect(address._conninfo, autocommit=autocommit) as connection:
            connection.isolation_level = level
            with pytest.raises(InvalidJob, match=expected):
                once.using(connection=connection).enqueue()
            connection.rollback()
        assert app.jobs.count(task="once") == 1
