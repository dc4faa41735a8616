"""Queues and workers from the command line: output is correct, and actions are carried out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from headrace import Headrace
from tests.support.command_line import Shell
from tests.support.traced_worker import sign_on_tracing
from tests.support.waiting import PATIENCE, eventually


@pytest.fixture
def app(shell: Shell) -> Iterator[Headrace]:
    with shell.app() as app:
        for number in range(3):
            app.task_by_name("x").using(job_id=f"mail-{number}", queue="mail", priority=number).enqueue()
        app.task_by_name("x").using(job_id="later", queue="mail", delay=3600).enqueue()
        yield app


def test_queues_are_listed_with_their_counts(shell: Shell, app: Headrace) -> None:
    for command in (("queues",), ("queues", "list")):
        head, line = shell(*command).out.splitlines()
        row = dict(zip(head.split(), line.split(), strict=True))
        assert (row["QUEUE"], row["STATE"], row["PENDING"], row["SCHEDULED"]) == ("mail", "unserved", "3", "1")
    (record,) = shell("queues", "--json").json
    assert (record["queue"], record["paused"], record["pending"], record["failed"]) == ("mail", False, 3, 0)
    assert datetime.fromisoformat(record["oldest_pending"]) <= datetime.now(UTC)


def test_pausing_and_resuming_is_stored(shell: Shell, app: Headrace) -> None:
    ran = shell("queues", "pause", "mail", "new")
    assert ran.out == "queue mail is paused\nqueue new is paused (new: it has never had a job)\n"
    assert app.queue("mail").paused
    assert app.queue("new").paused
    assert "paused; resume it" in shell("why", "mail-0").out
    assert shell("queues", "resume", "mail").out == "queue mail is open\n"
    assert shell("queues", "pause", "new", "--json").json == [{"queue": "new", "paused": True}]
    assert shell("tasks", "pause", "x", "--json").json == [{"task": "x", "paused": True}]
    assert app.task_rules()["x"].paused
    assert not app.queue("mail").paused


def test_one_wrong_name_leaves_every_queue_as_it_was(shell: Shell, app: Headrace) -> None:
    ran = shell("queues", "pause", "mail", "no blanks")
    assert ran.code == 2
    assert "'no blanks' is not a queue name" in ran.err
    assert not app.queue("mail").paused


def test_peeking_shows_the_order_of_running(shell: Shell, app: Headrace) -> None:
    lines = shell("queues", "peek", "mail").out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["mail-2", "mail-1", "mail-0"]
    assert [job["id"] for job in shell("queues", "peek", "mail", "-n", "1", "--json").json] == ["mail-2"]
    assert shell("queues", "peek", "empty") == (0, "", "no job is pending in queue empty\n")
    assert shell("queues", "peek", "empty", "--json").json == []


def test_clearing_needs_a_confirmation_and_spares_started_jobs(shell: Shell, app: Headrace) -> None:
    app.jobs.get("mail-0").cancel()
    refused = shell("queues", "clear", "mail")
    assert refused.code == 2
    assert "this would delete 3 jobs of queue mail" in refused.err
    shell.answer("n\n")
    assert shell("queues", "clear", "mail").code == 1
    assert app.jobs.count() == 4
    assert shell("queues", "clear", "mail", "--yes", "--json").json == {"queue": "mail", "deleted": 3}
    assert [job.id for job in app.jobs.find()] == ["mail-0"]


def test_json_before_a_subcommand_is_refused_rather_than_ignored(shell: Shell, app: Headrace) -> None:
    for group in ("queues", "workers"):
        ran = shell(group, "--json", "list")
        assert ran.code == 2
        assert "put --json after 'list'" in ran.err


def test_workers_are_listed_and_apply_commands(shell: Shell, app: Headrace) -> None:
    assert shell("workers") == (0, "", "no worker is alive; start one with `headrace worker`\n")
    with app.worker(queues={"other": 2}, concurrency=3) as worker:
        head, line = shell("workers").out.splitlines()
        row = dict(zip(head.split(), line.split(), strict=True))
        assert (row["ID"], row["STATE"], row["BUSY"], row["QUEUES"]) == (worker.id, "running", "0/3", "other=2")
        (record,) = shell("workers", "list", "--json").json
        assert (record["id"], record["silent"], record["queues"]) == (worker.id, False, {"other": 2})
        assert shell("workers", "pause", worker.id).out == f"worker {worker.id} is asked to pause\n"
        ran = shell("workers", "log-level", worker.id, "WARNING,headrace.cli=WARNING")
        assert ran.out == f"worker {worker.id} is asked to log at WARNING,headrace.cli=WARNING\n"
        assert "'LOUD' is not one of" in shell("workers", "log-level", worker.id, "LOUD").err
        eventually(lambda: worker.describe().state == "paused", "the worker pauses")
        assert shell("workers", "resume", worker.id[:-2]).code == 0, "a prefix is enough"
        eventually(lambda: worker.describe().state == "running", "the worker goes on")
        assert shell("workers", "stop", worker.id).code == 0
        assert worker.join(PATIENCE), "the worker ends"


def test_a_worker_is_shown_with_the_trace_of_its_memory(shell: Shell, app: Headrace) -> None:
    sign_on_tracing(app.engine, "traced-1", "a.py:3 +2 kB")
    shown = shell("workers", "show", "traced").out
    assert "id         traced-1" in shown
    assert "allocated  5 MB, 7 MB peak" in shown
    assert "grown      a.py:3 +2 kB" in shown
    assert shell("workers", "show", "traced-1", "--json").json["memory_trace"]["growth"] == ["a.py:3 +2 kB"]


@pytest.mark.parametrize("order", ["pause", "resume", "stop", "show"])
def test_a_command_to_an_unknown_worker_is_an_error(shell: Shell, app: Headrace, order: str) -> None:
    ran = shell("workers", order, "nobody")
    assert (ran.code, ran.out) == (1, "")
    assert "'nobody' is not a live worker" in ran.err


def test_a_command_to_an_ambiguous_prefix_is_refused(shell: Shell, app: Headrace) -> None:
    with app.worker() as one, app.worker() as other:
        common = one.id[: next(n for n, (a, b) in enumerate(zip(one.id, other.id, strict=True)) if a != b)]
        ran = shell("workers", "stop", common)
        assert ran.code == 1
        assert "is a prefix of 2 worker ids" in ran.err


def test_a_silent_worker_is_shown_as_silent(shell: Shell, app: Headrace) -> None:
    with app.worker() as worker:
        row = worker.describe()
    long_ago = int((datetime.now(UTC) - timedelta(hours=1)).timestamp() * 1000)
    app.engine.renew(msgspec.structs.replace(row, seen_at=long_ago, state="running"), (), 0)
    assert shell("workers").out.splitlines()[1].split()[1] == "silent"
    assert shell("workers", "--json").json[0]["silent"] is True


def test_a_queue_is_deleted_when_its_jobs_are_over(shell: Shell, app: Headrace) -> None:
    refused = shell("queues", "delete", "mail", "--yes")
    assert refused.code == 1
    assert "queue 'mail' has 4 unfinished jobs" in refused.err
    shell("queues", "clear", "mail", "--yes")
    assert "this would delete queue mail" in shell("queues", "delete", "mail").err
    assert shell("queues", "delete", "mail", "--yes").out == "queue mail is deleted, and 0 finished jobs with it\n"
    assert app.queues() == []
