"""With keys, nothing a user gave or got is in the store in clear; all else works as it does without them."""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace import Headrace, JobFailed, PermanentError, Unique, current_job
from headrace.app.transfer.move import StoreCopy
from headrace.core.codec.encryption import key_of
from headrace.core.dead_letters.records import DeadLetterFilter
from headrace.core.jobs.details import StreamRange
from headrace.core.jobs.records import Filter
from headrace.errors import CorruptPayload
from headrace.runtime.schedules.fire import call_of
from headrace.testing import drain
from tests.runtime.jobs import shop
from tests.support.engines import KINDS
from tests.support.gates import SOON
from tests.support.schedules import stored_schedule
from tests.support.waiting import PATIENCE, eventually

MARK = "n33dle"  # in everything that must not be seen


def key(name: str) -> str:
    return f"{name}:{base64.b64encode(name.encode().ljust(32, b'.')).decode()}"


OLD, NEW = key("2025"), key("2026")


@pytest.fixture
def open_app(engine_name: str, folder: Path) -> Iterator[Callable[..., Headrace]]:
    """Opens apps on one store, each with keys of its own."""
    kind = KINDS[engine_name]
    address = kind.create(folder)
    with contextlib.ExitStack() as at_end:

        def make(*keys: str, **settings: Any) -> Headrace:
            app = Headrace(kind.url(address), encryption_keys=keys, heartbeat=2.0, shutdown_timeout=5.0, **settings)
            return at_end.enter_context(app)

        yield make
    kind.discard(address)


@pytest.fixture
def app(open_app: Callable[..., Headrace]) -> Headrace:
    return open_app(NEW)


def stored(app: Headrace) -> str:
    """All that the store says of its jobs."""
    rows = app.engine.queries.find(Filter(), 1000).jobs
    logs = [app.engine.queries.details(row.id).logs for row in rows]
    logs += [app.engine.queries.details(row.id, stream=StreamRange(0, 1000)).stream for row in rows]
    steps = [app.engine.queries.details(row.id).steps for row in rows]
    history = [app.engine.queries.details(row.id).history for row in rows]
    dead_letters = app.engine.dead_letters.find(DeadLetterFilter(), 1000)
    return msgspec.json.encode([rows, logs, steps, history, dead_letters, app.engine.schedule_store.get()]).decode()


def test_nothing_of_a_job_is_stored_in_clear(app: Headrace) -> None:
    @app.task
    def work(what: str, *, more: dict[str, Any]) -> dict[str, Any]:
        job = current_job()
        job.progress({"at": f"{what} progress"})
        job.log(f"{what} line", seen=f"{what} field")
        job.stream(f"{what} chunk")
        job.stream({"said": f"{what} chunk"})
        made = job.step("make", lambda: f"{what} step")
        came = job.wait_event("go")
        return {"made": made, "came": came, **more}

    @app.task(retry=0)
    def broken(what: str) -> None:
        raise PermanentError("it broke")

    app.schedules.create("daily", work.bind(f"{MARK} schedule", more={}), every=3600)
    with app.worker():
        job = work.enqueue(f"{MARK} argument", more={"x": f"{MARK} nested"})
        dead = broken.enqueue(f"{MARK} dead")
        eventually(lambda: (job.refresh().reason or "").startswith("waits for event"))
        assert app.signal(job, "go", {"data": f"{MARK} event"})
        result = job.result(PATIENCE)
        dead.wait(PATIENCE)
    assert result == {"made": f"{MARK} argument step", "came": {"data": f"{MARK} event"}, "x": f"{MARK} nested"}
    assert job.args == (f"{MARK} argument",)
    assert job.progress == {"at": f"{MARK} argument progress"}
    lines = {(line.message, line.fields["seen"]) for line in job.logs()}
    assert lines == {(f"{MARK} argument line", f"{MARK} argument field")}
    chunks = [chunk.data for chunk in job.stream()]
    assert chunks[:2] == [f"{MARK} argument chunk", {"said": f"{MARK} argument chunk"}]
    assert app.dead.get(dead.id).args == (f"{MARK} dead",)
    assert app.schedules.get("daily").args == (f"{MARK} schedule",)
    everything = stored(app)
    assert MARK not in everything
    assert everything.count("$sealed") >= 10


@pytest.mark.engines("sqlite")
def test_not_even_the_file_has_it(app: Headrace, folder: Path) -> None:
    echo = app.task(name="echo")(lambda text: text)
    job = echo.enqueue(f"{MARK} argument")
    with app.worker():
        job.wait(PATIENCE)
    files = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]
    assert files
    assert not [path.name for path in files if MARK.encode() in path.read_bytes()]


