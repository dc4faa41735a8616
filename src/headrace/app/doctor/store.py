"""Findings about the store: a copy, the archive, dead letters."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.app.app import Headrace
from headrace.core.health.findings import Finding
from headrace.core.jobs.transfer import StoreStatus
from headrace.errors import HeadraceError
from headrace.runtime.retention.last_run import last_run


def findings(app: Headrace) -> Iterator[Finding]:
    if (store_status := app.engine.transfer.store_status()) is not None:
        yield _of_move(store_status)
    yield from _of_archive(app)
    if waiting := app.dead.count():
        yield Finding(
            code="dead_letters",
            sentence=f"{'1 dead letter is' if waiting == 1 else f'{waiting} dead letters are'} pending",
            advice="inspect them with `headrace dead groups`",
            count=waiting,
            note=True,
        )


def _of_move(store_status: StoreStatus) -> Finding:
    if store_status.kind == "moved":
        return Finding(
            code="store_moved",
            sentence=f"the jobs of this store were copied to {store_status.other}; it accepts and starts no jobs",
            advice="set `url` to the new store, or reopen this one with `headrace copy --reopen`",
        )
    return Finding(
        code="store_filling",
        sentence=f"this store is being filled from {store_status.other}: its workers start when `headrace copy` ends",
        advice="if the copy was interrupted, run the same command again",
        note=True,
    )


def _of_archive(app: Headrace) -> Iterator[Finding]:
    try:
        app.jobs.find(archived=True, ids=["none"], limit=1)
    except HeadraceError as error:
        yield Finding(
            code="archive_unreadable",
            sentence=f"the archive can't be read, and finished jobs stay in the store: {error}",
            advice="repair it, or set `archive_url` to another one",
        )
        return
    if (last := last_run(app.engine.document_store)) is not None and last.error is not None:
        yield Finding(
            code="archive_failed",
            sentence=f"finished jobs could not be archived and stay in the store: {last.error}",
            advice="try again with `headrace archive --apply`",
        )
