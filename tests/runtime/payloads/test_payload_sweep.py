"""The sweep deletes payloads whose jobs are gone, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import Headrace, PermanentError
from headrace.core.jobs.transfer import StoreStatus
from headrace.errors import PayloadStoreUnavailable
from headrace.runtime.payloads.payloads import Payloads
from headrace.runtime.retention import payload_sweep
from headrace.runtime.retention.payload_sweep import PayloadSweep
from headrace.runtime.retention.removal import RetentionCounts
from headrace.runtime.retention.sweep import RetentionSweep
from headrace.testing import VirtualClock, drain

BIG = "x" * 5000
DAY, HOUR = 86_400, 3600


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def payloads(folder: Path) -> Path:
    return folder / "payloads"


@pytest.fixture
def app(url: str, folder: Path, payloads: Path, clock: VirtualClock) -> Iterator[Headrace]:
    elsewhere = f"sqlite:///{folder / 'archive.db'}" if url.startswith("redis") else None
    with Headrace(url, clock=clock, archive_url=elsewhere, payload_store=str(payloads), payload_threshold=2000) as app:
        app.task(name="echo")(lambda text: text)
        yield app


def sweep(app: Headrace, grace: float = DAY) -> int:
    """How many files are left."""
    stored = app.services.payloads
    assert isinstance(stored, Payloads)
    task = PayloadSweep(app.engine, stored, grace, lambda: app.services.archive)
    while task.do() == 0.0:
        pass
    assert stored.files is not None
    [space] = stored.spaces()
    hours = [name for name in stored.files.list(space) if name.isdigit()]
    return sum(len(stored.files.list(f"{space}/{hour}")) for hour in hours)


def test_a_file_is_deleted_with_its_job(app: Headrace, clock: VirtualClock, payloads: Path) -> None:
    gone, kept = app.enqueue("echo", BIG), app.enqueue("echo", BIG)
    drain(app)
    clock.advance(DAY + HOUR)
    assert sweep(app) == 4
    gone.delete()
    assert sweep(app) == 2
    assert kept.refresh().outcome() == BIG
    kept.delete()
    assert sweep(app) == 0
    assert sweep(app) == 0
    [space] = payloads.iterdir()
    assert [path.name for path in space.iterdir()] == ["headrace.txt"]


def test_a_file_whose_insert_may_be_under_way_is_left_alone(app: Headrace, clock: VirtualClock) -> None:
    app.enqueue("echo", BIG).delete()
    for _ in range(24):
        assert sweep(app) == 1
        clock.advance(HOUR)
    clock.advance(HOUR)
    assert sweep(app) == 0


def test_an_archived_job_keeps_its_files_and_can_be_restored(app: Headrace, clock: VirtualClock) -> None:
    job = app.enqueue("echo", BIG)
    drain(app)
    clock.advance(30 * DAY)
    for _ in RetentionSweep(app.engine, app.settings, app.services.archive).walk(RetentionCounts()):
        pass
    assert app.jobs.get(job.id).archived
    assert sweep(app) == 2
    assert app.jobs.get(job.id).outcome() == BIG
    restored = app.lifecycle.restore(job.id)
    assert sweep(app) == 2
    restored.retry()
    drain(app)
    assert restored.refresh().outcome() == BIG


def test_a_dead_letter_keeps_the_arguments_of_a_deleted_job(app: Headrace, clock: VirtualClock) -> None:
    @app.task(retry=0)
    def broken(text: str) -> None:
        raise PermanentError("no")

    job = broken.enqueue(BIG)
    drain(app)
    [dead] = app.dead.list()
    job.delete()
    clock.advance(2 * DAY)
    assert sweep(app) == 1
    app.dead.requeue(dead.id)
    assert app.jobs.get(job.id).args == (BIG,)


def test_another_store_in_the_same_folder_is_left_alone(app: Headrace, clock: VirtualClock, payloads: Path) -> None:
    with Headrace("memory://", clock=clock, payload_store=str(payloads), payload_threshold=2000) as other:
        job = other.enqueue("echo", BIG)
        app.enqueue("echo", BIG).delete()
        clock.advance(2 * DAY)
        assert sweep(app) == 0
        assert job.args == (BIG,)


def test_a_store_that_moves_deletes_nothing(app: Headrace, clock: VirtualClock) -> None:
    app.enqueue("echo", BIG).delete()
    clock.advance(2 * DAY)
    app.engine.transfer.set_status(StoreStatus("moved", "elsewhere", clock.now()))
    assert sweep(app) == 1


def test_it_works_in_small_batches_and_ignores_other_files(
    app: Headrace, clock: VirtualClock, payloads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payload_sweep, "_BATCH", 3)
    jobs = [app.enqueue("echo", BIG) for _ in range(10)]
    [hour] = [path for path in payloads.glob("*/*") if path.is_dir()]
    (hour / "notes.txt").write_text("mine")
    for job in jobs[:8]:
        job.delete()
    clock.advance(2 * DAY)
    assert sweep(app) == 3
    assert (hour / "notes.txt").exists()


def test_without_its_marker_nothing_is_deleted(app: Headrace, clock: VirtualClock, payloads: Path) -> None:
    app.enqueue("echo", BIG).delete()
    clock.advance(2 * DAY)
    [marker] = payloads.rglob("headrace.txt")
    marker.unlink()
    with pytest.raises(PayloadStoreUnavailable):
        sweep(app)
