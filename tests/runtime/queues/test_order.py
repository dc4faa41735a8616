"""Jobs run in the declared order, never early, never more at once than allowed, and not at all while paused."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import Headrace, JobCancelled, current_job
from headrace.testing import VirtualClock, drain
from tests.support.gates import Gate, running, through
from tests.support.waiting import PATIENCE, eventually


class Peak:
    """How many were inside at once, at most."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = self.most = self.total = 0

    def __enter__(self) -> None:
        with self._lock:
            self._now += 1
            self.total += 1
            self.most = max(self.most, self._now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._now -= 1


def test_concurrency_is_a_true_bound_for_threads_and_coroutines_together(app: Headrace) -> None:
    peak = Peak()

    @app.task
    def threaded() -> None:
        with peak:
            threading.Event().wait(0.002)

    @app.task
    async def coroutine() -> None:
        with peak:
            await asyncio.sleep(0.002)

    jobs = app.enqueue_many([task.bind() for _ in range(150) for task in (threaded, coroutine)])
    with app.worker(concurrency=5):
        for job in jobs:
            assert job.wait(PATIENCE) == "completed"
    assert peak.total == 300
    assert peak.most == 5


def test_three_of_five_run_and_then_the_other_two(app: Headrace, kind: str) -> None:
    gates = [Gate() for _ in range(5)]
    tasks = [app.task(name=f"held-{n}")(through(kind, gate)) for n, gate in enumerate(gates)]
    with app.worker(concurrency=3) as worker:
        jobs = [task.enqueue() for task in tasks]
        for gate in gates[:3]:
            gate.wait_until_reached()
        assert running(worker) == 3
        assert [job.refresh().state for job in jobs] == ["running"] * 3 + ["pending"] * 2
        for gate in gates[:3]:
            gate.open()
        for gate in gates[3:]:
            gate.wait_until_reached()
            gate.open()
        assert [job.wait(PATIENCE) for job in jobs] == ["completed"] * 5


def test_coroutines_and_threads_do_not_starve_each_other_of_the_only_slot(app: Headrace) -> None:
    @app.task
    def threaded() -> str:
        return "thread"

    @app.task
    async def coroutine() -> str:
        return "async"

    with app.worker(concurrency=1):
        jobs = app.enqueue_many([task.bind() for _ in range(50) for task in (threaded, coroutine)])
        assert [job.result(PATIENCE) for job in jobs] == ["thread", "async"] * 50


def run_order(app: Headrace) -> list[str]:
    """The order in which a worker with one slot takes what is pending now."""
    order: list[str] = []
    done = threading.Event()

    @app.task(name="mark")
    def mark(name: str) -> None:
        order.append(name)
        if name == "end":
            done.set()

    mark.using(priority=-100).enqueue("end")
    with app.worker(concurrency=1):
        assert done.wait(PATIENCE)
    return order[:-1]


def test_higher_priority_first_and_first_come_first_served_within_one(app: Headrace) -> None:
    mark = app.task_by_name("mark")
    for name, priority in [("a", 0), ("b", 5), ("c", 0), ("d", 100), ("e", 5), ("f", -100), ("g", -99)]:
        mark.using(priority=priority).enqueue(name)
    assert run_order(app) == ["d", "b", "e", "a", "c", "g", "f"]


def test_lifo_jobs_go_before_the_older_ones() -> None:
    clock = VirtualClock()
    with Headrace("memory://", clock=clock) as app:
        order: list[str] = []

        @app.task
        def mark(name: str) -> None:
            order.append(name)

        calls: dict[str, dict[str, Any]] = {"a": {}, "b": {"lifo": True}, "c": {"lifo": True}, "d": {"priority": 1}}
        for name, options in calls.items():
            clock.advance(1)
            mark.using(**options).enqueue(name)
        drain(app)
        assert order == ["d", "c", "b", "a"]


def test_a_delayed_job_is_never_early_and_hardly_late(app: Headrace, kind: str) -> None:
    def started_at() -> datetime:
        return datetime.now(UTC)

    with app.worker(concurrency=4):
        task = app.task(started_at)
        jobs = [task.using(delay=n / 100).enqueue() for n in range(1, 21)]
        for job in jobs:
            assert job.state == "scheduled"
            began = job.result(PATIENCE)
            assert began >= job.run_at
            assert job.started_at is not None
            assert job.started_at >= job.run_at


def test_a_job_for_a_moment_runs_then(app: Headrace) -> None:
    moment = datetime.now(UTC) + timedelta(milliseconds=80)
    with app.worker():
        job = app.task(name="tell")(lambda: datetime.now(UTC)).using(run_at=moment).enqueue()
        assert job.result(PATIENCE) >= moment
        late = app.task_by_name("tell").using(run_at=datetime(2001, 1, 1, tzinfo=UTC)).enqueue()
        assert late.wait(PATIENCE) == "completed"


def test_a_delay_is_measured_by_the_apps_clock() -> None:
    clock = VirtualClock()
    with Headrace("memory://", clock=clock) as app:
        job = app.task(name="noop")(lambda: None).using(delay=60).enqueue()
        clock.advance(59.999)
        assert drain(app) == 0
        clock.advance(0.001)
        assert drain(app) == 1
        assert job.refresh().state == "completed"


def test_what_expires_before_it_starts_is_cancelled_and_never_runs() -> None:
    clock = VirtualClock()
    with Headrace("memory://", clock=clock) as app:
        ran = []
        task = app.task(name="soon")(lambda: ran.append(1))
        lapsed = task.using(expires=10).enqueue()
        kept = task.using(expires=11).enqueue()
        clock.advance(10)
        assert drain(app) == 1
        assert (lapsed.refresh().state, lapsed.reason, len(ran)) == ("cancelled", "expired", 1)
        assert kept.refresh().state == "completed"
        with pytest.raises(JobCancelled, match="expired"):
            lapsed.result(0)


def test_a_job_that_started_in_time_may_finish_after_it_would_have_expired(app: Headrace, kind: str) -> None:
    gate = Gate()
    with app.worker():
        job = app.task(name="held")(through(kind, gate)).using(expires=3600).enqueue()
        gate.wait_until_reached()
        assert app.engine.exchange([], None, now=10**14).claims == []
        gate.open()
        assert job.wait(PATIENCE) == "completed"


# -- pausing


def test_a_paused_worker_starts_nothing_and_what_runs_goes_on(app: Headrace, kind: str) -> None:
    gate = Gate()
    with app.worker(concurrency=2) as worker:
        running_job = app.task(name="held")(through(kind, gate, lambda: "done")).enqueue()
        gate.wait_until_reached()
        worker.pause()
        waiting = app.task(name="next")(lambda: "ran").enqueue()
        gate.open()
        assert running_job.result(PATIENCE) == "done"
        assert worker.describe().state == "paused"
        assert waiting.refresh().state == "pending"
        worker.resume()
        assert waiting.result(PATIENCE) == "ran"
        assert worker.describe().state == "running"


def test_an_operator_pauses_and_resumes_a_worker_from_elsewhere(app: Headrace) -> None:
    task = app.task(name="next")(lambda: "ran")
    with app.worker(heartbeat=25) as worker:
        assert app.pause_worker(worker.id)
        eventually(lambda: [info.state for info in app.workers()] == ["paused"], "the pause")
        job = task.enqueue()
        assert "is paused or stopping" in job.why()
        assert app.resume_worker(worker.id)
        assert job.result(PATIENCE) == "ran"
    assert app.pause_worker("nobody") is False


def test_an_operator_stops_a_worker_from_elsewhere(app: Headrace) -> None:
    worker = app.worker().start()
    assert app.stop_worker(worker.id)
    assert worker.join(PATIENCE)
    assert app.workers() == []


def test_a_paused_queue_keeps_its_jobs_and_the_others_go_on(app: Headrace) -> None:
    task = app.task(name="noop")(lambda: "ran")
    slow, fast = app.queue("slow"), app.queue("fast")
    slow.pause()
    with app.worker():
        held = task.using(queue="slow").enqueue()
        assert task.using(queue="fast").enqueue().result(PATIENCE) == "ran"
        assert (held.refresh().state, slow.length(), slow.paused, fast.paused) == ("pending", 1, True, False)
        assert held.why() == "Queue 'slow' is paused; resume it with `headrace queues resume slow`."
        slow.resume()
        assert held.result(PATIENCE) == "ran"


def test_a_worker_of_some_queues_leaves_the_others_alone(app: Headrace) -> None:
    task = app.task(name="noop")(lambda: current_job().queue)
    with app.worker(queues=["a", "b"]):
        jobs = [task.using(queue=queue).enqueue() for queue in "abab"]
        other = task.using(queue="c").enqueue()
        assert [job.result(PATIENCE) for job in jobs] == list("abab")
        assert other.refresh().state == "pending"
        assert "No live worker serves queue 'c'" in other.why()


def test_queues_are_served_by_weight(app: Headrace) -> None:
    order: list[str] = []
    task = app.task(name="mark")(lambda: order.append(current_job().queue))
    jobs = app.enqueue_many([task.using(queue=queue).bind() for queue in "ab" for _ in range(40)])
    with app.worker(queues={"a": 3, "b": 1}, concurrency=1, prefetch=0):
        for job in jobs:
            job.wait(PATIENCE)
    assert order[:40].count("a") == 30


def test_an_unknown_task_spends_no_attempt_and_why_says_so(app: Headrace) -> None:
    known = app.task(name="known")(lambda: 1)
    with app.worker():
        job = app.enqueue("reports.build", 7)
        assert known.enqueue().result(PATIENCE) == 1, "what is behind it in line is run"
        assert "knows task 'reports.build'; deploy one that registers it" in job.why()
        assert (job.refresh().state, job.attempt, job.errors) == ("pending", 0, [])
        app.task(name="reports.build")(lambda number: number * 6)
        assert job.result(30) == 42, "long before an idle worker looks by itself"
        assert job.attempt == 1


@pytest.mark.every_engine
def test_a_job_that_an_old_worker_does_not_know_is_taken_by_a_new_one_at_once(app: Headrace, url: str) -> None:
    """As in a rolling deploy: workers of both versions are alive, and both are woken for each job."""
    old = app.task(name="old")(lambda n: n)
    with Headrace(url) as newer, app.worker(concurrency=2) as ignorant:
        fresh, _ = newer.task(name="fresh")(lambda n: n), newer.task(name="old")(lambda n: n)
        first = fresh.enqueue(0)
        assert [old.enqueue(n).result(PATIENCE) for n in range(3)] == [0, 1, 2]
        assert first.refresh().state == "pending"
        with newer.worker(concurrency=2):
            assert first.result(PATIENCE) == 0, "a new worker gets it"
            jobs = [fresh.enqueue(n) for n in range(50)]
            assert [job.result(PATIENCE) for job in jobs] == list(range(50))
        claims = [entry.worker for job in (first, *jobs) for entry in job.history() if entry.event == "claim"]
        assert len(claims) == 51
        assert ignorant.id not in claims
