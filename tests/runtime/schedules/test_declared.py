"""Schedules that code declares: how they are written, how they get into the store, and what an operator's will is
worth against them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from headrace import ConfigError, Headrace, InvalidJob, InvalidSchedule, Job, Task
from headrace.testing import VirtualClock, drain, isolated

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
def app(url: str, clock: VirtualClock) -> Iterator[Headrace]:
    with Headrace(url, clock=clock) as app:
        yield app


def jobs_of(app: Headrace, schedule_id: str) -> list[Job[Any]]:
    return [job for job in app.jobs.find(limit=1000) if job.metadata.get("schedule_id") == schedule_id]


def declare(app: Headrace, **how: Any) -> Task[..., Any, Any]:
    @app.every(**how)
    @app.task(name="tick")
    def tick() -> None: ...

    return tick


def test_a_declared_immediate_schedule_runs_once_when_it_is_first_stored(app: Headrace) -> None:
    declare(app, minutes=5, immediate=True)
    for _ in range(3):
        app.schedules.sync()
    assert len(jobs_of(app, "tick")) == 1


def test_decorators_give_back_the_task_and_several_may_stand_above_one(app: Headrace) -> None:
    @app.cron("0 9 * * MON", tz="America/New_York")
    @app.every(minutes=5)
    @app.task
    def report() -> str:
        return "done"

    @app.cron("@daily", name="daily-sum", args=(1,), kwargs={"b": 2}, queue="sums", overlap="skip")
    def add(a: int, b: int) -> int:
        return a + b

    assert report() == "done"
    assert add(1, 2) == 3
    assert app.tasks["report"] is report
    assert app.tasks["add"] is add
    assert app.schedules.declared == ("report", "report-2", "daily-sum")
    assert app.schedules.list() == [], "nothing is stored at import"
    assert app.schedules.sync() == ["report", "report-2", "daily-sum"]
    assert app.schedules.sync() == []
    daily = app.schedules.get("daily-sum")
    assert (daily.task, daily.args, daily.kwargs, daily.queue) == ("add", (1,), {"b": 2}, "sums")
    assert (daily.origin, daily.overlap) == ("code", "skip")


def test_declared_schedules_fire_in_a_test_from_the_start_of_its_clock(app: Headrace, clock: VirtualClock) -> None:
    declare(app, minutes=5)
    clock.advance(1500)
    assert drain(app) == 5
    with isolated(app) as another:
        another.advance(300)
        assert drain(app) == 1


def test_an_operators_pause_and_update_outlive_a_deploy_that_changes_nothing(
    app: Headrace, url: str, clock: VirtualClock
) -> None:
    declare(app, minutes=5)
    app.schedules.sync()
    app.schedules.update("tick", every=60)
    app.schedules.pause("tick")
    clock.advance(3600)
    declare(app, minutes=5)
    assert app.schedules.sync() == []
    kept = app.schedules.get("tick")
    assert (kept.paused, kept.every) == (True, timedelta(seconds=60))


def test_a_changed_declaration_is_taken_over_and_a_pause_still_holds(app: Headrace, clock: VirtualClock) -> None:
    declare(app, minutes=5)
    app.schedules.sync()
    app.schedules.pause("tick")
    app.schedules.update("tick", every=60)
    declare(app, minutes=7)
    assert app.schedules.sync() == ["tick"]
    changed = app.schedules.get("tick")
    assert (changed.every, changed.paused, changed.next_run) == (timedelta(minutes=7), True, None)
    assert app.schedules.resume("tick").next_run is not None


def test_a_deploy_that_changes_other_things_than_times_loses_no_missed_run(app: Headrace, clock: VirtualClock) -> None:
    declare(app, minutes=5)
    app.schedules.sync()
    clock.advance(300)
    declare(app, minutes=5, queue="other")
    assert app.schedules.sync() == ["tick"]
    assert drain(app) == 1
    assert jobs_of(app, "tick")[0].queue == "other"


def test_a_schedule_that_is_no_longer_declared_continues_and_is_logged(
    app: Headrace, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    declare(app, minutes=5, name="old")
    app.schedules.sync()
    app.schedules._declarations.known.clear()  # as with the code of the next release
    app.schedules.sync()
    assert "schedule old of task tick is no longer declared" in caplog.text
    clock.advance(300)
    assert drain(app) == 1


def test_a_schedule_that_was_made_by_hand_is_taken_over_by_code_of_its_name(app: Headrace) -> None:
    app.schedules.create("tick", "tick", cron="@daily")
    declare(app, minutes=5)
    assert app.schedules.sync() == ["tick"]
    taken = app.schedules.get("tick")
    assert (taken.origin, taken.cron, taken.every) == ("code", None, timedelta(minutes=5))


@pytest.mark.engines("sqlite")
def test_mistakes_in_a_declaration_are_reported_where_it_stands(app: Headrace) -> None:
    with pytest.raises(InvalidSchedule, match="cron"):
        app.cron("every monday")
    with pytest.raises(InvalidSchedule, match="give an interval"):
        app.every()
    with pytest.raises(InvalidSchedule, match="give an interval"):
        app.every(5, minutes=5)
    with pytest.raises(InvalidSchedule, match="expected numbers of minutes"):
        app.every(minutes="5")  # type: ignore[arg-type]
    with pytest.raises(InvalidSchedule, match="give an interval"):
        app.every(minute=5)  # type: ignore[call-arg]
    with pytest.raises(InvalidSchedule, match="did you mean 'overlap'"):
        app.every(5, overlapp="skip")  # type: ignore[call-arg]
    with pytest.raises(InvalidSchedule, match=r"give args=\(...\) or kwargs"):

        @app.every(minutes=5)
        @app.task
        def needs(what: str) -> None: ...

    with pytest.raises(InvalidSchedule, match="two schedules are called 'same'"):

        @app.every(5, name="same")
        @app.every(6, name="same")
        @app.task
        def twice() -> None: ...

    with pytest.raises(ConfigError, match="is not a function"):
        app.every(5)(7)  # type: ignore[call-overload]


@pytest.mark.engines("sqlite")
def test_a_task_that_is_defined_anew_brings_its_schedules_along(app: Headrace) -> None:
    for seconds in (60, 120):
        declare(app, seconds=seconds)
    assert app.schedules.declared == ("tick",)
    app.schedules.sync()
    assert app.schedules.get("tick").every == timedelta(seconds=120)


@pytest.mark.engines("sqlite")
def test_one_declaration_that_can_not_be_stored_does_not_keep_the_others_out(app: Headrace) -> None:
    known = app.schedules._declarations.known
    declare(app, minutes=5, name="bad")
    declare(app, minutes=5, name="good")
    known["bad"] = msgspec.structs.replace(known["bad"], call=app.tasks["tick"].bind(b"x" * 100_000_000))
    with pytest.raises(InvalidJob):
        app.schedules.sync()
    assert [schedule.id for schedule in app.schedules.list()] == ["good"]
