"""What of a job is sealed where an app has keys, and what each text is bound to.

    call                  to the task: it is made before the job has its id, by a schedule or for a job it replaces
    result                to the job
    progress, log, fields to the job
    step NAME             to the job
    event NAME            to the job

All other words of a job are what a store and its operators go by: names, tags, metadata, keys, reasons, errors. Sealed
texts have checksums of their own, so that a store tells nothing of what they hold.
"""

from __future__ import annotations

from msgspec import structs

from headrace.core.codec import codec
from headrace.core.codec.encryption import Cipher
from headrace.core.jobs.records import Claim, JobNote, JobRow, NewJob, Outcome
from headrace.core.jobs.steps import Step


def opened_claim(cipher: Cipher | None, claim: Claim) -> Claim:
    """The claim with its call in clear; CorruptPayload if it can't be opened."""
    if cipher is None:
        return claim
    codec.verify(claim.payload, claim.checksum)
    payload = cipher.opened(claim.payload, "call", claim.task)
    return structs.replace(claim, payload=payload, checksum=codec.checksum(payload))


def is_same_call(cipher: Cipher | None, stored: JobRow, new: NewJob) -> bool:
    """Whether both are jobs for the same task with the same arguments."""
    if cipher is None or stored.task != new.task:
        return (stored.task, stored.checksum) == (new.task, new.checksum)
    was, now = (cipher.opened(one.payload, "call", one.task) for one in (stored, new))
    return was == now


def encrypted_outcome(cipher: Cipher | None, outcome: Outcome) -> Outcome:
    if cipher is None or outcome.result is None:
        return outcome
    result = cipher.encrypted(outcome.result, "result", outcome.id)
    return structs.replace(outcome, result=result, result_checksum=codec.checksum(result))


def encrypted_note(cipher: Cipher | None, note: JobNote) -> JobNote:
    if cipher is None:
        return note
    return structs.replace(
        note,
        progress=None if note.progress is None else cipher.encrypted(note.progress, "progress", note.id),
        message=None if note.message is None else cipher.encrypted(note.message, "log", note.id),
        fields=None if note.fields is None else cipher.encrypted(note.fields, "fields", note.id),
    )


def encrypted_step(cipher: Cipher | None, job_id: str, step: Step) -> Step:
    """What the job remembers of its own. The ends of its sleeps are none of the user's data."""
    if cipher is None or step.value is None or step.kind == "sleep":
        return step
    value = cipher.encrypted(step.value, f"{step.kind} {step.name}", job_id)
    return structs.replace(step, value=value, checksum=codec.checksum(value))


def opened_steps(cipher: Cipher | None, job_id: str, steps: list[Step]) -> list[Step]:
    return steps if cipher is None else [_opened(cipher, job_id, step) for step in steps]


def _opened(cipher: Cipher, job_id: str, step: Step) -> Step:
    if step.value is None:
        return step
    codec.verify(step.value, step.checksum or 0)
    value = cipher.opened(step.value, f"{step.kind} {step.name}", job_id)
    return structs.replace(step, value=value, checksum=codec.checksum(value))
