"""Which worker runs a job, and in what order: needs and capabilities, strategies, ageing, fair shares of queues."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import ConfigError, Headrace, InvalidJob, Job, Task, current_job
from tests.support.gates import SOON, Gate
from tests.support.waiting import PATIENCE, eventually


@pytest.fixture
def task(app: Headrace) -> Task[[], None, None]:
    return app.task(name="x")(lambda: None)


def ran_on(job: Job[Any]) -> str | None:
    assert job.wait(PATIENCE) == "completed"
    return job.refresh().worker


# -- needs


def test_only_a_worker_that_has_what_a_job_needs_runs_it(app: Headrace, task: Task[[], None, None]) -> None:
    gpu, europe = task.using(needs=("gpu",)), task.using(needs=["region:eu"])
    both = task.using(needs={"gpu", "region:eu"})
    with (
        app.worker(),
        app.worker(capabilities=["gpu"]) as first,
        app.worker(capabilities="region:eu") as second,
        app.worker(capabilities=("region:eu", "gpu")) as third,
    ):
        jobs = {
            name: app.enqueue_many([kind.bind() for _ in range(30)])
            for name, kind in {"gpu": gpu, "europe": europe, "both": both, "none": task}.items()
        }
        ran = {name: set(map(ran_on, several)) for name, several in jobs.items()}
    assert ran["gpu"] <= {first.id, third.id}
    assert ran["europe"] <= {second.id, third.id}
    assert ran["both"] == {third.id}
    assert len(ran["none"]) >= 1


def test_without_such_a_worker_a_job_waits_blocks_no_other_and_why_says_what_is_missing(
    app: Headrace, task: Task[[], None, None]
) -> None:
    picky = app.enqueue_many([task.using(needs=("gpu", "region:eu"), priority=100).bind() for _ in range(20)])
    with app.worker() as plain:
        assert ran_on(task.enqueue()) == plain.id
        assert picky[0].refresh().state == "pending"
        assert picky[0].why() == (
            "No live worker of queue 'default' has gpu, region:eu, which it needs; "
            "start one with `headrace worker -q default --needs gpu,region:eu`."
        )
        with app.worker(capabilities=["gpu"]):
            assert " has region:eu, which it needs; start one with " in picky[0].why()
            with app.worker(capabilities=["region:eu"]):
                assert " has all that it needs together (gpu, region:eu); start one with " in picky[0].why()
                with app.worker(capabilities=["gpu", "region:eu", "more"]) as able:
                    assert set(map(ran_on, picky)) == {able.id}


def test_a_worker_with_more_than_a_job_needs_that_is_paused_is_named_as_the_reason(
    app: Headrace, task: Task[[], None, None]
) -> None:
    with app.worker(), app.worker(capabilities=["gpu"]) as able:
        able.pause()
        eventually(lambda: "paused" in {worker.state for worker in app.workers()}, "the pause")
        job = task.using(needs=["gpu"]).enqueue()
        assert "that has what it needs is paused or stopping; resume one with" in job.why()
        able.resume()
        assert ran_on(job) == able.id


def test_the_slots_of_workers_that_lack_something_do_not_count(app: Headrace) -> None:
    gate = Gate()
    hold = app.task(name="hold", needs=["gpu"])(gate.pass_through)
    with app.worker(concurrency=4), app.worker(capabilities=["gpu"], concurrency=1, heartbeat=0.05):
        running, waiting = hold.enqueue(), hold.enqueue()
        gate.wait_until_reached()
        expected = "All 1 slots of queue 'default' are busy; 1 job is pending there."
        eventually(lambda: waiting.why() == expected, "the sentence")
        gate.open()
        assert [job.wait(PATIENCE) for job in (running, waiting)] == ["completed"] * 2


def test_workers_report_their_capabilities(app: Headrace) -> None:
    with app.worker(capabilities=("gpu", "region:eu")) as able, app.worker() as plain:
        expected = {worker.id: worker.capabilities for worker in app.workers()}
    assert expected == {able.id: ["gpu", "region:eu"], plain.id: []}


@pytest.mark.timed
@pytest.mark.parametrize("option", [{"needs": ["gpu"]}, {"rate_key": "ann"}, {"concurrency_key": "ann"}, {}])
def test_a_delayed_job_starts_when_it_is_due_whatever_it_waits_for_besides(
    app: Headrace, task: Task[[], None, None], option: dict[str, Any]
) -> None:
    late = []
    with app.worker(capabilities=["gpu"]):
        for _ in range(5):
            job = task.using(delay=0.03, **option).enqueue()
            assert job.wait(PATIENCE) == "completed"
            started_at = job.refresh().started_at
            assert started_at is not None
            late.append((started_at - job.run_at).total_seconds())
    assert min(late) >= 0
    assert min(late) < 0.25, "no worker woke up for it"


def test_a_call_takes_back_what_its_task_needs(app: Headrace) -> None:
    task = app.task(name="x", needs=["gpu"])(lambda: "ran")
    with app.worker():
        assert task.using(needs=()).enqueue().result(PATIENCE) == "ran"


def test_a_job_keeps_its_needs_when_it_is_retried_and_moved(app: Headrace) -> None:
    @app.task(needs=["gpu"], retry=SOON)
    def stumble() -> None:
        if current_job().attempt < 3:
            raise OSError("away")

    job = stumble.enqueue()
    assert job.update(queue="other", priority=5)
    with app.worker(), app.worker(), app.worker(capabilities=["gpu"]) as able:
        assert ran_on(job) == able.id
    assert {entry.worker for entry in job.history() if entry.event == "claim"} == {able.id}


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize("needs", ["gpu", b"gpu", 5, None, [""], [5], ["x" * 101], ["line\nbreak"], [["gpu"]]])
def test_what_is_no_list_of_needs_is_refused_by_name(app: Headrace, needs: Any) -> None:
    with pytest.raises(InvalidJob, match=r"^needs: expected a list of words"):
        app.task(name="x")(lambda: None).using(needs=needs).enqueue()
    with pytest.raises(ConfigError, match=r"@app\.task: needs: expected a list of words"):
        app.task(name="y", needs=needs)(lambda: None)
    assert app.jobs.count() == 0


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("capabilities", 5),
        ("capabilities", ["gpu", 5]),
        ("strategy", "random"),
        ("strategy", 5),
        ("queue_order", "priority"),
        ("queue_order", ""),
    ],
)
def test_a_wrong_setting_of_a_worker_is_refused_by_name(app: Headrace, name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: "):
        app.worker(**{name: value})


# -- the order inside a queue

CALLS = {"a": 0, "b": 5, "c": 0, "d": -5, "e": 5}
ORDERS = {"priority": "beacd", "fifo": "abcde", "lifo": "edcba"}


def order_of(app: Headrace, calls: Iterable[tuple[str, dict[str, Any]]], **worker: Any) -> str:
    """The order in which a worker with one slot runs these calls, which are all there when it begins."""
    order: list[str] = []
    mark = app.task(name="mark")(order.append)
    jobs = app.enqueue_many([mark.using(**options).bind(name) for name, options in calls])
    with app.worker(concurrency=1, **worker):
        assert [job.wait(PATIENCE) for job in jobs] == ["completed"] * len(jobs)
    return "".join(order)


def by_priority() -> Iterable[tuple[str, dict[str, Any]]]:
    return ((name, {"priority": priority}) for name, priority in CALLS.items())


@pytest.mark.parametrize("strategy", ORDERS)
def test_a_queue_runs_in_the_order_of_its_rule(app: Headrace, strategy: str) -> None:
    app.queue("default").configure(strategy=strategy)
    assert order_of(app, by_priority()) == ORDERS[strategy]


@pytest.mark.parametrize("strategy", ORDERS)
def test_a_worker_runs_in_the_order_of_its_setting_whatever_the_rule(app: Headrace, strategy: str) -> None:
    app.queue("default").configure(strategy="fifo" if strategy == "lifo" else "lifo")
    assert order_of(app, by_priority(), strategy=strategy) == ORDERS[strategy]


@pytest.mark.parametrize("where", ["rule", "setting"])
def test_by_chance_everything_runs_and_the_urgent_ones_mostly_first(app: Headrace, where: str) -> None:
    settings = {"strategy": "weighted_random"}
    if where == "rule":
        app.queue("default").configure(**settings)
        settings = {}
    calls = [(name, {"priority": priority}) for name, priority in (("u", 20), ("l", -20)) for _ in range(50)]
    order = order_of(app, calls, **settings)
    assert (order.count("u"), order.count("l")) == (50, 50)
    assert order[:25].count("u") >= 20  # each of them is drawn with a chance of 9999 in 10000


def test_a_strategy_is_changed_under_a_running_worker(app: Headrace) -> None:
    gate, order = Gate(), list[str]()
    hold, mark = app.task(name="hold")(gate.pass_through), app.task(name="mark")(order.append)
    with app.worker(concurrency=1, prefetch=0):
        hold.enqueue()
        gate.wait_until_reached()
        jobs = app.enqueue_many([mark.using(priority=priority).bind(name) for name, priority in CALLS.items()])
        app.queue("default").configure(strategy="lifo")
        gate.open()
        assert [job.wait(PATIENCE) for job in jobs] == ["completed"] * 5
    assert "".join(order) == ORDERS["lifo"]


@pytest.mark.parametrize(("priority", "order"), [(50, "on"), (70, "no")])
def test_with_ageing_waiting_counts_as_priority(app: Headrace, priority: int, order: str) -> None:
    app.queue("default").configure(ageing=60)
    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
    assert order_of(app, [("n", {"priority": priority}), ("o", {"run_at": an_hour_ago})]) == order


def test_without_ageing_it_does_not(app: Headrace) -> None:
    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
    assert order_of(app, [("n", {"priority": 1}), ("o", {"run_at": an_hour_ago})]) == "no"


# -- turns among queues


def in_queues(queues: str, jobs: int) -> list[tuple[str, dict[str, Any]]]:
    return [(queue, {"queue": queue}) for queue in queues for _ in range(jobs)]


def test_queues_are_served_strictly_in_the_order_they_are_named(app: Headrace) -> None:
    app.queue("a").configure(weight=100)
    order = order_of(app, in_queues("abc", 10), queues=["c", "a", "b"], queue_order="strict", prefetch=0)
    assert order == "c" * 10 + "a" * 10 + "b" * 10


def test_at_random_every_queue_has_its_turns_and_the_heavier_one_more(app: Headrace) -> None:
    order = order_of(app, in_queues("ab", 100), queues={"a": 9, "b": 1}, queue_order="random", prefetch=0)
    assert order[:50].count("a") >= 33  # 45 are to be expected, with a standard deviation of 2
    assert order.count("b") == 100


@pytest.mark.parametrize("queues", [None, {"a": 1, "b": 1}], ids=["all", "named"])
def test_a_rule_of_the_queue_weighs_in_every_worker(app: Headrace, queues: dict[str, int] | None) -> None:
    app.queue("a").configure(weight=3)
    order = order_of(app, in_queues("ab", 40), queues=queues, prefetch=0)
    assert 28 <= order[:40].count("a") <= 32


def test_a_weight_takes_effect_in_a_running_worker_and_is_lifted_again(app: Headrace) -> None:
    order: list[str] = []
    mark = app.task(name="mark")(order.append)
    app.enqueue_many([mark.using(queue=queue).bind(queue) for queue in "ab" for _ in range(1500)])
    with app.worker(concurrency=1, queues={"a": 1, "b": 1}, prefetch=0):
        eventually(lambda: len(order) >= 50, "some turns")
        app.queue("b").configure(weight=9)
        changed = len(order)
        eventually(lambda: len(order) >= changed + 200, "some turns by the rule")
        app.queue("b").configure(weight=None)
        lifted = len(order)
        eventually(lambda: len(order) >= lifted + 200, "some turns without it")
        app.jobs.cancel(state="pending")
    before, between = order[:50], order[changed + 20 : changed + 120]
    after = order[lifted + 50 : lifted + 150]
    assert abs(before.count("b") - 25) <= 5
    assert between.count("b") >= 80
    assert abs(after.count("b") - 50) <= 15
