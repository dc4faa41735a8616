"""Rates against a plain bucket of tokens in exact fractions, lanes encoded and decoded, and fair orders."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.jobs.queue_rules import QueueRules, Rate, Strategy, TaskRules
from headrace.core.jobs.records import ClaimRequest
from headrace.core.queues.limits import (
    STRATEGIES,
    ClaimOrder,
    Limit,
    LimitCounter,
    QueuedJob,
    drawn,
    group_concurrency,
    group_limit,
    key_concurrency,
    lane_limits_of,
    lane_of,
    merged,
    round_robin,
    weight_of,
)
from headrace.engines.sql.lane_rotation import LaneRotation
from headrace.engines.sql.limited_claim import earlier, rules_snapshot

# -- lanes and gates

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
lane_limits = st.builds(Limit, st.sampled_from(["key", "rate", "needs", "task"]), names)


@given(st.lists(lane_limits, max_size=6))
def test_a_lane_has_its_limits(several: list[Limit]) -> None:
    lane = lane_of(several)
    found = lane_limits_of(lane)
    assert set(found) == set(several)
    assert len(found) == len(set(several))
    assert lane_of(found) == lane


@given(st.lists(lane_limits, max_size=6), st.randoms())
def test_a_lane_is_the_same_however_its_gates_are_listed(several: list[Limit], chance: random.Random) -> None:
    shuffled = [*several, *several[:2]]
    chance.shuffle(shuffled)
    assert lane_of(shuffled) == lane_of(several)


@given(st.lists(lane_limits, max_size=4), st.lists(lane_limits, max_size=4))
def test_different_gates_are_different_lanes(one: list[Limit], other: list[Limit]) -> None:
    assert (lane_of(one) == lane_of(other)) == (set(one) == set(other))


def test_a_job_without_gates_is_in_no_lane() -> None:
    assert lane_of([]) == ""
    assert lane_limits_of("") == []
    assert lane_of([Limit("key", "")]) != ""


@pytest.mark.parametrize("name", ["", ":", "c:x", '"', "\\", '","r:x', "\0", "\n", "grüße 🚰", "]", "\u2028"])
def test_no_name_is_taken_for_another_one(name: str) -> None:
    several = [Limit("key", name), Limit("rate", name), Limit("needs", name), Limit("task", name)]
    assert set(lane_limits_of(lane_of(several))) == set(several)
    assert lane_limits_of(lane_of([Limit("needs", name)])) == [Limit("needs", name)]


def test_only_a_group_has_a_number_of_its_own() -> None:
    of_three = QueueRules(key_concurrency=3)
    assert [key_concurrency(Limit("key", "a"), rules) for rules in (QueueRules(), of_three)] == [1, 3]
    limit = group_limit(1_000_000_000, "0197b6f3")
    assert lane_limits_of(lane_of([limit])) == [limit]
    assert (group_concurrency(limit), key_concurrency(limit, of_three)) == (1_000_000_000, 1_000_000_000)
    for name in ("a", "0\tg", "2 g", "\tg", "20000000000\tg"):
        assert group_concurrency(Limit("key", name)) is None
    assert group_concurrency(Limit("rate", "2\tg")) is None


def test_a_counter_admits_as_many_jobs_as_the_tightest_limit_allows() -> None:
    read: list[Limit] = []
    capacities = {Limit("key", "a"): 2.0, Limit("rate", "b"): 5.0, Limit("needs", "gpu"): float("inf")}

    def capacity_of(lane_limit: Limit) -> float:
        read.append(lane_limit)
        return capacities[lane_limit]

    counter = LimitCounter(capacity_of)
    both = [Limit("key", "a"), Limit("rate", "b")]
    assert [counter.admit(both) for _ in range(3)] == [True, True, False]
    assert [counter.admit([Limit("rate", "b"), Limit("needs", "gpu")]) for _ in range(4)] == [
        True,
        True,
        True,
        False,
    ]
    assert counter.passed == {Limit("key", "a"): 2, Limit("rate", "b"): 5, Limit("needs", "gpu"): 3}
    assert len(read) == 3, "each limit is read once"
    assert counter.admit([])


def test_a_refused_job_counts_for_no_limit() -> None:
    counter = LimitCounter(lambda lane_limit: 0 if lane_limit.kind == "needs" else 1)
    assert not counter.admit([Limit("key", "a"), Limit("needs", "gpu")])
    assert counter.capacity(Limit("key", "a")) == 1
    assert counter.passed == {}


# -- turns


def heads_of(lane: str, priorities: list[int], first: int = 0) -> list[QueuedJob]:
    """The front of a lane: its jobs in the order of a claim."""
    heads = [QueuedJob(first + n, "work", level, 1000 + first + n, lane) for n, level in enumerate(priorities)]
    return sorted(heads, key=lambda head: (-head.priority, head.rank, head.seq))


lanes_of_heads = st.lists(st.lists(st.integers(-3, 3), max_size=12), max_size=8).map(
    lambda lanes: [heads_of(f"l{n}", levels, 100 * n) for n, levels in enumerate(lanes)]
)


@given(lanes_of_heads)
def test_turns_hold_every_job_once_and_each_lane_in_its_own_order(lanes: list[list[QueuedJob]]) -> None:
    order = round_robin(lanes)
    assert sorted(head.seq for head in order) == sorted(head.seq for heads in lanes for head in heads)
    for heads in lanes:
        lane_seqs = {head.seq for head in heads}
        assert [head for head in order if head.seq in lane_seqs] == heads


@given(lanes_of_heads)
def test_the_more_urgent_goes_before_the_less_urgent_whatever_the_lane(lanes: list[list[QueuedJob]]) -> None:
    levels = [head.priority for head in round_robin(lanes)]
    assert levels == sorted(levels, reverse=True)


@given(lanes_of_heads)
def test_of_the_equally_urgent_no_lane_is_ever_two_turns_ahead(lanes: list[list[QueuedJob]]) -> None:
    order = round_robin(lanes)
    for level in {head.priority for head in order}:
        left = {heads[0].lane: sum(head.priority == level for head in heads) for heads in lanes if heads}
        had: Counter[str] = Counter()
        for head in (head for head in order if head.priority == level):
            had[head.lane] += 1
            left[head.lane] -= 1
            waiting = [had[lane] for lane, jobs in left.items() if jobs]
            assert not waiting or had[head.lane] - min(waiting) <= 1


def test_without_priorities_only_turns_and_age_count() -> None:
    lanes = [heads_of("a", [9, 9, 9], 10), heads_of("b", [0, 0], 20), heads_of("c", [-5], 0)]
    assert "".join(head.lane for head in round_robin(lanes, ClaimOrder("fifo"))) == "cababa"


AGED = ClaimOrder("priority", 10)


@st.composite
def aged_lanes(draw: st.DrawFn) -> list[list[QueuedJob]]:
    """Lanes in their own order, each with jobs of several priorities that wait since different times."""
    job = st.tuples(st.integers(-3, 3), st.integers(1, 60), st.booleans())
    lanes = draw(st.lists(st.lists(job, max_size=8), max_size=6))
    heads = [
        [
            QueuedJob(100 * lane + n, "work", level, -at if lifo else at, f"l{lane}")
            for n, (level, at, lifo) in enumerate(jobs)
        ]
        for lane, jobs in enumerate(lanes)
    ]
    return [merged({0: jobs}, AGED, 100) for jobs in heads]


served_last = st.none() | st.builds("l{}".format, st.integers(0, 6))


@given(aged_lanes(), served_last)
def test_with_ageing_age_and_priority_go_together_among_lanes_in_whole_points(
    lanes: list[list[QueuedJob]], last: str | None
) -> None:
    order = round_robin(lanes, AGED, {} if last is None else {0: last})
    for place, head in enumerate(order):
        for later in order[place + 1 :]:
            assert abs(head.rank) // 10 - head.priority <= abs(later.rank) // 10 - later.priority
    for heads in lanes:
        assert [head for head in order if head in heads] == heads, "each lane keeps its own order"


@given(aged_lanes(), served_last)
def test_with_ageing_no_lane_is_two_turns_ahead_of_an_equally_urgent_one(
    lanes: list[list[QueuedJob]], last: str | None
) -> None:
    order = round_robin(lanes, AGED, {} if last is None else {0: last})
    for level in {AGED.level_of(head) for head in order}:
        equals = [head.lane for head in order if AGED.level_of(head) == level]
        left, had = Counter(equals), Counter[str]()
        for lane in equals:
            had[lane] += 1
            left[lane] -= 1
            assert all(had[lane] - had[other] <= 1 for other, jobs in left.items() if jobs)


@pytest.mark.parametrize(("last", "order"), [("", "abc"), ("a", "bca"), ("b", "cab"), ("c", "abc"), ("aa", "bca")])
def test_with_ageing_turns_go_on_behind_the_last_one_whatever_the_level(last: str, order: str) -> None:
    lanes = [[QueuedJob(n, "work", 5, at, lane)] for n, (lane, at) in enumerate({"a": 17, "c": 12, "b": 15}.items())]
    assert "".join(head.lane for head in round_robin(lanes, AGED, {0: last})) == order
    assert "".join(head.lane for head in round_robin(lanes, AGED)) == "cba", "the oldest first if no lane was served"


def test_with_ageing_the_moment_changes_no_order() -> None:
    """All jobs age alike: a job that is a point ahead stays a point ahead."""
    old, urgent = QueuedJob(1, "work", 0, 1000, "a"), QueuedJob(2, "work", 5, 1050, "b")
    assert AGED.level_of(old) == AGED.level_of(urgent)
    assert AGED.level_of(QueuedJob(3, "work", 5, 1060, "b")) == AGED.level_of(old) - 1
    assert AGED.level_of(QueuedJob(4, "work", 0, -1000, "a")) == AGED.level_of(old), (
        "first among its equals, and as old"
    )


@pytest.mark.parametrize("strategy", ["fifo", "lifo", "weighted_random", "fresh_first"])
def test_ageing_counts_in_the_order_of_priority_alone(strategy: Strategy) -> None:
    head = QueuedJob(1, "work", 7, 1000, "a")
    assert (
        ClaimOrder(strategy, 10).level_of(head)
        == ClaimOrder(strategy).level_of(head)
        == (7 if strategy == "fresh_first" else 0)
    )


def test_with_ageing_levels_do_not_pile_up_in_the_memory() -> None:
    cursors: dict[str, str] = {}
    for step in range(100):
        turns = LaneRotation(cursors, "default", AGED)
        turns.serve(QueuedJob(step, "work", step % 7, 1000 * step, f"l{step}"))
        turns.store(None, found_nothing=False)
    assert LaneRotation(cursors, "default", AGED).served == {0: "l99"}


# -- orders


def test_ten_points_more_are_drawn_ten_times_as_often() -> None:
    assert weight_of(10) == pytest.approx(10 * weight_of(0))
    assert weight_of(-90) == pytest.approx(weight_of(-100) * 10)
    assert 0 < weight_of(-100) < weight_of(100) < float("inf")


chances = st.floats(0, 1, exclude_max=True)


@given(st.dictionaries(st.integers(-100, 100), st.integers(1, 6), max_size=6), st.integers(0, 20), st.data())
def test_a_draw_has_never_more_than_waits_nor_less_than_requested(
    waiting: dict[int, int], jobs: int, data: st.DataObject
) -> None:
    order = drawn(waiting, jobs, lambda: data.draw(chances))
    assert len(order) == min(jobs, sum(waiting.values()))
    assert all(times <= waiting[level] for level, times in Counter(order).items())


def test_drawn_follows_the_weights() -> None:
    chance = random.Random(7)
    order = drawn({0: 10**6, 3: 10**6, 6: 10**6}, 7000, chance.random)
    times = Counter(order)
    weights = {level: weight_of(level) for level in (0, 3, 6)}
    for level, weight in weights.items():
        assert times[level] == pytest.approx(7000 * weight / sum(weights.values()), rel=0.1)


@pytest.mark.parametrize(("chance", "level"), [(0.0, 0), (0.0909, 0), (0.091, 10), (0.9999999999999999, 10)])
def test_drawn_takes_the_level_the_chance_falls_on(chance: float, level: int) -> None:
    assert drawn({10: 1, 0: 1}, 1, lambda: chance) == [level]


@st.composite
def fronts(draw: st.DrawFn) -> dict[int, list[QueuedJob]]:
    jobs = draw(st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 200), st.booleans()), max_size=20))
    levels: dict[int, list[QueuedJob]] = {}
    for seq, (level, at, lifo) in enumerate(jobs):
        levels.setdefault(level, []).append(QueuedJob(seq, "work", level, -at if lifo else at))
    return levels


@given(fronts(), st.integers(0, 25))
def test_by_age_priority_counts_for_nothing(levels: dict[int, list[QueuedJob]], jobs: int) -> None:
    everything = [(abs(head.rank), head.seq) for heads in levels.values() for head in heads]

    def places(strategy: Strategy) -> list[tuple[int, int]]:
        return [(abs(head.rank), head.seq) for head in merged(levels, ClaimOrder(strategy), jobs)]

    assert places("fifo") == sorted(everything)[:jobs]
    assert places("lifo") == sorted(everything, reverse=True)[:jobs]


@given(fronts(), st.integers(1, 50))
def test_with_ageing_no_job_is_overtaken_by_more_than_its_priority_is_worth(
    levels: dict[int, list[QueuedJob]], ageing: int
) -> None:
    order = merged(levels, ClaimOrder("priority", ageing), 100)
    assert len(order) == sum(map(len, levels.values()))
    for place, head in enumerate(order):
        for later in order[place + 1 :]:
            assert abs(head.rank) - abs(later.rank) <= (head.priority - later.priority) * ageing


def test_every_strategy_has_a_name() -> None:
    assert STRATEGIES == ("priority", "fifo", "lifo", "weighted_random", "fresh_first")


# -- what a claim has to mind


@pytest.mark.parametrize("stored", ["[[],[],[]]", "[[], [], []]"])
def test_without_rules_nothing_is_checked(stored: str) -> None:
    """However a database writes an empty list: else every turn would be made with care, for nothing."""
    book = rules_snapshot(stored)
    assert not book.has_rules
    assert not book.needs_limits("default", ClaimRequest("w", 1, 1))
    assert not book.needs_limits("default", ClaimRequest("w", 1, 1, strategy="priority"))
    assert book.needs_limits("default", ClaimRequest("w", 1, 1, strategy="lifo"))


def test_the_rules_show_which_queues_need_limits() -> None:
    book = rules_snapshot(r'[[["a","{\"weight\":3}"],["b","{\"concurrency\":2,\"weight\":1}"]], ["c"], []]')
    assert book.has_rules
    assert [queue for queue in "abcd" if book.needs_limits(queue, ClaimRequest("w", 1, 1))] == ["b", "c"]
    assert book.weights == {"a": 3, "b": 1}
    assert rules_snapshot(r'[[],[],[["work","{\"paused\":true}"]]]').needs_limits("any", ClaimRequest("w", 1, 1))
    assert rules_snapshot('[[["a","{"]],[],[]]').needs_limits("any", ClaimRequest("w", 1, 1)), (
        "a statement may see more in what is damaged"
    )


@pytest.mark.parametrize(
    ("rules", "shape"),
    [
        (QueueRules(), False),
        (QueueRules(max_length=3, weight=2), False),
        (QueueRules(strategy="fifo"), True),
        (QueueRules(ageing=5), True),
        (QueueRules(rate=Rate(1, 1)), True),
        (QueueRules(concurrency=1, weight=2), True),
        (QueueRules(key_rate=Rate(1, 1)), True),
        (QueueRules(key_concurrency=2), True),
    ],
)
def test_which_rules_shape_claims(rules: QueueRules, shape: bool) -> None:
    assert rules.shape_claims is shape


def test_the_earlier_of_two_moments() -> None:
    assert [earlier(1, 2), earlier(2, 1), earlier(None, 3), earlier(3, None), earlier(None, None)] == [1, 1, 3, 3, None]


def test_a_task_without_rules_equals_no_rules() -> None:
    assert TaskRules(paused=False, rate=None, concurrency=None) == TaskRules()


def test_a_priority_of_which_none_waits_any_more_is_not_drawn() -> None:
    assert drawn({0: 0, 5: 2}, 10, lambda: 0.0) == [5, 5]
