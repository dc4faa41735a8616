"""A PostgreSQL store of any size, with statistics of any age, and the plans that its server makes for our statements.

Owns what such a store holds, what a statement is given, and how a plan is read. Must not know which plan is right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import msgspec
import psycopg
from psycopg import sql

from headrace.core.jobs.records import JobNote, Lease
from headrace.engines.postgres.engine import PostgresEngine
from headrace.engines.postgres.statements import qualified
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql.records import Completion, DeadLetterInsert, HistoryText
from tests.support import servers
from tests.support.builders import NOW, fail, new_job

BIG = ("jobs", "ids", "history", "logs", "tags", "steps")
# Read without a condition, these hold only jobs that are at stake now; any other index holds all there ever were.
OF_THE_OPEN = {"jobs_pending", "jobs_due", "jobs_waiting", "jobs_leased", "jobs_expiring"}
_PARAMETER = re.compile(r"%\((\w+)\)s")

# A store in the middle of its life: mostly history, some of every state, everything in each of five queues.
LOAD = f"""
INSERT INTO headrace_ids (seq, id) SELECT n, 'job-' || lpad(n::text, 8, '0') FROM numbers;
INSERT INTO headrace_jobs (seq, id, task, queue, state, priority, rank, version, attempt, max_attempts, payload,
                           checksum, created_at, run_at, expires_at, started_at, finished_at, worker, lease_until, tags)
SELECT n, 'job-' || lpad(n::text, 8, '0'), 'task' || n % 7, 'q' || n / 10 % 5, state, n % 3, due, 2, 1, 3, '[1,2]',
       7, {NOW} + n, due, CASE WHEN n % 50 = 9 THEN {NOW} + 10 * n END, CASE WHEN runs THEN {NOW} + n END,
       CASE WHEN state IN ('completed', 'failed', 'cancelled') THEN {NOW} + n END,
       CASE WHEN state IN ('completed', 'running') THEN 'w' || n % 50 END, CASE WHEN runs THEN {NOW} + n END,
       CASE WHEN n % 100 = 0 THEN '["t"]' END
FROM (SELECT n, state, state = 'running' AS runs,
             {NOW} + CASE WHEN state IN ('scheduled', 'retrying') THEN 10 * n ELSE n END AS due
      FROM (SELECT n, CASE WHEN n % 10 = 9 THEN 'pending' WHEN n % 100 = 7 THEN 'scheduled'
                           WHEN n % 100 = 6 THEN 'failed' WHEN n % 100 = 16 THEN 'cancelled'
                           WHEN n % 1000 = 28 THEN 'retrying' WHEN n % 1000 = 18 THEN 'waiting'
                           WHEN n % 1000 = 8 THEN 'running' ELSE 'completed' END AS state
            FROM numbers) AS states) AS dues;
