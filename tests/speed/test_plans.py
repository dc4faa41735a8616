"""EXPLAIN guards: every statement of SQLite's hot path finds its rows by an index, whatever lies in the store.

No time is measured here. A plan that walks the table, or sorts what an index already orders, is slow only once
the store is large, and then for everybody.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from headrace.core.jobs.records import Filter, NewJob
from headrace.core.jobs.states import OPEN, State, Trigger
from headrace.engines.sql import search
from headrace.engines.sqlite import transaction as ledger_module
from headrace.engines.sqlite.engine import SqliteEngine
from headrace.engines.sqlite.statements import SQL
from headrace.engines.sqlite_file.database import scalar
from tests.support.builders import NOW, new_job
from tests.support.cases import check_each

ROWS = 20_000
BY_ID = "USING INDEX sqlite_autoindex_headrace_jobs_1 (id=?)"
BY_ID_ALONE = "USING COVERING INDEX sqlite_autoindex_headrace_jobs_1 (id=?)"
BY_SEQ = "USING INTEGER PRIMARY KEY (rowid=?)"
SORTS = "USE TEMP B-TREE FOR ORDER BY"

# A store in the middle of its life: mostly history, some of every state.
MIXED = f"""
UPDATE headrace_jobs SET state = 'completed', finished_at = {NOW} WHERE seq % 10 < 6;
UPDATE headrace_jobs SET state = 'failed', finished_at = {NOW} WHERE seq % 100 = 6;
UPDATE headrace_jobs SET state = 'cancelled', finished_at = {NOW} WHERE seq % 100 = 16;
UPDATE headrace_jobs SET state = 'scheduled', run_at = run_at + seq, rank = run_at + seq WHERE seq % 10 = 7;
UPDATE headrace_jobs SET state = 'retrying', run_at = run_at + seq, rank = run_at + seq WHERE seq % 100 = 28;
UPDATE headrace_jobs SET state = 'running', lease_until = {NOW} + seq, worker = 'w' || (seq % 7) WHERE seq % 100 = 8;
UPDATE headrace_jobs SET state = 'waiting' WHERE seq % 100 = 18;
UPDATE headrace_jobs SET expires_at = {NOW} + seq WHERE seq % 50 = 9;
"""
BATCHES = {"o", "j", "n", "r", "b", "t", "lease", "seqs", "refs", "ids", "dead", "names"}
# Not the parts of questions, nor those that are put together from them: each of these has a guard of its own below.
PARTS = ("where_", "by_", "in_", "newest_by_")
WHOLE = sorted(name for name, text in SQL.items() if not name.startswith(PARTS) and "{where}" not in text)


@pytest.fixture(scope="module", params=["as it comes", "analyzed"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteEngine]:
    """20 000 rows, without and with the statistics that an operator's ANALYZE leaves behind."""
    engine = SqliteEngine(tmp_path_factory.mktemp("plans") / "q.db", durability="off")
    jobs = [
        new_job(f"j{n}", queue=f"q{n % 5}", priority=n % 3, tags=("t",) if n % 100 == 0 else ()) for n in range(ROWS)
    ]
    engine.insert(jobs, now=NOW)
    with engine.store.writing() as db:
        for statement in MIXED.strip().split(";\n"):
            db.execute(statement)
        if request.param == "analyzed":
            db.execute("ANALYZE")
    yield engine
    engine.close()


def explain(db: sqlite3.Connection, sql: str, values: Any) -> list[str]:
    return [step[3] for step in db.execute(f"EXPLAIN QUERY PLAN {sql}", values)]


def plan(engine: SqliteEngine, name: str) -> list[str]:
    """The steps SQLite takes for a named statement, with parameters of the right kind."""
    sql = SQL[name].replace("{rows}", f"({', '.join('?' * len(NewJob.__struct_fields__))})")
    named = {key: "[]" if key in BATCHES else NOW for key in re.findall(r":(\w+)", sql)}
    with engine.store.reading() as db:
        return explain(db, sql, named or ("x",) * sql.count("?"))


def looks_at_jobs(steps: list[str]) -> list[str]:
    looks = [step for step in steps if re.match(r"(SCAN|SEARCH) (headrace_jobs|job)\b", step)]
    if "CO-ROUTINE job" in steps:
        looks.remove("SCAN job")  # the desk's outer statement calls its own subquery `job`
    return looks


