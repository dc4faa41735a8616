"""Staleness in Redis: jobs by their age in a state.

A scan takes many scripts, each of a thousand jobs at most, so that other clients wait only briefly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.jobs.states import OPEN, State, Trigger
from headrace.core.retention.staleness import REASON, AgeQuery, JobAge, JobAgePage, StaleAction, job_age_of, own_clock
from headrace.engines.redis import serialization
from headrace.engines.redis.decisions.apply import change, read_records, retried, write
from headrace.engines.redis.queries import storable_ids
from headrace.engines.redis.script_loader import load
from headrace.engines.redis.script_records import RecordChange, WriteBatch
from headrace.engines.redis.serialization import Record
from headrace.engines.shared.operation_timing import timed_part

if TYPE_CHECKING:
    from headrace.engines.redis.database import RedisDatabase

_SCAN_SIZE = 1000  # jobs part records one script reads: some 3 ms, for which every other client waits
_SCAN_SIZE_WITH_RESULTS = 100  # the same for jobs that may have a result, which may be large
_HISTORIES = 500  # jobs part history one script reads
_ENTRIES = 2000  # after this many entries it stops
_DIGITS = 12  # of a job's number
_NEVER = -1
_STATES = (State.WAITING, State.SCHEDULED, State.RETRYING, State.RUNNING, State.PENDING)
_list_by_age, _read_histories = (
    load("retention/list_by_age"),
    load("jobs/read_histories"),
)


@timed_part
class RedisStalenessStore:
    """Finds old jobs and applies staleness decisions."""

    def __init__(self, database: RedisDatabase) -> None:
        self._database = database

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
        at = self._database.at(now)
        return retried(lambda: self._mark_stale(actions, at))

    def _mark_stale(self, actions: Sequence[StaleAction], now: int) -> list[bool]:
        found = read_records(self._database, ids=storable_ids([one.id for one in actions]))
        if (
            found.status is not None
        ):  # transferred jobs are judged in their new store, when all their dependents are there
            return [False] * len(actions)
        jobs = {(job.id, job.version): (member, job) for member, job in found.whole().items() if job.state in OPEN}
        done = []
        changes, expectations = [], [found.same_status]
        for one in actions:
            member, job = jobs.pop((one.id, one.version), (b"", None))
            entries = self._unless_reviewed(member, one.version) if job and one.action == "review" else 0
            done.append(job is not None and entries is not None)
            if job is None or entries is None:
                continue
            if one.action == "review":
                expectations.append((entries, "LLEN", f":history:{member.decode()}"))
                changes.append(change(member, job, Trigger.REVIEW, one.detail))
            else:
                changes.append(_failed(member, job, one, now))
        # A worker learns that its running job was changed.
        topics = ["commands"] if any(one.values for one in changes) else []
        write(self._database, WriteBatch(changes, expectations, topics=topics), now)
        return done

    def _unless_reviewed(self, member: bytes, version: int) -> int | None:
        """The number of entries in the job's history; None if it has a review at this version."""
        key = f"{{{self._database.prefix}}}:history:{member.decode()}"
        history = [
            serialization.history_row.decode(entry)
            for entry in self._database.connections.command("LRANGE", key, 0, -1)
        ]
        if any(entry.event == Trigger.REVIEW and entry.version == version for entry in history):
            return None
        return len(history)


def _failed(member: bytes, job: Record, action: StaleAction, now: int) -> RecordChange:
    dead_letter = {
        "reason": REASON,
        "at": now,
        "error_type": "StaleJob",
        "error_message": action.detail,
        "error_traceback": "",
        "fingerprint": action.fingerprint,
    }
    return change(
        member,
        job,
        Trigger.STALE,
        action.detail,
        dead_letter=dead_letter if action.action == "dead" else None,
        state=State.FAILED,
        finished_at=now,
        reason=REASON,
    )


def _old(jobs: Sequence[Record | None], state: State, query: AgeQuery) -> list[tuple[int, Record]]:
    """Jobs that may be old by their records alone, and their positions. A job of another state has just moved."""
    since, due, clock = query.since.get(state, _NEVER), _NEVER if query.due is None else query.due, own_clock(state)
    return [
        (place, job)
        for place, job in enumerate(jobs)
        if job is not None and job.state is state and (clock(job) <= since or job.created_at <= due)
    ]
