"""Run a finished job anew from one of its steps, as a new job that keeps the results of the steps before it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from headrace.app.services.services import Services
from headrace.core.codec import codec
from headrace.core.jobs import ids
from headrace.core.jobs.budgets import with_flow_budget
from headrace.core.jobs.compensations import KIND as COMPENSATION
from headrace.core.jobs.compensations import encoded
from headrace.core.jobs.records import Filter, HistoryRow, JobRow
from headrace.core.jobs.states import FINAL, State, Trigger
from headrace.core.jobs.steps import Step
from headrace.core.jobs.transfer import JobExport
from headrace.core.tasks.trace_context import NO_TRACE_CONTEXT, correlation_of, marked
from headrace.core.text import short
from headrace.errors import InvalidJob
from headrace.runtime.context.step_store import steps_of_job
from headrace.runtime.jobs.encryption import decrypted_steps, encrypted_step, with_own_payload

FORKED = "forked"  # the reason of the copy until it runs


def fork(services: Services, job_id: str, from_step: str | None) -> str:
    """Copy the job and its steps before `from_step`, let the copy run, and return its id."""
    engine, now = services.engine, services.clock.now()
    exports = engine.transfer.export_jobs(ids=[job_id])
    if not exports:
        row = services.row(job_id)  # JobNotFound, if it is not in the archive either
        raise InvalidJob(
            f"job {row.id} is in the archive, and only a job in the store can be forked; enqueue its task instead"
        )
    row = exports[0].job
    if row.state not in FINAL:
        raise InvalidJob(f"job {row.id} is {row.state}; only a finished job can be forked")
    stored = steps_of_job(engine.queries, row.id, decrypted_steps(services.cipher, row.id, exports[0].steps))
    steps = [] if from_step is None else _kept(row.id, stored, from_step)
    copy = with_own_payload(services.payloads, _copy(row, ids.new_id(now), now))
    detail = f"forked from job {row.id}" + ("" if from_step is None else f" at step {from_step!r}")
    encrypted = [encrypted_step(services.cipher, copy.id, step) for step in steps]
    # Stored as a finished job: if this process dies now, a retry by hand runs the copy.
    engine.transfer.import_records([JobExport(copy, [_history_row(now, detail)], [], encrypted)])
    services.move(Filter(ids=(copy.id,)), Trigger.REVIVE)
    return copy.id


def _kept(job_id: str, steps: Sequence[Step], from_step: str) -> list[Step]:
    """What was stored before this step. A step that was undone has to run again, so it is left out."""
    undone = {step.name: step.number for step in steps if step.kind == COMPENSATION and step.value is None}
    standing = [step for step in steps if step.kind != "step" or step.number > undone.get(step.name, 0)]
    place = next((n for n, step in enumerate(standing) if step.kind == "step" and step.name == from_step), None)
    if place is None:
        names = ", ".join(repr(step.name) for step in standing if step.kind == "step")
        raise InvalidJob(
            f"from_step: job {job_id} has no finished step {short(from_step)}; it has {names or 'none'}",
            value=from_step,
        )
    kept = [step for step in standing[:place] if step.kind not in (COMPENSATION, "question", "cost")]
    numbered = [replace(step, number=1) if step.kind == "step" else step for step in kept]
    return numbered + [_not_undone(step) for step in numbered if step.kind == "step"]


def _not_undone(step: Step) -> Step:
    """A record that the new job does not undo this step, which the old job has done."""
    text = encoded("")
    return Step(COMPENSATION, step.name, 1, step.at, text, codec.checksum(text))


def _copy(row: JobRow, job_id: str, now: int) -> JobRow:
    """The job as a new one that was cancelled before it ran. It belongs to no flow and has no unique key."""
    correlation = replace(NO_TRACE_CONTEXT, correlation=correlation_of(row.metadata, row.id))
    return replace(
        row,
        id=job_id,
        state=State.CANCELLED,
        reason=FORKED,
        rank=-now if row.rank < 0 else now,
        version=1,
        attempt=0,
        crashes=0,
        releases=0,
        created_at=now,
        run_at=now,
        expires_at=None,
        started_at=None,
        finished_at=now,
        worker=None,
        result=None,
        result_checksum=None,
        progress=None,
        metadata=marked(row.metadata, correlation),
        unique_key=None,
        flow=None,
        options=with_flow_budget(row.options, None),
        has_dependencies=0,
        updated_at=None,
    )


def _history_row(now: int, detail: str) -> HistoryRow:
    states = (State.CANCELLED.value, State.CANCELLED.value)
    return HistoryRow(now, Trigger.UPDATE.value, *states, 1, 0, None, None, None, detail, None, None, None)
