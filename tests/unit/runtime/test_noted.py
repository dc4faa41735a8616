"""What a run reports becomes events: the last progress of a commit, and every log line."""

from __future__ import annotations

from headrace.core.jobs.records import Claim, JobNote
from headrace.runtime.worker.events import noted

CLAIM = Claim("job", 7, "task", "default", 0, 5, 1, 4, "{}", 0, 0, 0, 0, 0, None, None)


def test_of_several_reports_of_progress_in_one_commit_the_last_is_an_event() -> None:
    notes = [
        *(JobNote("job", 5, at, progress=text) for at, text in ((1, "0.1"), (2, "0.2"))),
        *(JobNote("job", 5, at, level="info", message=text) for at, text in ((3, "one"), (4, "two"))),
        JobNote("job", 5, 5, progress="0.3"),
        JobNote("gone", 5, 5, progress="1"),
    ]
    found = [(group.type, group.at, group.data) for group in noted(notes, {CLAIM.lease: CLAIM}, "w")]
    assert found == [
        ("job.progress", 5, [{"progress": 0.3}]),
        ("job.log", 3, [{"level": "info", "message": "one"}]),
        ("job.log", 4, [{"level": "info", "message": "two"}]),
    ]
