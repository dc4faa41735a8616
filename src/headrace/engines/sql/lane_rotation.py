"""The next lane of a queue to serve, across the claims of a process."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headrace.core.queues.limits import ClaimOrder, LaneTurn, QueuedJob
from headrace.engines.shared.sql_files import as_json

_turns = msgspec.json.Decoder(dict[int, LaneTurn])
_served = msgspec.json.Decoder(dict[int, str])


class LaneRotation:
    """The position of a process in the lanes of a queue, kept in a dict of texts that outlives each claim.

    It holds for each priority level the lane served last; the lane to continue from, if there are more lanes than one
    claim reads; and where a search began that has found nothing so far, so that it ends when it is back there.
    """

    def __init__(self, cursors: dict[str, str], queue: str, order: ClaimOrder) -> None:
        self._cursors = cursors
        self._order = order
        names = ("turns", "begun", "at", "began")
        self._turns, self._begun, self._at, self._began = (as_json([queue, what]) for what in names)
        self.served = _served.decode(cursors.get(self._turns, "{}"))
        self.begun = _turns.decode(cursors.get(self._begun, "{}"))

    @property
    def where(self) -> tuple[str, str]:
        """The lane to begin after, and the lane to end with."""
        start = self._cursors.get(self._at, "")
        return start, self._cursors.get(self._began, start)

    def next_ones(self, lanes: Iterable[tuple[str, int]]) -> list[str]:
        """The lanes by the priority level of their most urgent job; equal ones from the next in turn on."""
        levels = ((level if self._order.uses_priority else 0, lane) for lane, level in lanes)
        return [lane for *_, lane in sorted((-level, lane <= self._last_at(level), lane) for level, lane in levels)]

    def serve(self, head: QueuedJob, weight: int = 1) -> None:
        """Count a start of the lane; its turn is over after as many as it has weight."""
        level = self._order.remembered_at(self._order.level_of(head))
        turn = self.begun.pop(level, None)
        starts = 1 + (turn.starts if turn is not None and turn.lane == head.lane else 0)
        if starts < weight:
            self.begun[level] = LaneTurn(head.lane, starts)
        else:
            self.served[level] = head.lane

    def store(self, last: str | None, found_nothing: bool) -> None:
        """`last` is the lane at which the claim stopped, None if it saw all lanes."""
        _, until = self.where
        self._cursors[self._turns] = as_json(self.served)
        self._cursors[self._begun] = as_json(self.begun)
        self._cursors.pop(self._began, None)
        if last is not None:
            self._cursors[self._at] = last
            if found_nothing:
                self._cursors[self._began] = until

    def _last_at(self, level: int) -> str:
        return self.served.get(self._order.remembered_at(level), "")
