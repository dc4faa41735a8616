"""What of a job is encrypted where an app has keys, and the context that each text is bound to.

    call                  the task: a schedule or a replacement makes it before the job has its id
    result                the job
    progress, log, fields the job
    stream                the job: the chunks; which run wrote them, and their numbers, stay readable
    step NAME             the job
    event NAME            the job

All other texts of a job stay readable for the store and its operators: names, tags, metadata, keys, reasons, errors.
Encrypted texts have their own checksums, so that a store reveals nothing of their contents.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec import structs

from headrace.core.codec import codec
from headrace.core.codec.encryption import Cipher
from headrace.core.codec.payload_refs import is_reference
from headrace.core.jobs.details import STREAM
from headrace.core.jobs.records import Claim, JobNote, JobRow, NewJob
from headrace.core.jobs.steps import Step
from headrace.runtime.payloads.payloads import Payloads, loaded

J = TypeVar("J", JobRow, NewJob)

_PLAIN = ("sleep", "cost")


def loaded_claim(payloads: Payloads | None, claim: Claim) -> Claim:
    """The claim with its call loaded and decrypted; CorruptPayload if that fails."""
    if payloads is None:
        return claim
    codec.verify(claim.payload, claim.checksum)
    payload = payloads.loaded(claim.payload, "call", claim.task)
    return structs.replace(claim, payload=payload, checksum=codec.checksum(payload))


def with_own_payload(payloads: Payloads | None, job: J) -> J:
    """A copy of a job, with a payload of its own in the payload store: that of the original is deleted with it."""
    if not is_reference(job.payload):
        return job
    text = loaded(payloads, job.payload, "call", job.task)
    assert payloads is not None
    payload = payloads.stored(text, "call", job.task, job.id)
    return structs.replace(job, payload=payload, checksum=codec.checksum(payload))


def is_same_call(payloads: Payloads | None, stored: JobRow, new: NewJob) -> bool:
    """Whether both jobs have the same task and arguments."""
    if payloads is None or stored.task != new.task:
        return (stored.task, stored.checksum) == (new.task, new.checksum)
    before, after = (payloads.loaded(one.payload, "call", one.task) for one in (stored, new))
    return before == after


def encrypted_note(cipher: Cipher | None, note: JobNote) -> JobNote:
    if cipher is None:
        return note
    if note.level == STREAM and note.message is not None:
        return structs.replace(note, message=cipher.encrypted(note.message, "stream", note.id))
    return structs.replace(
        note,
        progress=None if note.progress is None else cipher.encrypted(note.progress, "progress", note.id),
        message=None if note.message is None else cipher.encrypted(note.message, "log", note.id),
        fields=None if note.fields is None else cipher.encrypted(note.fields, "fields", note.id),
    )


def encrypted_step(cipher: Cipher | None, job_id: str, step: Step) -> Step:
    """The step with its value encrypted. The ends of sleeps and costs are not user data."""
    if cipher is None or step.value is None or step.kind in _PLAIN:
        return step
    value = cipher.encrypted(step.value, f"{step.kind} {step.name}", job_id)
    return structs.replace(step, value=value, checksum=codec.checksum(value))


def decrypted_steps(cipher: Cipher | None, job_id: str, steps: list[Step]) -> list[Step]:
    return steps if cipher is None else [_decrypted_step(cipher, job_id, step) for step in steps]


def _decrypted_step(cipher: Cipher, job_id: str, step: Step) -> Step:
    if step.value is None:
        return step
    codec.verify(step.value, step.checksum or 0)
    value = cipher.decrypted(step.value, f"{step.kind} {step.name}", job_id)
    return structs.replace(step, value=value, checksum=codec.checksum(value))
