"""Dead letters from the command line: output is correct, and actions are carried out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace import Headrace, Job, State, Task
from headrace.testing import drain
from tests.support.command_line import Shell
from tests.support.waiting import eventually


@pytest.fixture
def app(shell: Shell) -> Iterator[Headrace]:
    with shell.app() as app:
        yield app


@pytest.fixture
def pay(app: Headrace) -> Task[..., Any, Any]:
    @app.task(retry=0, redact=("card",))
    def pay(order: int, card: str = "-") -> None:
        raise ConnectionError(f"no \x1b[31mbank for {order}")

    return pay


@pytest.fixture
def jobs(app: Headrace, pay: Task[..., Any, Any]) -> list[Job[Any]]:
    jobs = [pay.enqueue(order, "4711-secret") for order in range(3)]
    drain(app)
    return jobs


def test_a_store_without_dead_letters_says_so(shell: Shell, app: Headrace) -> None:
    app.engine.migrate()
    assert "no dead letters are pending" in shell("dead").err
    assert "no dead letters match" in shell("dead", "list", "--status", "all").err
    assert "no dead letters match" in shell("dead", "groups").err
    assert "there are no dead letters" in shell("dead", "stats").err


def test_pending_dead_letters_are_listed(shell: Shell, app: Headrace, jobs: list[Job[Any]]) -> None:
    for command in (("dead",), ("dead", "list")):
        listed = shell(*command)
        assert listed.code == 0
        assert listed.out.count("ConnectionError: no \\x1b[31mbank for") == 3
    record = shell("dead", "list", "--limit", "2", "--json").json
    assert [dead_letter["status"] for dead_letter in record["dead_letters"]] == ["pending"] * 2
    rest = shell("dead", "list", "--cursor", record["cursor"], "--json").json
    assert (len(rest["dead_letters"]), rest["cursor"]) == (1, None)
    assert "more follow: add --cursor" in shell("dead", "list", "--limit", "2").err
    assert shell("dead", "list", "--task", "other", "--json").json["dead_letters"] == []
    assert (
        len(shell("dead", "list", "--since", "1h", "--reason", "attempts_used_up", "--json").json["dead_letters"]) == 3
    )


def test_a_dead_letter_is_shown_without_its_secrets(shell: Shell, app: Headrace, jobs: list[Job[Any]]) -> None:
    dead_letter = app.dead.get(jobs[1].id)
    for name in (dead_letter.id, dead_letter.job_id):
        shown = shell("dead", "show", name)
        assert shown.code == 0
        assert "arguments     1, '***'" in shown.out
        assert "4711-secret" not in shown.out
        assert "attempts_used_up" in shown.out
        assert "fail" in shown.out
    record = shell("dead", "show", dead_letter.id, "--json").json
    assert (record["job_id"], record["args"], record["requeues"]) == (jobs[1].id, [1, "***"], 0)
    assert record["history"][-1]["event"] == "fail"
    wrong = shell("dead", "show", "nowhere")
    assert (wrong.code, "no dead letter has the id 'nowhere'" in wrong.err) == (1, True)


def test_groups_and_stats_are_counted(shell: Shell, app: Headrace, jobs: list[Job[Any]]) -> None:
    [group] = shell("dead", "groups", "--json").json
    assert (group["count"], group["task"]) == (3, jobs[0].task)
    assert group["fingerprint"] in shell("dead", "groups").out
    [stats] = shell("dead", "stats", "--json").json
    assert (stats["reason"], stats["total"], stats["pending"]) == ("attempts_used_up", 3, 3)
    assert "attempts_used_up" in shell("dead", "stats").out


def test_a_dead_letter_is_added_by_hand(shell: Shell, app: Headrace, jobs: list[Job[Any]]) -> None:
    job = app.enqueue("nowhere.known", 1)
    done = shell("dead", "add", job.id, "--reason", "wrong_total", "--by", "ann", "--note", "ask the shop")
    dead_letter = app.dead.get(job.id)
    assert (done.code, done.out.strip()) == (0, f"job {job.id} has the dead letter {dead_letter.id}")
    assert (dead_letter.reason, dead_letter.notes[0].text, dead_letter.notes[0].by) == (
        "wrong_total",
        "ask the shop",
        "ann",
    )
    assert "wrong_total" in shell("dead", "show", dead_letter.id).out
    again = shell("dead", "add", job.id)
    assert (again.code, "has a pending dead letter already" in again.err) == (2, True)


def test_a_dead_letter_is_requeued(shell: Shell, app: Headrace, jobs: list[Job[Any]]) -> None:
    done = shell("dead", "requeue", jobs[0].id, "--by", "ann", "--note", "go", "--args", "[7]")
    assert done.code == 0
    assert f"job {jobs[0].id} is queued again (requeue 1 of 3)" in done.out
    assert jobs[0].refresh().args == (7,)
    assert app.dead.get(jobs[0].id).resolved_by == "ann"
    again = shell("dead", "requeue", jobs[0].id)
    assert (again.code, "is requeued already" in again.err) == (1, True)
    assert shell("dead", "requeue", jobs[1].id, "--json").json["requeued"] is True


def test_many_dead_letters_are_requeued_after_a_confirmation(shell: Shell, app: Headrace, jobs: list[Job[Any]]) -> None:
    assert "3 dead letters would be requeued" in shell("dead", "requeue", "--all", "--dry-run").out
    refused = shell("dead", "requeue", "--task", jobs[0].task)
    assert refused.code == 2
    assert "this would requeue 3 dead letters; add --yes" in refused.err
    assert app.dead.count() == 3
    done = shell("dead", "requeue", "--task", jobs[0].task, "--yes", "--limit", "2", "--rate", "1/h", "--json").json
    assert (done["requeued"], done["dry_run"]) == (2, False)
    assert "1 permanently failed" in shell("dead", "requeue", "--all", "--yes", "--max-requeues", "0").out
    states = sorted(job.refresh().state for job in jobs)
    assert states == [State.FAILED, State.PENDING, State.SCHEDULED]


def test_a_job_that_fails_during_the_confirmation_is_not_requeued(
    shell: Shell, app: Headrace, jobs: list[Job[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    later: list[Job[Any]] = []

    def confirm(what: str) -> None:
        assert "3 dead letters" in what
        eventually(lambda: app.clock.now() > confirmed_at + 5, "another millisecond")
        later.append(app.tasks[jobs[0].task].enqueue(1))
        drain(app)

    confirmed_at = app.clock.now()
    monkeypatch.setattr("headrace.cli.commands.dead_letters.actions.confirm", confirm)
    assert shell("dead", "requeue", "--all", "--json").json["requeued"] == 3
    assert [dead_letter.job_id for dead_letter in app.dead.list()] == [later[0].id]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "give an ID, filters, or --all"),
        (("x", "--all"), "not both"),
        (("--all", "--args", "[1]"), "give its ID"),
        (("x", "--args", "[1"), "is not JSON"),
    ],
)
def test_unclear_requeues_are_refused(shell: Shell, app: Headrace, arguments: tuple[str, ...], expected: str) -> None:
    app.engine.migrate()
    ran = shell("dead", "requeue", *arguments)
    assert (ran.code, expected in ran.err) == (2, True)


def test_dead_letters_are_noted_and_resolved(shell: Shell, app: Headrace, jobs: list[Job[Any]]) -> None:
    assert "has 1 notes" in shell("dead", "note", jobs[0].id, "asked the bank", "--by", "ann").out
    done = shell("dead", "resolve", jobs[0].id, "manually_resolved", "--by", "bob", "--note", "paid")
    assert (done.code, "is manually_resolved" in done.out) == (0, True)
    assert [note.text for note in app.dead.get(jobs[0].id).notes] == ["asked the bank", "paid"]
    assert "asked the bank" in shell("dead", "show", jobs[0].id).out
    again = shell("dead", "resolve", jobs[0].id, "cancelled")
    assert (again.code, "manually_resolved already" in again.err) == (1, True)
    assert shell("dead", "resolve", jobs[1].id, "requeued").code == 2


def test_old_dead_letters_are_purged_after_a_confirmation(shell: Shell, app: Headrace, jobs: list[Job[Any]]) -> None:
    assert "0 dead letters removed" in shell("dead", "purge").out
    everything = ("--older-than", "0", "--status", "pending")
    foretold = shell("dead", "purge", *everything, "--dry-run", "--json").json
    assert foretold == {"purged": 3, "dry_run": True}
    assert "this would remove 3 dead letters for good" in shell("dead", "purge", *everything).err
    assert shell("dead", "purge", *everything, "--yes", "--json").json["purged"] == 3
    assert app.dead.count() == 0


def test_the_doctor_reports_pending_dead_letters(shell: Shell, app: Headrace, jobs: list[Job[Any]]) -> None:
    assert "3 dead letters are pending; inspect them with `headrace dead groups`" in shell("doctor").out


def test_json_must_follow_the_subcommand(shell: Shell, app: Headrace, jobs: list[Job[Any]]) -> None:
    assert "put --json after 'list'" in shell("dead", "--json", "list").err
    assert len(shell("dead", "--json").json["dead_letters"]) == 3
