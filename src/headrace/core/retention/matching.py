"""Whether a job that is in no index matches a filter: one in a dead letter, an archive or a spool."""

from __future__ import annotations

from headrace.core.codec.encryption import MARK as SEALED
from headrace.core.codec.payload_refs import MARK as STORED
from headrace.core.damaged_records import stored_tags
from headrace.core.jobs.records import Filter, JobRow


def matches(which: Filter, job: JobRow) -> bool:
    """Whether the job matches, as in a store."""
    fields = ("queue", "task", "worker", "flow")
    return (
        (not which.ids or job.id in which.ids)
        and (not which.states or job.state in which.states)
        and all(getattr(which, name) in (None, getattr(job, name)) for name in fields)
        and (which.tag is None or which.tag in stored_tags(job.tags))
        and (which.since is None or job.created_at >= which.since)
        and (which.until is None or job.created_at < which.until)
        and (which.text is None or any(which.text in text for text in _texts(job)))
    )


def _texts(job: JobRow) -> list[str]:
    payload = "" if job.payload.startswith((SEALED, STORED)) else job.payload
    return [job.id, job.task, payload, job.reason or "", job.metadata or ""]
