"""Wrong options are refused where they are written, by an error that names the option, the value and the rule."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from headrace.core.clock import to_datetime
from headrace.core.option_times import check_timeout
from headrace.core.tasks.options import OPTION_NAMES, Options, check_task_name, checked, ensure_agreement
from headrace.core.tasks.unique import Cache, Unique
from headrace.errors import InvalidJob

A_CENTURY = 100 * 365 * 86_400
LAST_MOMENT = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
WORDS = tuple(f"t{n}" for n in range(100))


@pytest.mark.parametrize(
    ("option", "given", "stored"),
    [
        ("queue", "a", "a"),
        ("queue", "Emails_2.low-prio", "Emails_2.low-prio"),
        ("queue", "q" * 50, "q" * 50),
        ("priority", -100, -100),
        ("priority", 100, 100),
        ("delay", 0, 0),
        ("delay", 1.5, 1500),
        ("delay", timedelta(minutes=1), 60_000),
        ("delay", 0.0001, 1),  # rounded up: nothing runs early
        ("delay", A_CENTURY, A_CENTURY * 1000),
        ("run_at", datetime(2030, 1, 1, tzinfo=UTC), 1_893_456_000_000),
        ("run_at", datetime(2030, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), 1_893_456_000_000),
        ("run_at", datetime(2030, 1, 1, 0, 0, 0, 1, tzinfo=UTC), 1_893_456_000_001),
        ("run_at", datetime(1970, 1, 1, tzinfo=UTC), 0),
        ("run_at", LAST_MOMENT, 253_402_300_799_999),
        ("expires", None, None),
        ("expires", 3600, 3_600_000),
        ("timeout", None, None),
        ("timeout", 0.5, 500),
        ("timeout", 86_400, 86_400_000),
        ("retry", 2, 2),
        ("retry", None, 0),
        ("isolation", "process", "process"),
        ("keep_result", False, False),
        ("keep_logs", True, True),
        ("interrupt", True, 5000),
        ("interrupt", False, 0),
        ("interrupt", 0.5, 500),
        ("interrupt", timedelta(minutes=1), 60_000),
        ("lifo", True, True),
        ("job_id", "order-7", "order-7"),
        ("unique", True, Unique()),
        ("unique", False, None),
        ("unique", None, None),
        ("unique", Unique(key="x"), Unique(key="x")),
        ("idempotency_key", "Order 7 ✓", "Order 7 ✓"),
        ("idempotency_key", "x" * 1000, "x" * 1000),
        ("idempotency_key", None, None),
        ("debounce", 5, 5000),
        ("debounce", None, None),
        ("throttle", timedelta(minutes=1), 60_000),
        ("throttle", None, None),
        ("cache", Cache(60), Cache(60)),
        ("cache", None, None),
        ("tags", ["a", "b", "a"], ("a", "b")),
        ("tags", (label for label in ["x", "y"]), ("x", "y")),
        ("tags", [], ()),
        ("tags", WORDS, WORDS),
        ("metadata", {"who": "ann"}, {"who": "ann"}),
        ("redact", ("password",), ("password",)),
    ],
)
def test_a_right_value_is_stored_in_its_plain_form(option: str, given: Any, stored: Any) -> None:
    assert getattr(checked({option: given}), option) == stored


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("queue", ""),
        ("queue", "q" * 51),
        ("queue", "two words"),
        ("queue", "-dash-first"),
        ("queue", "ümlaut"),
        ("queue", "a\n"),
        ("queue", None),
        ("queue", 5),
        ("priority", 101),
        ("priority", -101),
        ("priority", 1.0),
        ("priority", "5"),
        ("priority", True),
        ("delay", -1),
        ("delay", timedelta(seconds=-1)),
        ("delay", float("nan")),
        ("delay", float("inf")),
        ("delay", "60"),
        ("delay", True),
        ("delay", A_CENTURY + 1),
        ("delay", None),
        ("run_at", datetime(2030, 1, 1)),
        ("run_at", "2030-01-01"),
        ("run_at", 1_893_456_000),
        ("run_at", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("run_at", datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))),
        ("run_at", LAST_MOMENT + timedelta(microseconds=1)),
        ("run_at", datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-2)))),
        ("expires", 0),
        ("expires", -5),
        ("timeout", 0),
        ("timeout", -1),
        ("timeout", 86_401),
        ("timeout", "1m"),
        ("isolation", "fiber"),
        ("keep_result", 1),
        ("keep_logs", "info"),
        ("interrupt", 0),
        ("interrupt", -1),
        ("interrupt", 86_401),
        ("interrupt", None),
        ("interrupt", "yes"),
        ("lifo", "yes"),
        ("job_id", ""),
        ("job_id", "x" * 129),
        ("job_id", "two words"),
        ("job_id", 7),
        ("unique", "args"),
        ("unique", 1),
        ("unique", ("user_id",)),
        ("idempotency_key", ""),
        ("idempotency_key", "x" * 1001),
        ("idempotency_key", "\ud800"),
        ("idempotency_key", 7),
        ("debounce", 0),
        ("debounce", "5"),
        ("throttle", -1),
        ("throttle", True),
        ("cache", 60),
        ("cache", True),
        ("tags", "mail"),
        ("tags", b"mail"),
        ("tags", 5),
        ("tags", None),
        ("tags", [""]),
        ("needs", ("",)),
        ("needs", ["gpu", " "]),
        ("needs", "gpu"),
        ("tags", ["x" * 101]),
        ("tags", [1]),
        ("tags", ["\ud800"]),
        ("tags", ["nul\x00"]),
        ("tags", [f"t{n}" for n in range(101)]),
        ("tags", itertools.count()),
        ("tags", itertools.repeat("endless")),
        ("metadata", ["a"]),
        ("metadata", {1: 2}),
        ("redact", "password"),
        ("retry", "3"),
        ("retry", 101),
    ],
)
def test_a_wrong_value_is_refused_by_name(option: str, value: Any) -> None:
    with pytest.raises(InvalidJob, match=option) as caught:
        checked({option: value})
    assert isinstance(caught.value, ValueError)


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("no name")


@pytest.mark.parametrize("value", [Unspeakable(), 10**5000, "x" * 10_000], ids=["no repr", "endless", "long"])
@pytest.mark.parametrize("option", sorted(set(OPTION_NAMES) - {"retry"}))
def test_a_value_that_is_hard_to_show_is_refused_with_a_short_text(option: str, value: Any) -> None:
    with pytest.raises(InvalidJob, match=option) as caught:
        checked({option: value})
    assert len(str(caught.value)) < 250


@given(st.datetimes(timezones=st.timezones() | st.just(timezone(timedelta(hours=14)))))
def test_every_time_that_is_taken_can_be_shown_again_and_is_not_earlier(moment: datetime) -> None:
    try:
        taken = checked({"run_at": moment}).run_at
    except InvalidJob as error:
        assert moment < datetime(1970, 1, 1, tzinfo=UTC) or moment > LAST_MOMENT, error  # noqa: PT017
        return
    assert isinstance(taken, int)
    shown = to_datetime(taken)
    assert shown is not None
    assert timedelta(microseconds=-100) < shown - moment < timedelta(milliseconds=1, microseconds=100)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [(None, None), (0, 0), (1.5, 1.5), (-3, 0), (float("inf"), None), (10**400, None), (float("-inf"), 0)],
)
def test_a_wait_may_be_so_long(given: Any, seconds: float | None) -> None:
    assert check_timeout("timeout", given) == seconds


@pytest.mark.parametrize("given", ["5", True, float("nan"), timedelta(seconds=1), [], Unspeakable()])
def test_a_wait_may_not_be_so(given: Any) -> None:
    with pytest.raises(InvalidJob, match="timeout: expected seconds"):
        check_timeout("timeout", given)


def test_an_unknown_option_is_refused_with_the_nearest_one_that_exists() -> None:
    with pytest.raises(InvalidJob, match=r"unknown option 'priorty' \(did you mean 'priority'\?\)"):
        checked({"priorty": 5})
    with pytest.raises(InvalidJob, match=r"unknown option 'colour'; options are queue, priority"):
        checked({"colour": "red"})


def test_a_delay_and_a_time_exclude_each_other() -> None:
    with pytest.raises(InvalidJob, match="delay and run_at exclude each other"):
        checked({"delay": 5, "run_at": datetime(2030, 1, 1, tzinfo=UTC)})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"unique": True}, {"idempotency_key": "x"}),
        ({"unique": True}, {"cache": Cache(60)}),
        ({"debounce": 5}, {"throttle": 5}),
        ({"idempotency_key": "x"}, {"debounce": 5}),
        ({"idempotency_key": "x"}, {"throttle": 5}),
        ({"idempotency_key": "x"}, {"cache": Cache(60)}),
        ({"cache": Cache(60)}, {"debounce": 5}),
        ({"cache": Cache(60)}, {"throttle": 5}),
        ({"delay": 5}, {"debounce": 5}),
        ({"debounce": 5}, {"run_at": datetime(2030, 1, 1, tzinfo=UTC)}),
    ],
)
def test_options_that_contradict_each_other_are_refused_by_both_names(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    with pytest.raises(InvalidJob, match=f"{next(iter(one))} and {next(iter(other))} exclude each other"):
        checked({**one, **other})
    with pytest.raises(InvalidJob, match="exclude each other"):
        ensure_agreement(checked(one).over(checked(other)))
    taken_back = {name: 0 if name == "delay" else None for name in one}
    ensure_agreement(checked(taken_back).over(checked(one)).over(checked(other)))


def test_beside_debounce_and_throttle_unique_only_says_what_is_the_same() -> None:
    for name in ("debounce", "throttle"):
        checked({name: 5, "unique": Unique(by=("user_id",))})
        checked({name: 5, "unique": Unique(key="x")})
        for more in ({"window": 5}, {"states": ("pending",)}, {"on_conflict": "raise"}):
            with pytest.raises(InvalidJob, match=f"unique: {name} decides about a second call itself"):
                checked({name: 5, "unique": Unique(**more)})


def test_a_cache_needs_the_result() -> None:
    with pytest.raises(InvalidJob, match="cache and keep_result=False exclude each other"):
        checked({"cache": Cache(60), "keep_result": False})
    checked({"cache": Cache(60), "keep_result": True})


def test_options_that_are_not_given_are_unset() -> None:
    assert all(getattr(checked({}), name) is UNSET for name in OPTION_NAMES)


def test_a_layer_above_wins_and_what_it_leaves_unsaid_comes_from_below() -> None:
    below = checked({"queue": "low", "priority": 1, "timeout": 5})
    above = checked({"priority": 9, "timeout": None})
    both = above.over(below)
    assert (both.queue, both.priority, both.timeout) == ("low", 9, None)
    assert Options().over(below) == below


def test_a_layer_is_not_changed_by_the_one_above() -> None:
    below = checked({"priority": 1})
    checked({"priority": 2}).over(below)
    assert below.priority == 1


@given(
    st.dictionaries(st.sampled_from(OPTION_NAMES), st.none() | st.integers() | st.text() | st.floats() | st.binary())
)
def test_any_value_is_taken_or_refused_and_nothing_else_happens(given: dict[str, Any]) -> None:
    refusal = ""
    try:
        checked(given)
    except InvalidJob as error:
        refusal = str(error)
    assert not refusal or any(name in refusal for name in given)


@pytest.mark.parametrize("name", ["add", "emails.send", "größe", "a:b/c", "x" * 100])
def test_a_task_may_be_named_so(name: str) -> None:
    assert check_task_name(name) == name


@pytest.mark.parametrize("name", ["", "two words", "tab\t", "nul\x00", "x" * 101, "\ud800", 5, None])
def test_a_task_may_not_be_named_so(name: Any) -> None:
    with pytest.raises(InvalidJob, match="task name"):
        check_task_name(name)
