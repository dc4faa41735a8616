"""Schedules as users make and change them. Time is a VirtualClock and firing is drain(), so nothing here waits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import (
    Headrace,
    InvalidJob,
    InvalidSchedule,
    Job,
    Schedule,
    ScheduleNotFound,
    ScheduleRun,
    current_job,
)
from headrace.core.codec.redaction import MASK
from headrace.core.jobs.transfer import StoreStatus
from headrace.core.schedules.records import ScheduleFire, ScheduleRow
from headrace.errors import HeadraceError, StoreMoved
from headrace.testing import VirtualClock, adrain, drain, inline
from tests.support.schedules import stored_schedule

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)  # a Monday


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
def app(url: str, clock: VirtualClock) -> Iterator[Headrace]:
    with Headrace(url, clock=clock) as app:
        app.task(name="note")(lambda *args, **kwargs: None)
        yield app


def jobs_of(app: Headrace, schedule_id: str) -> list[Job[Any]]:
    """The jobs a schedule made, in the order of the times they stand for."""
    found = [job for job in app.jobs.find(limit=1000) if job.metadata.get("schedule_id") == schedule_id]
    return sorted(found, key=lambda job: job.metadata["scheduled_for"])


def times_of(app: Headrace, schedule_id: str) -> list[str]:
    return [job.metadata["scheduled_for"][11:16] for job in jobs_of(app, schedule_id)]


def statuses(app: Headrace, schedule_id: str) -> list[str]:
    return [run.status for run in reversed(app.schedules.history(schedule_id))]


# -- what a schedule makes


def test_each_time_becomes_a_job_that_says_where_it_comes_from(app: Headrace, clock: VirtualClock) -> None:
    seen: list[dict[str, Any]] = []

    @app.task
    def record(text: str) -> None:
        seen.append(dict(current_job().metadata))

    made = app.schedules.create(
        "words", record.using(metadata={"a": 1}, priority=7, tags=("t",)).bind("x"), cron="*/2 * * * *"
    )
    assert isinstance(made, Schedule)
    assert made.next_run == START + timedelta(minutes=2)
    clock.advance(600)
    assert drain(app) == 5
    assert seen[0] == {"a": 1, "schedule_id": "words", "scheduled_for": "2026-03-02T08:02:00+00:00"}
    first = jobs_of(app, "words")[0]
    assert (first.id, first.args, first.priority, first.tags) == ("words:20260302T080200Z", ("x",), 7, ("t",))
    after = app.schedules.get("words")
    assert (after.fired, after.last_job) == (5, "words:20260302T081000Z")
    assert after.last_run == clock.moment
    assert after.next_run == START + timedelta(minutes=12)


def test_nothing_fires_before_its_time(app: Headrace, clock: VirtualClock) -> None:
    app.schedules.create("soon", "note", every=10)
    clock.advance(9.999)
    assert drain(app) == 0
    clock.advance(0.001)
    assert drain(app) == 1
    assert drain(app) == 0, "and only once"


def test_times_in_the_call_count_from_the_firing(app: Headrace, clock: VirtualClock) -> None:
    app.schedules.create("late", "note", every=60, expires=30, delay=5)
    clock.advance(60)
    app.schedules.run_now("late")
    clock.advance(1)
    drain(app)
    job = jobs_of(app, "late")[0]
    assert job.state == "scheduled"
    assert job.run_at - job.created_at == timedelta(seconds=5)
    assert job.expires_at is not None
    assert job.expires_at - job.created_at == timedelta(seconds=30)


def test_a_one_time_schedule_is_gone_once_it_fired(app: Headrace, clock: VirtualClock) -> None:
    app.schedules.create("once", "note", at=START + timedelta(hours=1))
    clock.advance(3599)
    assert drain(app) == 0
    clock.advance(1)
    assert drain(app) == 1
    assert app.schedules.list() == []
    assert times_of(app, "once") == ["09:00"]


def test_a_one_time_schedule_that_is_given_a_new_time_while_it_fires_stays(
    app: Headrace, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change between its firing and its end is not overwritten."""
    app.schedules.create("once", "note", at=START + timedelta(hours=1))
    delete = app.engine.schedule_store.delete

    def delete_a_moment_too_late(schedule_id: str, version: int | None = None) -> bool:
        app.schedules.update("once", at=START + timedelta(hours=2))
        return delete(schedule_id, version)

    with monkeypatch.context() as patch:
        patch.setattr(app.engine.schedule_store, "delete", delete_a_moment_too_late)
        clock.advance(3600)
        assert drain(app) == 1
    assert app.schedules.get("once").next_run == START + timedelta(hours=2)
    clock.advance(3600)
    assert drain(app) == 1
    assert app.schedules.list() == []
    assert times_of(app, "once") == ["09:00", "10:00"]


