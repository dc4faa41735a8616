"""insert: what was accepted is stored once, whole, verbatim and in order."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headrace.core.jobs.records import Filter, NewJob
from headrace.core.jobs.states import State, Trigger
from headrace.engines.protocol.engine import Engine
from headrace.errors import DuplicateJob
from tests.support.builders import (
    EVERYTHING,
    HOUR,
    NOW,
    claim,
    ids,
    kinds,
    new_job,
    only,
    row,
    rows,
)

NASTY = [
    "plain",
    "",
    " leading and trailing ",
    'it\'s "quoted" and `ticked`',
    "back\\slash \\u0041 \\n",
    "line\nbreak\ttab\r",
    "\x01\x1f\x7f\u2028\u2029\ufeff",
    "grüße 日本語 🚰 e\u0301",
    "'; DROP TABLE headrace_jobs; --",
    '") OR 1=1; DELETE FROM headrace_jobs --',
    "%s ? :id $1 {Claim} o.id @x",
    '{"$type": "evil", "a": [null, 1e400]}',
    "[1, 2",
    "null",
    "x" * 100_000,
]


@pytest.mark.parametrize("size", [1, 2, 99, 100, 101, 1000])
def test_every_job_of_a_batch_is_stored_and_called_new(engine: Engine, size: int) -> None:
    jobs = [new_job(f"j{number}") for number in range(size)]
    assert kinds(engine.insert(jobs, now=NOW)) == ["new"] * size
    assert engine.queries.count(EVERYTHING).jobs == size


def test_an_empty_batch_is_no_error(engine: Engine) -> None:
    assert engine.insert([], now=NOW) == []
    assert engine.queries.count(EVERYTHING).jobs == 0


@pytest.mark.parametrize("companions", [0, 1])
def test_every_field_comes_back_as_it_was_given(engine: Engine, companions: int) -> None:
    job = new_job(
        "job",
        queue="mail",
        task="send",
        run_at=NOW + HOUR,
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
    )
    engine.insert([job, *(new_job(f"other{number}") for number in range(companions))], now=NOW)
    stored = msgspec.structs.asdict(row(engine))
    assert {name: stored[name] for name in NewJob.__struct_fields__} == msgspec.structs.asdict(job)


def test_jobs_of_a_batch_that_differ_in_one_field_keep_it_to_themselves(engine: Engine) -> None:
    """A store may write what jobs have in common once for all of them."""
    differences: list[dict[str, Any]] = [
        {"task": "send"},
        {"queue": "mail"},
        {"state": State.WAITING},
        {"priority": 9},
        {"rank": NOW - 5},
        {"payload": '["x"]'},
        {"checksum": 8},
        {"created_at": NOW - 1},
        {"run_at": NOW - 2},
        {"max_attempts": 9},
        {"expires_at": NOW + HOUR},
        {"options": '{"timeout":5}'},
        {"tags": '["x"]'},
        {"metadata": '{"tenant":1}'},
        {"version": NOW},
        {"unique_key": "key"},
        {"lane": '["c:task work"]'},
    ]
    plain = new_job()
    unlike = [msgspec.structs.replace(plain, **fields) for fields in differences]
    jobs = [job for one in unlike for job in (one, plain)]  # it ends with that job, too
    jobs = [msgspec.structs.replace(job, id=f"{place:02}") for place, job in enumerate(jobs)]
    engine.insert(jobs, now=NOW)
    for job in jobs:
        stored = msgspec.structs.asdict(row(engine, job.id))
        assert {name: stored[name] for name in NewJob.__struct_fields__} == msgspec.structs.asdict(job)


@pytest.mark.parametrize("companions", [0, 1])
def test_a_new_job_has_no_past(engine: Engine, companions: int) -> None:
    engine.insert([new_job("job"), *(new_job(f"other{number}") for number in range(companions))], now=NOW)
    stored = row(engine)
    assert (stored.version, stored.attempt, stored.crashes, stored.releases) == (1, 0, 0, 0)
    empty = ("started_at", "finished_at", "worker", "lease_until", "result", "result_checksum", "progress", "reason")
    assert [getattr(stored, name) for name in empty] == [None] * len(empty)
    assert engine.queries.details("job").history == []


@pytest.mark.parametrize("state", [State.PENDING, State.SCHEDULED, State.WAITING])
def test_a_job_is_born_in_any_state_of_submit(engine: Engine, state: State) -> None:
    engine.insert([new_job("job", state=state, run_at=NOW + HOUR)], now=NOW)
    assert row(engine).state is state


def test_a_repeated_insert_after_a_lost_reply_changes_nothing(engine: Engine) -> None:
    engine.insert([new_job("job", payload='["first"]', tags=("one",))], now=NOW)
    before = row(engine)
    again = new_job("job", payload='["second"]', queue="other", tags=("two",))
    assert kinds(engine.insert([again], now=NOW)) == ["taken"]
    assert row(engine) == before
    assert engine.queries.count(Filter(tag="two")).jobs == 0


def test_taken_ids_in_a_batch_do_not_keep_the_others_out(engine: Engine) -> None:
    engine.insert([new_job("b", payload='["old"]')], now=NOW)
    batch = [new_job("a"), new_job("b", payload='["new"]', tags=("t",)), new_job("c", tags=("t",))]
    assert kinds(engine.insert(batch, now=NOW)) == ["new", "taken", "new"]
    assert row(engine, "b").payload == '["old"]'
    assert [job.id for job in engine.queries.find(Filter(tag="t"), 10).jobs] == ["c"]


def test_of_an_id_repeated_within_a_batch_the_first_is_stored(engine: Engine) -> None:
    batch = [new_job("a", payload="[1]"), new_job("a", payload="[2]"), new_job("b"), new_job("a", payload="[3]")]
    assert kinds(engine.insert(batch, now=NOW)) == ["new", "taken", "new", "taken"]
    assert row(engine, "a").payload == "[1]"
    assert engine.queries.count(EVERYTHING).jobs == 2


@pytest.mark.parametrize("all_or_nothing", [True, False])
def test_a_taken_id_late_in_a_long_batch_is_found_and_undoes_or_spares_the_rest(
    engine: Engine, all_or_nothing: bool
) -> None:
    engine.insert([new_job("j250", payload='["old"]')], now=NOW)
    batch = [new_job(f"j{number}", tags=("t",)) for number in range(300)]
    if all_or_nothing:
        with pytest.raises(DuplicateJob, match="j250"):
            engine.insert(batch, all_or_nothing=True, now=NOW)
    else:
        assert kinds(engine.insert(batch, now=NOW)) == ["taken" if number == 250 else "new" for number in range(300)]
    assert engine.queries.count(EVERYTHING).jobs == (1 if all_or_nothing else 300)
    assert engine.queries.count(Filter(tag="t")).jobs == (0 if all_or_nothing else 299)
    assert row(engine, "j250").payload == '["old"]'


def test_a_batch_of_nothing_but_known_ids_is_all_false(engine: Engine) -> None:
    batch = [new_job("a"), new_job("b")]
    engine.insert(batch, now=NOW)
    assert kinds(engine.insert(batch, now=NOW)) == ["taken", "taken"]


def test_a_finished_job_still_owns_its_id(engine: Engine) -> None:
    engine.insert([new_job("job")], now=NOW)
    engine.queries.move(EVERYTHING, Trigger.CANCEL, 1, now=NOW)
    assert kinds(engine.insert([new_job("job")], now=NOW)) == ["taken"]
    assert row(engine).state is State.CANCELLED


def test_whole_refuses_a_single_taken_id_by_name(engine: Engine) -> None:
    engine.insert([new_job("job", payload='["old"]')], now=NOW)
    with pytest.raises(DuplicateJob) as caught:
        engine.insert([new_job("job", payload='["new"]')], all_or_nothing=True, now=NOW)
    assert caught.value.job_id == "job"
    assert row(engine).payload == '["old"]'


@pytest.mark.parametrize("position", [0, 1, 2])
def test_whole_stores_nothing_at_all_when_one_id_is_taken(engine: Engine, position: int) -> None:
    engine.insert([new_job("taken")], now=NOW)
    batch = [new_job("a", tags=("t",)), new_job("b", queue="unheard of")]
    batch.insert(position, new_job("taken"))
    with pytest.raises(DuplicateJob) as caught:
        engine.insert(batch, all_or_nothing=True, now=NOW)
    assert caught.value.job_id == "taken"
    assert list(rows(engine)) == ["taken"]
    assert [queue.name for queue in engine.queries.rules().queues] == ["default"]


def test_whole_refuses_an_id_repeated_within_the_batch(engine: Engine) -> None:
    with pytest.raises(DuplicateJob) as caught:
        engine.insert([new_job("a"), new_job("b"), new_job("b")], all_or_nothing=True, now=NOW)
    assert caught.value.job_id == "b"
    assert engine.queries.count(EVERYTHING).jobs == 0


def test_whole_accepts_what_is_all_new(engine: Engine) -> None:
    assert kinds(engine.insert([new_job("a")], all_or_nothing=True, now=NOW)) == ["new"]
    assert kinds(engine.insert([new_job("b"), new_job("c")], all_or_nothing=True, now=NOW)) == ["new", "new"]


def test_a_refused_insert_leaves_the_queue_usable(engine: Engine) -> None:
    engine.insert([new_job("a")], now=NOW)
    with pytest.raises(DuplicateJob):
        engine.insert([new_job("b", queue="fresh"), new_job("a")], all_or_nothing=True, now=NOW)
    assert kinds(engine.insert([new_job("b", queue="fresh")], all_or_nothing=True, now=NOW)) == ["new"]
    assert sorted(ids(claim(engine))) == ["a", "b"]


@pytest.mark.parametrize("companions", [0, 1])
@pytest.mark.parametrize("text", NASTY)
def test_any_text_is_stored_verbatim_and_never_run(engine: Engine, text: str, companions: int) -> None:
    # Ids have no such letters: see core/jobs/ids.py.
    job = new_job("id", queue=f"q{text}", task=f"t{text}", payload=text, metadata=text, tags=(f"g{text}",))
    engine.insert([job, *(new_job(f"other{number}") for number in range(companions))], now=NOW)
    (stored,) = engine.queries.find(Filter(queue=job.queue, task=job.task, tag=f"g{text}"), 10).jobs
    assert (stored.id, stored.queue, stored.task, stored.payload) == (job.id, job.queue, job.task, text)
    (claimed,) = engine.exchange([], only(job.queue), now=NOW).claims
    assert (claimed.id, claimed.payload, claimed.metadata) == (job.id, text, text)
    assert engine.queries.count(EVERYTHING).jobs == 1 + companions


def test_a_zero_character_that_the_payload_writes_as_an_escape_survives(engine: Engine) -> None:
    payload = msgspec.json.encode(["a\0b"]).decode()
    engine.insert([new_job("one", payload=payload)], now=NOW)
    engine.insert([new_job("two", payload=payload), new_job("three", payload=payload)], now=NOW)
    engine.insert([new_job("four", payload=payload, metadata=payload)], now=NOW)  # alone, into a queue that is known
    stored = {job.id: job for job in engine.queries.get(["one", "two", "three", "four"])}
    assert [job.payload for job in stored.values()] == [payload] * 4
    assert stored["four"].metadata == payload


def test_jobs_are_claimed_in_the_order_of_their_batch(engine: Engine) -> None:
    names = [f"{(number * 7919) % 1000:04}" for number in range(1000)]  # not sorted by name
    engine.insert([new_job(name) for name in names], now=NOW)
    assert ids(claim(engine, 1000)) == names


def test_an_id_differs_by_case_and_by_trailing_space(engine: Engine) -> None:
    assert kinds(engine.insert([new_job("a"), new_job("A"), new_job("a ")], now=NOW)) == ["new", "new", "new"]
