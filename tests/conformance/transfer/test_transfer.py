"""The porter: what hangs at the door holds for everybody, and a store's contents arrive at another as they were."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from headrace.core.dead_letters.records import DeadLetterFilter, RequeueRequest
from headrace.core.jobs.queue_rules import QueueRow
from headrace.core.jobs.records import DeadLetterRow, Filter, JobRow, JobUpdate, Lease
from headrace.core.jobs.states import FINAL, State, Trigger
from headrace.core.jobs.transfer import JobExport, StoreStatus
from headrace.core.retention.policy_fields import OnStale
from headrace.core.retention.staleness import StaleAction
from headrace.engines.postgres import settle_and_claim
from headrace.engines.protocol.engine import Engine
from headrace.engines.shared.decisions import CopyFinished
from headrace.errors import DuplicateJob, EngineUnavailable, StoreMoved
from tests.conformance.dead_letters.builders import dead, one
from tests.support.builders import (
    EVERYTHING,
    HOUR,
    LATER,
    LEASE,
    NOTHING,
    NOW,
    SECOND,
    bring,
    claim,
    claim_one,
    fail,
    ids,
    kinds,
    lease_of,
    log,
    new_job,
    progress,
    release,
    retry,
    row,
    rows,
    settle,
    states,
    submit_and_claim,
    succeed,
    want,
    worker_row,
)
from tests.support.engines import StoreUnderTest
from tests.support.waiting import PATIENCE

# Eight hundred cases; runtime/transfer copies from and to PostgreSQL at once.
pytestmark = pytest.mark.slow_on("postgres")

MOVED = StoreStatus("moved", "redis://elsewhere/0", NOW)
ARRIVING = StoreStatus("arriving", "sqlite:////from/here.db", NOW)
CLOSED: dict[str, type[Exception]] = {"moved": StoreMoved, "arriving": EngineUnavailable}
NOBODY = Filter(queue="a queue that nobody knows")
every_notice = pytest.mark.parametrize("store_status", [MOVED, ARRIVING], ids=lambda store_status: store_status.kind)


def carry(source: Engine, target: Engine) -> int:
    return target.transfer.import_records(source.transfer.export_jobs(0, 1000))


def without_seq(job: JobRow) -> JobRow:
    return msgspec.structs.replace(job, seq=0)


def contents(engine: Engine) -> list[JobExport]:
    """Everything of every job, but for the numbers that each store gives by itself."""
    return [msgspec.structs.replace(p, job=without_seq(p.job)) for p in engine.transfer.export_jobs(0, 100_000)]


# -- the notice


def test_no_notice_hangs_at_a_new_store(engine: Engine) -> None:
    assert engine.transfer.store_status() is None


@every_notice
def test_a_notice_is_read_by_everybody_until_it_is_taken_away(store: StoreUnderTest, store_status: StoreStatus) -> None:
    first, second = store.open(), store.open()
    first.transfer.set_status(store_status)
    assert second.transfer.store_status() == store_status
    first.close()
    assert store.open().transfer.store_status() == store_status
    second.transfer.set_status(None)
    assert store.open().transfer.store_status() is None
    second.transfer.set_status(None)  # once more does no harm


def test_a_notice_takes_the_place_of_the_one_before(engine: Engine) -> None:
    for store_status in (MOVED, ARRIVING, MOVED, msgspec.structs.replace(MOVED, other="other", at=1)):
        engine.transfer.set_status(store_status)
        assert engine.transfer.store_status() == store_status


@pytest.mark.parametrize("store_status", [MOVED, ARRIVING, None])
def test_a_notice_is_exchanged_for_the_one_that_hangs_there_and_no_other(
    store: StoreUnderTest, store_status: StoreStatus | None
) -> None:
    engine, other = store.open(), store.open()
    for before in (None, StoreStatus("arriving", "elsewhere", -5), MOVED, ARRIVING):
        engine.transfer.set_status(before)
        for wrong in (
            None,
            MOVED,
            ARRIVING,
            StoreStatus("arriving", "elsewhere", 5),
            StoreStatus("arriving", "there", -5),
        ):
            if wrong != before:
                assert not other.transfer.set_status(store_status, expected=wrong)
                assert engine.transfer.store_status() == before
        assert other.transfer.set_status(store_status, expected=before)
        assert engine.transfer.store_status() == store_status
    engine.transfer.set_status(None)
    assert kinds(engine.insert([new_job("job")])) == ["new"], "the door is open again"


def test_of_many_who_exchange_a_notice_at_once_one_does_it(store: StoreUnderTest) -> None:
    engines = [store.open() for _ in range(4)]
    for before in (None, MOVED):
        engines[0].transfer.set_status(before)
        with ThreadPoolExecutor(len(engines)) as worker_state:
            tries = [
                worker_state.submit(
                    engine.transfer.set_status, StoreStatus("arriving", "elsewhere", place), expected=before
                )
                for place, engine in enumerate(engines, 1)
            ]
        [winner] = [place for place, each in enumerate(tries, 1) if each.result()]
        assert engines[0].transfer.store_status() == StoreStatus("arriving", "elsewhere", winner)


def test_nothing_is_unpacked_where_nobody_would_find_it(engine: Engine, target: Engine) -> None:
    engine.insert([new_job("job")])
    target.transfer.set_status(MOVED)
    with pytest.raises(StoreMoved, match="redis://elsewhere/0"):
        carry(engine, target)
    assert states(target) == {}


@pytest.mark.parametrize("store_status", [None, MOVED, StoreStatus("arriving", "somewhere else", 1)])
def test_nothing_is_unpacked_behind_a_notice_that_is_gone(
    engine: Engine, target: Engine, store_status: StoreStatus | None
) -> None:
    engine.exchange([fail(submit_and_claim(engine, "failed"))], None, now=NOW)
    job_exports, records = (
        engine.transfer.export_jobs(0, 10),
        engine.dead_letters.find(DeadLetterFilter(), 10, oldest_first=True),
    )
    assert job_exports
    assert records
    target.transfer.set_status(store_status)
    for unpack in (
        lambda: target.transfer.import_records(job_exports, "here"),
        lambda: target.transfer.import_records(records, "here"),
    ):
        with pytest.raises(CopyFinished):
            unpack()
    assert target.transfer.export_jobs(0, 10) == []
    assert target.dead_letters.find(DeadLetterFilter(), 10, oldest_first=True) == []
    target.transfer.set_status(StoreStatus("arriving", "here", 1))
    assert target.transfer.import_records(job_exports, "here") == target.transfer.import_records(records, "here") == 1


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("all_or_nothing", [False, True])
def test_nobody_enqueues_at_a_store_that_has_moved(store: StoreUnderTest, size: int, all_or_nothing: bool) -> None:
    engine, producer = store.open(), store.open()
    producer.insert([new_job("before")], now=NOW)
    engine.transfer.set_status(MOVED)
    for queue in ("default", "a queue that nobody knows"):
        jobs = [new_job(f"j{number}", queue=queue, tags=("t",)) for number in range(size)]
        with pytest.raises(StoreMoved, match="redis://elsewhere/0") as refused:
            producer.insert(jobs, all_or_nothing=all_or_nothing, now=NOW)
        assert refused.value.other == "redis://elsewhere/0"
    assert states(engine) == {"before": State.PENDING}


@every_notice
@pytest.mark.parametrize("is_gone", [False, True])
def test_nobody_requeues_while_a_notice_hangs(engine: Engine, store_status: StoreStatus, is_gone: bool) -> None:
    letter = dead(engine, "moved")
    if is_gone:
        engine.queries.move(EVERYTHING, Trigger.DELETE, 1, now=NOW)
    before = states(engine)
    engine.transfer.set_status(store_status)
    with pytest.raises(CLOSED[store_status.kind], match=re.escape(store_status.other)):
        engine.dead_letters.requeue([RequeueRequest(letter.id)], now=NOW)
    assert (states(engine), one(engine, letter.id).status) == (before, "pending")
    engine.transfer.set_status(None)
    assert [each.job_id for each in engine.dead_letters.requeue([RequeueRequest(letter.id)], now=NOW)] == ["moved"]


@every_notice
@pytest.mark.parametrize("event", [Trigger.REVIVE, Trigger.CANCEL, Trigger.PROMOTE_NOW])
@pytest.mark.parametrize("which", [Filter(ids=("moved", "later")), EVERYTHING, NOBODY], ids=["ids", "all", "none"])
def test_nobody_moves_jobs_by_hand_while_a_notice_hangs(
    engine: Engine, store_status: StoreStatus, event: Trigger, which: Filter
) -> None:
    engine.insert([new_job("moved"), new_job("later", run_at=LATER)], now=NOW)
    engine.queries.move(Filter(ids=("moved",)), Trigger.CANCEL, 1, now=NOW)
    before = contents(engine)
    engine.transfer.set_status(store_status)
    with pytest.raises(CLOSED[store_status.kind], match=re.escape(store_status.other)):
        engine.queries.move(which, event, 10, now=NOW)
    assert contents(engine) == before
    engine.transfer.set_status(None)
    assert bool(engine.queries.move(which, event, 10, now=NOW)) == (which != NOBODY)


@every_notice
def test_nobody_amends_a_job_or_sends_it_an_event_while_a_notice_hangs(
    engine: Engine, store_status: StoreStatus
) -> None:
    engine.insert([new_job("j1")], now=NOW)
    before = contents(engine)
    engine.transfer.set_status(store_status)
    with pytest.raises(CLOSED[store_status.kind], match=re.escape(store_status.other)):
        engine.queries.update("j1", JobUpdate(priority=9), now=NOW)
    with pytest.raises(CLOSED[store_status.kind], match=re.escape(store_status.other)):
        engine.queries.signal("j1", "paid", None, None, now=NOW)
    assert contents(engine) == before


def test_jobs_are_deleted_where_they_came_from_but_not_where_they_arrive(engine: Engine) -> None:
    engine.insert([new_job("j1")], now=NOW)
    engine.transfer.set_status(ARRIVING)
    with pytest.raises(EngineUnavailable, match="filled from"):
        engine.queries.move(EVERYTHING, Trigger.DELETE, 1, now=NOW)
    engine.transfer.set_status(MOVED)
    assert engine.queries.move(EVERYTHING, Trigger.DELETE, 1, now=NOW) == ["j1"]


@pytest.mark.parametrize("after", [None, ARRIVING], ids=["none", "arriving"])
def test_it_is_enqueued_again_once_the_store_is_back(engine: Engine, after: StoreStatus | None) -> None:
    engine.transfer.set_status(MOVED)
    engine.transfer.set_status(after)
    assert kinds(engine.insert([new_job("a"), new_job("b")], now=NOW)) == ["new", "new"]
    assert kinds(engine.insert([new_job("a")], now=NOW)) == ["taken"]
    with pytest.raises(DuplicateJob):
        engine.insert([new_job("c"), new_job("a")], all_or_nothing=True, now=NOW)


def test_no_insert_is_under_way_any_more_when_the_notice_hangs(store: StoreUnderTest) -> None:
    """Whoever was told that a job is stored finds it among those that are there when `post` returns."""
    engine = store.open()
    engine.insert([new_job("first")], now=NOW)
    accepted: list[str] = []
    refused = threading.Semaphore(0)
    started = threading.Barrier(5)

    def produce(name: int, producer: Engine) -> None:
        started.wait(PATIENCE)
        for number in range(1_000_000):
            try:
                producer.insert([new_job(f"{name}-{number}-{part}") for part in range(3)], now=NOW)
            except StoreMoved:
                refused.release()
                return
            accepted.extend(f"{name}-{number}-{part}" for part in range(3))

    threads = [threading.Thread(target=produce, args=(name, store.open())) for name in range(4)]
    for thread in threads:
        thread.start()
    started.wait(PATIENCE)
    while len(accepted) < 60:
        assert any(thread.is_alive() for thread in threads)
    engine.transfer.set_status(MOVED)
    there = {job_export.job.id for job_export in engine.transfer.export_jobs(0, 1_000_000)}
    for thread in threads:
        assert refused.acquire(timeout=PATIENCE), "a producer was not refused"
        thread.join(PATIENCE)
    assert there == {"first", *accepted}
    assert engine.queries.count(EVERYTHING).jobs == len(there)


@every_notice
def test_nobody_claims_while_a_notice_hangs(store: StoreUnderTest, store_status: StoreStatus) -> None:
    engine, worker = store.open(), store.open()
    worker.insert([new_job("a"), new_job("b")], now=NOW)
    assert ids(claim(worker, 1)) == ["a"]
    engine.transfer.set_status(store_status)
    answer = worker.exchange([], NOTHING, now=NOW)
    assert (answer.claims, answer.queues) == ([], ())
    assert claim(worker) == []
    assert row(engine, "b").state is State.PENDING
    engine.transfer.set_status(None)
    assert ids(claim(worker)) == ["b"]


@every_notice
def test_no_claim_is_under_way_any_more_when_the_notice_hangs(store: StoreUnderTest, store_status: StoreStatus) -> None:
    """What is packed as waiting once `post` has returned is not started afterwards."""
    engine = store.open()
    engine.insert([new_job(f"j{number}") for number in range(3000)], now=NOW)
    workers = [store.open() for _ in range(4)]
    started, closed = threading.Barrier(5), threading.Event()

    def work(number: int) -> None:
        started.wait(PATIENCE)
        while not closed.is_set():
            claim(workers[number], 1, worker=f"w{number}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    started.wait(PATIENCE)
    running = Filter(states=(State.RUNNING,))
    while engine.queries.count(running).jobs < 40:
        assert all(thread.is_alive() for thread in threads)
    engine.transfer.set_status(store_status)
    then = engine.queries.count(running).jobs
    closed.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert engine.queries.count(running).jobs == then < 3000


@every_notice
def test_workers_end_what_they_run_while_a_notice_hangs(engine: Engine, store_status: StoreStatus) -> None:
    liveness = engine.register_worker(worker_row())
    engine.insert([new_job(name) for name in ("done", "again", "lost")], now=NOW)
    done, again, lost = claim(engine, lease=LEASE)
    engine.transfer.set_status(store_status)
    assert engine.renew(worker_row(), [lease_of(done), lease_of(again)], 2 * LEASE, now=NOW).lost == frozenset()
    answer = engine.exchange([succeed(done), retry(again, LATER)], None, [log(lost, "still here")], now=NOW)
    assert answer.refused == []
    assert states(engine) == {"done": State.COMPLETED, "again": State.RETRYING, "lost": State.RUNNING}
    assert [line.message for line in engine.queries.details("lost").logs] == ["still here"]
    liveness.close()


def test_what_nobody_ends_any_more_is_reaped_at_a_store_that_has_moved(engine: Engine) -> None:
    """Whoever carries its jobs waits for those that run."""
    submit_and_claim(engine, "lost")
    engine.transfer.set_status(MOVED)
    assert [job.id for job in engine.reap(10, now=NOW + LEASE)] == ["lost"]
    assert states(engine) == {"lost": State.PENDING}


@pytest.mark.parametrize("paused", [False, True])
@every_notice
def test_time_stands_still_while_a_notice_hangs(store: StoreUnderTest, store_status: StoreStatus, paused: bool) -> None:
    """What a job's end means to others can't be decided before everything has arrived; and nobody comes at once for
    what is not done."""
    engine, worker = store.open(), store.open()
    engine.insert([new_job("due", run_at=LATER), new_job("lapsed", expires_at=LATER)], now=NOW)
    engine.queries.pause_queue("default", paused)
    engine.transfer.set_status(store_status)
    before = rows(engine)
    for wanted in (NOTHING, want()):
        answer = worker.exchange([], wanted, now=LATER)
        assert (answer.claims, answer.next_at, answer.queues) == ([], None, ())
    assert rows(engine) == before
    engine.transfer.set_status(None)
    assert ids(claim(worker, now=LATER)) == ([] if paused else ["due"])
    assert states(engine) == {"due": State.PENDING if paused else State.RUNNING, "lapsed": State.CANCELLED}


@pytest.mark.engines("postgres")
def test_nothing_lapses_behind_a_notice_that_was_put_up_since_it_was_seen_to_be_late(
    store: StoreUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There, to see it and to do it are two transactions, and jobs may arrive between them."""
    engine, worker = store.open(), store.open()
    engine.insert([new_job("lapsed", expires_at=LATER)], now=NOW)
    see = settle_and_claim.claim

    def see_and_dawdle(*args: Any, **more: Any) -> settle_and_claim.ClaimResult:
        seen = see(*args, **more)
        if engine.transfer.store_status() is None:
            assert seen.next_expiry == LATER
            engine.transfer.set_status(ARRIVING)
        return seen

    monkeypatch.setattr(settle_and_claim, "claim", see_and_dawdle)
    assert worker.exchange([], want(), now=LATER).next_at is None
    assert states(engine) == {"lapsed": State.PENDING}
    monkeypatch.undo()
    engine.transfer.set_status(None)
    assert claim(worker, now=LATER) == []
    assert states(engine) == {"lapsed": State.CANCELLED}


