"""Moving to another store: everything arrives as it was, in any order of events, and what does not is told."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

from headrace.app.moving import Move, Step, reopen
from headrace.app.why import explain
from headrace.core.admission import Act, Candidate, Condition, Rule
from headrace.core.kinship import Bond, FlowRow
from headrace.core.lifecycle import Terms, TermsRow
from headrace.core.model import Changes, Claim, Filter, Notice, Outcome, Parcel
from headrace.core.regulation import QueueRules, Rate, TaskRow, TaskRules
from headrace.core.shelf import Paper
from headrace.core.states import Event, State
from headrace.core.timetable import Occurrence
from headrace.engines.protocol import Engine
from headrace.engines.sqlite.engine import SqliteEngine
from headrace.errors import ConfigError, EngineUnavailable, SchemaMismatch, StoreMoved
from tests.conformance.build import (
    fail,
    lease_of,
    log,
    new_job,
    only,
    progress,
    release,
    row,
    rows,
    schedule,
    states,
    succeed,
    want,
    worker_row,
)
from tests.conformance.stores import KINDS, StoreUnderTest
from tests.patience import PATIENCE
from tests.runtime.cargo import HOUR, by_force, claim_from, contents, fill, letters, without_nul

PAIRS = [(source, target) for source in KINDS for target in KINDS]
JOBS = 700  # more than two pages


class Stopped(Exception):
    """The move was cut off here."""


@pytest.fixture
def make_store(folder: Path) -> Iterator[Callable[[str, str], StoreUnderTest]]:
    """Makes an empty store of an engine under a name."""
    with ExitStack() as at_end:

        def make(kind: str, name: str) -> StoreUnderTest:
            (folder / name).mkdir()
            return StoreUnderTest(kind, folder / name, at_end)

        yield make


@pytest.fixture
def source(make_store: Callable[[str, str], StoreUnderTest]) -> Engine:
    return make_store(next(iter(KINDS)), "source").open()


@pytest.fixture
def target_store(make_store: Callable[[str, str], StoreUnderTest]) -> StoreUnderTest:
    return make_store(next(reversed(KINDS)), "target")


@pytest.fixture
def target(target_store: StoreUnderTest) -> Engine:
    return target_store.open()


@pytest.fixture
def bare(engine_name: str, folder: Path) -> Iterator[Engine]:
    """A place for a store, where nobody has made tables yet."""
    (folder / "bare").mkdir()
    with ExitStack() as at_end:
        address = str(folder / "bare/q.db") if engine_name == "sqlite" else _bare_address(engine_name, at_end)
        engine = KINDS[engine_name].open(address)
        at_end.callback(engine.close)
        yield engine


def _bare_address(kind: str, at_end: ExitStack) -> str:
    from tests import servers  # a run on SQLite alone needs none

    address = servers.postgres_url() if kind == "postgres" else servers.redis_url()
    at_end.callback(servers.drop, address)
    return address


def move(source: Engine, target: Engine) -> Move:
    """A whole move that is expected to succeed."""
    made = Move(source, target)
    made.run(0)
    verdict = made.verify()
    assert verdict.differences == []
    made.open()
    return made


def stop_at(number: int) -> Callable[[Step], None]:
    """Cut the move off after so many jobs."""

    def look(step: Step) -> None:
        if step.stage == "carrying" and step.done >= number:
            raise Stopped

    return look


def cut_off(source: Engine, target: Engine, number: int, *, into_used: bool = False) -> None:
    with pytest.raises(Stopped):
        Move(source, target, into_used=into_used, progress=stop_at(number)).run(0)


# -- all is carried


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
def test_everything_arrives_as_it_was_between_any_two_engines(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, other_kind: str
) -> None:
    source, target = make_store(kind, "source").open(), make_store(other_kind, "target").open()
    fill(source, JOBS)
    steps: list[Step] = []
    made = Move(source, target, progress=steps.append)
    carried = made.run(0)
    expected, expected_letters = without_nul(contents(source)), letters(source)
    assert {parcel.job.state for parcel in expected} == set(State) - {State.RUNNING}
    assert (carried.jobs, carried.known, carried.dead_letters) == (JOBS, 0, len(expected_letters))
    assert carried.running

    assert contents(target) == expected
    assert letters(target) == expected_letters != []
    assert target.desk.queues() == source.desk.queues()
    assert any(queue.paused for queue in target.desk.queues())

    verdict = made.verify()
    assert (verdict.differences, verdict.taken) == ([], set())
    assert verdict.contents.jobs == JOBS
    assert verdict.contents.history == sum(len(parcel.history) for parcel in expected) > 0
    assert verdict.contents.logs == sum(len(parcel.logs) for parcel in expected) > 0
    assert verdict.contents.dead_letters == len(expected_letters)
    assert {step.stage for step in steps} == {"waiting", "carrying", "comparing"}
    assert steps[-1] == Step("comparing", JOBS, JOBS)

    assert target.exchange([], want()).claims == [], "workers wait until all is there"
    made.open()
    before = {job_id: job.version for job_id, job in rows(target).items()}
    claims = target.exchange([], want(JOBS)).claims  # all: which queue a store begins with is its own affair
    assert {claim.queue for claim in claims} == {"mail", "reports"}
    assert all(claim.version == before[claim.id] + 1 for claim in claims)


def test_the_source_is_closed_and_says_where_to_go(source: Engine, target: Engine) -> None:
    fill(source, 50)
    move(source, target)
    assert source.exchange([], want()).claims == []
    with pytest.raises(StoreMoved) as refused:
        source.insert([new_job("new")])
    assert refused.value.other == target.url
    assert target.insert([new_job("new")]) == [True]
    assert target.porter.notice() is None


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
def test_schedules_arrive_with_what_became_of_their_times(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, other_kind: str
) -> None:
    source, target = make_store(kind, "source").open(), make_store(other_kind, "target").open()
    for name in ("nightly", "weekly"):
        source.timetable.put(schedule(name), new=True)
        past = [Occurrence(name, at, at + 1, "enqueued", f"{name}-{at}") for at in range(3)]
        source.timetable.record(past)
    move(source, target)
    assert source.timetable.due(10) == [], "nobody fires where nobody is any more"
    assert target.timetable.all() == source.timetable.all() != []
    for name in ("nightly", "weekly"):
        assert target.timetable.occurrences(name) == source.timetable.occurrences(name) != []
    assert [row.id for row in target.timetable.due(10)] == ["nightly", "weekly"]


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
def test_rules_arrive_over_those_of_an_unused_store(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, other_kind: str
) -> None:
    source, target = make_store(kind, "source").open(), make_store(other_kind, "target").open()
    source.desk.rule_queue("mail", QueueRules(rate=Rate(1000, 5), concurrency=2))
    source.desk.rule_task("send", TaskRules(paused=True))
    target.desk.rule_task("send", TaskRules(concurrency=1))
    source.upkeep.declare_terms([TermsRow("task", "send", Terms(max_pending=1))])
    source.upkeep.order_terms("queue", "mail", Terms(max_age=None, remove_on_fail=True))
    target.upkeep.order_terms("task", "send", Terms(max_age=5))
    move(source, target)
    assert target.upkeep.terms() == source.upkeep.terms()
    assert len(target.upkeep.terms()) == 2
    assert [msgspec.json.decode(queue.rules or "{}", type=QueueRules) for queue in target.desk.queues()] == [
        QueueRules(rate=Rate(1000, 5), concurrency=2)
    ]
    assert target.desk.tasks() == [TaskRow("send", TaskRules(paused=True))]


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
def test_papers_are_carried_but_for_those_that_are_there_and_those_that_stay(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, other_kind: str
) -> None:
    source, target = make_store(kind, "source").open(), make_store(other_kind, "target").open()
    source.shelf.put([Paper("rule", f"{number:05}", 0, "ours") for number in range(2500)])
    source.shelf.put([Paper("~place", "events", 0, "17")])
    target.shelf.put([Paper("rule", "00007", 0, "theirs"), Paper("rule", "other", 0, "theirs")])
    move(source, target)
    found = [*target.shelf.browse("rule", last="01000"), *target.shelf.browse("rule", "01000", limit=9999)]
    assert [paper.key for paper in found] == [*(f"{number:05}" for number in range(2500)), "other"]
    assert [paper.key for paper in found if paper.value == "theirs"] == ["00007", "other"]
    assert target.shelf.kinds("~") == []


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
@pytest.mark.parametrize("stage", ["carrying", "comparing"])
def test_what_workers_of_the_source_measure_meanwhile_is_brought_along(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, other_kind: str, stage: str
) -> None:
    source, target = make_store(kind, "source").open(), make_store(other_kind, "target").open()
    source.insert([new_job("job")])

    def measure(step: Step) -> None:
        if step.stage == stage:
            source.shelf.put([Paper("metrics.10s", "late", 0, "{}"), Paper("alert", "a", 0, "{}")])

    finish(Move(source, target, progress=measure))
    assert [(paper.key, paper.value) for paper in target.shelf.browse("metrics.10s")] == [("late", "{}")]
    assert [paper.key for paper in target.shelf.browse("alert")] == ["a"]


def test_papers_are_carried_though_workers_of_the_target_put_some_there_at_the_same_moment(
    source: Engine, target: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.shelf.put([Paper("metrics.10s", str(number), 0, "ours") for number in range(5)])
    put, turns = target.shelf.put, iter([1, 3])

    def overtaken(papers: Sequence[Paper]) -> bool:
        if (turn := next(turns, None)) is not None:
            put([Paper("metrics.10s", str(turn), 0, "theirs")])
        return put(papers)

    monkeypatch.setattr(target.shelf, "put", overtaken)
    Move(source, target).run(0)
    assert [paper.value for paper in target.shelf.browse("metrics.10s")] == ["ours", "theirs", "ours", "theirs", "ours"]


def test_a_paper_that_can_not_be_stored_is_told(
    source: Engine, target: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.shelf.put([Paper("rule", "lost", 0, "ours")])
    monkeypatch.setattr(target.shelf, "put", lambda papers: True)
    made = Move(source, target)
    made.run(0)
    assert [str(difference) for difference in made.verify().differences] == ["paper rule lost is missing"]


CHANGES: dict[str, tuple[Callable[[Engine], object], str]] = {
    "queue paused": (lambda target: target.desk.pause_queue("mail", True), "queue mail should be open and is not"),
    "queue rules": (
        lambda target: target.desk.rule_queue("mail", QueueRules(weight=2)),
        "queue mail should have weight=3 and has weight=2",
    ),
    "task rules": (
        lambda target: target.desk.rule_task("send", TaskRules(concurrency=9)),
        "task send should have paused=true and has concurrency=9",
    ),
    "no task rules": (
        lambda target: target.desk.rule_task("send", TaskRules()),
        "task send should have paused=true and has no rules",
    ),
    "lifecycle": (
        lambda target: target.upkeep.order_terms("task", "send", Terms(max_age=9)),
        "lifecycle task send differs in what is ordered",
    ),
    "no lifecycle": (
        lambda target: target.upkeep.order_terms("task", "send", None),
        "lifecycle task send is missing",
    ),
    "schedule gone": (lambda target: target.timetable.delete("tick"), "schedule tick is missing"),
    "no past": (
        lambda target: target.timetable.delete("tick") and target.timetable.put(schedule(), new=True),
        "schedule tick lacks 1 of its past runs",
    ),
    "older schedule": (
        lambda target: target.timetable.delete("tick") and target.timetable.put(schedule(version=0), new=True),
        "schedule tick differs in version",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_settings_that_are_not_as_they_were_are_told_and_put_right_by_another_run(
    source: Engine, target: Engine, change: str
) -> None:
    source.desk.rule_queue("mail", QueueRules(weight=3))
    source.desk.rule_task("send", TaskRules(paused=True))
    source.upkeep.order_terms("task", "send", Terms(max_age=7))
    source.timetable.put(schedule(), new=True)
    source.timetable.record([Occurrence("tick", 1, 2, "enqueued", "job")])
    made = Move(source, target)
    made.run(0)
    assert made.verify().differences == []
    act, told = CHANGES[change]
    act(target)
    verdict = made.verify()
    assert [str(difference) for difference in verdict.differences] == [told]
    assert verdict.kept == []
    made.run(0)
    verdict = made.verify()
    assert (verdict.differences, verdict.kept) == ([], [])
    assert target.timetable.occurrences("tick") == source.timetable.occurrences("tick")


def test_a_schedule_that_the_target_has_already_stays_and_is_told(source: Engine, target: Engine) -> None:
    source.timetable.put(schedule("nightly", created_at=1, updated_at=1), new=True)
    source.timetable.put(schedule("weekly", created_at=1, updated_at=1), new=True)
    target.timetable.put(own := schedule("nightly", created_at=2, updated_at=2), new=True)
    made = Move(source, target)
    made.run(0)
    changed = msgspec.structs.replace(schedule("weekly", created_at=1, updated_at=1), paused=True)
    assert target.timetable.put(changed), "an operator at the new store"
    made.run(0)
    verdict = made.verify()
    assert verdict.differences == []
    assert [str(kept) for kept in verdict.kept] == [
        "schedule nightly differs in created_at, updated_at",
        "schedule weekly differs in version, paused",
    ]
    assert target.timetable.get("nightly") == own
    assert [row.paused for row in target.timetable.all()] == [False, True]


@pytest.mark.parametrize(("declared", "is_paused"), [("same", True), ("changed", False)])
def test_what_a_worker_declared_at_the_target_gives_way_if_it_is_the_same(
    source: Engine, target: Engine, declared: str, is_paused: bool
) -> None:
    """Workers may be started at the new store before all is there. A pause at the old one must not be lost to them."""
    ours = schedule("nightly", created_at=1, updated_at=5, fired=7, paused=True, origin="code", declared="same")
    source.timetable.put(ours, new=True)
    theirs = schedule("nightly", created_at=9, updated_at=9, origin="code", declared=declared)
    target.timetable.put(theirs, new=True)
    made = Move(source, target)
    made.run(0)
    verdict = made.verify()
    assert (verdict.differences, len(verdict.kept)) == ([], 0 if is_paused else 1)
    assert target.timetable.all() == [ours if is_paused else theirs]


def test_a_store_in_use_keeps_its_settings_and_tells_which(source: Engine, target: Engine) -> None:
    for engine, weight in ((source, 2), (target, 3)):
        engine.desk.rule_queue("mail", QueueRules(weight=weight))
        engine.desk.rule_task("send", TaskRules(concurrency=weight))
        engine.upkeep.order_terms("queue", "mail", Terms(max_age=weight))
        engine.timetable.put(schedule(created_at=weight, updated_at=weight), new=True)
    source.desk.rule_task("other", TaskRules(paused=True))
    made = Move(source, target, into_used=True)
    made.run(0)
    verdict = made.verify()
    assert verdict.differences == []
    assert [(kept.what, kept.id) for kept in verdict.kept] == [
        ("queue", "mail"),
        ("task", "send"),
        ("lifecycle", "queue mail"),
        ("schedule", "tick"),
    ]
    assert target.desk.tasks() == [TaskRow("other", TaskRules(paused=True)), TaskRow("send", TaskRules(concurrency=3))]


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
def test_what_waits_for_what_arrives_and_goes_on(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, other_kind: str
) -> None:
    source, target = make_store(kind, "source").open(), make_store(other_kind, "target").open()
    names = ["a", "b", "c"]
    jobs = [new_job(name, state=State.WAITING if name != "a" else State.PENDING, flow="f") for name in names]
    bonds = [Bond("a", "b"), Bond("a", "c", "hold"), Bond("b", "c", "run")]
    source.plant(jobs, bonds, FlowRow("f", "family", 7))
    source.insert([new_job("alone")])
    move(source, target)
    assert contents(target) == contents(source)
    assert target.desk.flows(9) == source.desk.flows(9) != []
    assert target.desk.bonds(names) == bonds
    [claim] = [claim for claim in target.exchange([], want()).claims if claim.id == "a"]
    target.exchange([succeed(claim)], None)
    assert states(target) == {"a": "completed", "b": "pending", "c": "waiting", "alone": "running"}


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
def test_what_waits_for_a_job_whose_time_ran_out_on_the_way_is_not_left_waiting(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, other_kind: str
) -> None:
    """Bonds arrive last: who ended a job before them would find nobody that waits for it."""
    source, target = make_store(kind, "source").open(), make_store(other_kind, "target").open()
    names, now = ("lapses", "is lost"), source.clock.now()
    late = now + HOUR
    source.insert([new_job("is lost", queue="mail", max_attempts=1)])
    assert claim_from(source, "mail")
    children = [new_job(f"after {name}", state=State.WAITING) for name in names]
    bonds = [Bond(name, f"after {name}") for name in names]
    source.plant([new_job("lapses", expires_at=late), *children], bonds)

    def work() -> None:
        """What every worker does, also one that came early."""
        target.exchange([], only("no such queue"), now=late)
        target.reap(10, now=late)

    made = Move(source, target, progress=lambda step: work() if step.stage == "carrying" else None)
    made.run(0)
    assert made.verify().differences == []
    assert target.desk.bonds(names) == bonds
    made.open()
    work()
    ended = {"lapses": "cancelled", "is lost": "failed", "after lapses": "cancelled", "after is lost": "cancelled"}
    assert states(target) == ended


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
def test_what_waits_for_a_job_whose_id_is_taken_waits_for_the_one_that_is_there(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, other_kind: str
) -> None:
    source, target = make_store(kind, "source").open(), make_store(other_kind, "target").open()
    now = source.clock.now()
    names = ["completed", "failed", "open", "other"]
    source.insert([new_job(name, created_at=now, run_at=now) for name in names])
    children = [new_job(f"child of {name}", state=State.WAITING) for name in names]
    both = new_job("child of both", state=State.WAITING)
    bonds = [Bond(name, f"child of {name}") for name in names]
    source.plant([*children, both], [*bonds, Bond("completed", "child of both"), Bond("other", "child of both")])
    target.insert([new_job(name, created_at=now, run_at=now) for name in names[:3]])
    ends: dict[str, Callable[[Claim], Outcome]] = {"completed": succeed, "failed": fail, "open": release}
    claims = target.exchange([], want()).claims
    target.exchange([ends[claim.id](claim) for claim in claims], None)
    made = Move(source, target, into_used=True)
    made.run(0)
    verdict = made.verify()
    assert (verdict.differences, verdict.taken) == ([], set(names[:3]))
    made.open()
    assert {name: state for name, state in states(target).items() if name.startswith("child")} == {
        "child of completed": State.PENDING,
        "child of failed": State.CANCELLED,
        "child of open": State.WAITING,
        "child of other": State.WAITING,
        "child of both": State.WAITING,
    }
    for _ in range(2):
        target.exchange([succeed(claim) for claim in target.exchange([], want()).claims], None)
    assert set(states(target).values()) == {State.COMPLETED, State.FAILED, State.CANCELLED}


@pytest.mark.parametrize("kind", KINDS)
def test_what_waits_for_a_job_whose_id_was_given_anew_meanwhile_waits_for_the_new_one(
    make_store: Callable[[str, str], StoreUnderTest], kind: str
) -> None:
    source, target = make_store(kind, "source").open(), make_store(kind, "target").open()
    source.insert([new_job("parent")])
    source.plant([new_job("child", state=State.WAITING)], [Bond("parent", "child")])
    target.porter.post(Notice("arriving", source.url, 0))
    target.insert([new_job("parent", created_at=1, run_at=1)])
    move(source, target)
    for name in ("parent", "child"):
        [claim] = target.exchange([], want()).claims
        assert claim.id == name
        target.exchange([succeed(claim)], None)


def test_bonds_are_carried_also_by_a_run_that_goes_on_behind_them(source: Engine, target: Engine) -> None:
    bonds = [Bond(f"j{n}", f"j{n + 1}") for n in range(599)]
    source.plant([new_job(f"j{n}", state=State.WAITING if n else State.PENDING) for n in range(600)], bonds)
    cut_off(source, target, 300)
    move(source, target)
    assert len(target.desk.bonds([f"j{n}" for n in range(600)])) == 599


def test_a_bond_or_a_flow_that_did_not_arrive_is_told(source: Engine, target: Engine) -> None:
    source.plant([new_job("a"), new_job("b", state=State.WAITING)], [Bond("a", "b")], FlowRow("f", "family", 7))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(target.porter), "unpack_bonds", lambda *_: None)
        patch.setattr(type(target.porter), "unpack_flows", lambda *_: None)
        made = Move(source, target)
        made.run(0)
    told = [str(difference) for difference in made.verify().differences]
    assert "bond a -> b is missing" in told
    assert "flow f is missing" in told


def test_an_empty_store_can_be_moved(source: Engine, target: Engine) -> None:
    source.migrate()
    move(source, target)
    assert contents(target) == []
    assert source.porter.notice() is not None


def test_heavy_jobs_are_carried_a_few_at_a_time(
    source: Engine, target: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    heavy = '["' + "x" * 1_000_000 + '"]'
    for start in range(0, 60, 10):
        source.insert([new_job(f"j{n}", payload=heavy if n >= 20 else "[]") for n in range(start, start + 10)])
    unpack = target.porter.unpack
    sizes: list[int] = []

    def weighed(parcels: Sequence[Parcel], origin: str | None = None) -> int:
        sizes.append(sum(len(parcel.job.payload) for parcel in parcels))
        return unpack(parcels, origin)

    monkeypatch.setattr(target.porter, "unpack", weighed)
    move(source, target)
    assert contents(target) == contents(source)
    assert max(sizes) <= 10_000_000
    assert len(sizes) < 20


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
    again = Move(source, target)
    assert again.standing() == "begun"
    carried = again.run(0)
    assert (carried.jobs, carried.known) == (JOBS - there, 0)
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
    target.porter.post(Notice("arriving", source.url, 0))
    assert Move(source, target).standing() == "new"
    move(source, target)
    assert contents(target) == without_nul(contents(source))


def test_a_move_that_is_done_is_done(source: Engine, target: Engine) -> None:
    fill(source, 50)
    move(source, target)
    target.desk.move(Filter(), Event.DELETE, 1000)
    left = contents(target)
    again = Move(source, target)
    assert again.standing() == "done"
    assert again.run(0).jobs == 0
    assert contents(target) == left, "what was finished and deleted since does not come back"


def test_two_that_move_at_once_do_not_disturb_each_other(source: Engine, target: Engine) -> None:
    fill(source, JOBS)
    turns = 0

    def let_the_other(step: Step) -> None:
        nonlocal turns
        turns += 1
        if step.stage == "carrying" and turns == 2:
            Move(source, target).run(0)

    made = Move(source, target, progress=let_the_other)
    made.run(0)
    assert made.verify().differences == []
    assert contents(target) == without_nul(contents(source))


def finish(made: Move) -> None:
    """What a run of its own does to the end."""
    made.run(0)
    assert made.verify().differences == []
    made.open()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stage", ["waiting", "carrying"])
def test_a_run_that_another_one_overtook_brings_nothing_back_that_is_done(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, stage: str
) -> None:
    source, target = make_store(kind, "source").open(), make_store(kind, "target").open()
    fill(source, 100)
    begun = len(claim_from(source, "mail"))
    left: list[Parcel] = []

    def overtake(step: Step) -> None:
        if step.stage != stage or left:
            return
        finish(Move(source, target))
        claims = target.exchange([], want(1000)).claims
        target.exchange([succeed(claim) for claim in claims], None)
        target.desk.move(Filter(), Event.DELETE, 1000)
        for letter in letters(target):
            target.letters.remove([letter.id])
        target.desk.pause_queue("mail", True)
        left.extend(contents(target))

    made = Move(source, target, progress=overtake)
    carried = made.run(0)
    assert begun
    assert carried.dead_letters == 0
    assert contents(target) == left
    assert letters(target) == []
    assert {queue.name: queue.paused for queue in target.desk.queues()}["mail"]
    assert made.verify().differences == []
    made.open()
    assert target.porter.notice() is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("behind", [1, 2, 3])
def test_a_run_that_comes_too_late_to_announce_anything_leaves_the_store_in_use(
    make_store: Callable[[str, str], StoreUnderTest], monkeypatch: pytest.MonkeyPatch, kind: str, behind: int
) -> None:
    """It looked at the doors when nothing hung there, and was slow since."""
    source, target = make_store(kind, "source").open(), make_store(kind, "target").open()
    source.insert([new_job("job")])
    others = iter([Move(source, target)])
    made = Move(source, target)
    swaps = 0

    def slow(swap: Callable[..., bool]) -> Callable[..., bool]:
        def act(before: Notice | None, notice: Notice | None) -> bool:
            nonlocal swaps
            swaps += 1
            if swaps == behind and (other := next(others, None)) is not None:
                finish(other)
                [claim] = target.exchange([], want()).claims
                target.exchange([succeed(claim)], None)
                target.desk.move(Filter(), Event.DELETE, 1000)
            return swap(before, notice)

        return act

    monkeypatch.setattr(source.porter, "swap", slow(source.porter.swap))
    monkeypatch.setattr(target.porter, "swap", slow(target.porter.swap))
    made.run(0)
    assert made.verify().differences == []
    made.open()
    assert (states(target), target.porter.notice()) == ({}, None)
    assert Move(source, target).standing() == "done"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("behind", [1, 2])
def test_of_two_that_move_the_same_jobs_to_different_stores_at_once_one_is_refused(
    make_store: Callable[[str, str], StoreUnderTest], monkeypatch: pytest.MonkeyPatch, kind: str, behind: int
) -> None:
    source, target, third = (make_store(kind, name).open() for name in ("source", "target", "third"))
    source.insert([new_job("job")])
    looks = 0
    notice = source.porter.notice

    def slow() -> Notice | None:
        nonlocal looks
        looks += 1
        told = notice()
        if looks == behind:
            finish(Move(source, third))
        return told

    monkeypatch.setattr(source.porter, "notice", slow)
    with pytest.raises(ConfigError, match="were carried over to"):
        Move(source, target).run(0)
    assert (states(target), target.porter.notice()) == ({}, None)
    assert states(third) == {"job": State.PENDING}


@pytest.mark.parametrize("kind", KINDS)
def test_of_two_that_move_jobs_to_the_same_store_at_once_one_is_refused(
    make_store: Callable[[str, str], StoreUnderTest], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    source, target, third = (make_store(kind, name).open() for name in ("source", "target", "third"))
    source.insert([new_job("job")])
    third.insert([new_job("other")])
    notice = target.porter.notice

    def slow() -> Notice | None:
        told = notice()
        if told is None:
            monkeypatch.setattr(target.porter, "notice", notice)
            Move(third, target).run(0)
        return told

    monkeypatch.setattr(target.porter, "notice", slow)
    with pytest.raises(ConfigError, match="is being filled from"):
        Move(source, target, into_used=True).run(0)
    assert unchanged(source)
    assert states(target) == {"other": State.PENDING}


@pytest.mark.parametrize("stage", ["carrying", "comparing"])
def test_a_store_that_somebody_else_began_to_fill_is_not_said_to_have_all(
    source: Engine, target: Engine, stage: str
) -> None:
    fill(source, 100)

    def take_over(step: Step) -> None:
        if step.stage == stage:
            target.porter.post(Notice("arriving", ELSEWHERE, 1))

    made = Move(source, target, progress=take_over)
    with pytest.raises(ConfigError, match="is being filled from"):
        finish(made)
    assert target.porter.notice() == Notice("arriving", ELSEWHERE, 1)


def test_a_store_whose_jobs_run_on_where_they_came_from_is_not_opened(source: Engine, target: Engine) -> None:
    source.insert([new_job("job")])
    made = Move(source, target)
    made.run(0)
    assert made.verify().differences == []
    reopen(source)
    with pytest.raises(ConfigError, match=r"was brought back into use while its jobs were carried"):
        made.open()
    assert target.porter.notice() is not None


# -- running jobs


def test_running_jobs_may_end_before_they_are_carried(source: Engine, target: Engine) -> None:
    source.insert([new_job("job", queue="mail")])
    [claim] = claim_from(source, "mail")
    left = []

    def settle(step: Step) -> None:
        if step.stage == "waiting":
            left.append(step.total - step.done)
            if len(left) == 1:
                source.exchange([succeed(claim)], None)

    made = Move(source, target, progress=settle)
    assert made.run(60).running == []
    assert left == [1, 0]
    assert states(target) == {"job": State.COMPLETED}


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
def test_what_still_runs_is_taken_from_its_worker_and_what_that_brings_later_is_refused(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, other_kind: str
) -> None:
    source, target = make_store(kind, "source").open(), make_store(other_kind, "target").open()
    names = ["finished late", "failed late", "renewed", "last time"]
    source.insert([new_job(name, queue="mail", max_attempts=1 if name == "last time" else 3) for name in names])
    claims = {claim.id: claim for claim in claim_from(source, "mail", 4)}
    made = Move(source, target)
    orders = source.listen("orders")
    assert sorted(made.run(0).running) == sorted(names)
    assert orders.wait(PATIENCE), "the workers are told at once"
    orders.close()
    left = contents(source)
    late = [succeed(claims["finished late"]), fail(claims["failed late"]), succeed(claims["last time"])]
    notes = [log(claims["finished late"], "I go on"), progress(claims["finished late"], "1")]
    assert {outcome.id for outcome in source.exchange(late, None, notes).refused} == {outcome.id for outcome in late}
    leases = [lease_of(claims["renewed"])]
    assert source.renew(worker_row("old"), leases, 5_000_000).lost == frozenset(leases)
    assert contents(target) == left
    assert [(p.job, p.logs, p.steps) for p in contents(source)] == [(p.job, p.logs, p.steps) for p in left]
    assert made.verify().differences == []
    made.open()
    assert {job.id: (job.state, job.attempt, job.crashes) for job in rows(target).values()} == {
        **dict.fromkeys(names, (State.PENDING, 1, 1)),
        "last time": (State.FAILED, 1, 1),
    }


def test_nothing_is_taken_from_the_workers_of_a_store_that_was_brought_back_into_use(
    source: Engine, target: Engine
) -> None:
    source.insert([new_job("job", queue="mail")])
    [claim] = claim_from(source, "mail")

    def give_up(step: Step) -> None:
        if step.stage == "waiting":
            reopen(source)

    with pytest.raises(ConfigError, match="was brought back into use"):
        Move(source, target, progress=give_up).run(0)
    assert source.exchange([succeed(claim)], None).refused == []


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
def test_children_wait_at_the_target_as_they_did_however_late_their_parent_ends_at_the_source(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, other_kind: str
) -> None:
    """Bonds are read last: a parent that ended since would bring some that do not bind any more."""
    source, target = make_store(kind, "source").open(), make_store(other_kind, "target").open()
    source.insert([new_job("parent", queue="mail")])
    [held] = claim_from(source, "mail")
    source.plant([new_job("child", state=State.WAITING)], [Bond("parent", "child")])

    def end_late(step: Step) -> None:
        if step.stage == "carrying":
            source.exchange([succeed(held)], None)

    made = Move(source, target, progress=end_late)
    made.run(0)
    assert made.verify().differences == []
    made.open()
    [again] = target.exchange([], want()).claims
    assert again.id == "parent"
    target.exchange([fail(again)], None)
    assert states(target) == {"parent": "failed", "child": "cancelled"}


def test_nobody_waits_for_the_dead(source: Engine, target: Engine) -> None:
    past = source.clock.now() - HOUR
    source.insert([new_job("job", queue="mail")], now=past)
    assert source.exchange([], only("mail"), now=past).claims
    made = Move(source, target)
    assert made.run(3600).running == []
    assert states(target) == {"job": State.PENDING}
    assert row(target).crashes == 1


# -- life at the target meanwhile


def test_jobs_submitted_at_the_target_meanwhile_are_no_difference(source: Engine, target: Engine) -> None:
    fill(source, JOBS)
    producer = 0

    def produce(step: Step) -> None:
        nonlocal producer
        if step.stage == "carrying":
            producer += 1
            target.insert([new_job(f"new-{producer}-{part}") for part in range(20)])

    made = Move(source, target, progress=produce)
    made.run(0)
    assert producer > 1
    assert made.verify().differences == []
    ours = [parcel for parcel in contents(target) if not parcel.job.id.startswith("new-")]
    assert ours == without_nul(contents(source))


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
def test_what_new_jobs_mean_to_those_that_arrived_is_no_difference(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, other_kind: str
) -> None:
    source, target = make_store(kind, "source").open(), make_store(other_kind, "target").open()
    now = source.clock.now()
    source.insert(
        [new_job(name, unique_key=name, created_at=now, run_at=now) for name in ("replaced", "later", "parent")]
    )
    cut_off(source, target, 3)
    acts: dict[str, Act] = {"replaced": "replace", "later": "reschedule"}
    for name, act in acts.items():
        newer = new_job("new", unique_key=name, payload="[2]", created_at=now + 5, run_at=now + HOUR)
        [verdict] = target.admit([Candidate(newer, Rule((Condition((State.PENDING,)),), act))])
        assert verdict.id == name
    target.plant([new_job("child", state=State.WAITING)], [Bond("parent", "child")])
    move(source, target)
    assert states(target) == {
        "replaced": State.SCHEDULED, "later": State.SCHEDULED, "parent": State.PENDING, "child": State.WAITING
    }  # fmt: skip
    assert row(target, "replaced").payload == "[2]"
    [claim] = target.exchange([], want()).claims
    target.exchange([succeed(claim)], None)
    assert states(target)["child"] == State.PENDING


def test_an_id_that_was_given_anew_at_the_target_meanwhile_is_told(source: Engine, target: Engine) -> None:
    past = source.clock.now() - HOUR
    source.insert([new_job(name, created_at=past, run_at=past) for name in ("a", "daily", "z")], now=past)
    target.porter.post(Notice("arriving", source.url, 0))
    target.insert([new_job("daily", created_at=past + HOUR, run_at=past + HOUR)])
    made = Move(source, target)
    carried = made.run(0)
    assert (carried.jobs, carried.known) == (2, 1)
    verdict = made.verify()
    assert (verdict.differences, verdict.taken) == ([], {"daily"})
    assert row(target, "daily").created_at == past + HOUR


def test_time_that_passes_meanwhile_is_no_difference(source: Engine, target: Engine) -> None:
    now = source.clock.now()
    source.insert([new_job("due", queue="mail", created_at=now, run_at=now + HOUR)], now=now)
    source.insert([new_job("lapsed", queue="mail", created_at=now, run_at=now, expires_at=now + HOUR)], now=now)
    made = Move(source, target)
    made.run(0)
    made.open()
    target.exchange([], only("no such queue"), now=now + HOUR)
    assert states(target) == {"due": State.PENDING, "lapsed": State.CANCELLED}
    assert made.verify().differences == []


# -- what is refused, and changes nothing


def unchanged(*engines: Engine) -> bool:
    return all(engine.porter.notice() is None for engine in engines)


def test_a_store_is_not_moved_to_itself(source: Engine) -> None:
    fill(source, 5)
    with pytest.raises(ConfigError, match="the same store"):
        Move(source, source).run(0)
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
            Move(source, other, into_used=True).run(0)
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
    with pytest.raises(ConfigError, match=r"is in use: it has 1 jobs.*--into-used"):
        Move(source, target).run(0)
    assert unchanged(source, target)


def test_a_store_with_dead_letters_alone_is_in_use(source: Engine, target: Engine) -> None:
    fill(source, 5)
    target.insert([new_job("job", queue="mail")])
    target.exchange([fail(claim_from(target, "mail")[0])], None)
    target.desk.move(Filter(), Event.DELETE, 10)
    with pytest.raises(ConfigError, match="is in use"):
        Move(source, target).run(0)


ELSEWHERE = "postgresql://elsewhere/db"


@pytest.mark.parametrize(
    ("at_source", "at_target", "told"),
    [
        (Notice("moved", ELSEWHERE, 1), None, "were carried over to postgresql://elsewhere/db on 1970-01-01"),
        (Notice("arriving", ELSEWHERE, 1), None, "is itself being filled from postgresql://elsewhere/db"),
        (None, Notice("moved", ELSEWHERE, 1), "choose another store, an empty one"),
        (None, Notice("arriving", ELSEWHERE, 1), "is being filled from postgresql://elsewhere/db"),
    ],
)
def test_stores_that_take_part_in_another_move_are_refused(
    source: Engine, target: Engine, at_source: Notice | None, at_target: Notice | None, told: str
) -> None:
    fill(source, 5)
    source.porter.post(at_source)
    target.porter.post(at_target)
    for into_used in (False, True):
        with pytest.raises(ConfigError, match=told):
            Move(source, target, into_used=into_used).run(0)
    assert (source.porter.notice(), target.porter.notice()) == (at_source, at_target)
    assert contents(target) == []


def test_a_store_that_was_opened_again_in_the_middle_is_not_carried_on_with(source: Engine, target: Engine) -> None:
    fill(source, JOBS)
    cut_off(source, target, 200)
    notice = source.porter.notice()
    assert notice is not None
    assert (notice.kind, notice.other) == ("moved", target.url)
    assert reopen(source) == notice
    assert source.insert([new_job("new")]) == [True]
    assert reopen(source) is None
    with pytest.raises(ConfigError, match="brought back into use after a part of its jobs"):
        Move(source, target).run(0)
    assert source.porter.notice() is None


def test_a_store_without_tables_has_nothing_to_carry(bare: Engine, target: Engine) -> None:
    for act in (lambda: Move(bare, target).run(0), lambda: Move(bare, target).plan()):
        with pytest.raises(ConfigError, match="has no tables of headrace"):
            act()
    assert bare.schema()[0] == 0
    assert unchanged(target)


def test_a_store_without_a_name_is_not_moved(source: Engine) -> None:
    memory = SqliteEngine(None)
    for made in (Move(memory, source), Move(source, memory)):
        with pytest.raises(ConfigError, match="gone when its process ends"):
            made.run(0)
    memory.close()


def test_an_announcement_is_taken_back_when_the_source_can_not_be_closed(
    source: Engine, target: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(source, 5)

    def refuse(before: Notice | None, notice: Notice | None) -> bool:
        raise ConfigError("read only")

    monkeypatch.setattr(source.porter, "swap", refuse)
    with pytest.raises(ConfigError, match="read only"):
        Move(source, target).run(0)
    assert unchanged(target)


@pytest.mark.parametrize("can_be_asked", [True, False])
def test_a_source_that_was_closed_though_the_answer_was_lost_is_carried_by_the_next_run(
    source: Engine, target: Engine, monkeypatch: pytest.MonkeyPatch, can_be_asked: bool
) -> None:
    fill(source, 5)
    swap = source.porter.swap

    def away() -> Notice | None:
        raise EngineUnavailable("the server is away")

    def lose_answer(before: Notice | None, notice: Notice | None) -> bool:
        swap(before, notice)
        if not can_be_asked:
            monkeypatch.setattr(source.porter, "notice", away)
        raise EngineUnavailable("the connection was lost")

    with monkeypatch.context() as lossy:
        lossy.setattr(source.porter, "swap", lose_answer)
        with pytest.raises(EngineUnavailable, match="was lost"):
            Move(source, target).run(0)
    monkeypatch.undo()
    move(source, target)
    assert contents(target) == without_nul(contents(source)) != []


# -- a dry run


def test_a_plan_counts_everything_and_changes_nothing(source: Engine, bare: Engine, folder: Path) -> None:
    fill(source, JOBS)
    before = contents(source)
    plan = Move(source, bare).plan()
    assert (plan.standing, plan.has_tables) == ("new", False)
    assert plan.contents.jobs == JOBS
    assert plan.contents.history == sum(len(parcel.history) for parcel in before)
    assert plan.contents.logs == sum(len(parcel.logs) for parcel in before)
    assert plan.contents.dead_letters == len(letters(source))
    assert plan.contents.bytes > JOBS * 100
    told = {(count.queue, count.state): count.jobs for count in plan.contents.counts()}
    assert told == {(depth.queue, depth.state): depth.jobs for depth in source.desk.depths()}
    assert contents(source) == before
    assert source.porter.notice() is None
    assert list((folder / "bare").iterdir()) == []
    assert bare.schema()[0] == 0


def test_a_plan_tells_how_far_a_move_is(source: Engine, target: Engine) -> None:
    fill(source, JOBS)
    target.migrate()
    assert Move(source, target).plan().standing == "new"
    cut_off(source, target, 100)
    assert Move(source, target).plan().standing == "begun"
    move(source, target)
    assert Move(source, target).plan().standing == "done"


def test_a_plan_does_not_bring_old_tables_up_to_date(
    source: Engine, target: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(source, 5)
    monkeypatch.setattr(source, "schema", lambda: (1, 2))
    with pytest.raises(SchemaMismatch, match=r"tables of version 1.*headrace --url .* migrate"):
        Move(source, target).plan()


# -- into a store in use


def test_jobs_are_added_to_a_store_in_use_and_ids_that_are_there_stay(source: Engine, target: Engine) -> None:
    fill(source, 300)
    source.reap(300, alive=True)
    ours = without_nul(contents(source))
    target.insert([new_job("mine"), new_job("job-000010", payload='["mine"]')], now=1_000_000)
    target.desk.pause_queue("mail", True)
    target.desk.pause_queue("paused", False)
    mine = contents(target)
    made = Move(source, target, into_used=True)
    carried = made.run(0)
    assert (carried.jobs, carried.known) == (299, 1)
    verdict = made.verify()
    assert (verdict.differences, verdict.taken) == ([], {"job-000010"})
    made.open()
    assert contents(target) == [*mine, *(parcel for parcel in ours if parcel.job.id != "job-000010")]
    paused = {queue.name: queue.paused for queue in target.desk.queues()}
    assert (paused["mail"], paused["paused"]) == (True, False), "what the store in use has set stays"


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
def test_jobs_that_ran_at_both_stores_by_themselves_stay_as_they_are_in_the_one_in_use(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, other_kind: str
) -> None:
    """One of them was restored from a backup of the other, say. Each ran the same jobs as often."""
    source, target = make_store(kind, "source").open(), make_store(other_kind, "target").open()
    now = source.clock.now()
    names = ["completed", "failed", "failed and deleted", "waits"]
    for engine, at in ((source, now), (target, now + 77)):
        queues = ["mail"] * 3 + ["later"]
        engine.insert([new_job(n, queue=q, created_at=now, run_at=now) for n, q in zip(names, queues, strict=True)])
        claims = engine.exchange([], only("mail"), now=at).claims
        engine.exchange([(succeed if c.id == "completed" else fail)(c, at=at) for c in claims], None, now=at)
    target.desk.move(Filter(ids=("failed and deleted",)), Event.DELETE, 1)
    before, before_letters = contents(target), letters(target)
    made = Move(source, target, into_used=True)
    made.run(0)
    verdict = made.verify()
    assert (verdict.differences, verdict.taken) == ([], {"completed", "failed"})
    made.open()
    assert [parcel for parcel in contents(target) if parcel.job.id != "failed and deleted"] == before
    assert states(target)["failed and deleted"] == State.FAILED
    assert letters(target) == before_letters, "one is open for each"


def test_adding_that_was_cut_off_goes_on(source: Engine, target: Engine) -> None:
    fill(source, JOBS)
    target.insert([new_job("mine")])
    cut_off(source, target, 100, into_used=True)
    made = Move(source, target, into_used=True)
    carried = made.run(0)
    assert carried.jobs + carried.known == JOBS
    assert carried.known > 0
    assert made.verify().differences == []
    assert [parcel.job.id for parcel in contents(target)] == ["mine", *(p.job.id for p in contents(source))]


# -- differences


def last_job(engine: Engine, state: State) -> str:
    return engine.desk.find(Filter(states=(state,)), 1).jobs[0].id


def delete_one(target: Engine) -> str:
    job_id = last_job(target, State.COMPLETED)
    target.desk.move(Filter(ids=(job_id,)), Event.DELETE, 1)
    return rf"job {job_id} \(completed\) is missing"


def amend_one(target: Engine) -> str:
    job_id = last_job(target, State.PENDING)
    assert target.desk.amend(job_id, Changes(priority=50))
    return f"job {job_id} differs in priority, version, history"


def cancel_one(target: Engine) -> str:
    job_id = last_job(target, State.PENDING)
    target.desk.move(Filter(ids=(job_id,)), Event.CANCEL, 1)
    return f"job {job_id} differs in state, .*history"


def open_a_queue(target: Engine) -> str:
    target.desk.pause_queue("paused", False)
    return "queue paused should be paused and is not"


@pytest.mark.parametrize("tamper", [delete_one, amend_one, cancel_one, open_a_queue])
def test_what_is_not_as_it_was_is_found_and_told(
    source: Engine, target: Engine, tamper: Callable[[Engine], str]
) -> None:
    fill(source, JOBS)
    made = Move(source, target)
    made.run(0)
    with by_force(target):
        told = tamper(target)
    verdict = made.verify()
    assert verdict.different == len(verdict.differences) == 1
    [difference] = map(str, verdict.differences)
    assert re.fullmatch(told, difference), difference


def test_a_job_that_is_missing_is_brought_by_another_run_if_nothing_behind_it_is_there(
    source: Engine, target: Engine
) -> None:
    fill(source, JOBS)
    Move(source, target).run(0)
    job_id = contents(source)[-1].job.id
    with by_force(target):
        target.desk.move(Filter(ids=(job_id,)), Event.DELETE, 1)
    assert Move(source, target).verify().different == 1
    move(source, target)


def test_jobs_out_of_order_are_found(source: Engine, target: Engine) -> None:
    fill(source, 60)
    parcels = without_nul(source.porter.pack(0, 100))
    parcels[20], parcels[40] = parcels[40], parcels[20]
    target.porter.post(Notice("arriving", source.url, 1))
    target.porter.unpack(parcels)
    target.porter.unpack_dead(letters(source))
    target.porter.unpack_queues(source.desk.queues())
    verdict = Move(source, target).verify()
    assert verdict.different == 20
    assert all("is out of order" in str(difference) for difference in verdict.differences)
    assert [difference.id for difference in verdict.differences] == [f"job-{number:06d}" for number in range(21, 41)]


def test_altered_contents_are_found(source: Engine, target: Engine) -> None:
    fill(source, 60)
    parcels = without_nul(source.porter.pack(0, 100))
    altered = {
        "payload": msgspec.structs.replace(parcels[3], job=msgspec.structs.replace(parcels[3].job, payload="[0]")),
        "rank": msgspec.structs.replace(parcels[4], job=msgspec.structs.replace(parcels[4].job, rank=5)),
        "history": msgspec.structs.replace(next(p for p in parcels if p.history), history=[]),
        "logs": msgspec.structs.replace(
            next(p for p in parcels if p.logs and p.job.state is not State.RUNNING), logs=[]
        ),
    }
    by_id = {parcel.job.id: (what, parcel) for what, parcel in altered.items()}
    assert len(by_id) == len(altered)
    target.porter.post(Notice("arriving", source.url, 1))
    target.porter.unpack([by_id[p.job.id][1] if p.job.id in by_id else p for p in parcels])
    target.porter.unpack_dead(letters(source))
    target.porter.unpack_queues(source.desk.queues())
    verdict = Move(source, target).verify()
    assert {difference.id: difference.how for difference in verdict.differences} == {
        job_id: f"differs in {what}" for job_id, (what, _) in by_id.items()
    }


def test_lost_and_altered_dead_letters_are_found(source: Engine, target: Engine) -> None:
    fill(source, 100)
    first, second, *rest = letters(source)
    target.porter.post(Notice("arriving", source.url, 1))
    target.porter.unpack(without_nul(source.porter.pack(0, 1000)))
    target.porter.unpack_dead([msgspec.structs.replace(second, reason="another"), *rest])
    target.porter.unpack_queues(source.desk.queues())
    verdict = Move(source, target).verify()
    assert [str(difference) for difference in verdict.differences] == [
        f"dead letter {first.id} of job {first.job_id} is missing",
        f"dead letter {second.id} of job {second.job_id} differs",
    ]


def test_jobs_that_the_source_does_not_hand_out_are_found(
    source: Engine, target: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(source, 30)
    pack = source.porter.pack
    hidden = pack(0, 30)[-1].job
    monkeypatch.setattr(
        source.porter, "pack", lambda after, limit: [p for p in pack(after, limit) if p.job.id != hidden.id]
    )
    made = Move(source, target)
    made.run(0)
    [difference] = made.verify().differences
    count = source.desk.count(Filter(queue=hidden.queue))
    assert str(difference) == f"queue {hidden.queue} has {count} jobs by its count, of which {count - 1} were found"


def test_many_differences_are_counted_and_the_first_are_told(source: Engine, target: Engine) -> None:
    fill(source, 100)
    target.porter.post(Notice("arriving", source.url, 1))
    target.porter.unpack_queues(source.desk.queues())
    target.porter.unpack_dead(letters(source))
    verdict = Move(source, target).verify()
    assert (verdict.different, len(verdict.differences)) == (100, 20)


# -- why a job does not run


@pytest.mark.parametrize(
    ("notice", "told"),
    [
        (Notice("moved", ELSEWHERE, 1), f"The jobs of this store were carried over to {ELSEWHERE}"),
        (Notice("arriving", ELSEWHERE, 1), f"This store is being filled from {ELSEWHERE}"),
    ],
    ids=lambda given: getattr(given, "kind", "told"),
)
def test_why_tells_of_a_notice(source: Engine, notice: Notice, told: str) -> None:
    source.insert([new_job("waits"), new_job("runs", queue="mail")])
    claim_from(source, "mail")
    now = source.clock.now()
    assert explain(row(source, "waits"), source.desk, now, notice).startswith(told)
    assert explain(row(source, "runs"), source.desk, now, notice).startswith("It is running")
    assert "No worker is alive" in explain(row(source, "waits"), source.desk, now)
