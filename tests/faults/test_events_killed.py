"""kill -9 of workers: every end of a job that counts is told exactly once, and for each job in its order."""

from __future__ import annotations

import importlib
import random
import time
from collections import defaultdict
from types import SimpleNamespace

import pytest

from headrace import Headrace
from tests.faults import worker_app as crew_app
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.slow

RANK = {"job.enqueued": 0, "job.started": 1, "job.stalled": 2, "job.released": 2, "job.completed": 3}


def test_a_storm_of_kills_leaves_one_true_story_of_each_job(
    fleet: SimpleNamespace, url: str, chance: random.Random
) -> None:
    jobs = 1000
    app: Headrace = importlib.reload(crew_app).app
    with app:
        touch = app.task_by_name("touch")
        stored = app.enqueue_many([touch.bind(n) for n in range(jobs)])
        workers = [fleet.start(concurrency=4) for _ in range(3)]
        deadline, kills, before = time.monotonic() + PATIENCE, 0, 0
        while (done := app.jobs.count(state="completed")) < jobs:
            assert time.monotonic() < deadline, app.queues()
            if done < before + 150:  # whoever kills them while they start sees none of them at work
                time.sleep(0.01)
                continue
            before = done
            victim = chance.randrange(3)
            workers[victim].kill()
            workers[victim].wait()
            workers[victim] = fleet.start(concurrency=4)
            kills += 1
        assert kills >= 2, "the storm was over before it began"

        stories: dict[str | None, list[str]] = defaultdict(list)
        last_cursor = ""
        for event in app.events(follow=False, types="job.*"):
            stories[event.job_id].append(event.type)
            last_cursor = event.cursor
        assert stories.keys() == {job.id for job in stored}
        for job_id, story in stories.items():
            assert story.count("job.enqueued") == story.count("job.completed") == 1, (job_id, story)
            assert (story[0], story[-1]) == ("job.enqueued", "job.completed"), (job_id, story)
            assert story[-2] == "job.started", "who told the end told the start with it"
            assert story.count("job.started") <= 1 + story.count("job.stalled") + story.count("job.released")
        assert next(app.events(last_cursor, follow=False, types="job.*"), None) is None
        eventually(lambda: any(app.events(follow=False, types="worker.lost")), what="word of a lost worker")
