"""Jobs are shown completely, without secrets, and without control characters."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from headrace import Headrace, PermanentError, current_job
from headrace.cli.commands.jobs.jobs import _unseen
from headrace.cli.job_view import line_text
from headrace.runtime.jobs.services import LogEntry
from tests.support.command_line import Shell, finish
from tests.support.waiting import eventually

SECRET = "hunter2"  # must never be printed


@pytest.fixture
def app(shell: Shell) -> Iterator[Headrace]:
    """A store with jobs in many states."""

    def add(a: int, b: int) -> int:
        current_job().progress(0.5)
        current_job().log("adding\x1b[2J", level="warning", a=a)
        return a + b

    def login(user: str, password: str) -> None:
        raise PermanentError("no \x1b[31mentry")

    with shell.app() as app:
        app.task(name="add")(add).using(job_id="done-0001", tags=("sums",), metadata={"by": "me"}).enqueue(1, 2)
        app.task(name="login", redact=("password",))(login).using(job_id="dead-0001").enqueue("ann", SECRET)
        app.run_worker(drain=True)
        app.task_by_name("later").using(job_id="later-001", delay=3600, queue="slow").enqueue()
        app.task_by_name("now").using(job_id="now-00001", priority=7).enqueue("[bold]x[/bold]")
        yield app


def test_a_list_shows_the_newest_first_with_whole_ids(shell: Shell, app: Headrace) -> None:
    for command in (("jobs",), ("jobs", "list")):
        head, *lines = shell(*command).out.splitlines()
        assert head.split() == ["ID", "STATE", "TASK", "ARGUMENTS", "QUEUE", "ATTEMPT", "AGE", "PRIO", "DETAIL"]
        assert [line.split()[:2] for line in lines] == [
            ["now-00001", "pending"],
            ["later-001", "scheduled"],
            ["dead-0001", "failed"],
            ["done-0001", "completed"],
        ]
        assert " a=1, b=2 " in lines[3]
        assert 'user="ann", password=***' in lines[2]
        assert SECRET not in "".join(lines)


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (("--state", "failed"), ["dead-0001"]),
        (("--state", "failed,pending"), ["now-00001", "dead-0001"]),
        (("--state", "FAILED", "--state", "pending"), ["now-00001", "dead-0001"]),
        (("--queue", "slow"), ["later-001"]),
        (("--task", "add"), ["done-0001"]),
        (("--tag", "sums"), ["done-0001"]),
        (("--text", "bold"), ["now-00001"]),
        (("--worker", "nobody"), []),
        (("--since", "1h", "--task", "add"), ["done-0001"]),
        (("--until", "1h"), []),
        (("--since", "2020-01-01", "--until", "2021-01-01T00:00:00Z"), []),
        (("--limit", "1"), ["now-00001"]),
    ],
)
def test_filters_choose(shell: Shell, app: Headrace, filters: tuple[str, ...], found: list[str]) -> None:
    assert [job["id"] for job in shell("jobs", "list", *filters, "--json").json["jobs"]] == found
    assert [job["id"] for job in shell("jobs", *filters, "--json").json["jobs"]] == found


def test_pages_follow_one_another(shell: Shell, app: Headrace) -> None:
    first = shell("jobs", "--limit", "3", "--json").json
    rest = shell("jobs", "--limit", "3", "--cursor", first["cursor"], "--json").json
    assert [job["id"] for job in rest["jobs"]] == ["done-0001"]
    assert rest["cursor"] is None
    assert f"--cursor {first['cursor']}" in shell("jobs", "--limit", "3").err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--state", "asleep"), "states are scheduled, waiting, pending"),
        (("--since", "yesterday"), "10m, 2h, 3d"),
        (("--until", "99999999999d"), "too long ago"),
        (("--limit", "10001"), "10000"),
        (("--cursor", "x"), "cursor 'x'"),
    ],
)
def test_a_wrong_filter_is_named(shell: Shell, app: Headrace, arguments: tuple[str, ...], expected: str) -> None:
    ran = shell("jobs", "list", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert expected in ran.err


def test_nothing_found_leaves_stdout_empty(shell: Shell, app: Headrace) -> None:
    assert shell("jobs", "--tag", "none") == (0, "", "no jobs match\n")
    assert shell("jobs", "--tag", "none", "--json").json == {"jobs": [], "cursor": None}


def test_one_job_is_shown_with_all_its_facts(shell: Shell, app: Headrace) -> None:
    facts = dict(line.split(maxsplit=1) for line in shell("jobs", "show", "done-0001").out.splitlines())
    assert facts["call"] == "add(a=1, b=2)"
    assert (facts["state"], facts["result"], facts["progress"]) == ("completed", "3", "50%")
    assert (facts["tags"], facts["metadata"]) == ("sums", "by='me'")
    record = shell("jobs", "show", "done-0001", "--json").json
    assert (record["args"], record["kwargs"], record["result"], record["errors"]) == ([1, 2], {}, 3, [])
    created = datetime.fromisoformat(record["created_at"])
    assert created.utcoffset() == timedelta(0)
    assert created == app.jobs.get("done-0001").created_at


def test_a_failure_is_shown_with_its_traceback_and_steers_no_terminal(shell: Shell, app: Headrace) -> None:
    for command in (("jobs", "show"), ("jobs", "history"), ("why",), ("jobs", "logs")):
        for job in ("dead-0001", "done-0001"):
            assert "\x1b" not in shell(*command, job).out
    shown = shell("jobs", "show", "dead-0001").out
    assert "Traceback" in shown
    assert "PermanentError: no \\x1b[31mentry" in shown
    (error,) = shell("jobs", "show", "dead-0001", "--json").json["errors"]
    assert (error["type"], error["message"], error["attempt"]) == ("PermanentError", "no \x1b[31mentry", 1)


def test_secrets_are_starred_out_wherever_a_job_is_shown(shell: Shell, app: Headrace) -> None:
    for command in (("jobs",), ("jobs", "show", "dead-0001"), ("jobs", "history", "dead-0001"), ("why", "dead-0001")):
        for form in ((), ("--json",)):
            ran = shell(*command, *form)
            assert ran.code == 0
            assert SECRET not in ran.out + ran.err
    assert "login(user='ann', password='***')" in shell("jobs", "show", "dead-0001").out
    assert shell("jobs", "show", "dead-0001", "--json").json["args"] == ["ann", "***"]


def test_types_that_json_lacks_are_tagged_as_enqueue_accepts_them(shell: Shell, app: Headrace) -> None:
    app.task_by_name("at").using(job_id="tagged-01").enqueue(datetime(2026, 3, 1, tzinfo=UTC), {"a", "b"})
    args = shell("jobs", "show", "tagged-01", "--json").json["args"]
    again = shell("enqueue", "at", json.dumps(args)).out.strip()
    assert app.jobs.get(again).args == (datetime(2026, 3, 1, tzinfo=UTC), {"a", "b"})


def test_a_job_with_a_damaged_payload_is_shown(shell: Shell, app: Headrace) -> None:
    with closing(sqlite3.connect(shell.folder / "headrace.db")) as db, db:
        db.execute("UPDATE headrace_jobs SET payload = '{' WHERE id = 'now-00001'")
    db.close()
    shown = shell("jobs", "show", "now-00001")
    assert shown.code == 0
    assert "payload is damaged" in shown.out
    record = shell("jobs", "show", "now-00001", "--json").json
    assert record["args"] is None
    assert "damaged" in record["unreadable"]


def test_a_huge_call_is_truncated_in_text_and_complete_in_json(shell: Shell, app: Headrace) -> None:
    app.task_by_name("big").using(job_id="big-00001").enqueue("x" * 50_000)
    assert len(shell("jobs", "show", "big-00001").out) < 10_000
    assert "--json shows all" in shell("jobs", "show", "big-00001").out
    assert shell("jobs", "show", "big-00001", "--json").json["args"] == ["x" * 50_000]


def test_a_history_has_every_transition(shell: Shell, app: Headrace) -> None:
    steps = shell("jobs", "history", "dead-0001", "--json").json
    assert [(step["event"], step["to_state"]) for step in steps] == [
        ("submit", "pending"),
        ("claim", "running"),
        ("fail", "failed"),
    ]
    head, *lines = shell("jobs", "history", "dead-0001").out.splitlines()
    assert head.split()[:2] == ["AT", "EVENT"]
    assert len(lines) == 3


def test_logs_show_level_text_and_fields(shell: Shell, app: Headrace) -> None:
    (line,) = shell("jobs", "logs", "done-0001").out.splitlines()
    assert "WARNING adding\\x1b[2J a=1" in line
    (record,) = shell("jobs", "logs", "done-0001", "--json").json
    assert (record["level"], record["fields"], record["attempt"]) == ("warning", {"a": 1}, 1)
    assert shell("jobs", "logs", "dead-0001") == (0, "", "the job has logged nothing\n")


def test_further_lines_of_a_message_can_not_be_taken_for_log_lines() -> None:
    at = datetime(2026, 11, 16, 12, tzinfo=UTC)
    line = LogEntry(at, 1, "error", "first\n2026-11-16 12:00:01.000 UTC ERROR   forged", {"n": 1})
    assert line_text(line).splitlines() == [
        "2026-11-16 12:00:00.000 UTC ERROR   first n=1",
        "  | 2026-11-16 12:00:01.000 UTC ERROR   forged",
    ]


def test_following_a_log_ends_with_the_job(shell: Shell, app: Headrace) -> None:
    gate = threading.Event()

    def speak() -> None:
        current_job().log("before")
        current_job().heartbeat()
        assert gate.wait(30)
        current_job().log("after")

    app.task(name="speak")(speak)
    app.jobs.delete(ids=["now-00001"])
    job = app.task_by_name("speak").using(job_id="speaks-01").enqueue()
    with app.worker():
        follower = shell.start("jobs", "logs", "speaks-01", "--follow")
        assert follower.stdout is not None
        assert "before" in follower.stdout.readline()
        gate.set()
        ran = finish(follower)
    assert ran.code == 0
    assert [line.split()[-1] for line in ran.out.splitlines()] == ["after"]
    assert ran.err == "the job is completed\n"
    eventually(lambda: job.refresh().is_finished, "the job ends")


def test_following_a_log_repeats_no_line_and_loses_none_while_old_ones_fall_off() -> None:
    def line(number: int) -> LogEntry:
        return LogEntry(datetime(2026, 1, 1, 0, 0, number, tzinfo=UTC), 1, "info", "the same words", {})

    log = [line(number) for number in range(20)]
    assert _unseen([], log) == log
    assert _unseen(log[:10], log[5:15]) == log[10:15]
    assert _unseen(log, log) == []
    assert _unseen(log[:5], log[10:]) == log[10:]
    assert _unseen([line(0)] * 2, [line(0)] * 5) == [line(0)] * 3


def test_json_and_following_exclude_each_other(shell: Shell, app: Headrace) -> None:
    assert shell("jobs", "logs", "done-0001", "--follow", "--json").code == 2


def test_why_is_one_sentence(shell: Shell, app: Headrace) -> None:
    assert shell("why", "now-00001").out == "No worker is alive; start one with `headrace worker`.\n"
    assert shell("why", "later-001").out.startswith("It is scheduled to run in 59 min")
    record = shell("why", "dead-0001", "--json").json
    assert (record["id"], record["state"]) == ("dead-0001", "failed")
    assert record["why"].startswith("It is over: failed")


def test_a_unique_prefix_of_an_id_is_enough(shell: Shell, app: Headrace) -> None:
    app.task_by_name("x").using(job_id="long-name-1").enqueue("done-000")  # an argument is not an id
    app.task_by_name("x").using(job_id="long-name-2").enqueue()
    assert shell("why", "done-000", "--json").json["id"] == "done-0001"
    ambiguous = shell("why", "long-name")
    assert ambiguous.code == 2
    assert "long-name-1" in ambiguous.err
    assert "long-name-2" in ambiguous.err
    short = shell("why", "done-00")
    assert (short.code, "needs at least 8 characters" in short.err) == (1, True), "seven characters are too few"
    assert shell("why", "nobody-at-all").code == 1
    assert shell("jobs", "show", "long-name-1").code == 0


def test_a_filter_before_the_subcommand_is_refused_rather_than_ignored(shell: Shell, app: Headrace) -> None:
    ran = shell("jobs", "--queue", "slow", "delete", "--all", "--yes")
    assert ran.code == 2
    assert "put --queue after 'delete'" in ran.err
    assert shell("jobs", "--json", "list").code == 2
    assert app.jobs.count() == 4
