"""Findings about encrypted jobs and the keys of this app."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headrace.app.app import Headrace
from headrace.core.codec.encryption import key_of, names_of
from headrace.core.health.findings import Finding

_LOOKED_AT = 200  # newest jobs checked


def findings(app: Headrace) -> Iterator[Finding]:
    """Whether recent jobs can be decrypted here, and are encrypted if they should be."""
    here = names_of(app.settings.encryption_keys)
    used = Counter(key_of(job.row.payload) for job in app.jobs.find(limit=_LOOKED_AT, whole=True))
    for name, jobs in used.items():
        if name is not None and name not in here:
            yield Finding(
                code="key_missing",
                sentence=f"{jobs} of the newest jobs are encrypted with key {name!r}, which is not here",
                advice="add it to encryption_keys, or they fail",
                count=jobs,
            )
    if here and used[None]:
        yield Finding(
            code="not_encrypted",
            sentence=f"{used[None]} of the newest jobs are not encrypted",
            advice="if that goes on, some program enqueues without encryption_keys",
            count=used[None],
            note=True,
        )
