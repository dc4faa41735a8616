"""admit: of jobs with one key as many exist as their rules allow, whoever submits them and however fast."""

from __future__ import annotations

import random
import threading
from typing import Any

import msgspec
import pytest

from headrace.core.jobs.records import Filter, NewJob
from headrace.core.jobs.states import FINAL, NOT_STARTED, OPEN, State, Trigger
from headrace.core.jobs.transfer import StoreStatus
from headrace.core.jobs.unique_rules import Act, InsertResult, Kind, UniqueCondition, UniqueInsert, UniqueRule
from headrace.core.queues.limits import Limit, lane_of
from headrace.engines.protocol.engine import Engine
from headrace.errors import DuplicateJob, StoreMoved
from tests.support.builders import (
    EVERYTHING,
    HOUR,
    LATER,
    NOTHING,
    NOW,
    SECOND,
    bring,
    candidate,
    claim,
    claim_one,
    ids,
    new_job,
    only,
    retry,
    row,
    rows,
    settle,
    states,
    succeed,
    together,
)
from tests.support.builders import (
    insert_unique as insert_batch,
)
from tests.support.engines import StoreUnderTest
from tests.support.waiting import PATIENCE

THREADS = 8
ANYWHERE = (UniqueCondition(tuple(sorted(State))),)
KINDS: dict[Act, Kind] = {
    "keep": "existing",
    "refuse": "refused",
    "replace": "replaced",
    "reschedule": "rescheduled",
}
every_act = pytest.mark.parametrize("act", KINDS)
every_amendment = pytest.mark.parametrize("act", ["replace", "reschedule"])
ODD = ["", " ", "it's", 'a "b" `c`', "back\\slash", "a:b{c}*?[d]", "%s $1 :id ?", "grüße 日本語 🚰", "a\nb", "x" * 2000]


def insert_unique(
    engine: Engine, *candidates: UniqueInsert, all_or_nothing: bool = False, now: int = NOW
) -> list[tuple[str, str]]:
    jobs, rules = [candidate.job for candidate in candidates], [candidate.rule for candidate in candidates]
    results = engine.insert(jobs, unique=rules, all_or_nothing=all_or_nothing, now=now)
    return [(result.kind, result.id) for result in results]


def found(engine: Engine, **which: Any) -> list[str]:
    return [job.id for job in engine.queries.find(Filter(**which), 100).jobs]


def queue_counts(engine: Engine) -> dict[tuple[str, State], int]:
    return {(depth.queue, depth.state): depth.jobs for depth in engine.queries.queue_counts()}


# -- no conflict


@pytest.mark.parametrize("size", [1, 2, 100, 101, 600])
@pytest.mark.parametrize("all_or_nothing", [False, True])
def test_jobs_with_keys_of_their_own_are_all_new(engine: Engine, size: int, all_or_nothing: bool) -> None:
    batch = [candidate(f"j{number}", key=f"k{number}") for number in range(size)]
    assert insert_unique(engine, *batch, all_or_nothing=all_or_nothing) == [
        ("new", f"j{number}") for number in range(size)
    ]
    assert {job_id: job.unique_key for job_id, job in rows(engine).items()} == {f"j{n}": f"k{n}" for n in range(size)}


def test_to_admit_nothing_is_no_error(engine: Engine) -> None:
    assert insert_batch(engine, [], now=NOW) == []
    assert insert_batch(engine, [], all_or_nothing=True, now=NOW) == []


@pytest.mark.parametrize("rule", [None, UniqueRule(ANYWHERE)], ids=["no rule", "rule"])
def test_every_field_comes_back_as_it_was_given(engine: Engine, rule: UniqueRule | None) -> None:
    job = new_job(
        "job",
        queue="mail",
        task="send",
        run_at=LATER,
        created_at=NOW - 1,
        priority=-7,
        lifo=True,
        max_attempts=5,
        payload='[["a"],{}]',
        checksum=4_294_967_295,
        expires_at=NOW + 2 * HOUR,
        options='{"timeout":5}',
        tags=("x", "y"),
        metadata='{"tenant":1}',
        version=NOW,
        unique_key="key",
    )
    assert insert_batch(engine, [UniqueInsert(job, rule)], now=NOW) == [InsertResult("new", "job")]
    stored = msgspec.structs.asdict(row(engine))
    assert {name: stored[name] for name in NewJob.__struct_fields__} == msgspec.structs.asdict(job)
    assert found(engine, tag="y") == found(engine, queue="mail") == ["job"]
    assert [queue.name for queue in engine.queries.rules().queues] == ["mail"]
    assert engine.queries.details("job").history == []


def test_jobs_without_a_key_are_never_duplicates(engine: Engine) -> None:
    assert insert_unique(
        engine, candidate("a", "refuse", key=None), candidate("b", "refuse", key=None), all_or_nothing=True
    ) == [
        ("new", "a"),
        ("new", "b"),
    ]
    assert insert_unique(engine, candidate("c", "replace", key=None)) == [("new", "c")]


