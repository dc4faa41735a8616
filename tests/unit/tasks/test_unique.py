"""Equal calls have equal keys however they are written, others have others; and each option gives its rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.jobs.states import FINAL, NOT_STARTED, OPEN, State
from headrace.core.jobs.unique_rules import UniqueCondition, UniqueRule
from headrace.core.tasks.unique import (
    Cache,
    OnConflict,
    Unique,
    UniqueKey,
    for_cache,
    for_debounce,
    for_idempotency,
    for_throttle,
    for_unique,
    unique_key,
)
from headrace.errors import ConfigError, InvalidJob

NOW = 1_700_000_000_000
NOTHING = object()


@dataclass
class Order:
    number: int
    lines: dict[str, int]


def buy(item: Any, count: int = 1, *rest: Any, gift: bool = False, **more: Any) -> None: ...


def look(item: Any, /, where: str = "shelf", mark: Any = NOTHING) -> None: ...


def key(*args: Any, by: tuple[str, ...] = ("args",), function: Callable[..., Any] = buy, **kwargs: Any) -> str:
    return unique_key(Unique(by=by), function.__name__, function, "default").of(args, kwargs)


# -- the same key, or another


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (((1,), {}), ((), {"item": 1})),
        (((1,), {}), ((1, 1), {})),
        (((1,), {}), ((), {"gift": False, "count": 1, "item": 1})),
        ((({"a": 1, "b": 2},), {}), (({"b": 2, "a": 1},), {})),
        ((({1: {"x": 1, "y": 2}, 2: "b"},), {}), (({2: "b", 1: {"y": 2, "x": 1}},), {})),
        ((({3, 1, 2},), {}), (({2, 3, 1},), {})),
        (((1,), {"x": 1, "y": 2}), ((1,), {"y": 2, "x": 1})),
        (((Order(1, {"a": 1, "b": 2}),), {}), ((Order(1, {"b": 2, "a": 1}),), {})),
    ],
)
def test_equal_calls_have_one_key_however_they_are_written(one: Any, other: Any) -> None:
    assert key(*one[0], **one[1]) == key(*other[0], **other[1])


def test_other_values_other_types_and_other_places_make_other_keys() -> None:
    calls = [
        *(key(item) for item in (1, 2, "1", 1.5, None, True, [1], (1,), {1}, {"a": 1}, b"1", Decimal(1))),
        *(key(item) for item in (datetime(2030, 1, 1, tzinfo=UTC), "2030-01-01T00:00:00+00:00", {"$set": [1]})),
        key(1, 2),
        key(1, 1, 1),
        key(1, gift=True),
        key(1, x=1),
        key(1, more={"x": 1}),
        key(Order(1, {})),
    ]
    assert len(set(calls)) == len(calls)


def test_a_default_that_can_not_be_stored_counts_as_not_given() -> None:
    assert key(1, function=look) == key(1, "shelf", function=look)
    assert key(1, function=look) != key(1, mark=None, function=look)
    assert key(1, function=look, by=("mark",)) == key(2, function=look, by=("mark",))


@given(st.permutations(["item", "count", "gift", "color", "size"]), st.integers(0, 2))
def test_neither_the_order_nor_the_way_of_giving_arguments_matters(order: list[str], by_place: int) -> None:
    values: dict[str, Any] = {
        "item": [1, {"a": None}],
        "count": 7,
        "gift": True,
        "color": "red",
        "size": Decimal("1.5"),
    }
    places = ["item", "count"][:by_place]
    named = {name: values[name] for name in order if name not in places}
    assert key(*(values[name] for name in places), **named) == key(**values)


def test_only_what_by_names_counts() -> None:
    by_item = [key(1, 2, gift=True, by=("item",)), key(item=1, by=("item",)), key(1, x=1, by=("item",))]
    assert len(set(by_item)) == 1
    assert key(2, by=("item",)) not in by_item
    assert key(1, x=5, by=("x",)) == key(2, x=5, by=("x",)) != key(1, x=6, by=("x",))
    assert key(1, by=("item", "count")) == key(1, by=("count", "item"))
    assert key(1, 2, 3, by=("rest",)) == key(5, 6, 3, by=("rest",)) != key(1, 2, 4, by=("rest",))


def test_the_task_always_counts_and_the_queue_if_it_is_named() -> None:
    def of(unique: Unique, task: str, queue: str) -> str:
        return unique_key(unique, task, buy, queue).of((1,), {})

    assert of(Unique(), "buy", "a") == of(Unique(), "buy", "b")
    assert of(Unique(), "buy", "a") != of(Unique(), "sell", "a")
    with_queue = Unique(by=("args", "queue"))
    assert of(with_queue, "buy", "a") != of(with_queue, "buy", "b")
    assert of(with_queue, "buy", "a") != of(Unique(), "buy", "a")
    by_task = unique_key(Unique(by=("task",)), "buy", buy, "a")
    assert by_task.of((1,), {}) == by_task.of((2,), {"x": 3})


def test_a_key_of_ones_own_goes_across_tasks_and_arguments() -> None:
    unique_key_only = Unique(key="invoice-7")
    assert unique_key(unique_key_only, "buy", buy, "a").of((1,), {}) == unique_key(
        unique_key_only, "look", look, "b"
    ).of((2,), {})
    assert unique_key(unique_key_only, "buy", buy, "a").of((1,), {}) != unique_key(Unique(key="8"), "buy", buy, "a").of(
        (1,), {}
    )


def test_keys_of_different_kinds_never_meet() -> None:
    texts = ("buy", None)
    kinds = {UniqueKey("u", texts).of((), {}), UniqueKey("i", texts).of((), {}), UniqueKey("c", texts).of((), {})}
    assert len(kinds) == 3
    assert all(len(one) == 34 for one in kinds)


def test_a_cache_goes_by_its_task_and_what_its_key_names() -> None:
    def of(cache: Cache, task: str, *args: Any) -> str:
        return for_cache(cache, task, buy).key.of(args, {})

    assert of(Cache(60), "buy", 1) == of(Cache(5), "buy", 1) != of(Cache(60), "buy", 2)
    assert of(Cache(60), "buy", 1) != of(Cache(60), "sell", 1)
    assert of(Cache(60, key=("item",)), "buy", 1, 2) == of(Cache(60, key=("item",)), "buy", 1, 3)
    assert of(Cache(60, key="today"), "buy", 1) == of(Cache(60, key="today"), "buy", 2)
    assert of(Cache(60, key="today"), "buy", 1) != of(Cache(60, key="today"), "sell", 1)


# -- the rule


def test_without_a_window_the_jobs_that_are_not_finished_count() -> None:
    rule = for_unique(Unique(), UniqueKey("u", ())).rule(NOW)
    assert rule.act == "keep"
    assert [set(condition.states) for condition in rule.conditions] == [OPEN]
    assert [condition.created_since for condition in rule.conditions] == [None]


def test_with_a_window_completed_ones_count_as_well_until_it_is_over() -> None:
    [condition] = for_unique(Unique(window=timedelta(minutes=1)), UniqueKey("u", ())).rule(NOW).conditions
    assert set(condition.states) == OPEN | {State.COMPLETED}
    assert condition.created_since == NOW - 59_999  # one of a minute ago no longer counts


def test_states_that_are_named_count_and_no_others() -> None:
    unique = Unique(states=["failed", State.PENDING], window=1, on_conflict="raise")
    expected = UniqueCondition((State.PENDING, State.FAILED), NOW - 999)
    assert for_unique(unique, UniqueKey("u", ())).rule(NOW) == UniqueRule((expected,), "refuse")


@pytest.mark.parametrize(
    ("on_conflict", "act"),
    [
        ("return_existing", "keep"),
        ("raise", "refuse"),
        ("replace", "replace"),
        ("reschedule", "reschedule"),
        ("keep_last_if_running", "replace"),
        ("cancel_running", "cancel"),
    ],
)
def test_each_conflict_has_its_act(on_conflict: OnConflict, act: str) -> None:
    assert for_unique(Unique(on_conflict=on_conflict), UniqueKey("u", ())).act == act


@pytest.mark.parametrize("on_conflict", ["keep_last_if_running", "cancel_running"])
def test_if_calls_run_one_after_the_other_a_job_that_runs_does_not_count(on_conflict: OnConflict) -> None:
    [condition] = for_unique(Unique(on_conflict=on_conflict), UniqueKey("u", ())).rule(NOW).conditions
    assert set(condition.states) == NOT_STARTED


def test_what_debounce_throttle_idempotency_and_cache_mean() -> None:
    key = UniqueKey("u", ())
    assert for_debounce(key).rule(NOW) == UniqueRule(
        (UniqueCondition(tuple(s for s in State if s in NOT_STARTED)),), "replace"
    )
    assert for_throttle(key, 1000).rule(NOW) == UniqueRule((UniqueCondition(tuple(State), NOW - 999),))
    still, recent = for_idempotency("x").rule(NOW).conditions
    assert (frozenset(still.states), still.created_since) == (OPEN, None)
    assert (frozenset(recent.states), recent.created_since) == (OPEN | FINAL, NOW - 86_400_000 + 1)
    shared, done = for_cache(Cache(ttl=60), "buy", buy).rule(NOW).conditions
    assert (frozenset(shared.states), shared.finished_since) == (OPEN, None)
    assert done == UniqueCondition((State.COMPLETED,), None, NOW - 59_999)


# -- wrong words


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"by": "args"}, r"unique by: expected a tuple such as .* got 'args'"),
        ({"by": ()}, r"unique by: expected a tuple such as .* \('task',\) makes all calls of a task the same"),
        ({"by": (1,)}, r"unique by: expected a tuple .* got \(1,\)"),
        ({"by": None}, r"unique by: expected a tuple .* got None"),
        ({"key": ""}, "unique key: expected a text of 1 to 1000 characters, got ''"),
        ({"key": "x" * 1001}, "unique key: expected a text of 1 to 1000 characters"),
        ({"key": 7}, "unique key: expected a text .* got 7"),
        ({"key": "\ud800"}, "unique key: .* lone surrogate"),
        ({"key": "a", "by": ("item",)}, "by and key exclude each other"),
        ({"states": ("done",)}, "unique states: expected a tuple of 'scheduled', .*, got 'done'"),
        ({"states": "pending"}, "unique states: .* got 'pending'"),
        ({"states": ()}, r"unique states: .* got \(\)"),
        ({"window": 0}, "unique window: expected seconds .* got 0"),
        ({"window": "1h"}, "unique window: expected seconds .* got '1h'"),
        ({"window": True}, "unique window: expected seconds .* got True"),
        ({"window": float("nan")}, "unique window: expected seconds .* got nan"),
        ({"on_conflict": "ignore"}, "unique on_conflict: expected one of 'return_existing', .* got 'ignore'"),
        ({"on_conflict": "keep_last_if_running", "states": ("running",)}, "leave states out"),
        ({"on_conflict": "cancel_running", "states": ("running",)}, "leave states out"),
    ],
)
def test_a_wrong_value_of_unique_is_refused_where_it_is_written(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Unique(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ttl": 0}, "cache ttl: expected seconds .* got 0"),
        ({"ttl": None}, "cache ttl: expected seconds .* got None"),
        ({"ttl": 60, "key": ""}, "cache key: expected a text"),
        ({"ttl": 60, "key": ()}, r"cache key: expected a text or a tuple of parameters' names, got \(\)"),
        ({"ttl": 60, "key": 5}, "cache key: .* got 5"),
    ],
)
def test_a_wrong_value_of_cache_is_refused_where_it_is_written(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Cache(**given)


def test_a_parameter_that_is_not_there_is_refused_with_those_that_are() -> None:
    message = r"unique by: 'look' has no parameter 'wher' \(did you mean 'where'\?\); it has 'item', 'where', 'mark'"
    with pytest.raises(InvalidJob, match=message):
        key(1, by=("wher",), function=look)
    with pytest.raises(InvalidJob, match="cache key: 'look' has no parameter 'count'"):
        for_cache(Cache(60, key=("count",)), "look", look)
    with pytest.raises(InvalidJob, match="has no parameter 'x'; it has none"):
        unique_key(Unique(by=("x",)), "nothing", lambda: None, "default")


def test_of_a_function_with_any_keywords_the_call_must_have_the_one_that_is_named() -> None:
    with pytest.raises(InvalidJob, match="this call of 'buy' has no argument 'color' by name; pass it by name"):
        key(1, by=("color",))


def test_a_function_without_a_signature_is_called_as_given() -> None:
    reads = unique_key(Unique(), "max", max, "default")
    assert reads.of((1, 2), {}) == reads.of((1, 2), {}) != reads.of((2, 1), {})