def test_nothing_is_reaped_while_jobs_arrive(engine: Engine) -> None:
    engine.insert([new_job("again"), new_job("last time", max_attempts=1)], now=NOW)
    claim(engine)
    engine.transfer.set_status(ARRIVING)
    before = rows(engine)
    assert engine.reap(10, now=NOW + LEASE) == []
    assert rows(engine) == before
    engine.transfer.set_status(None)
    assert sorted(job.id for job in engine.reap(10, now=NOW + LEASE)) == ["again", "last time"]
    assert states(engine) == {"again": State.PENDING, "last time": State.FAILED}


def test_a_worker_that_died_while_jobs_arrive_is_remembered_until_its_own_are_recovered(store: StoreUnderTest) -> None:
    """Its sign of life alone tells what it had begun."""
    engine = store.open()
    engine.insert([new_job("begun"), new_job("fetched")], now=NOW)
    worker = store.send("hold", "victim", 2, 1)
    assert worker.hear() == ["begun", "fetched"]
    worker.kill()
    engine.transfer.set_status(ARRIVING)
    for _ in range(2):
        assert engine.reap(10, now=NOW) == []
    assert [known.id for known in engine.queries.workers()] == ["victim"]
    engine.transfer.set_status(None)
    assert len(engine.reap(10, now=NOW)) == 2
    assert {job.id: (job.attempt, job.releases) for job in rows(engine).values()} == {
        "begun": (1, 0),
        "fetched": (0, 1),
    }
    assert engine.queries.workers() == []


