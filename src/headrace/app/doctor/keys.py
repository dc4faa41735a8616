"""Findings about encrypted jobs and the keys of this app."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headrace.app.app import Headrace
from headrace.core.codec.encryption import key_of, names_of
from headrace.core.codec.payload_refs import is_reference
from headrace.core.health.findings import Finding

_CHECKED = 200  # newest jobs checked


def findings(app: Headrace) -> Iterator[Finding]:
    """Whether recent jobs can be decrypted here, and are encrypted if they should be."""
    known_keys = names_of(app.settings.encryption_keys)
    payloads = [job.row.payload for job in app.jobs.find(limit=_CHECKED, whole=True)]
    used = Counter(key_of(payload) for payload in payloads if not is_reference(payload))
    for name, jobs in used.items():
        if name is not None and name not in known_keys:
            yield Finding(
                code="key_missing",
                sentence=f"{jobs} of the newest jobs are encrypted with key {name!r}, which this app does not have",
                advice="add the key to encryption_keys; without it, the jobs fail",
                count=jobs,
            )
    if known_keys and used[None]:
        yield Finding(
            code="not_encrypted",
            sentence=f"{used[None]} of the newest jobs are not encrypted",
            advice="if new ones appear, a program enqueues without encryption_keys",
            count=used[None],
            note=True,
        )
