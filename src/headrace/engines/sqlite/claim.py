"""Claims of a worker: first up to each queue's share, then, if capacity is left, from any queue that has more."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from headrace.core.jobs.records import Claim, ClaimRequest
from headrace.engines.shared.damaged_records import Rows
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql.limited_claim import LimitedClaim, RulesSnapshot
from headrace.engines.sqlite.statements import SQL
from headrace.engines.sqlite.transaction import SqliteTransaction
from headrace.engines.sqlite_file.database import scalar

_claims = Rows(Claim)


class ClaimRun:
    """One claim of one worker, in a write transaction."""

    def __init__(
        self, db: sqlite3.Connection, want: ClaimRequest, snapshot: RulesSnapshot, cursors: dict[str, str], now: int
    ) -> None:
        self._db = db
        self._want = want
        self._snapshot = snapshot
        self._cursors = cursors
        self._now = now
        self._limited: LimitedClaim | None = None
        self._taken: dict[str, int] = {}  # jobs chosen and not yet started, by queue; -1 if it has no more
        self._chosen: list[int] = []

    @property
    def next_at(self) -> int | None:
        """When a limit will allow more."""
        return None if self._limited is None else self._limited.next_at

    def claim_all(self, queues: Sequence[str]) -> list[Claim]:
        """Claim from these queues, which have pending jobs: a store may know thousands that have none."""
        want = self._want
        claims: list[Claim] = []
        self._taken = dict.fromkeys(queues, 0)
        shares = [(share.queue, share.quota) for share in want.shares if share.queue in self._taken]
        shared = dict.fromkeys(queue for queue, _ in shares)
        rest = [(queue, want.limit) for queue in (*shared, *(queues if want.others else ())) if queue in self._taken]
        for queue, quota in (*shares, *rest):
            free_slots = min(quota, want.limit - len(claims))
            if free_slots <= 0 or self._taken[queue] < 0:
                continue
            found = None if self._snapshot.needs_limits(queue, want) else self._in_order(queue, free_slots)
            if found is None:
                self._start_chosen()
                found = self._limited_claim().claim(queue, free_slots)
            else:
                self._chosen += [claim.ref for claim in found]
                self._taken[queue] += len(found)
            claims += found
            if len(found) < free_slots:
                self._taken[queue] = -1
        self._start_chosen()
        if self._limited is not None:
            self._limited.store_rates()
        return claims

    def _start_chosen(self) -> None:
        if self._chosen:
            values = {"worker": self._want.worker, "now": self._now, "until": self._now + self._want.lease}
            self._db.execute(SQL["claim"], {**values, "refs": as_json(self._chosen)})
            self._taken = {queue: min(taken, 0) for queue, taken in self._taken.items()}
            self._chosen = []

    def _in_order(self, queue: str, free_slots: int) -> list[Claim] | None:
        """The first jobs of the queue; None if the worker does not know the task of one."""
        where = {"queue": queue, "limit": free_slots, "skip": self._taken[queue]}
        found, known = _claims.decode(scalar(self._db, SQL["claimable"], where)), self._want.known
        if known is not None and any(task not in known for task in {claim.task for claim in found}):
            return None
        return found

    def _limited_claim(self) -> LimitedClaim:
        if self._limited is None:
            self._limited = LimitedClaim(
                SqliteTransaction(self._db), self._snapshot, self._want, self._cursors, self._now
            )
        return self._limited
