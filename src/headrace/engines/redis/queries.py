"""Queries and commands of operators and waiting callers in Redis.

A search walks the smallest index that holds the matching jobs, some hundred jobs in each script: a long one takes
several scripts, so that other clients wait only briefly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from headrace.core.codec.result_refs import ParentResult
from headrace.core.jobs.count import JobCount
from headrace.core.jobs.dependencies import Dependency, FlowSummary
from headrace.core.jobs.light_rows import LONGEST
from headrace.core.jobs.queue_rules import QueueRules, Rate, TaskRow, TaskRules, task_rules
from headrace.core.jobs.records import (
    Filter,
    HistoryRow,
    JobRow,
    JobRowPage,
    JobUpdate,
    LogLine,
    QueueCount,
    QueueRow,
    WorkerRow,
)
from headrace.core.jobs.states import OPEN, State, Trigger, sources
from headrace.core.jobs.steps import Step, awaiting
from headrace.core.queues.limits import needs_of
from headrace.engines.redis import serialization
from headrace.engines.redis.insert import unless_closed
from headrace.engines.redis.script_loader import Script, load
from headrace.engines.shared.decisions import actor_suffix, movable_states, position, state_after
from headrace.engines.shared.operation_timing import timed_part

if TYPE_CHECKING:
    from headrace.engines.redis.connections import RedisConnections, Value
    from headrace.engines.redis.damaged_records import Damaged

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
_move, _update_job, _pause_queue, _set_queue_rules, _set_worker_command = (
    load("jobs/move_jobs"),
    load("jobs/update_job"),
    load("queues/pause_queue"),
    load("queues/set_queue_rules"),
    load("workers/set_worker_command"),
)
_set_task_rules, _assign_task_lanes, _running, _lanes_needing = (
    load("queues/set_task_rules"),
    load("queues/assign_task_lanes"),
    load("queues/count_running"),
    load("queues/lanes_needing"),
)
_rate_state = load("queues/rate_state")
_edges, _flows, _steps, _signal = (
    load("flows/list_dependencies"),
    load("flows/list_flows"),
    load("jobs/list_steps"),
    load("jobs/signal"),
)


class RedisDatabase(Protocol):
    """The engine, as far as queries need it."""

    connections: RedisConnections
    prefix: str
    damaged: Damaged

    def prepare(self) -> None: ...
    def at(self, now: int | None) -> int: ...


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
        members: list[bytes] = []
        if not which.ids:  # found first, a few at a time, and then moved in one commit, if they still match
            for found in self._search(encoded_filter, "up", limit, "members"):
                members += found
        call = (
            encoded_filter,
            at,
            event.value,
            by or "",
            f"cancelled{actor_suffix(by)}",
            limit,
            serialization.encode_names(members),
        )
        moved = unless_closed(self._database.connections.run(_move, *call))
        # The state of a damaged job is unknown. It fails first, and can be deleted then.
        is_short = event is Trigger.DELETE and len(moved) < len(which.ids)
        if is_short and self._database.damaged.fail_these(_storable(which.ids)):
            moved += unless_closed(self._database.connections.run(_move, *call))
        return [serialization.text(job_id) for job_id in moved]

    def update(self, job_id: str, changes: JobUpdate, by: str | None = None, now: int | None = None) -> bool:
        self._database.prepare()
        at = self._database.at(now)
        if not serialization.encodable(job_id):
            return False
        args = serialization.encode((changes.priority, changes.run_at, changes.queue))
        targets = [(state.value, state_after(state, changes.run_at, at).value) for state in sources(Trigger.UPDATE)]
        detail = changes.format_changes() + actor_suffix(by)
        answer = self._database.connections.run(_update_job, at, job_id, args, detail, *chain.from_iterable(targets))
        return bool(unless_closed(answer))

    # -- jobs

    def get(self, ids: Sequence[str], *, light: bool = False) -> list[JobRow]:
        known = _storable(ids)
        return (
            self._rows(self._read(_get_jobs, len(known), serialization.encode(known), *_longest(light)))
            if known
            else []
        )

    def parent_results(self, ids: Sequence[str]) -> list[ParentResult]:
        return [ParentResult(*(getattr(row, name) for name in ParentResult.__struct_fields__)) for row in self.get(ids)]

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

    def count(self, which: Filter) -> int:
        self._database.prepare()
        if not _is_text(which):
            return 0
        encoded_filter = _encoded_filter(which, which.states)
        size = self._read(_count_by_index, encoded_filter)
        return int(size) if size is not None else sum(self._search(encoded_filter, "down", _EVERYTHING, "count"))

    def count_up_to(self, which: Filter, reach: int) -> JobCount:
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

    def history(self, job_id: str) -> list[HistoryRow]:
        return [serialization.history_row.decode(entry) for entry in self._entries(job_id, "history", _EVERYTHING)]

    def logs(self, job_id: str, limit: int = 1000) -> list[LogLine]:
        return [serialization.line.decode(entry) for entry in self._entries(job_id, "logs", limit)]

    # -- flows and steps

    def edges(self, ids: Sequence[str]) -> list[Dependency]:
        args = _storable(ids)
        return serialization.edges(self._read(_edges, len(args), serialization.encode(args))) if args else []

    def flows(self, limit: int, before: str | None = None, ids: Sequence[str] = ()) -> list[FlowSummary]:
        args = _storable(ids)
        if limit <= 0 or (ids and not args) or not serialization.encodable(before or ""):
            return []
        summaries: list[FlowSummary] = []
        reached: str | bytes | None = before or ""
        while reached is not None and len(summaries) < limit:
            left = (limit - len(summaries), _FLOW_SCAN_SIZE)
            reached, *found = self._read(_flows, *left, reached, len(args), serialization.encode(args))
            summaries += serialization.flow_summaries(found)
        return summaries

    def steps(self, job_id: str) -> list[Step]:
        found = self._read(_steps, job_id) if serialization.encodable(job_id) else ()
        return [serialization.step.decode(entry) for entry in found]

    def signal(self, job_id: str, name: str, value: str | None, checksum: int | None, now: int | None = None) -> bool:
        self._database.prepare()
        if not serialization.encodable(job_id):
            return False
        event = (awaiting(name), f"event {name!r} came", serialization.encode((value, checksum)))
        return bool(
            unless_closed(self._database.connections.run(_signal, self._database.at(now), job_id, name, *event))
        )

    # -- queues and workers

    def queues(self) -> list[QueueRow]:
        self._database.prepare()
        connections, tag = self._database.connections, f"{{{self._database.prefix}}}"
        known, paused = (
            connections.command("HGETALL", f"{tag}:queues"),
            set(connections.command("SMEMBERS", f"{tag}:paused")),
        )
        rows = []
        for name, stored in zip(known[::2], known[1::2], strict=True):
            created_at, _, rules = serialization.text(stored).partition(" ")
            since = int(created_at) if created_at.isdigit() else 0
            rows.append(QueueRow(serialization.text(name), name in paused, since, rules or None))
        return sorted(rows, key=lambda row: row.name)

    def pause_queue(self, name: str, paused: bool) -> None:
        self._database.prepare()
        self._change(_pause_queue, self._database.at(None), name, int(paused))

    def set_queue_rules(self, name: str, rules: QueueRules) -> None:
        self._database.prepare()
        text = b"" if rules == QueueRules() else msgspec.json.encode(rules)
        self._change(_set_queue_rules, self._database.at(None), name, text)

    def set_task_rules(self, name: str, rules: TaskRules) -> None:
        self._database.prepare()
        self._change(_set_task_rules, name, b"" if rules == TaskRules() else msgspec.json.encode(rules))
        last = b"0" if rules.strategy is not None else b""
        while last:  # pending jobs move into lanes, where the task's order applies
            last = self._read(_assign_task_lanes, name, last, _ASSIGN_BATCH_SIZE)

    def tasks(self) -> list[TaskRow]:
        self._database.prepare()
        known = self._database.connections.command("HGETALL", f"{{{self._database.prefix}}}:tasks")
        rules = serialization.named(known, task_rules)
        return [TaskRow(name, rules[name]) for name in sorted(rules)]

    def running(self, now: int | None = None) -> list[tuple[str, str, str, int]]:
        self._database.prepare()
        found = self._read(_running, self._database.at(now))
        kinds = zip(found[::4], found[1::4], found[2::4], found[3::4], strict=True)
        return sorted((*map(serialization.text, (queue, task, lane)), jobs) for queue, task, lane, jobs in kinds)

    def rate_state(self, rates: Mapping[str, Rate]) -> dict[str, int]:
        args: list[Value] = [part for name, rate in rates.items() for part in (name, rate.every, rate.burst)]
        return serialization.named(self._read(_rate_state, *args), int)

    def lanes_needing(self) -> list[tuple[str, str, int, str]]:
        self._database.prepare()
        found: dict[tuple[str, str], tuple[int, str]] = {}  # a lane may occur twice
        for queue in self._database.connections.command("SMEMBERS", f"{{{self._database.prefix}}}:queues_with_lanes"):
            reached = b"0"
            while True:
                reached, *lanes = self._read(_lanes_needing, queue, reached, _SCAN_SIZE)
                for lane, jobs, job_id in zip(lanes[::3], lanes[1::3], lanes[2::3], strict=True):
                    found[serialization.text(queue), serialization.text(lane)] = jobs, serialization.text(job_id)
                if reached == b"0":
                    break
        return sorted((*lane, *known) for lane, known in found.items() if needs_of(lane[1]))

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

    def _entries(self, job_id: str, kind: str, limit: int) -> list[bytes]:
        found: list[bytes] = (
            self._read(_history_rows, job_id, kind, limit) if limit > 0 and serialization.encodable(job_id) else []
        )
        return found

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
        batch_size = _SCAN_SIZE if form in ("members", "count") else _ROWS
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


def _longest(light: bool) -> tuple[int, ...]:
    """The argument of `job_rows.lua` for light rows."""
    return (LONGEST,) if light else ()


def _storable(ids: Sequence[str]) -> list[str]:
    """Each of these once, without those that no store can hold."""
    return [job_id for job_id in dict.fromkeys(ids) if serialization.encodable(job_id)]


def _encoded_filter(which: Filter, states: Collection[State], startable: bool = False) -> bytes:
    ids = [job_id for job_id in which.ids if serialization.encodable(job_id)]
    return serialization.encode_filter(which, states, ids, startable)


def _is_text(which: Filter) -> bool:
    """Whether the filter can match at all: no stored text contains a lone surrogate."""
    texts = (which.queue, which.task, which.tag, which.worker, which.text, which.flow)
    return all(serialization.encodable(text) for text in texts if text)
