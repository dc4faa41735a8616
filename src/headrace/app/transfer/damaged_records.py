"""Finds stored values that can no longer be read, for `app.admin.check(deep=True)`."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headrace.core.codec import codec
from headrace.core.damaged_records import read
from headrace.core.dead_letters.records import DeadLetterFilter, DeadLetterNote, JobSnapshot
from headrace.core.events.history import is_whole
from headrace.core.jobs.queue_rules import decode_queue_rules
from headrace.core.jobs.records import DeadLetterRow, JobOptions, JobRow, LogLine, NewJob
from headrace.core.jobs.steps import Step
from headrace.core.jobs.transfer import JobExport
from headrace.core.schedules.records import ScheduleRow
from headrace.core.schedules.schedule import Timing
from headrace.engines.protocol.engine import Engine

_BATCH = 1000
_json = msgspec.json.Decoder(msgspec.Raw).decode
_OF_JOB = {
    "options": msgspec.json.Decoder(JobOptions).decode,
    "tags": msgspec.json.Decoder(list[str]).decode,
    "metadata": msgspec.json.Decoder(dict[str, msgspec.Raw]).decode,
    "progress": _json,
    "lane": msgspec.json.Decoder(list[str]).decode,
}
_OF_DEAD_LETTER = {
    "snapshot": msgspec.json.Decoder(JobSnapshot).decode,
    "notes": msgspec.json.Decoder(list[DeadLetterNote]).decode,
}
_OF_SCHEDULE = {"timing": msgspec.json.Decoder(Timing).decode, "call": msgspec.json.Decoder(NewJob).decode}


def damage_of(row: JobRow | DeadLetterRow | ScheduleRow) -> Iterator[str]:
    """The fields of a record that no longer decode."""
    decoders = (
        _OF_JOB if isinstance(row, JobRow) else _OF_DEAD_LETTER if isinstance(row, DeadLetterRow) else _OF_SCHEDULE
    )
    for name, decode in decoders.items():
        stored = getattr(row, name)
        if stored and read(decode, stored) is None:
            yield name


def damage_in(job_export: JobExport) -> Iterator[str]:
    """The damaged values of a job, its history, logs and steps, one line each."""
    found = [*damage_of(job_export.job)]
    found += ["history" for history_row in job_export.history if not is_whole(history_row) or history_row.at <= 0]
    found += ["logs" for line in job_export.logs if not _is_whole_line(line)]
    found += ["steps" for step in job_export.steps if not _is_whole_step(step)]
    return (f"job {job_export.job.id}: {what}" for what in found)


def _is_whole_line(line: LogLine) -> bool:
    return line.at > 0 and line.level != "" and (not line.fields or read(_json, line.fields) is not None)


def _is_whole_step(step: Step) -> bool:
    return step.at > 0 and (step.value is None or codec.is_whole(step.value, step.checksum or 0))


def damage_beside_jobs(engine: Engine) -> Iterator[str]:
    """The damaged values of dead letters, schedules and queue rules, one line each."""
    before: str | None = None
    while dead_letters := engine.dead_letters.find(DeadLetterFilter(), _BATCH, before):
        yield from (f"dead letter {row.id}: {what}" for row in dead_letters for what in damage_of(row))
        before = dead_letters[-1].id
        if len(dead_letters) < _BATCH:
            break
    for schedule in engine.schedule_store.get():
        yield from (f"schedule {schedule.id}: {what}" for what in damage_of(schedule))
    for queue in engine.queries.rules().queues:
        if queue.rules and read(decode_queue_rules, queue.rules) is None:
            yield f"queue {queue.name}: rules"
