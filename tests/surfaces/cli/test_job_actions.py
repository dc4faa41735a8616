"""Actions change the selected jobs and no others, and bulk actions need a confirmation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace import Headrace, State
from tests.support.command_line import Shell


@pytest.fixture
def app(shell: Shell) -> Iterator[Headrace]:
    with shell.app() as app:
        for number in range(3):
            app.task_by_name("now").using(job_id=f"now-{number}", queue="mail").enqueue()
        app.task_by_name("later").using(job_id="later", delay=3600).enqueue()
        app.task_by_name("gone").using(job_id="gone").enqueue()
        app.jobs.get("gone").cancel()
        yield app


def states(app: Headrace) -> dict[str, str]:
    return {job.id: str(job.state) for job in app.jobs.find()}


def test_jobs_are_cancelled_retried_promoted_and_deleted_by_id(shell: Shell, app: Headrace) -> None:
    assert shell("jobs", "cancel", "now-0", "now-1").out == "2 jobs cancelled\n"
    assert shell("jobs", "retry", "now-0").out == "1 job queued again\n"
    assert shell("jobs", "promote", "later").out == "1 job promoted\n"
    assert shell("jobs", "delete", "gone").out == "1 job deleted\n"
    assert states(app) == {"now-0": "pending", "now-1": "cancelled", "now-2": "pending", "later": "pending"}


def test_a_job_that_could_not_be_changed_is_named_and_the_others_are_changed(shell: Shell, app: Headrace) -> None:
    ran = shell("jobs", "cancel", "gone", "now-0", "nobody", "now-0")
    assert (ran.code, ran.out) == (1, "1 job cancelled\n")
    first, second = ran.err.splitlines()
    assert first.startswith("error: gone: is cancelled; cancel applies to jobs that are scheduled")
    assert second.startswith("error: nobody: no job has the id")
    result = shell("jobs", "promote", "gone", "--json")
    assert result.code == 1
    assert (result.json["action"], result.json["changed"]) == ("promote", 0)
    assert result.json["refused"][0]["id"] == "gone"


def test_bytes_that_are_not_utf8_are_reported_as_an_unknown_id(shell: Shell, app: Headrace) -> None:
    ran = shell("jobs", "cancel", "later", "\udcff", "--json")
    assert ran.code == 1
    assert (ran.json["changed"], [each["id"] for each in ran.json["refused"]]) == (1, ["\\udcff"])
    ran = shell("dead", "requeue", "letter", "--kwargs", "\udcff")
    assert (ran.code, "--kwargs" in ran.err) == (2, True)


def test_a_filter_changes_all_that_match_once_it_is_confirmed(shell: Shell, app: Headrace) -> None:
    refused = shell("jobs", "cancel", "--queue", "mail")
    assert refused.code == 2
    assert "this would cancel 3 jobs; add --yes" in refused.err
    shell.answer("n\n")
    assert shell("jobs", "cancel", "--queue", "mail").code == 1
    assert app.jobs.count(state=State.CANCELLED) == 1
    shell.answer("y\n")
    assert shell("jobs", "cancel", "--queue", "mail").out.endswith("3 jobs cancelled\n")
    assert app.jobs.count(state=State.CANCELLED) == 4
    ran = shell("jobs", "delete", "--state", "cancelled", "--queue", "mail", "--yes", "--json")
    assert ran.json == {"action": "delete", "changed": 3, "refused": []}


def test_the_question_counts_only_what_would_change(shell: Shell, app: Headrace) -> None:
    assert "this would promote 1 job;" in shell("jobs", "promote", "--all").err
    assert shell("jobs", "retry", "--all") == (0, "0 jobs queued again\n", ""), "only failed ones are meant"
    assert "this would retry 1 job;" in shell("jobs", "retry", "--state", "cancelled").err
    assert "this would delete 5 jobs;" in shell("jobs", "delete", "--all").err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "give the jobs to"),
        (("now-0", "--queue", "mail"), "ids or filters, not both"),
        (("now-0", "--all"), "ids or filters, not both"),
        (("--all", "--queue", "mail", "--yes"), "one or the other"),
        (("--state", "asleep"), "states are"),
    ],
)
@pytest.mark.parametrize("action", ["cancel", "retry", "promote", "delete"])
def test_an_ambiguous_selection_changes_nothing(
    shell: Shell, app: Headrace, action: str, arguments: tuple[str, ...], expected: str
) -> None:
    before = states(app)
    ran = shell("jobs", action, *arguments)
    assert ran.code == 2
    assert expected in ran.err
    assert states(app) == before


def test_a_state_to_which_the_action_does_not_apply_is_an_error(shell: Shell, app: Headrace) -> None:
    ran = shell("jobs", "cancel", "--state", "completed", "--yes")
    assert ran.code == 2
    assert "cancel applies to jobs that are" in ran.err


def test_a_job_that_has_not_started_can_be_changed(shell: Shell, app: Headrace) -> None:
    assert shell("jobs", "update", "later", "--priority", "9", "--queue", "mail", "--delay", "2h").code == 0
    job = app.jobs.get("later")
    assert (job.priority, job.queue, job.state) == (9, "mail", State.SCHEDULED)
    record = shell("jobs", "update", "later", "--run-at", "2040-01-01T00:00:00Z", "--json").json
    assert record["run_at"] == "2040-01-01T00:00:00Z"
    assert shell("jobs", "update", "later", "--delay", "0").code == 0
    assert job.refresh().state == State.PENDING


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (("later",), 2, "give a change"),
        (("later", "--run-at", "2040-01-01", "--delay", "1"), 2, "exclude each other"),
        (("later", "--priority", "500"), 2, "-100 to 100"),
        (("later", "--queue", "no blanks"), 2, "queue"),
        (("later", "--run-at", "noon"), 2, "--run-at"),
        (("gone", "--priority", "1"), 1, "is cancelled; only a job that has not started"),
        (("nobody", "--priority", "1"), 1, "no job has the id"),
    ],
)
def test_a_wrong_change_is_refused(
    shell: Shell, app: Headrace, arguments: tuple[str, ...], code: int, expected: str
) -> None:
    ran = shell("jobs", "update", *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert expected in ran.err
    assert app.jobs.get("later").priority == 0


def test_jobs_are_deleted_by_finish_time_and_up_to_the_limit(shell: Shell, app: Headrace) -> None:
    app.jobs.get("now-0").cancel()
    assert shell("jobs", "delete", "--finished-before", "1h", "--yes").out == "0 jobs deleted\n"
    assert shell("jobs", "delete", "--finished-before", "0s", "--limit", "1", "--yes").out == "1 job deleted\n"
    assert len(states(app)) == 4
    assert shell("jobs", "delete", "--finished-before", "0s", "--yes").out == "1 job deleted\n"
    assert set(states(app).values()) == {"pending", "scheduled"}, "what has no end stays"
    assert shell("jobs", "delete", "--queue", "mail", "-n", "1", "--yes").out == "1 job deleted\n"
    ran = shell("jobs", "delete", "--finished-before", "0s", "--state", "pending", "--yes")
    assert (ran.code, len(states(app))) == (2, 2)
    assert "--limit needs a filter" in shell("jobs", "delete", "--limit", "1").err
