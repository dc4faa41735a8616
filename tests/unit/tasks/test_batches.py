"""What a batch task looks like: a wrong one is refused where it is written, and a job is described by an item."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from headrace import ConfigError, Headrace, InvalidJob, PermanentError
from headrace.core.tasks.batches import result_of, results_of

app = Headrace("memory://")


@dataclass
class Row:
    number: int


def rows(rows: Sequence[Row]) -> list[Row | ValueError]:
    return list(rows)


def bare(items: Any) -> Any:
    return items


def single(item: int) -> None: ...


def two(items: list[int], more: int) -> None: ...


def spread(*items: int) -> None: ...


def without(items: list[int] = []) -> None: ...  # noqa: B006


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (single, "takes a list; annotate its parameter as list"),
        (two, "takes one parameter, the list of its jobs' arguments; it has items, more"),
        (spread, "takes one parameter"),
        (without, "'items' must have no default"),
    ],
)
def test_a_function_that_takes_no_list_is_refused(function: Callable[..., Any], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        app.task(name="odd", batch=2)(function)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"within": 1}, "within: it belongs to a batch"),
        ({"batch": 0}, "batch: expected a number of jobs from 1 to 1000, got 0"),
        ({"batch": 1001}, "batch: expected"),
        ({"batch": True}, "batch: expected"),
        ({"batch": 2, "within": 61}, "within: expected seconds"),
        ({"batch": 2, "isolation": "process"}, "isolation='process' and batch exclude each other"),
        ({"batch": 2, "keep_logs": True}, "keep_logs=True and batch exclude each other"),
        ({"batch": 2, "preemptible": True}, "preemptible=True and batch exclude each other"),
        ({"batch": 2, "interrupt": True}, "interrupt=True and batch exclude each other"),
        ({"batch": 2, "interrupt": 60}, "interrupt=True and batch exclude each other"),
    ],
)
def test_options_that_a_batch_can_not_have_are_refused(options: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        app.task(name="odd", **options)(bare)


def test_a_call_can_not_change_the_batch_nor_leave_it() -> None:
    task = app.task(name="rows", batch=2)(rows)
    for options in ({"batch": 3}, {"isolation": "process"}, {"preemptible": True}, {"within": 1}):
        with pytest.raises(InvalidJob, match="batch"):
            task.using(**options).enqueue(Row(1))


def test_an_argument_is_an_item_of_the_list() -> None:
    task = app.task(name="rows", batch=2)(rows)
    assert task.enqueue(Row(1)).args == ({"number": 1},)
    with pytest.raises(InvalidJob, match=r"rows\(\) argument 'rows': expected Row, got int 5"):
        task.enqueue(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidJob, match="misses the argument 'rows'"):
        task.enqueue()  # type: ignore[call-arg]
    assert app.task(name="bare", batch=2)(bare).enqueue([1]).args == ([1],)
    assert task([Row(1)]) == [Row(1)]


def test_the_result_of_a_job_is_an_item_without_the_exceptions() -> None:
    assert result_of(list[int | Exception]) is int
    assert result_of(list[int | str | OSError]) == int | str
    assert result_of(list[bytes]) is bytes
    assert result_of(None) is result_of(dict[str, int]) is Any


def test_results_are_one_for_each_job_or_none_at_all() -> None:
    assert results_of((1, 2), 2, "task") == [1, 2]
    assert results_of(None, 2, "task") == [None, None]
    for wrong in ([1], "ab", {1: 2, 3: 4}, 5, iter([1, 2])):
        with pytest.raises(PermanentError, match=r"task\(\) returned"):
            results_of(wrong, 2, "task")
