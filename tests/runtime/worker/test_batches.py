"""One call runs several jobs, in one slot; each of them keeps its own lease, result, retries and end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from headrace import (
    INJECTED,
    CancelJob,
    Headrace,
    HeadraceError,
    Job,
    JobContext,
    JobFailed,
    Retry,
    Snooze,
    Worker,
    current_job,
    current_jobs,
)
from tests.support.gates import SOON, Gate, history_rows, running, through
from tests.support.waiting import PATIENCE, eventually

Register = Callable[..., Any]
LONG = 60.0  # a wait that no test spends: it ends when the batch is full


@dataclass
class Text:
    words: str
    weight: int = 1


def is_running(*jobs: Job[Any]) -> Callable[[], bool]:
    return lambda: all(job.refresh().state == "running" for job in jobs)


def test_a_call_gets_full_batches_and_each_job_its_own_result(app: Headrace, task: Register) -> None:
    sizes = []

    @task(batch=10, within=0.2)
    def weigh(texts: list[Text]) -> list[int]:
        sizes.append(len(texts))
        return [len(text.words) * text.weight for text in texts]

    jobs = app.enqueue_many([weigh.bind(Text("x" * n, 2)) for n in range(25)])
    with app.worker(concurrency=2):
        assert [job.result(PATIENCE) for job in jobs] == [2 * n for n in range(25)]
    assert sorted(sizes) == [5, 10, 10]
    assert {(job.attempt, job.refresh().state) for job in jobs} == {(1, "completed")}


def test_an_exception_in_the_list_fails_its_job_alone_and_follows_its_retries(
    app: Headrace, worker: Worker, task: Register
) -> None:
    calls = []

    @task(batch=3, within=0.05, retry=SOON)
    def halve(numbers: list[int]) -> list[float | Exception]:
        calls.append(sorted(numbers))
        attempts = [job.attempt for job in current_jobs()]
        return [
            OSError("odd") if number % 2 and attempt == 1 else number / 2
            for number, attempt in zip(numbers, attempts, strict=True)
        ]

    jobs = app.enqueue_many([halve.bind(n) for n in (2, 3, 4)])
    assert [job.result(PATIENCE) for job in jobs] == [1, 1.5, 2]
    assert [job.attempt for job in jobs] == [1, 2, 1]
    assert [(error.type, error.message) for error in jobs[1].errors] == [("OSError", "odd")]
    assert calls == [[2, 3, 4], [3]]


def test_an_error_of_the_call_is_the_error_of_all_its_jobs(app: Headrace, worker: Worker, task: Register) -> None:
    @task(batch=2, within=LONG, retry=SOON)
    def send(letters: list[str]) -> None:
        if current_jobs()[0].attempt == 1:
            raise OSError("the server is away")

    patient, hasty = app.enqueue_many([send.bind("a"), send.using(retry=0).bind("b")])
    assert hasty.wait(PATIENCE) == "failed"
    assert [(error.type, error.message) for error in hasty.errors] == [("OSError", "the server is away")]
    send.enqueue("c")
    assert patient.wait(PATIENCE) == "completed"
    assert (patient.attempt, patient.result(0), len(patient.errors)) == (2, None, 1)


def test_a_list_of_another_length_fails_all_and_repeats_nothing(app: Headrace, worker: Worker, task: Register) -> None:
    @task(batch=2, within=LONG, retry=SOON)
    def embed(texts: list[str]) -> list[int]:
        return [1]

    for job in app.enqueue_many([embed.bind("a"), embed.bind("b")]):
        with pytest.raises(JobFailed, match=r"embed\(\) returned 1 result for 2 jobs"):
            job.result(PATIENCE)
        assert job.attempt == 1


def test_jobs_of_a_batch_can_be_snoozed_and_cancelled_one_by_one(app: Headrace, worker: Worker, task: Register) -> None:
    @task(batch=3, within=LONG)
    def decide(words: list[str]) -> list[Any]:
        fates = {"later": Snooze(3600), "never": CancelJob("not wanted"), "now": "done"}
        return [fates[word] for word in words]

    later, never, now = app.enqueue_many([decide.bind(word) for word in ("later", "never", "now")])
    assert now.result(PATIENCE) == "done"
    assert (never.refresh().state, later.refresh().state, later.attempt) == ("cancelled", "scheduled", 0)


def test_arguments_that_do_not_fit_fail_their_own_job(app: Headrace, task: Register) -> None:
    unknown = app.task_by_name("embed").using(retry=0)  # the task is not known yet, so nothing is checked
    good, bad, named = unknown.enqueue("abc"), unknown.enqueue("a", "b"), unknown.enqueue(texts="ab")

    @task(batch=3, within=LONG)
    def embed(texts: list[str]) -> list[int]:
        return [len(text) for text in texts]

    with app.worker():
        assert (good.result(PATIENCE), named.result(PATIENCE)) == (3, 2)
        with pytest.raises(JobFailed, match=r"embed\(\) takes one argument for each job, not 2"):
            bad.result(PATIENCE)


def test_a_job_cancelled_while_its_batch_gathers_is_left_out(app: Headrace, worker: Worker, task: Register) -> None:
    calls = []

    @task(batch=3, within=LONG)
    def embed(texts: list[str]) -> None:
        calls.append(texts)

    first, second = app.enqueue_many([embed.bind("first"), embed.bind("second")])
    eventually(is_running(first, second), "both jobs are held")
    assert first.cancel()
    eventually(lambda: len(worker._worker_state.held()) == 1, "the worker knows")
    app.enqueue_many([embed.bind("third"), embed.bind("fourth"), embed.bind("fifth")])
    assert second.wait(PATIENCE) == "completed"
    assert first.refresh().state == "cancelled"
    assert "first" not in [text for texts in calls for text in texts]


def test_a_worker_stopped_while_it_gathers_gives_the_jobs_back_unspent(app: Headrace, task: Register) -> None:
    @task(batch=3, within=LONG)
    def embed(texts: list[str]) -> None:
        raise AssertionError("too few")

    worker = app.worker().start()
    jobs = app.enqueue_many([embed.bind("a"), embed.bind("b")])
    eventually(is_running(*jobs), "both jobs are held")
    worker.stop()
    assert [(job.refresh().state, job.attempt, history_rows(app, job.id)) for job in jobs] == [("pending", 0, [])] * 2


def test_a_worker_paused_while_it_gathers_gives_the_jobs_back(app: Headrace, worker: Worker, task: Register) -> None:
    @task(batch=3, within=LONG)
    def embed(texts: list[str]) -> None: ...

    jobs = app.enqueue_many([embed.bind("a"), embed.bind("b")])
    eventually(is_running(*jobs), "both jobs are held")
    worker.pause()
    eventually(lambda: all(job.refresh().state == "pending" for job in jobs), "both are given back")
    worker.resume()
    embed.enqueue("c")
    assert [job.wait(PATIENCE) for job in jobs] == ["completed"] * 2


def test_a_batch_takes_one_slot_and_its_neighbors_the_others(app: Headrace, kind: str) -> None:
    gate = Gate()
    embed = app.task(name="embed", batch=4, within=LONG)(through(kind, gate, lambda texts: None))
    other = app.task(name="other", queue="other")(lambda: None)
    jobs = app.enqueue_many([embed.bind("x") for _ in range(8)])
    with app.worker(concurrency=3) as worker:
        eventually(is_running(*jobs), "all jobs run")
        eventually(lambda: running(worker) == 2, "two calls")
        assert other.enqueue().wait(PATIENCE) == "completed"
        gate.open()
        assert {job.wait(PATIENCE) for job in jobs} == {"completed"}
        eventually(lambda: running(worker) == 0, "no call")


def test_a_batch_of_a_worker_with_one_slot_is_filled_from_its_queue(app: Headrace, task: Register) -> None:
    sizes = []

    @task(batch=50, within=1.0)
    def embed(texts: list[str]) -> None:
        sizes.append(len(texts))

    jobs = app.enqueue_many([embed.bind("x") for _ in range(50)])
    with app.worker(concurrency=1):
        assert {job.wait(PATIENCE) for job in jobs} == {"completed"}
    assert sizes == [50]


def test_other_tasks_in_the_queue_of_a_batch_run_as_well(app: Headrace, task: Register) -> None:
    @task(batch=5, within=0.05)
    def embed(texts: list[str]) -> list[str]:
        return texts

    other = task(name="other")(lambda: None)
    calls = [call for n in range(20) for call in (embed.bind(str(n)), other.bind())]
    jobs = app.enqueue_many(calls)
    with app.worker(concurrency=2):
        assert [job.result(PATIENCE) for job in jobs] == [x for n in range(20) for x in (str(n), None)]


def test_a_job_cancelled_during_the_call_does_not_stop_its_neighbors(app: Headrace, worker: Worker, kind: str) -> None:
    gate, asked = Gate(), list[bool]()

    def work(texts: list[str]) -> list[str]:
        asked.extend(job.cancel_requested for job in current_jobs())
        return texts

    embed = app.task(name="embed", batch=2, within=LONG)(through(kind, gate, work))
    first, second = app.enqueue_many([embed.bind("a"), embed.bind("b")])
    gate.wait_until_reached()
    assert first.cancel()
    contexts = [attempt.context for attempt in worker._worker_state.attempts.values()]
    eventually(lambda: any(context.cancel_requested for context in contexts), "the job is asked to stop")
    assert running(worker) == 1
    gate.open()
    assert second.result(PATIENCE) == "b"
    assert (first.refresh().state, asked) == ("cancelled", [True, False])
    eventually(lambda: running(worker) == 0, "the slot is free")
    embed.enqueue("c")
    assert embed.enqueue("d").result(PATIENCE) == "d"


def test_a_call_whose_jobs_are_all_cancelled_is_stopped_and_its_slot_is_free(app: Headrace, kind: str) -> None:
    gate = Gate()
    embed = app.task(name="embed", batch=2, within=LONG)(through(kind, gate, lambda texts: None))
    other = app.task(name="other")(lambda: "done")
    with app.worker(concurrency=1) as worker:
        jobs = app.enqueue_many([embed.bind("a"), embed.bind("b")])
        gate.wait_until_reached()
        assert all(job.cancel() for job in jobs)
        assert other.enqueue().result(PATIENCE) == "done"
        assert running(worker) == 0
        gate.open()
        eventually(lambda: not worker._worker_state.held(), "nothing is left")
    assert {job.refresh().state for job in jobs} == {"cancelled"}


def test_a_timeout_is_that_of_every_job_of_the_call(app: Headrace, kind: str) -> None:
    gate = Gate()
    embed = app.task(name="embed", batch=2, within=LONG, timeout=0.1, retry=0)(through(kind, gate, lambda texts: None))
    with app.worker(concurrency=1) as worker:
        for job in app.enqueue_many([embed.bind("a"), embed.bind("b")]):
            with pytest.raises(JobFailed, match=r"ran longer than its timeout of 0\.1 s"):
                job.result(PATIENCE)
        gate.open()
        assert app.task(name="other")(lambda: "done").enqueue().result(PATIENCE) == "done"
        eventually(lambda: running(worker) == 0, "no call")


def test_jobs_with_another_timeout_are_in_another_batch(app: Headrace, worker: Worker, task: Register) -> None:
    calls = []

    @task(batch=2, within=0.1)
    def embed(texts: list[str]) -> None:
        calls.append(texts)

    jobs = app.enqueue_many([embed.bind("a"), embed.using(timeout=50).bind("b")])
    assert [job.wait(PATIENCE) for job in jobs] == ["completed"] * 2
    assert sorted(calls) == [["a"], ["b"]]


def test_a_stopped_worker_releases_every_job_of_a_call(app: Headrace, kind: str) -> None:
    gate = Gate()
    worker = app.worker(concurrency=1).start()
    embed = app.task(name="embed", batch=2, within=LONG)(through(kind, gate, lambda texts: texts))
    jobs = app.enqueue_many([embed.bind("a"), embed.bind("b")])
    gate.wait_until_reached()
    worker.stop(patience=0.05)
    gate.open()
    assert [(job.refresh().state, job.attempt, job.errors) for job in jobs] == [("pending", 0, [])] * 2
    with app.worker():
        assert [job.result(PATIENCE) for job in jobs] == ["a", "b"]


def test_each_job_reports_and_spawns_for_itself(app: Headrace, worker: Worker, task: Register) -> None:
    child = task(name="child")(lambda n: n)

    @task(batch=2, within=LONG)
    def embed(texts: list[str]) -> list[str]:
        for job, text in zip(current_jobs(), texts, strict=True):
            job.log(f"line of {text}")
            job.progress(0.5)
            job.spawn(child.bind(text))
        return texts

    for job, text in zip(app.enqueue_many([embed.bind("a"), embed.bind("b")]), "ab", strict=True):
        assert job.result(PATIENCE) == text
        assert [line.message for line in job.logs()] == [f"line of {text}"]
        assert [parent.result(PATIENCE) for parent in job.parents()] == [text]


def test_what_belongs_to_one_job_alone_is_refused_by_name(app: Headrace, worker: Worker, task: Register) -> None:
    found = []

    @task(batch=1, retry=0)
    def embed(texts: list[str]) -> None:
        calls: list[Callable[[], Any]] = [
            current_job,
            lambda: current_jobs()[0].step("one", list),
            lambda: current_jobs()[0].sleep(1),
        ]
        for call in calls:
            try:
                call()
            except HeadraceError as error:
                found.append(str(error))

    assert embed.enqueue("a").wait(PATIENCE) == "completed"
    assert found[0] == "current_job() was called in a batch of 1; current_jobs() has each of its jobs"
    assert found[1:] == ["a job of a batch can't have steps, sleep or wait; return Snooze(...) as its result"] * 2


def test_an_ordinary_job_is_the_only_one_of_its_list(app: Headrace, worker: Worker, task: Register) -> None:
    @task
    def alone() -> list[str]:
        return [job.id for job in current_jobs()]

    job = alone.enqueue()
    assert job.result(PATIENCE) == [job.id]


class Model:
    """Injected."""


def test_hooks_and_injected_values_surround_the_call(app: Headrace, worker: Worker, task: Register) -> None:
    seen = []

    @app.around_attempt
    def around(job: JobContext) -> Iterator[None]:
        seen.append(job.id)
        yield
        seen.append("after")

    @app.provide
    def model() -> Model:
        seen.append("made")
        return Model()

    @task(batch=2, within=LONG)
    def embed(texts: list[str], model: Model = INJECTED) -> None:
        assert isinstance(model, Model)

    jobs = app.enqueue_many([embed.bind("a"), embed.bind("b")])
    assert [job.wait(PATIENCE) for job in jobs] == ["completed"] * 2
    assert seen == [jobs[0].id, "made", "after"]


def test_a_worker_that_drains_ends_with_the_last_batch(app: Headrace, task: Register) -> None:
    @task(batch=4, within=0.05)
    def embed(texts: list[str]) -> None: ...

    jobs = app.enqueue_many([embed.bind("x") for _ in range(10)])
    worker = app._make_worker(app.settings, drain=True).start()
    assert worker.join(PATIENCE)
    assert {job.refresh().state for job in jobs} == {"completed"}


def test_a_worker_for_so_many_jobs_takes_no_more(app: Headrace, task: Register) -> None:
    @task(batch=4, within=LONG)
    def embed(texts: list[str]) -> None: ...

    jobs = app.enqueue_many([embed.bind("x") for _ in range(10)])
    worker = app._make_worker(app.settings, at_most=6).start()
    assert worker.join(PATIENCE)
    assert sorted(job.refresh().state for job in jobs) == ["completed"] * 6 + ["pending"] * 4


def test_several_threads_of_producers_lose_nothing(app: Headrace, task: Register) -> None:
    @task(batch=7, within=0.01)
    def embed(texts: list[int]) -> list[int | Exception]:
        return [
            OSError("away") if text % 5 == 0 and job.attempt == 1 else text
            for job, text in zip(current_jobs(), texts, strict=True)
        ]

    jobs: list[Job[int]] = []

    def produce(start: int) -> None:
        jobs.extend(embed.using(retry=Retry(limit=2, base=0.001, floor=0)).enqueue(start + n) for n in range(40))

    with app.worker(concurrency=2), app.worker(concurrency=1):
        threads = [threading.Thread(target=produce, args=(100 * n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(job.result(PATIENCE) for job in jobs) == sorted(100 * n + k for n in range(3) for k in range(40))
