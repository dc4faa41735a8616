"""The pages of the event log: one per commit, by columns, so that a batch of jobs costs one small row.

A page is a list of groups in JSON. Three kinds of groups are shorthand, expanded when a page is read: `ran` stands for
the start and the end of jobs that began and succeeded within one page, `filed` for an entry of a job's history, and
`only` (beside the page) for the jobs that it applies to, where the store refused some of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headrace.core import damaged_records
from headrace.core.clock import to_datetime
from headrace.core.events.event import Event, EventFilter, page_of
from headrace.core.events.from_history import ENDS_A_RUN, events_from, run_of
from headrace.core.jobs.records import NewJob
from headrace.core.jobs.states import State
from headrace.core.schedules.records import Occurrence, ScheduleRow

RAN, HISTORY, STARTED, COMPLETED = "ran", "history", "job.started", "job.completed"


class EventGroup(Struct, frozen=True, array_like=True):
    """Events of one type, queue, task and worker that were appended together, with a column for each field.

    A column is as long as `jobs`, or empty. `waits` are the milliseconds from when a job could have run to its start,
    `runs` those from there to its end, `ago` how long before `at` each event was. A group without jobs is one event.
    """

    type: str
    at: int
    queue: str | None = None
    task: str | None = None
    worker: str | None = None
    jobs: list[str] = []
    attempts: list[int] = []
    waits: list[int] = []
    runs: list[int] = []
    ago: list[int] = []
    data: list[dict[str, Any]] = []
    head: str = ""  # only as stored: the common prefix of all ids of `jobs`

    @property
    def size(self) -> int:
        """The number of events."""
        return len(self.jobs) or 1

    def of(self, wanted: Collection[str]) -> EventGroup | None:
        """The part of the group about these jobs, each once; None if there is none."""
        firsts = {job_id: place for place, job_id in reversed(list(enumerate(self.jobs)))}
        places = sorted(place for job_id, place in firsts.items() if job_id in wanted)
        if len(places) == len(self.jobs):
            return self
        columns = {name: [column[place] for place in places] for name in _COLUMNS if (column := getattr(self, name))}
        return replace(self, **columns) if places else None


_RUN_TYPES = frozenset((STARTED, "job.progress", "job.log", "job.stream"))
_SCHEDULED, _WAITING = State.SCHEDULED, State.WAITING
_MIN_JOBS_TO_SHORTEN = 4  # jobs of a group from which on their common prefix is worth a look
_COLUMNS = ("jobs", "attempts", "waits", "runs", "ago", "data")
_COUNTED = ("status", "skipped")  # of the data of an event, what metrics count by
_encoder = msgspec.json.Encoder()
_groups = msgspec.json.Decoder(list[EventGroup])
_names = msgspec.json.Decoder(list[str])


class EventBatch(Struct, frozen=True):
    """A page to store: its text, the number of its events and their time."""

    text: str
    size: int
    at: int


def page(groups: Sequence[EventGroup]) -> EventBatch:
    """The page with these groups."""
    size = at = 0
    for group in groups:  # a plain loop: a single enqueue() comes through here, too
        size += (len(group.jobs) or 1) << (group.type == RAN)
        at = max(at, group.at)
    return EventBatch(_encoder.encode([_shortened(group) for group in groups]).decode(), size, at)


def _shortened(group: EventGroup) -> EventGroup:
    """The group as stored: jobs that were enqueued together share most of their ids."""
    jobs = group.jobs
    if len(jobs) < _MIN_JOBS_TO_SHORTEN:
        return group
    first, last = min(jobs), max(jobs)
    length = next((place for place, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), 0)
    return replace(group, jobs=[job[length:] for job in jobs], head=first[:length]) if length else group


def _in_full(group: EventGroup) -> EventGroup:
    head = group.head
    return replace(group, jobs=[head + job for job in group.jobs], head="") if head else group


def read(text: str | bytes, only: str | bytes | None = None) -> list[EventGroup]:
    """The groups of a stored page, expanded, in the order in which they happened."""
    groups: list[EventGroup] = []
    applies_to = None if only is None else frozenset(damaged_records.read(_names.decode, only) or ())
    for group in damaged_records.read(_groups.decode, text) or ():
        if _is_whole(group):
            groups += _expanded(_in_full(group), applies_to)
    return groups


def _is_whole(group: EventGroup) -> bool:
    """Whether each of its columns covers each of its jobs; it may be damaged."""
    return all(not column or len(column) == group.size for name in _COLUMNS if (column := getattr(group, name)))


def _expanded(group: EventGroup, only: frozenset[str] | None) -> Iterable[EventGroup]:
    if group.type == HISTORY:
        return _of_history(group)
    if group.type == RAN:
        start = replace(group, type=STARTED, ago=group.runs, runs=[], data=[])
        end = replace(group, type=COMPLETED, waits=[])
        return [start, *_expanded(end, only)]
    if only is None or group.type in _RUN_TYPES:  # a store can't refuse what happened in a run
        return [group]
    left = group.of(only)
    return [] if left is None else [left]


def _of_history(group: EventGroup) -> list[EventGroup]:
    [entry] = group.data
    run = run_of(entry, group.at)
    runs = [] if run is None else [run]
    return [
        replace(group, type=kind, runs=runs if kind in ENDS_A_RUN else [], data=[data] if data else [])
        for kind, data in events_from(entry)
    ]


def narrowed(groups: Sequence[EventGroup], to: Collection[str]) -> list[EventGroup]:
    """These groups, expanded, with successes of these jobs only."""
    applies_to = frozenset(to)
    return [each for group in groups for each in _expanded(group, applies_to)]


def without(text: str | bytes, only: str | bytes | None, jobs: Collection[str]) -> tuple[str, int] | None:
    """A stored page, expanded, without the ids of these jobs and the data of their events; how many events those are.

    None if it names none of them. The events themselves stay, with their times: cursors and metrics count them.
    """
    stored = damaged_records.read(_groups.decode, text) or ()
    if not any(job_id in jobs for group in stored for job_id in _in_full(group).jobs):
        return None
    blank = [_without(group, jobs) for group in read(text, only)]
    return page([group for group, _ in blank]).text, sum(count for _, count in blank)


def _without(group: EventGroup, jobs: Collection[str]) -> tuple[EventGroup, int]:
    places = {place for place, job_id in enumerate(group.jobs) if job_id in jobs}
    if not places:
        return group, 0
    ids = ["" if place in places else job_id for place, job_id in enumerate(group.jobs)]
    data = [_counted(one) if place in places else one for place, one in enumerate(group.data)]
    return replace(group, jobs=ids, data=data), len(places)


def _counted(data: dict[str, Any]) -> dict[str, Any]:
    return {name: data[name] for name in _COUNTED if name in data}


def completions_of(groups: Sequence[EventGroup], of: Collection[str]) -> list[EventGroup]:
    """The success events of these jobs in these groups, and nothing else."""
    successes = [replace(group, type=COMPLETED, waits=[]) for group in groups if group.type in (RAN, COMPLETED)]
    return [left for group in successes if (left := group.of(of)) is not None]


def events_of(
    cursor: str, groups: Sequence[EventGroup], after: str | None = None, wanted: EventFilter | None = None
) -> Iterator[Event]:
    """The events of one page, each with its cursor; with `after`, a cursor on it, those behind that one."""
    last = sum(group.size for group in groups) - 1
    on, place = ("", None) if after is None else page_of(after)
    first = 0 if on != cursor else last + 1 if place is None else place + 1
    number = 0
    for group in groups:
        if wanted is not None and not wanted.covers(group.type, group.queue, group.task):
            number += group.size
            continue
        for place_in_group in range(group.size):
            if number >= first:
                yield _event(cursor if number == last else f"{cursor}.{number}", group, place_in_group)
            number += 1


def _event(cursor: str, group: EventGroup, place: int) -> Event:
    moment = to_datetime(group.at - (group.ago[place] if group.ago else 0))
    assert moment is not None
    data = dict(group.data[place]) if group.data else {}
    if group.waits:
        data["wait"] = group.waits[place] / 1000
    if group.runs:
        data["run"] = group.runs[place] / 1000
    return Event(
        cursor,
        group.type,
        moment,
        (group.jobs[place] or None) if group.jobs else None,
        group.task,
        group.queue,
        group.worker,
        group.attempts[place] if group.attempts else None,
        data,
    )


def arrivals(jobs: Iterable[NewJob]) -> list[EventGroup]:
    """The events of inserted jobs."""
    groups: dict[tuple[str, str, bool, bool], EventGroup] = {}
    for job in jobs:
        is_later, waits = job.state is _SCHEDULED, job.state is _WAITING
        key = (job.queue, job.task, is_later, waits)  # not the state itself: hashing it takes longer than all of this
        group = groups.get(key)
        if group is None:
            kind = "job.scheduled" if is_later else "job.enqueued"
            group = groups[key] = EventGroup(kind, job.created_at, job.queue, job.task)
        group.jobs.append(job.id)
        if is_later:
            group.data.append({"run_at": job.run_at})
        elif waits:
            group.data.append({"waits": True})
    return list(groups.values())


def fired(row: ScheduleRow, occurrences: Iterable[Occurrence]) -> list[EventGroup]:
    """The events of a schedule's occurrences. Those that were not caught up are skipped as well."""
    return [
        EventGroup(
            "schedule.fired" if each.status == "enqueued" else "schedule.skipped",
            each.recorded_at,
            row.queue,
            row.task,
            jobs=[each.job_id] if each.job_id else [],
            data=[_occurrence(each)],
        )
        for each in occurrences
    ]


def _occurrence(each: Occurrence) -> dict[str, Any]:
    data: dict[str, Any] = {"schedule": each.schedule, "occurrence": each.at}
    if each.status != "enqueued":
        data |= {"status": each.status, "reason": each.detail, "skipped": each.skipped or 1}
    return data
