"""The arguments of a job as lists show them: by name, redacted, and without reading more than the list has read."""

from __future__ import annotations

from typing import Any

from headrace.core.codec import encryption
from headrace.core.codec.payload_refs import is_reference
from headrace.core.jobs.light_rows import lacks_payload
from headrace.core.tasks.arguments import MAX_LINE, line_of
from headrace.errors import HeadraceError
from headrace.runtime.jobs.job import Job

LONG, ENCRYPTED, UNREADABLE = "…", "encrypted", "unreadable"


def arguments_in_list(job: Job[Any]) -> dict[str, Any] | str:
    """The arguments, or why a list does not show them: they are long, encrypted or unreadable."""
    row = job.row
    if lacks_payload(row) or is_reference(row.payload):
        return LONG
    if encryption.key_of(row.payload) is not None:
        return ENCRYPTED
    try:
        return job.redacted_arguments()
    except HeadraceError:
        return UNREADABLE


def arguments_line(job: Job[Any], limit: int = MAX_LINE) -> str:
    """The same in one line: `order_id=40199, note="x"`."""
    found = arguments_in_list(job)
    return found if isinstance(found, str) else line_of(found, limit)