INSERT INTO headrace_history (job, at, event, source, target, version, attempt)
SELECT n, {NOW}, 'retry', 'running', 'retrying', 2, 1 FROM numbers WHERE n % 10 = 0;
INSERT INTO headrace_logs (job, at, attempt, level, message)
SELECT n, {NOW}, 1, 'info', 'a line' FROM numbers WHERE n % 10 = 0;
INSERT INTO headrace_steps (job, kind, name, number, at)
SELECT n, kind, 'charge', 1, {NOW} FROM numbers CROSS JOIN unnest(ARRAY['step', 'event']) AS kind WHERE n % 10 = 8;
INSERT INTO headrace_tags (tag, job) SELECT CASE n % 100 WHEN 0 THEN 't' ELSE 'u' END, n FROM numbers WHERE n % 20 = 0;
"""


class Plan(NamedTuple):
    """The steps of a plan, the outer ones first."""

    steps: list[dict[str, Any]]

    def kinds(self) -> set[str]:
        return {step["Node Type"] for step in self.steps}

    def walks(self) -> list[str]:
        """What it reads from one end to the other, be it in the order of an index."""
        tables = [step["Relation Name"] for step in self.steps if step["Node Type"] == "Seq Scan"]
        big = [table for table in tables if table.removeprefix("headrace_") in BIG]
        return big + sorted(self.indexes(unbounded=True) - OF_THE_OPEN)

    def indexes(self, *, unbounded: bool = False) -> set[str]:
        """The indexes of the big tables that it uses; only those without a condition, if `unbounded`."""
        used = {
            step["Index Name"].removeprefix("headrace_")
            for step in self.steps
            if "Index Name" in step and not (unbounded and "Index Cond" in step)
        }
        return {index for index in used if index.startswith(BIG)}


def explained(db: psycopg.Connection[Any], text: str, values: Mapping[str, Any] | None = None, more: str = "") -> Plan:
    told = db.execute(f"EXPLAIN ({more}FORMAT JSON) {text}", values).fetchone()
    assert told is not None

    def steps_of(step: dict[str, Any]) -> list[dict[str, Any]]:
        return [step, *(inner for part in step.get("Plans", ()) for inner in steps_of(part))]

    return Plan(steps_of(told[0][0]["Plan"]))


def values_of(name: str, size: int = 100) -> dict[str, Any]:
    """What the engine would pass, with batches of this size."""
    numbers = [1000 * n + 8 for n in range(size)]
    leases = [Lease(f"job-{n:08d}", 2) for n in numbers]
    filed = [(lease.id, *range(20)) for lease in leases]
    done = [Completion(lease.id, 2, '"ok"', 9, NOW) for lease in leases]
    batches = {
        "j": [new_job(f"new-{n}", tags=("t",)) for n in numbers],
        "o": done if name == "complete" else [fail(lease) for lease in leases],
        "n": [JobNote(lease.id, 2, NOW, progress="1", level="info", message="a line") for lease in leases],
        "lease": leases,
        "seqs": numbers,
        "ids": [lease.id for lease in leases],
        "shares": [("q1", size)],
        "p": [(n, *msgspec.structs.astuple(new_job(f"new-{n}", tags=("t",)))) for n in numbers],
        "c": [(f"key-{n}", [[["pending"], None, None]]) for n in numbers],
        "keys": [f"key-{n}" for n in numbers],
        "s": [("step", "charge", 1, NOW, "7", 7)],
        "b": [DeadLetterInsert(n, "crash_loop", "WorkerLost", "words", "a fingerprint") for n in numbers],
        "t": [HistoryText(n, "words") for n in numbers],
        "dead": ["w1"] if name == "lock_overdue" else [],  # who knows of dead workers does not ask first
        "r": [[n, lease.id] for n, lease in enumerate(leases)] if name == "import_tags" else filed,
    }
    texts = {"id": "job-00000028", "queue": "q1", "worker": "w3", "target": "pending", "state": "pending"}
    texts |= {"lane": "a lane", "beyond": "a lane", "kind": "step", "name": "charge", "known_tasks": "\nwork\ntask\n"}
    texts |= dict.fromkeys(("channel", "detail", "event", "reason", "by"), "text")
    times = {
        "now": NOW + 5000,
        "unless_due": NOW + 5000,
        "unless_expired": NOW + 5000,
        "until": NOW + 35_000,
        "run_at": NOW,
        **dict.fromkeys(("due", "running", "waiting"), NOW),
    }
    counts = {"looks": 2000, "limit": 1000, "expected": size, "priority": 1, "seq": 8, "after": 1000, "point": 1000}
    counts |= {
        "version": 2,
        "with_dependencies": 0,
        "has_dependencies": 0,
        "at": NOW,
        "size": size,
        "completions": size,
        "most": 1000,
        "first": 100,
    }
    texts |= {"page": "[]", "type": "job.removed"}
    if name == "insert_one":
        return {**msgspec.structs.asdict(new_job("new")), "channel": "text", "page": "[]"}
    return {**texts, **times, **counts, **{key: as_json(value) for key, value in batches.items()}}


class Store:
    """A store whose tables nobody analyzes but the test, and the plans that are made in it."""

    def __init__(self) -> None:
        self.url = servers.postgres_url()
        self.engine = PostgresEngine(self.url)
        self.engine.prepare()
        self.sql = self.engine.sql
        self.plain = servers.postgres_connection(self.url)  # with no setting of ours, as from a pooler
        self.own = self.engine.server.connect()
        self.own.execute("SET plan_cache_mode = force_generic_plan")
        for table in BIG:
            self.run(f"ALTER TABLE headrace_{table} SET (autovacuum_enabled = off), SET UNLOGGED")
        self.run("ALTER TABLE headrace_history DISABLE TRIGGER USER")  # what is made up here is not to be told

    def run(self, text: str) -> None:
        self.plain.execute(qualified(text, self.engine.address.schema))

    def fill(self, first: int, last: int) -> None:
        """By two at once: it takes longest of all here."""
        middle = (first + last) // 2
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(self._fill, (first, middle + 1), (middle, last)))

    def _fill(self, first: int, last: int) -> None:
        numbers = f"FROM generate_series({first}, {last}) AS n"
        with self.engine.address.connect() as db:
            db.execute("SET statement_timeout = 0")  # however slow the machine is
            db.execute(qualified(LOAD, self.engine.address.schema).replace("FROM numbers", numbers))

    def drop_index(self, name: str) -> None:
        """The one of a primary key with it: `ids_pkey`."""
        table, _, key = name.rpartition("_")
        where = f'"{self.engine.address.schema}".headrace_'
        drop = f"ALTER TABLE {where}{table} DROP CONSTRAINT headrace_{name}"
        self.plain.execute(drop if key == "pkey" else f"DROP INDEX {where}{name}")

    def analyze(self) -> None:
        for table in BIG:
            self.run(f"ANALYZE headrace_{table}")

    def prepare(self, statements: Iterable[str]) -> None:
        """Let the engine's own connection keep a plan of each statement, made as the store is now."""
        for name in statements:
            values, names = values_of(name), list(dict.fromkeys(_PARAMETER.findall(self.sql[name])))
            text = self.sql[name]
            for place, parameter in enumerate(names, 1):
                text = text.replace(f"%({parameter})s", f"${place}")
            kinds = ", ".join(kind_of(values[parameter]) for parameter in names)
            self.own.execute(f"PREPARE {name} {f'({kinds})' if names else ''} AS {text}")
            self.kept(name)

    def kept(self, name: str) -> Plan:
        """The plan of the prepared statement."""
        names, values = dict.fromkeys(_PARAMETER.findall(self.sql[name])), values_of(name)
        listed = sql.SQL(", ").join([sql.Literal(values[parameter]) for parameter in names])
        call = sql.SQL("EXECUTE {} ({})" if names else "EXECUTE {}").format(sql.Identifier(name), listed)
        return explained(self.own, call.as_string(self.own))

    def fresh(self, name: str, size: int = 100) -> Plan:
        """The plan that is made for a batch of this size, on a connection without our settings."""
        return explained(self.plain, self.sql[name], values_of(name, size))

    def close(self) -> None:
        self.own.close()
        self.engine.close()
        servers.drop(self.url)


