"""Group commit: callers share commits, no caller waits in vain, one bad item fails alone, an interrupt blocks none."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from headrace.engines.shared.group_commit import GroupCommit, flush_each
from headrace.errors import EngineUnavailable
from tests.support.waiting import PATIENCE


class Store:
    """Commits what it is given, and lets a test hold a commit open."""

    def __init__(self) -> None:
        self.commits: list[list[Any]] = []
        self.inside = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def flush(self, items: list[Any]) -> list[str]:
        self.inside.set()
        assert self.go_on.wait(PATIENCE)
        self.commits.append(items)
        return [f"stored {item}" for item in items]


def start(call: Callable[..., Any], *args: Any) -> Future[Any]:
    """Call it in a thread of its own, which outlives no test: a stranded one must fail the test, not hang the run."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(call(*args))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def queued(batch: GroupCommit[Any, Any], count: int) -> None:
    """Until so many callers wait behind the one that commits."""
    deadline = threading.Event()
    for _ in range(2000):
        leader = batch._leader  # on the list until it is served, unless it came while nobody waited
        if leader and len({leader, *batch._waiting}) == count + 1:
            return
        deadline.wait(0.01)
    raise AssertionError(f"{len(batch._waiting)} callers wait, not {count}")


def test_a_lone_caller_commits_at_once_and_gets_its_answer() -> None:
    store = Store()
    assert GroupCommit(store.flush).call(1) == "stored 1"
    assert store.commits == [[1]]


def test_callers_that_come_during_a_commit_share_the_next_one_in_their_order() -> None:
    store = Store()
    batch = GroupCommit(store.flush)
    store.go_on.clear()
    futures = [start(batch.call, 0)]
    assert store.inside.wait(PATIENCE)
    for number in range(1, 6):
        futures.append(start(batch.call, number))
        queued(batch, number)
    store.go_on.set()
    assert [future.result(PATIENCE) for future in futures] == [f"stored {n}" for n in range(6)]
    assert store.commits == [[0], [1, 2, 3, 4, 5]]


def test_under_load_everything_is_committed_once_and_answered_to_the_right_caller() -> None:
    store = Store()
    batch = GroupCommit(store.flush)
    together = threading.Barrier(16)

    def calls(first: int) -> list[str]:
        together.wait(PATIENCE)
        return [batch.call(number) for number in range(first, first + 200)]

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(calls, range(0, 3200, 200)))
    assert sorted(item for commit in store.commits for item in commit) == list(range(3200))
    assert answers == [[f"stored {n}" for n in range(first, first + 200)] for first in range(0, 3200, 200)]


def test_one_bad_item_fails_alone_and_its_companions_are_committed() -> None:
    store = Store()

    def picky(items: list[Any]) -> list[str]:
        if "bad" in items:
            store.inside.set()
            raise ValueError("bad item")
        return store.flush(items)

    batch: GroupCommit[Any, str] = GroupCommit(picky)
    store.go_on.clear()
    futures = [start(batch.call, "first")]
    assert store.inside.wait(PATIENCE)
    for count, item in enumerate(["a", "bad", "b"], 1):
        futures.append(start(batch.call, item))
        queued(batch, count)
    store.go_on.set()
    assert [futures[n].result(PATIENCE) for n in (0, 1, 3)] == ["stored first", "stored a", "stored b"]
    with pytest.raises(ValueError, match="bad item"):
        futures[2].result(PATIENCE)
    assert store.commits == [["first"], ["a"], ["b"]]


def test_the_error_of_a_lone_caller_is_raised_once_and_the_next_call_works() -> None:
    answers: Any = iter([ValueError("away"), ["stored"]])

    def flush(items: list[Any]) -> list[Any]:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    batch: GroupCommit[int, str] = GroupCommit(flush)
    with pytest.raises(ValueError, match="away"):
        batch.call(1)
    assert batch.call(2) == "stored"


