"""Staleness in Redis: lifecycle policies of tasks and queues, and jobs by their age in a state.

A scan takes many scripts, each of a thousand jobs at most, so that other clients wait only briefly.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from headrace.core.jobs.states import State
from headrace.core.retention.lifecycle import Kind, PolicyRow, StoredPolicy
from headrace.core.retention.staleness import REASON, AgeQuery, JobAge, JobAgePage, StaleAction, job_age_of, own_clock
from headrace.engines.redis import serialization
from headrace.engines.redis.script_loader import load
from headrace.engines.redis.serialization import Record
from headrace.engines.shared.operation_timing import timed_part

if TYPE_CHECKING:
    from headrace.engines.redis.connections import Value
    from headrace.engines.redis.queries import RedisDatabase

_SCAN_SIZE = 1000  # jobs part records one script reads: some 3 ms, for which every other client waits
_SCAN_SIZE_WITH_RESULTS = 100  # the same for jobs that may have a result, which may be large
_HISTORIES = 500  # jobs part history one script reads
_ENTRIES = 2000  # after this many entries it stops
_DIGITS = 12  # of a job's number
_NEVER = -1
_STATES = (State.WAITING, State.SCHEDULED, State.RETRYING, State.RUNNING, State.PENDING)
_set_lifecycle, _list_by_age, _read_histories, _mark_stale = (
    load("retention/set_lifecycle"),
    load("retention/list_by_age"),
    load("jobs/read_histories"),
    load("retention/mark_stale"),
)


@timed_part
class RedisStalenessStore:
    """Reads and writes policies, finds old jobs and applies staleness decisions."""

    def __init__(self, database: RedisDatabase) -> None:
        self._database = database

    def policies(self) -> list[PolicyRow]:
        self._database.prepare()
        declared, override = (
            serialization.named(
                self._database.connections.command("HGETALL", f"{{{self._database.prefix}}}:policies:{name}"),
                serialization.policy,
            )
            for name in ("declared", "override")
        )
        none = StoredPolicy()
        rows = []
        for key in sorted({*declared, *override}):
            kind, _, name = key.partition(":")
            stored = declared.get(key, none), override.get(key, none)
            rows.append(PolicyRow("queue" if kind == "queue" else "task", name, *stored))
        return rows

    def declare_policy(self, rows: Sequence[PolicyRow]) -> None:
        if rows:
            self._put("declared", [part for row in rows for part in _policy_args(row.kind, row.name, row.declared)])

    def override_policy(self, kind: Kind, name: str, policy: StoredPolicy | None) -> None:
        self._put("override", _policy_args(kind, name, policy or StoredPolicy()))

    def by_age(self, query: AgeQuery, limit: int, cursor: str | None = None) -> JobAgePage:
        self._database.prepare()
        name, _, reached = (cursor or f"{_STATES[0]}:").partition(":")
        step, found = _STATES.index(State(name)), list[JobAge]()
        while step < len(_STATES):
            state = _STATES[step]
            if limit <= 0:
                return JobAgePage(found, f"{state}:{reached}")
            last: bytes | None = None
            if state in query.since or query.due is not None:
                size = _SCAN_SIZE_WITH_RESULTS if state is State.WAITING else _SCAN_SIZE
                args = (state.value, reached, min(limit, size))
                last, count, numbers, joined = self._database.connections.run(_list_by_age, *args, repeat=args)
                found += self._with_history(_old(self._records(count, numbers, joined), state, query), numbers)
                limit -= count
            step, reached = (step + 1, "") if last is None else (step, last.decode())
        return JobAgePage(found, None)

    def _records(self, count: int, numbers: bytes, joined: bytes) -> Sequence[Record | None]:
        """Jobs by their numbers. A damaged one must not stop the others from being read."""
        jobs = serialization.records(count, joined)
        if jobs is not None:
            return jobs
        members = [numbers[start : start + _DIGITS] for start in range(0, len(numbers), _DIGITS)]
        return [
            serialization.record(stored)
            for stored in self._database.connections.command("HMGET", f"{{{self._database.prefix}}}:jobs", *members)
        ]

    def _with_history(self, jobs: list[tuple[int, Record]], numbers: bytes) -> list[JobAge]:
        """The jobs at these positions, with the times from their history."""
        found: list[JobAge] = []
        while jobs:
            some = jobs[:_HISTORIES]
            numbers_of_some = b"".join([numbers[place * _DIGITS : (place + 1) * _DIGITS] for place, _ in some])
            args = (numbers_of_some, _ENTRIES)
            histories = self._database.connections.run(_read_histories, *args, repeat=args)
            if not histories:
                found += [job_age_of(job, ()) for _, job in some]
            for (_, job), history in zip(some, histories, strict=False):
                found.append(job_age_of(job, [serialization.history_row.decode(entry) for entry in history]))
            jobs = jobs[len(histories) or len(some) :]
        return found

    def mark_stale(self, actions: Sequence[StaleAction], now: int | None = None) -> list[bool]:
        self._database.prepare()
        if not actions:
            return []
        args: list[Value] = [self._database.at(now), secrets.token_hex(8), REASON]
        for one in actions:
            args += [one.id, one.version, one.action, one.detail, one.fingerprint]
        return [bool(written) for written in self._database.connections.run(_mark_stale, *args)]

    def _put(self, part: Literal["declared", "override"], args: Sequence[Value]) -> None:
        self._database.prepare()
        self._database.connections.run(_set_lifecycle, part, *args, repeat=(part, *args))


def _old(jobs: Sequence[Record | None], state: State, query: AgeQuery) -> list[tuple[int, Record]]:
    """Jobs that may be old by their records alone, and their positions. A job of another state has just moved."""
    since, due, clock = query.since.get(state, _NEVER), _NEVER if query.due is None else query.due, own_clock(state)
    return [
        (place, job)
        for place, job in enumerate(jobs)
        if job is not None and job.state is state and (clock(job) <= since or job.created_at <= due)
    ]


def _policy_args(kind: Kind, name: str, policy: StoredPolicy) -> tuple[str, bytes]:
    return f"{kind}:{name}", b"" if policy == StoredPolicy() else msgspec.json.encode(policy)
