"""The page of a finished job runs it anew from one of its steps."""

from __future__ import annotations

from headrace import Headrace, current_job
from headrace.testing import drain
from tests.surfaces.web.client import Client
from tests.surfaces.web.test_pages import FORM


def test_each_step_of_a_finished_job_has_a_button() -> None:
    with Headrace("memory://") as app:

        @app.task
        def report() -> list[str]:
            job = current_job()
            return [job.step(name, lambda: job.id) for name in ("read", '"><b>')]

        client = Client(app.asgi(), headers={**FORM, "x-requested-with": "test"})
        job = report.enqueue()
        drain(app)
        page = client.get(f"/jobs/{job.id}").text
        assert page.count("Run anew from here") == 2
        assert 'value="&#34;&gt;&lt;b&gt;"' in page
        answer = client.post(f"/jobs/{job.id}/fork", data={"from_step": '"><b>'}).json()
        assert answer["ok"], answer
        drain(app)
        [fork] = [one for one in app.jobs.find() if one.id != job.id]
        assert answer["goto"] == f"/jobs/{fork.id}"
        assert fork.result() == [job.id, fork.id]
        viewer = Client(app.asgi(read_only=True))
        assert "Run anew from here" not in viewer.get(f"/jobs/{job.id}").text
