"""The desk of dead letters: a record is found by what it is of, and leaves the desk once, with its job."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from headrace.core.fingerprint import fingerprint_of_lost
from headrace.core.letters import (
    RESOLUTIONS,
    LetterFilter,
    LetterGroup,
    LetterTally,
    Requeue,
    Requeued,
    Status,
    remarks_of,
    snapshot_of,
)
from headrace.core.model import DeadRow, Filter
from headrace.core.states import Event, State
from headrace.engines.protocol import Engine
from tests.conformance.build import (
    HOUR,
    LEASE,
    NOW,
    SECOND,
    claim_one,
    fail,
    ids,
    new_job,
    row,
    settle,
    states,
    submit_and_claim,
    succeed,
    together,
)
from tests.conformance.kin import plant_chain, the
from tests.conformance.stores import StoreUnderTest

LATER = NOW + HOUR
PENDING = LetterFilter(statuses=("pending",))


def dead(engine: Engine, job_id: str = "job", *, at: int = NOW, print_: str = "aa", **more: Any) -> DeadRow:
    """The record of a new job that failed at once."""
    reason = more.pop("reason", "permanent")
    claimed = submit_and_claim(engine, job_id, now=at, **more)
    settle(engine, replace(fail(claimed, at=at, reason=reason), fingerprint=print_), now=at)
    return pending(engine, job_id)


def pending(engine: Engine, job_id: str = "job") -> DeadRow:
    (found,) = engine.letters.latest([job_id])
    assert found.status == "pending"
    return found


def one(engine: Engine, letter_id: str) -> DeadRow:
    (found,) = engine.letters.get([letter_id])
    return found


def fail_again(engine: Engine, *, at: int) -> DeadRow:
    claimed = claim_one(engine, now=at)
    settle(engine, fail(claimed, at=at, reason="again"), now=at)
    return pending(engine, claimed.id)


# -- records


def test_a_record_tells_what_the_job_was(engine: Engine) -> None:
    letter = dead(engine, payload="[1]", priority=7, tags=("red",), metadata='{"who":1}', max_attempts=4, at=LATER)
    assert (letter.job_id, letter.task, letter.queue, letter.reason) == ("job", "work", "default", "permanent")
    assert (letter.entered_at, letter.status, letter.requeues, letter.notes) == (LATER, "pending", 0, None)
    assert letter.fingerprint == "aa"
    was = snapshot_of(letter)
    assert (was.state, was.payload, was.checksum, was.priority, was.attempt) == ("running", "[1]", 7, 7, 1)
    assert (was.tags, was.metadata, was.max_attempts, was.created_at) == ('["red"]', '{"who":1}', 4, NOW)
    assert (was.error_type, was.error_message) == ("KeyError", "no such thing")
    assert (was.lifo, was.lane, was.unique_key, was.flow, was.parents) == (0, "", None, None, [])


def test_ids_sort_by_the_time_of_the_entry(engine: Engine) -> None:
    entered = [dead(engine, f"j{number}", at=NOW + number * SECOND).id for number in range(5)]
    assert entered == sorted(entered)
    assert [int(name[:12], 16) for name in entered] == [NOW + number * SECOND for number in range(5)]


def test_a_child_s_record_names_its_parents(engine: Engine) -> None:
    plant_chain(engine, "first", "second")
    settle(engine, succeed(claim_one(engine)))
    settle(engine, fail(claim_one(engine)))
    assert snapshot_of(pending(engine, "second")).parents == ["first"]


def test_a_lost_worker_s_record_is_grouped_by_its_task(engine: Engine) -> None:
    submit_and_claim(engine, max_attempts=1)
    engine.reap(10, now=NOW + LEASE + 1)
    letter = pending(engine)
    assert (letter.reason, letter.fingerprint) == ("worker_lost", fingerprint_of_lost("work"))


def test_unknown_ids_have_no_record(engine: Engine) -> None:
    dead(engine)
    assert engine.letters.get(["nowhere"]) == []
    assert engine.letters.latest(["nowhere"]) == []
    assert engine.letters.get([]) == []


# -- finding


def test_records_are_found_newest_first_a_page_at_a_time(engine: Engine) -> None:
    entered = [dead(engine, f"j{number}", at=NOW + number).id for number in range(7)]
    seen: list[str] = []
    while page := engine.letters.find(PENDING, 3, seen[-1] if seen else None):
        seen += [letter.id for letter in page]
    assert seen == entered[::-1]


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        (LetterFilter(), {"a", "b", "c", "d"}),
        (LetterFilter(task="send"), {"b", "d"}),
        (LetterFilter(queue="mail"), {"c"}),
        (LetterFilter(reason="permanent"), {"a", "c"}),
        (LetterFilter(fingerprint="bb"), {"c", "d"}),
        (LetterFilter(fingerprint="bb", task="send"), {"d"}),
        (LetterFilter(fingerprint="bb", task="send", statuses=("pending",)), set()),
        (LetterFilter(statuses=("pending",)), {"a", "b", "c"}),
        (LetterFilter(statuses=("pending", "cancelled")), {"a", "b", "c", "d"}),
        (LetterFilter(statuses=("cancelled",)), {"d"}),
        (LetterFilter(requeues=0), {"a", "b", "c", "d"}),
        (LetterFilter(requeues=1), set()),
        (LetterFilter(since=NOW + 1), {"b", "c", "d"}),
        (LetterFilter(until=NOW + 2), {"a", "b"}),
        (LetterFilter(since=NOW + 1, until=NOW + 2), {"b"}),
        (LetterFilter(task="none"), set()),
        (LetterFilter(task="'; DROP"), set()),
    ],
)
def test_every_filter_counts_and_finds_the_same(engine: Engine, which: LetterFilter, expected: set[str]) -> None:
    dead(engine, "a", at=NOW)
    dead(engine, "b", at=NOW + 1, task="send", reason="worker_lost")
    dead(engine, "c", at=NOW + 2, queue="mail", print_="bb")
    last = dead(engine, "d", at=NOW + 3, task="send", reason="odd", print_="bb")
    engine.letters.resolve([last.id], "cancelled", now=NOW + 4)
    assert {letter.job_id for letter in engine.letters.find(which, 10)} == expected
    assert engine.letters.count(which) == len(expected)


def test_groups_are_by_fingerprint_the_biggest_first(engine: Engine) -> None:
    for number, name in enumerate(["aa", "bb", "bb", "cc"]):
        dead(engine, f"j{number}", at=NOW + number, print_=name, task=f"t{name}")
    engine.letters.resolve([pending(engine, "j3").id], "cancelled", now=LATER)
    error = ("permanent", "KeyError", "no such thing")
    assert engine.letters.groups(["pending"], 10) == [
        LetterGroup("bb", "tbb", *error, 2, NOW + 1, NOW + 2),
        LetterGroup("aa", "taa", *error, 1, NOW, NOW),
    ]
    assert [group.fingerprint for group in engine.letters.groups((), 10)] == ["bb", "cc", "aa"]
    assert [group.fingerprint for group in engine.letters.groups(["pending"], 1)] == ["bb"]
    assert engine.letters.groups(["requeued"], 10) == []


def test_tallies_are_by_reason_and_status(engine: Engine) -> None:
    assert engine.letters.tallies() == []
    for number in range(3):
        dead(engine, f"j{number}", at=NOW + number)
    dead(engine, "odd", at=NOW, reason="odd")
    engine.letters.requeue([Requeue(pending(engine, "j1").id)], now=LATER)
    assert sorted(engine.letters.tallies(), key=lambda tally: (tally.reason, tally.status)) == [
        LetterTally("odd", "pending", 1, 0, NOW, NOW),
        LetterTally("permanent", "pending", 2, 0, NOW, NOW + 2),
        LetterTally("permanent", "requeued", 1, 1, NOW + 1, NOW + 1),
    ]


# -- requeueing


def test_a_requeue_revives_the_job_and_resolves_the_record(engine: Engine) -> None:
    letter = dead(engine, priority=5)
    before = row(engine)
    asked = Requeue(letter.id, boost=10)
    (done,) = engine.letters.requeue([asked], "ops", "fixed it", "requeued from the desk", now=LATER)
    assert done == Requeued(letter.id, "job", "requeued", 1)
    job = row(engine)
    assert (job.state, job.attempt, job.priority, job.run_at) == (State.PENDING, 0, 15, LATER)
    assert (job.version, job.finished_at, job.reason) == (before.version + 1, None, None)
    resolved = one(engine, letter.id)
    assert (resolved.status, resolved.resolved_at, resolved.resolved_by) == ("requeued", LATER, "ops")
    assert resolved.requeues == 1
    (remark,) = remarks_of(resolved.notes)
    assert (remark.at, remark.text, remark.by) == (LATER, "fixed it", "ops")
    entry = engine.desk.history("job")[-1]
    assert (entry.event, entry.target, entry.detail) == (Event.REVIVE, State.PENDING, "requeued from the desk")
    claimed = claim_one(engine, now=LATER)
    assert (claimed.id, claimed.attempt) == ("job", 1)
    assert settle(engine, succeed(claimed, at=LATER), now=LATER) == []


def test_the_errors_of_before_stay_in_the_history(engine: Engine) -> None:
    letter = dead(engine)
    engine.letters.requeue([Requeue(letter.id)], now=LATER)
    assert [entry.error_type for entry in engine.desk.history("job")] == ["KeyError", None]


@pytest.mark.parametrize(("priority", "boost", "expected"), [(95, 10, 100), (-95, -10, -100), (3, 0, 3)])
def test_a_raised_priority_stays_in_its_range(engine: Engine, priority: int, boost: int, expected: int) -> None:
    letter = dead(engine, priority=priority)
    engine.letters.requeue([Requeue(letter.id, boost=boost)], now=LATER)
    assert row(engine).priority == expected
    assert claim_one(engine, now=LATER).priority == expected


def test_the_arguments_may_be_others(engine: Engine) -> None:
    letter = dead(engine, payload="[1]", checksum=1, tags=("red",))
    engine.letters.requeue([Requeue(letter.id, payload="[2]", checksum=2)], now=LATER)
    claimed = claim_one(engine, now=LATER)
    assert (claimed.payload, claimed.checksum) == ("[2]", 2)
    assert ids_of(engine, Filter(tag="red")) == ["job"]


def ids_of(engine: Engine, which: Filter) -> list[str]:
    return [job.id for job in engine.desk.find(which, 10).jobs]


def test_a_requeue_for_later_is_scheduled(engine: Engine) -> None:
    letter = dead(engine)
    engine.letters.requeue([Requeue(letter.id, run_at=LATER + SECOND)], now=LATER)
    assert (row(engine).state, row(engine).run_at) == (State.SCHEDULED, LATER + SECOND)
    assert engine.desk.history("job")[-1].target == State.SCHEDULED
    assert claim_one(engine, now=LATER + SECOND).id == "job"


def test_a_job_of_a_lifo_queue_stays_one(engine: Engine) -> None:
    first, second = (dead(engine, name, lifo=True, at=NOW) for name in ("first", "second"))
    engine.letters.requeue([Requeue(first.id)], now=LATER)
    engine.letters.requeue([Requeue(second.id)], now=LATER + 1)
    assert claim_one(engine, now=LATER + 2).id == "second"


def test_requeues_are_carried_over_and_end_the_record(engine: Engine) -> None:
    letter, at = dead(engine), NOW
    for count in range(1, 3):
        at += HOUR
        (done,) = engine.letters.requeue([Requeue(letter.id, most=2)], now=at)
        assert (done.verdict, done.requeues) == ("requeued", count)
        letter = fail_again(engine, at=at)
        assert letter.requeues == count
    (done,) = engine.letters.requeue([Requeue(letter.id, most=2)], "ops", "no more", now=at)
    assert done == Requeued(letter.id, "job", "used_up", 2)
    assert row(engine).state is State.FAILED
    ended = one(engine, letter.id)
    assert (ended.status, ended.resolved_by, ended.requeues) == ("permanently_failed", "ops", 2)
    assert [remark.text for remark in remarks_of(ended.notes)] == ["no more"]
    assert engine.letters.count(LetterFilter(requeues=2)) == 2


def test_a_retry_by_hand_does_not_count(engine: Engine) -> None:
    dead(engine)
    engine.desk.move(the("job"), Event.REVIVE, 1, by="ops", now=LATER)
    (resolved,) = engine.letters.latest(["job"])
    assert (resolved.status, resolved.requeues, resolved.resolved_by) == ("requeued", 0, "ops")
    assert fail_again(engine, at=LATER).requeues == 0


def test_a_job_that_is_gone_is_stored_anew(engine: Engine) -> None:
    letter = dead(engine, priority=3, payload="[1]", tags=("red",), metadata='{"a":1}', max_attempts=5, queue="mail")
    version = row(engine).version
    engine.desk.move(the("job"), Event.DELETE, 1, now=NOW)
    assert engine.letters.get([letter.id]) == [letter]
    (done,) = engine.letters.requeue([Requeue(letter.id)], now=LATER)
    assert done == Requeued(letter.id, "job", "stored_anew", 1)
    job = row(engine)
    assert (job.state, job.priority, job.payload, job.checksum) == (State.PENDING, 13, "[1]", 7)
    assert (job.queue, job.max_attempts, job.metadata, job.created_at) == ("mail", 5, '{"a":1}', NOW)
    assert job.version > version
    assert ids_of(engine, Filter(tag="red")) == ["job"]
    assert one(engine, letter.id).status == "requeued"
    assert fail_again(engine, at=LATER).requeues == 1


def test_a_job_that_is_gone_may_get_other_arguments_and_another_time(engine: Engine) -> None:
    letter = dead(engine)
    engine.desk.move(the("job"), Event.DELETE, 1, now=NOW)
    engine.letters.requeue([Requeue(letter.id, run_at=LATER + 1, payload="[2]", checksum=2)], now=LATER)
    job = row(engine)
    assert (job.state, job.run_at, job.payload, job.checksum) == (State.SCHEDULED, LATER + 1, "[2]", 2)


def test_a_new_job_of_the_same_id_is_left_alone(engine: Engine) -> None:
    letter = dead(engine)
    engine.desk.move(the("job"), Event.DELETE, 1, now=NOW)
    engine.insert([new_job("job", version=NOW)], now=NOW)
    before = row(engine)
    (done,) = engine.letters.requeue([Requeue(letter.id)], now=LATER)
    assert (done.verdict, row(engine)) == ("busy", before)
    assert engine.letters.get([letter.id]) == [letter]


def test_only_a_pending_record_is_requeued(engine: Engine) -> None:
    letter = dead(engine)
    engine.letters.resolve([letter.id], "manually_resolved", now=NOW)
    verdicts = [done.verdict for done in engine.letters.requeue([Requeue(letter.id), Requeue("nowhere")], now=LATER)]
    assert verdicts == ["resolved", "missing"]
    assert row(engine).state is State.FAILED


def test_many_are_requeued_together(engine: Engine) -> None:
    letters = [dead(engine, f"j{number}", at=NOW + number) for number in range(5)]
    engine.desk.move(the("j3"), Event.DELETE, 1, now=NOW)
    done = engine.letters.requeue([Requeue(letter.id) for letter in letters], now=LATER)
    assert [each.verdict for each in done] == ["requeued", "requeued", "requeued", "stored_anew", "requeued"]
    assert set(states(engine).values()) == {State.PENDING}
    assert engine.letters.count(PENDING) == 0
    assert engine.letters.count(LetterFilter(statuses=("requeued",), requeues=1)) == 5
    assert engine.letters.requeue([], now=LATER) == []


def test_one_of_many_at_once_requeues_a_record(store: StoreUnderTest) -> None:
    engine = store.open()
    letters = [dead(engine, f"j{number}", at=NOW + number) for number in range(10)]
    orders = [Requeue(letter.id) for letter in letters]
    engines = [store.open() for _ in range(4)]
    answers = together(4, lambda number: engines[number].letters.requeue(orders[:: (-1) ** number], now=LATER))
    verdicts = [done.verdict for answer in answers for done in answer]
    assert (verdicts.count("requeued"), verdicts.count("resolved")) == (10, 30)
    assert [letter.requeues for letter in engine.letters.find(LetterFilter(), 100)] == [1] * 10


def test_a_requeue_wakes_workers(engine: Engine) -> None:
    letter = dead(engine)
    bell = engine.listen("work")
    try:
        while bell.wait(0.05):  # rings of before
            pass
        engine.letters.requeue([Requeue(letter.id)], now=LATER)
        assert bell.wait(5)
    finally:
        bell.close()


def test_what_waited_for_a_requeued_job_waits_again(engine: Engine) -> None:
    plant_chain(engine, "first", "second")
    settle(engine, fail(claim_one(engine)))
    assert states(engine) == {"first": State.FAILED, "second": State.CANCELLED}
    engine.letters.requeue([Requeue(pending(engine, "first").id)], now=LATER)
    assert states(engine) == {"first": State.PENDING, "second": State.WAITING}
    settle(engine, succeed(claim_one(engine, now=LATER), at=LATER), now=LATER)
    assert ids([claim_one(engine, now=LATER)]) == ["second"]


# -- resolving, noting, purging


@pytest.mark.parametrize("status", RESOLUTIONS)
def test_a_record_is_resolved_once(engine: Engine, status: Status) -> None:
    letter = dead(engine)
    assert engine.letters.resolve([letter.id, "nowhere"], status, "ops", "seen", now=LATER) == [letter.id]
    ended = one(engine, letter.id)
    assert (ended.status, ended.resolved_at, ended.resolved_by) == (status, LATER, "ops")
    assert [remark.text for remark in remarks_of(ended.notes)] == ["seen"]
    assert engine.letters.resolve([letter.id], "cancelled", now=LATER + 1) == []
    assert one(engine, letter.id) == ended
    assert row(engine).state is State.FAILED


def test_a_resolved_record_makes_room_for_the_next(engine: Engine) -> None:
    first = dead(engine)
    engine.letters.resolve([first.id], "manually_resolved", now=NOW)
    engine.desk.move(the("job"), Event.REVIVE, 1, now=LATER)
    second = fail_again(engine, at=LATER)
    assert second.id > first.id
    assert {letter.id for letter in engine.letters.find(LetterFilter(), 10)} == {first.id, second.id}


def test_notes_add_up(engine: Engine) -> None:
    letter = dead(engine)
    assert engine.letters.note(letter.id, 'asked "them" ☃', "ann", now=NOW + 1)
    assert engine.letters.note(letter.id, "they know", now=NOW + 2)
    engine.letters.resolve([letter.id], "cancelled", "bob", "given up", now=NOW + 3)
    assert engine.letters.note(letter.id, "after all", now=NOW + 4)
    remarks = remarks_of(one(engine, letter.id).notes)
    assert [(remark.text, remark.by, remark.at - NOW) for remark in remarks] == [
        ('asked "them" ☃', "ann", 1),
        ("they know", None, 2),
        ("given up", "bob", 3),
        ("after all", None, 4),
    ]
    assert one(engine, letter.id).status == "cancelled"
    assert not engine.letters.note("nowhere", "hello", now=NOW)


def test_a_new_job_of_a_deleted_id_keeps_the_notes_of_its_open_record(engine: Engine) -> None:
    letter = dead(engine)
    engine.letters.note(letter.id, "look at this", now=NOW)
    engine.desk.move(the("job"), Event.DELETE, 1, now=NOW)
    later = dead(engine, at=LATER, reason="other", print_="bb", task="other")
    assert [remark.text for remark in remarks_of(later.notes)] == ["look at this"]
    assert (later.task, later.reason, later.fingerprint, later.entered_at) == ("other", "other", "bb", LATER)
    assert engine.letters.find(LetterFilter(), 10) == [later]
    assert engine.letters.count(LetterFilter(fingerprint="aa")) == 0


def test_old_records_are_purged_by_the_time_of_their_end(engine: Engine) -> None:
    old, young, still = (dead(engine, name, at=NOW) for name in ("old", "young", "still"))
    engine.letters.resolve([old.id], "cancelled", now=NOW + 1)
    engine.letters.resolve([young.id], "cancelled", now=LATER)
    assert engine.letters.purge([], LATER + 1, 10) == 0
    assert engine.letters.purge(["cancelled", "requeued"], LATER, 10) == 1
    assert engine.letters.get([old.id]) == []
    assert engine.letters.latest(["old"]) == []
    assert {letter.id for letter in engine.letters.find(LetterFilter(), 10)} == {young.id, still.id}
    assert engine.letters.purge(["pending"], NOW + 1, 10) == 1
    assert engine.letters.count(PENDING) == 0
    assert [group.count for group in engine.letters.groups((), 10)] == [1]
    assert [tally.status for tally in engine.letters.tallies()] == ["cancelled"]


def test_a_purge_takes_no_more_than_asked(engine: Engine) -> None:
    for number in range(5):
        dead(engine, f"j{number}", at=NOW + number)
    assert engine.letters.purge(["pending"], LATER, 3) == 3
    assert engine.letters.purge(["pending"], LATER, 3) == 2


def test_a_purged_record_leaves_room_for_the_next(engine: Engine) -> None:
    dead(engine)
    engine.letters.purge(["pending"], LATER, 10)
    engine.desk.move(the("job"), Event.REVIVE, 1, now=LATER)
    assert fail_again(engine, at=LATER).requeues == 0