def test_a_recreated_schedule_is_not_fired_by_a_reader_of_the_old_one(app: Headrace, clock: VirtualClock) -> None:
    app.schedules.create("once", "note", at=START + timedelta(hours=1))
    clock.advance(3600)
    seen = stored_schedule(app.engine.schedule_store, "once")
    assert seen is not None
    app.schedules.delete("once")
    app.schedules.create("once", "note", at=START + timedelta(hours=2))
    assert app.engine.schedule_store.fire([ScheduleFire(seen)]) == [False]
    assert not app.engine.schedule_store.delete("once", seen.version)
    assert app.schedules.get("once").next_run == START + timedelta(hours=2)


def test_a_limit_ends_it_and_it_stays_to_be_seen(app: Headrace, clock: VirtualClock) -> None:
    app.schedules.create("thrice", "note", every=60, limit=3)
    assert len(app.schedules.preview("thrice", n=10)) == 3
    for _ in range(5):
        clock.advance(60)
        drain(app)
    ended = app.schedules.get("thrice")
    assert (ended.fired, ended.next_run, ended.is_over) == (3, None, True)
    assert app.schedules.preview("thrice") == []
    revived = app.schedules.update("thrice", limit=4)
    assert revived.next_run == clock.moment + timedelta(seconds=60)


def test_what_was_missed_is_made_up_for_as_the_schedule_says(app: Headrace, clock: VirtualClock) -> None:
    for catch_up in ("none", "latest", "limited", "all"):
        app.schedules.create(catch_up, "note", every=600, catch_up=catch_up, catch_up_limit=2)
    clock.advance(3000 + 120)
    drain(app)
    assert {name: times_of(app, name) for name in ("none", "latest", "limited", "all")} == {
        "none": [],
        "latest": ["08:50"],
        "limited": ["08:40", "08:50"],
        "all": ["08:10", "08:20", "08:30", "08:40", "08:50"],
    }
    assert statuses(app, "latest") == ["skipped"] * 4 + ["enqueued"]
    skipped = app.schedules.history("none")[0]
    assert isinstance(skipped, ScheduleRun)
    assert "catch_up='none'" in str(skipped.detail)


def test_a_year_of_misses_is_recorded_in_few_rows(app: Headrace, clock: VirtualClock) -> None:
    app.schedules.create("busy", "note", every=1, catch_up="latest")
    clock.advance(timedelta(days=365))
    assert drain(app) == 1
    runs = app.schedules.history("busy", limit=1000)
    assert sum(run.skipped for run in runs) == 365 * 86_400 - 1
    assert len(runs) <= 200


# -- overlap


def test_skip_leaves_out_a_run_while_the_one_before_is_not_finished(app: Headrace, clock: VirtualClock) -> None:
    app.schedules.create("slow", "note", every=60, overlap="skip", queue="held")
    app.queue("held").pause()
    for _ in range(3):
        clock.advance(60)
        drain(app)
    assert times_of(app, "slow") == ["08:01"]
    assert statuses(app, "slow") == ["enqueued", "skipped", "skipped"]
    skipped = app.schedules.history("slow")[0]
    assert "slow:20260302T080100Z is not finished" in str(skipped.detail)
    app.queue("held").resume()
    drain(app)
    clock.advance(60)
    drain(app)
    assert times_of(app, "slow") == ["08:01", "08:04"]


def test_queue_fires_one_as_soon_as_the_one_before_is_finished(app: Headrace, clock: VirtualClock) -> None:
    app.schedules.create("line", "note", every=60, overlap="queue", catch_up="none", queue="held")
    app.queue("held").pause()
    for _ in range(4):
        clock.advance(60)
        drain(app)
    assert times_of(app, "line") == ["08:01"]
    app.queue("held").resume()
    drain(app)
    clock.advance(1)
    drain(app)
    assert times_of(app, "line") == ["08:01", "08:04"], "one waited, in place of all that came meanwhile"
    clock.advance(59)
    drain(app)
    assert times_of(app, "line")[2:] == ["08:05"]