@every_notice
def test_nothing_is_cleared_away_while_a_notice_hangs(engine: Engine, store_status: StoreStatus) -> None:
    """What was carried must still be there when it is compared, however old it is."""
    bring(engine, State.COMPLETED, "old", queue="mail")
    bring(engine, State.FAILED, "older", queue="mail")
    engine.transfer.set_status(store_status)
    engine.reap(10, now=NOW + 1000 * 24 * HOUR)
    assert states(engine) == {"old": State.COMPLETED, "older": State.FAILED}


@every_notice
@pytest.mark.parametrize("action", ["dead", "fail", "review"])
def test_nothing_is_judged_by_its_age_while_a_notice_hangs(
    engine: Engine, store_status: StoreStatus, action: OnStale
) -> None:
    """Where it came from it would fail beside the one that lives elsewhere, and where it arrives without its kin."""
    engine.insert([new_job("old"), new_job("older")], now=NOW)
    judged = [StaleAction(name, 1, action, "pending for long", "print") for name in ("old", "older")]
    before = contents(engine)
    engine.transfer.set_status(store_status)
    assert engine.staleness_store.mark_stale(judged, now=NOW) == [False, False]
    assert contents(engine) == before
    assert (
        engine.dead_letters.find(
            DeadLetterFilter(
                latest_of=(
                    "old",
                    "older",
                )
            ),
            10,
        )
        == []
    )
    engine.transfer.set_status(None)
    assert engine.staleness_store.mark_stale(judged, now=NOW) == [True, True]


