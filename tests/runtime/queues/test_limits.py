"""Limits as users meet them: real workers never go over one, lose little to it, and follow a change at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any, TypeVar

import pytest

from headrace import ConfigError, Headrace, InvalidJob, Job
from headrace.core.jobs.queue_rules import TaskRules
from tests.support.gates import Gate
from tests.support.waiting import PATIENCE, eventually

T = TypeVar("T")
A_SECOND = 1000


@pytest.fixture
def start_three(app: Headrace) -> Iterator[Callable[[], None]]:
    """Starts three workers with four slots each; they report the tasks that are registered by then."""
    with ExitStack() as workers:

        def start() -> None:
            for _ in range(3):
                workers.enter_context(app.worker(concurrency=4))

        yield start


def starts(app: Headrace, **which: Any) -> list[int]:
    """When jobs were started, by the store's own time in milliseconds."""
    found = app.jobs.find(limit=10_000, **which)
    return sorted(job.row.started_at for job in found if job.row.started_at is not None)


def completed(app: Headrace, **which: Any) -> int:
    return app.jobs.count(state="completed", **which)


def all_done(jobs: list[Job[Any]]) -> bool:
    return [job.wait(PATIENCE) for job in jobs] == ["completed"] * len(jobs)


def awaited(what: Awaitable[T]) -> T:
    async def wait() -> T:
        return await what

    return asyncio.run(wait())