def walks_through(steps: list[str], *tables: str) -> list[str]:
    """Steps that use no index. SQLite says SEARCH for a min() even where it has to look at every row."""
    return [step for step in steps if re.fullmatch(rf"(SCAN|SEARCH) ({'|'.join(tables)})", step)]


# -- the hot path

HOT = [
    "insert",
    "insert_tags",
    "existing_ids",
    "record_outcomes",
    "add_dead_letters_of_outcomes",
    "settle",
    "complete",
    "stale_outcomes",
    "record_stale",
    "note_progress",
    "note_logs",
    "claim_preamble",
    "lock_expired",
    "promote",
    "claimable",
    "claim",
    "renew",
    "lost",
    "overdue",
    "lock_overdue",
    "lock_unknown_claims",
    "add_dead_letters",
    "record_lost",
    "expire_lease",
    "release",
    "reaped",
    "get",
    "unfinished",
    "history",
    "logs",
    "stream",
    "newest_of_stream",
    "export_jobs",
    "export_history",
    "export_logs",
    "import_jobs",
    "import_tags",
    "import_history",
    "import_logs",
]


def test_no_hot_statement_walks_the_whole_table(store: SqliteEngine) -> None:
    def check(name: str) -> None:
        walks = walks_through(plan(store, name), r"headrace_\w+", "job", "h", "l")
        # There are few queues, and hardly any task has rules.
        assert [step for step in walks if step not in ("SCAN headrace_queues", "SCAN headrace_tasks")] == []

    check_each(HOT, check)


def test_no_statement_at_all_walks_the_jobs(store: SqliteEngine) -> None:
    def check(name: str) -> None:
        assert walks_through(plan(store, name), "headrace_jobs", "job") == []

    check_each(WHOLE, check)


def test_a_claim_reads_the_front_of_its_lane_without_sorting(store: SqliteEngine) -> None:
    def check(name: str) -> None:
        steps = plan(store, name)
        assert looks_at_jobs(steps) == ["SEARCH headrace_jobs USING INDEX headrace_jobs_pending (queue=? AND lane=?)"]
        assert not [step for step in steps if "TEMP B-TREE" in step]

    check_each(["claimable", "lane_heads", "untried_heads"], check)


def test_with_ageing_a_claim_reads_the_ends_of_what_waits_in_each_lane(store: SqliteEngine) -> None:
    looks = [step for step in plan(store, "lane_tops_by_age") if "headrace_jobs_pending" in step]
    conditions = ["(queue=? AND lane>?)"] * 2 + ["(queue=? AND lane=? AND priority<?)"]
    conditions += [f"(queue=? AND lane=? AND priority=? AND rank{side}?)" for side in "<>"]
    assert [step[step.index("(") :] for step in looks] == conditions
    assert SORTS not in plan(store, "lane_tops_by_age")


def test_the_horizon_is_looks_at_the_ends_of_indexes(store: SqliteEngine) -> None:
    due, lapsing, lanes = looks_at_jobs(plan(store, "claim_preamble"))
    assert lanes == "SEARCH headrace_jobs USING INDEX headrace_jobs_pending (queue=?)"
    assert SORTS not in plan(store, "claim_preamble"), "the last lane is at the end of its queue"
    assert due == "SEARCH headrace_jobs USING COVERING INDEX headrace_jobs_due"
    assert lapsing.startswith("SEARCH headrace_jobs USING")
    assert "INDEX headrace_jobs_expiring (expires_at>?)" in lapsing


def test_promotion_reads_what_is_due_in_order(store: SqliteEngine) -> None:
    assert looks_at_jobs(plan(store, "due")) == [
        "SEARCH headrace_jobs USING COVERING INDEX headrace_jobs_due (run_at<?)"
    ]
    steps = plan(store, "promote")
    assert looks_at_jobs(steps) == [f"SEARCH headrace_jobs {BY_SEQ}"]
    assert not [step for step in steps if "TEMP B-TREE" in step]


def test_lapsing_reads_only_what_expired(store: SqliteEngine) -> None:
    (look,) = looks_at_jobs(plan(store, "lock_expired"))
    assert "INDEX headrace_jobs_expiring (expires_at>? AND expires_at<?)" in look