def test_runs_that_are_skipped_because_of_a_longer_one_do_not_use_up_the_limit(
    app: Headrace, clock: VirtualClock
) -> None:
    app.schedules.create("slow", "note", every=60, limit=2, overlap="skip", queue="held")
    app.queue("held").pause()
    for _ in range(3):  # the second and the third find the first one unfinished
        clock.advance(60)
        drain(app)
    assert statuses(app, "slow") == ["enqueued", "skipped", "skipped"]
    assert app.schedules.get("slow").next_run == START + timedelta(minutes=4)
    app.queue("held").resume()
    clock.advance(60)
    drain(app)
    drain(app)
    clock.advance(60)
    drain(app)
    assert (app.schedules.get("slow").fired, app.schedules.get("slow").is_over) == (2, True)


@pytest.mark.parametrize("overlap", ["skip", "queue"])
@pytest.mark.parametrize("catch_up", ["limited", "all"])
def test_runs_that_make_way_for_a_newer_one_do_not_use_up_the_limit(
    app: Headrace, clock: VirtualClock, overlap: str, catch_up: str
) -> None:
    app.schedules.create("few", "note", every=60, limit=3, overlap=overlap, catch_up=catch_up)
    clock.advance(600)
    drain(app)
    assert times_of(app, "few") == ["08:10"]
    for _ in range(5):
        clock.advance(60)
        drain(app)
    assert times_of(app, "few") == ["08:10", "08:11", "08:12"]
    assert app.schedules.get("few").is_over


def test_of_several_that_are_due_at_once_only_the_newest_runs_where_runs_must_not_overlap(
    app: Headrace, clock: VirtualClock
) -> None:
    app.schedules.create("one", "note", every=60, overlap="skip")
    clock.advance(180)
    drain(app)
    assert times_of(app, "one") == ["08:03"]
    assert statuses(app, "one") == ["skipped", "skipped", "enqueued"]


# -- changing


def test_a_pause_holds_and_what_fell_into_it_is_not_made_up_for(app: Headrace, clock: VirtualClock) -> None:
    app.schedules.create("p", "note", every=60)
    assert app.schedules.pause("p").next_run is None
    clock.advance(600)
    assert drain(app) == 0
    assert [schedule.id for schedule in app.schedules.list(paused=True)] == ["p"]
    assert app.schedules.resume("p").next_run == clock.moment + timedelta(seconds=60)
    assert drain(app) == 0
    clock.advance(60)
    assert drain(app) == 1


def test_resuming_what_is_not_paused_loses_nothing(app: Headrace, clock: VirtualClock) -> None:
    app.schedules.create("p", "note", every=60)
    clock.advance(60)
    app.schedules.resume("p")
    assert drain(app) == 1


def test_an_update_of_the_times_begins_now_and_any_other_loses_nothing(app: Headrace, clock: VirtualClock) -> None:
    app.schedules.create("u", "note", cron="0 * * * *")
    clock.advance(3600)
    kept = app.schedules.update("u", overlap="skip", priority=3, queue="mail", jitter=10)
    assert (kept.overlap, kept.queue, kept.cron) == ("skip", "mail", "0 * * * *")
    clock.advance(10)
    assert drain(app) == 1
    assert (jobs_of(app, "u")[0].priority, jobs_of(app, "u")[0].queue) == (3, "mail")
    clock.advance(3600)
    moved = app.schedules.update("u", every=timedelta(minutes=5), jitter=0)
    assert (moved.cron, moved.every) == (None, timedelta(minutes=5))
    assert moved.next_run is not None
    assert moved.next_run > clock.moment
    assert drain(app) == 0


def test_an_update_may_change_the_call(app: Headrace, clock: VirtualClock) -> None:
    app.schedules.create("u", "note", every=60)
    changed = app.schedules.update("u", call=app.tasks["note"].bind(1, b=2))
    assert (changed.args, changed.kwargs) == ((1,), {"b": 2})
    clock.advance(60)
    drain(app)
    assert jobs_of(app, "u")[0].args == (1,)