def test_what_was_stored_in_clear_and_with_an_older_key_still_runs(open_app: Callable[..., Headrace]) -> None:
    results = []
    for keys in ((), (OLD,), (NEW, OLD)):
        results.append(open_app(*keys).enqueue("echo", f"by {len(keys)}").id)
    last = open_app(NEW, OLD)
    last.task(name="echo")(lambda text: text)
    with last.worker():
        assert [last.jobs.get(one).result(PATIENCE) for one in results] == ["by 0", "by 1", "by 2"]
    rows = {row.id: row for row in last.engine.queries.get(results)}
    used = [(key_of(rows[one].payload), key_of(rows[one].result or "")) for one in results]
    assert used == [(None, "2026"), ("2025", "2026"), ("2026", "2026")]


@pytest.mark.parametrize("keys", [(), (NEW,)])
def test_without_its_key_a_job_fails_and_runs_when_the_key_is_back(
    open_app: Callable[..., Headrace], keys: tuple[str, ...]
) -> None:
    job_id = open_app(OLD).enqueue("echo", MARK).id
    without = open_app(*keys)
    without.task(name="echo", retry=SOON)(lambda text: text)
    job = without.jobs.get(job_id)
    with without.worker(), pytest.raises(JobFailed, match=r"corrupt_payload.*key '2025', and there are .* here; add"):
        job.result(PATIENCE)
    with pytest.raises(CorruptPayload, match="key '2025'"):
        _ = job.args
    dead_letter = without.dead.get(job_id)
    assert (dead_letter.args, dead_letter.reason) == ((), "corrupt_payload")
    assert "key '2025'" in (dead_letter.damage or "")
    complete = open_app(*keys, OLD)
    complete.task(name="echo")(lambda text: text)
    assert complete.dead.requeue(job_id).requeued
    with complete.worker():
        assert complete.jobs.get(job_id).result(PATIENCE) == MARK
    with pytest.raises(CorruptPayload, match="is encrypted with key"):
        open_app(key("other")).jobs.get(job_id).result(PATIENCE)


def test_jobs_get_the_results_they_were_promised(app: Headrace) -> None:
    @app.task
    def make(n: int) -> str:
        return f"{MARK} {n}"

    @app.task
    def join(parts: list[str], *, also: str) -> str:
        return "|".join([*parts, also])

    flow = app.flow("gather")
    parts = [flow.add(make.bind(n)) for n in range(3)]
    flow.add(join.bind(parts[:2], also=parts[2]))
    run = flow.enqueue()
    (end,) = [job for job in run.jobs if job.task == join.name]
    assert len(end.parents()) == 3
    with app.worker():
        assert end.result(PATIENCE) == f"{MARK} 0|{MARK} 1|{MARK} 2"
    assert MARK not in stored(app)


def test_a_result_that_does_not_decrypt_fails_the_job_that_needs_it(open_app: Callable[..., Headrace]) -> None:
    first = open_app(OLD)
    parent = first.task(name="make")(lambda: MARK).enqueue()
    with first.worker():
        parent.wait(PATIENCE)
    second = open_app(NEW)
    child = second.task(name="use", retry=0)(lambda text: text).enqueue(second.jobs.get(parent.id))
    with second.worker(), pytest.raises(JobFailed, match=r"parent_result_missing.*can't be read.*key '2025'"):
        child.result(PATIENCE)


def test_equal_calls_are_recognized_without_revealing_their_arguments(open_app: Callable[..., Headrace]) -> None:
    plain, encrypted = open_app(), open_app(NEW)

    def pay(card: str) -> None: ...

    ones = [app.task(unique=Unique(), name="pay")(pay) for app in (plain, encrypted, encrypted)]
    in_clear, first, second = (one.enqueue("4111") for one in ones)
    assert first.id == second.id != in_clear.id
    assert first.row.unique_key != in_clear.row.unique_key


def test_a_job_that_is_replaced_has_the_new_arguments(app: Headrace) -> None:
    one = app.task(name="one", unique=Unique(key="k", on_conflict="replace"))(lambda text: text)
    two = app.task(name="two", unique=Unique(key="k", on_conflict="replace"))(lambda text: text)
    job = one.enqueue("first")
    assert two.enqueue("second").id == job.id
    with app.worker():
        assert job.result(PATIENCE) == "second"
    assert job.refresh().task == "two"