@pytest.mark.parametrize("key", ODD)
def test_any_text_is_a_key(engine: Engine, key: str) -> None:
    assert insert_unique(engine, candidate("a", key=key), candidate("b", key=f"{key}?")) == [("new", "a"), ("new", "b")]
    assert insert_unique(engine, candidate("c", key=key), candidate("d", key=f"{key}?")) == [
        ("existing", "a"),
        ("existing", "b"),
    ]
    assert row(engine, "a").unique_key == key


def test_keys_differ_by_case_and_by_trailing_space(engine: Engine) -> None:
    keys = ["a", "A", "a ", "á", "a\u0301"]
    batch = [candidate(f"j{number}", key=key) for number, key in enumerate(keys)]
    assert {kind for kind, _ in insert_unique(engine, *batch)} == {"new"}


@pytest.mark.parametrize("way", ["get", "find", "peek", "insert"])
def test_the_key_is_told_with_the_job(engine: Engine, way: str) -> None:
    job = new_job("job", unique_key="key")
    if way == "insert":
        engine.insert([job, new_job("without")], now=NOW)
        assert row(engine, "without").unique_key is None
    else:
        insert_unique(engine, UniqueInsert(job))
    queries = engine.queries
    jobs = {"find": lambda: queries.find(EVERYTHING, 1, None).jobs, "peek": lambda: queries.peek("default", 10)}
    stored = jobs.get(way, lambda: queries.get(["job"]))()
    assert [each.unique_key for each in stored] == ["key"]


def test_a_job_without_a_rule_is_stored_whatever_has_its_key(engine: Engine) -> None:
    insert_unique(engine, candidate("a"))
    assert insert_unique(engine, UniqueInsert(new_job("b", unique_key="key"))) == [("new", "b")]
    assert insert_unique(engine, UniqueInsert(new_job("b", unique_key="key"))) == [("taken", "b")]
    with pytest.raises(DuplicateJob, match="b"):
        insert_batch(engine, [UniqueInsert(new_job("c")), UniqueInsert(new_job("b"))], all_or_nothing=True, now=NOW)
    assert sorted(rows(engine)) == ["a", "b"]


def test_a_job_that_was_only_inserted_has_its_key_as_well(engine: Engine) -> None:
    engine.insert([new_job("a", unique_key="key")], now=NOW)
    assert insert_unique(engine, candidate("b")) == [("existing", "a")]


# -- each act, each state


@pytest.mark.parametrize("state", sorted(State))
@every_act
def test_what_an_act_does_to_a_job_in_any_state(engine: Engine, act: Act, state: State) -> None:
    bring(engine, state, "there", unique_key="key", payload='["old"]')
    before, filed = row(engine, "there"), engine.queries.details("there").history
    new = candidate("new", act, where=(UniqueCondition((state,)),), queue="elsewhere", payload='["new"]')
    updates = act in ("replace", "reschedule")
    kind = "existing" if updates and state not in NOT_STARTED else KINDS[act]
    assert insert_unique(engine, new, now=NOW + SECOND) == [(kind, "there")]
    assert list(rows(engine)) == ["there"], "the new one is not stored"
    if kind in ("existing", "refused"):
        assert row(engine, "there") == before
        assert engine.queries.details("there").history == filed
        assert [queue.name for queue in engine.queries.rules().queues] == ["default"]
    else:
        after = row(engine, "there")
        assert after.payload == ('["new"]' if act == "replace" else '["old"]')
        assert after.queue == ("elsewhere" if act == "replace" else "default")
        assert (after.version, after.run_at) == (before.version + 1, NOW)
        entry = engine.queries.details("there").history[-1]
        assert (entry.event, entry.at, entry.source, entry.target) == (Trigger.UPDATE, NOW + SECOND, state, after.state)
        assert len(engine.queries.details("there").history) == len(filed) + 1


@pytest.mark.parametrize("state", sorted(State))
@every_act
def test_a_job_in_a_state_that_is_not_named_is_no_conflict(engine: Engine, act: Act, state: State) -> None:
    bring(engine, state, "there", unique_key="key")
    before = row(engine, "there")
    others = UniqueCondition(tuple(sorted(set(State) - {state})))
    assert insert_unique(engine, candidate("new", act, where=(others,)), all_or_nothing=True) == [("new", "new")]
    assert row(engine, "there") == before


def test_a_rule_without_conditions_never_applies(engine: Engine) -> None:
    insert_unique(engine, candidate("a"))
    assert insert_unique(engine, candidate("b", "refuse", where=()), all_or_nothing=True) == [("new", "b")]


