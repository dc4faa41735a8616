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

_FEW_LOOKS, _LOOKS = 100, 1000  # jobs that one script reads; a thousand take it 2 to 5 ms
_ROWS = 250  # jobs that one script returns, each of which may be a megabyte
_LOOKS_AT_FLOWS = 5000  # jobs whose states one script counts, beyond those of its last flow; about 5 ms
_QUEUES_AT_ONCE = 50  # queues whose jobs one script counts; about 3 ms
_EVERYTHING = 1 << 40
_GATHERED_AT_ONCE = 500  # jobs that one script puts into lanes; some 10 ms

_walk, _size, _get, _unfinished, _peek = (
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
_move, _amend, _pause, _rule, _wish = (
    load("jobs/move_jobs"),
    load("jobs/update_job"),
    load("queues/pause_queue"),
    load("queues/set_queue_rules"),
    load("workers/set_worker_command"),
)
_rule_task, _gather, _running, _needing = (
    load("queues/set_task_rules"),
    load("queues/assign_task_lanes"),
    load("queues/count_running"),
    load("queues/lanes_needing"),
)
_rested_at = load("queues/rate_state")
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
        question = _question(which, states, startable=event is Trigger.HURRY)
        members: list[bytes] = []
        if not which.ids:  # found first, a few at a time, and then moved in one commit, if they still match
            for found in self._search(question, "up", limit, "members"):
                members += found
        call = (
            question,
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
        asked = serialization.encode((changes.priority, changes.run_at, changes.queue))
        targets = [(state.value, state_after(state, changes.run_at, at).value) for state in sources(Trigger.AMEND)]
        detail = changes.in_words() + actor_suffix(by)
        answer = self._database.connections.run(_amend, at, job_id, asked, detail, *chain.from_iterable(targets))
        return bool(unless_closed(answer))

    # -- jobs

    def get(self, ids: Sequence[str], *, light: bool = False) -> list[JobRow]:
        known = _storable(ids)
        return self._rows(self._ask(_get, len(known), serialization.encode(known), *_longest(light))) if known else []

    def parent_results(self, ids: Sequence[str]) -> list[ParentResult]:
        return [ParentResult(*(getattr(row, name) for name in ParentResult.__struct_fields__)) for row in self.get(ids)]

    def finished(self, ids: Collection[str]) -> set[str]:
        known = [job_id for job_id in ids if serialization.encodable(job_id)]
        open_ones = self._ask(_unfinished, len(known), serialization.encode(known)) if known else ()
        return set(ids) - {known[place - 1] for place in open_ones}

    def find(
        self, which: Filter, limit: int, cursor: str | None = None, reach: int | None = None, *, light: bool = False
    ) -> JobRowPage:
        before = position(cursor)
        self._database.prepare()
        if not _is_text(which):
            return JobRowPage([], None)
        what = str(LONGEST) if light else "rows"
        parts = list(self._walk(_question(which, which.states), "down", limit + 1, what, before, reach))
        rows = [row for _, found in parts for row in self._rows(found)]
        place = parts[-1][0]
        if len(rows) > limit:
            return JobRowPage(rows[:limit], str(rows[limit - 1].seq))
        return JobRowPage(rows, None if place is None else place.decode())

    def count(self, which: Filter) -> int:
        self._database.prepare()
        if not _is_text(which):
            return 0
        question = _question(which, which.states)
        size = self._ask(_size, question)
        return int(size) if size is not None else sum(self._search(question, "down", _EVERYTHING, "count"))

    def count_up_to(self, which: Filter, reach: int) -> JobCount:
        self._database.prepare()
        if not _is_text(which):
            return JobCount(0, True)
        question = _question(which, which.states)
        size = self._ask(_size, question)
        if size is not None:
            return JobCount(int(size), True)
        parts = list(self._walk(question, "down", _EVERYTHING, "count", None, reach))
        return JobCount(sum(found for _, found in parts), parts[-1][0] is None)

    def peek(self, queue: str, limit: int, *, light: bool = False) -> list[JobRow]:
        if limit <= 0 or not serialization.encodable(queue):
            return []
        return self._rows(self._ask(_peek, queue, limit, *_longest(light)))

    def queue_counts(self, *, open_only: bool = False) -> list[QueueCount]:
        self._database.prepare()
        names = self._database.connections.command("HKEYS", f"{{{self._database.prefix}}}:queues")
        states = serialization.encode([state.value for state in State if state in OPEN or not open_only])
        found: list[QueueCount] = []
        for first in range(0, len(names), _QUEUES_AT_ONCE):
            some = serialization.encode_names(names[first : first + _QUEUES_AT_ONCE])
            found += serialization.queue_counts.decode_all(self._ask(_queue_counts, some, states))
        return found

    def history(self, job_id: str) -> list[HistoryRow]:
        return [serialization.history_row.decode(entry) for entry in self._entries(job_id, "history", _EVERYTHING)]

    def logs(self, job_id: str, limit: int = 1000) -> list[LogLine]:
        return [serialization.line.decode(entry) for entry in self._entries(job_id, "logs", limit)]

    # -- flows and steps

    def edges(self, ids: Sequence[str]) -> list[Dependency]:
        asked = _storable(ids)
        return serialization.edges(self._ask(_edges, len(asked), serialization.encode(asked))) if asked else []

    def flows(self, limit: int, before: str | None = None, ids: Sequence[str] = ()) -> list[FlowSummary]:
        asked = _storable(ids)
        if limit <= 0 or (ids and not asked) or not serialization.encodable(before or ""):
            return []
        tallies: list[FlowSummary] = []
        reached: str | bytes | None = before or ""
        while reached is not None and len(tallies) < limit:
            left = (limit - len(tallies), _LOOKS_AT_FLOWS)
            reached, *found = self._ask(_flows, *left, reached, len(asked), serialization.encode(asked))
            tallies += serialization.flow_summaries(found)
        return tallies

    def steps(self, job_id: str) -> list[Step]:
        found = self._ask(_steps, job_id) if serialization.encodable(job_id) else ()
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
        for name, kept in zip(known[::2], known[1::2], strict=True):
            created_at, _, rules = serialization.text(kept).partition(" ")
            since = int(created_at) if created_at.isdigit() else 0
            rows.append(QueueRow(serialization.text(name), name in paused, since, rules or None))
        return sorted(rows, key=lambda row: row.name)

    def pause_queue(self, name: str, paused: bool) -> None:
        self._database.prepare()
        self._change(_pause, self._database.at(None), name, int(paused))

    def set_queue_rules(self, name: str, rules: QueueRules) -> None:
        self._database.prepare()
        text = b"" if rules == QueueRules() else msgspec.json.encode(rules)
        self._change(_rule, self._database.at(None), name, text)

    def set_task_rules(self, name: str, rules: TaskRules) -> None:
        self._database.prepare()
        self._change(_rule_task, name, b"" if rules == TaskRules() else msgspec.json.encode(rules))
        last = b"0" if rules.strategy is not None else b""
        while last:  # pending jobs move into lanes, where the task's order applies
            last = self._ask(_gather, name, last, _GATHERED_AT_ONCE)

    def tasks(self) -> list[TaskRow]:
        self._database.prepare()
        known = self._database.connections.command("HGETALL", f"{{{self._database.prefix}}}:tasks")
        rules = serialization.named(known, task_rules)
        return [TaskRow(name, rules[name]) for name in sorted(rules)]

    def running(self, now: int | None = None) -> list[tuple[str, str, str, int]]:
        self._database.prepare()
        found = self._ask(_running, self._database.at(now))
        kinds = zip(found[::4], found[1::4], found[2::4], found[3::4], strict=True)
        return sorted((*map(serialization.text, (queue, task, lane)), jobs) for queue, task, lane, jobs in kinds)

    def rate_state(self, rates: Mapping[str, Rate]) -> dict[str, int]:
        asked: list[Value] = [part for name, rate in rates.items() for part in (name, rate.every, rate.burst)]
        return serialization.named(self._ask(_rested_at, *asked), int)

    def lanes_needing(self) -> list[tuple[str, str, int, str]]:
        self._database.prepare()
        found: dict[tuple[str, str], tuple[int, str]] = {}  # a lane may occur twice
        for queue in self._database.connections.command("SMEMBERS", f"{{{self._database.prefix}}}:queues_with_lanes"):
            reached = b"0"
            while True:
                reached, *lanes = self._ask(_needing, queue, reached, _LOOKS)
                for lane, jobs, job_id in zip(lanes[::3], lanes[1::3], lanes[2::3], strict=True):
                    found[serialization.text(queue), serialization.text(lane)] = jobs, serialization.text(job_id)
                if reached == b"0":
                    break
        return sorted((*lane, *known) for lane, known in found.items() if needs_of(lane[1]))

    def workers(self) -> list[WorkerRow]:
        rows, counts = self._ask(_workers)
        running = serialization.named(counts, int)
        known = [serialization.worker.decode(row) for row in rows]
        counted = [msgspec.structs.replace(row, running=min(row.concurrency, running.get(row.id, 0))) for row in known]
        return sorted(counted, key=lambda row: (row.started_at, row.id))

    def command_worker(self, worker_id: str, command: str) -> bool:
        self._database.prepare()
        return serialization.encodable(worker_id) and bool(self._change(_wish, worker_id, command))

    # -- helpers

    def _rows(self, answers: Sequence[bytes]) -> list[JobRow]:
        return serialization.jobs(answers, self._database.damaged.names)

    def _ask(self, script: Script, *args: Value) -> Any:
        self._database.prepare()
        return self._database.connections.run(script, *args, repeat=args)

    def _change(self, script: Script, *args: Value) -> Any:
        """Run a repeatable script."""
        return self._database.connections.run(script, *args, repeat=args)

    def _entries(self, job_id: str, kind: str, limit: int) -> list[bytes]:
        found: list[bytes] = (
            self._ask(_history_rows, job_id, kind, limit) if limit > 0 and serialization.encodable(job_id) else []
        )
        return found

    def _search(self, question: bytes, way: str, limit: int, what: str) -> Iterator[Any]:
        """The matches up to the limit, in as many parts as it takes."""
        return (found for _, found in self._walk(question, way, limit, what))

    def _walk(
        self, question: bytes, way: str, limit: int, what: str, start: int | None = None, reach: int | None = None
    ) -> Iterator[tuple[bytes | None, Any]]:
        """The same, each part with the position after it, None at the end; reads about `reach` jobs."""
        place: str | bytes = "" if start is None else str(start)
        at_once = _LOOKS if what in ("members", "count") else _ROWS
        seen, looks, between = 0, max(min(limit, at_once), _FEW_LOOKS), ()
        while True:
            asked = (question, place, way, looks, min(limit, at_once), what, *between)
            reached, found, looked, *between = self._ask(_walk, *asked)
            yield reached, found
            seen += looked
            limit -= found if isinstance(found, int) else len(found)
            if reached is None or limit <= 0 or (reach is not None and seen >= reach):
                return
            place = reached
            # Read more at once while matches are rare, as long as the time allows.
            looks = min(2 * looks, _LOOKS) if looked == looks else max(looked, looks // 2)


def _longest(light: bool) -> tuple[int, ...]:
    """The argument of `job_rows.lua` for light rows."""
    return (LONGEST,) if light else ()


def _storable(ids: Sequence[str]) -> list[str]:
    """Each of these once, without those that no store can hold."""
    return [job_id for job_id in dict.fromkeys(ids) if serialization.encodable(job_id)]


def _question(which: Filter, states: Collection[State], startable: bool = False) -> bytes:
    ids = [job_id for job_id in which.ids if serialization.encodable(job_id)]
    return serialization.question(which, states, ids, startable)


def _is_text(which: Filter) -> bool:
    """Whether the filter can match at all: no stored text contains a lone surrogate."""
    texts = (which.queue, which.task, which.tag, which.worker, which.text, which.flow)
    return all(serialization.encodable(text) for text in texts if text)