@every_notice
def test_workers_are_called_when_the_notice_is_taken_away(store: StoreUnderTest, store_status: StoreStatus) -> None:
    engine, worker = store.open(), store.open()
    engine.transfer.set_status(store_status)
    bell = worker.listen("work")
    while bell.wait(0):  # the call that came with the notice itself may still be on its way
        pass
    engine.transfer.set_status(None)
    assert bell.wait(PATIENCE)
    bell.close()


# -- packing


def test_an_empty_store_has_nothing_to_pack(engine: Engine) -> None:
    assert engine.transfer.export_jobs(0, 10) == []
    assert engine.dead_letters.find(DeadLetterFilter(), 10, oldest_first=True) == []


def test_jobs_are_packed_in_the_order_of_submission_a_page_at_a_time(engine: Engine) -> None:
    names = [f"j{number}" for number in (5, 3, 9, 1, 7)]
    for number, name in enumerate(names):
        engine.insert([new_job(name, priority=number, queue=f"q{number % 2}", run_at=NOW - number)], now=NOW)
    packed, after = [], 0
    while page := engine.transfer.export_jobs(after, 2):
        assert len(page) <= 2
        packed += [job_export.job.id for job_export in page]
        after = page[-1].job.seq
    assert packed == names


def test_a_parcel_is_the_job_with_everything_that_was_filed_about_it(engine: Engine) -> None:
    claimed = submit_and_claim(engine, "first")
    engine.exchange([], None, [log(claimed, "one"), progress(claimed, "0.5"), log(claimed, "two")], now=NOW)
    settle(engine, retry(claimed, NOW, message="once"))
    again = claim_one(engine)
    settle(engine, retry(again, NOW, message="twice"))
    engine.insert([new_job("second")], now=NOW)
    first, second = engine.transfer.export_jobs(0, 10)
    assert [first.job, second.job] == [row(engine, "first"), row(engine, "second")]
    assert first.history == engine.queries.details("first").history
    assert [history_row.error_message for history_row in first.history] == ["once", "twice"]
    assert first.logs == engine.queries.details("first").logs
    assert [line.message for line in first.logs] == ["one", "two"]
    assert (second.history, second.logs) == ([], [])


