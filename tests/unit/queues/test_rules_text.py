"""Rules as an operator writes them: a given rule replaces, others stay, and an error names the rule."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.jobs.queue_rules import KeyRules, QueueRules, Rate, TaskRules
from headrace.core.queues.rates import as_rate, format_rate
from headrace.core.queues.rule_fields import QUEUE_RULES, TASK_RULES
from headrace.core.queues.rules_text import changed, check_rule, format_rules, rule_values, with_key
from headrace.errors import InvalidJob

TEN = Rate(100_000, 10)


@pytest.mark.parametrize(
    ("given", "rules"),
    [
        ({"max_length": 5}, QueueRules(max_length=5)),
        ({"weight": 1000}, QueueRules(weight=1000)),
        ({"strategy": "lifo"}, QueueRules(strategy="lifo")),
        ({"ageing": 0.5}, QueueRules(ageing=500)),
        ({"ageing": timedelta(minutes=1)}, QueueRules(ageing=60_000)),
        ({"rate": "10/s"}, QueueRules(rate=TEN)),
        ({"rate": TEN}, QueueRules(rate=TEN)),
        ({"rate": "10/s", "burst": 3}, QueueRules(rate=Rate(100_000, 3))),
        ({"key_rate": "10/s", "key_burst": 3}, QueueRules(key_rate=Rate(100_000, 3))),
        ({"concurrency": 1, "key_concurrency": 2}, QueueRules(concurrency=1, key_concurrency=2)),
    ],
)
def test_a_rule_is_stored_in_its_plain_form(given: dict[str, Any], rules: QueueRules) -> None:
    assert changed(QueueRules(), given) == rules


def test_what_is_not_named_stays_and_none_lifts() -> None:
    before = QueueRules(weight=3, rate=TEN, concurrency=5, key_rate=TEN)
    assert changed(before, {"concurrency": 6}) == QueueRules(weight=3, rate=TEN, concurrency=6, key_rate=TEN)
    assert changed(before, {"rate": None, "weight": None}) == QueueRules(concurrency=5, key_rate=TEN)
    assert changed(before, dict.fromkeys(QUEUE_RULES)) == QueueRules()


def test_the_rules_of_a_task_leave_its_pause_alone() -> None:
    assert changed(TaskRules(paused=True), {"concurrency": 1}) == TaskRules(paused=True, concurrency=1)
    assert changed(TaskRules(paused=True, rate=TEN), dict.fromkeys(TASK_RULES)) == TaskRules(paused=True)


# -- bursts


def test_a_burst_alone_changes_the_rate_that_is_there() -> None:
    assert changed(QueueRules(rate=TEN), {"burst": 50}) == QueueRules(rate=Rate(100_000, 50))
    assert changed(TaskRules(rate=TEN), {"burst": 50}) == TaskRules(rate=Rate(100_000, 50))


def test_a_new_rate_brings_a_burst_of_its_own() -> None:
    before = changed(QueueRules(), {"rate": "10/s", "burst": 50})
    assert changed(before, {"rate": "20/s"}).rate == as_rate("20/s")


@pytest.mark.parametrize("text", ["10/s", "6/s", "7/s", "2.5/s", "100/min", "1/h", "3/10s", "5/day", "1500/s"])
def test_a_burst_that_is_lifted_is_again_what_the_rate_had_without_one(text: str) -> None:
    before = changed(QueueRules(), {"rate": text, "burst": 1234})
    assert changed(before, {"burst": None}).rate == Rate(as_rate(text).every, as_rate(text).burst)


@pytest.mark.parametrize("given", [{"burst": 5}, {"rate": None, "burst": 5}, {"key_burst": 5}])
def test_a_burst_without_a_rate_says_what_it_lacks(given: dict[str, Any]) -> None:
    rate = "key_rate" if "key_burst" in given else "rate"
    with pytest.raises(InvalidJob, match=f"burst: it belongs to a {rate}; give that too"):
        changed(QueueRules(key_rate=None, rate=None), given)


def test_a_burst_that_is_lifted_where_there_is_no_rate_is_nothing() -> None:
    assert changed(QueueRules(), {"burst": None}) == QueueRules()


# -- what is refused


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("max_length", 0, "a whole number from 1 to 1,000,000,000, or None for no limit, got 0"),
        ("max_length", "5", "got '5'"),
        ("concurrency", True, "a whole number .* got True"),
        ("concurrency", 1.0, "a whole number .* got 1.0"),
        ("key_concurrency", 10**9 + 1, "a whole number .* got 1000000001"),
        ("weight", 0, "from 1 to 1,000, or None for the usual weight of 1, got 0"),
        ("weight", 1001, "from 1 to 1,000"),
        ("burst", 0, "or None for what starts in a second, got 0"),
        ("strategy", "random", "one of priority, fifo, lifo, weighted_random, fresh_first, got 'random'"),
        ("strategy", "LIFO", "one of priority"),
        ("strategy", ["lifo"], "one of priority"),
        ("ageing", 0, "seconds of waiting that count as one point of priority, got 0"),
        ("ageing", "1m", "seconds of waiting .* got '1m'"),
        ("ageing", True, "seconds of waiting"),
        ("ageing", float("nan"), "seconds of waiting"),
        ("ageing", timedelta(days=366), "seconds of waiting"),
        ("rate", 10, "text such as '10/s', '100/min' or '3/10s', got 10"),
        ("rate", "10", "'10' .* such as '10/s'"),
        ("rate", "0/s", "'0/s' must be"),
        ("key_rate", "many", "'many' .* such as '10/s'"),
        ("key_rate", b"10/s", "text such as '10/s'"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_rule(name: str, value: Any, expected: str) -> None:
    for refuse in (lambda: changed(QueueRules(rate=TEN), {name: value}), lambda: check_rule(name, value)):
        with pytest.raises(InvalidJob, match=f"^{name}: .*{expected}"):
            refuse()


@pytest.mark.parametrize(
    ("rules", "given", "expected"),
    [
        (QueueRules(), {}, "at least one rule; rules are max_length, weight"),
        (TaskRules(), {}, "at least one rule; rules are rate, burst, concurrency, strategy$"),
        (QueueRules(), {"concurency": 5}, r"unknown rule 'concurency' \(did you mean 'concurrency'\?\); rules are"),
        (QueueRules(), {"xyz": 5}, "unknown rule 'xyz'; rules are"),
        (TaskRules(), {"max_length": 5}, "unknown rule 'max_length'; rules are rate, burst, concurrency, strategy$"),
        (TaskRules(), {"paused": True}, "unknown rule 'paused'"),
    ],
)
def test_an_unknown_rule_and_none_at_all_get_an_error_with_the_rules(
    rules: Any, given: dict[str, Any], expected: str
) -> None:
    with pytest.raises(InvalidJob, match=expected):
        changed(rules, given)


@given(st.dictionaries(st.sampled_from([*QUEUE_RULES]), st.one_of(st.none(), st.integers(), st.text(), st.floats())))
def test_any_value_is_taken_or_refused_and_nothing_else_happens(given: dict[str, Any]) -> None:
    try:
        after = changed(QueueRules(), given)
    except InvalidJob as error:
        expected = str(error)
    else:
        expected = " ".join(given)
        assert all(getattr(after, name, None) is None for name, value in given.items() if value is None)
    assert not given or any(name in expected for name in given)


# -- in words


@pytest.mark.parametrize(
    "text", ["10/s", "1/s", "6/s", "7/s", "100/min", "90/min", "30/min", "18/min", "5/h", "1/h", "100/day", "1500/s"]
)
def test_a_rate_is_shown_as_it_was_written(text: str) -> None:
    assert format_rate(as_rate(text)) == text


@pytest.mark.parametrize(("text", "shown"), [("3/10s", "18/min"), ("0.5/s", "30/min"), ("0.5/day", "0.5/day")])
def test_a_rate_is_shown_in_whole_numbers_where_it_can_be(text: str, shown: str) -> None:
    assert format_rate(as_rate(text)) == shown


@given(st.integers(1, 10**12))
def test_a_formatted_rate_parses_to_nearly_the_same_rate(every: int) -> None:
    again = as_rate(format_rate(Rate(every, 1)))
    assert abs(again.every - every) <= 1 + every / 10_000


def test_rules_are_shown_with_their_names_and_only_those_there_are() -> None:
    assert format_rules(QueueRules()) == format_rules(TaskRules()) == ""
    rules = QueueRules(weight=3, strategy="fifo", ageing=1500, rate=Rate(100_000, 20), key_rate=TEN)
    expected = "weight=3 strategy=fifo ageing=1.5s rate=10/s burst=20 key_rate=10/s key_burst=10"
    assert format_rules(rules) == expected
    assert format_rules(TaskRules(paused=True, concurrency=2)) == "paused=true concurrency=2"


# -- rules of single keys


def test_a_key_gets_rules_of_its_own_and_loses_them() -> None:
    before = QueueRules(concurrency=5)
    one = with_key(before, "acme", {"rate": "10/s", "burst": 3})
    assert one == QueueRules(concurrency=5, keys={"acme": KeyRules(rate=Rate(100_000, 3))})
    both = with_key(one, "acme", {"concurrency": 7})
    assert both.keys == {"acme": KeyRules(rate=Rate(100_000, 3), concurrency=7)}
    assert with_key(with_key(both, "acme", {"rate": None}), "acme", {"concurrency": None}) == before


def test_what_is_no_rule_of_a_key_is_refused() -> None:
    with pytest.raises(InvalidJob, match=r"unknown rule 'key_rate'.*rules are rate, burst, concurrency, weight$"):
        with_key(QueueRules(), "acme", {"key_rate": "10/s"})
    with pytest.raises(InvalidJob, match="burst: it belongs to a rate"):
        with_key(QueueRules(), "acme", {"burst": 3})


def test_so_many_keys_have_rules_and_no_more() -> None:
    full = QueueRules(keys={f"k{number}": KeyRules(concurrency=1) for number in range(1000)})
    assert with_key(full, "k7", {"concurrency": 2}).keys["k7"].concurrency == 2
    with pytest.raises(InvalidJob, match="key: 1,000 keys"):
        with_key(full, "another", {"concurrency": 2})


def test_keys_are_named_among_the_rules_and_are_none_of_their_values() -> None:
    rules = QueueRules(concurrency=5, keys={name: KeyRules(concurrency=1) for name in "abcd"})
    assert format_rules(rules) == "concurrency=5 keys=a,b,c\N{HORIZONTAL ELLIPSIS}"
    assert "keys" not in rule_values(rules)
    assert format_rules(KeyRules(rate=TEN, concurrency=2)) == "rate=10/s burst=10 concurrency=2"
