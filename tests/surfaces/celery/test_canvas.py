"""Celery's canvas runs as flows: chains, groups, chords, callbacks and errbacks, enqueued and eager alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace import Headrace
from headrace.contrib.celery import Celery, CeleryError, Task, chain, chord, group, signature
from headrace.testing import drain

Result = Any


class Shop:
    """An app with some tasks; `value` runs a canvas and returns its result."""

    def __init__(self, app: Celery) -> None:
        self.app = app
        self.ran: list[Any] = []
        self.add = app.task(name="add")(self._add)
        self.total = app.task(name="total")(sum_of)
        self.note = app.task(name="note", ignore_result=True)(self._note)
        self.fail = app.task(name="fail", max_retries=0)(fail)
        self.errback = app.task(name="errback")(self._errback)
        self.errback_id = app.task(name="errback_id")(self._errback_id)

    def _add(self, a: int, b: int = 0) -> int:
        return a + b

    def _note(self, value: Any = "nothing") -> Any:
        self.ran.append(value)
        return value

    def _errback(self, request: Any, error: Any, traceback: Any, tag: str = "") -> None:
        self.ran.append((request.task, type(error).__name__, "RuntimeError" in traceback, tag))

    def _errback_id(self, job_id: str) -> None:
        self.ran.append(job_id)

    def value(self, part: Any, **options: Any) -> Any:
        result = part.apply_async(**options)
        drain(self.app.headrace)
        return result.get(timeout=1)


def sum_of(numbers: list[Any], more: int = 0) -> int:
    return sum(numbers) + more


def fail(*args: Any) -> None:
    raise RuntimeError("no")


@pytest.fixture(params=["stored", "eager"])
def shop(request: pytest.FixtureRequest) -> Iterator[Shop]:
    with Headrace("memory://") as headrace:
        app = Celery.from_headrace(headrace)
        app.conf.task_always_eager = request.param == "eager"
        yield Shop(app)
        assert not app.conf.task_always_eager or headrace.jobs.count() == 0


def test_a_chain_hands_each_result_on(shop: Shop) -> None:
    add = shop.add
    assert shop.value(chain(add.s(1, 2), add.s(3), add.s(b=4))) == 10
    assert shop.value(add.s(1, 2) | add.s(3) | add.s(4)) == 10
    assert shop.value(chain([add.s(2), add.s(3)]), args=(5,)) == 10
    assert shop.value((add.s(1, 2) | add.s(3)) | (add.s(4) | add.s(5))) == 15


def test_an_immutable_signature_takes_no_result(shop: Shop) -> None:
    assert shop.value(chain(shop.add.s(1, 2), shop.note.si(), shop.add.si(5, 5), shop.add.s(1))) == 11
    assert shop.ran == ["nothing"]
    assert shop.value(shop.add.signature((1, 2), immutable=True), args=(9,)) == 3


def test_a_group_returns_its_results_in_order(shop: Shop) -> None:
    result = group(shop.add.s(n, n) for n in range(3)).apply_async()
    drain(shop.app.headrace)
    assert result.get(timeout=1) == [0, 2, 4]
    assert (len(result), result.ready(), result.successful(), result.failed()) == (3, True, True, False)
    assert (result.completed_count(), [one.get(1) for one in result], result[1].get(1)) == (3, [0, 2, 4], 2)
    assert shop.value(group(shop.add.s(1), shop.add.s(2)), args=(10,)) == [11, 12]


def test_a_chord_calls_its_body_with_the_list(shop: Shop) -> None:
    header = [shop.add.s(n, n) for n in range(3)]
    assert shop.value(chord(header, shop.total.s())) == 6
    assert shop.value(chord(header, shop.total.s(more=4))) == 10
    assert shop.value(group(header) | shop.total.s()) == 6
    assert shop.value(shop.add.s(1, 1) | group(shop.add.s(1), shop.add.s(2)) | shop.total.s() | shop.add.s(3)) == 10
    result = chord(header)(shop.total.s())
    drain(shop.app.headrace)
    assert result.get(1) == 6


def test_a_chord_of_nothing_calls_its_body_with_an_empty_list(shop: Shop) -> None:
    assert shop.value(chord([], shop.total.s())) == 0
    assert shop.value(group() | shop.total.s(more=2)) == 2
    assert shop.value(group()) == []
    assert shop.value(chain(shop.add.s(1, 2), group(), shop.total.s(more=1))) == 1


def test_a_task_without_a_stored_result_feeds_the_next_one(shop: Shop) -> None:
    assert shop.value(chain(shop.note.s(4), shop.add.s(5))) == 9


def test_a_failure_ends_the_chain_and_is_raised_by_get(shop: Shop) -> None:
    result = (shop.add.s(1, 2) | shop.fail.s() | shop.add.s(3)).apply_async()
    drain(shop.app.headrace)
    assert (result.state, result.failed(), type(result.result)) == ("FAILURE", True, RuntimeError)
    with pytest.raises(RuntimeError, match="no"):
        result.get(timeout=1)


def test_a_failed_header_means_a_failed_chord(shop: Shop) -> None:
    result = chord([shop.add.s(1), shop.fail.s()], shop.note.s()).apply_async()
    drain(shop.app.headrace)
    assert (result.state, shop.ran) == ("FAILURE", [])


def test_link_calls_back_with_the_result(shop: Shop) -> None:
    assert shop.value(shop.add.s(1, 2), link=shop.note.s()) == 3
    assert shop.value(shop.add.s(1, 2), link=[shop.note.s(), shop.note.si("fixed")]) == 3
    part = shop.add.s(5, 5)
    part.link(shop.note.s())
    assert shop.value(part) == 10
    assert sorted(map(str, shop.ran)) == ["10", "3", "3", "fixed"]


def test_a_signature_can_be_made_by_name_copied_and_called(shop: Shop) -> None:
    assert shop.value(signature("add", args=(1, 2))) == 3
    assert shop.value(shop.app.signature("add", (1,), kwargs={"b": 4})) == 5
    part = shop.add.s(2).set(priority=3)
    assert (part(1), part.clone((4,))(), repr(part), part.options) == (3, 6, "add(2)", {"priority": 3})


# -- what only a store shows


@pytest.fixture
def stored() -> Iterator[Shop]:
    with Headrace("memory://") as headrace:
        yield Shop(Celery.from_headrace(headrace))


def test_an_errback_is_called_if_its_task_failed_and_only_then(stored: Shop) -> None:
    failed = stored.fail.apply_async(link_error=stored.errback.s(tag="x"))
    stored.fail.s().on_error(stored.errback_id.s()).delay()
    stored.add.apply_async((1, 2), link_error=stored.errback.s(tag="never"))
    drain(stored.app.headrace)
    ids = [job.id for job in stored.app.headrace.jobs.find(task="fail", limit=9).jobs]
    assert stored.ran[0] == ("fail", "RuntimeError", True, "x")
    assert (len(stored.ran), stored.ran[1] in ids) == (2, True)
    assert failed.state == "FAILURE"


def test_the_errback_of_a_chain_is_called_once_with_the_task_that_failed(stored: Shop) -> None:
    chain(stored.add.s(1), stored.fail.s(), stored.add.s(1)).on_error(stored.errback.s()).apply_async()
    group(stored.fail.s(), stored.add.s(1)).on_error(stored.errback.s(tag="group")).apply_async()
    drain(stored.app.headrace)
    assert sorted(stored.ran) == [("fail", "RuntimeError", True, ""), ("fail", "RuntimeError", True, "group")]


def test_a_canvas_is_one_flow_stored_in_one_commit(stored: Shop) -> None:
    result = chain(stored.add.s(1, 2), stored.add.s(3)).apply_async(countdown=60)
    [flow] = stored.app.headrace.flows.list()
    assert [job.state for job in flow.jobs] == ["scheduled", "waiting"]
    assert result.parent.id == flow.jobs[0].id
    assert result.id == flow.jobs[1].id
    chord([stored.add.s(1)], stored.total.s()).apply_async(queue="sums", countdown=60)
    newest = stored.app.headrace.flows.list()[0]
    assert [(job.queue, job.state) for job in newest.jobs] == [("default", "scheduled"), ("sums", "waiting")]


def test_eager_errors_are_raised_if_the_app_says_so(stored: Shop) -> None:
    stored.app.conf.update(task_always_eager=True, task_eager_propagates=True)
    with pytest.raises(RuntimeError, match="no"):
        stored.fail.delay()


def test_an_eager_task_retries_at_once(stored: Shop) -> None:
    seen: list[Any] = []

    @stored.app.task(bind=True, max_retries=2)
    def again(self: Task) -> str:
        seen.append((self.request.retries, self.request.is_eager))
        if self.request.retries < 2:
            self.update_state(meta={"n": 1})
            raise self.retry(countdown=3600)
        return "done"

    assert again.apply().get() == "done"
    assert seen == [(0, True), (1, True), (2, True)]
    assert stored.app.headrace.jobs.count() == 0


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda shop: chain(), "chain: it is empty"),
        (lambda shop: chain(shop.add), "give a signature of it, such as add.s()"),
        (lambda shop: group(1, 2), "expected signatures such as add.s"),
        (lambda shop: shop.add.s(1) | 5, "expected signatures"),
        (lambda shop: chain(shop.add.headrace_task.bind(1)), "headrace's own"),
        (lambda shop: chord([shop.add.s(1)]).apply_async(), "it has no body"),
    ],
)
def test_wrong_parts_are_refused(stored: Shop, make: Any, told: str) -> None:
    with pytest.raises(CeleryError, match=told):
        make(stored)


def test_errbacks_run_in_eager_mode_too(shop: Shop) -> None:
    for part in (
        shop.fail.s().on_error(shop.errback.s(tag="one")),
        chain(shop.add.s(1, 2), shop.fail.s()).on_error(shop.errback.s(tag="chain")),
        group([shop.fail.s()]).on_error(shop.errback.s(tag="group")),
        chord([shop.fail.s()], shop.total.s()).on_error(shop.errback.s(tag="chord")),
    ):
        with pytest.raises(RuntimeError, match="no"):
            shop.value(part)
    assert shop.ran == [("fail", "RuntimeError", True, tag) for tag in ("one", "chain", "group", "chord")]


def test_a_group_is_found_again_by_its_id() -> None:
    with Headrace("memory://") as headrace:
        shop = Shop(Celery.from_headrace(headrace))
        made = group([chain(shop.add.s(1, 1), shop.add.s(3)), shop.add.s(2, 2).on_error(shop.errback_id.s())])()
        drain(headrace)
        found = shop.app.GroupResult.restore(made.save().id)
        assert found is not None
        assert (found.join_native(timeout=1), [result.id for result in found]) == ([5, 4], [one.id for one in made])
        assert [answer["result"] for _, answer in found.iter_native()] == [5, 4]
        assert shop.app.GroupResult.restore("nothing") is None