def test_a_key_is_one_for_all_queues_and_tasks(engine: Engine) -> None:
    insert_unique(engine, candidate("a", queue="x", task="one"))
    assert insert_unique(engine, candidate("b", queue="y", task="two")) == [("existing", "a")]


# -- conditions

COMPLETED_HOUR = UniqueCondition((State.COMPLETED,), created_since=NOW - HOUR)


@pytest.mark.parametrize(("age", "conflict"), [(0, True), (HOUR, True), (HOUR + 1, False)])
@pytest.mark.parametrize("state", [State.PENDING, State.COMPLETED])
def test_a_job_counts_for_a_time_from_its_creation(engine: Engine, state: State, age: int, conflict: bool) -> None:
    bring(engine, state, "there", unique_key="key", created_at=NOW - age, run_at=NOW - age)
    condition = UniqueCondition((state,), created_since=NOW - HOUR)
    assert insert_unique(engine, candidate("new", where=(condition,))) == [
        ("existing", "there") if conflict else ("new", "new")
    ]


@pytest.mark.parametrize(("since", "conflict"), [(NOW - 1, True), (NOW, True), (NOW + 1, False)])
@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_finished_job_counts_for_a_time_from_its_end(
    engine: Engine, state: State, since: int, conflict: bool
) -> None:
    bring(engine, state, "there", unique_key="key", created_at=NOW - HOUR)
    assert row(engine, "there").finished_at == NOW
    condition = UniqueCondition((state,), finished_since=since)
    assert insert_unique(engine, candidate("new", where=(condition,))) == [
        ("existing", "there") if conflict else ("new", "new")
    ]


@pytest.mark.parametrize(
    ("created_since", "finished_since", "conflict"),
    [(NOW - HOUR, NOW, True), (NOW - HOUR, NOW + 1, False), (NOW, NOW, False), (NOW, NOW + 1, False)],
)
def test_both_ages_must_fit(engine: Engine, created_since: int, finished_since: int, conflict: bool) -> None:
    bring(engine, State.COMPLETED, "there", unique_key="key", created_at=NOW - HOUR)
    condition = UniqueCondition((State.COMPLETED,), created_since, finished_since)
    assert insert_unique(engine, candidate("new", where=(condition,))) == [
        ("existing", "there") if conflict else ("new", "new")
    ]


@pytest.mark.parametrize(
    ("state", "age", "conflict"),
    [
        (State.PENDING, 9 * HOUR, True),
        (State.RUNNING, 9 * HOUR, True),
        (State.COMPLETED, HOUR, True),
        (State.COMPLETED, HOUR + 1, False),
        (State.FAILED, 0, False),
    ],
)
def test_any_of_several_conditions_is_enough(engine: Engine, state: State, age: int, conflict: bool) -> None:
    bring(engine, state, "there", unique_key="key", created_at=NOW - age, run_at=NOW - age)
    where = (UniqueCondition(tuple(sorted(OPEN))), COMPLETED_HOUR)
    assert insert_unique(engine, candidate("new", where=where)) == [
        ("existing", "there") if conflict else ("new", "new")
    ]
    assert insert_unique(engine, candidate("newer", where=where[::-1], created_at=NOW)) == [
        ("existing", "there") if conflict else ("existing", "new")
    ]


@every_act
def test_of_several_the_newest_that_meets_a_condition_is_meant(engine: Engine, act: Act) -> None:
    for number, created_at in enumerate((NOW - 1, NOW + 1, NOW)):  # the order of submission tells, not the clock
        engine.insert([new_job(f"j{number}", unique_key="key", created_at=created_at, run_at=LATER)], now=NOW)
    engine.insert([new_job("done", unique_key="key", priority=9), new_job("other", unique_key="other")], now=NOW)
    assert settle(engine, succeed(claim_one(engine))) == []
    assert insert_unique(engine, candidate("new", act)) == [(KINDS[act], "j2")]
    changed = [job_id for job_id, job in rows(engine).items() if job.id.startswith("j") and job.version != 1]
    assert changed == (["j2"] if act in ("replace", "reschedule") else [])


@every_amendment
def test_the_newest_stands_even_if_an_older_one_could_be_amended(engine: Engine, act: Act) -> None:
    engine.insert([new_job("older", unique_key="key", run_at=LATER)], now=NOW)
    bring(engine, State.RUNNING, "newer", unique_key="key")
    assert insert_unique(engine, candidate("new", act)) == [("existing", "newer")]
    assert insert_unique(engine, candidate("new", act, where=(UniqueCondition((State.SCHEDULED,)),))) == [
        (KINDS[act], "older")
    ]


# -- a key is held by its job and by nothing else


def test_a_deleted_job_frees_its_key(engine: Engine) -> None:
    insert_unique(engine, candidate("a", where=ANYWHERE))
    engine.queries.move(EVERYTHING, Trigger.DELETE, 1, now=NOW)
    assert insert_unique(engine, candidate("b", where=ANYWHERE)) == [("new", "b")]
    assert insert_unique(engine, candidate("a", where=ANYWHERE)) == [("existing", "b")]