def test_a_batch_is_the_outer_loop_and_each_job_is_found_by_its_id(store: SqliteEngine) -> None:
    def check(case: tuple[str, str]) -> None:
        name, batch = case
        steps = [step for step in plan(store, name) if step.startswith(("SCAN", "SEARCH"))]
        # What a dead letter tells beyond the job's own row, looked up job by job.
        beyond = r"SEARCH (edge|parent|before|entry|step|line) USING .*=\?|SCAN \(subquery-\d+\)"
        steps = [step for step in steps if not re.match(beyond, step)]
        assert re.match(rf"SCAN {batch} VIRTUAL TABLE INDEX 1:", steps[0])
        assert len(steps) == 2
        assert steps[1].endswith(BY_ID)

    check_each(
        [
            ("settle", "o"),
            ("complete", "o"),
            ("record_outcomes", "o"),
            ("add_dead_letters_of_outcomes", "o"),
            ("record_stale", "o"),
            ("stale_outcomes", "o"),
            ("renew", "lease"),
            ("lost", "lease"),
            ("note_progress", "n"),
            ("note_logs", "n"),
        ],
        check,
    )


def test_jobs_already_found_are_looked_up_by_their_number(store: SqliteEngine) -> None:
    def check(name: str) -> None:
        assert looks_at_jobs(plan(store, name)) == [f"SEARCH headrace_jobs {BY_SEQ}"]

    check_each(
        [
            "claim",
            "expire_lease",
            "release",
            "record_lost",
            "add_dead_letters",
            "move_stale",
            "tasks_of",
            "reaped",
            "record_moves",
            "move_cancel",
            "move_revive",
            "move_promote_now",
            "move_delete",
            "update_job",
            "ids_of",
            "state_of",
        ],
        check,
    )


def test_jobs_asked_for_by_id_are_found_by_id(store: SqliteEngine) -> None:
    def check(case: tuple[str, str]) -> None:
        name, by = case
        assert looks_at_jobs(plan(store, name)) == [f"SEARCH headrace_jobs {by}"]

    check_each([("get", BY_ID), ("unfinished", BY_ID), ("existing_ids", BY_ID_ALONE)], check)


def test_what_a_worker_may_have_lost_is_sought_among_running_jobs_only(store: SqliteEngine) -> None:
    """It reads all of them: an OR of lease and worker can't be one range. Running jobs are few, history is not."""

    def check(name: str) -> None:
        (look,) = looks_at_jobs(plan(store, name))
        assert re.fullmatch(r"(SCAN|SEARCH) (headrace_jobs|job) USING (COVERING )?INDEX headrace_jobs_leased.*", look)

    check_each(["overdue", "lock_overdue", "lock_unknown_claims"], check)


# -- those that stay long


def first_look(store: SqliteEngine, statement: str, where: str = "") -> tuple[str, list[str]]:
    """How a walk finds the next jobs, and what comes before that which it found is put away."""
    sql = SQL[statement].replace("{where}", where)
    values = dict.fromkeys(re.findall(r":(\w+)", sql), NOW)
    with store.store.reading() as db:
        steps = explain(db, sql, values)
    place = next(n for n, step in enumerate(steps) if "headrace_jobs" in step)
    return steps[place], steps[: place + 2]


def test_a_walk_of_the_pending_goes_on_where_it_was_without_sorting(store: SqliteEngine) -> None:
    def check(case: tuple[str, str]) -> None:
        where, found = case
        look, steps = first_look(store, "walk_pending", SQL[where])
        assert look.startswith("SEARCH headrace_jobs USING INDEX headrace_jobs_pending (queue")
        assert look.endswith(found)
        assert not [step for step in steps if "TEMP B-TREE" in step]

    check_each(
        [
            ("where_after_job", "(queue=? AND lane=? AND priority=? AND rank>?)"),
            ("where_after_priority", "(queue=? AND lane=? AND priority<?)"),
            ("where_after_lane", "(queue=? AND lane>?)"),
            ("where_after_queue", "(queue>?)"),
        ],
        check,
    )