def test_an_update_of_arguments_keeps_the_rest_of_the_call_and_what_stars_stand_for(
    app: Headrace, clock: VirtualClock
) -> None:
    app.task(name="sign", redact=("password",))(lambda user, password, more=None: None)
    app.schedules.create(
        "s", "sign", args=["ann", "x1"], kwargs={"more": {"password": "x2", "a": 1}}, every=60, tags=("t",)
    )
    before = app.schedules.update("s", priority=7, queue="mail")
    assert (before.priority, before.args, before.kwargs["more"]) == (7, ("ann", MASK), {"password": MASK, "a": 1})
    app.schedules.update("s", args=["bob", MASK], kwargs={"more": {"password": MASK, "a": 2}})
    app.schedules.update("s", kwargs={"more": {"password": "x3", "a": 2}})
    clock.advance(60)
    drain(app)
    job = jobs_of(app, "s")[0]
    assert (job.args, job.kwargs) == (("bob", "x1"), {"more": {"password": "x3", "a": 2}})
    assert (job.queue, job.priority, job.tags) == ("mail", 7, ("t",))
    for wrong in ({"args": [MASK, MASK]}, {"kwargs": {"other": MASK}}, {"args": "ann"}, {"args": ["a", "b", "c", "d"]}):
        with pytest.raises(HeadraceError):
            app.schedules.update("s", **wrong)
    with pytest.raises(InvalidSchedule, match="a new call has its own"):
        app.schedules.update("s", call=app.tasks["note"].bind(), args=[1])


def test_a_change_that_meets_a_firing_is_made_to_what_is_there_then(app: Headrace, clock: VirtualClock) -> None:
    app.schedules.create("u", "note", every=60)
    put = app.engine.schedule_store.put
    races: list[int] = []

    def late_put(row: ScheduleRow, *, new: bool = False) -> bool:
        if not races:
            races.append(row.version)
            clock.advance(60)
            drain(app)
        return put(row, new=new)

    app.engine.schedule_store.put = late_put  # type: ignore[method-assign]
    changed = app.schedules.update("u", overlap="skip")
    assert (changed.fired, changed.overlap) == (1, "skip")
    assert races, "the race took place"


def test_an_immediate_schedule_runs_once_when_it_is_made(app: Headrace, clock: VirtualClock) -> None:
    made = app.schedules.create("tick", "note", every=timedelta(minutes=5), limit=2, immediate=True)
    assert [job.state for job in jobs_of(app, "tick")] == ["pending"]
    assert (made.next_run, made.fired) == (START + timedelta(minutes=5), 0)
    drain(app)
    clock.advance(3600)
    drain(app)
    assert len(jobs_of(app, "tick")) == 3
    with pytest.raises(InvalidSchedule, match="immediate: expected True or False"):
        app.schedules.create("tock", "note", every=60, immediate="yes")  # type: ignore[arg-type]
    assert [schedule.id for schedule in app.schedules.list()] == ["tick"]


def test_running_one_now_leaves_its_times_alone(app: Headrace, clock: VirtualClock) -> None:
    before = app.schedules.create("r", "note", every=60, limit=5)
    app.schedules.pause("r")
    job = app.schedules.run_now("r")
    assert job.state == "pending"
    assert job.metadata["schedule_id"] == "r"
    after = app.schedules.resume("r")
    assert (after.fired, after.next_run) == (0, before.next_run)
    assert drain(app) == 1
    [run] = app.schedules.history("r")
    assert (run.status, run.job_id, run.detail) == ("enqueued", job.id, "run by hand")


def test_running_one_now_runs_it_at_once_where_jobs_run_inline(app: Headrace) -> None:
    app.schedules.create("r", "note", every=60)
    with inline(app):
        assert app.schedules.run_now("r").refresh().state == "completed"


def test_nothing_is_run_by_hand_in_a_store_that_has_moved(app: Headrace, clock: VirtualClock) -> None:
    app.schedules.create("r", "note", every=60)
    app.engine.transfer.set_status(StoreStatus("moved", "sqlite:///elsewhere.db", clock.now()))
    with pytest.raises(StoreMoved):
        app.schedules.run_now("r")
    clock.advance(60)
    assert drain(app) == 0


def test_delete_returns_whether_there_was_one(app: Headrace, clock: VirtualClock) -> None:
    app.schedules.create("d", "note", every=60)
    assert app.schedules.delete("d") is True
    assert app.schedules.delete("d") is False
    clock.advance(60)
    assert drain(app) == 0


# -- looking


def test_the_next_times_can_be_seen_before_anything_is_stored(app: Headrace) -> None:
    times = app.schedules.preview(cron="0 9 * * MON", tz="America/New_York", n=2)
    assert [time.isoformat() for time in times] == ["2026-03-02T09:00:00-05:00", "2026-03-09T09:00:00-04:00"]
    later = app.schedules.preview(cron="@daily", n=1, after=datetime(2027, 1, 1, 5, tzinfo=UTC))
    assert later == [datetime(2027, 1, 2, tzinfo=UTC)]
    assert app.schedules.list() == []


