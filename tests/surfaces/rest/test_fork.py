"""Forks of finished jobs over REST."""

from __future__ import annotations

from headrace import Headrace, current_job
from headrace.testing import drain
from tests.surfaces.rest.kit import Api


def test_a_finished_job_is_run_anew_from_a_step() -> None:
    with Headrace("memory://") as app:

        @app.task
        def report() -> list[str]:
            job = current_job()
            return [job.step(name, lambda: job.id) for name in ("read", "print")]

        api = Api(app.asgi(rate=None), headers={"x-requested-with": "x"})
        job = report.enqueue()
        kind, detail = api.refused("POST", f"/jobs/{job.id}/fork", 422, json={})
        assert (kind, detail) == ("invalid-job", f"job {job.id} is pending; only a finished job can be forked")
        drain(app)
        fork = api.ask("POST", f"/jobs/{job.id}/fork", json={"from_step": "print"}, status=201)
        assert (fork["state"], fork["task"]) == ("pending", "report")
        drain(app)
        assert app.jobs.get(fork["id"]).result() == [job.id, fork["id"]]
        assert [entry.what for entry in app.audit.list()][:1] == ["jobs.fork"]
        assert (
            "has no finished step 'mail'"
            in api.refused("POST", f"/jobs/{job.id}/fork", 422, json={"from_step": "mail"})[1]
        )