def kind_of(value: object) -> str:
    """The type that the driver names to the server."""
    if not isinstance(value, int):
        return "unknown"
    return "smallint" if value < 2**15 else "integer" if value < 2**31 else "bigint"


class Explaining:
    """Stands in for the store behind a desk, and explains what it is asked."""

    def __init__(self, store: Store, *, walks: bool = False) -> None:
        self._store = store
        self._walks = walks
        self.plans: list[Plan] = []

    def fetch(self, statement: str, /, where: str = "", **values: Any) -> Any:
        text = self._store.sql[statement].replace("{where}", where)
        self.plans.append(explained(self._store.own, text, values))
        if self._walks:
            return "[0,null,[]]"
        return 0 if statement in ("count", "lowest_seq") else "[]"

    def run(self, statement: str, /, where: str = "", **values: Any) -> int:
        raise AssertionError(f"a question ran {statement}")

    def fragment(self, name: str) -> str:
        return self._store.sql[name]

    def read(self, act: Any) -> Any:
        return act(self)

    write = read

    def at(self, now: int | None) -> int:
        return NOW if now is None else now

    def ring(self, topic: str) -> None:
        raise AssertionError(f"a question rang {topic}")

    def insert(self, jobs: Any) -> list[bool]:
        raise AssertionError(f"a question stored {jobs}")

    def forget_rules(self) -> None:
        raise AssertionError("a question changed the rules")
