"""Which path PostgreSQL takes for an exchange: the tables say so, and each path is taken by some batch."""

from __future__ import annotations

import pytest

from headrace.core.events.log import EventGroup
from headrace.core.jobs.records import ClaimRequest, JobNote, Outcome
from headrace.core.jobs.states import State, Trigger
from headrace.engines.postgres.exchange import EXCHANGES, SETTLES, ExchangeBatch, ExchangeHints

WANT = ClaimRequest("w", 100, 1000)
NOTE = JobNote("a", 1, 0, progress="1")
EVENT = EventGroup("job.started", 0)


def successes(count: int) -> list[Outcome]:
    return [Outcome(f"j{number}", 1, Trigger.SUCCEED, State.COMPLETED, 0) for number in range(count)]


def failure() -> Outcome:
    return Outcome("f", 1, Trigger.FAIL, State.FAILED, 0)


@pytest.mark.parametrize(
    ("batch", "name"),
    [
        (ExchangeBatch(successes(100), None, [], 0, []), "settle only"),
        (ExchangeBatch(successes(100), ClaimRequest("w", 0, 1000), [], 0, []), "settle only"),
        (ExchangeBatch(successes(50), WANT, [], 0, []), "both at once"),
        (ExchangeBatch(successes(49), WANT, [], 0, []), "both in one commit"),
        (ExchangeBatch(successes(50), ClaimRequest("w", 49, 1000), [], 0, []), "both in one commit"),
        (ExchangeBatch([], WANT, [NOTE], 0, []), "both in one commit"),
        (ExchangeBatch([], WANT, [], 0, [EVENT]), "both in one commit"),
        (ExchangeBatch([], WANT, [], 0, []), "claim only"),
    ],
)
def test_an_exchange_takes_the_path_of_its_batch(batch: ExchangeBatch, name: str) -> None:
    assert next(path.name for path in EXCHANGES if path.when(batch)) == name


@pytest.mark.parametrize(
    ("outcomes", "hints", "name"),
    [
        (successes(2), ExchangeHints(), "checked"),
        (successes(2), ExchangeHints(has_dependencies=True), "optimistic"),
        (successes(2), ExchangeHints(has_dependencies=True, some_wait=True), "checked"),
        ([*successes(2), failure()], ExchangeHints(has_dependencies=True), "checked"),
        ([], ExchangeHints(has_dependencies=True), "checked"),
    ],
)
def test_outcomes_are_settled_on_the_path_of_the_batch_and_of_what_was_met(
    outcomes: list[Outcome], hints: ExchangeHints, name: str
) -> None:
    batch = ExchangeBatch(outcomes, WANT, [], 0, [])
    assert next(path.name for path in SETTLES if path.when(batch, hints)) == name


def test_the_last_path_of_each_table_fits_everything() -> None:
    nothing = ExchangeBatch([], WANT, [], 0, [])
    assert EXCHANGES[-1].when(nothing)
    assert SETTLES[-1].when(nothing, ExchangeHints())
