"""Queues get their shares exactly, the lightest one too, and a slot is never left empty for fairness's sake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.queues.fair_share import FairShare

weights_of = st.dictionaries(st.text("abcdefgh", min_size=1, max_size=2), st.integers(1, 50), min_size=1, max_size=8)


def turn(fair_share: FairShare, slots: int, backlog: Mapping[str, int]) -> Counter[str]:
    """The jobs of a claim: each queue up to its quota, then the queues that have more, in order."""
    taken: Counter[str] = Counter()
    shares = fair_share.shares(slots)
    for queue, quota in [*((share.queue, share.quota) for share in shares), *((s.queue, slots) for s in shares)]:
        taken[queue] += max(min(quota, backlog[queue] - taken[queue], slots - taken.total()), 0)
    fair_share.took(taken)
    return taken


def run(weights: Mapping[str, int], slots: int, turns: int) -> list[Counter[str]]:
    fair_share = FairShare(weights)
    return [turn(fair_share, slots, dict.fromkeys(weights, 10**9)) for _ in range(turns)]


def test_shares_over_a_thousand_turns_match_the_weights() -> None:
    taken = sum(run({"critical": 5, "default": 3, "bulk": 1}, 1, 1000), Counter())
    assert {queue: round(count / 1000, 2) for queue, count in taken.items()} == {
        "critical": 0.56,
        "default": 0.33,
        "bulk": 0.11,
    }


@pytest.mark.slow
@settings(max_examples=40)
@given(weights=weights_of, slots=st.integers(1, 40))
def test_shares_match_for_any_weights_and_any_slots(weights: dict[str, int], slots: int) -> None:
    turns = 1000
    taken = sum(run(weights, slots, turns), Counter())
    total = sum(weights.values())
    assert taken.total() == turns * slots
    for queue, weight in weights.items():
        fair = turns * slots * weight / total
        assert abs(taken[queue] - fair) <= max(0.02 * fair, 4 * len(weights) + slots)


@settings(max_examples=40)
@given(weights=weights_of, slots=st.integers(1, 10))
def test_even_the_lightest_queue_gets_its_turn_in_time(weights: dict[str, int], slots: int) -> None:
    total, lightest = sum(weights.values()), min(weights, key=lambda queue: weights[queue])
    due = 2 * total // weights[lightest] + 2 * len(weights)
    waited = 0
    for taken in run(weights, slots, 5 * due):
        waited = 0 if taken[lightest] else waited + 1
        assert waited <= due


def test_turns_are_mixed_and_not_one_queue_after_the_other() -> None:
    order = "".join(next(iter(taken.elements())) for taken in run({"a": 3, "b": 1}, 1, 12))
    assert order == "aabaaabaaaba"


def test_an_empty_queue_leaves_its_slots_to_the_others() -> None:
    fair_share = FairShare({"a": 1, "b": 9})
    assert turn(fair_share, 10, {"a": 100, "b": 0}) == {"a": 10, "b": 0}
    assert turn(fair_share, 10, {"a": 3, "b": 0}).total() == 3


def test_a_queue_that_was_empty_for_long_does_not_take_over_when_it_is_back() -> None:
    fair_share = FairShare({"a": 1, "b": 1})
    for _ in range(500):
        turn(fair_share, 4, {"a": 100, "b": 0})
    back = [turn(fair_share, 4, {"a": 100, "b": 100}) for _ in range(10)]
    assert all(taken["a"] >= 1 for taken in back)
    assert abs(sum(taken["b"] for taken in back) - 20) <= 3


def test_a_claim_without_capacity_misses_nothing() -> None:
    fair_share = FairShare({"a": 1, "b": 1})
    for _ in range(100):
        fair_share.shares(0)
        fair_share.took({})
    assert abs(sum(turn(fair_share, 1, {"a": 9, "b": 9})["a"] for _ in range(4)) - 2) <= 1


def test_a_single_queue_always_gets_everything() -> None:
    fair_share = FairShare({"only": 3})
    assert [turn(fair_share, slots, {"only": 100})["only"] for slots in (1, 7, 3)] == [1, 7, 3]


def test_a_worker_of_all_queues_serves_them_evenly_however_long_the_first_is() -> None:
    fair_share = FairShare({})
    assert fair_share.shares(10) == ()
    fair_share.serve(["bulk", "mail"])
    taken = sum((turn(fair_share, 10, {"bulk": 10**9, "mail": 10**9}) for _ in range(100)), Counter())
    assert taken == {"bulk": 500, "mail": 500}
    fair_share.serve(["bulk", "mail", "new"])
    assert turn(fair_share, 30, dict.fromkeys(("bulk", "mail", "new"), 10**9))["new"] == 10


# -- weights by rules


def shares_of(fair_share: FairShare, slots: int, turns: int, backlog: Mapping[str, int]) -> Counter[str]:
    return sum((turn(fair_share, slots, backlog) for _ in range(turns)), Counter())


def test_a_rule_counts_a_queue_so_many_times_and_lifting_it_undoes_that() -> None:
    fair_share, backlog = FairShare({"a": 1, "b": 1}), {"a": 10**9, "b": 10**9}
    fair_share.weigh({"a": 3})
    assert shares_of(fair_share, 1, 400, backlog) == {"a": 300, "b": 100}
    fair_share.weigh({})
    taken = shares_of(fair_share, 1, 400, backlog)
    assert abs(taken["a"] - 200) <= 3


def test_a_weight_by_rule_and_the_workers_own_weight_are_multiplied() -> None:
    fair_share, backlog = FairShare({"a": 2, "b": 1}), {"a": 10**9, "b": 10**9}
    fair_share.weigh({"b": 4, "elsewhere": 100})
    assert shares_of(fair_share, 3, 200, backlog) == {"a": 200, "b": 400}


def test_a_rule_weighs_in_a_worker_of_all_queues_also_for_one_that_comes_later() -> None:
    fair_share = FairShare({})
    fair_share.weigh({"new": 3})
    fair_share.serve(["old"])
    fair_share.serve(["new", "old"])
    assert shares_of(fair_share, 4, 100, {"old": 10**9, "new": 10**9}) == {"new": 300, "old": 100}


# -- other orders among queues


@given(weights=weights_of, slots=st.integers(1, 40))
def test_strictly_each_queue_is_served_before_the_next_one_whatever_the_weights(
    weights: dict[str, int], slots: int
) -> None:
    fair_share = FairShare(weights, "strict")
    fair_share.weigh({next(reversed(weights)): 1000})
    assert [(share.queue, share.quota) for share in fair_share.shares(slots)] == [(queue, slots) for queue in weights]


def test_strictly_the_last_queue_has_what_those_before_it_leave() -> None:
    fair_share = FairShare({"first": 1, "last": 9}, "strict")
    assert turn(fair_share, 10, {"first": 100, "last": 100}) == {"first": 10, "last": 0}
    assert turn(fair_share, 10, {"first": 3, "last": 100}) == {"first": 3, "last": 7}


def test_strictly_a_worker_of_all_queues_serves_them_in_the_given_order() -> None:
    fair_share = FairShare({}, "strict")
    assert fair_share.shares(5) == ()
    fair_share.serve(["a", "b"])
    assert [share.queue for share in fair_share.shares(5)] == ["a", "b"]


def test_at_random_shares_follow_the_weights_and_every_queue_is_claimed_from() -> None:
    fair_share = FairShare({"a": 1, "b": 1}, "random")
    fair_share.weigh({"a": 3})
    first: Counter[str] = Counter()
    for _ in range(4000):
        shares = fair_share.shares(2)
        assert {share.queue for share in shares} == {"a", "b"}
        assert all(share.quota == 2 for share in shares)
        first[shares[0].queue] += 1
    assert 0.70 <= first["a"] / 4000 <= 0.80  # 3 of 4, seven standard deviations to each side


def test_at_random_an_empty_queue_leaves_its_slots_to_the_others() -> None:
    fair_share = FairShare({"a": 1, "b": 1000}, "random")
    assert turn(fair_share, 10, {"a": 100, "b": 0}) == {"a": 10, "b": 0}
