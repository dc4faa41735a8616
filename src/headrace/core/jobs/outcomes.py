"""One constructor of an Outcome for each decision of an attempt."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from headrace.core.jobs.fingerprint import fingerprint
from headrace.core.jobs.records import Claim, ErrorInfo, Lease, Outcome
from headrace.core.jobs.states import State, Trigger
from headrace.core.jobs.steps import Awaited

# Reading a member of an enum takes longer than making the outcome, and every job passes here.
_SUCCEED, _COMPLETED = Trigger.SUCCEED, State.COMPLETED


def succeed(claim: Claim, result: str | None, checksum: int | None, now: int) -> Outcome:
    # By position: names would take as long again.
    return Outcome(claim.id, claim.version, _SUCCEED, _COMPLETED, now, None, 0, result, checksum, None, None, now)


def retry(claim: Claim, error: ErrorInfo, delay: int, max_attempts: int, now: int) -> Outcome:
    return Outcome(
        claim.id,
        claim.version,
        Trigger.RETRY,
        State.RETRYING,
        now,
        run_at=now + delay,
        reason=f"attempt {claim.attempt} of {max_attempts} failed",
        max_attempts=max_attempts,
        error_type=error.type,
        error_message=error.message,
        error_traceback=error.traceback,
    )


def fail(claim: Claim | Lease, reason: str, error: ErrorInfo | None, max_attempts: int | None, now: int) -> Outcome:
    return Outcome(
        claim.id,
        claim.version,
        Trigger.FAIL,
        State.FAILED,
        now,
        reason=reason,
        max_attempts=max_attempts,
        finished_at=now,
        error_type=error.type if error else None,
        error_message=error.message if error else None,
        error_traceback=error.traceback if error else None,
        fingerprint=fingerprint(claim.task if isinstance(claim, Claim) else "", error, reason),
    )


def with_dead_letter(outcomes: list[Outcome], switch: bool | Collection[str]) -> list[Outcome]:
    """The same outcomes, where failures create dead letters only as the setting `dead_letters` says."""
    if switch is True:
        return outcomes
    return [
        replace(outcome, opens_dead_letter=False)
        if outcome.event is Trigger.FAIL and not opens_dead_letter(switch, outcome.reason)
        else outcome
        for outcome in outcomes
    ]


def snooze(claim: Claim, delay: int, reason: str, now: int) -> Outcome:
    return Outcome(
        claim.id,
        claim.version,
        Trigger.SNOOZE,
        State.SCHEDULED,
        now,
        run_at=now + delay,
        attempt_refund=1,
        reason=reason,
    )


def suspend(claim: Claim, until: int, reason: str, now: int, awaits: Awaited | None = None) -> Outcome:
    """Suspend a job until a time, or until the first of the events that it `awaits`."""
    return Outcome(
        claim.id,
        claim.version,
        Trigger.SNOOZE,
        State.SCHEDULED,
        now,
        run_at=until,
        attempt_refund=1,
        reason=reason,
        awaits=awaits,
    )


def release(claim: Claim, reason: str, now: int) -> Outcome:
    """Release a started job, because its worker stops."""
    return Outcome(claim.id, claim.version, Trigger.RELEASE, State.PENDING, now, attempt_refund=1, reason=reason)


def give_back(claim: Claim, now: int) -> Outcome:
    """Release a prefetched job that was not started."""
    released = Outcome(claim.id, claim.version, Trigger.RELEASE, State.PENDING, now, attempt_refund=1, quiet=True)
    return without_units(claim, released)


def without_units(claim: Claim, outcome: Outcome) -> Outcome:
    """The outcome of a run that used no units: rates give back what the job was charged."""
    return replace(outcome, units=0) if claim.options and '"cost"' in claim.options else outcome


def starts_again(outcome: Outcome) -> bool:
    """Whether its job will start again, now or later, so that workers have to be woken."""
    return outcome.finished_at is None


def cancel(claim: Claim | Lease, reason: str, now: int) -> Outcome:
    return Outcome(claim.id, claim.version, Trigger.CANCEL, State.CANCELLED, now, reason=reason, finished_at=now)


def opens_dead_letter(switch: bool | Collection[str], reason: str | None) -> bool:
    """Whether a job that fails for this reason gets a dead letter, by the setting `dead_letters`."""
    return switch if isinstance(switch, bool) else reason in switch
