"""A job that was past a place before its code was changed does not run the changed code."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import Headrace, InvalidJob, Retry, State, current_job
from headrace.testing import drain

ONCE = Retry(limit=5, backoff="fixed", base=60, jitter=0)


class Release:
    """A task whose code is changed while its jobs are under way."""

    def __init__(self, app: Headrace) -> None:
        self.number = 1
        self.done: list[str] = []
        self.fails = True
        self.task: Any = app.task(name="ship", retry=ONCE)(self._ship)
        self.atask: Any = app.task(name="aship", retry=ONCE)(self._aship)

    def _end(self) -> None:
        if self.fails:
            raise OSError("away")

    def _ship(self) -> None:
        job = current_job()
        job.step("pack", self.done.append, "pack")
        if self.number == 2 and job.patched("weigh"):
            job.step("weigh", self.done.append, "weigh")
        job.step("label", self.done.append, "label")
        self._end()

    async def _aship(self) -> None:
        job = current_job()
        await job.astep("pack", self.done.append, "pack")
        if self.number == 2 and await job.apatched("weigh"):
            await job.astep("weigh", self.done.append, "weigh")
        await job.astep("label", self.done.append, "label")
        self._end()


@pytest.fixture
def release(app: Headrace) -> Release:
    return Release(app)


def test_a_job_that_was_past_it_keeps_to_the_old_code(app: Headrace, release: Release, kind: str) -> None:
    job = (release.atask if kind == "async" else release.task).enqueue()
    drain(app)
    release.number = 2
    for _ in range(2):
        assert job.refresh().state is State.RETRYING
        assert job.promote()
        drain(app)
    assert release.done == ["pack", "label"]


def test_a_new_job_runs_the_changed_code_in_each_of_its_runs(app: Headrace, release: Release, kind: str) -> None:
    release.number = 2
    job = (release.atask if kind == "async" else release.task).enqueue()
    drain(app)
    assert release.done == ["pack", "weigh", "label"]
    release.fails = False
    assert job.promote()
    drain(app)
    assert job.refresh().state is State.COMPLETED
    assert release.done == ["pack", "weigh", "label"]
    assert [entry.message for entry in job.history() if entry.event == "patch"] == ["weigh"]


def test_a_job_that_is_before_it_runs_the_changed_code(app: Headrace, release: Release) -> None:
    @app.task(name="waits", retry=ONCE)
    def waits() -> list[bool]:
        job = current_job()
        job.step("pack", release.done.append, "pack")
        job.wait_event("paid", timeout=600, ask="Paid?")
        if release.number == 1:
            return []
        return [job.patched("weigh"), job.patched("weigh")]

    job = waits.enqueue()
    drain(app)
    release.number = 2
    assert app.signal(job, "paid", True)
    drain(app)
    assert job.result() == [True, True]


def test_a_sleep_that_is_still_ahead_counts(app: Headrace, release: Release) -> None:
    seen: list[bool] = []

    @app.task(name="naps", retry=ONCE)
    def naps() -> None:
        job = current_job()
        if release.number == 2:
            seen.append(job.patched("weigh"))
        job.sleep(3600)

    job = naps.enqueue()
    drain(app)
    release.number = 2
    assert job.promote()
    drain(app)
    assert seen == [False]


def test_a_patch_needs_a_name(app: Headrace) -> None:
    @app.task(name="nameless", retry=0)
    def nameless() -> str:
        with pytest.raises(InvalidJob) as refused:
            current_job().patched("")
        return str(refused.value)

    job = nameless.enqueue()
    drain(app)
    assert "patch" in job.result()


def test_a_question_that_was_asked_counts(app: Headrace, release: Release) -> None:
    @app.task(name="asks", retry=ONCE)
    def asks() -> list[bool]:
        job = current_job()
        seen = [job.patched("weigh")] if release.number == 2 else []
        job.wait_event("paid", ask="Paid?")
        return seen

    job = asks.enqueue()
    drain(app)
    release.number = 2
    assert app.signal(job, "paid", True)
    drain(app)
    assert job.result() == [False]
