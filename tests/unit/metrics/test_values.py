"""Metrics by name: how each is computed, that no data is not zero, and which requests are refused."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headrace.core.durations import window_ms
from headrace.core.jobs.records import QueueCount
from headrace.core.jobs.states import State
from headrace.core.metrics import buckets, values
from headrace.core.metrics.buckets import DAY, HOUR, MINUTE, TEN_SECONDS
from headrace.core.metrics.cells import EMPTY, MetricCell, total
from headrace.core.metrics.gauges import STORE, Gauge, Gauges, as_gauges, sample_of_jobs, then
from headrace.core.metrics.histogram import Histogram
from headrace.core.settings.settings import Settings
from headrace.errors import InvalidJob
from tests.support.builders import worker_row
from tests.support.cases import check_each

NOW = 1_700_000_000_000
SOME = MetricCell(
    enqueued=20,
    started=12,
    completed=8,
    errors=2,
    failed=1,
    wait=Histogram.of([1000, 3000]),
    run=Histogram.of([10, 20, 30]),
    other={
        "schedule.fired": 99,
        "schedule.skipped": 1,
        "dead.entered": 3,
        "completed_after_retry": 3,
        "failed_after_retry": 1,
    },
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enqueued", 20),
        ("throughput", 0.8),
        ("enqueue_rate", 2.0),
        ("failure_rate", 0.1),
        ("error_rate", 0.2),
        ("attempts_avg", 10 / 9),
        ("retry_success", 0.75),
        ("wait_avg", 2.0),
        ("wait_max", 3.0),
        ("run_avg", 0.02),
        ("run_min", 0.01),
        ("schedule_misses", 0.01),
        ("schedules_missed", 1),
        ("dead_entered", 3),
    ],
)
def test_each_is_made_of_what_was_counted(name: str, value: float) -> None:
    assert values.counted(name, SOME, 10.0) == pytest.approx(value)


def test_a_share_or_a_duration_of_nothing_is_none_and_a_count_is_zero() -> None:
    for name in ("error_rate", "attempts_avg", "retry_success", "schedule_misses", *values.DURATIONS):
        assert values.counted(name, EMPTY, 10.0) is None
    for name in ("completed", "throughput", "dead_entered"):
        assert values.counted(name, EMPTY, 10.0) == 0


def test_every_metric_name_has_a_value() -> None:
    def check(name: str) -> None:
        values.check_metric(name, queue=None, task=None, worker=None)
        if name in values.GAUGED:
            assert values.gauged(name, None, []) is None
        else:
            values.counted(name, SOME, 60.0)

    check_each(values.NAMES, check)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"name": "throughputs"}, "did you mean 'throughput'"),
        ({"name": 7}, "metrics are enqueued"),
        ({"name": "depth", "task": "send"}, "a queue or the whole store, not by task"),
        ({"name": "dead", "queue": "mail"}, "the whole store, not by queue"),
        ({"name": "completed", "queue": "mail", "worker": "w1"}, "give either a worker"),
    ],
)
def test_what_is_not_counted_so_is_refused(labels: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidJob, match=message):
        values.check_metric(**{"queue": None, "task": None, "worker": None, **labels})


# -- gauges


def gauges(pending: int, queue: str = "mail", oldest: int = NOW - 5000) -> Gauges:
    queue_counts = [QueueCount(queue, State.PENDING, pending, oldest), QueueCount("other", State.RUNNING, 2, NOW)]
    return as_gauges(sample_of_jobs(queue_counts, [worker_row("w1", seen_at=NOW)], ["default"], NOW))


def test_a_sample_is_of_each_queue_and_of_all() -> None:
    found = gauges(7)
    assert values.gauged("depth", None, [found]) == values.gauged("depth", "mail", [found]) == 7
    assert values.gauged("depth", "other", [found]) == values.gauged("depth", "never", [found]) == 0
    assert values.gauged("depth.running", "other", [found]) == 2
    assert values.gauged("oldest", "mail", [found]) == 5
    assert values.gauged("workers", None, [found]) == values.gauged("workers", "default", [found]) == 1
    assert values.gauged("workers", "mail", [found]) == 0


def test_jobs_that_are_over_and_workers_that_are_silent_are_not_in_it() -> None:
    queue_counts = [QueueCount("mail", State.COMPLETED, 9, NOW)]
    found = sample_of_jobs(queue_counts, [worker_row("ghost", seen_at=NOW - 3_600_000)], [], NOW)
    assert list(found) == [STORE]
    assert found[STORE]["workers"] == 0


def test_of_a_bucket_the_last_reading_counts_and_the_highest_is_kept() -> None:
    both = then(then(gauges(3), gauges(9)), gauges(5))
    assert values.gauged("depth", "mail", [both]) == 5
    assert values.gauged("depth_max", "mail", [both]) == 9
    assert values.mean_of(both, "depth", "mail") == pytest.approx(17 / 3)


def test_a_queue_that_was_emptied_has_nothing_left_in_it() -> None:
    both = then(gauges(3), gauges(4, queue="fresh"))
    assert values.gauged("depth", "mail", [both]) == 0
    assert values.gauged("depth", "fresh", [both]) == 4
    assert values.gauged("depth_max", "mail", [both]) == 3
    assert values.mean_of(both, "depth", "fresh") == 2, "it had nothing in it before"


def test_metrics_of_many_cells_are_those_of_their_sum() -> None:
    cells = [SOME, EMPTY, SOME, MetricCell(completed=3, run=Histogram.of([999]), other={"schedule.fired": 1})]
    for name in values.COUNTED:
        assert values.summed(name, cells, 30.0) == values.counted(name, total(cells), 30.0)


def test_zeros_are_not_stored() -> None:
    found = as_gauges(sample_of_jobs([], [], ["idle", "still"], NOW))
    assert found == {STORE: {"workers": Gauge(0, 0, 0)}}


def test_a_server_does_not_report_how_busy_it_is() -> None:
    assert values.gauged("busy", None, [gauges(1)]) is None
    assert values.gauged("stale", None, [gauges(1)]) is None


# -- times


def test_a_queue_drains_only_if_more_goes_than_comes() -> None:
    assert values.seconds_to_drain(100, coming=1.0, going=3.0) == 50
    assert values.seconds_to_drain(100, coming=3.0, going=3.0) is None
    assert values.seconds_to_drain(0, coming=3.0, going=0.0) == 0


@pytest.mark.parametrize(
    ("value", "ms"),
    [(60, 60_000), ("15m", 900_000), ("1h30m", 5_400_000), (timedelta(days=1), DAY), (1.5, 1500), ("2w", 14 * DAY)],
)
def test_a_window_is_written_in_many_ways(value: object, ms: int) -> None:
    assert window_ms("window", value) == ms


@pytest.mark.parametrize("value", ["", "1 h", "5x", None, True, float("nan"), float("inf"), -1, 0, "0s", "9999w", [60]])
def test_a_window_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(InvalidJob, match="window"):
        window_ms("window", value)


def test_a_step_is_made_of_the_widest_buckets_that_fit() -> None:
    assert [buckets.width_for(ms) for ms in (10_000, 50_000, 300_000, DAY)] == [TEN_SECONDS, TEN_SECONDS, MINUTE, HOUR]
    for window in (60_000, 3_600_000, DAY, 90 * DAY):
        assert window / buckets.checked_step(buckets.usual_step(window), window) <= 200
    for step, message in (
        (15_000, "not a multiple of 10"),
        (5000, "not a multiple"),
        (10_000, "more than 5000 points"),
    ):
        with pytest.raises(InvalidJob, match=message):
            buckets.checked_step(step, 7 * DAY)


def test_a_window_is_never_shorter_than_requested() -> None:
    for ms in range(0, 60_000, 1234):
        now = NOW + ms
        assert 60_000 <= now - buckets.since(TEN_SECONDS, 60_000, now) < 70_000
        assert now - buckets.since(TEN_SECONDS, 1000, now) >= 10_000


def test_the_keys_of_a_bucket_are_in_the_order_of_time() -> None:
    keys = [buckets.key(start, "q", "mail") for start in (0, 10_000, NOW, 9_999_999_999_000)]
    assert keys == sorted(keys)
    assert buckets.parsed(buckets.key(NOW, "q", "a/b")) == (NOW, "q", "a/b")
    assert buckets.range_of(NOW) < buckets.key(NOW, "g") < buckets.range_of(NOW + 10_000)


def test_each_width_is_kept_for_its_own_time() -> None:
    kept = dict(buckets.kept_since(Settings(metrics_keep_hours=None), NOW))
    assert kept == {TEN_SECONDS: TEN_SECONDS.start(NOW - 7 * DAY), MINUTE: MINUTE.start(NOW - 30 * DAY), HOUR: None}
