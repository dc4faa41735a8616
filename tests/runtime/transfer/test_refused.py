"""Moving to another store: what can not be moved is refused, and then nothing is changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from headrace.app.transfer.move import StoreCopy, reopen
from headrace.core.health.findings import MigrationResult
from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import State, Trigger
from headrace.core.jobs.transfer import StoreStatus
from headrace.engines.protocol.engine import Engine
from headrace.engines.sqlite.engine import SqliteEngine
from headrace.errors import ConfigError, EngineUnavailable, SchemaMismatch
from tests.runtime.transfer.kit import ELSEWHERE, JOBS, cut_off, move, unchanged
from tests.runtime.transfer.store_contents import claim_from, contents, dead_letters, fill, without_nul
from tests.support.builders import (
    fail,
    kinds,
    new_job,
    states,
)
from tests.support.engines import KINDS, StoreUnderTest

# -- what is refused, and changes nothing


def test_a_store_is_not_moved_to_itself(source: Engine) -> None:
    fill(source, 5)
    with pytest.raises(ConfigError, match="the same store"):
        StoreCopy(source, source).run(0)
    assert unchanged(source)


def test_a_store_is_known_to_be_the_same_by_another_name(
    make_store: Callable[[str, str], StoreUnderTest], engine_name: str, folder: Path
) -> None:
    store = make_store(engine_name, "source")
    source = store.open()
    source.migrate()
    other_name = _another_name(engine_name, store.address, folder)
    other = KINDS[engine_name].open(other_name)
    try:
        assert other.url != source.url
        source.insert([new_job("job")])
        assert states(other) == {"job": State.PENDING}
        with pytest.raises(ConfigError, match="are the same store"):
            StoreCopy(source, other, into_used=True).run(0)
    finally:
        other.close()
    assert unchanged(source)


def _another_name(kind: str, address: str, folder: Path) -> str:
    if kind == "sqlite":
        os.symlink(address, folder / "link.db")
        return str(folder / "link.db")
    parts = urlsplit(address)
    assert "127.0.0.1" in parts.netloc
    return parts._replace(netloc=parts.netloc.replace("127.0.0.1", "localhost")).geturl()


def test_a_store_in_use_is_not_filled(source: Engine, target: Engine) -> None:
    fill(source, 5)
    target.insert([new_job("mine")])
    with pytest.raises(ConfigError, match=r"is in use: it has 1 job.*--into-used"):
        StoreCopy(source, target).run(0)
    assert unchanged(source, target)


def test_a_store_with_dead_letters_alone_is_in_use(source: Engine, target: Engine) -> None:
    fill(source, 5)
    target.insert([new_job("job", queue="mail")])
    target.exchange([fail(claim_from(target, "mail")[0])], None)
    target.queries.move(Filter(), Trigger.DELETE, 10)
    with pytest.raises(ConfigError, match="is in use"):
        StoreCopy(source, target).run(0)


@pytest.mark.parametrize(
    ("at_source", "at_target", "expected"),
    [
        (StoreStatus("moved", ELSEWHERE, 1), None, "were copied to postgresql://elsewhere/db on 1970-01-01"),
        (StoreStatus("arriving", ELSEWHERE, 1), None, "is itself being filled from postgresql://elsewhere/db"),
        (None, StoreStatus("moved", ELSEWHERE, 1), "choose an empty store"),
        (None, StoreStatus("arriving", ELSEWHERE, 1), "is being filled from postgresql://elsewhere/db"),
    ],
)
def test_stores_that_take_part_in_another_move_are_refused(
    source: Engine, target: Engine, at_source: StoreStatus | None, at_target: StoreStatus | None, expected: str
) -> None:
    fill(source, 5)
    source.transfer.set_status(at_source)
    target.transfer.set_status(at_target)
    for into_used in (False, True):
        with pytest.raises(ConfigError, match=expected):
            StoreCopy(source, target, into_used=into_used).run(0)
    assert (source.transfer.store_status(), target.transfer.store_status()) == (at_source, at_target)
    assert contents(target) == []


def test_a_store_that_was_reopened_in_the_middle_is_not_copied_further(source: Engine, target: Engine) -> None:
    fill(source, JOBS)
    cut_off(source, target, 200)
    store_status = source.transfer.store_status()
    assert store_status is not None
    assert (store_status.kind, store_status.other) == ("moved", target.url)
    assert reopen(source) == store_status
    assert kinds(source.insert([new_job("new")])) == ["new"]
    assert reopen(source) is None
    with pytest.raises(ConfigError, match="was reopened after a part of its jobs"):
        StoreCopy(source, target).run(0)
    assert source.transfer.store_status() is None


def test_a_store_without_tables_has_nothing_to_copy(bare: Engine, target: Engine) -> None:
    for act in (lambda: StoreCopy(bare, target).run(0), lambda: StoreCopy(bare, target).plan()):
        with pytest.raises(ConfigError, match="has no tables of headrace"):
            act()
    assert bare.migrate(dry_run=True).found == 0
    assert unchanged(target)


def test_a_store_without_a_name_is_not_moved(source: Engine) -> None:
    memory = SqliteEngine(None)
    for made in (StoreCopy(memory, source), StoreCopy(source, memory)):
        with pytest.raises(ConfigError, match="gone when its process ends"):
            made.run(0)
    memory.close()


def test_an_announcement_is_taken_back_when_the_source_can_not_be_closed(
    source: Engine, target: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(source, 5)

    def refuse(*_: Any, **__: Any) -> bool:
        raise ConfigError("read only")

    monkeypatch.setattr(source.transfer, "set_status", refuse)
    with pytest.raises(ConfigError, match="read only"):
        StoreCopy(source, target).run(0)
    assert unchanged(target)


@pytest.mark.parametrize("is_reachable", [True, False])
def test_a_source_that_was_closed_though_the_answer_was_lost_is_copied_by_the_next_run(
    source: Engine, target: Engine, monkeypatch: pytest.MonkeyPatch, is_reachable: bool
) -> None:
    fill(source, 5)
    swap = source.transfer.set_status

    def away() -> StoreStatus | None:
        raise EngineUnavailable("the server is away")

    def lose_answer(store_status: StoreStatus | None, **how: Any) -> bool:
        swap(store_status, **how)
        if not is_reachable:
            monkeypatch.setattr(source.transfer, "store_status", away)
        raise EngineUnavailable("the connection was lost")

    with monkeypatch.context() as lossy:
        lossy.setattr(source.transfer, "set_status", lose_answer)
        with pytest.raises(EngineUnavailable, match="was lost"):
            StoreCopy(source, target).run(0)
    monkeypatch.undo()
    move(source, target)
    assert contents(target) == without_nul(contents(source)) != []


# -- a dry run


def test_a_plan_counts_everything_and_changes_nothing(source: Engine, bare: Engine, folder: Path) -> None:
    fill(source, JOBS)
    before = contents(source)
    plan = StoreCopy(source, bare).plan()
    assert (plan.copy_status, plan.has_tables) == ("new", False)
    assert plan.contents.jobs == JOBS
    assert plan.contents.history == sum(len(job_export.history) for job_export in before)
    assert plan.contents.logs == sum(len(job_export.logs) for job_export in before)
    assert plan.contents.dead_letters == len(dead_letters(source))
    assert plan.contents.bytes > JOBS * 100
    expected = {(count.queue, count.state): count.jobs for count in plan.contents.counts()}
    assert expected == {(depth.queue, depth.state): depth.jobs for depth in source.queries.queue_counts()}
    assert contents(source) == before
    assert source.transfer.store_status() is None
    assert list((folder / "bare").iterdir()) == []
    assert bare.migrate(dry_run=True).found == 0


def test_a_plan_tells_how_far_a_move_is(source: Engine, target: Engine) -> None:
    fill(source, JOBS)
    target.migrate()
    assert StoreCopy(source, target).plan().copy_status == "new"
    cut_off(source, target, 100)
    assert StoreCopy(source, target).plan().copy_status == "begun"
    move(source, target)
    assert StoreCopy(source, target).plan().copy_status == "done"


def test_a_plan_does_not_bring_old_tables_up_to_date(
    source: Engine, target: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(source, 5)
    monkeypatch.setattr(source, "migrate", lambda *, dry_run: MigrationResult(1, 2, []))
    with pytest.raises(SchemaMismatch, match=r"tables of version 1.*headrace --url .* migrate"):
        StoreCopy(source, target).plan()