def test_what_is_packed_while_workers_settle_fits_together(store: StoreUnderTest) -> None:
    """A row as it was before a settle never comes with what the settle filed."""
    engine, worker = store.open(), store.open()
    engine.insert([new_job(f"j{number}", max_attempts=10**6) for number in range(20)], now=NOW)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            settle(worker, *[retry(claimed, NOW) for claimed in claim(worker, 5)])

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(100):
            for job_export in engine.transfer.export_jobs(0, 100):
                assert all(history_row.version <= job_export.job.version for history_row in job_export.history)
    finally:
        stop.set()
        thread.join(PATIENCE)


# -- unpacking


def bring_every_state(engine: Engine) -> None:
    """A job in each state, with whatever a job can have."""
    tired = submit_and_claim(engine, "tired", queue="tired", payload='["' + "ß" * 5000 + '"]', version=NOW)
    engine.exchange([], None, [log(tired, "line\n\x1b[31m ☃"), progress(tired, '"half"')], now=NOW)
    settle(engine, retry(tired, NOW + SECOND, message="☃ 'quoted' \"twice\" \\"))
    claim_one(engine, now=NOW + SECOND)
    assert engine.reap(10, now=NOW + HOUR)
    revived = submit_and_claim(engine, "revived", queue="revived")
    settle(engine, fail(revived))
    engine.queries.move(Filter(ids=("revived",)), Trigger.REVIVE, 1, by="me", now=NOW)
    more = {"tags": ("red", "ö'\"x"), "metadata": '{"k":"v"}', "options": '{"timeout":5000}'}
    for place, state in enumerate(State):
        bring(engine, state, f"{state}-job", queue=f"of {state}", priority=place - 4, lifo=bool(place % 2), **more)


