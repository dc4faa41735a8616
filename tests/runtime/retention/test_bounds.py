"""Nothing grows without end: unresolved dead letters, finished jobs, and a retention run that fails in part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from headrace import ConfigError, Headrace, Lifecycle, PermanentError
from headrace.core.settings.settings import Settings
from headrace.errors import EngineUnavailable
from headrace.runtime.retention import dead_letters
from headrace.runtime.retention.dead_letters import DeadLetterRetention
from headrace.runtime.retention.last_run import last_run
from headrace.runtime.retention.removal import RetentionCounts
from headrace.runtime.retention.staleness import StaleCheck, last_scan
from headrace.runtime.retention.sweep_task import RetentionTask
from headrace.testing import VirtualClock, drain

DAY = 86_400
Opened = Callable[..., Headrace]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def opened(url: str, folder: Path, clock: VirtualClock) -> Iterator[Opened]:
    """Opens an app on the store of the test, with a task that fails on demand."""
    apps: list[Headrace] = []

    def open_app(**settings: Any) -> Headrace:
        elsewhere = {"archive_url": f"sqlite:///{folder / 'archive.db'}"} if url.startswith("redis") else {}
        app = Headrace(url, clock=clock, **{**elsewhere, **settings})

        @app.task(name="work", retry=0)
        def work(error: str | None = None) -> None:
            if error == "permanent":
                raise PermanentError("no")
            if error:
                raise OSError(error)

        apps.append(app)
        return app

    yield open_app
    for app in apps:
        app.close()


def fail(app: Headrace, clock: VirtualClock, times: int = 1, error: str = "away") -> list[str]:
    """So many failures, a second apart; their ids."""
    failed = []
    for _ in range(times):
        failed.append(app.enqueue("work", error).id)
        drain(app)
        clock.advance(1)
    return failed


def walk(app: Headrace) -> None:
    """As a worker does it, to the end."""
    maintenance_task = RetentionTask(app.engine, app.settings, 60.0, lambda: app.services.archive)
    while maintenance_task.do() == 0.0:
        pass


# -- whether a failure opens a dead letter


def test_without_dead_letters_failed_jobs_follow_their_retention(opened: Opened, clock: VirtualClock) -> None:
    app = opened(dead_letters=False)
    fail(app, clock)
    assert (app.jobs.count(state="failed"), app.dead.count(status=None)) == (1, 0)
    assert not list(app.events(types="dead.*", follow=False))
    clock.advance(30 * DAY)
    walk(app)
    assert app.jobs.count() == 0


def test_dead_letters_are_switched_by_reason(opened: Opened, clock: VirtualClock) -> None:
    app = opened(dead_letters=["permanent_error"])
    fail(app, clock)
    assert app.dead.count() == 0
    fail(app, clock, error="permanent")
    assert [dead_letter.reason for dead_letter in app.dead.list()] == ["permanent_error"]


def test_a_worker_goes_by_the_switch_too(opened: Opened) -> None:
    app = opened(dead_letters=["permanent_error"])
    with app.worker(concurrency=1):
        for error in ("away", "permanent"):
            app.enqueue("work", error).wait(20)
    assert [dead_letter.reason for dead_letter in app.dead.list(status=None)] == ["permanent_error"]


def test_a_stale_job_only_fails_where_staleness_creates_no_dead_letter(opened: Opened, clock: VirtualClock) -> None:
    app = opened(dead_letters=["permanent_error"], on_stale="dead")
    job = app.enqueue("work")
    clock.advance(2 * DAY)
    assert [found.action for found in app.lifecycle.detect_stale(dry_run=False)] == ["fail"]
    assert (job.refresh().state, job.reason) == ("failed", "staleness_timeout")
    assert app.dead.count(status=None) == 0


def test_an_unknown_reason_is_refused() -> None:
    with pytest.raises(ConfigError, match="dead_letters: name reasons out of attempts_used_up"):
        Headrace("memory://", dead_letters=["typo"])


# -- how long and how many


def test_pending_dead_letters_expire_and_their_jobs_follow(opened: Opened, clock: VirtualClock) -> None:
    app = opened()
    (failed,) = fail(app, clock)
    clock.advance(180 * DAY - 2)
    walk(app)
    assert (app.jobs.count(), app.dead.count()) == (1, 1)
    clock.advance(60)
    assert app.lifecycle.archive().dead_letters_expired == 1
    walk(app)
    assert (app.dead.count(), app.dead.get(failed).status) == (0, "expired")
    assert app.dead.get(failed).resolved_by == "headrace"
    [event] = app.events(types="dead.resolved", follow=False)
    assert event.data["status"] == "expired"
    clock.advance(61)
    walk(app)
    assert app.jobs.count() == 0
    clock.advance(31 * DAY)
    walk(app)
    assert app.dead.count(status=None) == 0


def test_only_the_newest_dead_letters_stay_pending(opened: Opened, clock: VirtualClock) -> None:
    app = opened(dead_pending_max=3)
    failed = fail(app, clock, 5)
    assert app.lifecycle.archive().dead_letters_expired == 2
    walk(app)
    assert sorted(dead_letter.job_id for dead_letter in app.dead.list()) == sorted(failed[2:])
    assert sorted(dead_letter.job_id for dead_letter in app.dead.list(status="expired")) == sorted(failed[:2])


def test_dead_letters_of_permanent_failures_go_in_the_end(opened: Opened, clock: VirtualClock) -> None:
    app = opened()
    (failed,) = fail(app, clock)
    app.dead.resolve(failed, "permanently_failed")
    clock.advance(179 * DAY)
    walk(app)
    assert app.dead.count(status="permanently_failed") == 1
    clock.advance(2 * DAY)
    walk(app)
    assert app.dead.count(status=None) == 0


@pytest.mark.parametrize("stays", [True, 2])
def test_no_dead_letter_keeps_a_job_that_is_removed_on_failure(
    opened: Opened, clock: VirtualClock, stays: bool | int
) -> None:
    app = opened()
    app.lifecycle.configure(task="work", remove_on_fail=stays)
    failed = fail(app, clock, 3)
    for _ in range(2):
        clock.advance(120)
        walk(app)
    kept = failed[1:] if stays == 2 else []
    assert sorted(job.id for job in app.jobs.find()) == sorted(kept)
    assert sorted(dead_letter.job_id for dead_letter in app.dead.list()) == sorted(kept)


def test_requeues_go_by_the_settings_unless_a_call_says_otherwise(opened: Opened, clock: VirtualClock) -> None:
    app = opened(max_requeues=1, priority_boost=3)
    (failed,) = fail(app, clock)
    app.dead.requeue(failed)
    assert app.jobs.get(failed).priority == 3
    drain(app)
    assert not app.dead.requeue_where(task="work", dry_run=True).requeued
    assert app.dead.requeue(failed, max_requeues=2, priority_boost=1).requeued
    assert app.jobs.get(failed).priority == 4


# -- finished jobs


def test_only_so_many_finished_jobs_stay(opened: Opened, clock: VirtualClock) -> None:
    app = opened(job_history_size=4)
    kept = fail(app, clock)  # a pending dead letter keeps it, old as it is
    for _ in range(6):
        kept.append(app.enqueue("work").id)
        drain(app)
        clock.advance(1)
    clock.advance(60)
    assert app.lifecycle.archive().archived == 3
    walk(app)
    left = [kept[0], *kept[-3:]]
    assert sorted(job.id for job in app.jobs.find()) == sorted(left)
    assert app.jobs.count(archived=True) == 3


def test_the_history_size_counts_over_all_queues_and_states(opened: Opened, clock: VirtualClock) -> None:
    app = opened(job_history_size=2)
    ids = []
    for queue in ("a", "b", "c", "d"):
        job = app.task_by_name("work").using(queue=queue, delay=0 if queue in "ad" else 3600).enqueue()
        ids.append(job.id)
        drain(app) if queue in "ad" else job.cancel()
        clock.advance(60)
    walk(app)
    assert sorted(job.id for job in app.jobs.find()) == sorted(ids[2:])


# -- a walk that fails in part


def test_an_archive_that_is_away_stops_nothing_else(
    opened: Opened, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened()
    thrown = app.task(name="thrown", queue="z", lifecycle=Lifecycle(archive=False))(lambda: None)
    app.lifecycle.sync()
    app.enqueue("work")
    thrown.enqueue()
    (failed,) = fail(app, clock)
    app.dead.resolve(failed, "cancelled")
    clock.advance(40 * DAY)

    def away(*_: object) -> None:
        raise EngineUnavailable("the archive is away")

    monkeypatch.setattr(app.services.archive, "add", away)
    with pytest.raises(EngineUnavailable, match="the archive is away"):
        walk(app)
    assert (app.jobs.count(task="work"), app.jobs.count(task="thrown")) == (2, 0)
    assert app.dead.count(status=None) == 0
    last = last_run(app.engine.document_store)
    assert last is not None
    assert (last.error, last.deleted, last.dead_letters) == ("EngineUnavailable: the archive is away", 1, 1)
    monkeypatch.undo()
    app.lifecycle.archive(dry_run=False)
    assert app.jobs.count() == 0


# -- what is done by hand leaves the same trace


def test_an_archive_by_hand_is_in_the_stats(opened: Opened, clock: VirtualClock) -> None:
    app = opened()
    app.enqueue("work")
    drain(app)
    clock.advance(8 * DAY)
    app.lifecycle.archive()
    assert app.lifecycle.stats().swept_at is None
    app.lifecycle.archive(dry_run=False)
    stats = app.lifecycle.stats()
    assert (stats.archived, stats.swept_at is not None) == (1, True)


def test_a_look_for_stale_jobs_by_hand_is_in_the_metrics(opened: Opened, clock: VirtualClock) -> None:
    app = opened()
    app.enqueue("work")
    clock.advance(2 * DAY)
    app.lifecycle.detect_stale()
    app.lifecycle.detect_stale(dry_run=False, queue="default")  # a partial scan does not count for the whole
    assert last_scan(app.engine) is None
    app.lifecycle.detect_stale(dry_run=False)
    assert app.metrics.value("stale") == 1


# -- staleness as a whole


def test_enforced_staleness_ends_what_stays_too_long() -> None:
    with Headrace("memory://", staleness="enforce") as app:
        settings = app.settings
        assert (settings.on_stale, settings.stale_running, settings.stale_age) == ("dead", 1800, 86_400)
    with Headrace("memory://", staleness="enforce", on_stale="fail", stale_age=None) as app:
        assert (app.settings.on_stale, app.settings.stale_running, app.settings.stale_age) == ("fail", 1800, None)
    assert (Settings().on_stale, Settings().stale_running, Settings().stale_age) == ("review", None, None)


def test_workers_may_look_for_stale_jobs_without_touching_them(opened: Opened, clock: VirtualClock) -> None:
    app = opened(staleness="enforce", stale_dry_run=True)
    jobs = [app.enqueue("work") for _ in range(3)]
    clock.advance(2 * DAY)
    run_scan(app, app.settings)
    assert [job.refresh().state for job in jobs] == ["pending"] * 3
    assert app.metrics.value("stale") == 3
    run_scan(app, replace(app.settings, stale_dry_run=False, stale_batch=2))
    assert [job.refresh().reason for job in jobs] == ["staleness_timeout"] * 3
    assert app.dead.count() == 3


def run_scan(app: Headrace, settings: Settings) -> None:
    maintenance_task = StaleCheck(app.engine, settings, 300.0)
    maintenance_task.do()  # chooses its moment
    while maintenance_task.do() == 0.0:
        pass


def test_retention_rests_while_nothing_happens_and_goes_on_with_the_first_event() -> None:
    clock = VirtualClock()
    with Headrace("memory://", clock=clock) as app:
        maintenance_task = RetentionTask(app.engine, app.settings, 60.0, lambda: app.services.archive)

        def runs() -> int:
            before = last_run(app.engine.document_store)
            while not maintenance_task.do():
                pass
            return int(last_run(app.engine.document_store) != before)

        assert runs() == 1
        clock.advance(60)
        assert runs() == 1, "the first one has created partitions"
        ran = []
        for _ in range(31):
            clock.advance(60)
            ran.append(runs())
        assert sum(ran[:29]) == 0, "nothing has happened"
        assert sum(ran[29:]) == 1, "half an hour is over"
        app.enqueue("work")
        clock.advance(60)
        assert runs() == 1


def test_only_dead_letters_that_are_too_old_expire_though_others_are_resolved_meanwhile(
    opened: Opened, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "_BATCH_SIZE", 2)
    app = opened(dead_pending_keep=30 * DAY, keep_failed=None)
    fail(app, clock, 4)
    clock.advance(31 * DAY)
    young = fail(app, clock, 3)
    counts = RetentionCounts()
    batches = DeadLetterRetention(app.engine, app.settings).walk(clock.now(), counts, dry_run=False)
    next(batches)
    for dead_letter in app.dead.list():
        if dead_letter.job_id not in young:
            app.dead.resolve(dead_letter.id, "manually_resolved")
            break
    for _ in batches:
        pass
    assert counts.expired == 3
    assert sorted(dead_letter.job_id for dead_letter in app.dead.list()) == sorted(young)
