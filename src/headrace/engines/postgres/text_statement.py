"""A statement with texts as parameters, executed with as little work as possible: that of one new job.

A cursor of the driver finds out the type of each parameter, and how to read each column of the answer. For one job that
takes longer than everything else on this side of the connection.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from weakref import WeakKeyDictionary

from psycopg import generators
from psycopg.errors import InvalidSqlStatementName, error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from headrace.engines.postgres.connections import Connection

_PARAMETER = re.compile(r"%\(([a-z_]+)\)s")
_DONE = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)
_uses: WeakKeyDictionary[Connection, Counter[bytes]] = WeakKeyDictionary()  # by the name of the statement


class TextStatement:
    """The driver's setting says after how many uses a connection prepares it."""

    def __init__(self, sql: str) -> None:
        self._fields = tuple(dict.fromkeys(_PARAMETER.findall(sql)))
        numbers = {field: f"${number}" for number, field in enumerate(self._fields, 1)}
        self._sql = _PARAMETER.sub(lambda match: numbers[match[1]], sql).encode()
        self._name = b"headrace_" + hashlib.blake2b(self._sql, digest_size=8).hexdigest().encode()

    def rows(self, db: Connection, values: Mapping[str, str | int | None]) -> int:
        """Execute it, outside of a transaction; the number of rows of the answer.

        NUL, which a text can't have there, is replaced.
        """
        given = map(values.__getitem__, self._fields)
        texts = [None if value is None else str(value).replace("\0", "\ufffd").encode() for value in given]
        uses = _uses.setdefault(db, Counter())
        if db.prepare_threshold is None or uses[self._name] < db.prepare_threshold:
            uses[self._name] += 1
            db.pgconn.send_query_params(self._sql, texts)
            return _answer(db).ntuples
        if uses[self._name] == db.prepare_threshold:
            self._prepare(db)
            uses[self._name] += 1
        try:
            return self._execute(db, texts)
        except InvalidSqlStatementName:  # after a rollback, the driver deallocates all statements
            self._prepare(db)
            return self._execute(db, texts)

    def _prepare(self, db: Connection) -> None:
        db.pgconn.send_prepare(self._name, self._sql)
        _answer(db)

    def _execute(self, db: Connection, texts: list[bytes | None]) -> int:
        db.pgconn.send_query_prepared(self._name, texts)
        return _answer(db).ntuples


def _answer(db: Connection) -> PGresult:
    results: list[PGresult] = db.wait(generators.execute(db.pgconn))
    result = results[0]
    if result.status not in _DONE:
        raise error_from_result(result, encoding="utf-8")
    return result
