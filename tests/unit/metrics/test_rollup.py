"""From pages to buckets: every event counts once, in the bucket of its own time, for its queue, task and worker."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from headrace.core.events.log import EventGroup
from headrace.core.metrics.buckets import ALL, EVER, HOUR, MINUTE, TEN_SECONDS
from headrace.core.metrics.cells import EMPTY, MOST, OTHERS, SUM, MetricCell, added, total
from headrace.core.metrics.rollup import Folded, fold, widened

NOON = 1_700_006_400_000


def group(type_: str, *jobs: str, at: int = NOON, **more: object) -> EventGroup:
    return EventGroup(type_, at, "mail", "send", jobs=list(jobs), **more)  # type: ignore[arg-type]


def cell(folded: Folded, section: str = "q", name: str = "send", start: int = NOON) -> MetricCell:
    queue = "mail" if section == "q" else ""
    return folded.get((start, (section, queue, name)), EMPTY)  # type: ignore[arg-type]


def test_an_alert_counts_for_no_task_that_it_is_about() -> None:
    folded = fold([EventGroup("alert.raised", NOON, "mail", "send"), EventGroup("alert.cleared", NOON, None, "send")])
    assert list(folded) == [(NOON, ("q", "", ""))]
    assert folded[NOON, ("q", "", "")].other == {"alert.raised": 1, "alert.cleared": 1}


def test_the_life_of_a_job_is_counted_for_its_task_and_its_worker() -> None:
    folded = fold(
        [
            group("job.enqueued", "a", "b"),
            group("job.scheduled", "c", data=[{"run_at": NOON + 5}]),
            group("job.started", "a", "b", worker="w1", attempts=[1, 1], waits=[20, 40]),
            group("job.completed", "a", worker="w1", attempts=[1], runs=[300]),
            group("job.attempt_failed", "b", worker="w1", attempts=[1], runs=[100]),
            group("job.retry_scheduled", "b", worker="w1", attempts=[1]),
            group("job.cancelled", "c"),
        ]
    )
    found = cell(folded)
    assert (found.enqueued, found.started, found.completed, found.errors) == (3, 2, 1, 1)
    assert (found.failed, found.retried, found.cancelled) == (0, 1, 1)
    assert (found.wait.total, found.wait.count) == (60, 2)
    assert (found.run.total, found.run.count) == (400, 2)
    of_worker = cell(folded, "w", "w1")
    assert (of_worker.enqueued, of_worker.started, of_worker.completed, of_worker.errors) == (0, 2, 1, 1)


def test_an_attempt_that_was_lost_with_its_worker_is_an_error_too() -> None:
    found = cell(fold([group("job.stalled", "a", attempts=[1], runs=[9000])]))
    assert (found.errors, found.other, found.run.total) == (1, {"job.stalled": 1}, 9000)


def test_runs_that_were_skipped_together_are_each_counted() -> None:
    found = cell(fold([group("schedule.skipped", data=[{"skipped": count}]) for count in (1, 3500)]))
    assert found.other == {"schedule.skipped": 3501}


def test_a_job_that_puts_itself_off_is_not_a_new_one() -> None:
    found = cell(fold([group("job.scheduled", "a", attempts=[1])]))
    assert (found.enqueued, found.other) == (0, {"snoozed": 1})


def test_progress_and_logs_are_not_counted() -> None:
    assert fold([group("job.log", "a"), group("job.progress", "a")]) == {}


def test_what_is_about_no_job_is_one_event_of_the_store() -> None:
    folded = fold([EventGroup("schedule.skipped", NOON), EventGroup("schedule.fired", NOON)])
    assert folded[NOON, ("q", "", "")].other == {"schedule.skipped": 1, "schedule.fired": 1}


def test_a_late_page_goes_into_the_buckets_of_its_own_time() -> None:
    folded = fold([group("job.enqueued", "a", at=NOON - 1), group("job.enqueued", "b", at=NOON)])
    assert cell(folded, start=NOON - 10_000).enqueued == 1
    assert cell(folded).enqueued == 1


def test_events_of_one_group_are_split_where_a_bucket_ends() -> None:
    started = group("job.started", "a", "b", "c", at=NOON + 2000, ago=[0, 2000, 2001], waits=[1, 2, 4], worker="w")
    folded = fold([started])
    assert (cell(folded).started, cell(folded).wait.total) == (2, 3)
    before = cell(folded, start=NOON - 10_000)
    assert (before.started, before.wait.total) == (1, 4)
    assert cell(folded, "w", "w").started == 2


times = st.integers(NOON - 4_000_000, NOON + 4_000_000)
pages = st.lists(
    st.builds(
        lambda at, runs: group("job.completed", *map(str, range(len(runs))), at=at, runs=runs),
        times,
        st.lists(st.integers(0, 10_000), min_size=1, max_size=20),
    ),
    max_size=30,
)


@given(pages)
def test_wider_buckets_hold_the_same(groups: list[EventGroup]) -> None:
    folded = fold(groups)
    for width in ALL:
        wide = widened(folded, width)
        assert total(wide.values()) == total(folded.values())
        assert all(start == width.start(start) for start, _ in wide)
        assert sum(found.completed for found in wide.values()) == sum(len(each.jobs) for each in groups)


@given(pages, st.integers(0, 30))
def test_it_does_not_matter_where_one_fold_ends_and_the_next_begins(groups: list[EventGroup], cut: int) -> None:
    def ever(some: Iterable[EventGroup]) -> MetricCell:
        return total(widened(fold(some), EVER).values())

    assert ever(groups[:cut]).plus(ever(groups[cut:])) == ever(groups)


def test_workers_are_not_counted_for_ever() -> None:
    folded = fold([group("job.completed", "a", worker="w1", runs=[1])])
    assert {place[0] for _, place in widened(folded, HOUR)} == {"q", "w"}
    assert {place[0] for _, place in widened(folded, EVER)} == {"q"}


def test_buckets_begin_at_multiples_of_their_width() -> None:
    assert TEN_SECONDS.start(NOON + 12_345) == NOON + 10_000
    assert MINUTE.start(NOON + 119_999) == NOON + 60_000
    assert HOUR.start(NOON + 3_599_999) == NOON
    assert list(MINUTE.starts(NOON + 59_999, NOON + 119_999)) == [NOON, NOON + 60_000]
    assert list(MINUTE.starts(NOON, NOON + 120_000))[-1] == NOON + 120_000


def test_a_document_does_not_grow_with_the_names_of_tasks() -> None:
    document: dict[str, MetricCell] = {}
    for number in range(5 * MOST):
        document = added(document, {f"task-{number}": MetricCell(started=1), "task-0": MetricCell(started=1)})
    assert len(document) <= MOST + 2
    assert (document["task-0"].started, document[SUM].started) == (5 * MOST, 10 * MOST - 1)
    assert document[OTHERS].started == 10 * MOST - 1 - sum(
        cell.started for name, cell in document.items() if name not in (SUM, OTHERS)
    )
    assert added({}, {f"task-{number}": MetricCell(started=1) for number in range(2 * MOST)})[OTHERS].started == MOST