def test_a_walk_of_others_reads_their_own_index(store: SqliteEngine) -> None:
    def check(case: tuple[str, str]) -> None:
        name, index = case
        look, steps = first_look(store, name)
        assert f"INDEX {index}" in look
        assert name == "walk_running" or not [step for step in steps if "TEMP B-TREE" in step]

    check_each(
        [
            ("walk_put_off", "headrace_jobs_due"),
            ("walk_waiting", "headrace_jobs_waiting"),
            ("walk_running", "headrace_jobs_leased"),
        ],
        check,
    )


def test_the_history_of_an_old_job_is_found_by_the_job(store: SqliteEngine) -> None:
    steps = plan(store, "job_ages")
    assert walks_through(steps, "h", "headrace_jobs", "headrace_history") == []
    assert len([step for step in steps if "SEARCH h USING INDEX headrace_history_job (job=?)" in step]) >= 4


def test_what_was_filed_about_a_job_is_found_by_the_job(store: SqliteEngine) -> None:
    def check(case: tuple[str, str]) -> None:
        name, index = case
        steps = plan(store, name)
        assert looks_at_jobs(steps) == [f"SEARCH job {BY_ID_ALONE}"]
        assert any(f"INDEX {index} (job=?)" in step for step in steps)

    logs = [(name, "headrace_logs_job") for name in ("logs", "stream", "newest_of_stream")]
    check_each([("history", "headrace_history_job"), *logs], check)


def test_depths_are_counted_in_the_partial_indexes(store: SqliteEngine) -> None:
    looks = looks_at_jobs(plan(store, "queue_counts"))
    assert len(looks) == 6
    for look, index in zip(looks, ("pending", "due", "waiting", "leased", "finished", "finished"), strict=True):
        assert f"INDEX headrace_jobs_{index}" in look
    assert all("(queue=? AND state=? AND finished_at>?)" in look for look in looks[4:])


# -- questions whose text is put together


def plans_of(engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch, ask: Any) -> list[list[str]]:
    """The plan of each statement that the desk puts to the store while it answers."""
    asked: list[tuple[str, Any]] = []

    def listening(db: sqlite3.Connection, sql: str, values: Any = ()) -> Any:
        asked.append((sql, values))
        return scalar(db, sql, values)

    monkeypatch.setattr(ledger_module, "scalar", listening)
    ask()
    with engine.store.reading() as db:
        return [explain(db, sql, values) for sql, values in asked]


PARTIAL = {State.FAILED: "headrace_jobs_failed", State.CANCELLED: "headrace_jobs_cancelled"}