def test_times_are_shown_in_the_schedules_own_zone(app: Headrace) -> None:
    made = app.schedules.create("vienna", "note", cron="0 2 * * *", tz="Europe/Vienna")
    assert str(made.next_run) == "2026-03-03 02:00:00+01:00"
    assert str(app.schedules.preview("vienna", n=1)[0]) == "2026-03-03 02:00:00+01:00"


def test_secrets_in_the_arguments_are_not_shown(app: Headrace) -> None:
    @app.task(redact=("password",))
    def login(user: str, password: str) -> None: ...

    made = app.schedules.create("l", login.bind("me", password="hidden"), every=60)
    assert (made.args, made.kwargs) == (("me",), {"password": "***"})


def test_schedules_can_be_listed_by_task(app: Headrace) -> None:
    app.schedules.create("b", "note", every=60)
    app.schedules.create("a", "other", every=60)
    assert [schedule.id for schedule in app.schedules.list()] == ["a", "b"]
    assert [schedule.id for schedule in app.schedules.list(task="other")] == ["a"]


async def _by_coroutines(app: Headrace, clock: VirtualClock) -> int:
    await app.schedules.acreate("c", "note", every=60)
    await app.schedules.apause("c")
    await app.schedules.aresume("c")
    await app.schedules.aupdate("c", overlap="skip")
    assert (await app.schedules.aget("c")).overlap == "skip"
    assert len(await app.schedules.alist()) == 1
    assert len(await app.schedules.apreview("c", n=3)) == 3
    clock.advance(60)
    ran = await adrain(app)
    await app.schedules.arun_now("c")
    assert len(await app.schedules.ahistory("c")) == 2
    assert await app.schedules.adelete("c")
    return ran


def test_coroutines_have_all_of_it(app: Headrace, clock: VirtualClock) -> None:
    assert asyncio.run(_by_coroutines(app, clock)) == 1


# -- what is refused


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({}, "exactly one of cron, every and at"),
        ({"cron": "0 0 31 2 *"}, "never occurs"),
        ({"cron": "nonsense"}, "cron"),
        ({"cron": "@daily", "tz": "Europe/Wien"}, "tz"),
        ({"every": 0}, "every"),
        ({"at": datetime(2020, 1, 1, tzinfo=UTC)}, "not in the future"),
        ({"at": datetime(2027, 1, 1)}, "no time zone"),
        ({"every": 60, "overlapp": "skip"}, "did you mean 'overlap'"),
        ({"every": 60, "job_id": "x"}, "belongs to a single job"),
        ({"every": 60, "run_at": START}, "belongs to a single job"),
        ({"every": 60, "args": "x"}, "args: expected a list"),
        ({"every": 60, "kwargs": [1]}, "kwargs: expected a dict"),
    ],
)
@pytest.mark.engines("sqlite")
def test_what_can_not_be_is_refused_with_the_reason(app: Headrace, how: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidSchedule, match=expected):
        app.schedules.create("x", "note", **how)
    assert app.schedules.list() == []


@pytest.mark.engines("sqlite")
def test_a_wrong_call_is_refused_when_it_is_scheduled(app: Headrace) -> None:
    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    with pytest.raises(InvalidJob, match="b"):
        app.schedules.create("x", add.bind(1), every=60)
    with pytest.raises(InvalidSchedule, match="args and kwargs belong to a task"):
        app.schedules.create("x", add.bind(1, 2), args=(1,), every=60)
    with pytest.raises(InvalidSchedule, match="belongs to a single job"):
        app.schedules.create("x", add.using(job_id="mine").bind(1, 2), every=60)


@pytest.mark.engines("sqlite")
def test_names_that_are_taken_unknown_or_wrong_are_refused(app: Headrace) -> None:
    app.schedules.create("nightly", "note", every=60)
    with pytest.raises(InvalidSchedule, match="schedule 'nightly' exists already"):
        app.schedules.create("nightly", "note", every=60)
    with pytest.raises(ScheduleNotFound, match="did you mean 'nightly'"):
        app.schedules.get("nightl")
    for wrong in ("", "two words", "x" * 101, 7):
        with pytest.raises(InvalidSchedule, match="can't name a schedule"):
            app.schedules.get(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidSchedule, match="did you mean 'overlap'"):
        app.schedules.update("nightly", overlapp="skip")
    with pytest.raises(InvalidSchedule, match="every"):
        app.schedules.update("nightly", every=-1)
    with pytest.raises(InvalidSchedule, match="not both"):
        app.schedules.preview("nightly", cron="@daily")