@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_finished_job_frees_its_key_unless_its_state_is_named(engine: Engine, state: State) -> None:
    bring(engine, state, "a", unique_key="key")
    assert insert_unique(engine, candidate("b", where=ANYWHERE)) == [("existing", "a")]
    assert insert_unique(engine, candidate("b")) == [("new", "b")]


def test_a_job_keeps_its_key_through_its_life(engine: Engine) -> None:
    def holds() -> bool:
        return row(engine, "a").unique_key == "key" and insert_unique(engine, candidate("b")) == [("existing", "a")]

    insert_unique(engine, candidate("a"))
    assert holds()
    claimed = claim_one(engine)
    assert holds()
    settle(engine, retry(claimed, LATER))
    assert holds()
    engine.exchange([], NOTHING, now=LATER)
    assert holds()
    settle(engine, succeed(claim_one(engine, now=LATER)))
    assert row(engine, "a").unique_key == "key"
    engine.queries.move(EVERYTHING, Trigger.REVIVE, 1, now=LATER)
    assert holds()


def test_a_key_survives_the_engine(store: StoreUnderTest) -> None:
    first = store.open()
    insert_unique(first, candidate("a"))
    first.close()
    assert insert_unique(store.open(), candidate("b")) == [("existing", "a")]
    assert insert_unique(first, candidate("c")) == [("existing", "a")]


def test_a_key_is_carried_to_another_store(engine: Engine, target: Engine) -> None:
    insert_unique(engine, candidate("a"), UniqueInsert(new_job("b")))
    assert [job_export.job.unique_key for job_export in engine.transfer.export_jobs(0, 10)] == ["key", None]
    target.transfer.import_records(engine.transfer.export_jobs(0, 10))
    assert {job_id: job.unique_key for job_id, job in rows(target).items()} == {"a": "key", "b": None}
    assert insert_unique(target, candidate("c"), candidate("d", "replace", payload="[1]")) == [
        ("existing", "a"),
        ("replaced", "a"),
    ]


# -- taken ids


@every_act
@pytest.mark.parametrize("key", ["key", "other", None])
def test_a_taken_id_is_told_before_anything_else(engine: Engine, act: Act, key: str | None) -> None:
    """A submission repeated after a lost reply finds itself, and must not replace or refuse itself."""
    insert_unique(engine, candidate("a", run_at=LATER), candidate("b", key="other"))
    before = rows(engine)
    assert insert_unique(engine, candidate("a", act, key=key, payload='["new"]')) == [("taken", "a")]
    with pytest.raises(DuplicateJob) as caught:
        insert_batch(engine, [candidate("c", key="c"), candidate("a", act, key=key)], all_or_nothing=True, now=NOW)
    assert caught.value.job_id == "a"
    assert rows(engine) == before


# -- batches


def test_one_candidate_may_be_the_duplicate_of_another(engine: Engine) -> None:
    batch = [candidate("a"), candidate("b"), candidate("c", key="other"), candidate("d", "refuse"), candidate("e")]
    assert insert_unique(engine, *batch) == [
        ("new", "a"),
        ("existing", "a"),
        ("new", "c"),
        ("refused", "a"),
        ("existing", "a"),
    ]
    assert sorted(rows(engine)) == ["a", "c"]


def test_one_candidate_may_replace_another(engine: Engine) -> None:
    batch = [
        candidate("a", payload="[1]", tags=("one",)),
        candidate("b", "replace", payload="[2]", tags=("two",), queue="mail"),
        candidate("c", "reschedule", payload="[3]", run_at=LATER),
    ]
    assert insert_unique(engine, *batch) == [("new", "a"), ("replaced", "a"), ("rescheduled", "a")]
    after = row(engine, "a")
    assert (after.payload, after.queue, after.state, after.run_at) == ("[2]", "mail", State.SCHEDULED, LATER)
    assert (found(engine, tag="one"), found(engine, tag="two")) == ([], ["a"])
    assert queue_counts(engine) == {("mail", State.SCHEDULED): 1}


def test_a_candidate_whose_id_is_taken_does_not_hold_its_key(engine: Engine) -> None:
    engine.insert([new_job("taken")], now=NOW)
    assert insert_unique(engine, candidate("taken"), candidate("a"), candidate("b")) == [
        ("taken", "taken"),
        ("new", "a"),
        ("existing", "a"),
    ]


def test_a_candidate_finds_what_an_earlier_one_has_changed(engine: Engine) -> None:
    insert_unique(engine, candidate("a", run_at=LATER))
    pending, scheduled = (UniqueCondition((State.PENDING,)),), (UniqueCondition((State.SCHEDULED,)),)
    batch = [candidate("b", "reschedule"), candidate("c", where=pending), candidate("d", where=scheduled, run_at=LATER)]
    assert insert_unique(engine, *batch) == [("rescheduled", "a"), ("existing", "a"), ("new", "d")]


