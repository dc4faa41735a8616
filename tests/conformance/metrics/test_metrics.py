"""Gathering metrics on a store: each page counts once, whoever folds it and whatever goes wrong meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from headrace.core.documents import Document
from headrace.core.events.log import EventGroup
from headrace.core.jobs.states import State
from headrace.core.metrics.buckets import ALL, DAY, EVER, HOUR, MINUTE, TEN_SECONDS, Resolution
from headrace.core.metrics.cells import total
from headrace.core.metrics.gauges import STORE
from headrace.core.metrics.values import gauged
from headrace.core.settings.settings import Settings
from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable
from headrace.runtime.metrics.collector import MetricsCollector
from headrace.runtime.metrics.gauges import GaugeSampler, SampleMark
from headrace.runtime.metrics.queries import gauges_in, jobs_in, sums_in, workers_in
from headrace.runtime.metrics.rollup import Rollup
from tests.support.builders import NOW as THEN
from tests.support.builders import bring, schedule, worker_row
from tests.support.engines import StoreUnderTest
from tests.support.waiting import PATIENCE

NOW = 1_700_006_405_000
SETTINGS = Settings()


def tell(engine: Engine, count: int, at: int = NOW, queue: str = "mail", task: str = "send") -> None:
    jobs = [f"{queue}-{number}" for number in range(count)]
    engine.events.append([EventGroup("job.completed", at, queue, task, "w1", jobs, [1] * count, runs=[30] * count)])


def completed(engine: Engine, width: Resolution = EVER, queue: str | None = None, since: int = NOW - DAY) -> int:
    found = jobs_in(engine.document_store, width, since, NOW + DAY, queue)
    return total(cell for _, cells in found for cell in cells.values()).completed


def fold_all(engine: Engine, now: int = NOW) -> None:
    folder = Rollup(engine, SETTINGS)
    while folder.fold(now=now):
        pass


def test_what_is_told_is_counted_in_every_width(engine: Engine) -> None:
    tell(engine, 3)
    tell(engine, 4, queue="other")
    fold_all(engine)
    for width in ALL:
        assert completed(engine, width) == 7
        assert completed(engine, width, "mail") == 3
    [(start, workers)] = workers_in(engine.document_store, MINUTE, NOW, NOW + 1)
    assert (start, workers["w1"].completed, workers["w1"].run.total) == (MINUTE.start(NOW), 7, 210)


def test_what_was_counted_is_not_counted_again(engine: Engine) -> None:
    folders = [Rollup(engine, SETTINGS), Rollup(engine, SETTINGS)]
    for number in range(1, 6):
        tell(engine, 10)
        for folder in folders:
            while folder.fold(now=NOW):
                pass
        assert completed(engine) == 10 * number
    assert not folders[0].fold(now=NOW)


def test_more_pages_than_one_piece_are_counted_piece_by_piece(engine: Engine) -> None:
    for _ in range(70):
        tell(engine, 1)
    folder = Rollup(engine, SETTINGS)
    assert folder.fold(now=NOW)
    assert 0 < completed(engine) < 70
    fold_all(engine)
    assert completed(engine) == 70


def test_a_queue_of_many_tasks_keeps_their_sum_too(engine: Engine) -> None:
    for number in range(30):
        tell(engine, 2, task=f"task{number % 20}")
        if number % 7 == 0:
            fold_all(engine)
    fold_all(engine)
    for width in ALL:
        sums = list(sums_in(engine.document_store, width, NOW, NOW, "mail"))
        assert [(cell.completed, cell.run.total) for _, cell in sums] == [(60, 1800)]
        assert completed(engine, width) == 60, "and it is not counted with them"
        [(_, one)] = jobs_in(engine.document_store, width, NOW, NOW, "mail", "task3")
        assert one["mail", "task3"].completed == 4
        assert len({place for _, cells in jobs_in(engine.document_store, width, NOW, NOW) for place in cells}) == 20


class Beside:
    """A shelf on which something happens just before or just after papers are put."""

    def __init__(self, engine: Engine, before: Any = None, after: Any = None) -> None:
        self._document_store, self._before, self._after = engine.document_store, before, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._document_store, name)

    def put(self, documents: Sequence[Document]) -> bool:
        for act, is_next in ((self._before, False), (self._after, True)):
            if is_next:
                done = self._document_store.put(documents)
            if act is not None:
                self._before = self._after = None
                act()
        return done


def test_who_comes_second_begins_anew(engine: Engine, store: StoreUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    tell(engine, 5)
    quick = Rollup(store.open(), SETTINGS)
    monkeypatch.setattr(engine, "document_store", Beside(engine, before=lambda: quick.fold(now=NOW)))
    slow = Rollup(engine, SETTINGS)
    assert slow.fold(now=NOW)  # in vain, so there may be more
    tell(engine, 2)
    while slow.fold(now=NOW):
        pass
    assert completed(engine) == 7


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_answer_that_is_lost_neither_doubles_nor_drops_a_page(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    def cut() -> None:
        raise EngineUnavailable("cut")

    tell(engine, 5)
    monkeypatch.setattr(engine, "document_store", Beside(engine, **{when: cut}))
    folder = Rollup(engine, SETTINGS)
    with pytest.raises(EngineUnavailable):
        folder.fold(now=NOW)
    while folder.fold(now=NOW):
        pass
    assert completed(engine) == 5


def test_two_at_once_count_each_page_once(engine: Engine, store: StoreUnderTest) -> None:
    is_told = threading.Event()

    def keep_folding(own: Engine) -> None:
        folder = Rollup(own, SETTINGS)
        while folder.fold(now=NOW) or not is_told.is_set():
            pass

    threads = [threading.Thread(target=keep_folding, args=(store.open(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(40):
        tell(engine, 3)
    is_told.set()
    for thread in threads:
        thread.join(PATIENCE)
    fold_all(engine)
    assert completed(engine) == 120
    assert completed(engine, TEN_SECONDS) == 120


def test_a_chore_leaves_it_to_who_folded_a_moment_ago(engine: Engine) -> None:
    one, other = Rollup(engine, SETTINGS), Rollup(engine, SETTINGS)
    tell(engine, 1)
    one.fold(if_idle=True, now=NOW)
    tell(engine, 1)
    assert not other.fold(if_idle=True, now=NOW + 5000)
    assert completed(engine) == 1
    one.fold(if_idle=True, now=NOW + 5000)
    assert completed(engine) == 2
    tell(engine, 1)
    other.fold(if_idle=True, now=NOW + 30_000)  # the one is silent: it may be dead
    assert completed(engine) == 3


def test_what_is_told_late_goes_where_it_belongs_unless_that_is_no_longer_kept(engine: Engine) -> None:
    tell(engine, 1, at=NOW - 8 * DAY)
    tell(engine, 2, at=NOW - 3_600_000)
    fold_all(engine)
    assert completed(engine, EVER) == 3
    starts = {
        width: [start for start, _ in jobs_in(engine.document_store, width, NOW - 100 * DAY, NOW)]
        for width in (TEN_SECONDS, MINUTE, HOUR)
    }
    recent, old = NOW - 3_600_000, NOW - 8 * DAY
    assert starts == {
        TEN_SECONDS: [TEN_SECONDS.start(recent)],
        MINUTE: [MINUTE.start(old), MINUTE.start(recent)],
        HOUR: [HOUR.start(old), HOUR.start(recent)],
    }


def test_what_is_too_old_goes_and_the_sum_of_all_stays(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    tell(engine, 4)
    fold_all(engine)
    gathering = MetricsCollector(engine, SETTINGS)
    for days, left in ((6, (4, 4, 4)), (8, (0, 4, 4)), (31, (0, 0, 4)), (91, (0, 0, 0))):
        gathering.drop(now=NOW + days * DAY)
        assert tuple(completed(engine, width) for width in (TEN_SECONDS, MINUTE, HOUR)) == left
    assert completed(engine, EVER) == 4


def test_many_buckets_are_read_to_the_last(engine: Engine) -> None:
    documents = [
        Document(TEN_SECONDS.kind, f"{(NOW - NOW % 10_000) // 1000 - 10 * number:010d}/q/mail", 0, '{"send":[1,0,1]}')
        for number in range(2100)
    ]
    engine.document_store.put(documents)
    assert completed(engine, TEN_SECONDS) == completed(engine, TEN_SECONDS, "mail") == 2100


# -- gauges


def test_gauges_are_read_once_in_ten_seconds_however_many_want_to(engine: Engine) -> None:
    bring(engine, State.COMPLETED, "over", queue="mail")
    for number in range(3):
        bring(engine, State.PENDING, f"job{number}", queue="mail")
    engine.renew(worker_row("w1", seen_at=NOW, queues='["mail"]'), [], 0, now=NOW)
    for name in ("hourly", "nightly"):
        engine.schedule_store.put(schedule(name), new=True)
    samplers = [GaugeSampler(engine), GaugeSampler(engine)]
    assert [sampler.sample(NOW) for sampler in samplers] == [True, False]
    [(start, found)] = gauges_in(engine.document_store, TEN_SECONDS, NOW, NOW + 1)
    assert start == TEN_SECONDS.start(NOW)
    assert gauged("depth", "mail", [found]) == gauged("depth", None, [found]) == 3
    assert gauged("oldest", "mail", [found]) == (NOW - THEN) / 1000
    assert gauged("workers", "mail", [found]) == 1
    assert gauged("dead", None, [found]) == 0
    assert found[STORE]["store_bytes"].last > 1000
    assert gauged("schedules", None, [found]) == 2
    clients = gauged("clients", None, [found])
    assert clients is None if engine.url.startswith("sqlite") else clients is not None and clients >= 1
    bring(engine, State.PENDING, "more", queue="mail")
    assert [sampler.sample(NOW + 10_000) for sampler in samplers] == [True, False]
    [(_, whole)] = gauges_in(engine.document_store, HOUR, NOW, NOW + 1)
    assert (whole["mail"]["pending"].last, whole["mail"]["pending"].count) == (4, 2)


def test_of_two_who_read_at_the_same_time_one_is_counted(
    engine: Engine, store: StoreUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = GaugeSampler(store.open())
    monkeypatch.setattr(engine, "document_store", Beside(engine, before=lambda: other.sample(NOW)))
    GaugeSampler(engine).sample(NOW)
    [(_, found)] = gauges_in(engine.document_store, MINUTE, NOW, NOW + 1)
    assert found[STORE]["workers"].count == 1


@pytest.mark.engines("sqlite")
def test_a_store_that_is_slow_to_count_is_counted_less_often() -> None:
    assert not SampleMark(NOW, took=4000).is_due(NOW + 190_000)
    assert SampleMark(NOW, took=4000).is_due(NOW + 200_000)
    assert SampleMark(NOW, took=5).is_due(NOW + 5000)  # in the next bucket
    assert not SampleMark(NOW, took=5).is_due(NOW + 4000)
    assert SampleMark(NOW + DAY, took=5).is_due(NOW), "a clock that was wrong"


@pytest.mark.engines("sqlite")
def test_who_only_wants_to_read_does_not_wait_for_a_count_that_takes_long() -> None:
    assert not SampleMark(NOW, took=200).is_due(NOW + 90_000, for_reader=True)
    assert SampleMark(NOW, took=200).is_due(NOW + 100_000, for_reader=True)
    assert SampleMark(NOW, took=9000).is_due(NOW + 120_000, for_reader=True), "it would never come, if nobody works"
    assert SampleMark(NOW, took=5).is_due(NOW + 5000, for_reader=True)