def test_a_job_in_every_state_arrives_with_everything_it_has(engine: Engine, target: Engine) -> None:
    bring_every_state(engine)
    packed = contents(engine)
    assert {job_export.job.state for job_export in packed} == set(State)
    assert any(job_export.logs for job_export in packed)
    assert carry(engine, target) == len(packed)
    assert contents(target) == packed
    assert contents(engine) == packed, "the sender changed"


def test_the_desk_finds_what_was_unpacked(engine: Engine, target: Engine) -> None:
    bring_every_state(engine)
    carry(engine, target)
    ours, theirs = engine.queries, target.queries
    assert sorted(theirs.queue_counts(), key=str) == sorted(ours.queue_counts(), key=str)
    for which in (Filter(tag="red"), Filter(tag="ö'\"x"), Filter(task="work"), Filter(text="ßß"), Filter(worker="w1")):
        found = [job.id for job in theirs.find(which, 100).jobs]
        assert found == [job.id for job in ours.find(which, 100).jobs] != []
        assert theirs.count(which).jobs == len(found)
    for job_id in rows(engine):
        assert theirs.details(job_id) == ours.details(job_id)
    everybody = set(rows(engine))
    assert theirs.finished(everybody) == ours.finished(everybody)
    assert [queue.name for queue in theirs.rules().queues] == [queue.name for queue in ours.rules().queues]


def test_unpacked_jobs_are_claimed_in_the_order_they_had(engine: Engine, target: Engine) -> None:
    jobs = [new_job(f"j{n}", priority=n % 3, run_at=NOW - n % 5, created_at=NOW, lifo=n % 4 == 0) for n in range(30)]
    engine.insert(jobs, now=NOW)
    carry(engine, target)
    assert ids(claim(target)) == ids(claim(engine))


def test_a_running_job_arrives_with_its_lease(engine: Engine, target: Engine) -> None:
    for name in ("settled", "renewed", "reaped"):
        submit_and_claim(engine, name)
    claims = {job_id: Lease(job_id, job.version) for job_id, job in rows(engine).items()}
    carry(engine, target)
    assert settle(target, succeed(claims["settled"])) == []
    assert target.renew(worker_row(), [claims["renewed"]], 2 * LEASE, now=NOW + 1).lost == frozenset()
    assert target.reap(10, now=NOW + LEASE - 1) == []
    assert [job.id for job in target.reap(10, now=NOW + LEASE)] == ["reaped"]
    assert states(target) == {"settled": State.COMPLETED, "renewed": State.RUNNING, "reaped": State.PENDING}
    assert row(target, "reaped").crashes == 1