def some_candidates(chance: random.Random, name: str) -> list[UniqueInsert]:
    """Candidates that get in each other's way: few keys, few ids, every act, every time."""
    open_states = [State.PENDING, State.SCHEDULED]
    return [
        candidate(
            f"{name}-{chance.randrange(10)}",
            chance.choice(list(KINDS)),
            key=f"{name} {chance.randrange(2)}",
            where=(UniqueCondition(tuple(sorted(chance.sample(open_states, chance.randrange(1, 3))))),),
            run_at=chance.choice([NOW, LATER, LATER + HOUR]),
            queue=chance.choice(["default", "mail"]),
            payload=f"[{place}]",
            tags=chance.choice([(), ("t",), ("u", "v")]),
            priority=chance.randrange(3),
        )
        for place in range(8)
    ]


@pytest.mark.slow_on("postgres")
@pytest.mark.parametrize("seed", range(4))
def test_a_batch_is_admitted_as_its_candidates_would_be_one_after_the_other(
    engine: Engine, target: Engine, seed: int
) -> None:
    chance = random.Random(seed)
    for turn in range(15):
        batch = some_candidates(chance, f"{turn}")
        there = [each.job for each in some_candidates(chance, f"{turn}")[:3]]
        engine.insert(there, now=NOW)
        target.insert(there, now=NOW)
        assert insert_unique(engine, *batch) == [result for each in batch for result in insert_unique(target, each)], (
            batch
        )

    def as_they_are(store: Engine) -> list[Any]:
        jobs = sorted(rows(store).values(), key=lambda job: job.id)
        return [msgspec.structs.replace(job, seq=0, version=0, updated_at=None) for job in jobs]  # or how many of them

    assert as_they_are(engine) == as_they_are(target)
    assert found(engine, tag="u") == found(target, tag="u")
    assert queue_counts(engine) == queue_counts(target)


def test_hundreds_of_duplicates_in_one_batch_are_one_job(engine: Engine) -> None:
    batch = [candidate(f"j{number}") for number in range(500)]
    assert insert_unique(engine, *batch) == [("new", "j0")] + [("existing", "j0")] * 499
    assert list(rows(engine)) == ["j0"]


def test_rules_and_none_may_be_mixed(engine: Engine) -> None:
    batch = [
        UniqueInsert(new_job("plain", tags=("t",))),
        candidate("a", queue="mail"),
        UniqueInsert(new_job("plain")),
        candidate("b", "refuse"),
        UniqueInsert(new_job("keyed", unique_key="key")),
        candidate("c"),
    ]
    assert insert_unique(engine, *batch) == [
        ("new", "plain"),
        ("new", "a"),
        ("taken", "plain"),
        ("refused", "a"),
        ("new", "keyed"),
        ("existing", "keyed"),
    ]
    assert sorted(rows(engine)) == ["a", "keyed", "plain"]
    assert found(engine, tag="t") == ["plain"]


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_whole_stores_nothing_when_one_is_refused(engine: Engine, place: int) -> None:
    insert_unique(
        engine, candidate("there"), candidate("mine", key="mine", payload='["old"]', tags=("old",), run_at=LATER)
    )
    before = rows(engine)
    batch = [
        candidate("a", key="a", tags=("t",)),
        candidate("b", "replace", key="mine", queue="unheard of", payload='["new"]', tags=("t",)),
        UniqueInsert(new_job("c", queue="unheard of")),
    ]
    batch.insert(place, candidate("d", "refuse"))
    with pytest.raises(DuplicateJob) as caught:
        insert_batch(engine, batch, all_or_nothing=True, now=NOW)
    assert caught.value.job_id == "there"
    assert rows(engine) == before
    assert engine.queries.details("mine").history == []
    assert (found(engine, tag="t"), found(engine, tag="old")) == ([], ["mine"])
    assert [queue.name for queue in engine.queries.rules().queues] == ["default"]
    assert [kind for kind, _ in insert_unique(engine, *batch)].count("refused") == 1


def test_whole_refuses_a_duplicate_within_the_batch(engine: Engine) -> None:
    with pytest.raises(DuplicateJob) as caught:
        insert_batch(engine, [candidate("a", "refuse"), candidate("b", "refuse")], all_or_nothing=True, now=NOW)
    assert caught.value.job_id == "a"
    assert rows(engine) == {}