def test_the_rare_final_states_are_found_by_their_own_index_in_order(
    store: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(case: tuple[State, str | None]) -> None:
        state, cursor = case
        (steps,) = plans_of(store, monkeypatch, lambda: store.queries.find(Filter(states=(state,)), 50, cursor))
        (look,) = looks_at_jobs(steps)
        assert f"INDEX {PARTIAL[state]}" in look
        assert SORTS not in steps

    check_each(product(PARTIAL, [None, "15000"]), check)


def page(store: SqliteEngine, monkeypatch: pytest.MonkeyPatch, which: Filter, cursor: str | None = None) -> list[str]:
    """How the jobs of a page are read. What was asked before that, to find the way, reads nothing but indexes."""
    *before, steps = plans_of(store, monkeypatch, lambda: store.queries.find(which, 50, cursor, reach=1000))
    for asked in before:
        assert walks_through(asked, "headrace_jobs", "headrace_tags", "job") in ([], ["SCAN job"], ["SEARCH job"])
        assert not [step for step in asked if "TEMP B-TREE" in step]
    return steps


RUNNING = (State.RUNNING,)
FEW = [
    Filter(states=RUNNING),
    Filter(states=RUNNING, queue="q1"),
    Filter(states=RUNNING, tag="t"),
    Filter(queue="none"),
]
FEW += [Filter(queue="none"), Filter(tag="t", queue="q1")]
FEW += [Filter(states=(State.FAILED,), queue="q2"), Filter(states=(State.RETRYING,))]


def test_few_jobs_are_looked_up_by_their_numbers(store: SqliteEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(case: tuple[Filter, str | None]) -> None:
        which, cursor = case
        monkeypatch.setattr(search, "FEW", 5000)
        steps = page(store, monkeypatch, which, cursor)
        assert looks_at_jobs(steps) == [f"SEARCH job {BY_SEQ}"]
        assert SORTS not in steps

    check_each(product(FEW, [None, "15000"]), check)


MANY = [Filter(), Filter(queue="q1"), Filter(task="work"), Filter(since=NOW), Filter(text="needle"), Filter(worker="w")]
MANY += [Filter(states=(state,)) for state in (State.PENDING, State.COMPLETED, State.SCHEDULED)]
MANY += [Filter(states=(State.PENDING,), queue="q3"), Filter(states=tuple(State), task="work", until=NOW)]


def test_a_page_without_a_better_index_is_read_from_the_newest_end(
    store: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(case: tuple[Filter, str | None]) -> None:
        which, cursor = case
        monkeypatch.setattr(search, "FEW", 10)
        steps = page(store, monkeypatch, which, cursor)
        assert looks_at_jobs(steps) == ["SEARCH job USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"]
        assert SORTS not in steps

    check_each(product(MANY, [None, "15000"]), check)


def test_jobs_of_a_tag_are_found_by_the_tag(store: SqliteEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(which: Filter) -> None:
        monkeypatch.setattr(search, "FEW", 10)
        steps = page(store, monkeypatch, which)
        assert looks_at_jobs(steps) == [f"SEARCH job {BY_SEQ}"]
        assert any(step.startswith("SEARCH tags USING PRIMARY KEY (tag=? AND job>? AND job<?)") for step in steps)
        assert SORTS not in steps

    check_each([Filter(tag="t"), Filter(tag="t", task="work"), Filter(tag="t", states=tuple(OPEN))], check)


def test_jobs_of_a_flow_are_found_by_the_flow(store: SqliteEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(which: Filter) -> None:
        monkeypatch.setattr(search, "FEW", -1)
        steps = page(store, monkeypatch, which)
        (look,) = looks_at_jobs(steps)
        assert re.fullmatch(r"SEARCH job USING INDEX headrace_jobs_flow \(flow=\? AND (seq|rowid)>\? AND .*\)", look)
        assert SORTS not in steps

    check_each([Filter(flow="f"), Filter(flow="f", states=(State.COMPLETED,), queue="q1")], check)


COUNTED = {
    State.PENDING: "headrace_jobs_pending",
    State.RUNNING: "headrace_jobs_leased",
    State.WAITING: "headrace_jobs_waiting",
    State.RETRYING: "headrace_jobs_due",
    State.COMPLETED: "headrace_jobs_finished",
    State.FAILED: "headrace_jobs_failed",
}


def test_jobs_of_a_state_are_counted_in_its_own_index(store: SqliteEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(state: State) -> None:
        (steps,) = plans_of(store, monkeypatch, lambda: store.queries.count(Filter(states=(state,))).jobs)
        (look,) = looks_at_jobs(steps)
        assert f"INDEX {COUNTED[state]}" in look

    check_each(COUNTED, check)


def test_a_move_by_id_is_found_by_id(store: SqliteEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = Filter(ids=("no such job",))
    # Before it comes what keeps others away, and whether the store is open; neither looks at jobs.
    (*_, steps) = plans_of(store, monkeypatch, lambda: store.queries.move(nobody, Trigger.CANCEL, 1, now=NOW))
    (look,) = looks_at_jobs(steps)
    assert look == f"SEARCH job {BY_ID}"


def test_the_guards_would_see_a_missing_index(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path / "q.db", durability="off")
    engine.insert([new_job("job")], now=NOW)
    with engine.store.writing() as db:
        db.execute("DROP INDEX headrace_jobs_pending")
        db.execute("DROP INDEX headrace_jobs_due")
    assert walks_through(plan(engine, "claimable"), "headrace_jobs") == ["SCAN headrace_jobs"]
    assert SORTS in plan(engine, "claimable")
    assert walks_through(plan(engine, "claim_preamble"), "headrace_jobs") == [
        "SEARCH headrace_jobs",
        "SCAN headrace_jobs",
    ]
    engine.close()


def test_finished_jobs_are_told_in_the_order_of_their_index(store: SqliteEngine) -> None:
    def check(name: str) -> None:
        steps = plan(store, name)
        wanted = "USING INDEX headrace_jobs_finished (queue=? AND state=? AND finished_at"
        assert any(wanted in step for step in steps), steps
        assert SORTS not in steps

    check_each(["finished_oldest", "finished_newest"], check)
