"""`headrace jobs fork` runs a finished job anew from a step."""

from __future__ import annotations

from headrace import current_job
from headrace.testing import drain
from tests.support.command_line import Shell


def test_a_job_is_forked_at_a_step(shell: Shell) -> None:
    with shell.app() as app:

        @app.task
        def report() -> list[str]:
            job = current_job()
            return [job.step(name, lambda: job.id) for name in ("read", "print")]

        job = report.using(job_id="july").enqueue()
        assert "only a finished job can be forked" in shell("jobs", "fork", "july").err
        drain(app)
        forked = shell("jobs", "fork", "july", "--from-step", "print", "--json").json
        assert forked["from_step"] == "print"
        drain(app)
        assert app.jobs.get(forked["id"]).result() == ["july", forked["id"]]
        assert shell("jobs", "fork", "july").out.endswith(" enqueued\n")
        ran = shell("jobs", "fork", "july", "--from-step", "mail")
        assert (ran.code, ran.err) == (
            2,
            "error: from_step: job july has no finished step 'mail'; it has 'read', 'print'\n",
        )
        assert job.id == "july"