def test_whole_does_not_mind_what_is_kept_or_amended(engine: Engine) -> None:
    insert_unique(engine, candidate("a"), candidate("b", key="b"), candidate("c", key="c"))
    batch = [
        candidate("x"),
        candidate("y", "replace", key="b"),
        candidate("z", "reschedule", key="c", run_at=LATER),
        candidate("new", "refuse", key="new"),
    ]
    assert insert_unique(engine, *batch, all_or_nothing=True) == [
        ("existing", "a"),
        ("replaced", "b"),
        ("rescheduled", "c"),
        ("new", "new"),
    ]


# -- replace


def test_a_replaced_job_has_everything_of_the_new_one_but_its_id_and_its_past(engine: Engine) -> None:
    old = new_job("a", unique_key="key", tags=("old", "both"), expires_at=NOW + 1, options="{}")
    engine.insert([old], now=NOW)
    new = new_job(
        "b",
        unique_key="key",
        queue="mail",
        task="send",
        run_at=LATER,
        created_at=NOW + SECOND,
        priority=5,
        lifo=True,
        max_attempts=9,
        payload='["new"]',
        checksum=8,
        expires_at=LATER + HOUR,
        options='{"timeout":5}',
        tags=("both", "new"),
        metadata='{"tenant":1}',
    )
    assert insert_unique(engine, UniqueInsert(new, UniqueRule(ANYWHERE, "replace"))) == [("replaced", "a")]
    after = msgspec.structs.asdict(row(engine, "a"))
    expected = msgspec.structs.asdict(msgspec.structs.replace(new, id="a", created_at=NOW, version=2))
    assert {name: after[name] for name in expected} == expected
    assert (after["attempt"], after["worker"], after["finished_at"]) == (0, None, None)
    assert (found(engine, tag="old"), found(engine, tag="both"), found(engine, tag="new")) == ([], ["a"], ["a"])
    assert (found(engine, queue="default"), found(engine, queue="mail")) == ([], ["a"])
    assert (found(engine, task="work"), found(engine, task="send")) == ([], ["a"])
    assert (found(engine, text="tenant"), found(engine, states=(State.PENDING,))) == (["a"], [])
    assert queue_counts(engine) == {("mail", State.SCHEDULED): 1}
    assert [queue.name for queue in engine.queries.rules().queues] == ["default", "mail"]


def test_a_replaced_job_loses_what_the_new_one_does_not_have(engine: Engine) -> None:
    rich = new_job("a", unique_key="key", tags=("t",), expires_at=NOW + SECOND, options="{}", metadata="{}", priority=9)
    engine.insert([rich], now=NOW)
    assert insert_unique(engine, candidate("b", "replace")) == [("replaced", "a")]
    after = row(engine, "a")
    assert (after.tags, after.expires_at, after.options, after.metadata, after.priority) == (None, None, None, None, 0)
    assert found(engine, tag="t") == []
    assert ids(claim(engine, now=NOW + HOUR)) == ["a"], "it no longer expires"


@pytest.mark.parametrize("state", sorted(NOT_STARTED - {State.WAITING}))
def test_a_replaced_job_is_claimed_as_the_new_one_would_be(engine: Engine, state: State) -> None:
    bring(engine, state, "a", unique_key="key", payload='["old"]')
    attempts = row(engine, "a").attempt
    assert insert_unique(engine, candidate("b", "replace", queue="mail", payload='["new"]', checksum=8)) == [
        ("replaced", "a")
    ]
    assert row(engine, "a").state is State.PENDING
    assert [job.id for job in engine.queries.peek("mail", 10)] == ["a"]
    assert engine.exchange([], only("default"), now=LATER + HOUR).claims == []
    (claimed,) = engine.exchange([], only("mail"), now=NOW).claims
    assert (claimed.id, claimed.payload, claimed.checksum, claimed.attempt) == ("a", '["new"]', 8, attempts + 1)
    assert settle(engine, succeed(claimed)) == []


@pytest.mark.parametrize("state", sorted(NOT_STARTED - {State.WAITING}))
def test_a_job_replaced_by_a_later_one_waits_for_its_time(engine: Engine, state: State) -> None:
    bring(engine, state, "a", unique_key="key")
    assert insert_unique(engine, candidate("b", "replace", run_at=LATER + HOUR)) == [("replaced", "a")]
    assert row(engine, "a").state in (State.SCHEDULED, State.RETRYING)
    assert claim(engine, now=LATER + HOUR - 1) == []
    assert ids(claim(engine, now=LATER + HOUR)) == ["a"]


def test_a_replaced_job_takes_the_new_ones_place_in_the_order(engine: Engine) -> None:
    insert_unique(engine, candidate("a", priority=9))
    engine.insert([new_job("b", priority=5), new_job("c", priority=1)], now=NOW)
    insert_unique(engine, candidate("new", "replace", priority=3))
    assert ids(claim(engine)) == ["b", "a", "c"]


