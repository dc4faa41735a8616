"""`app.metrics`: what users read of their jobs, on every engine, and over days with a clock that is moved."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from headrace import ConfigError, Headrace, InvalidJob, Lifecycle, Retry, current_job
from headrace.core.events.log import EventGroup
from headrace.core.metrics.buckets import MARKS
from headrace.runtime.metrics.collector import MetricsCollector
from headrace.runtime.retention.staleness import StaleCheck
from headrace.testing import VirtualClock
from tests.support.waiting import eventually

START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
def still(clock: VirtualClock) -> Iterator[Headrace]:
    """An app on which time stands still until it is moved."""
    with Headrace("memory://", clock=clock) as app:
        yield app


def append(app: Headrace, type_: str, count: int = 1, queue: str = "mail", task: str = "send", **more: Any) -> None:
    """As if jobs had just done so."""
    jobs = [f"j{number}" for number in range(count)]
    columns: dict[str, Any] = {name: values * count for name, values in more.items()}
    app.engine.events.append([EventGroup(type_, app.clock.now(), queue, task, jobs=jobs, **columns)])


def test_what_jobs_did_is_in_the_figures_at_once(app: Headrace) -> None:
    @app.task(queue="mail")
    def send(fails: bool) -> None:
        if fails:
            raise ValueError("no such address")

    with app.worker() as worker:
        jobs = [send.enqueue(number % 4 == 0) for number in range(20)]
        eventually(lambda: all(job.refresh().state in ("completed", "failed") for job in jobs), "the end of all")
        expected = {"started": 20, "completed": 15, "errors": 5}
        eventually(lambda: all(app.metrics.value(name) == count for name, count in expected.items()), "all are emitted")
        name = worker.id
    found = app.metrics.snapshot()
    assert (found.total.enqueued, found.total.completed, found.total.failed, found.total.errors) == (20, 15, 5, 5)
    assert found.total.error_rate == 0.25
    [queue] = found.queues
    assert (queue.queue, queue.figures) == ("mail", found.total)
    [task] = found.tasks
    assert (task.task.endswith("send"), task.figures) == (True, found.total)
    [of_worker] = found.workers
    assert (of_worker.worker, of_worker.figures.completed) == (name, 15)
    assert found.total.run.p99 is not None
    assert found.total.wait.p50 is not None
    assert found.store_bytes
    assert app.metrics.value("completed", task=task.task) == app.metrics.value("completed", worker=name) == 15
    assert app.metrics.labels("queue") == ["mail"]
    assert app.metrics.labels("worker") == [name]


@pytest.mark.every_engine
def test_what_retries_came_to(app: Headrace) -> None:
    @app.task(retry=Retry(limit=3, base=0.01, floor=0.01, jitter=0, on=(OSError,)))
    def flaky(good: int) -> None:
        if current_job().attempt < good:
            raise OSError("away")

    jobs = [flaky.enqueue(good) for good in (1, 1, 2, 3, 9)]
    with app.worker():
        eventually(lambda: all(job.refresh().is_finished for job in jobs), "the end of all")
        eventually(lambda: app.metrics.value("completed") == 4, "all are emitted")
    [task] = app.metrics.snapshot().tasks
    assert (task.figures.completed, task.figures.failed) == (4, 1)
    tries = 1 + 1 + 2 + 3 + jobs[-1].attempt
    assert task.figures.attempts_avg == pytest.approx(tries / 5)
    assert task.figures.retry_success == pytest.approx(2 / 3)
    assert app.metrics.value("retry_success", task=task.task) == task.figures.retry_success


def test_a_worker_gathers_by_itself(app: Headrace) -> None:
    app.enqueue("work")
    with app.worker():
        eventually(lambda: len(app.engine.document_store.get(MARKS, ["fold", "sample"])) == 2, "both were done")


@pytest.mark.engines("sqlite")
def test_it_can_be_switched_off(url: str) -> None:
    with Headrace(url, metrics=False) as app:
        app.enqueue("work")
        assert app.metrics.snapshot().total.enqueued == 0
        assert app.metrics.value("depth") is None
        assert app.engine.document_store.kinds("metrics") == []
    with Headrace("memory://", events=False) as app:
        app.enqueue("work")
        assert (app.metrics.value("enqueued"), app.metrics.value("depth")) == (0, 1), "gauges need no events"


def test_async_twins_read_the_same(app: Headrace) -> None:
    app.enqueue("work")

    async def read() -> tuple[Any, ...]:
        metrics = app.metrics
        return (
            (await metrics.asnapshot()).total.enqueued,
            await metrics.avalue("enqueued"),
            sum(point.value or 0 for point in (await metrics.aseries("enqueued")).points),
            (await metrics.atotals()).figures.enqueued,
            (await metrics.adays(2))[-1].figures.enqueued,
            [found.task for found in await metrics.atasks()],
            await metrics.alabels("task"),
            await metrics.abaseline("enqueued"),
            b'headrace_jobs_enqueued_total{queue="default",task="work"} 1.0' in (await metrics.aprometheus())[1],
        )

    assert asyncio.run(read()) == (1, 1, 1, 1, 1, ["work"], ["work"], None, True)


# -- by a clock that is moved


def test_rates_are_of_the_last_minute_and_a_minute_later_they_are_gone(still: Headrace, clock: VirtualClock) -> None:
    append(still, "job.completed", 120, runs=[50])
    assert still.metrics.value("throughput", window=60) == pytest.approx(2.0)
    clock.advance(65)
    assert still.metrics.value("completed") == 120, "a window begins with a whole bucket"
    clock.advance(10)
    assert (still.metrics.value("completed"), still.metrics.value("run_p95")) == (0, None)
    assert still.metrics.value("completed", window="1h") == 120


def test_a_series_has_a_point_for_every_step(still: Headrace, clock: VirtualClock) -> None:
    for count in (1, 2, 3):
        append(still, "job.completed", count, runs=[10 * count])
        clock.advance(60)
    found = still.metrics.series("completed", queue="mail", window="5m", step=60)
    assert [(point.at - START).total_seconds() / 60 for point in found.points] == [-2, -1, 0, 1, 2, 3]
    assert [point.value for point in found.points] == [0, 0, 1, 2, 3, 0]
    longest = still.metrics.series("run_max", window="3m", step=60)
    assert [point.value for point in longest.points] == [0.01, 0.02, 0.03, None]
    assert [point.value for point in still.metrics.series("completed", queue="none", window="2m").points] == [0] * 13
    earlier = still.metrics.series("completed", window=120, step=60, until=START + timedelta(minutes=2))
    assert [point.value for point in earlier.points] == [1, 2]


def test_a_gauge_over_time_is_none_without_a_sample(still: Headrace, clock: VirtualClock) -> None:
    still.enqueue("work")
    assert still.metrics.value("depth") == 1
    clock.advance(120)
    still.enqueue("work")
    assert still.metrics.value("depth", queue="default") == 2
    assert [point.value for point in still.metrics.series("depth", window=180, step=60).points] == [None, 1, None, 2]
    assert still.metrics.value("oldest") == 120
    clock.advance(600)
    assert still.metrics.value("depth_max", window="1h") == 2


def test_the_rate_of_a_step_that_is_not_over_is_of_what_is_over_of_it(still: Headrace, clock: VirtualClock) -> None:
    clock.advance(15)
    append(still, "job.completed", 30, runs=[1])
    [point] = still.metrics.series("throughput", window=10, step=60).points
    assert point.value == pytest.approx(2.0)


def test_a_day_has_its_totals(still: Headrace, clock: VirtualClock) -> None:
    for _ in range(3):
        append(still, "job.enqueued", 5)
        append(still, "job.completed", 4, runs=[100])
        still.enqueue("work")
        still.metrics.snapshot()
        clock.advance(8 * 3600)
    first = still.metrics.totals("2026-03-01")
    assert (first.day, first.figures.enqueued, first.figures.completed, first.max_depth) == (date(2026, 3, 1), 12, 8, 2)
    assert first.figures.run.p95 == 0.1
    assert still.metrics.totals(date(2026, 3, 2), queue="mail").figures.completed == 4
    assert still.metrics.totals().day == date(2026, 3, 2)
    assert still.metrics.totals("2026-03-01", task="work").figures.enqueued == 2
    assert [day.figures.completed for day in still.metrics.days(3)] == [0, 8, 4]


def test_what_is_usual_is_of_the_last_day_without_this_hour(still: Headrace, clock: VirtualClock) -> None:
    assert still.metrics.baseline("run_p99") is None
    for _ in range(5):
        append(still, "job.completed", 36, runs=[100])
        clock.advance(3600)
    append(still, "job.completed", 500, runs=[9000])
    assert still.metrics.baseline("run_p99") == pytest.approx(0.1, rel=0.05)
    assert still.metrics.baseline("throughput") == pytest.approx(0.01)
    assert still.metrics.value("run_p99") == pytest.approx(9.0, rel=0.05)
    assert still.metrics.baseline("depth") is not None


def test_a_queue_estimates_when_it_will_be_empty(still: Headrace, clock: VirtualClock) -> None:
    still.enqueue_many([{"task": "send", "queue": "mail"} for _ in range(100)])
    clock.advance(120)
    append(still, "job.completed", 120, runs=[5])
    append(still, "job.enqueued", 60)
    clock.advance(30)
    [queue] = still.metrics.snapshot(60).queues
    assert queue.eta == pytest.approx(100 / ((120 - 60) / 60))
    append(still, "job.enqueued", 60)
    assert still.metrics.snapshot(60).queues[0].eta is None


def test_the_tasks_that_fail_most_come_first(still: Headrace) -> None:
    append(still, "job.completed", 50, task="fine", runs=[1])
    append(still, "job.attempt_failed", 3, task="bad", runs=[1])
    append(still, "job.attempt_failed", 9, task="worse", runs=[1])
    append(still, "job.attempt_failed", 20, queue="other", task="elsewhere", runs=[1])
    assert [found.task for found in still.metrics.tasks("mail")] == ["worse", "bad", "fine"]
    assert [found.task for found in still.metrics.tasks(limit=1)] == ["elsewhere"]
    assert still.metrics.tasks("mail")[0].figures.error_rate == 1.0


def test_buckets_that_are_too_old_are_forgotten(still: Headrace, clock: VirtualClock) -> None:
    maintenance_task = MetricsCollector(still.engine, still.settings)
    append(still, "job.completed", runs=[1])
    while not maintenance_task.do():
        pass
    assert still.metrics.value("completed", window="2h") == 1
    clock.advance(91 * 86_400)
    while not maintenance_task.do():
        pass
    kept = {
        kind: [document.key for document in still.engine.document_store.get(kind)]
        for kind in still.engine.document_store.kinds("metrics")
    }
    fresh = f"{(clock.now() - 1_000_000) // 1000:010d}"
    assert all(key > fresh for kind, keys in kept.items() if kind != "metrics.ever" for key in keys if "/g/" not in key)
    assert kept["metrics.ever"] == ["0000000000/q/mail"]


def test_stale_jobs_are_a_gauge_after_the_first_scan(still: Headrace, clock: VirtualClock) -> None:
    @still.task(lifecycle=Lifecycle(max_pending=60))
    def slow() -> None: ...

    slow.enqueue()
    still.lifecycle.sync()
    assert still.metrics.value("stale") is None
    clock.advance(120)
    maintenance_task = StaleCheck(still.engine, still.settings, 300.0)
    while maintenance_task.do() < 300:
        pass
    assert still.metrics.value("stale") == 1
    assert still.metrics.snapshot().stale == 1


# -- Prometheus


def test_prometheus_gets_how_long_stale_jobs_lasted(still: Headrace, clock: VirtualClock) -> None:
    @still.task(lifecycle=Lifecycle(max_pending=60))
    def slow() -> None: ...

    still.enqueue_many([slow.bind() for _ in range(3)])
    still.lifecycle.sync()
    clock.advance(120)
    maintenance_task = StaleCheck(still.engine, still.settings, 300.0)
    while maintenance_task.do() < 300:
        pass
    slow.enqueue()
    clock.advance(90)
    assert len(still.lifecycle.detect_stale(dry_run=False)) == 1
    _, text = still.metrics.prometheus()
    lines = text.decode().splitlines()
    assert "headrace_stale_after_seconds_count 4.0" in lines
    assert "headrace_stale_after_seconds_sum 450.0" in lines
    assert 'headrace_stale_after_seconds_bucket{le="+Inf"} 4.0' in lines
    assert "headrace_stale_check_failures_total 0.0" in lines


def test_prometheus_gets_sums_that_only_grow(still: Headrace, clock: VirtualClock) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    def samples() -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        kind, text = still.metrics.prometheus()
        assert kind.startswith("text/plain")
        families = text_string_to_metric_families(text.decode())
        return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}

    of_mail = frozenset({"queue": "mail", "task": "send"}.items())
    append(still, "job.completed", 3, runs=[100])
    append(still, "schedule.skipped", 0, queue="", task="")
    before = samples()
    assert before["headrace_jobs_completed_total", of_mail] == 3
    assert before["headrace_job_run_seconds_count", of_mail] == 3
    assert before["headrace_job_run_seconds_sum", of_mail] == pytest.approx(0.3)
    assert before["headrace_events_total", frozenset({("type", "schedule.skipped")})] == 1
    edges = {
        float(dict(labels)["le"]): value
        for (name, labels), value in before.items()
        if name.endswith("run_seconds_bucket")
    }
    assert edges[float("inf")] == 3
    assert all(count == (3 if edge >= 0.1 else 0) for edge, count in edges.items())
    clock.advance(100 * 86_400)
    append(still, "job.completed", 2, runs=[100])
    assert samples()["headrace_jobs_completed_total", of_mail] == 5


def test_prometheus_may_ask_for_the_newer_format(still: Headrace) -> None:
    kind, text = still.metrics.prometheus("application/openmetrics-text; version=1.0.0; charset=utf-8")
    assert kind.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")


def test_a_name_that_would_break_the_text_is_escaped(still: Headrace) -> None:
    append(still, "job.enqueued", task='evil"\n} 1')
    assert re.search(
        rb'^headrace_jobs_enqueued_total\{queue="mail",task="evil\\"\\n\} 1"\} 1\.0$',
        still.metrics.prometheus()[1],
        re.MULTILINE,
    )


def test_without_the_extra_it_says_what_to_install(still: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "headrace.app.metrics.prometheus", None)
    with pytest.raises(ConfigError, match=r"pip install 'headrace\[web\]'"):
        still.metrics.prometheus()


# -- wrong input


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda m: m.value("thruput"), "did you mean 'throughput'"),
        (lambda m: m.value("depth", task="send"), "not by task"),
        (lambda m: m.series("depth", window="soon"), "window: expected seconds"),
        (lambda m: m.series("depth", step=7), "multiple of 10"),
        (lambda m: m.series("depth", window="30d", step=10), "more than 5000 points"),
        (lambda m: m.series("depth", until=datetime(2026, 1, 1)), "until: expected a datetime with a time zone"),
        (lambda m: m.series("completed", queue="no such/queue"), "is not a queue name"),
        (lambda m: m.totals("yesterday"), "day: expected a date such as"),
        (lambda m: m.totals(datetime(2026, 1, 1, tzinfo=UTC)), "depends on the zone"),
        (lambda m: m.days(0), "count: expected 1"),
        (lambda m: m.days(5000), "count"),
        (lambda m: m.tasks(limit=0), "limit: expected 1"),
        (lambda m: m.labels("job"), "label: expected queue, task or worker"),
        (lambda m: m.snapshot(window=0), "out of range"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(still: Headrace, call: Any, expected: str) -> None:
    with pytest.raises(InvalidJob, match=expected):
        call(still.metrics)


@pytest.mark.parametrize("name", ["metrics_keep_fine", "metrics_keep_minutes", "metrics_keep_hours"])
def test_how_long_metrics_are_kept_is_a_setting(name: str) -> None:
    negative: Any = {name: -1}
    none: Any = {name: None}
    with pytest.raises(ConfigError, match=f"{name}: -1.0 must be 0 or more"):
        Headrace("memory://", **negative)
    assert getattr(Headrace("memory://", **none).settings, name) is None
