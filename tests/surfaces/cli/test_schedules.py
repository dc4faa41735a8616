"""Schedules from the command line: output is correct, and actions are carried out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from headrace import Headrace
from tests.support.command_line import Shell, end
from tests.support.schedules import stored_schedule
from tests.support.waiting import eventually

CODE = """
from headrace import Headrace

app = Headrace()

@app.cron("0 9 * * MON", tz="America/New_York")
@app.every(hours=1)
@app.task
def report() -> None: ...

@app.task(redact=("password",))
def login(user: str, password: str = "") -> None: ...
"""


@pytest.fixture
def app(shell: Shell) -> Iterator[Headrace]:
    with shell.app() as app:
        app.schedules.create("nightly", "x", cron="0 2 * * *", tz="Europe/Vienna", overlap="skip")
        app.schedules.create("pulse", "x", args=(1,), kwargs={"b": "two"}, every=30, limit=100)
        yield app


def test_schedules_are_listed_with_their_next_runs_in_their_own_zones(shell: Shell, app: Headrace) -> None:
    app.schedules.pause("pulse")
    for command in (("schedules",), ("schedules", "list")):
        ran = shell(*command)
        head, nightly, pulse = ran.out.splitlines()
        assert head.split() == ["ID", "STATE", "RUNS", "NEXT", "DUE", "LAST", "FIRED", "TASK", "FROM"]
        assert nightly.startswith("nightly  active  0 2 * * *  ")
        assert " 02:00:00 CE" in nightly
        assert "  in " in nightly
        assert pulse.split() == ["pulse", "paused", "every", "30s", "-", "-", "-", "0", "x", "api"]
    one, other = shell("schedules", "--json").json
    assert (one["id"], one["state"], one["tz"], one["overlap"]) == ("nightly", "active", "Europe/Vienna", "skip")
    assert one["next_run"].endswith("Z")
    assert datetime.fromisoformat(one["next_run"]) == app.schedules.get("nightly").next_run
    assert (other["state"], other["every"], other["next_run"]) == ("paused", 30.0, None)


def test_an_empty_list_says_how_to_create_one_and_what_code_declares(shell: Shell) -> None:
    module = shell.module(CODE)
    with shell.app() as app:
        app.engine.migrate()
    assert "there are no schedules; declare one with @app.cron" in shell("schedules").err
    ran = shell("--app", module, "schedules")
    assert "note: the code declares report; the next worker to start stores it" in ran.err
    assert shell("schedules", "--json").json == []


def test_a_schedule_is_shown_with_its_last_runs_and_without_secrets(shell: Shell, app: Headrace) -> None:
    module = shell.module(CODE)
    made = shell(
        "--app", module, "schedules", "create", "l", "login", '["me"]', '{"password": "hidden"}', "--every", "1h"
    )
    assert made.code == 0, made.err
    job = app.schedules.run_now("l")
    ran = shell("--app", module, "schedules", "show", "l")
    assert "every 60m (UTC)" in ran.out
    assert 'user="me", password=***' in ran.out
    assert "hidden" not in ran.out
    assert job.id in ran.out
    assert "run by hand" in ran.out
    record = shell("--app", module, "schedules", "show", "l", "--json").json
    assert [run["job_id"] for run in record["runs"]] == [job.id]
    assert record["kwargs"] == {"password": "***"}


def test_pausing_resuming_and_running_by_hand(shell: Shell, app: Headrace) -> None:
    assert (
        shell("schedules", "pause", "nightly", "pulse").out == "schedule nightly is paused\nschedule pulse is paused\n"
    )
    assert [schedule.paused for schedule in app.schedules.list()] == [True, True]
    resumed = shell("schedules", "resume", "nightly").out
    assert resumed.startswith("schedule nightly runs next at ")
    assert not app.schedules.get("nightly").paused
    job_id = shell("schedules", "run", "pulse").out.strip()
    assert app.jobs.get(job_id).args == (1,)
    assert shell("schedules", "run", "pulse", "--json").json["metadata"]["schedule_id"] == "pulse"


def test_one_wrong_id_leaves_every_schedule_as_it_was(shell: Shell, app: Headrace) -> None:
    ran = shell("schedules", "pause", "nightly", "pulze")
    assert (ran.code, ran.err) == (1, "error: no schedule has the id 'pulze'; did you mean 'pulse'?\n")
    assert not app.schedules.get("nightly").paused


def test_a_preview_needs_neither_a_schedule_nor_a_store(shell: Shell) -> None:
    ran = shell(
        "schedules",
        "preview",
        "--cron",
        "0 9 * * MON",
        "--tz",
        "America/New_York",
        "-n",
        "2",
        "--after",
        "2026-03-02T00:00",
    )
    assert ran.out == "2026-03-02 09:00:00 EST\n2026-03-09 09:00:00 EDT\n"
    record = shell("schedules", "preview", "--cron", "@daily", "-n", "1", "--after", "2026-03-02", "--json").json
    assert record == ["2026-03-03T00:00:00Z"]
    assert list(shell.folder.iterdir()) == []


def test_a_preview_of_a_schedule(shell: Shell, app: Headrace) -> None:
    lines = shell("schedules", "preview", "nightly", "-n", "3").out.splitlines()
    assert len(lines) == 3
    assert all(" 02:00:00 CE" in line for line in lines)
    for wrong in ((), ("nightly", "--cron", "@daily")):
        ran = shell("schedules", "preview", *wrong)
        assert ran.code == 2
        assert "give the ID of a schedule, or an expression with --cron" in ran.err


def test_a_schedule_is_created(shell: Shell) -> None:
    ran = shell(
        "schedules", "create", "n", "x", "[1]", "--cron", "0 2 * * *", "--tz", "Europe/Vienna", "--priority", "5"
    )
    assert ran.out.startswith("schedule n runs next at ")
    assert "this created a new store" in ran.err
    once = datetime.now(UTC) + timedelta(days=2)
    record = shell("schedules", "create", "o", "x", "--at", once.isoformat(), "--queue", "q", "--json").json
    assert (record["id"], record["queue"], record["cron"]) == ("o", "q", None)
    with shell.app() as app:
        assert app.schedules.get("n").args == (1,)
        assert app.schedules.run_now("n").priority == 5


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--cron", "0 0 31 2 *"), "never occurs"),
        (("--cron", "@daily", "--tz", "Europe/Wien"), "tz"),
        ((), "exactly one of cron, every and at"),
        (("--every", "soon"), "'soon' is not a time"),
        (("--every", "60", "--overlap", "maybe"), "maybe"),
    ],
)
def test_an_impossible_schedule_is_a_usage_error_of_one_line(
    shell: Shell, arguments: tuple[str, ...], expected: str
) -> None:
    ran = shell("schedules", "create", "n", "x", *arguments)
    assert ran.code == 2
    assert expected in ran.err
    assert "Traceback" not in ran.err


def test_deleting_needs_a_confirmation(shell: Shell, app: Headrace) -> None:
    assert shell("schedules", "delete", "pulse").code == 2
    assert shell("schedules", "delete", "pulse", "--yes").out == "schedule pulse is deleted\n"
    assert [schedule.id for schedule in app.schedules.list()] == ["nightly"]
    assert shell("schedules", "delete", "pulse", "--yes").code == 1


def test_a_worker_stores_and_fires_what_code_declares(shell: Shell) -> None:
    module = shell.module(CODE.replace("hours=1", "seconds=0.2"))
    process = shell.start("--app", module, "worker")
    try:
        with shell.app() as app:
            eventually(lambda: app.jobs.count(task="report", state="completed") >= 2, "two runs")
            assert [schedule.id for schedule in app.schedules.list()] == ["report", "report-2"]
            assert "is deleted" in shell("schedules", "delete", "report-2", "--yes").out
    finally:
        ran = end(process)
    assert ran.code == 0
    deleted = shell("--app", module, "schedules", "delete", "report", "--yes")
    assert "the next worker to start creates it again" in deleted.err


def test_the_doctor_reports_broken_and_late_schedules(shell: Shell, app: Headrace) -> None:
    module = shell.module(CODE)
    schedule_store = app.engine.schedule_store
    app.schedules.pause("nightly")
    app.schedules.create("late", "x", every=60)
    row = stored_schedule(schedule_store, "late")
    assert row is not None
    long_ago = app.clock.now() - 600_000
    schedule_store.put(msgspec.structs.replace(row, occurrence=long_ago, due_at=long_ago))
    app.schedules.create("old", "report", every=60)
    row = stored_schedule(schedule_store, "old")
    assert row is not None
    schedule_store.put(msgspec.structs.replace(row, origin="code"))
    record = shell("--app", module, "doctor", "--json").json
    assert "schedule 'nightly' is paused; resume it with `headrace schedules resume nightly`" in record["remarks"]
    assert any("schedule 'old' is no longer declared in this code" in remark for remark in record["remarks"])
    assert any("schedule 'late' was due 10 min ago and no worker is alive" in finding for finding in record["findings"])
    assert not any("'pulse'" in record for record in (*record["findings"], *record["remarks"]))


def test_the_doctor_reports_a_schedule_whose_task_no_worker_knows(shell: Shell, app: Headrace) -> None:
    with shell.app() as other, other.worker():
        record = shell("doctor", "--json").json
    assert any("schedule 'pulse': no live worker knows its task 'x'" in finding for finding in record["findings"])


def test_the_doctor_reports_a_schedule_that_is_over_or_broken(shell: Shell, app: Headrace) -> None:
    schedule_store = app.engine.schedule_store
    for name, changes in (
        ("pulse", {"occurrence": None, "due_at": None, "fired": 100}),
        ("nightly", {"error": "InvalidSchedule: cron"}),
    ):
        row = stored_schedule(schedule_store, name)
        assert row is not None
        schedule_store.put(msgspec.structs.replace(row, **changes))
    record = shell("doctor", "--json").json
    over = "schedule 'pulse' is finished after 100 runs and will not fire again"
    assert f"{over}; delete it with `headrace schedules delete pulse`" in record["remarks"]
    assert any("schedule 'nightly' could not fire: InvalidSchedule" in finding for finding in record["findings"])
    states = {one["id"]: one["state"] for one in shell("schedules", "--json").json}
    assert states == {"pulse": "over", "nightly": "failed"}


def test_a_schedule_may_run_at_once_as_well(shell: Shell) -> None:
    assert shell("schedules", "create", "later", "x", "--every", "1h").code == 0
    assert shell("schedules", "create", "now", "x", "--every", "1h", "--immediate").code == 0
    with shell.app() as app:
        assert [job.task for job in app.jobs.find()] == ["x"]
