"""Large calls and results are in the payload store, and all that reads them works as it does without one."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import (
    CorruptPayload,
    Headrace,
    JobFailed,
    PayloadStoreUnavailable,
    PayloadTooLarge,
    PermanentError,
    ResultUnavailable,
    State,
    Unique,
    chain,
    current_job,
    group,
)
from headrace.app.transfer.move import StoreCopy
from headrace.core.codec.payload_refs import reference_in
from headrace.runtime.payloads.local_files import LocalFiles
from headrace.runtime.worker import execution
from headrace.testing import drain, isolated
from tests.support.engines import KINDS
from tests.support.waiting import PATIENCE, eventually

LARGE = 200_000  # larger than max_payload here
BIG = "x" * LARGE
KEY = "2026a:" + "c2VjcmV0" * 5 + "c2U="


@pytest.fixture
def url(engine_name: str, folder: Path) -> Iterator[str]:
    """A store that other apps and processes see as well."""
    kind = KINDS[engine_name]
    address = kind.create(folder)
    yield kind.url(address)
    kind.discard(address)


@pytest.fixture
def payloads(folder: Path) -> Path:
    return folder / "payloads"


@pytest.fixture
def make(url: str, payloads: Path) -> Iterator[Callable[..., Headrace]]:
    apps: list[Headrace] = []

    def make(**settings: Any) -> Headrace:
        given = {"payload_store": f"file://{payloads}", "payload_threshold": 2000, "max_payload": 20_000, **settings}
        apps.append(Headrace(url, **given))
        return apps[-1]

    yield make
    for app in apps:
        app.close()


@pytest.fixture
def app(make: Callable[..., Headrace]) -> Headrace:
    return make()


def files(payloads: Path) -> list[Path]:
    return [path for path in payloads.rglob("*") if path.is_file() and path.name != "headrace.txt"]


def file_of(payloads: Path, stored: str | None) -> Path:
    ref = reference_in(stored or "")
    assert ref is not None
    return payloads / ref.path


def test_a_large_call_and_its_result_are_files_and_the_job_holds_references(app: Headrace, payloads: Path) -> None:
    echo = app.task(name="echo")(lambda text: text)
    small, large = echo.enqueue("short"), echo.enqueue(BIG)
    assert len(files(payloads)) == 1
    drain(app)
    assert (small.refresh().outcome(), large.refresh().outcome()) == ("short", BIG)
    row = large.full_row
    assert len(row.payload) < 300
    assert len(row.result or "") < 300
    assert large.args == (BIG,)
    assert sorted(files(payloads)) == sorted([file_of(payloads, row.payload), file_of(payloads, row.result)])
    assert file_of(payloads, row.payload).stat().st_mode & 0o077 == 0


def test_with_keys_the_files_are_encrypted(make: Callable[..., Headrace], payloads: Path) -> None:
    app = make(encryption_keys=[KEY])
    echo = app.task(name="echo")(lambda *texts: texts[0])
    first = echo.enqueue(BIG)
    second = echo.enqueue(first, BIG)
    drain(app)
    assert second.refresh().outcome() == BIG
    assert [path.read_bytes()[:10] for path in files(payloads)] == [b'{"$sealed"'] * 4


def test_a_string_of_wide_characters_counts_in_bytes(app: Headrace, payloads: Path) -> None:
    app.enqueue("echo", "€" * 900)
    assert len(files(payloads)) == 1


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize("keys", [(), pytest.param((KEY,), marks=pytest.mark.slow)], ids=["clear", "encrypted"])
def test_workers_of_every_kind_and_flows_read_them(make: Callable[..., Headrace], payloads: Path, keys: Any) -> None:
    app = make(encryption_keys=keys)

    @app.task
    def double(text: str) -> str:
        return text + text

    @app.task
    async def adouble(text: str) -> str:
        return text + text

    @app.task(batch=2, within=0)
    def many(texts: list[str]) -> list[str]:
        return [text + "!" for text in texts]

    @app.task(batch=2, within=0)
    async def amany(texts: list[str]) -> list[str]:
        return [text + "!" for text in texts]

    @app.task
    def lengths(texts: list[str], more: str = "") -> list[int]:
        return [*map(len, texts), len(more)]

    with app.worker(concurrency=4):
        assert double.enqueue(BIG).result(PATIENCE) == BIG + BIG
        assert asyncio.run(_awaited(adouble, BIG)) == BIG + BIG
        assert [job.result(PATIENCE)[-1] for job in app.enqueue_many([many.bind(BIG), amany.bind(BIG)])] == ["!", "!"]
        assert len(chain(double.bind(BIG), adouble.bind()).enqueue().result(PATIENCE)) == 4 * LARGE
        parts = group(double.bind(BIG), double.bind("y"))
        assert chain(parts, lengths.bind(more=BIG)).enqueue().result(PATIENCE) == [2 * LARGE, 2, LARGE]
    found = b"".join(path.read_bytes() for path in files(payloads))
    assert (b"x" * 50 in found) == (not keys)


async def _awaited(task: Any, text: str) -> Any:
    return await (await task.aenqueue(text)).aresult(PATIENCE)


@pytest.mark.slow
@pytest.mark.engines("sqlite")
def test_a_sandbox_gets_the_arguments_and_its_result_is_stored(app: Headrace, payloads: Path) -> None:
    task = app.task(isolation="process")(shout)
    with app.worker():
        job = task.enqueue(BIG)
        assert job.result(PATIENCE) == BIG.upper()
    assert file_of(payloads, job.full_row.result).exists()


def shout(text: str) -> str:
    return text.upper()


def test_secrets_in_large_arguments_are_masked_in_errors_and_kept_logs(app: Headrace) -> None:
    @app.task(retry=0, redact=["code"], keep_logs=True)
    def broken(text: str, code: str) -> None:
        print("printed", code)
        raise PermanentError(f"no {code}")

    job = broken.enqueue(BIG, code="n33dle-in-a-haystack")
    with app.worker():
        job.wait(PATIENCE)
    assert "n33dle" not in job.errors[0].message + job.errors[0].traceback
    assert "n33dle" not in "".join(line.message for line in job.logs())


def test_the_limits_are_those_of_the_payload_store(make: Callable[..., Headrace], payloads: Path) -> None:
    app = make(payload_limit=LARGE + 1000)
    echo = app.task(name="echo")(lambda text: text)
    echo.enqueue(BIG)
    with pytest.raises(PayloadTooLarge, match="limit is 201,000 bytes"):
        echo.enqueue(BIG + BIG)
    with pytest.raises(PayloadTooLarge, match="limit is 20,000 bytes"):
        app.schedules.create("daily", echo.bind(BIG), every=3600)
    replacing = Unique(on_conflict="replace")
    with pytest.raises(PayloadTooLarge, match="limit is 20,000 bytes"):
        echo.using(unique=replacing).enqueue(BIG)
    job = echo.using(unique=replacing).enqueue("y" * 5000)
    assert reference_in(job.row.payload) is None


def test_a_job_that_is_refused_or_exists_changes_nothing_of_the_other(app: Headrace) -> None:
    echo = app.task(name="echo", unique=True)(lambda text: text)
    first = echo.enqueue(BIG)
    assert echo.enqueue(BIG) == first
    drain(app)
    assert first.refresh().outcome() == BIG


@pytest.mark.parametrize("damage", ["missing", "changed", "shorter"])
def test_a_damaged_file_fails_its_own_job_alone(app: Headrace, payloads: Path, damage: str) -> None:
    echo = app.task(name="echo")(lambda text: text)
    damaged, other = echo.enqueue(BIG), echo.enqueue(BIG)
    _damage(file_of(payloads, damaged.row.payload), damage)
    with app.worker():
        assert other.result(PATIENCE) == BIG
        with pytest.raises(JobFailed, match=rf"corrupt_payload.*payload \w+/\d+/{damaged.id}.*bytes"):
            damaged.result(PATIENCE)
    with pytest.raises(CorruptPayload):
        _ = damaged.args
    _damage(file_of(payloads, other.full_row.result), damage)
    with pytest.raises(ResultUnavailable, match="its result is gone"):
        other.result(PATIENCE)
    child = echo.enqueue(other)
    drain(app)
    assert child.refresh().state is State.FAILED


def _damage(path: Path, how: str) -> None:
    data = bytearray(path.read_bytes())
    if how == "missing":
        path.unlink()
        return
    data[100] ^= 1
    path.write_bytes(bytes(data) if how == "changed" else bytes(data[:-1]))


def test_while_the_payload_store_is_away_jobs_wait_and_nothing_is_corrupt(
    app: Headrace, payloads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "_OUTAGE_PAUSE", 0.05)
    echo = app.task(name="echo", retry=0)(lambda text: text)
    job = echo.enqueue(BIG)
    away = payloads.with_name("away")
    payloads.rename(away)
    with app.worker():
        assert echo.enqueue("z" * 5000).result(PATIENCE) == "z" * 5000, "it fits into the job"
        with pytest.raises(PayloadStoreUnavailable, match="is not mounted"):
            echo.enqueue(BIG)
        payloads.mkdir()  # as a mount point without its file system
        eventually(lambda: "is not mounted" in (job.refresh().reason or ""))
        payloads.rmdir()
        away.rename(payloads)
        assert job.result(PATIENCE) == BIG
    assert job.attempt == 1


def test_a_result_waits_for_the_payload_store(app: Headrace, payloads: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "_RESULT_PAUSES", (0.01,) * 3)
    repeat = app.task(name="repeat")(lambda text, count: text * count)
    app.services.payloads.space()  # type: ignore[union-attr]
    write, left = LocalFiles.write, [2]

    def fails_twice(self: LocalFiles, path: str, data: bytes) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise OSError(5, "input/output error")
        write(self, path, data)

    monkeypatch.setattr(LocalFiles, "write", fails_twice)
    with app.worker():
        assert repeat.enqueue("y", LARGE).result(PATIENCE) == "y" * LARGE
        left[0] = 1000
        with pytest.raises(ResultUnavailable, match="could not be stored: the payload store is unavailable"):
            repeat.enqueue("y", LARGE).result(PATIENCE)
        assert repeat.enqueue("y", 5000).result(PATIENCE) == "y" * 5000


def test_an_app_without_the_setting_names_it(app: Headrace, url: str) -> None:
    job = app.enqueue("echo", BIG)
    with Headrace(url) as bare:
        bare.task(name="echo", retry=0)(lambda text: text)
        with pytest.raises(CorruptPayload, match="payload_store is not set here"):
            _ = bare.jobs.get(job.id).args
        drain(bare)
        assert bare.jobs.get(job.id).reason == "corrupt_payload"
        codes = {finding.code for finding in _diagnose(bare)}
        assert "payload_store_missing" in codes


def _diagnose(app: Headrace) -> list[Any]:
    from headrace.app.doctor import diagnose

    return diagnose(app)


def test_with_keys_the_doctor_takes_a_large_job_for_encrypted(make: Callable[..., Headrace]) -> None:
    app = make(encryption_keys=[KEY])
    app.enqueue("echo", BIG)
    assert "not_encrypted" not in {finding.code for finding in _diagnose(app)}


def test_the_doctor_reports_missing_files_and_a_store_that_is_away(app: Headrace, payloads: Path) -> None:
    job = app.enqueue("echo", BIG)
    assert not [finding for finding in _diagnose(app) if finding.code.startswith("payload")]
    file_of(payloads, job.row.payload).unlink()
    [finding] = [finding for finding in _diagnose(app) if finding.code.startswith("payload")]
    assert (finding.code, finding.examples) == ("payload_missing", (job.id,))
    shutil.rmtree(payloads)
    [finding] = [finding for finding in _diagnose(app) if finding.code.startswith("payload")]
    assert finding.code == "payload_store_unavailable"


def test_a_fork_and_a_replay_and_a_retry_have_the_arguments(app: Headrace, payloads: Path) -> None:
    length = app.task(name="length")(len)
    job = length.enqueue(BIG)
    drain(app)
    assert app.jobs.replay(job) == LARGE
    fork = app.jobs.fork(job)
    assert file_of(payloads, fork.full_row.payload) != file_of(payloads, job.full_row.payload)
    job.retry()
    drain(app)
    assert (job.refresh().outcome(), fork.refresh().outcome()) == (LARGE, LARGE)


def test_an_app_without_the_setting_forks_no_large_job(app: Headrace, url: str) -> None:
    app.task(name="echo")(lambda text: text)
    job = app.enqueue("echo", BIG)
    drain(app)
    with Headrace(url) as other, pytest.raises(CorruptPayload, match="payload_store is not set here"):
        other.jobs.fork(job.id)
    assert app.jobs.count() == 1


def test_a_dead_letter_is_requeued_also_with_other_arguments(app: Headrace, payloads: Path) -> None:
    @app.task(retry=0)
    def picky(text: str) -> int:
        if text.startswith("x"):
            raise PermanentError("no x")
        return len(text)

    job = picky.enqueue(BIG)
    drain(app)
    [dead] = app.dead.list()
    assert "not loaded" in (dead.damage or "")
    app.dead.requeue(dead.id, args=["y" * LARGE])
    drain(app)
    assert job.refresh().outcome() == LARGE
    assert len(files(payloads)) == 2


def test_a_compensation_has_a_file_of_its_own(app: Headrace, payloads: Path) -> None:
    seen: list[int] = []
    undo = app.task(name="undo")(lambda text: seen.append(len(text)))

    @app.task(retry=0)
    def order() -> None:
        current_job().compensate("reserve", undo.bind(BIG))
        raise PermanentError("no")

    order.enqueue()
    drain(app)
    assert seen == [LARGE]
    [job] = [job for job in app.jobs.find() if job.task == "undo"]
    assert job.id in file_of(payloads, job.full_row.payload).name


def test_a_copy_of_the_store_reads_and_sweeps_the_same_files(app: Headrace, folder: Path, payloads: Path) -> None:
    app.task(name="echo")(lambda text: text)
    done, waiting = app.enqueue("echo", BIG), app.enqueue("echo", BIG)
    (folder / "to").mkdir()
    with Headrace(
        f"sqlite:///{folder}/to/jobs.db", payload_store=f"file://{payloads}", payload_threshold=2000
    ) as other:
        move = StoreCopy(app.engine, other.engine)
        move.run()
        assert move.verify().different == 0
        move.open()
        other.task(name="echo")(lambda text: text)
        drain(other)
        assert other.jobs.get(done.id).outcome() == other.jobs.get(waiting.id).outcome() == BIG
        assert app.services.payloads is not None
        assert other.services.payloads is not None
        assert other.services.payloads.spaces() == app.services.payloads.spaces()


@pytest.mark.engines("sqlite")
def test_a_call_in_a_transaction_of_the_caller_is_there_after_its_commit(app: Headrace, url: str) -> None:
    echo = app.task(name="echo")(lambda text: text)
    app.services.payloads.space()  # type: ignore[union-attr]
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    job = echo.using(connection=connection).enqueue(BIG)
    connection.execute("COMMIT")
    connection.close()
    drain(app)
    assert job.refresh().outcome() == BIG


@pytest.mark.engines("sqlite")
def test_the_testing_kit_keeps_them_in_memory(app: Headrace, payloads: Path) -> None:
    echo = app.task(name="echo")(lambda text: text)
    with isolated(app):
        job = echo.enqueue(BIG)
        drain(app)
        assert job.refresh().outcome() == BIG
    assert files(payloads) == []


@pytest.mark.engines("sqlite")
def test_an_id_with_every_character_names_a_file(app: Headrace, payloads: Path) -> None:
    echo = app.task(name="echo")(lambda text: text)
    job = echo.using(job_id="../a:b@c=d/e.f~g".replace("~", "-")).enqueue(BIG)
    drain(app)
    assert job.refresh().outcome() == BIG
    assert all(path.is_relative_to(payloads) for path in files(payloads))


@pytest.mark.engines("sqlite")
def test_any_file_system_of_fsspec_will_do(make: Callable[..., Headrace]) -> None:
    app = make(payload_store="memory://bucket/prefix")
    echo = app.task(name="echo")(lambda text: text)
    job = echo.enqueue(BIG)
    with app.worker():
        assert job.result(PATIENCE) == BIG
    ref = reference_in(job.full_row.payload)
    assert ref is not None
    payloads = app.services.payloads
    assert payloads is not None
    assert payloads.files is not None
    assert payloads.has(ref)
    payloads.files.delete([ref.path])
    with pytest.raises(CorruptPayload, match="missing from the payload store"):
        _ = app.jobs.get(job.id).args