def test_what_a_job_spawns_at_once_is_found_by_its_next_attempt(app: Headrace) -> None:
    child = app.task(name="child")(lambda text: text)
    seen: list[str] = []

    @app.task(retry=SOON)
    def parent(texts: list[str]) -> None:
        job = current_job()
        seen.append(job.spawn(child.bind(texts[min(job.attempt, len(texts)) - 1]), at_once=True).id)
        if job.attempt == 1:
            raise ConnectionError("once more")

    with app.worker():
        parent.enqueue([MARK]).result(PATIENCE)
        assert len(seen) == 2
        assert len({*seen}) == 1
        with pytest.raises(JobFailed, match="the same with other arguments"):
            parent.using(retry=SOON).enqueue(["a", "b"]).result(PATIENCE)


@pytest.mark.engines("sqlite")
def test_a_process_of_its_own_gets_no_key_and_returns_nothing_in_clear(app: Headrace) -> None:
    report = app.task(isolation="process", timeout=60)(shop.report)
    with app.worker():
        job = report.enqueue()
        found = job.result(PATIENCE)
        assert found["id"] == job.id
        assert job.progress == {"step": 1}
        assert [line.message for line in job.logs()] == ["hello from the sandbox"]
    raw = stored(app)
    assert "hello from the sandbox" not in raw
    assert key_of(app.engine.queries.get([job.id])[0].result or "") == "2026"


def test_a_dead_letter_is_requeued_with_other_arguments(app: Headrace) -> None:
    @app.task(retry=0)
    def pay(amount: int, *, note: str) -> str:
        if amount < 0:
            raise PermanentError("less than nothing")
        return note

    job = pay.enqueue(-1, note=MARK)
    with app.worker():
        job.wait(PATIENCE)
        app.dead.requeue(job.id, args=[1])
        assert job.result(PATIENCE) == MARK
    assert MARK not in stored(app)


def test_a_declared_schedule_is_stored_once_and_encrypted_again_with_a_new_key(
    open_app: Callable[..., Headrace],
) -> None:
    def declare(*keys: str) -> tuple[Headrace, list[str]]:
        app = open_app(*keys)
        app.every(hours=1, name="hourly", args=(MARK,))(app.task(name="tick")(lambda text: text))
        return app, app.schedules.sync()

    def now() -> tuple[str | None, int]:
        row = stored_schedule(plain.engine.schedule_store, "hourly")
        assert row is not None
        return key_of(call_of(row).payload), call_of(row).priority

    plain, changed = declare()
    assert changed == ["hourly"]
    plain.schedules.update("hourly", priority=7)
    assert declare(OLD)[1] == []
    assert now() == ("2025", 7), "what an operator changed stays"
    version = plain.engine.schedule_store.get()[0].version
    assert declare(OLD)[1] == []
    assert plain.engine.schedule_store.get()[0].version == version, "nothing is written where nothing is new"
    last, changed = declare(NEW, OLD)
    assert (changed, now()) == ([], ("2026", 7))
    assert last.schedules.run_now("hourly").args == (MARK,)
    assert declare(key("other"))[1] == [], "an app without the key leaves it alone"
    assert now() == ("2026", 7)


def test_it_is_copied_to_another_store_as_it_is(app: Headrace, folder: Path) -> None:
    job = app.enqueue("echo", MARK)
    (folder / "to").mkdir()
    with Headrace(f"sqlite:///{folder}/to/jobs.db", encryption_keys=[NEW]) as other:
        move = StoreCopy(app.engine, other.engine)
        move.run()
        assert move.verify().different == 0
        move.open()
        other.task(name="echo")(lambda text: text)
        with other.worker():
            assert other.jobs.get(job.id).result(PATIENCE) == MARK


@pytest.mark.engines("sqlite")
def test_the_testing_kit_encrypts_and_decrypts_as_a_worker_does(app: Headrace) -> None:
    @app.task
    def work(text: str) -> str:
        current_job().log(text)
        return current_job().step("one", str.upper, text)

    job = work.enqueue(MARK)
    drain(app)
    assert job.refresh().outcome() == MARK.upper()
    assert [line.message for line in job.logs()] == [MARK]
    assert not re.search(MARK, stored(app), re.IGNORECASE)


@pytest.mark.engines("sqlite")
def test_a_text_that_was_put_in_another_place_does_not_open(app: Headrace) -> None:
    pay = app.task(name="pay")(lambda amount: amount)
    one, two = pay.enqueue(1), pay.enqueue(1000)
    with app.worker():
        one.wait(PATIENCE)
        two.wait(PATIENCE)
    first, second = (app.engine.queries.get([job.id])[0] for job in (one, two))
    one._record = msgspec.structs.replace(first, result=second.result, result_checksum=second.result_checksum)
    with pytest.raises(CorruptPayload, match="taken from another place"):
        one.outcome()