def test_of_several_of_one_batch_each_counts_for_those_behind_it(engine: Engine) -> None:
    """Not only the newest of them: what is asked for may be in another state."""
    pending, over = (UniqueCondition((State.PENDING,)),), (UniqueCondition((State.COMPLETED,)),)
    batch = [
        candidate("first", where=over),
        candidate("later", where=over, run_at=LATER),
        candidate("same", where=pending),
        candidate("refused", "refuse", where=pending),
        candidate("new", "replace", where=pending, payload='["new"]'),
    ]
    kinds = [("new", "first"), ("new", "later"), ("existing", "first"), ("refused", "first"), ("replaced", "first")]
    assert insert_unique(engine, *batch) == kinds
    assert row(engine, "first").payload == '["new"]'


# -- reschedule


@pytest.mark.parametrize(
    ("state", "run_at", "target"),
    [
        (State.PENDING, LATER, State.SCHEDULED),
        (State.PENDING, NOW, State.PENDING),
        (State.SCHEDULED, LATER + HOUR, State.SCHEDULED),
        (State.SCHEDULED, NOW, State.PENDING),
        (State.RETRYING, LATER + HOUR, State.RETRYING),
        (State.RETRYING, NOW, State.PENDING),
        (State.WAITING, LATER, State.WAITING),
        (State.WAITING, NOW, State.WAITING),
    ],
)
def test_a_rescheduled_job_has_the_state_that_fits_its_time(
    engine: Engine, state: State, run_at: int, target: State
) -> None:
    bring(engine, state, "a", unique_key="key")
    assert insert_unique(engine, candidate("b", "reschedule", run_at=run_at)) == [("rescheduled", "a")]
    after = row(engine, "a")
    assert (after.state, after.run_at, after.rank) == (target, run_at, run_at)
    if run_at > NOW:
        assert claim(engine, now=run_at - 1) == []
    assert ids(claim(engine, now=run_at)) == ([] if target is State.WAITING else ["a"])


def test_a_rescheduled_job_has_nothing_but_the_time_of_the_new_one(engine: Engine) -> None:
    old = new_job("a", unique_key="key", tags=("old",), lifo=True, priority=3, expires_at=LATER + HOUR, options="{}")
    engine.insert([old], now=NOW)
    before = row(engine, "a")
    new = candidate(
        "b", "reschedule", run_at=LATER, tags=("new",), queue="mail", task="send", priority=9, metadata="{}"
    )
    assert insert_unique(engine, new) == [("rescheduled", "a")]
    expected = msgspec.structs.replace(
        before, version=2, run_at=LATER, rank=-LATER, state=State.SCHEDULED, updated_at=NOW
    )
    assert row(engine, "a") == expected
    assert (found(engine, tag="old"), found(engine, tag="new")) == (["a"], [])
    assert [queue.name for queue in engine.queries.rules().queues] == ["default"]


# -- versions, bells, the notice


@every_amendment
def test_an_old_version_cannot_settle_an_amended_job(engine: Engine, act: Act) -> None:
    lease = bring(engine, State.RETRYING, "a", unique_key="key")
    assert insert_unique(engine, candidate("b", act)) == [(KINDS[act], "a")]
    claimed = claim_one(engine)
    assert [outcome.id for outcome in settle(engine, succeed(lease))] == ["a"]
    assert row(engine, "a").state is State.RUNNING
    assert settle(engine, succeed(claimed)) == []


@every_amendment
def test_a_running_job_stands_and_its_worker_settles_it(engine: Engine, act: Act) -> None:
    insert_unique(engine, candidate("a"))
    claimed = claim_one(engine)
    assert insert_unique(engine, candidate("b", act)) == [("existing", "a")]
    assert settle(engine, succeed(claimed)) == []


def test_a_later_version_of_an_id_does_not_become_the_replaced_jobs(engine: Engine) -> None:
    insert_unique(engine, candidate("a"))
    insert_unique(engine, candidate("b", "replace", version=NOW))
    assert row(engine, "a").version == 2


@pytest.mark.parametrize("act", ["new", "replace", "reschedule"])
@pytest.mark.parametrize("queues", [(), ("mail",)], ids=["all queues", "one queue"])
def test_what_may_be_claimed_wakes_the_workers(store: StoreUnderTest, act: str, queues: tuple[str, ...]) -> None:
    listening, acting = store.open(), store.open()
    if act != "new":
        insert_unique(acting, candidate("a", queue="mail", run_at=LATER))
    bell = listening.listen("work", queues)
    bell.wait(0)
    insert_unique(acting, candidate("b", "keep" if act == "new" else act, queue="mail"))  # type: ignore[arg-type]
    assert bell.wait(PATIENCE)
    assert len(claim(listening)) == 1
    bell.close()


