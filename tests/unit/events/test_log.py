"""Pages of events: what is written in short is read in full, and any cursor on a page leads on behind it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from headrace.core.events.event import TYPES, EventFilter, event_filter, page_of
from headrace.core.events.log import EventGroup, arrivals, completions_of, events_of, narrowed, page, read
from headrace.core.jobs.records import NewJob
from headrace.core.jobs.states import State
from headrace.errors import InvalidJob

NOW = 1_700_000_000_000
RAN = EventGroup("ran", NOW, "q", "t", "w", ["a", "b"], [1, 2], [10, 20], [3, 4])


def _types(groups: list[EventGroup]) -> list[tuple[str, list[str]]]:
    return [(group.type, group.jobs) for group in groups]


def test_runs_that_began_and_ended_on_a_page_are_read_as_both() -> None:
    batch = page([RAN])
    assert batch.size == 4
    start, end = read(batch.text)
    assert (start.type, start.jobs, start.waits, start.runs, start.ago) == (
        "job.started",
        ["a", "b"],
        [10, 20],
        [],
        [3, 4],
    )
    assert (end.type, end.waits, end.runs) == ("job.completed", [], [3, 4])


def test_a_page_with_refused_jobs_has_every_start_and_the_ends_of_the_others() -> None:
    assert _types(read(page([RAN]).text, '["b"]')) == [("job.started", ["a", "b"]), ("job.completed", ["b"])]
    assert _types(read(page([RAN]).text, "[]")) == [("job.started", ["a", "b"])]
    assert narrowed([RAN], {"b"}) == read(page([RAN]).text, '["b"]')
    assert _types(completions_of([RAN], {"a"})) == [("job.completed", ["a"])]


def test_notes_of_a_run_are_emitted_though_another_run_was_refused() -> None:
    noted = EventGroup("job.progress", NOW, "q", "t", "w", ["c"], [1], data=[{"progress": 0.5}])
    assert _types(narrowed([RAN, noted], {"b"}))[1:] == [("job.completed", ["b"]), ("job.progress", ["c"])]


def test_every_column_is_narrowed_alike() -> None:
    [left] = completions_of([RAN], {"b"})
    assert (left.jobs, left.attempts, left.runs) == (["b"], [2], [4])


def test_an_id_that_came_twice_counts_once() -> None:
    twice = EventGroup("job.enqueued", NOW, "q", "t", None, ["a", "a", "b"])
    assert _types(read(page([twice]).text, '["a"]')) == [("job.enqueued", ["a"])]


@pytest.mark.parametrize("place", range(5))
def test_a_cursor_leads_on_behind_its_event(place: int) -> None:
    groups = read(page([RAN, EventGroup("queue.paused", NOW, "q")]).text)
    everything = list(events_of("7-1", groups))
    assert [event.cursor for event in everything] == ["7-1.0", "7-1.1", "7-1.2", "7-1.3", "7-1"]
    assert list(events_of("7-1", groups, everything[place].cursor)) == everything[place + 1 :]


def test_what_is_not_wanted_keeps_its_number() -> None:
    groups = read(page([RAN]).text)
    found = list(events_of("9", groups, None, event_filter("job.completed")))
    assert [(event.cursor, event.job_id) for event in found] == [("9.2", "a"), ("9", "b")]


def test_a_start_event_has_its_own_time() -> None:
    start = next(events_of("1", read(page([RAN]).text)))
    assert start.at == datetime.fromtimestamp((NOW - 3) / 1000, UTC)


def test_events_of_inserted_jobs_are_grouped_by_queue_task_and_state() -> None:
    def job(name: str, state: State, queue: str = "q") -> NewJob:
        return NewJob(name, "t", queue, state, 0, NOW, "[]", 0, NOW, NOW + 5, 3)

    jobs = [job("a", State.PENDING), job("b", State.SCHEDULED), job("c", State.PENDING), job("d", State.PENDING, "r")]
    batch = arrivals([*jobs, job("e", State.WAITING)])
    assert [(group.type, group.queue, group.jobs) for group in batch] == [
        ("job.enqueued", "q", ["a", "c"]),
        ("job.scheduled", "q", ["b"]),
        ("job.enqueued", "r", ["d"]),
        ("job.enqueued", "q", ["e"]),
    ]
    assert batch[1].data == [{"run_at": NOW + 5}]


def test_patterns_name_types() -> None:
    assert event_filter("queue.*").types == {"queue.paused", "queue.resumed"}
    assert event_filter("*").types == set(TYPES)
    assert event_filter(["job.log", "dead.*"]).types == {"job.log", "dead.entered", "dead.resolved"}
    assert event_filter().covers("job.log", "any", None)
    assert not EventFilter(queue="q").covers("job.log", "other", None)


@pytest.mark.parametrize("pattern", ["job", "job.", "jobs.*", "job.complete", "", ".*", 7, None])
def test_what_is_no_type_is_refused(pattern: object) -> None:
    with pytest.raises(InvalidJob, match="no event type"):
        event_filter([pattern])  # type: ignore[list-item]


def test_cursors_are_taken_apart() -> None:
    assert page_of("12") == ("12", None)
    assert page_of("12-3.4") == ("12-3", 4)


@pytest.mark.parametrize(
    "ids",
    [
        ["0197-aa-01", "0197-aa-02", "0197-aa-03", "0197-aa-99"],
        ["a", "ab", "abc", "abcd", "abd"],
        ["x", "x", "x", "x"],
        ["a", "b", "c", "d"],
    ],
)
def test_ids_that_begin_alike_are_stored_in_short_and_read_in_full(ids: list[str]) -> None:
    group = EventGroup("job.enqueued", NOW, "q", "t", None, ids)
    batch = page([group])
    assert read(batch.text) == [group]
    assert "0197-aa-01" not in batch.text
    assert [each.jobs for each in read(batch.text, f'["{ids[-1]}"]')] == [[ids[-1]]]
