"""Findings about the payload store and the payloads of recent jobs."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.app.app import Headrace
from headrace.core.codec.payload_refs import PayloadRef, reference_in
from headrace.core.damaged_records import read_or
from headrace.core.health.findings import Finding
from headrace.core.text import counted
from headrace.errors import PayloadStoreUnavailable

_CHECKED = 200  # newest jobs checked
_EXAMPLES = 5
_ONE, _MANY = "payload of the newest jobs ", "payloads of the newest jobs "


def findings(app: Headrace) -> Iterator[Finding]:
    """Whether the payload store can be reached and has the payloads of recent jobs."""
    used = {
        (job.id, ref)
        for job in app.jobs.find(limit=_CHECKED, whole=True)
        for text in (job.row.payload, job.row.result)
        if text and (ref := read_or(reference_in, text, None)) is not None
    }
    payloads = app.services.payloads
    if payloads is None or payloads.files is None:
        if used:
            yield Finding(
                code="payload_store_missing",
                sentence=f"{counted(len(used), _ONE + 'is', _MANY + 'are')} in a payload store, and none is set here",
                advice="set payload_store; without it, the jobs fail",
                count=len(used),
            )
        return
    try:
        for space in payloads.spaces():
            payloads.ensure_reachable(space)
        missing = [(job_id, ref) for job_id, ref in sorted(used, key=_path) if not payloads.has(ref)]
    except PayloadStoreUnavailable as error:
        yield Finding(
            code="payload_store_unavailable",
            sentence=str(error),
            advice="until it is back, jobs with large arguments wait, and larger calls than max_payload are refused",
        )
        return
    if missing:
        yield Finding(
            code="payload_missing",
            sentence=f"{counted(len(missing), _ONE + 'is', _MANY + 'are')} missing from the payload store",
            advice="restore the files from a backup, or enqueue these jobs again",
            count=len(missing),
            examples=tuple(job_id for job_id, _ in missing[:_EXAMPLES]),
        )


def _path(used: tuple[str, PayloadRef]) -> str:
    return used[1].path
