"""Retries run as often as configured, never too early, never for errors that can't go away, and never in step."""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.jobs.records import RetryPolicy
from headrace.core.tasks.retry import PERMANENT_BY_DEFAULT, Retry, as_retry, from_policy, name_of
from headrace.errors import ConfigError, JobTimeout, PermanentError, RetryableError, RetryLater

ERROR = OSError("away")
seconds = st.floats(0, 1e6)


def delays(retry: Retry, attempts: int = 5) -> list[Any]:
    """The delays after each attempt, with jitter in its middle."""
    return [retry.delay(attempt, ERROR, 0.5) for attempt in range(1, attempts + 1)]


# -- how long


def test_the_default_waits_one_second_and_doubles_up_to_an_hour() -> None:
    assert delays(Retry(), 13) == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600]


def test_a_factor_of_three_triples() -> None:
    assert delays(Retry(base=2, factor=3), 4) == [2, 6, 18, 54]


def test_a_fixed_backoff_never_changes() -> None:
    assert delays(Retry(backoff="fixed", base=7)) == [7, 7, 7, 7, 7]


def test_a_linear_backoff_grows_by_its_base() -> None:
    assert delays(Retry(backoff="linear", base=5)) == [5, 10, 15, 20, 25]


def test_a_list_of_delays_is_followed_and_its_last_one_repeats() -> None:
    assert delays(Retry(backoff=[1, 5, 30])) == [1, 5, 30, 30, 30]
    assert delays(Retry(backoff=(9,)), 3) == [9, 9, 9]


def test_an_attempt_below_one_counts_as_the_first() -> None:
    assert [Retry().delay(attempt, ERROR, 0.5) for attempt in (-3, 0, 1)] == [1, 1, 1]


def test_the_floor_and_the_cap_hold_whatever_the_kind() -> None:
    assert delays(Retry(backoff="fixed", base=0), 1) == [0.1]
    assert delays(Retry(backoff="fixed", base=0, floor=0), 1) == [0]
    assert delays(Retry(backoff="linear", base=100, cap=150), 3) == [100, 150, 150]
    assert delays(Retry(backoff=[5000]), 1) == [3600]


def test_a_factor_that_overflows_ends_at_the_cap_and_breaks_nothing() -> None:
    assert Retry(limit=100, factor=1e9, cap=60).delay(100, ERROR, 0.5) == 60


@given(
    base=seconds,
    cap=seconds,
    floor=st.floats(0, 10),
    jitter=st.floats(0, 1),
    spread=st.floats(0, 1),
    attempt=st.integers(-5, 200),
    kind=st.sampled_from(["exponential", "fixed", "linear"]),
)
def test_jitter_stays_within_its_share_and_the_bounds_stay_bounds(
    base, cap, floor, jitter, spread, attempt, kind
) -> None:
    retry = Retry(backoff=kind, base=base, cap=cap, floor=floor, jitter=jitter)
    middle: Any = Retry(backoff=kind, base=base, cap=float(2**1000), floor=0, jitter=0).delay(attempt, ERROR, 0.5)
    delay: Any = retry.delay(attempt, ERROR, spread)
    lowest, highest = middle * (1 - jitter), middle * (1 + jitter)
    assert min(max(lowest, floor), cap) <= delay * (1 + 1e-9)
    assert delay <= min(max(highest, floor), cap) * (1 + 1e-9)


def test_the_ends_of_the_spread_are_the_ends_of_the_jitter() -> None:
    retry = Retry(backoff="fixed", base=10, jitter=0.1)
    assert [retry.delay(1, ERROR, spread) for spread in (0.0, 0.5, 1.0)] == pytest.approx([9, 10, 11])


# -- a function of one's own


def test_a_function_is_asked_with_the_attempt_and_the_error_and_its_answer_is_taken_as_it_is() -> None:
    seen = []

    def backoff(attempt: int, error: BaseException) -> float:
        seen.append((attempt, error))
        return 0.001  # below the floor: a function knows best

    assert Retry(backoff=backoff).delay(3, ERROR, 0.9) == 0.001
    assert seen == [(3, ERROR)]


