"""Converts wall-clock times of a cron expression to instants. Owns the daylight saving rules; knows no schedule.

Clocks go forward: the wall-clock times in between never occur. `gap="shift"` runs them as much later as the clocks were
moved (02:30 becomes 03:30), `gap="skip"` leaves them out. Clocks go back: some wall-clock times occur twice; `overlap`
picks the "first", the "last" or "both". Two wall-clock times at one instant are one occurrence.

An expression that fires in every hour (`*/15 * * * *`, `0 * * * *`, hours `0-23`) means an interval and not a time of
day. Neither rule applies to it: it fires whenever the wall clock shows a time that matches. So it keeps its interval in
a repeated hour, and no run moves into an hour where it fires anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import takewhile
from typing import Literal, NamedTuple

from msgspec import Struct

from headrace.core.schedules.cron import Cron
from headrace.core.schedules.zones import FARTHEST_CHANGE, OffsetPeriod, period_at

Gap = Literal["shift", "skip"]
Overlap = Literal["first", "last", "both"]

# An expression may match only times that the rules leave out, such as the missing hour each spring.
_GIVE_UP_AFTER = 50 * 366 * 86_400_000
_LAST_INSTANT = 253_000_000_000_000  # in the year 9987


class ZonedCron(Struct, frozen=True):
    """An expression in one time zone."""

    cron: Cron
    zone: str
    gap: Gap
    overlap: Overlap

    def rising(self, after: int) -> Iterator[int]:
        """The instants later than `after`, strictly rising. Ends when none comes for fifty years."""
        moment, deadline = after + 1, after + _GIVE_UP_AFTER
        while moment <= min(deadline, _LAST_INSTANT):
            period = period_at(self.zone, moment)
            for instant in _each_once(merge(*(_up(self.cron, span, moment) for span in self._spans(period)))):
                deadline = instant + _GIVE_UP_AFTER
                yield instant
            # Straight to where the expression matches next, instead of through every period until then.
            nearby = next(self.cron.rising(period.end + period.offset - FARTHEST_CHANGE), None)
            if nearby is None:
                return
            moment = max(period.end, nearby - period.offset - FARTHEST_CHANGE)

    def falling(self, before: int, floor: int) -> Iterator[int]:
        """The instants of floor <= instant < before, the latest first."""
        moment = before - 1
        while moment >= max(floor, 0):
            period = period_at(self.zone, moment)
            down = merge(*(_down(self.cron, span, moment) for span in self._spans(period)), reverse=True)
            yield from takewhile(lambda instant: instant >= floor, _each_once(down))
            nearby = next(self.cron.falling(period.start + period.offset + FARTHEST_CHANGE), None)
            if nearby is None:
                return
            moment = min(period.start - 1, nearby - period.offset + FARTHEST_CHANGE)

    def count(self, first: int, end: int) -> int:
        """How many instants lie in first <= instant < end; runs that a gap moved to one instant count each."""
        total = 0
        while first < end:
            period = period_at(self.zone, first)
            for span in self._spans(period):
                low, high = max(span.first, first + span.offset), min(span.end, end + span.offset)
                total += self.cron.count(low, high)
            first = period.end
        return total

    def _spans(self, period: OffsetPeriod) -> list[LocalSpan]:
        first, end = period.start + period.offset, period.end + period.offset
        if self.cron.every_hour:
            return [LocalSpan(first, end, period.offset)]
        if self.overlap == "first":
            first = max(first, period.start + period.offset_before)
        elif self.overlap == "last":
            end = min(end, period.end + period.offset_after)
        spans = [LocalSpan(first, end, period.offset)]
        if self.gap == "shift" and period.offset_before < period.offset:
            # By the old offset, the missing wall times are instants of the new period.
            missing = period.start + period.offset_before, period.start + period.offset
            spans.append(
                LocalSpan(missing[0], min(missing[1], period.end + period.offset_before), period.offset_before)
            )
        return spans


class LocalSpan(NamedTuple):
    """The wall times first <= wall < end, to be read with this offset."""

    first: int
    end: int
    offset: int


def _up(cron: Cron, span: LocalSpan, moment: int) -> Iterator[int]:
    """The instants of the span from `moment` on."""
    for wall in cron.rising(max(span.first, moment + span.offset) - 1):
        if wall >= span.end:
            return
        yield wall - span.offset


def _down(cron: Cron, span: LocalSpan, moment: int) -> Iterator[int]:
    """The instants of the span from `moment` back."""
    for wall in cron.falling(min(span.end, moment + 1 + span.offset)):
        if wall < span.first:
            return
        yield wall - span.offset


def _each_once(instants: Iterable[int]) -> Iterator[int]:
    last: int | None = None
    for instant in instants:
        if instant != last:
            yield instant
        last = instant
