"""Queries and commands of operators and waiting callers in Redis.

A search walks the smallest index that holds the matching jobs, some hundred jobs in each script: a long one takes
several scripts, so that other clients wait only briefly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.core.jobs.count import JobCount
from headrace.core.jobs.details import JobDetails, StreamRange
from headrace.core.jobs.light_rows import LONGEST
from headrace.core.jobs.queue_rules import QueueRow, StoreRules, TaskRow, task_rules
from headrace.core.jobs.records import Filter, JobRow, JobRowPage, JobUpdate, QueueCount, WorkerRow
from headrace.core.jobs.states import OPEN, State, Trigger, sources
from headrace.core.jobs.steps import awaiting
from headrace.engines.redis import serialization
from headrace.engines.redis.decisions import moves
from headrace.engines.redis.insert import unless_closed
from headrace.engines.redis.script_loader import Script, load
from headrace.engines.shared.decisions import movable_states, position
from headrace.engines.shared.operation_timing import timed_part

if TYPE_CHECKING:
    from headrace.engines.redis.connections import Value
    from headrace.engines.redis.database import RedisDatabase

_MIN_SCAN_SIZE, _SCAN_SIZE = 100, 1000  # jobs that one script reads; a thousand take it 2 to 5 ms
_ROWS = 250  # jobs that one script returns, each of which may be a megabyte
_FLOW_SCAN_SIZE = 5000  # jobs whose states one script counts, beyond those of its last flow; about 5 ms
_QUEUE_BATCH_SIZE = 50  # queues whose jobs one script counts; about 3 ms
_EVERYTHING = 1 << 40
_ASSIGN_BATCH_SIZE = 500  # jobs that one script puts into lanes; some 10 ms

_search_jobs, _count_by_index, _get_jobs, _unfinished, _peek = (
    load("jobs/search_jobs"),
    load("jobs/count_by_index"),
    load("jobs/get_jobs"),
    load("jobs/filter_unfinished"),
    load("queues/peek_queue"),
)
_queue_counts, _history_rows, _workers = (
    load("jobs/count_by_state"),
    load("jobs/read_history"),
    load("workers/list_workers"),
)
_pause_queue, _set_worker_command = (
    load("queues/pause_queue"),
    load("workers/set_worker_command"),
)
_steps, _signal = load("jobs/list_steps"), load("jobs/signal")


@timed_part
class RedisQueries:
    """Reads jobs and applies manual moves."""

    def __init__(self, database: RedisDatabase) -> None:
        self._database = database

    # -- moves

    def move(
        self, which: Filter, event: Trigger, limit: int, by: str | None = None, now: int | None = None
    ) -> list[str]:
        self._database.prepare()
        at = self._database.at(now)
        states = movable_states(which, sources(event))
        if not states or limit <= 0 or not _is_text(which):
            return []
        encoded_filter = _encoded_filter(which, states, startable=event is Trigger.PROMOTE_NOW)

        def find() -> list[bytes]:
            return [part for found in self._search(encoded_filter, "up", limit, "records") for part in found]

        moved = moves.move(self._database, find, event, by, at)
        # The state of a damaged job is unknown. It fails first, and can be deleted then.
        is_short = event is Trigger.DELETE and len(moved) < len(which.ids)
        if is_short and self._database.damaged.fail_these(storable_ids(which.ids)):
            moved += moves.move(self._database, find, event, by, at)
        return moved

    def update(self, job_id: str, changes: JobUpdate, by: str | None = None, now: int | None = None) -> bool:
        self._database.prepare()
        at = self._database.at(now)
        return serialization.encodable(job_id) and moves.update(self._database, job_id, changes, by, at)

    # -- jobs

    def get(self, ids: Sequence[str], *, light: bool = False) -> list[JobRow]:
        known = storable_ids(ids)
        return (
            self._rows(self._read(_get_jobs, len(known), serialization.encode(known), *_longest(light)))
            if known
            else []
        )

    def finished(self, ids: Collection[str]) -> set[str]:
        known = [job_id for job_id in ids if serialization.encodable(job_id)]
        open_positions = self._read(_unfinished, len(known), serialization.encode(known)) if known else ()
        return set(ids) - {known[place - 1] for place in open_positions}

    def find(
        self, which: Filter, limit: int, cursor: str | None = None, reach: int | None = None, *, light: bool = False
    ) -> JobRowPage:
        before = position(cursor)
        self._database.prepare()
        if not _is_text(which):
            return JobRowPage([], None)
        form = str(LONGEST) if light else "rows"
        parts = list(self._search_parts(_encoded_filter(which, which.states), "down", limit + 1, form, before, reach))
        rows = [row for _, found in parts for row in self._rows(found)]
        place = parts[-1][0]
        if len(rows) > limit:
            return JobRowPage(rows[:limit], str(rows[limit - 1].seq))
        return JobRowPage(rows, None if place is None else place.decode())

    def count(self, which: Filter, reach: int | None = None) -> JobCount:
        self._database.prepare()
        if not _is_text(which):
            return JobCount(0, True)
        encoded_filter = _encoded_filter(which, which.states)
        size = self._read(_count_by_index, encoded_filter)
        if size is not None:
            return JobCount(int(size), True)
        parts = list(self._search_parts(encoded_filter, "down", _EVERYTHING, "count", None, reach))
        return JobCount(sum(found for _, found in parts), parts[-1][0] is None)

    def peek(self, queue: str, limit: int, *, light: bool = False) -> list[JobRow]:
        if limit <= 0 or not serialization.encodable(queue):
            return []
        return self._rows(self._read(_peek, queue, limit, *_longest(light)))

    def queue_counts(self, *, open_only: bool = False) -> list[QueueCount]:
        self._database.prepare()
        names = self._database.connections.command("HKEYS", f"{{{self._database.prefix}}}:queues")
        states = serialization.encode([state.value for state in State if state in OPEN or not open_only])
        found: list[QueueCount] = []
        for first in range(0, len(names), _QUEUE_BATCH_SIZE):
            some = serialization.encode_names(names[first : first + _QUEUE_BATCH_SIZE])
            found += serialization.queue_counts.decode_all(self._read(_queue_counts, some, states))
        return found

    def details(
        self,
        job_id: str,
        *,
        history: bool = True,
        logs: int = 1000,
        steps: bool = True,
        stream: StreamRange | None = None,
    ) -> JobDetails:
        if not serialization.encodable(job_id):
            return JobDetails([], [], [])
        entries = self._read(_history_rows, job_id, "history", 0, -1) if history else ()
        lines = self._read(_history_rows, job_id, "logs", -logs, -1) if logs > 0 else ()
        streamed = () if stream is None else self._read(_history_rows, job_id, "stream", *_positions(stream))
        stored = self._read(_steps, job_id) if steps else ()
        return JobDetails(
            [serialization.history_row.decode(entry) for entry in entries],
            [serialization.line.decode(entry) for entry in lines],
            [serialization.step.decode(entry) for entry in stored],
            [serialization.line.decode(entry) for entry in streamed],
        )

    def signal(self, job_id: str, name: str, value: str | None, checksum: int | None, now: int | None = None) -> bool:
        self._database.prepare()
        if not serialization.encodable(job_id):
            return False
        event = (awaiting(name), f"event {name!r} came", serialization.encode((value, checksum)))
        return bool(
            unless_closed(self._database.connections.run(_signal, self._database.at(now), job_id, name, *event))
        )

    # -- queues and workers

    def rules(self) -> StoreRules:
        self._database.prepare()
        connections, tag = self._database.connections, f"{{{self._database.prefix}}}"
        known, paused = (
            connections.command("HGETALL", f"{tag}:queues"),
            set(connections.command("SMEMBERS", f"{tag}:paused")),
        )
        tasks = serialization.named(connections.command("HGETALL", f"{tag}:tasks"), task_rules)
        rows = []
        for name, stored in zip(known[::2], known[1::2], strict=True):
            created_at, _, rules = serialization.text(stored).partition(" ")
            since = int(created_at) if created_at.isdigit() else 0
            rows.append(QueueRow(serialization.text(name), name in paused, since, rules or None))
        return StoreRules(
            sorted(rows, key=lambda row: row.name), [TaskRow(name, tasks[name]) for name in sorted(tasks)]
        )

    def pause_queue(self, name: str, paused: bool) -> None:
        self._database.prepare()
        self._change(_pause_queue, self._database.at(None), name, int(paused))

    def workers(self) -> list[WorkerRow]:
        rows, counts = self._read(_workers)
        running = serialization.named(counts, int)
        known = [serialization.worker.decode(row) for row in rows]
        counted = [msgspec.structs.replace(row, running=min(row.concurrency, running.get(row.id, 0))) for row in known]
        return sorted(counted, key=lambda row: (row.started_at, row.id))

    def command_worker(self, worker_id: str, command: str) -> bool:
        self._database.prepare()
        return serialization.encodable(worker_id) and bool(self._change(_set_worker_command, worker_id, command))

    # -- helpers

    def _rows(self, answers: Sequence[bytes]) -> list[JobRow]:
        return serialization.jobs(answers, self._database.damaged.names)

    def _read(self, script: Script, *args: Value) -> Any:
        self._database.prepare()
        return self._database.connections.run(script, *args, repeat=args)

    def _change(self, script: Script, *args: Value) -> Any:
        """Run a repeatable script."""
        return self._database.connections.run(script, *args, repeat=args)

    def _search(self, encoded_filter: bytes, direction: str, limit: int, form: str) -> Iterator[Any]:
        """The matches up to the limit, in as many parts as it takes."""
        return (found for _, found in self._search_parts(encoded_filter, direction, limit, form))

    def _search_parts(
        self,
        encoded_filter: bytes,
        direction: str,
        limit: int,
        form: str,
        start: int | None = None,
        reach: int | None = None,
    ) -> Iterator[tuple[bytes | None, Any]]:
        """The same, each part with the position after it, None at the end; reads at most `reach` jobs."""
        place: str | bytes = "" if start is None else str(start)
        batch_size = _SCAN_SIZE if form in ("records", "count") else _ROWS
        seen, scan_size, bounds = 0, max(min(limit, batch_size), _MIN_SCAN_SIZE), ()
        while True:
            if reach is not None:
                scan_size = min(scan_size, reach - seen)
            args = (encoded_filter, place, direction, scan_size, min(limit, batch_size), form, *bounds)
            reached, found, scanned, *bounds = self._read(_search_jobs, *args)
            yield reached, found
            seen += scanned
            limit -= found if isinstance(found, int) else len(found)
            if reached is None or limit <= 0 or (reach is not None and seen >= reach):
                return
            place = reached
            # Read more at once while matches are rare, as long as the time allows.
            scan_size = min(2 * scan_size, _SCAN_SIZE) if scanned == scan_size else max(scanned, scan_size // 2)


def _positions(wanted: StreamRange) -> tuple[int, int]:
    if wanted.first is None:
        return -wanted.limit, -1
    return wanted.first, wanted.first + wanted.limit - 1


def _longest(light: bool) -> tuple[int, ...]:
    """The argument of `job_rows.lua` for light rows."""
    return (LONGEST,) if light else ()


def storable_ids(ids: Sequence[str]) -> list[str]:
    """Each of these once, without those that no store can hold."""
    return [job_id for job_id in dict.fromkeys(ids) if serialization.encodable(job_id)]


def _encoded_filter(which: Filter, states: Collection[State], startable: bool = False) -> bytes:
    ids = [job_id for job_id in which.ids if serialization.encodable(job_id)]
    return serialization.encode_filter(which, states, ids, startable)


def _is_text(which: Filter) -> bool:
    """Whether the filter can match at all: no stored text contains a lone surrogate."""
    texts = (which.queue, which.task, which.tag, which.worker, which.text, which.flow)
    return all(serialization.encodable(text) for text in texts if text)