def interrupted_group(
    flush: Callable[[list[Any]], list[Any]], store: Store
) -> tuple[GroupCommit[Any, Any], list[Future[Any]]]:
    """Three callers behind one that commits; the next commit is theirs together."""
    batch: GroupCommit[Any, Any] = GroupCommit(flush)
    store.go_on.clear()
    futures = [start(batch.call, "first")]
    assert store.inside.wait(PATIENCE)
    for count, item in enumerate(["a", "b", "c"], 1):
        futures.append(start(batch.call, item))
        queued(batch, count)
    store.go_on.set()
    return batch, futures[1:]


def test_an_interrupt_of_the_committing_caller_blocks_no_other() -> None:
    store = Store()

    def flush(items: list[Any]) -> list[Any]:
        if len(items) > 1:
            raise KeyboardInterrupt
        return store.flush(items)

    batch, futures = interrupted_group(flush, store)
    ends = [future.exception(PATIENCE) for future in futures]
    assert [isinstance(end, KeyboardInterrupt) for end in ends] == [True, True, False], "only the leader is interrupted"
    assert store.commits == [["first"], ["c"]]
    assert batch.call("later") == "stored later"


def test_an_interrupt_while_a_bad_group_is_tried_one_by_one_blocks_no_other() -> None:
    store = Store()

    def flush(items: list[Any]) -> list[Any]:
        if len(items) > 1:
            raise ValueError("one of them is bad")
        if items == ["b"]:
            raise KeyboardInterrupt
        return store.flush(items)

    batch, futures = interrupted_group(flush, store)
    ends = [future.exception(PATIENCE) for future in futures]
    assert all(end is None or isinstance(end, KeyboardInterrupt) for end in ends)
    assert isinstance(ends[1], KeyboardInterrupt)
    assert ["a"] in store.commits
    assert batch.call("later") == "stored later"


def test_a_store_that_answers_for_too_few_is_an_error_for_each_and_blocks_no_caller() -> None:
    batch: GroupCommit[int, int] = GroupCommit(lambda items: [])
    with pytest.raises(ValueError, match="not enough values"):
        batch.call(1)


def test_an_interrupt_of_one_that_waits_strands_neither_its_companions_nor_newcomers() -> None:
    """Only the main thread can be interrupted, so it is the one that waits."""
    store = Store()
    interrupted = threading.Event()
    futures: list[Future[Any]] = []

    def flush(items: list[Any]) -> list[str]:
        if items == ["first"]:
            queued(batch, 2)  # "second" and main wait behind it
        if "main" in items and not interrupted.is_set():
            futures.append(start(batch.call, "newcomer"))
            queued(batch, len(items))
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            assert interrupted.wait(PATIENCE)
        return store.flush(items)

    batch: GroupCommit[Any, str] = GroupCommit(flush)
    futures += [start(batch.call, "first")]
    queued(batch, 0)
    futures += [start(batch.call, "second")]
    queued(batch, 1)
    with pytest.raises(KeyboardInterrupt):
        batch.call("main")
    interrupted.set()
    assert [future.result(PATIENCE) for future in futures] == ["stored first", "stored second", "stored newcomer"]
    assert batch.call("later") == "stored later"


# -- a store that is away


def test_an_unavailable_store_is_called_once_for_all_and_each_caller_gets_the_error() -> None:
    """Were each item tried alone, an outage would last for the last one as often as there are callers."""
    batches: list[list[int]] = []

    def flush(items: list[int]) -> list[str]:
        batches.append(items)
        raise EngineUnavailable("away")

    answers = flush_each(flush, [1, 2, 3])
    assert batches == [[1, 2, 3]]
    errors = [answer.error for answer in answers]
    assert [str(error) for error in errors] == ["away"] * 3
    assert len(set(map(id, errors))) == 3


def test_a_store_that_fails_while_items_are_tried_alone_is_called_no_more() -> None:
    batches: list[list[int]] = []

    def flush(items: list[int]) -> list[str]:
        batches.append(items)
        if len(items) > 1:
            raise ValueError("one of them is bad")
        if items == [2]:
            raise EngineUnavailable("away")
        return ["stored"]

    answers = flush_each(flush, [1, 2, 3, 4])
    assert batches == [[1, 2, 3, 4], [1], [2]]
    assert answers[0].get() == "stored"
    assert all(isinstance(answer.error, EngineUnavailable) for answer in answers[1:])