def test_a_function_may_say_no() -> None:
    assert Retry(backoff=lambda attempt, error: None).delay(1, ERROR, 0.5) is None


def test_an_async_function_gives_an_awaitable_of_its_answer() -> None:
    async def backoff(attempt: int, error: BaseException) -> float:
        return attempt * 2.0

    answer = Retry(backoff=backoff).delay(4, ERROR, 0.5)
    assert inspect.isawaitable(answer)

    async def settle() -> Any:
        return await answer

    assert asyncio.run(settle()) == 8


# -- which errors


class Declined(ValueError):
    pass


@pytest.mark.parametrize(
    "kind", [TypeError, ValueError, AttributeError, KeyError, ImportError, SyntaxError, AssertionError, Declined]
)
def test_programming_errors_and_what_derives_from_them_are_not_retried(kind) -> None:
    assert not Retry().covers(kind("x"))


@pytest.mark.parametrize("kind", [OSError, ConnectionError, TimeoutError, RuntimeError, Exception, ZeroDivisionError])
def test_everything_else_is_retried(kind) -> None:
    assert Retry().covers(kind("x"))


def test_module_errors_follow_their_base() -> None:
    assert not Retry().covers(ModuleNotFoundError("x"))


def test_an_answer_that_was_cut_off_is_retried_although_it_is_a_value_error() -> None:
    class Derived(json.JSONDecodeError): ...

    class Bad(UnicodeError, ValueError): ...

    assert Retry().covers(UnicodeDecodeError("utf-8", b"x", 0, 1, "y"))
    assert Retry().covers(json.JSONDecodeError("x", "{", 1))
    assert Retry().covers(Derived("x", "{", 1))
    assert Retry().covers(Bad("x"))
    assert not Retry(never=(ValueError,)).covers(json.JSONDecodeError("x", "{", 1)), "what is said goes before"
    assert not Retry(on=(OSError,)).covers(UnicodeError("x"))


def test_permanent_and_retryable_errors_overrule_every_list() -> None:
    class Gone(PermanentError): ...

    class Busy(RetryableError): ...

    assert not Retry(on=(Gone, PermanentError)).covers(Gone("x"))
    assert Retry(never=(Busy, RetryableError, Exception)).covers(Busy("x"))
    assert Retry(never=(RetryLater,)).covers(RetryLater(delay=1))


def test_with_on_only_what_it_names_is_retried() -> None:
    retry = Retry(on=(OSError,))
    assert retry.covers(ConnectionResetError("x"))
    assert not retry.covers(RuntimeError("x"))


def test_on_makes_a_programming_error_worth_a_retry() -> None:
    assert Retry(on=(ValueError,)).covers(Declined("x"))


def test_never_stops_what_would_be_retried() -> None:
    retry = Retry(never=(ConnectionError,))
    assert not retry.covers(ConnectionResetError("x"))
    assert retry.covers(OSError("x"))


def test_the_class_nearest_to_the_error_decides_not_the_order_of_the_lists() -> None:
    narrow = Retry(on=(ConnectionError,), never=(OSError,))
    assert narrow.covers(ConnectionResetError("x"))
    assert not narrow.covers(FileNotFoundError("x"))
    wide = Retry(on=(OSError,), never=(ConnectionError,))
    assert not wide.covers(ConnectionResetError("x"))
    assert wide.covers(FileNotFoundError("x"))


def test_an_error_named_by_both_lists_is_not_retried() -> None:
    assert not Retry(on=(OSError,), never=(OSError,)).covers(OSError("x"))


def test_error_classes_may_be_given_by_dotted_name() -> None:
    assert Retry(on=("builtins.OSError",)).covers(ConnectionError("x"))
    assert not Retry(on=("builtins.OSError",)).covers(RuntimeError("x"))


def test_a_timeout_is_retried_by_default() -> None:
    assert Retry().covers(JobTimeout("x"))
    assert not Retry(on_timeout=False).covers(JobTimeout("x"))
    assert Retry(on_timeout=False).covers(TimeoutError("the task's own"))