class Crowd:
    """The jobs that run at once, by name; each runs until the gate is opened."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gate = threading.Event()
        self.inside: list[str] = []
        self.most: dict[str, int] = {}

    def stay(self, name: str) -> None:
        with self._lock:
            self.inside.append(name)
            self.most[name] = max(self.most.get(name, 0), self.inside.count(name))
            self.most["*"] = max(self.most.get("*", 0), len(self.inside))
        assert self._gate.wait(PATIENCE), "the test never opened the door"
        with self._lock:
            self.inside.remove(name)

    def open(self) -> None:
        self._gate.set()

    def gathers(self, **names: int) -> None:
        """Wait until exactly so many of each name are inside."""
        eventually(lambda: {name: self.inside.count(name) for name in {*self.inside, *names}} == names, f"{names}")


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    crowd = Crowd()
    yield crowd
    crowd.open()


# -- rates


@pytest.mark.timed
def test_a_rate_is_kept_by_three_workers_and_its_end_lets_the_rest_run_at_once(
    app: Headrace, start_three: Callable[[], None]
) -> None:
    rate, burst, under_it, rest = 100, 40, 240, 400
    task = app.task(name="tick")(lambda: None)
    queue = app.queue("default")
    queue.configure(rate=f"{rate}/s", burst=burst)
    start_three()
    jobs = app.enqueue_many([task.bind() for _ in range(under_it + rest)])
    eventually(lambda: completed(app) >= under_it, "the jobs under the rate")
    times = starts(app)  # read now: a claim that is on its way starts its jobs when it set out, and may find no rule
    lifted = app.clock.now()
    queue.configure(rate=None)
    assert all_done(jobs)

    assert starts(app)[-1] - lifted < 0.75 * A_SECOND * rest / rate, "what was held back took as long as under the rate"
    for first, earlier in enumerate(times):
        for number, later in enumerate(times[first:], 1):
            # One more for the millisecond to which times are cut.
            assert number <= burst + rate * (later - earlier) / 1000 + 1, "more than the rate allows"
    fair = burst + rate * (times[-1] - times[0]) / 1000
    assert len(times) >= 0.5 * fair, "the rate was not made use of"  # on a machine that stalls, tokens are lost


@pytest.mark.timed
def test_a_rule_takes_effect_in_running_workers_within_a_second(app: Headrace, start_three: Callable[[], None]) -> None:
    task = app.task(name="nap")(lambda: threading.Event().wait(0.01))
    start_three()
    jobs = app.enqueue_many([task.bind() for _ in range(3000)])
    eventually(lambda: completed(app) >= 50, "some jobs before the rule")
    given = app.clock.now()
    app.queue("default").configure(rate="1/h", burst=1)
    eventually(lambda: app.clock.now() > given + A_SECOND and not app.jobs.count(state="running"), "the standstill")
    late = [time for time in starts(app) if time > given + A_SECOND]
    assert late == []
    assert app.jobs.count(state="pending") > 0
    assert jobs[-1].why().startswith("It waits its turn: queue 'default' starts 1/h, the next one in ")
    app.queue("default").configure(concurrency=2, rate=None)
    eventually(lambda: completed(app) >= 100, "some more under another rule")
    app.queue("default").configure(concurrency=None)
    app.jobs.cancel(state="pending")


def test_each_rate_key_has_a_rate_of_its_own_and_the_others_pass(
    app: Headrace, start_three: Callable[[], None]
) -> None:
    task = app.task(name="call")(lambda: None)
    start_three()
    queue = app.queue("default")
    queue.configure(key_rate="1/h", key_burst=2)
    keyed = {name: [task.using(rate_key=name).bind() for _ in range(5)] for name in ("ann", "bob")}
    jobs = app.enqueue_many([call for calls in keyed.values() for call in calls])
    free = app.enqueue_many([task.bind() for _ in range(20)])
    assert all_done(free)
    eventually(lambda: completed(app) == 24, "two of each key")
    waiting = [job for job in jobs if job.refresh().state == "pending"]
    assert len(waiting) == 6
    why = waiting[0].why()
    assert why.startswith("It waits its turn: rate key 'ann' starts 1/h, the next one in ")
    assert why.endswith("; 6 jobs are pending in queue 'default'.")
    queue.configure(key_rate=None)
    assert all_done(jobs)


# -- concurrency


def test_no_more_run_at_once_than_the_queue_allows_and_why_says_so(
    app: Headrace, start_three: Callable[[], None], crowd: Crowd
) -> None:
    task = app.task(name="stay")(crowd.stay)
    start_three()
    app.queue("slow").configure(concurrency=3)
    held = app.enqueue_many([task.using(queue="slow").bind("slow") for _ in range(20)])
    crowd.gathers(slow=3)
    other = task.enqueue("other")
    crowd.gathers(slow=3, other=1)
    assert held[-1].why() == "Queue 'slow' may run 3 jobs at the same time, and 3 run now."
    app.queue("slow").configure(concurrency=5)
    crowd.gathers(slow=5, other=1)
    crowd.open()
    assert all_done([*held, other])
    assert crowd.most["slow"] <= 5


def test_of_a_concurrency_key_one_runs_at_a_time_in_order_and_others_pass(
    app: Headrace, start_three: Callable[[], None], crowd: Crowd
) -> None:
    order: list[int] = []

    @app.task(concurrency_key="account-7")
    def book(number: int) -> None:
        order.append(number)
        crowd.stay("account-7")

    stay = app.task(name="stay")(crowd.stay)
    start_three()
    first = app.enqueue_many([book.bind(number) for number in range(6)])
    elsewhere = book.using(queue="elsewhere").enqueue(6)
    others = [stay.using(concurrency_key="account-8").enqueue("account-8"), stay.enqueue("free")]
    crowd.gathers(**{"account-7": 1, "account-8": 1, "free": 1})
    expected = "Concurrency key 'account-7' may run 1 job at the same time, and 1 runs now."
    assert first[-1].why() == elsewhere.why() == expected
    crowd.open()
    assert all_done([*first, elsewhere, *others])
    assert crowd.most["account-7"] == 1
    assert [number for number in order if number < 6] == list(range(6))


def test_a_queue_may_let_more_of_each_key_run(app: Headrace, start_three: Callable[[], None], crowd: Crowd) -> None:
    app.queue("default").configure(key_concurrency=2)
    stay = app.task(name="stay")(crowd.stay)
    start_three()
    jobs = app.enqueue_many([stay.using(concurrency_key=key).bind(key) for key in "aaaabbbb"])
    crowd.gathers(a=2, b=2)
    assert jobs[-1].why() == "Concurrency key 'b' may run 2 jobs at the same time, and 2 run now."
    crowd.open()
    assert all_done(jobs)
    assert crowd.most["a"] == crowd.most["b"] == 2


# -- fair shares


@pytest.mark.parametrize("option", ["rate_key", "concurrency_key"])
def test_a_tenant_with_five_hundred_jobs_does_not_hold_up_another_with_five(app: Headrace, option: str) -> None:
    app.queue("default").configure(key_concurrency=4)
    task = app.task(name="serve")(lambda: threading.Event().wait(0.004))

    def calls(tenant: str, jobs: int) -> list[Any]:
        key: Any = {option: tenant}
        return [task.using(tags=[tenant], **key).bind() for _ in range(jobs)]

    with app.worker(concurrency=2):
        app.enqueue_many(calls("large", 500))
        eventually(lambda: completed(app) >= 20, "some of the large tenant's jobs")
        small = app.enqueue_many(calls("small", 5))
        before = completed(app, tag="large")
        assert all_done(small)
        passed = completed(app, tag="large") - before
        app.jobs.cancel(state="pending")
    assert passed < 100, "the small tenant waited for the large one"


# -- tasks


def test_a_paused_task_waits_and_what_is_behind_its_jobs_does_not(
    app: Headrace, start_three: Callable[[], None]
) -> None:
    mail, other = app.task(name="mail")(lambda: "sent"), app.task(name="other")(lambda: None)
    start_three()
    app.pause_task("mail")
    assert app.task_rules() == {"mail": TaskRules(paused=True)}
    held = app.enqueue_many([mail.using(priority=50).bind() for _ in range(100)])
    elsewhere = mail.using(queue="elsewhere").enqueue()
    assert all_done(app.enqueue_many([other.bind() for _ in range(20)]))
    assert [job.refresh().state for job in (held[0], elsewhere)] == ["pending"] * 2
    assert held[0].why() == "Task 'mail' is paused; resume it with `headrace tasks resume mail`."
    app.resume_task("mail")
    assert all_done([*held, elsewhere])
    assert app.task_rules() == {}


def test_a_task_is_paused_under_running_workers_and_what_runs_goes_on(
    app: Headrace, start_three: Callable[[], None]
) -> None:
    gate = Gate()

    @app.task
    def hold() -> str:
        gate.pass_through()
        return "went on"

    start_three()
    running = hold.enqueue()
    gate.wait_until_reached()
    awaited(app.apause_task("hold"))
    later = hold.enqueue()
    gate.open()
    assert running.result(PATIENCE) == "went on"
    assert later.refresh().state == "pending"
    awaited(app.aresume_task("hold"))
    assert later.result(PATIENCE) == "went on"


def test_a_task_runs_so_often_at_once_over_all_queues(
    app: Headrace, start_three: Callable[[], None], crowd: Crowd
) -> None:
    stay = app.task(name="stay")(crowd.stay)
    start_three()
    assert app.configure_task("stay", concurrency=2) == TaskRules(concurrency=2)
    jobs = app.enqueue_many([stay.using(queue=queue).bind("all") for queue in "abcabc"])
    crowd.gathers(all=2)
    waiting = next(job for job in jobs if job.refresh().state == "pending")
    assert waiting.why() == "Task 'stay' may run 2 jobs at the same time, and 2 run now."
    app.configure_task("stay", concurrency=4)
    crowd.gathers(all=4)
    crowd.open()
    assert all_done(jobs)
    assert crowd.most["all"] == 4


def test_a_task_has_a_rate_over_all_queues_and_other_tasks_do_not(
    app: Headrace, start_three: Callable[[], None]
) -> None:
    ran = count(1)
    tick, other = app.task(name="tick")(lambda: next(ran)), app.task(name="other")(lambda: None)
    start_three()
    app.configure_task("tick", rate="1/h", burst=3)
    jobs = app.enqueue_many([tick.using(queue=queue).bind() for queue in "abcabc"])
    assert all_done(app.enqueue_many([other.using(queue=queue).bind() for queue in "abc"]))
    eventually(lambda: completed(app, task="tick") == 3, "the burst")
    waiting = next(job for job in jobs if job.refresh().state == "pending")
    assert waiting.why().startswith("It waits its turn: task 'tick' starts 1/h, the next one in ")
    awaited(app.aconfigure_task("tick", rate=None))
    assert all_done(jobs)
    assert next(ran) == 7


# -- what is refused


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize("option", ["rate_key", "concurrency_key"])
@pytest.mark.parametrize("value", [5, "", ("ann",), "x" * 101, "line\nbreak", b"ann", True])
def test_what_is_no_key_is_refused_by_name_before_anything_is_stored(app: Headrace, option: str, value: Any) -> None:
    task = app.task(name="x")(lambda: None)
    with pytest.raises(InvalidJob, match=f"^{option}: expected a name of 1 to 100 characters"):
        task.using(**{option: value}).enqueue()
    with pytest.raises(ConfigError, match=f"@app.task: {option}: expected a name"):
        app.task(name="y", **{option: value})(lambda: None)
    assert app.jobs.count() == 0


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize(
    "call",
    [
        lambda app: app.configure_task("x"),
        lambda app: app.configure_task("x", weight=3),
        lambda app: app.configure_task("x", rate="often"),
        lambda app: app.configure_task("x", burst=3),
        lambda app: app.configure_task("two words", concurrency=1),
        lambda app: app.pause_task(""),
        lambda app: app.pause_task(5),
        lambda app: app.queue("q").configure(rate="often"),
        lambda app: app.queue("q").configure(key_burst=3),
    ],
)
def test_a_wrong_rule_is_refused_and_changes_nothing(app: Headrace, call: Callable[[Headrace], object]) -> None:
    with pytest.raises(InvalidJob):
        call(app)
    assert (app.task_rules(), app.queues()) == ({}, [])
