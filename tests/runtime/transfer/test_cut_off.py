"""Moving to another store: it may be cut off anywhere, and several may do it at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.app.transfer.move import CopyStep, StoreCopy, reopen
from headrace.core.dead_letters.records import DeadLetterFilter
from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import State, Trigger
from headrace.core.jobs.transfer import JobExport, StoreStatus
from headrace.engines.protocol.engine import Engine
from headrace.errors import ConfigError
from tests.runtime.transfer.kit import ELSEWHERE, JOBS, cut_off, finish, move, unchanged
from tests.runtime.transfer.store_contents import claim_from, contents, dead_letters, fill, without_nul
from tests.support.builders import (
    new_job,
    states,
    succeed,
    want,
)
from tests.support.cases import PAIRS
from tests.support.engines import KINDS, StoreUnderTest

# -- cut off and gone on with


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
def test_a_move_that_was_cut_off_goes_on_where_it_stopped(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, other_kind: str
) -> None:
    source, target = make_store(kind, "source").open(), make_store(other_kind, "target").open()
    fill(source, JOBS)
    cut_off(source, target, 200)
    there = len(contents(target))
    assert 0 < there < JOBS
    again = StoreCopy(source, target)
    assert again.copy_status() == "begun"
    copied = again.run(0)
    assert (copied.jobs, copied.known) == (JOBS - there, 0)
    assert again.verify().differences == []
    assert contents(target) == without_nul(contents(source))


@pytest.mark.parametrize("number", [0, 16, 17, 330, JOBS])
def test_it_may_be_cut_off_again_and_again_anywhere(source: Engine, target: Engine, number: int) -> None:
    fill(source, JOBS)
    cut_off(source, target, 1)
    cut_off(source, target, number)
    move(source, target)
    assert contents(target) == without_nul(contents(source))


def test_a_move_that_was_only_announced_begins_anew(source: Engine, target: Engine) -> None:
    fill(source, 50)
    target.transfer.set_status(StoreStatus("arriving", source.url, 0))
    assert StoreCopy(source, target).copy_status() == "new"
    move(source, target)
    assert contents(target) == without_nul(contents(source))


def test_a_move_that_is_done_is_done(source: Engine, target: Engine) -> None:
    fill(source, 50)
    move(source, target)
    target.queries.move(Filter(), Trigger.DELETE, 1000)
    left = contents(target)
    again = StoreCopy(source, target)
    assert again.copy_status() == "done"
    assert again.run(0).jobs == 0
    assert contents(target) == left, "what was finished and deleted since does not come back"


def test_two_that_move_at_once_do_not_disturb_each_other(source: Engine, target: Engine) -> None:
    fill(source, JOBS)
    turns = 0

    def let_the_other(step: CopyStep) -> None:
        nonlocal turns
        turns += 1
        if step.stage == "copying" and turns == 2:
            StoreCopy(source, target).run(0)

    made = StoreCopy(source, target, progress=let_the_other)
    made.run(0)
    assert made.verify().differences == []
    assert contents(target) == without_nul(contents(source))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stage", ["waiting", "copying"])
def test_a_run_that_another_one_overtook_brings_nothing_back_that_is_done(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, stage: str
) -> None:
    source, target = make_store(kind, "source").open(), make_store(kind, "target").open()
    fill(source, 100)
    begun = len(claim_from(source, "mail"))
    left: list[JobExport] = []

    def overtake(step: CopyStep) -> None:
        if step.stage != stage or left:
            return
        finish(StoreCopy(source, target))
        claims = target.exchange([], want(1000)).claims
        target.exchange([succeed(claim) for claim in claims], None)
        target.queries.move(Filter(), Trigger.DELETE, 1000)
        for dead_letter in dead_letters(target):
            target.dead_letters.delete(DeadLetterFilter(ids=(dead_letter.id,)), 10)
        target.queries.pause_queue("mail", True)
        left.extend(contents(target))

    made = StoreCopy(source, target, progress=overtake)
    copied = made.run(0)
    assert begun
    assert copied.dead_letters == 0
    assert contents(target) == left
    assert dead_letters(target) == []
    assert {queue.name: queue.paused for queue in target.queries.rules().queues}["mail"]
    assert made.verify().differences == []
    made.open()
    assert target.transfer.store_status() is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("behind", [1, 2, 3])
def test_a_run_that_comes_too_late_to_announce_anything_leaves_the_store_in_use(
    make_store: Callable[[str, str], StoreUnderTest], monkeypatch: pytest.MonkeyPatch, kind: str, behind: int
) -> None:
    """It read the status of both stores while they were open, and was slow since."""
    source, target = make_store(kind, "source").open(), make_store(kind, "target").open()
    source.insert([new_job("job")])
    others = iter([StoreCopy(source, target)])
    made = StoreCopy(source, target)
    swaps = 0

    def slow(swap: Callable[..., bool]) -> Callable[..., bool]:
        def act(store_status: StoreStatus | None, **how: Any) -> bool:
            nonlocal swaps
            swaps += 1
            if swaps == behind and (other := next(others, None)) is not None:
                finish(other)
                [claim] = target.exchange([], want()).claims
                target.exchange([succeed(claim)], None)
                target.queries.move(Filter(), Trigger.DELETE, 1000)
            return swap(store_status, **how)

        return act

    monkeypatch.setattr(source.transfer, "set_status", slow(source.transfer.set_status))
    monkeypatch.setattr(target.transfer, "set_status", slow(target.transfer.set_status))
    made.run(0)
    assert made.verify().differences == []
    made.open()
    assert (states(target), target.transfer.store_status()) == ({}, None)
    assert StoreCopy(source, target).copy_status() == "done"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("behind", [1, 2])
def test_of_two_that_move_the_same_jobs_to_different_stores_at_once_one_is_refused(
    make_store: Callable[[str, str], StoreUnderTest], monkeypatch: pytest.MonkeyPatch, kind: str, behind: int
) -> None:
    source, target, third = (make_store(kind, name).open() for name in ("source", "target", "third"))
    source.insert([new_job("job")])
    looks = 0
    store_status = source.transfer.store_status

    def slow() -> StoreStatus | None:
        nonlocal looks
        looks += 1
        expected = store_status()
        if looks == behind:
            finish(StoreCopy(source, third))
        return expected

    monkeypatch.setattr(source.transfer, "store_status", slow)
    with pytest.raises(ConfigError, match="were copied to"):
        StoreCopy(source, target).run(0)
    assert (states(target), target.transfer.store_status()) == ({}, None)
    assert states(third) == {"job": State.PENDING}


@pytest.mark.parametrize("kind", KINDS)
def test_of_two_that_move_jobs_to_the_same_store_at_once_one_is_refused(
    make_store: Callable[[str, str], StoreUnderTest], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    source, target, third = (make_store(kind, name).open() for name in ("source", "target", "third"))
    source.insert([new_job("job")])
    third.insert([new_job("other")])
    store_status = target.transfer.store_status

    def slow() -> StoreStatus | None:
        expected = store_status()
        if expected is None:
            monkeypatch.setattr(target.transfer, "store_status", store_status)
            StoreCopy(third, target).run(0)
        return expected

    monkeypatch.setattr(target.transfer, "store_status", slow)
    with pytest.raises(ConfigError, match="is being filled from"):
        StoreCopy(source, target, into_used=True).run(0)
    assert unchanged(source)
    assert states(target) == {"other": State.PENDING}


@pytest.mark.parametrize("stage", ["copying", "comparing"])
def test_a_store_that_another_run_began_to_fill_is_not_reported_as_complete(
    source: Engine, target: Engine, stage: str
) -> None:
    fill(source, 100)

    def take_over(step: CopyStep) -> None:
        if step.stage == stage:
            target.transfer.set_status(StoreStatus("arriving", ELSEWHERE, 1))

    made = StoreCopy(source, target, progress=take_over)
    with pytest.raises(ConfigError, match="is being filled from"):
        finish(made)
    assert target.transfer.store_status() == StoreStatus("arriving", ELSEWHERE, 1)


def test_a_store_whose_jobs_run_on_where_they_came_from_is_not_opened(source: Engine, target: Engine) -> None:
    source.insert([new_job("job")])
    made = StoreCopy(source, target)
    made.run(0)
    assert made.verify().differences == []
    reopen(source)
    with pytest.raises(ConfigError, match=r"was reopened while its jobs were copied"):
        made.open()
    assert target.transfer.store_status() is not None
