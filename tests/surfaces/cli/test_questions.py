"""`headrace questions` lists what jobs ask, and answers it."""

from __future__ import annotations

from headrace import current_job
from headrace.testing import drain
from tests.support.command_line import Shell


def test_a_question_is_listed_and_answered(shell: Shell) -> None:
    with shell.app() as app:

        @app.task
        def pay() -> bool:
            answer: bool = current_job().wait_event("approval", ask="Pay 7?", to="finance")
            return answer

        app.queues()  # creates the store
        assert shell("questions").err == "no job waits for an answer\n"
        job = pay.using(job_id="pay-7").enqueue()
        drain(app)
        row = shell("questions").out.splitlines()[1].split()
        assert (row[:3], row[4:]) == (["pay-7", "pay", "finance"], ["Pay", "7?"])
        assert [one["text"] for one in shell("questions", "list", "--to", "finance", "--json").json] == ["Pay 7?"]
        assert shell("questions", "list", "--to", "ann", "--json").json == []
        ran = shell("questions", "answer", "pay-7", '"yes"')
        assert (ran.code, ran.err) == (2, "error: answer: expected boolean, got 'yes'\n")
        assert "not valid JSON" in shell("questions", "answer", "pay-7", "yes").err
        ran = shell("questions", "answer", "pay-7", "true", "--by", "ann")
        assert (ran.code, ran.out) == (0, "job pay-7 has its answer; it is pending\n")
        assert "does not wait for this answer" in shell("questions", "answer", "pay-7", "true").err
        drain(app)
        assert job.result() is True
        assert [entry.who for entry in app.audit.list()] == ["ann"]
