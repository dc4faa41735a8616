"""Small builders of dead letters, and questions to the desk."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from headrace.core.dead_letters.records import (
    DeadLetterFilter,
)
from headrace.core.jobs.records import DeadLetterRow
from headrace.engines.protocol.engine import Engine
from tests.support.builders import (
    HOUR,
    NOW,
    claim_one,
    fail,
    settle,
    submit_and_claim,
)

LATER = NOW + HOUR
PENDING = DeadLetterFilter(statuses=("pending",))


def dead(engine: Engine, job_id: str = "job", *, at: int = NOW, print_: str = "aa", **more: Any) -> DeadLetterRow:
    """The record of a new job that failed at once."""
    reason = more.pop("reason", "permanent")
    claimed = submit_and_claim(engine, job_id, now=at, **more)
    settle(engine, replace(fail(claimed, at=at, reason=reason), fingerprint=print_), now=at)
    return pending(engine, job_id)


def pending(engine: Engine, job_id: str = "job") -> DeadLetterRow:
    (found,) = engine.dead_letters.find(DeadLetterFilter(latest_of=(job_id,)), 10)
    assert found.status == "pending"
    return found


def one(engine: Engine, dead_letter_id: str) -> DeadLetterRow:
    (found,) = engine.dead_letters.find(DeadLetterFilter(ids=(dead_letter_id,)), 10)
    return found


def fail_again(engine: Engine, *, at: int) -> DeadLetterRow:
    claimed = claim_one(engine, now=at)
    settle(engine, fail(claimed, at=at, reason="again"), now=at)
    return pending(engine, claimed.id)
