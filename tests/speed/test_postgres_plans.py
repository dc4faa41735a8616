"""EXPLAIN guards: every statement of PostgreSQL's hot path finds its rows by an index, whatever its statistics say.

The planner decides by what it believes of a table, and that may be long past. So each guard holds in a store that was
analyzed when it was empty, in one that was analyzed in its first minute, and in one that is analyzed as it is; for
plans that are made for their parameters, and for those that prepared statements keep, even from before the first job.
No time is measured here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import FINAL, OPEN, State
from headrace.core.retention.staleness import AgeQuery
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql import search
from headrace.engines.sql.queries import SqlQueries
from headrace.engines.sql.search_plan import plan_of
from headrace.engines.sql.staleness import SqlStalenessStore
from tests.speed.explaining import Explaining, Plan, Store, explained, values_of
from tests.support.builders import NOW, only, settle, succeed
from tests.support.cases import check_each
from tests.support.engines import KINDS

pytestmark = pytest.mark.skipif("postgres" not in KINDS, reason="not among $HEADRACE_TEST_ENGINES")

FULL, YOUNG, NEW, FIRST_DAY = 1_000_000, 200_000, 5_000, 60
SIZES = [1, 100, 1000]

# The indexes of the big tables that a statement may use, and it must use each of them.
BY_NUMBER, BY_LEASE, IN_LINE = {"jobs_pkey"}, {"jobs_leased"}, {"jobs_pending"}
BY_ID = {"ids_pkey"} | BY_NUMBER
BY_STEP = {"steps_pkey"}
HOT: dict[str, set[str]] = {
    **dict.fromkeys(["stored_as_given", "complete", "record_stale", "note_progress", "note_logs", "lost"], BY_ID),
    **dict.fromkeys(["get", "unfinished", "import_tags", "import_history", "import_logs"], BY_ID),
    **dict.fromkeys(["record_lost", "expire_lease", "release", "reaped", "record_moves"], BY_NUMBER),
    **dict.fromkeys(
        ["move_cancel", "move_revive", "move_promote_now", "ids_of", "update_job", "export_jobs"], BY_NUMBER
    ),
    **dict.fromkeys(["overdue", "lock_overdue", "lock_unknown_claims", "workers"], BY_LEASE),
    **dict.fromkeys(["record_reviews", "record_marked", "move_stale", "tasks_of", "append_move_events"], BY_NUMBER),
    **dict.fromkeys(["lock_children", "unblocked", "hold_children", "unhold_children"], BY_NUMBER),
    **dict.fromkeys(["lock_stale", "renew"], BY_ID),
    "existing_ids": {"ids_pkey"},
    "job_ages": BY_NUMBER | {"history_job"},
    "unreviewed": BY_NUMBER | {"history_job"},
    "crashes_of": {"history_job"},
    "walk_running": BY_LEASE,
    "walk_waiting": {"jobs_waiting"},
    "insert": set(),
    "insert_whole": set(),
    "insert_one": set(),
    "settle": BY_ID | {"history_job", "logs_job", "steps_pkey"},
    "add_dead_letters": BY_NUMBER | {"history_job", "logs_job", "steps_pkey"},
    "lock_expired": {"jobs_expiring"},
    "promote": BY_NUMBER | {"jobs_due"},
    "claim": {"jobs_pending", "jobs_due", "jobs_expiring"},
    **dict.fromkeys(["lane_heads", "untried_heads", "tried_heads", "lanes", "levels", "oldest", "newest"], IN_LINE),
    **dict.fromkeys(["lane_tops", "lane_tops_by_age"], IN_LINE),
    **dict.fromkeys(["move_lane", "claim_chosen", "chosen", "rows"], BY_NUMBER),
    **dict.fromkeys(["reschedule_jobs", "replace_jobs"], BY_NUMBER),
    "running": BY_LEASE,
    "existing_jobs": {"jobs_unique"} | BY_STEP,
    "lock_unstarted": BY_NUMBER | BY_STEP,
    "lock_open_of_keys": {"jobs_unique"},
    "request_cancel": BY_NUMBER,
    "move_delete": BY_NUMBER | {"tags_job", "history_job", "logs_job"},
    "history": BY_ID | {"history_job"},
    **dict.fromkeys(["logs", "stream", "newest_of_stream"], BY_ID | {"logs_job"}),
    "export_history": {"history_job"},
    "export_logs": {"logs_job"},
    **dict.fromkeys(["lock_leased", "lock_open", "import_steps"], BY_ID),
    **dict.fromkeys(["record_step", "scheduled_because", "wake"], BY_NUMBER),
    **dict.fromkeys(["events_so_far", "export_steps", "delete_steps"], BY_STEP),
    "delete_steps_of_completed": BY_NUMBER | BY_STEP,
    **dict.fromkeys(["steps", "wake_if_come"], BY_ID | BY_STEP),
}
SETTLING = [name for name, indexes in HOT.items() if indexes >= BY_ID]


@pytest.fixture(scope="module")
def new() -> Iterator[Store]:
    """Its statements were prepared before its first job; nobody has analyzed it yet."""
    with contextlib.closing(Store()) as store:
        store.prepare(HOT)
        store.fill(1, NEW)
        yield store


@pytest.fixture(scope="module")
def young() -> Iterator[Store]:
    """Analyzed on its first day, and grown since."""
    with contextlib.closing(Store()) as store:
        store.fill(1, FIRST_DAY)
        store.analyze()
        store.fill(FIRST_DAY + 1, YOUNG)
        store.prepare(HOT)
        yield store


@pytest.fixture(scope="module")
def full() -> Iterator[Store]:
    """A million jobs that came within a minute, as far as its statistics and its prepared statements know."""
    with contextlib.closing(Store()) as store:
        store.analyze()
        store.prepare(HOT)
        store.fill(1, FULL)
        yield store


# In this order: neither to discard plans nor to analyze a store is ever undone.
LATER = ("analyzed when young", "prepared when empty", "analyzed when empty", "analyzed")
STAGES = ["prepared when new", *(pytest.param(stage, marks=pytest.mark.slow) for stage in LATER)]


@pytest.fixture(scope="module", params=STAGES)
def store(request: pytest.FixtureRequest) -> Store:
    known = {"prepared when new": "new", "analyzed when young": "young"}
    store: Store = request.getfixturevalue(known.get(request.param, "full"))
    if request.param == "analyzed when empty":
        store.own.execute("DISCARD PLANS")
    elif request.param == "analyzed":
        store.analyze()
    return store


# -- the hot path


def test_a_prepared_statement_keeps_to_its_indexes(store: Store) -> None:
    def check(name: str) -> None:
        plan = store.kept(name)
        assert plan.walks() == []
        assert plan.indexes() == HOT[name]
        assert not plan.kinds() & {"Bitmap Heap Scan", "Hash Join", "Merge Join", "Gather"}

    check_each(sorted(HOT), check)


@pytest.mark.parametrize("store", STAGES[1:], indirect=True)
def test_a_batch_of_any_size_keeps_to_its_indexes(store: Store) -> None:
    def check(case: tuple[str, int]) -> None:
        name, size = case
        plan = store.fresh(name, size)
        assert plan.walks() == []
        assert plan.indexes() == HOT[name]
        assert "Gather" not in plan.kinds()
        if HOT[name] <= BY_ID:
            assert not plan.kinds() & {"Hash Join", "Merge Join"}

    check_each(product(sorted(HOT), SIZES), check)


def test_even_a_small_store_is_not_read_whole_for_a_few_jobs(new: Store) -> None:
    """It would be the cheaper way for a hundred of them, which is what the planner takes any batch for."""

    def check(name: str) -> None:
        assert new.fresh(name, 1).walks() == []

    check_each(sorted(SETTLING), check)


def test_the_jobs_of_a_batch_are_locked_in_the_order_in_which_they_are_given(new: Store, young: Store) -> None:
    """Two who lock some of the same jobs rely on it. `settle` says so itself, by its ORDER BY."""

    def check(name: str) -> None:
        for plan in (new.kept(name), young.kept(name), *(young.fresh(name, size) for size in SIZES)):
            steps = [step["Node Type"] for step in plan.steps]
            join = steps.index("Nested Loop")
            assert steps[join : join + 3] == ["Nested Loop", "Function Scan", "Index Scan"]
            assert not plan.kinds() & SORTS

    check_each(["complete", "note_progress"], check)


def test_a_claim_reads_the_front_of_its_queue_without_sorting(store: Store) -> None:
    assert_front_of_queue(store.kept("claim"))


@pytest.mark.parametrize("store", STAGES[1:], indirect=True)
def test_it_does_so_on_any_connection_once_the_table_was_analyzed(store: Store) -> None:
    def check(size: int) -> None:
        assert_front_of_queue(store.fresh("claim", size))

    check_each(SIZES, check)


def test_an_operators_look_reads_the_front_of_the_queue_without_sorting(store: Store) -> None:
    """Not so without our settings: a planner that believes in four waiting jobs may sort them as well."""
    assert_front_of_queue(store.kept("lane_heads"))


def test_fresh_jobs_are_looked_for_at_the_front_of_the_queue(store: Store) -> None:
    """Tried ones are sorted by their class, but no more of them than the claim looked at."""
    assert_front_of_queue(store.kept("untried_heads"))
    steps = [step["Node Type"] for step in store.kept("tried_heads").steps]
    assert steps[-4:] == ["Sort", "Subquery Scan", "Limit", "Index Scan"]


def assert_front_of_queue(plan: Plan) -> None:
    looks = [step for step in plan.steps if step.get("Index Name") == "headrace_jobs_pending"]
    (look,) = (step for step in looks if "lane = " in step["Index Cond"])
    assert look["Node Type"] == "Index Scan"
    assert look["Index Cond"].startswith("((queue = ")
    assert not plan.kinds() & {"Sort", "Incremental Sort"}


def test_with_ageing_a_claim_reads_the_ends_of_what_waits_in_each_lane(store: Store) -> None:
    for plan in (store.fresh("lane_tops_by_age"), store.kept("lane_tops_by_age")):
        looks = [step["Index Cond"] for step in plan.steps if step.get("Index Name") == "headrace_jobs_pending"]
        conditions = ["lane >", "lane >", "priority <", "rank <", "rank >="]
        assert len(looks) == len(conditions)
        assert all(any(condition in look for look in looks) for condition in conditions)
        limits = [outer for outer, inner in zip(plan.steps, plan.steps[1:], strict=False) if "Index Name" in inner]
        assert {outer["Node Type"] for outer in limits} == {"Limit"}


def test_what_is_claimed_is_updated_where_it_was_found(store: Store) -> None:
    for plan in (*(store.fresh("claim", size) for size in SIZES), store.kept("claim")):
        jobs = [step for step in plan.steps if step.get("Relation Name") == "headrace_jobs"]
        changes = jobs[[step["Node Type"] for step in jobs].index("ModifyTable") :]
        assert [step["Node Type"] for step in changes] == ["ModifyTable", "Tid Scan"]


def test_the_horizon_is_two_looks_at_the_ends_of_two_indexes(store: Store) -> None:
    for plan in (store.kept("claim"),):
        parents = [outer for outer, inner in zip(plan.steps, plan.steps[1:], strict=False) if "Index Name" in inner]
        assert [outer["Node Type"] for outer in parents[:2]] == ["Limit", "Limit"]
        assert not plan.kinds() & {"Sort", "Incremental Sort"}


def test_time_reads_only_what_it_is_up_to(store: Store) -> None:
    def check(case: tuple[str, str, str]) -> None:
        name, index, condition = case
        for plan in (store.fresh(name), store.kept(name)):
            looks = [step for step in plan.steps if step.get("Index Name") == f"headrace_{index}"]
            assert condition in looks[0]["Index Cond"]

    check_each(
        [
            ("lock_expired", "jobs_expiring", "expires_at <="),
            ("promote", "jobs_due", "run_at <="),
            ("overdue", "jobs_leased", "lease_until <="),
        ],
        check,
    )


def test_no_worker_reads_all_that_runs_to_learn_that_nothing_is_overdue(store: Store) -> None:
    assert not [step for step in store.fresh("overdue").steps if "lease_until >" in step.get("Index Cond", "")]
    (lane_limit,) = (step for step in store.kept("overdue").steps if "One-Time Filter" in step)
    assert "'[]'::jsonb" in lane_limit["One-Time Filter"]


def test_nothing_that_is_asked_all_the_time_is_compiled_first(store: Store) -> None:
    """A server compiles a plan that costs enough by its estimate, which takes longer than any of ours."""
    (compiles,) = store.own.execute("SELECT current_setting('jit')::boolean").fetchone() or ()
    assert not compiles


# -- those that stay long


def walk(store: Store, place: list[Any]) -> list[Plan]:
    """The plans of one look that goes on from here, through all that is left."""
    database = Explaining(store, walks=True)
    SqlStalenessStore(database).by_age(AgeQuery(dict.fromkeys(OPEN, NOW), NOW), 1000, as_json(place))
    return database.plans


def test_a_walk_of_the_pending_goes_on_where_it_was_without_sorting(store: Store) -> None:
    plans = walk(store, [3, "q1", "", 1, NOW, 5000])
    conditions = ["priority =", "priority <", "lane >", "queue >"]
    assert len(plans) == len(conditions)
    for plan, condition in zip(plans, conditions, strict=True):
        (look,) = (step for step in plan.steps if step.get("Index Name") == "headrace_jobs_pending")
        assert condition in look["Index Cond"]
        assert plan.walks() == []


def test_a_walk_of_others_reads_their_own_indexes(store: Store) -> None:
    waiting, put_off, running, *_ = walk(store, [0])
    for plan, index in ((waiting, "jobs_waiting"), (put_off, "jobs_due"), (running, "jobs_leased")):
        assert index in plan.indexes()
        assert plan.walks() == []


# -- questions whose text is put together: they are never prepared

PAGES: dict[str, tuple[Filter, set[str]]] = {
    "all": (Filter(), {"jobs_pkey"}),
    "queue": (Filter(queue="q1"), {"jobs_pkey"}),
    "task": (Filter(task="task3"), {"jobs_pkey"}),
    "worker": (Filter(worker="nobody"), {"jobs_pkey"}),
    "text": (Filter(text="nowhere"), {"jobs_pkey"}),
    "since": (Filter(since=NOW + 5000), {"jobs_pkey"}),
    "until": (Filter(until=NOW + 5000, queue="q1"), {"jobs_pkey"}),
    "tag": (Filter(tag="t"), {"tags_pkey", "jobs_pkey"}),
    "tag and more": (Filter(tag="t", states=(State.COMPLETED,), queue="q1"), {"tags_pkey", "jobs_pkey"}),
    "flow": (Filter(flow="f"), {"jobs_flow"}),
    "flow and more": (Filter(flow="f", states=(State.COMPLETED,), task="task3"), {"jobs_flow"}),
    "flow and tag": (Filter(flow="f", tag="t"), {"jobs_flow"}),
    "ids": (Filter(ids=("job-00000028",), states=(State.FAILED,)), BY_ID),
    "two states": (Filter(states=(State.FAILED, State.CANCELLED)), {"jobs_pkey"}),
    "state and queue": (Filter(states=(State.PENDING,), queue="q1"), {"jobs_pkey"}),
    **{state.value: (Filter(states=(state,)), {"jobs_pkey"}) for state in State},
    "failed": (Filter(states=(State.FAILED,)), {"jobs_failed"}),
    "failed and more": (Filter(states=(State.FAILED,), worker="nobody", queue="q1"), {"jobs_failed"}),
    "cancelled": (Filter(states=(State.CANCELLED,)), {"jobs_cancelled"}),
}
SORTS = {"Sort", "Incremental Sort"}


def asked(store: Store, which: Filter, cursor: str | None = None, reach: int | None = 10_000) -> list[Plan]:
    database = Explaining(store)
    SqlQueries(database).find(which, 50, cursor, reach)
    return database.plans


def test_a_page_of_many_is_read_along_one_index(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(case: tuple[str | None, str]) -> None:
        cursor, which = case
        monkeypatch.setattr(search, "FEW", -1)
        plan = asked(store, PAGES[which][0], cursor)[-1]
        assert PAGES[which][1] <= plan.indexes() <= PAGES[which][1] | {"tags_pkey", "tags_job"}  # a job has few tags
        assert not plan.kinds() & {"Seq Scan", "Bitmap Heap Scan", "Hash Join", "Merge Join"}
        assert which == "ids" or not plan.kinds() & SORTS
        assert plan.walks() == []

    check_each(product([None, "150000"], PAGES), check)


FEW = {name: which for name, (which, _) in PAGES.items() if plan_of(which).sets}


def test_a_page_of_few_is_read_by_their_numbers(store: Store) -> None:
    def check(which: str) -> None:
        *numbers, page = asked(store, FEW[which])
        assert {"jobs_pkey"} <= page.indexes() <= {"jobs_pkey", "tags_pkey", "tags_job"}
        for plan in numbers:
            assert "jobs_pkey" not in plan.indexes()
            assert not plan.kinds() & {"Seq Scan", "Bitmap Heap Scan", "Hash Join", "Merge Join", *SORTS}

    check_each(FEW, check)


PLACES = {
    State.PENDING: "jobs_pending",
    State.WAITING: "jobs_waiting",
    State.RUNNING: "jobs_leased",
    State.SCHEDULED: "jobs_due",
    State.RETRYING: "jobs_due",
    State.COMPLETED: "jobs_finished",
    State.FAILED: "jobs_failed",
    State.CANCELLED: "jobs_cancelled",
}


def test_jobs_of_a_state_are_counted_in_its_own_index(store: Store) -> None:
    def check(state: State) -> None:
        database = Explaining(store)
        SqlQueries(database).count(Filter(states=(state,)))
        (plan,) = database.plans
        assert plan.indexes() == {PLACES[state]}

    check_each(PLACES, check)


def test_jobs_of_a_state_in_a_queue_are_told_by_the_index_that_knows_both(store: Store) -> None:
    def check(state: State) -> None:
        _, numbers, _ = asked(store, Filter(states=(state,), queue="q1"), reach=None)
        assert numbers.indexes() == {"jobs_finished" if state in FINAL else PLACES[state]}

    check_each(PLACES, check)


# -- the guards themselves, and what no plan tells


def test_the_guards_would_see_a_missing_index() -> None:
    with contextlib.closing(Store()) as store:
        store.fill(1, 5000)
        store.analyze()
        store.prepare(HOT)
        store.drop_index("jobs_pending")
        store.drop_index("ids_pkey")
        for plan in (
            store.fresh("complete"),
            store.kept("complete"),
            store.fresh("lane_heads"),
            store.kept("lane_heads"),
        ):
            assert plan.walks()
        assert "Sort" in store.fresh("claim").kinds()


WAITING = f"""
INSERT INTO headrace_ids (id) SELECT n FROM generate_series(1, 51000) AS n;
INSERT INTO headrace_jobs (seq, id, task, queue, state, priority, rank, version, max_attempts, payload, checksum,
                           created_at, run_at)