def test_a_list_that_names_timeouts_goes_before_on_timeout() -> None:
    assert not Retry(never=(TimeoutError,)).covers(JobTimeout("x"))
    assert Retry(on=(JobTimeout,), on_timeout=False).covers(JobTimeout("x"))


def test_permanent_error_itself_is_among_the_defaults() -> None:
    assert name_of(PermanentError) in PERMANENT_BY_DEFAULT


# -- how often, and what a user may write


def test_a_limit_of_three_means_four_runs() -> None:
    assert Retry(limit=3).max_attempts == 4
    assert Retry(limit=0).max_attempts == 1


@pytest.mark.parametrize(("given", "limit"), [(5, 5), (0, 0), (None, 0), (False, 0), (Retry(limit=9), 9)])
def test_a_number_none_or_false_stand_for_a_retry(given, limit) -> None:
    assert as_retry(given).limit == limit


@pytest.mark.parametrize("given", [True, 1.5, "3", -1, 101, [1, 2]])
def test_anything_else_is_refused(given) -> None:
    with pytest.raises(ConfigError, match="retry"):
        as_retry(given)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("limit", -1),
        ("limit", 101),
        ("limit", 2.0),
        ("limit", True),
        ("base", -1),
        ("base", "1"),
        ("factor", float("nan")),
        ("cap", float("inf")),
        ("floor", -0.1),
        ("jitter", 1.1),
        ("jitter", -0.1),
        ("jitter", "10%"),
        ("backoff", "quadratic"),
        ("backoff", []),
        ("backoff", [1, -1]),
        ("backoff", 5),
        ("on", (1,)),
        ("on", OSError),
        ("on", "OSError"),
        ("never", (int,)),
        ("never", ValueError),
    ],
)
def test_a_bad_field_is_refused_by_name_when_it_is_written(field, value) -> None:
    with pytest.raises(ConfigError, match=f"retry {field}"):
        Retry(**{field: value})


# -- stored with a job


@given(
    limit=st.integers(0, 100),
    backoff=st.sampled_from(["exponential", "fixed", "linear"]) | st.lists(st.floats(0, 100), min_size=1, max_size=4),
    base=st.floats(0, 100),
    jitter=st.floats(0, 1),
    on=st.lists(st.sampled_from([OSError, RuntimeError, ConnectionError])).map(tuple),
    never=st.lists(st.sampled_from([ValueError, TimeoutError])).map(tuple),
    on_timeout=st.booleans(),
)
def test_a_stored_policy_decides_like_the_retry_it_was_made_of(
    limit, backoff, base, jitter, on, never, on_timeout
) -> None:
    retry = Retry(limit=limit, backoff=backoff, base=base, jitter=jitter, on=on, never=never, on_timeout=on_timeout)
    stored = from_policy(retry.policy())
    assert stored.max_attempts == retry.max_attempts
    for error in (OSError(), ConnectionResetError(), ValueError(), TimeoutError(), JobTimeout(), RuntimeError()):
        assert stored.covers(error) == retry.covers(error)
    assert [stored.delay(n, ERROR, 0.3) for n in range(5)] == [retry.delay(n, ERROR, 0.3) for n in range(5)]


def test_a_policy_of_defaults_is_the_default_policy() -> None:
    assert Retry().policy() == RetryPolicy()


def test_a_function_can_not_be_stored_with_one_call_and_the_error_says_where_it_belongs() -> None:
    with pytest.raises(ConfigError, match="belongs on the task"):
        Retry(backoff=lambda attempt, error: 1).policy()


def test_the_longest_wait_of_all_retries_is_known_beforehand() -> None:
    assert Retry(limit=3, jitter=0).longest_wait() == 1 + 2 + 4
    assert Retry(limit=3, jitter=0.1).longest_wait() == pytest.approx(7.7)
    assert Retry(limit=4, backoff=[1, 5], jitter=0).longest_wait() == 1 + 5 + 5 + 5
    assert Retry(limit=0).longest_wait() == 0
    assert Retry(backoff=lambda attempt, error: 1).longest_wait() is None
