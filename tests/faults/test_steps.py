"""kill -9 between steps and in the middle of them: what was done and stored is not done again."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace import QuestionNotFound
from tests.faults.test_kill import _app
from tests.support.plain_databases import connect, transaction
from tests.support.waiting import eventually

WITHIN = 30.0


def traces(folder: Path) -> list[str]:
    return (folder / "traces").read_text().split()


def _has_traces(folder: Path, count: int) -> bool:
    return len(traces(folder)) >= count


def test_a_job_killed_behind_each_of_its_steps_does_each_of_them_once(
    fleet: SimpleNamespace, url: str, tmp_path: Path
) -> None:
    with _app(url) as app:
        job = app.enqueue("journey", str(tmp_path))
        for name in ("one", "two", "three"):
            worker = fleet.start()
            eventually((tmp_path / f"behind-{name}").exists, what=f"step {name}")
            worker.kill()
            worker.wait()
            (tmp_path / f"on-from-{name}").touch()
        fleet.start()
        assert job.result(WITHIN) == ["one done", "two done", "three done"]
        assert traces(tmp_path) == ["one", "two", "three"]
        assert (job.attempt, job.row.crashes) == (4, 3)
        entries = [
            (str(entry.event), entry.message) for entry in job.history() if entry.event in ("step", "lease_expired")
        ]
        steps = [message for event, message in entries if event == "step"]
        assert steps == ["one", "two", "three"]
        assert [event for event, _ in entries] == ["step", "lease_expired"] * 3


def test_a_step_killed_in_its_middle_is_done_again_and_the_one_before_is_not(
    fleet: SimpleNamespace, url: str, tmp_path: Path
) -> None:
    with _app(url) as app:
        job = app.enqueue("cut_short", str(tmp_path))
        worker = fleet.start()
        eventually(lambda: (tmp_path / "traces").exists() and "two" in traces(tmp_path), what="the second step")
        worker.kill()
        worker.wait()
        (tmp_path / "go").touch()
        fleet.start()
        assert job.result(WITHIN) == ["one done", "two done"]
        assert traces(tmp_path) == ["one", "two", "two"]


@pytest.mark.slow
def test_a_storm_of_kills_repeats_no_step_that_was_stored(
    fleet: SimpleNamespace, url: str, tmp_path: Path, chance: random.Random
) -> None:
    names = [f"job{n}" for n in range(8)]
    with _app(url) as app:
        jobs = [app.enqueue("long_journey", str(tmp_path), name) for name in names]
        (tmp_path / "traces").touch()
        for _ in range(4):
            so_far = len(traces(tmp_path)) + chance.randint(5, 30)
            worker = fleet.start(concurrency=4)
            eventually(partial(_has_traces, tmp_path, so_far), what=f"step {so_far} of all")
            worker.kill()
            worker.wait()
        fleet.start(concurrency=8)
        assert all(app.signal(job, "arrive", n) for n, job in enumerate(jobs))
        assert [job.result(WITHIN) for job in jobs] == list(range(8))
        done, kills = Counter(traces(tmp_path)), 0
        for name, job in zip(names, jobs, strict=True):
            entries = (
                job.history()
            )  # and not row.crashes: these begin anew when a run comes back, as one that sleeps does
            hits = sum(entry.event == "lease_expired" for entry in entries)
            assert [entry.message for entry in entries if entry.event == "step"] == [str(n) for n in range(20)], (
                "each step counts once, and in its order"
            )
            repeated = sum(done[f"{name}-{n}"] - 1 for n in range(20))
            assert 0 <= repeated <= hits, "a kill costs at most the step that was under way"
            kills += hits
        assert kills >= 4, "a kill hit nobody"


@pytest.mark.slow
def test_jobs_whose_workers_are_killed_ask_each_question_until_it_is_answered_once(
    fleet: SimpleNamespace, url: str, chance: random.Random
) -> None:
    with _app(url) as app:
        jobs = [app.enqueue("interview", f"job{n}") for n in range(6)]
        answered: Counter[str] = Counter()

        def answer_all() -> bool:
            for question in app.questions.list():
                with contextlib.suppress(QuestionNotFound):  # the job has just gone on
                    app.questions.answer(question.job, int(question.text.split()[1]))
                    answered[question.text] += 1
            return sum(answered.values()) >= aim

        for kill in range(1, 4):
            aim = kill * 6 + chance.randint(0, 5)
            worker = fleet.start(concurrency=3)
            eventually(answer_all, what=f"{aim} answers")
            worker.kill()
            worker.wait()
        aim = 30
        fleet.start(concurrency=6)
        eventually(answer_all, what="all answers")
        assert [job.result(WITHIN) for job in jobs] == [[0, 1, 2, 3, 4]] * 6
        assert set(answered.values()) == {1}
        assert app.questions.list() == []


def test_jobs_whose_workers_are_killed_are_undone_once_and_in_reverse_order(
    fleet: SimpleNamespace, url: str, tmp_path: Path, chance: random.Random
) -> None:
    with _app(url) as app:
        jobs = [app.enqueue("tour", str(tmp_path), f"job{n}") for n in range(8)]
        (tmp_path / "traces").touch()
        for kill in range(1, 5):  # some in the steps, some in the compensations
            worker = fleet.start(concurrency=4)
            eventually(partial(_has_traces, tmp_path, kill * 18 + chance.randint(0, 6)), what=f"kill {kill}")
            worker.kill()
            worker.wait()
        fleet.start(concurrency=8)
        for number, job in enumerate(jobs):
            eventually(lambda job=job: job.refresh().state == "failed", what="the failure")  # type: ignore[misc]
            children = {str(child.args[1]): child for child in job.children()}
            names = [f"no-job{number}-{n}" for n in reversed(range(6))]
            assert sorted(str(child.args[1]) for child in job.children()) == sorted(names), "one job undoes each step"
            for name in names:
                children[name].result(WITHIN)
            ends = [children[name].refresh().finished_at for name in names]
            assert ends == sorted(ends), "the last step is undone first"  # type: ignore[type-var]
            for name in names:
                claims = sum(entry.event == "claim" for entry in children[name].history())
                assert 1 <= traces(tmp_path).count(name) <= claims, "only a kill repeats a compensation"


@pytest.mark.slow
@pytest.mark.engines("sqlite", "postgres")
def test_writes_in_the_transaction_of_a_step_are_there_exactly_once_though_workers_are_killed(
    fleet: SimpleNamespace, url: str, chance: random.Random
) -> None:
    with _app(url) as app, contextlib.closing(connect(url)) as db:
        app.queues()  # the store has its tables
        with transaction(db):
            db.execute("DROP TABLE IF EXISTS bookings")
            db.execute("CREATE TABLE bookings (number integer)")
        jobs = [app.enqueue("book", number) for number in range(60)]

        def booked() -> list[int]:
            with transaction(db):
                return [number for (number,) in db.execute("SELECT number FROM bookings").fetchall()]

        for kill in range(1, 5):
            worker = fleet.start(concurrency=4)
            aim = kill * 10 + chance.randint(0, 4)
            eventually(lambda aim=aim: len(booked()) >= aim, what=f"{aim} bookings")  # type: ignore[misc]
            worker.kill()
            worker.wait()
        fleet.start(concurrency=4)
        assert [job.result(WITHIN) for job in jobs] == list(range(60))
        assert sorted(booked()) == list(range(60))
        assert sum(job.row.crashes for job in jobs) >= 1, "a kill hit nobody"