SELECT n, n, 'task', 'q1', 'pending', 0, {NOW} + n, 1, 3, '[]', 7, {NOW}, {NOW} FROM generate_series(1, 51000) AS n
"""


def blocks_of_a_claim(store: Store) -> tuple[int, int]:
    """How many blocks a claim of a hundred touches, and how many of them to find its jobs."""
    store.own.execute("BEGIN")
    plan = explained(store.own, store.sql["claim"], values_of("claim", 100), "ANALYZE, BUFFERS, ")
    store.own.execute("ROLLBACK")
    touched = {step.get("Index Name"): step["Shared Hit Blocks"] + step["Shared Read Blocks"] for step in plan.steps}
    return sum(plan.steps[0][f"Shared {how} Blocks"] for how in ("Hit", "Read")), touched["headrace_jobs_pending"]


@pytest.mark.slow
def test_a_claim_pays_little_for_the_fifty_thousand_before_it() -> None:
    """Until the next vacuum it steps over their entries in the index, but must not look up each one's row."""
    with contextlib.closing(Store()) as store:
        store.run("INSERT INTO headrace_queues (name, created_at) VALUES ('q1', 0)")
        store.run(WAITING)
        before, _ = blocks_of_a_claim(store)
        for _ in range(100):
            claims = store.engine.exchange([], only("q1", 500), now=NOW).claims
            assert len(claims) == 500
            assert settle(store.engine, *(succeed(claim) for claim in claims)) == []
        after, to_find = blocks_of_a_claim(store)
    assert to_find < 500
    assert after < 2 * before


def test_finished_jobs_are_told_in_the_order_of_their_index(store: Store) -> None:
    def check(case: tuple[str, int]) -> None:
        name, at = case
        asked = {"queue": "q1", "state": "completed", "before": NOW + 100_000, "at": at, "seq": 7, "limit": 500}
        plan = explained(store.own, store.sql[name], asked)
        assert plan.indexes() == {"jobs_finished", "jobs_pkey"} or plan.indexes() == {"jobs_finished"}
        assert "Sort" not in plan.kinds()  # those of one end are sorted, and no others
        assert plan.walks() == []

    check_each([("finished_oldest", NOW + 5000), ("finished_newest", NOW + 50_000)], check)


def test_jobs_that_leave_are_found_one_by_one(store: Store) -> None:
    def check(name: str) -> None:
        assert explained(store.own, store.sql[name], values_of(name)).walks() == []

    check_each(["lock_jobs_to_delete", "any_dependents", "open_parents", "cut_off", "open_flows"], check)
