"""An interrupted task leaves the store of its process usable, wherever in a call of the store it was."""

from __future__ import annotations

from headrace import Headrace, current_job
from tests.support.waiting import PATIENCE


def test_jobs_that_use_the_store_around_their_timeout_leave_it_usable(app: Headrace) -> None:
    child = app.task(name="child", queue="other")(lambda: None)

    @app.task(timeout=0.02, retry=0, interrupt=True)
    def busy() -> None:
        while True:
            job = child.enqueue()
            app.enqueue_many([child.bind(), child.bind()])
            assert job.refresh().state == "pending"
            current_job().log("one more")
            current_job().heartbeat()

    with app.worker(concurrency=3, queues=["default"]):
        jobs = [busy.enqueue() for _ in range(30)]
        assert {job.wait(PATIENCE) for job in jobs} == {"failed"}
        assert {error.type for job in jobs for error in job.errors} == {"JobTimeout"}
    assert child.enqueue().refresh().state == "pending"
