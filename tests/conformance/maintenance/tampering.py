"""Damage that no operation of an engine does: what a bug, another tool or a lost key would leave behind."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.builders import NOW
from tests.support.engines import StoreUnderTest

_ROWS = {
    "history": "headrace_history (job, at, event, source, target, version, attempt) "
    f"VALUES ({{n}}, {NOW}, 'x', 'pending', 'pending', 1, 1)",
    "logs": f"headrace_logs (job, at, attempt, level, message) VALUES ({{n}}, {NOW}, 1, 'info', 'x')",
    "steps": f"headrace_steps (job, kind, name, number, at) VALUES ({{n}}, 'step', 'x', {{n}}, {NOW})",
    "tags": "headrace_tags (tag, job) VALUES ('lost', {n})",
}
_KEYS = {"history": "history", "logs": "logs", "steps": "steps", "dependencies": "parents"}


class Tampering:
    """Reaches into a store behind its engine's back."""

    def __init__(self, store: StoreUnderTest) -> None:
        self._address = store.address
        self.is_redis = store.address.startswith(("redis", "unix"))
        self._number = 900_000

    def leave_orphan(self, what: str) -> None:
        """A record of this kind whose job does not exist."""
        self._number += 1
        if self.is_redis:
            self._leave_key(what)
        elif what == "dependencies":
            child = "(SELECT seq FROM headrace_jobs WHERE id = 'child')"
            edge = f"({child}, {self._number}, 'cancel', {'true' if self._is_postgres else '0'})"
            self.execute(f"INSERT INTO headrace_dependencies (child, parent, policy, blocks) VALUES {edge}")
        else:
            self.execute("INSERT INTO " + _ROWS[what].format(n=self._number))

    def unblock(self, job_id: str) -> None:
        """Let a waiting job wait for nobody."""
        if self.is_redis:
            client, prefix = self._redis()
            number = client.hget(f"{prefix}:ids", job_id).decode()
            client.delete(f"{prefix}:blocks:{number}")
        else:
            no = "false" if self._is_postgres else "0"
            self.execute(f"UPDATE headrace_dependencies SET blocks = {no}")

    def lose(self, index: str) -> None:
        """Take everything out of an index of Redis."""
        client, prefix = self._redis()
        assert client.delete(f"{prefix}:{index}") == 1

    def execute(self, statement: str) -> None:
        if self._is_postgres:
            from tests.support import servers

            [schema] = parse_qs(urlsplit(self._address).query)["schema"]
            db = servers.postgres_connection(self._address)
            db.execute(statement.replace("headrace_", f'"{schema}".headrace_'))
            return
        with closing(sqlite3.connect(self._address, isolation_level=None)) as file:
            file.execute(statement)  # without foreign keys, as any other tool

    @property
    def _is_postgres(self) -> bool:
        return self._address.startswith("postgres")

    def _leave_key(self, what: str) -> None:
        client, prefix = self._redis()
        number = f"{self._number:012d}"
        if what == "tags":
            client.zadd(f"{prefix}:tag:t", {number: self._number})
        elif what in ("history", "logs"):
            client.rpush(f"{prefix}:{_KEYS[what]}:{number}", "x")
        elif what == "steps":
            client.hset(f"{prefix}:steps:{number}", "x", "x")
        else:
            child = client.hget(f"{prefix}:ids", "child").decode()
            client.hset(f"{prefix}:parents:{child}", number, "c")

    def _redis(self) -> tuple[Any, str]:
        from tests.support import servers

        [prefix] = parse_qs(urlsplit(self._address).query)["prefix"]
        return servers.redis_connection(self._address), f"{{{prefix}}}"
