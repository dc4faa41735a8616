"""The desk of dead letters: a record is found by what it is of, and ends once."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from headrace.core.dead_letters.records import (
    RESOLUTIONS,
    DeadLetterFilter,
    DeadLetterGroup,
    DeadLetterStats,
    RequeueRequest,
    Status,
    notes_of,
    snapshot_of,
)
from headrace.core.events.stream import line_note
from headrace.core.jobs.fingerprint import fingerprint_of_lost
from headrace.core.jobs.states import State, Trigger
from headrace.core.jobs.steps import Step
from headrace.engines.protocol.engine import Engine
from tests.conformance.dead_letters.builders import LATER, PENDING, dead, fail_again, one, pending
from tests.conformance.flows.dependency_builders import plant_chain, the
from tests.support.builders import (
    HOUR,
    LEASE,
    NOW,
    SECOND,
    claim_one,
    fail,
    lease_of,
    log,
    new_job,
    progress,
    retry,
    row,
    settle,
    submit_and_claim,
    succeed,
)

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


def test_a_record_keeps_the_first_failure_and_the_newest_entries(engine: Engine) -> None:
    engine.insert([new_job("job", max_attempts=30)], now=NOW)
    for number in range(20):
        settle(engine, retry(claim_one(engine, now=NOW), NOW, message=f"failure {number}"))
    settle(engine, fail(claim_one(engine)))
    kept = snapshot_of(pending(engine)).history
    assert [history_row.error_message for history_row in kept] == [f"failure {n}" for n in (*range(19, 9, -1), 0)]
    assert snapshot_of(pending(engine)).version == row(engine).version - 1


def test_a_record_keeps_what_the_job_has_said_and_done(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    for name in ("charge", "mail"):
        engine.save_step(lease_of(claimed), Step("step", name, 1, NOW, '"ok"', 7), now=NOW)
    engine.save_step(lease_of(claimed), Step("sleep", "a while", 1, NOW, str(NOW)), now=NOW)
    lines = [log(claimed, f"line {number}") for number in range(12)]
    lines.append(line_note(claimed.lease, 1, ["1"], NOW))  # a stream is no part of it
    engine.exchange([], None, [*lines, progress(claimed, "0.5")], now=NOW)
    settle(engine, fail(claimed))
    job = snapshot_of(pending(engine))
    assert [line.message for line in job.logs] == [f"line {number}" for number in range(11, 1, -1)]
    assert (job.logs[0].at, job.logs[0].attempt, job.logs[0].level, job.logs[0].fields) == (NOW, 1, "info", None)
    assert (job.steps, job.progress) == (["charge", "mail"], "0.5")


def test_the_record_of_a_lost_job_keeps_as_much(engine: Engine) -> None:
    claimed = submit_and_claim(engine, max_attempts=1)
    engine.exchange([], None, [log(claimed, "last words"), line_note(claimed.lease, 1, ["1"], NOW)], now=NOW)
    engine.reap(1, now=NOW + HOUR)
    job = snapshot_of(pending(engine))
    assert ([line.message for line in job.logs], job.version, job.history) == (["last words"], claimed.version, [])


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


def test_a_failure_without_a_letter_leaves_the_job_failed(engine: Engine) -> None:
    first, second = submit_and_claim(engine, "first"), submit_and_claim(engine, "second")
    assert settle(engine, replace(fail(first), opens_dead_letter=False), fail(second)) == []
    assert {row(engine, name).state for name in ("first", "second")} == {State.FAILED}
    assert [letter.job_id for letter in engine.dead_letters.find(PENDING, 9)] == ["second"]


@pytest.mark.parametrize("dead_letters", [False, ("crash_loop",)])
def test_a_lost_worker_opens_no_letter_where_none_is_wanted(
    engine: Engine, dead_letters: bool | tuple[str, ...]
) -> None:
    submit_and_claim(engine, max_attempts=1)
    engine.reap(10, now=NOW + LEASE + 1, dead_letters=dead_letters)
    assert (row(engine).state, row(engine).reason) == (State.FAILED, "worker_lost")
    assert engine.dead_letters.count(DeadLetterFilter()) == 0


def test_the_oldest_records_of_a_status_are_told_first(engine: Engine) -> None:
    entered = [dead(engine, f"j{number}", at=NOW + number).id for number in range(4)]
    engine.dead_letters.update([entered[1]], "expired", now=LATER)

    def oldest(limit: int, beyond: str | None = None, **which: Any) -> list[str]:
        found = engine.dead_letters.find(DeadLetterFilter(**which), limit, beyond, oldest_first=True)
        return [row.id for row in found]

    assert oldest(2, statuses=("pending",)) == [entered[0], entered[2]]
    assert oldest(9, statuses=("expired",)) == [entered[1]]
    assert oldest(0, statuses=("pending",)) == []
    assert oldest(9, entered[1]) == entered[2:]
    assert oldest(9, entered[0], statuses=("pending", "expired")) == entered[1:]
    assert oldest(9, entered[0], queue="none") == []


def test_unknown_ids_have_no_record(engine: Engine) -> None:
    dead(engine)
    assert engine.dead_letters.find(DeadLetterFilter(ids=("nowhere",)), 10) == []
    assert engine.dead_letters.find(DeadLetterFilter(latest_of=("nowhere",)), 10) == []


# -- finding


def test_records_are_found_newest_first_a_page_at_a_time(engine: Engine) -> None:
    entered = [dead(engine, f"j{number}", at=NOW + number).id for number in range(7)]
    seen: list[str] = []
    while page := engine.dead_letters.find(PENDING, 3, seen[-1] if seen else None):
        seen += [letter.id for letter in page]
    assert seen == entered[::-1]


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        (DeadLetterFilter(), {"a", "b", "c", "d"}),
        (DeadLetterFilter(task="send"), {"b", "d"}),
        (DeadLetterFilter(queue="mail"), {"c"}),
        (DeadLetterFilter(reason="permanent"), {"a", "c"}),
        (DeadLetterFilter(fingerprint="bb"), {"c", "d"}),
        (DeadLetterFilter(fingerprint="bb", task="send"), {"d"}),
        (DeadLetterFilter(fingerprint="bb", task="send", statuses=("pending",)), set()),
        (DeadLetterFilter(statuses=("pending",)), {"a", "b", "c"}),
        (DeadLetterFilter(statuses=("pending", "cancelled")), {"a", "b", "c", "d"}),
        (DeadLetterFilter(statuses=("cancelled",)), {"d"}),
        (DeadLetterFilter(requeues=0), {"a", "b", "c", "d"}),
        (DeadLetterFilter(requeues=1), set()),
        (DeadLetterFilter(since=NOW + 1), {"b", "c", "d"}),
        (DeadLetterFilter(until=NOW + 2), {"a", "b"}),
        (DeadLetterFilter(since=NOW + 1, until=NOW + 2), {"b"}),
        (DeadLetterFilter(task="none"), set()),
        (DeadLetterFilter(task="'; DROP"), set()),
    ],
)
def test_every_filter_counts_and_finds_the_same(engine: Engine, which: DeadLetterFilter, expected: set[str]) -> None:
    dead(engine, "a", at=NOW)
    dead(engine, "b", at=NOW + 1, task="send", reason="worker_lost")
    dead(engine, "c", at=NOW + 2, queue="mail", print_="bb")
    last = dead(engine, "d", at=NOW + 3, task="send", reason="odd", print_="bb")
    engine.dead_letters.update([last.id], "cancelled", now=NOW + 4)
    assert {letter.job_id for letter in engine.dead_letters.find(which, 10)} == expected
    assert engine.dead_letters.count(which) == len(expected)


def test_groups_are_by_fingerprint_the_biggest_first(engine: Engine) -> None:
    for number, name in enumerate(["aa", "bb", "bb", "cc"]):
        dead(engine, f"j{number}", at=NOW + number, print_=name, task=f"t{name}")
    engine.dead_letters.update([pending(engine, "j3").id], "cancelled", now=LATER)
    error = ("permanent", "KeyError", "no such thing")
    assert engine.dead_letters.groups(["pending"], 10) == [
        DeadLetterGroup("bb", "tbb", *error, 2, NOW + 1, NOW + 2),
        DeadLetterGroup("aa", "taa", *error, 1, NOW, NOW),
    ]
    assert [group.fingerprint for group in engine.dead_letters.groups((), 10)] == ["bb", "cc", "aa"]
    assert [group.fingerprint for group in engine.dead_letters.groups(["pending"], 1)] == ["bb"]
    assert engine.dead_letters.groups(["requeued"], 10) == []


def test_tallies_are_by_reason_and_status(engine: Engine) -> None:
    assert engine.dead_letters.stats() == []
    for number in range(3):
        dead(engine, f"j{number}", at=NOW + number)
    dead(engine, "odd", at=NOW, reason="odd")
    engine.dead_letters.requeue([RequeueRequest(pending(engine, "j1").id)], now=LATER)
    assert sorted(engine.dead_letters.stats(), key=lambda tally: (tally.reason, tally.status)) == [
        DeadLetterStats("odd", "pending", 1, 0, NOW, NOW),
        DeadLetterStats("permanent", "pending", 2, 0, NOW, NOW + 2),
        DeadLetterStats("permanent", "requeued", 1, 1, NOW + 1, NOW + 1),
    ]


# -- resolving, noting, purging


@pytest.mark.parametrize("status", RESOLUTIONS)
def test_a_record_is_resolved_once(engine: Engine, status: Status) -> None:
    letter = dead(engine)
    assert engine.dead_letters.update([letter.id, "nowhere"], status, "ops", "seen", now=LATER) == [letter.id]
    ended = one(engine, letter.id)
    assert (ended.status, ended.resolved_at, ended.resolved_by) == (status, LATER, "ops")
    assert [remark.text for remark in notes_of(ended.notes)] == ["seen"]
    assert engine.dead_letters.update([letter.id], "cancelled", now=LATER + 1) == []
    assert one(engine, letter.id) == ended
    assert row(engine).state is State.FAILED


def test_a_resolved_record_makes_room_for_the_next(engine: Engine) -> None:
    first = dead(engine)
    engine.dead_letters.update([first.id], "manually_resolved", now=NOW)
    engine.queries.move(the("job"), Trigger.REVIVE, 1, now=LATER)
    second = fail_again(engine, at=LATER)
    assert second.id > first.id
    assert {letter.id for letter in engine.dead_letters.find(DeadLetterFilter(), 10)} == {first.id, second.id}


def test_notes_add_up(engine: Engine) -> None:
    letter = dead(engine)
    assert engine.dead_letters.update([letter.id], None, "ann", 'asked "them" ☃', now=NOW + 1)
    assert engine.dead_letters.update([letter.id], None, None, "they know", now=NOW + 2)
    engine.dead_letters.update([letter.id], "cancelled", "bob", "given up", now=NOW + 3)
    assert engine.dead_letters.update([letter.id], None, None, "after all", now=NOW + 4)
    remarks = notes_of(one(engine, letter.id).notes)
    assert [(remark.text, remark.by, remark.at - NOW) for remark in remarks] == [
        ('asked "them" ☃', "ann", 1),
        ("they know", None, 2),
        ("given up", "bob", 3),
        ("after all", None, 4),
    ]
    assert one(engine, letter.id).status == "cancelled"
    assert not engine.dead_letters.update(["nowhere"], None, None, "hello", now=NOW)


def test_a_new_job_of_a_deleted_id_keeps_the_notes_of_its_open_record(engine: Engine) -> None:
    letter = dead(engine)
    engine.dead_letters.update([letter.id], None, None, "look at this", now=NOW)
    engine.queries.move(the("job"), Trigger.DELETE, 1, now=NOW)
    later = dead(engine, at=LATER, reason="other", print_="bb", task="other")
    assert [remark.text for remark in notes_of(later.notes)] == ["look at this"]
    assert (later.task, later.reason, later.fingerprint, later.entered_at) == ("other", "other", "bb", LATER)
    assert engine.dead_letters.find(DeadLetterFilter(), 10) == [later]
    assert engine.dead_letters.count(DeadLetterFilter(fingerprint="aa")) == 0


def test_old_records_are_purged_by_the_time_of_their_end(engine: Engine) -> None:
    old, young, still = (dead(engine, name, at=NOW) for name in ("old", "young", "still"))
    engine.dead_letters.update([old.id], "cancelled", now=NOW + 1)
    engine.dead_letters.update([young.id], "cancelled", now=LATER)
    assert engine.dead_letters.count(DeadLetterFilter(ended_before=LATER)) == 2
    found = engine.dead_letters.find(DeadLetterFilter(ended_before=LATER), 10, oldest_first=True)
    assert {letter.id for letter in found} == {old.id, still.id}
    assert engine.dead_letters.delete(DeadLetterFilter(statuses=("expired",), ended_before=LATER + 1), 10) == 0
    assert engine.dead_letters.delete(DeadLetterFilter(statuses=("cancelled", "requeued"), ended_before=LATER), 10) == 1
    assert engine.dead_letters.find(DeadLetterFilter(ids=(old.id,)), 10) == []
    assert engine.dead_letters.find(DeadLetterFilter(latest_of=("old",)), 10) == []
    assert {letter.id for letter in engine.dead_letters.find(DeadLetterFilter(), 10)} == {young.id, still.id}
    assert engine.dead_letters.delete(DeadLetterFilter(statuses=("pending",), ended_before=NOW + 1), 10) == 1
    assert engine.dead_letters.count(PENDING) == 0
    assert [group.count for group in engine.dead_letters.groups((), 10)] == [1]
    assert [tally.status for tally in engine.dead_letters.stats()] == ["cancelled"]


def test_a_purge_takes_no_more_than_asked(engine: Engine) -> None:
    for number in range(5):
        dead(engine, f"j{number}", at=NOW + number)
    assert engine.dead_letters.delete(DeadLetterFilter(statuses=("pending",), ended_before=LATER), 3) == 3
    assert engine.dead_letters.delete(DeadLetterFilter(statuses=("pending",), ended_before=LATER), 3) == 2


def test_a_purged_record_leaves_room_for_the_next(engine: Engine) -> None:
    dead(engine)
    engine.dead_letters.delete(DeadLetterFilter(statuses=("pending",), ended_before=LATER), 10)
    engine.queries.move(the("job"), Trigger.REVIVE, 1, now=LATER)
    assert fail_again(engine, at=LATER).requeues == 0


def test_records_are_removed_by_their_ids_whatever_their_status(engine: Engine) -> None:
    one, two, stays = (dead(engine, name, at=NOW) for name in ("one", "two", "stays"))
    engine.dead_letters.update([two.id], "cancelled", now=LATER)
    both = DeadLetterFilter(ids=(one.id, two.id, one.id, "nothing"))
    assert {letter.id for letter in engine.dead_letters.find(both, 10)} == {one.id, two.id}
    assert engine.dead_letters.find(both, 10, min(one.id, two.id)) != engine.dead_letters.find(both, 1)
    assert engine.dead_letters.count(both) == 2
    pending_one = DeadLetterFilter(ids=both.ids, statuses=("pending",), queue="default")
    assert [letter.id for letter in engine.dead_letters.find(pending_one, 10)] == [one.id]
    assert engine.dead_letters.delete(DeadLetterFilter(ids=both.ids, statuses=("requeued",)), 10) == 0
    assert engine.dead_letters.delete(both, 10) == 2
    assert engine.dead_letters.delete(DeadLetterFilter(ids=(one.id,)), 10) == 0
    assert (
        engine.dead_letters.find(
            DeadLetterFilter(
                latest_of=(
                    "one",
                    "two",
                )
            ),
            10,
        )
        == []
    )
    assert [letter.id for letter in engine.dead_letters.find(DeadLetterFilter(), 10)] == [stays.id]
    assert engine.dead_letters.count(PENDING) == 1
    assert [tally.count for tally in engine.dead_letters.stats()] == [1]


def test_a_removed_record_leaves_room_for_the_next(engine: Engine) -> None:
    engine.dead_letters.delete(DeadLetterFilter(ids=(dead(engine).id,)), 10)
    engine.queries.move(the("job"), Trigger.REVIVE, 1, now=LATER)
    assert fail_again(engine, at=LATER).requeues == 0
