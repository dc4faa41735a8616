"""Every outcome is a legal step of the table, and spends an attempt only where one was used."""

from __future__ import annotations

import pytest

from headrace.core.jobs import outcomes
from headrace.core.jobs.records import Claim, ErrorInfo, Outcome
from headrace.core.jobs.states import FINAL, State, Trigger, is_legal

NOW = 1_000_000
CLAIM = Claim("job", 7, "task", "default", 0, 5, 2, 4, "{}", 0, 0, 0, 0, 0, None, None)
ERROR = ErrorInfo("OSError", "away", "Traceback ...")

ALL: dict[str, Outcome] = {
    "succeed": outcomes.succeed(CLAIM, "42", 9, NOW),
    "retry": outcomes.retry(CLAIM, ERROR, 1500, 4, NOW),
    "fail": outcomes.fail(CLAIM, "permanent_error", ERROR, 4, NOW),
    "fail without an error": outcomes.fail(CLAIM, "stopped", None, 4, NOW),
    "snooze": outcomes.snooze(CLAIM, 60_000, "later", NOW),
    "release": outcomes.release(CLAIM, "its worker was stopped", NOW),
    "give_back": outcomes.give_back(CLAIM, NOW),
    "cancel": outcomes.cancel(CLAIM, "enough", NOW),
}


@pytest.mark.parametrize("name", ALL)
def test_every_outcome_is_a_row_of_the_table(name: str) -> None:
    assert is_legal(ALL[name].event, State.RUNNING, ALL[name].state)


@pytest.mark.parametrize("name", ALL)
def test_every_outcome_returns_the_version_of_its_claim(name: str) -> None:
    assert (ALL[name].id, ALL[name].version, ALL[name].at) == (CLAIM.id, CLAIM.version, NOW)


@pytest.mark.parametrize("name", ALL)
def test_a_job_has_a_finishing_time_exactly_when_it_is_over(name: str) -> None:
    assert (ALL[name].finished_at is not None) == (ALL[name].state in FINAL)


@pytest.mark.parametrize("name", ALL)
def test_an_attempt_is_given_back_exactly_when_none_was_used(name: str) -> None:
    unused = {"snooze", "release", "give_back"}
    assert ALL[name].attempt_refund == (1 if name in unused else 0)


@pytest.mark.parametrize("name", ALL)
def test_only_unstarted_releases_are_quiet(name: str) -> None:
    assert ALL[name].quiet == (name == "give_back")


@pytest.mark.parametrize(("name", "delay"), [("retry", 1500), ("snooze", 60_000)])
def test_what_comes_again_says_when(name: str, delay: int) -> None:
    assert ALL[name].run_at == NOW + delay


@pytest.mark.parametrize("name", ["succeed", "fail", "release", "give_back", "cancel"])
def test_what_has_no_new_time_leaves_the_old_one(name: str) -> None:
    assert ALL[name].run_at is None


def test_a_success_carries_its_result_and_no_error() -> None:
    done = ALL["succeed"]
    assert (done.event, done.result, done.result_checksum) == (Trigger.SUCCEED, "42", 9)
    assert (done.error_type, done.reason) == (None, None)


@pytest.mark.parametrize("name", ["retry", "fail"])
def test_a_failure_carries_the_whole_error(name: str) -> None:
    failed = ALL[name]
    assert (failed.error_type, failed.error_message, failed.error_traceback) == ("OSError", "away", "Traceback ...")
    assert failed.max_attempts == 4


def test_a_retry_says_which_attempt_of_how_many_it_was() -> None:
    assert ALL["retry"].reason == "attempt 2 of 4 failed"


def test_a_failure_without_an_error_still_has_its_reason() -> None:
    failed = ALL["fail without an error"]
    assert (failed.reason, failed.error_type, failed.error_message) == ("stopped", None, None)