def test_time_goes_on_for_unpacked_jobs(engine: Engine, target: Engine) -> None:
    bring(engine, State.SCHEDULED, "scheduled")
    bring(engine, State.RETRYING, "retrying")
    engine.insert([new_job("lapses", run_at=LATER + HOUR, expires_at=LATER)], now=NOW)
    carry(engine, target)
    answer = target.exchange([], NOTHING, now=NOW)
    assert answer.next_at == LATER
    assert sorted(ids(claim(target, now=LATER))) == ["retrying", "scheduled"]
    assert row(target, "lapses").state is State.CANCELLED


def test_operators_move_unpacked_jobs(engine: Engine, target: Engine) -> None:
    bring_every_state(engine)
    carry(engine, target)
    target.transfer.import_records(engine.dead_letters.find(DeadLetterFilter(), 100, oldest_first=True))
    over = sum(job.state in FINAL for job in rows(target).values())
    assert len(target.queries.move(EVERYTHING, Trigger.REVIVE, 100, now=NOW)) == over
    assert {letter.status for letter in target.dead_letters.find(DeadLetterFilter(), 100, oldest_first=True)} == {
        "requeued"
    }
    left = sum(job.state is not State.RUNNING for job in rows(target).values())
    assert len(target.queries.move(EVERYTHING, Trigger.DELETE, 100, now=NOW)) == left
    assert set(states(target).values()) == {State.RUNNING}


def test_jobs_are_unpacked_behind_those_that_are_there_and_new_ones_come_behind_them(
    engine: Engine, target: Engine
) -> None:
    engine.insert([new_job("c"), new_job("b")], now=NOW)
    target.insert([new_job("z"), new_job("y")], now=NOW)
    assert carry(engine, target) == 2
    target.insert([new_job("a")], now=NOW)
    assert [job_export.job.id for job_export in target.transfer.export_jobs(0, 10)] == ["z", "y", "c", "b", "a"]
    assert ids(claim(target)) == ["z", "y", "c", "b", "a"]


def test_a_job_whose_id_is_there_is_left_as_it_is(engine: Engine, target: Engine) -> None:
    bring_every_state(engine)
    claimed = submit_and_claim(target, "running-job", payload='["mine"]', tags=("mine",))
    settle(target, succeed(claimed))
    [mine] = contents(target)
    everything = contents(engine)
    assert carry(engine, target) == len(everything) - 1
    assert contents(target) == [mine, *(job_export for job_export in everything if job_export.job.id != "running-job")]
    assert [job.id for job in target.queries.find(Filter(tag="mine"), 10).jobs] == ["running-job"]


def test_to_unpack_the_same_again_changes_nothing(engine: Engine, target: Engine) -> None:
    bring_every_state(engine)
    carry(engine, target)
    before = contents(target)
    assert carry(engine, target) == 0
    assert contents(target) == before


def test_nothing_unpacked_is_nothing_stored(engine: Engine) -> None:
    assert engine.transfer.import_records([]) == 0
    assert engine.transfer.import_records([]) == 0
    engine.transfer.import_records([])
    assert engine.queries.rules().queues == []


def test_jobs_are_unpacked_while_a_notice_says_that_they_arrive(engine: Engine, target: Engine) -> None:
    bring(engine, State.PENDING)
    target.transfer.set_status(ARRIVING)
    assert carry(engine, target) == 1
    assert claim(target) == []
    target.transfer.set_status(None)
    assert ids(claim(target)) == ["job"]


def test_an_id_that_is_submitted_while_it_is_unpacked_is_stored_once(store: StoreUnderTest, target: Engine) -> None:
    source, producer = store.open(), target
    source.insert([new_job(f"j{number}") for number in range(400)], now=NOW)
    job_exports = source.transfer.export_jobs(0, 400)
    assert target.transfer.store_status() is None  # its tables are there: to make them is not what is tried here
    start = threading.Barrier(2)
    submitted: list[str] = []

    def produce() -> None:
        start.wait(PATIENCE)
        for job_export in reversed(job_exports):
            submitted.extend(kinds(producer.insert([new_job(job_export.job.id)], now=NOW)))

    thread = threading.Thread(target=produce)
    thread.start()
    start.wait(PATIENCE)
    unpacked = sum(target.transfer.import_records(job_exports[place : place + 20]) for place in range(0, 400, 20))
    thread.join(PATIENCE)
    assert unpacked + submitted.count("new") == 400
    assert target.queries.count(EVERYTHING).jobs == 400


# -- queues


