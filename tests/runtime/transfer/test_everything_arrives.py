"""Moving to another store: everything arrives as it was, between any two engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from headrace.app.transfer.move import CopyStep, StoreCopy
from headrace.core.documents import Document
from headrace.core.jobs.dependencies import Dependency, FlowRow
from headrace.core.jobs.queue_rules import QueueRules, Rate, TaskRow, TaskRules
from headrace.core.jobs.records import Claim, Filter, Outcome
from headrace.core.jobs.states import State
from headrace.core.jobs.transfer import JobExport, StoreStatus
from headrace.core.retention.lifecycle import PolicyRow, StoredPolicy
from headrace.core.schedules.records import Occurrence
from headrace.engines.protocol.engine import Engine
from headrace.engines.protocol.transfer import Record
from headrace.errors import StoreMoved
from headrace.runtime.retention.policies import declare_policies, override_policy, policies, replace_policies
from tests.runtime.transfer.kit import JOBS, cut_off, finish, move
from tests.runtime.transfer.store_contents import HOUR, claim_from, contents, dead_letters, fill, without_nul
from tests.support.builders import (
    fail,
    kinds,
    new_job,
    only,
    release,
    rows,
    schedule,
    states,
    succeed,
    want,
)
from tests.support.cases import PAIRS
from tests.support.damage import put_field
from tests.support.engines import KINDS, StoreUnderTest
from tests.support.schedules import stored_schedule

# -- everything is copied


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
def test_everything_arrives_as_it_was_between_any_two_engines(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, other_kind: str
) -> None:
    source, target = make_store(kind, "source").open(), make_store(other_kind, "target").open()
    fill(source, JOBS)
    steps: list[CopyStep] = []
    made = StoreCopy(source, target, progress=steps.append)
    copied = made.run(0)
    expected, expected_dead_letters = without_nul(contents(source)), dead_letters(source)
    assert {job_export.job.state for job_export in expected} == set(State) - {State.RUNNING}
    assert (copied.jobs, copied.known, copied.dead_letters) == (JOBS, 0, len(expected_dead_letters))
    assert copied.running

    assert contents(target) == expected
    assert dead_letters(target) == expected_dead_letters != []
    assert target.queries.rules().queues == source.queries.rules().queues
    assert any(queue.paused for queue in target.queries.rules().queues)

    result = made.verify()
    assert (result.differences, result.taken) == ([], set())
    assert result.contents.jobs == JOBS
    assert result.contents.history == sum(len(job_export.history) for job_export in expected) > 0
    assert result.contents.logs == sum(len(job_export.logs) for job_export in expected) > 0
    assert result.contents.dead_letters == len(expected_dead_letters)
    assert {step.stage for step in steps} == {"waiting", "copying", "comparing"}
    assert steps[-1] == CopyStep("comparing", JOBS, JOBS)

    assert target.exchange([], want()).claims == [], "workers wait until all is there"
    made.open()
    before = {job_id: job.version for job_id, job in rows(target).items()}
    claims = target.exchange([], want(JOBS)).claims  # all: which queue a store begins with is its own affair
    assert {claim.queue for claim in claims} == {"mail", "reports"}
    assert all(claim.version == before[claim.id] + 1 for claim in claims)


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
def test_damaged_tags_are_copied_as_they_are_and_reported(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, other_kind: str
) -> None:
    store, target = make_store(kind, "source"), make_store(other_kind, "target").open()
    source = store.open()
    source.insert([new_job(name, tags=("red",)) for name in ("bad", "good")])
    put_field(KINDS[kind].url(store.address), "bad", "tags", '["red')
    made = StoreCopy(source, target)
    assert made.plan().contents.damaged == ["job bad: tags"]
    finish(made)
    assert made.verify().contents.damaged == ["job bad: tags"]
    assert {name: job.tags for name, job in rows(target).items()} == {"bad": '["red', "good": '["red"]'}
    assert [job.id for job in target.queries.find(Filter(tag="red"), 10).jobs] == ["good"]


def test_the_source_is_closed_and_says_where_to_go(source: Engine, target: Engine) -> None:
    fill(source, 50)
    move(source, target)
    assert source.exchange([], want()).claims == []
    with pytest.raises(StoreMoved) as refused:
        source.insert([new_job("new")])
    assert refused.value.other == target.url
    assert kinds(target.insert([new_job("new")])) == ["new"]
    assert target.transfer.store_status() is None


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
def test_schedules_arrive_with_what_became_of_their_times(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, other_kind: str
) -> None:
    source, target = make_store(kind, "source").open(), make_store(other_kind, "target").open()
    for name in ("nightly", "weekly"):
        source.schedule_store.put(schedule(name), new=True)
        past = [Occurrence(name, at, at + 1, "enqueued", f"{name}-{at}") for at in range(3)]
        source.transfer.import_records(past)
    move(source, target)
    assert source.schedule_store.due(10).rows == [], "a moved store fires nothing"
    assert target.schedule_store.get() == source.schedule_store.get() != []
    for name in ("nightly", "weekly"):
        assert target.schedule_store.occurrences(name) == source.schedule_store.occurrences(name) != []
    assert [row.id for row in target.schedule_store.due(10).rows] == ["nightly", "weekly"]


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
def test_rules_arrive_over_those_of_an_unused_store(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, other_kind: str
) -> None:
    source, target = make_store(kind, "source").open(), make_store(other_kind, "target").open()
    source.rule_store.set_rules("mail", QueueRules(rate=Rate(1000, 5), concurrency=2))
    source.rule_store.set_rules("send", TaskRules(paused=True))
    target.rule_store.set_rules("send", TaskRules(concurrency=1))
    declare_policies(source.document_store, [PolicyRow("task", "send", StoredPolicy(max_pending=1))])
    override_policy(source.document_store, "queue", "mail", lambda _: StoredPolicy(max_age=None, remove_on_fail=True))
    override_policy(target.document_store, "task", "send", lambda _: StoredPolicy(max_age=5))
    move(source, target)
    assert policies(target.document_store) == policies(source.document_store)
    assert len(policies(target.document_store)) == 2
    assert [msgspec.json.decode(queue.rules or "{}", type=QueueRules) for queue in target.queries.rules().queues] == [
        QueueRules(rate=Rate(1000, 5), concurrency=2)
    ]
    assert target.queries.rules().tasks == [TaskRow("send", TaskRules(paused=True))]


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
def test_documents_are_copied_except_existing_and_local_ones(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, other_kind: str
) -> None:
    source, target = make_store(kind, "source").open(), make_store(other_kind, "target").open()
    source.document_store.put([Document("rule", f"{number:05}", 0, "ours") for number in range(2500)])
    source.document_store.put([Document("~place", "events", 0, "17")])
    target.document_store.put([Document("rule", "00007", 0, "theirs"), Document("rule", "other", 0, "theirs")])
    move(source, target)
    found = [
        *target.document_store.get("rule", last="01000"),
        *target.document_store.get("rule", first="01000", limit=9999),
    ]
    assert [document.key for document in found] == [*(f"{number:05}" for number in range(2500)), "other"]
    assert [document.key for document in found if document.value == "theirs"] == ["00007", "other"]
    assert target.document_store.kinds("~") == []


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
@pytest.mark.parametrize("stage", ["copying", "comparing"])
def test_what_workers_of_the_source_measure_meanwhile_is_brought_along(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, other_kind: str, stage: str
) -> None:
    source, target = make_store(kind, "source").open(), make_store(other_kind, "target").open()
    source.insert([new_job("job")])

    def measure(step: CopyStep) -> None:
        if step.stage == stage:
            source.document_store.put([Document("metrics.10s", "late", 0, "{}"), Document("alert", "a", 0, "{}")])

    finish(StoreCopy(source, target, progress=measure))
    assert [(document.key, document.value) for document in target.document_store.get("metrics.10s")] == [("late", "{}")]
    assert [document.key for document in target.document_store.get("alert")] == ["a"]


def test_documents_are_copied_though_workers_of_the_target_put_some_at_the_same_moment(
    source: Engine, target: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.document_store.put([Document("metrics.10s", str(number), 0, "ours") for number in range(5)])
    put, turns = target.document_store.put, iter([1, 3])

    def overtaken(documents: Sequence[Document]) -> bool:
        if (turn := next(turns, None)) is not None:
            put([Document("metrics.10s", str(turn), 0, "theirs")])
        return put(documents)

    monkeypatch.setattr(target.document_store, "put", overtaken)
    StoreCopy(source, target).run(0)
    assert [document.value for document in target.document_store.get("metrics.10s")] == [
        "ours",
        "theirs",
        "ours",
        "theirs",
        "ours",
    ]


def test_a_document_that_can_not_be_stored_is_reported(
    source: Engine, target: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.document_store.put([Document("rule", "lost", 0, "ours")])
    monkeypatch.setattr(target.document_store, "put", lambda documents: True)
    made = StoreCopy(source, target)
    made.run(0)
    assert [str(difference) for difference in made.verify().differences] == ["document rule lost is missing"]


CHANGES: dict[str, tuple[Callable[[Engine], object], str]] = {
    "queue paused": (lambda target: target.queries.pause_queue("mail", True), "queue mail should be open and is not"),
    "queue rules": (
        lambda target: target.rule_store.set_rules("mail", QueueRules(weight=2)),
        "queue mail should have weight=3 and has weight=2",
    ),
    "task rules": (
        lambda target: target.rule_store.set_rules("send", TaskRules(concurrency=9)),
        "task send should have paused=true and has concurrency=9",
    ),
    "no task rules": (
        lambda target: target.rule_store.set_rules("send", TaskRules()),
        "task send should have paused=true and has no rules",
    ),
    "lifecycle": (
        lambda target: override_policy(target.document_store, "task", "send", lambda _: StoredPolicy(max_age=9)),
        "lifecycle task send differs in its override policy",
    ),
    "no lifecycle": (
        lambda target: override_policy(target.document_store, "task", "send", lambda _: StoredPolicy()),
        "lifecycle task send is missing",
    ),
    "schedule gone": (lambda target: target.schedule_store.delete("tick"), "schedule tick is missing"),
    "no past": (
        lambda target: target.schedule_store.delete("tick") and target.schedule_store.put(schedule(), new=True),
        "schedule tick lacks 1 of its past runs",
    ),
    "older schedule": (
        lambda target: (
            target.schedule_store.delete("tick") and target.schedule_store.put(schedule(version=0), new=True)
        ),
        "schedule tick differs in version",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_settings_are_reported_and_corrected_by_another_run(
    source: Engine, target: Engine, change: str
) -> None:
    source.rule_store.set_rules("mail", QueueRules(weight=3))
    source.rule_store.set_rules("send", TaskRules(paused=True))
    override_policy(source.document_store, "task", "send", lambda _: StoredPolicy(max_age=7))
    source.schedule_store.put(schedule(), new=True)
    source.transfer.import_records([Occurrence("tick", 1, 2, "enqueued", "job")])
    made = StoreCopy(source, target)
    made.run(0)
    assert made.verify().differences == []
    act, expected = CHANGES[change]
    act(target)
    result = made.verify()
    assert [str(difference) for difference in result.differences] == [expected]
    assert result.kept == []
    made.run(0)
    result = made.verify()
    assert (result.differences, result.kept) == ([], [])
    assert target.schedule_store.occurrences("tick") == source.schedule_store.occurrences("tick")


def test_a_schedule_that_the_target_has_already_stays_and_is_reported(source: Engine, target: Engine) -> None:
    source.schedule_store.put(schedule("nightly", created_at=1, updated_at=1), new=True)
    source.schedule_store.put(schedule("weekly", created_at=1, updated_at=1), new=True)
    target.schedule_store.put(own := schedule("nightly", created_at=2, updated_at=2), new=True)
    made = StoreCopy(source, target)
    made.run(0)
    changed = msgspec.structs.replace(schedule("weekly", created_at=1, updated_at=1), paused=True)
    assert target.schedule_store.put(changed), "an operator at the new store"
    made.run(0)
    result = made.verify()
    assert result.differences == []
    assert [str(kept) for kept in result.kept] == [
        "schedule nightly differs in created_at, updated_at",
        "schedule weekly differs in version, paused",
    ]
    assert stored_schedule(target.schedule_store, "nightly") == own
    assert [row.paused for row in target.schedule_store.get()] == [False, True]


@pytest.mark.parametrize(("declared", "is_paused"), [("same", True), ("changed", False)])
def test_what_a_worker_declared_at_the_target_gives_way_if_it_is_the_same(
    source: Engine, target: Engine, declared: str, is_paused: bool
) -> None:
    """Workers may be started at the new store before all is there. A pause at the old one must not be lost to them."""
    source_schedule = schedule(
        "nightly", created_at=1, updated_at=5, fired=7, paused=True, origin="code", declared="same"
    )
    source.schedule_store.put(source_schedule, new=True)
    theirs = schedule("nightly", created_at=9, updated_at=9, origin="code", declared=declared)
    target.schedule_store.put(theirs, new=True)
    made = StoreCopy(source, target)
    made.run(0)
    result = made.verify()
    assert (result.differences, len(result.kept)) == ([], 0 if is_paused else 1)
    assert target.schedule_store.get() == [source_schedule if is_paused else theirs]


def test_a_store_in_use_keeps_its_settings_and_reports_which(source: Engine, target: Engine) -> None:
    for engine, weight in ((source, 2), (target, 3)):
        engine.rule_store.set_rules("mail", QueueRules(weight=weight))
        engine.rule_store.set_rules("send", TaskRules(concurrency=weight))
        replace_policies(engine.document_store, [PolicyRow("queue", "mail", override=StoredPolicy(max_age=weight))])
        engine.schedule_store.put(schedule(created_at=weight, updated_at=weight), new=True)
    source.rule_store.set_rules("other", TaskRules(paused=True))
    made = StoreCopy(source, target, into_used=True)
    made.run(0)
    result = made.verify()
    assert result.differences == []
    assert [(kept.what, kept.id) for kept in result.kept] == [
        ("queue", "mail"),
        ("task", "send"),
        ("lifecycle", "queue mail"),
        ("schedule", "tick"),
    ]
    assert target.queries.rules().tasks == [
        TaskRow("other", TaskRules(paused=True)),
        TaskRow("send", TaskRules(concurrency=3)),
    ]


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
def test_what_waits_for_what_arrives_and_goes_on(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, other_kind: str
) -> None:
    source, target = make_store(kind, "source").open(), make_store(other_kind, "target").open()
    names = ["a", "b", "c"]
    jobs = [new_job(name, state=State.WAITING if name != "a" else State.PENDING, flow="f") for name in names]
    edges = [Dependency("a", "b"), Dependency("a", "c", "hold"), Dependency("b", "c", "run")]
    source.insert(jobs, edges=edges, flow=FlowRow("f", "family", 7))
    source.insert([new_job("alone")])
    move(source, target)
    assert contents(target) == contents(source)
    assert target.flow_store.flows(9) == source.flow_store.flows(9) != []
    assert target.flow_store.edges(names) == edges
    [claim] = [claim for claim in target.exchange([], want()).claims if claim.id == "a"]
    target.exchange([succeed(claim)], None)
    assert states(target) == {"a": "completed", "b": "pending", "c": "waiting", "alone": "running"}


@pytest.mark.parametrize(("kind", "other_kind"), PAIRS, ids=lambda kind: kind)
def test_what_waits_for_a_job_whose_time_ran_out_on_the_way_is_not_left_waiting(
    make_store: Callable[[str, str], StoreUnderTest], kind: str, other_kind: str
) -> None:
    """Dependencies arrive last: a job that ended before them would have no dependents."""
    source, target = make_store(kind, "source").open(), make_store(other_kind, "target").open()
    names, now = ("lapses", "is lost"), source.clock.now()
    late = now + HOUR
    source.insert([new_job("is lost", queue="mail", max_attempts=1)])
    assert claim_from(source, "mail")
    children = [new_job(f"after {name}", state=State.WAITING) for name in names]
    edges = [Dependency(name, f"after {name}") for name in names]
    source.insert([new_job("lapses", expires_at=late), *children], edges=edges)

    def work() -> None:
        """Register as every worker does, also one that came early."""
        target.exchange([], only("no such queue"), now=late)
        target.reap(10, now=late)

    made = StoreCopy(source, target, progress=lambda step: work() if step.stage == "copying" else None)
    made.run(0)
    assert made.verify().differences == []
    assert target.flow_store.edges(names) == edges
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
    edges = [Dependency(name, f"child of {name}") for name in names]
    source.insert(
        [*children, both],
        edges=[*edges, Dependency("completed", "child of both"), Dependency("other", "child of both")],
    )
    target.insert([new_job(name, created_at=now, run_at=now) for name in names[:3]])
    ends: dict[str, Callable[[Claim], Outcome]] = {"completed": succeed, "failed": fail, "open": release}
    claims = target.exchange([], want()).claims
    target.exchange([ends[claim.id](claim) for claim in claims], None)
    made = StoreCopy(source, target, into_used=True)
    made.run(0)
    result = made.verify()
    assert (result.differences, result.taken) == ([], set(names[:3]))
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
    source.insert([new_job("child", state=State.WAITING)], edges=[Dependency("parent", "child")])
    target.transfer.set_status(StoreStatus("arriving", source.url, 0))
    target.insert([new_job("parent", created_at=1, run_at=1)])
    move(source, target)
    for name in ("parent", "child"):
        [claim] = target.exchange([], want()).claims
        assert claim.id == name
        target.exchange([succeed(claim)], None)


def test_dependencies_are_copied_also_by_a_run_that_continues_behind_them(source: Engine, target: Engine) -> None:
    edges = [Dependency(f"j{n}", f"j{n + 1}") for n in range(599)]
    source.insert([new_job(f"j{n}", state=State.WAITING if n else State.PENDING) for n in range(600)], edges=edges)
    cut_off(source, target, 300)
    move(source, target)
    assert len(target.flow_store.edges([f"j{n}" for n in range(600)])) == 599


def test_a_missing_dependency_or_flow_is_reported(source: Engine, target: Engine) -> None:
    source.insert(
        [new_job("a"), new_job("b", state=State.WAITING)], edges=[Dependency("a", "b")], flow=FlowRow("f", "family", 7)
    )
    with pytest.MonkeyPatch.context() as patch:
        real = target.transfer.import_records

        def without_dependencies(records: Sequence[Record], origin: str | None = None) -> int:
            left_out = bool(records) and isinstance(records[0], FlowRow | Dependency)
            return 0 if left_out else real(records, origin)

        patch.setattr(target.transfer, "import_records", without_dependencies)
        made = StoreCopy(source, target)
        made.run(0)
    expected = [str(difference) for difference in made.verify().differences]
    assert "dependency a -> b is missing" in expected
    assert "flow f is missing" in expected


def test_an_empty_store_can_be_moved(source: Engine, target: Engine) -> None:
    source.migrate()
    move(source, target)
    assert contents(target) == []
    assert source.transfer.store_status() is not None


@pytest.mark.slow
def test_large_jobs_are_copied_a_few_at_a_time(source: Engine, target: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    heavy = '["' + "x" * 1_000_000 + '"]'
    for start in range(0, 60, 10):
        source.insert([new_job(f"j{n}", payload=heavy if n >= 20 else "[]") for n in range(start, start + 10)])
    unpack = target.transfer.import_records
    sizes: list[int] = []

    def weighed(records: Sequence[Record], origin: str | None = None) -> int:
        if payloads := [len(record.job.payload) for record in records if isinstance(record, JobExport)]:
            sizes.append(sum(payloads))
        return unpack(records, origin)

    monkeypatch.setattr(target.transfer, "import_records", weighed)
    move(source, target)
    assert contents(target) == contents(source)
    assert max(sizes) <= 10_000_000
    assert len(sizes) < 20
