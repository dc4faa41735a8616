"""The policy of a task over its queue's over the settings', and the errors for invalid values."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec import UNSET, structs

from headrace.core.retention.lifecycle import (
    Lifecycle,
    Policies,
    PolicyRow,
    StoredPolicy,
    changed_policy,
    default_policy,
    effective,
)
from headrace.core.retention.policy_fields import check_removal
from headrace.core.settings.settings import Settings
from headrace.errors import ConfigError, InvalidJob

HOUR, DAY = 3_600_000, 86_400_000


def test_settings_say_everything() -> None:
    usual = default_policy(Settings())
    assert UNSET not in structs.astuple(usual)
    assert (usual.max_scheduled, usual.max_waiting, usual.max_pending) == (DAY, HOUR, DAY)
    assert (usual.max_retrying, usual.max_running, usual.max_age) == (HOUR // 2, None, None)
    assert (usual.keep_completed, usual.keep_failed, usual.keep_cancelled) == (7 * DAY, 30 * DAY, 7 * DAY)
    assert (usual.on_stale, usual.archive, usual.remove_on_complete) == ("review", True, False)


def test_a_task_goes_before_its_queue_before_the_settings() -> None:
    task, queue = StoredPolicy(max_pending=1), StoredPolicy(max_pending=2, max_waiting=None)
    held = effective(task, queue, Settings(stale_retrying=3))
    assert (held.max_pending, held.max_waiting, held.max_retrying, held.max_scheduled) == (1, None, 3000, DAY)


@pytest.mark.parametrize(
    ("task", "queue", "action"),
    [
        (StoredPolicy(), StoredPolicy(), "review"),
        (StoredPolicy(keep_failed=1, archive=False), StoredPolicy(), "review"),
        (StoredPolicy(max_age=1), StoredPolicy(), "dead"),
        (StoredPolicy(), StoredPolicy(max_pending=None), "dead"),
        (StoredPolicy(max_age=1, on_stale="fail"), StoredPolicy(on_stale="review"), "fail"),
        (StoredPolicy(max_age=1), StoredPolicy(on_stale="review"), "review"),
        (StoredPolicy(on_stale="fail"), StoredPolicy(), "fail"),
    ],
)
def test_a_threshold_of_a_task_or_queue_is_meant_unless_one_says_otherwise(
    task: StoredPolicy, queue: StoredPolicy, action: str
) -> None:
    assert effective(task, queue, Settings()).on_stale == action


def test_an_order_goes_before_what_code_declares_field_by_field() -> None:
    declared, override = StoredPolicy(max_pending=1, max_age=2), StoredPolicy(max_age=None)
    book = Policies(
        [PolicyRow("task", "send", declared, override), PolicyRow("queue", "send", StoredPolicy())], Settings()
    )
    assert (book.of("send", "mail").max_pending, book.of("send", "mail").max_age) == (1, None)
    assert book.of("other", "send").max_age is None
    assert book.of("other", "mail") == default_policy(Settings())


def test_orders_are_changed_and_taken_back_one_by_one() -> None:
    policy = changed_policy(StoredPolicy(), {"max_pending": timedelta(minutes=10), "on_stale": "fail", "max_age": None})
    assert policy == StoredPolicy(max_pending=600_000, on_stale="fail", max_age=None)
    policy = changed_policy(policy, {"max_pending": "default", "remove_on_fail": 7})
    assert policy == StoredPolicy(on_stale="fail", max_age=None, remove_on_fail=7)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, r"needs at least one of max_scheduled"),
    ({"max_pendign": 1}, r"unknown field 'max_pendign' \(did you mean 'max_pending'\?\)"),
    ({"max_pending": 0}, "max_pending should be seconds"),
    ({"max_pending": True}, "max_pending should be seconds"),
    ({"max_age": float("nan")}, "max_age should be seconds"),
    ({"keep_failed": -1}, "keep_failed should be seconds"),
    ({"on_stale": "kill"}, "on_stale should be one of dead, fail, review"),
    ({"archive": "yes"}, "archive should be True or False"),
    ({"remove_on_fail": -1}, "remove_on_fail: expected True, False"),
]


@pytest.mark.parametrize(("given", "expected"), WRONG)
def test_an_invalid_value_is_refused_by_its_name(given: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidJob, match=expected):
        changed_policy(StoredPolicy(), given)


@pytest.mark.parametrize("fields", [{"max_pending": -1}, {"on_stale": "kill"}, {"archive": 1}])
def test_a_lifecycle_refuses_them_where_it_is_written(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidJob, match=f"lifecycle: {next(iter(fields))}"):
        Lifecycle(**fields)


def test_finished_jobs_may_go_at_once() -> None:
    assert Lifecycle(keep_completed=0).policy() == StoredPolicy(keep_completed=0)
    assert [check_removal("remove_on_complete", value) for value in (True, False, 1, 50)] == [True, False, 1, 50]
    for bad in (0, -1, 1.5, "5", None, 10**9):
        with pytest.raises(InvalidJob, match="how many of the newest"):
            check_removal("remove_on_complete", bad)


@pytest.mark.parametrize(
    ("name", "value"),
    [("stale_check", 0.05), ("stale_waiting", 0), ("stale_age", -1), ("keep_failed", -1), ("max_crashes", 0)],
)
def test_settings_refuse_times_that_make_no_sense(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{name}: {value} must"):
        Settings(**{name: value})  # type: ignore[arg-type]