def test_queues_arrive_with_their_settings(engine: Engine) -> None:
    engine.insert([new_job("a", queue="old")], now=NOW)
    engine.queries.pause_queue("old", True)
    engine.queries.pause_queue("open", False)
    came = [QueueRow("new ☃", True, NOW - HOUR), QueueRow("old", False, NOW - HOUR), QueueRow("open", True, NOW)]
    engine.transfer.import_records(came)
    assert engine.queries.rules().queues == came
    engine.insert([new_job("b", queue="new ☃")], now=NOW)
    assert ids(claim(engine)) == ["a"]


def test_a_queue_of_an_unpacked_job_is_known(engine: Engine, target: Engine) -> None:
    engine.insert([new_job("a", queue="mail")], now=NOW)
    target.queries.pause_queue("reports", True)
    carry(engine, target)
    assert {queue.name: queue.paused for queue in target.queries.rules().queues} == {"mail": False, "reports": True}


# -- dead letters


def letter(name: str, job_id: str, status: str = "pending") -> DeadLetterRow:
    resolved = None if status == "pending" else NOW + 1
    by = None if status == "pending" else "me"
    return DeadLetterRow(name, job_id, "work", "mail", "boom ☃", NOW, status, resolved, by, '{"payload":"[1]"}')


def test_dead_letters_are_packed_by_id_a_page_at_a_time(engine: Engine) -> None:
    for number in range(5):
        settle(engine, fail(submit_and_claim(engine, f"j{number}")))
    packed: list[DeadLetterRow] = []
    while page := engine.dead_letters.find(DeadLetterFilter(), 2, packed[-1].id if packed else "", oldest_first=True):
        assert len(page) <= 2
        packed += page
    assert [found.id for found in packed] == sorted(found.id for found in packed)
    assert sorted(found.job_id for found in packed) == [f"j{number}" for number in range(5)]
    assert all(found.snapshot and found.reason == "permanent" for found in packed)


def test_dead_letters_arrive_as_they_were(engine: Engine, target: Engine) -> None:
    for number in range(3):
        settle(engine, fail(submit_and_claim(engine, f"j{number}")))
    engine.queries.move(Filter(ids=("j1",)), Trigger.REVIVE, 1, by="me", now=NOW)
    packed = engine.dead_letters.find(DeadLetterFilter(), 10, oldest_first=True)
    assert sorted(found.status for found in packed) == ["pending", "pending", "requeued"]
    assert target.transfer.import_records(packed) == 3
    assert target.dead_letters.find(DeadLetterFilter(), 10, oldest_first=True) == packed
    assert target.transfer.import_records(packed) == 0
    assert target.dead_letters.find(DeadLetterFilter(), 10, oldest_first=True) == packed


def test_a_dead_letter_that_is_there_is_left_as_it_is(engine: Engine) -> None:
    mine = letter("a", "job", "requeued")
    assert engine.transfer.import_records([mine]) == 1
    other = letter("b", "other")
    assert engine.transfer.import_records([letter("a", "another job"), other]) == 1
    assert engine.dead_letters.find(DeadLetterFilter(), 10, oldest_first=True) == [mine, other]


def test_one_dead_letter_is_pending_for_a_job(engine: Engine) -> None:
    assert engine.transfer.import_records([letter("a", "job"), letter("c", "job", "requeued")]) == 2
    assert engine.transfer.import_records([letter("b", "job")]) == 0
    assert [found.id for found in engine.dead_letters.find(DeadLetterFilter(), 10, oldest_first=True)] == ["a", "c"]


def test_an_unpacked_job_that_fails_again_has_one_pending_letter(engine: Engine, target: Engine) -> None:
    settle(engine, fail(submit_and_claim(engine), reason="first"))
    carry(engine, target)
    target.transfer.import_records(engine.dead_letters.find(DeadLetterFilter(), 10, oldest_first=True))
    target.queries.move(EVERYTHING, Trigger.REVIVE, 1, now=NOW)
    settle(target, fail(claim_one(target), reason="second"))
    found = {
        found.status: found.reason for found in target.dead_letters.find(DeadLetterFilter(), 10, oldest_first=True)
    }
    assert found == {"requeued": "first", "pending": "second"}


def test_a_released_job_arrives_with_its_counts(engine: Engine, target: Engine) -> None:
    settle(engine, release(submit_and_claim(engine)))
    carry(engine, target)
    [job] = rows(target).values()
    assert (job.attempt, job.releases, job.state) == (0, 1, State.PENDING)
    assert claim_one(target).releases == 1