@every_act
@pytest.mark.parametrize("all_or_nothing", [False, True])
def test_nobody_is_admitted_at_a_store_that_has_moved(store: StoreUnderTest, act: Act, all_or_nothing: bool) -> None:
    engine, producer = store.open(), store.open()
    insert_unique(producer, candidate("a", run_at=LATER))
    before = rows(engine)
    engine.transfer.set_status(StoreStatus("moved", "redis://elsewhere/0", NOW))
    for new in (candidate("b", act), candidate("c", act, key="other", queue="unheard of"), UniqueInsert(new_job("d"))):
        with pytest.raises(StoreMoved, match="redis://elsewhere/0"):
            insert_batch(producer, [new], all_or_nothing=all_or_nothing, now=NOW)
    assert rows(engine) == before
    assert [queue.name for queue in engine.queries.rules().queues] == ["default"]
    engine.transfer.set_status(StoreStatus("arriving", "redis://elsewhere/0", NOW))
    assert insert_unique(producer, candidate("b", key="other")) == [("new", "b")]


# -- at the same moment


@pytest.mark.slow_on("postgres")
def test_of_many_with_the_same_key_one_is_new_and_all_others_name_it(store: StoreUnderTest) -> None:
    engines = [store.open() for _ in range(THREADS)]

    def submit(number: int) -> list[tuple[str, str]]:
        return [
            result for turn in range(50) for result in insert_unique(engines[number], candidate(f"{number}-{turn}"))
        ]

    results = [result for some in together(THREADS, submit) for result in some]
    (winner,) = (job_id for kind, job_id in results if kind == "new")
    assert sorted(results) == [("existing", winner)] * (THREADS * 50 - 1) + [("new", winner)]
    assert list(rows(engines[0])) == [winner]


@pytest.mark.slow_on("postgres")
@every_amendment
def test_amendments_at_once_are_all_counted(store: StoreUnderTest, act: Act) -> None:
    engines = [store.open() for _ in range(4)]

    def submit(number: int) -> list[str]:
        return [
            kind
            for turn in range(20)
            for kind, _ in insert_unique(engines[number], candidate(f"{number}-{turn}", act, run_at=LATER + turn))
        ]

    kinds = [kind for some in together(4, submit) for kind in some]
    assert sorted(kinds) == sorted(["new"] + [KINDS[act]] * 79)
    (only_one,) = rows(engines[0]).values()
    assert only_one.version == 80
    assert [entry.version for entry in engines[0].queries.details(only_one.id).history] == list(range(2, 81))


def test_batches_with_the_keys_in_any_order_do_not_block_each_other(store: StoreUnderTest) -> None:
    engines = [store.open() for _ in range(4)]

    def submit(number: int) -> list[tuple[str, str]]:
        order = random.Random(number)
        results: list[tuple[str, str]] = []
        for turn in range(12):
            keys = order.sample(range(10), 10)
            batch = [candidate(f"{number}-{turn}-{key}", key=f"{turn}-{key}", run_at=LATER) for key in keys]
            results += insert_unique(engines[number], *batch, all_or_nothing=bool(turn % 2))
        return results

    results = [result for some in together(4, submit) for result in some]
    new = sorted(job_id for kind, job_id in results if kind == "new")
    assert new == sorted(rows(engines[0]))
    assert len({job.unique_key for job in rows(engines[0]).values()}) == len(new) == 120
    assert {job_id for kind, job_id in results if kind == "existing"} <= set(new)


@pytest.mark.slow_on("postgres")
def test_while_workers_finish_them_there_is_never_more_than_one_open(store: StoreUnderTest) -> None:
    engines = [store.open() for _ in range(4)]
    worker, done = store.open(), threading.Semaphore(0)

    def act(number: int) -> list[str]:
        if number < 4:
            try:
                return [
                    job
                    for turn in range(40)
                    for kind, job in insert_unique(engines[number], candidate(f"{number}-{turn}"))
                    if kind == "new"
                ]
            finally:
                done.release()
        finished: list[str] = []
        producers = 4
        while producers:
            producers -= done.acquire(blocking=False)
            finished += finish_what_is_there()
        return finished + finish_what_is_there()

    def finish_what_is_there() -> list[str]:
        claims = claim(worker)
        assert len(claims) <= 1
        assert settle(worker, *(succeed(claimed) for claimed in claims)) == []
        return ids(claims)

    *submitted, finished = together(5, act)
    assert sorted(job_id for some in submitted for job_id in some) == sorted(finished)
    assert set(states(worker).values()) == {State.COMPLETED}


def test_a_replaced_job_waits_in_the_lane_of_the_new_one(engine: Engine) -> None:
    insert_unique(engine, candidate("a", lane=lane_of([Limit("key", "old")])))
    assert insert_unique(engine, candidate("b", "replace", lane=lane_of([Limit("needs", "gpu")]))) == [
        ("replaced", "a")
    ]
    assert row(engine, "a").lane == lane_of([Limit("needs", "gpu")])
    assert claim(engine) == []
