"""Where metrics lie on the shelf: buckets of time, how wide they are, and the keys of what is in them.

A bucket of ten seconds, of a minute or of an hour begins at a multiple of its width, in UTC. The bucket `EVER` holds
everything since the beginning. One paper is all of one queue in one bucket; the workers of a bucket are one paper, and
so are its gauges. A key begins with the bucket's time, so that what is older than a moment goes in one sweep.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from msgspec import Struct

from headrace.core.clock import to_ms
from headrace.core.settings.settings import Settings
from headrace.errors import InvalidJob

Section = Literal["q", "w", "g", "a"]  # of a queue, of the workers, gauges, of the archive


class Resolution(Struct, frozen=True):
    """How long a bucket is, in milliseconds, and the kind of its papers."""

    kind: str
    span: int

    def start(self, at: int) -> int:
        """When the bucket of this moment begins."""
        return at // self.span * self.span if self.span else 0

    def starts(self, since: int, until: int) -> range:
        """The beginnings of the buckets that hold anything of since <= moment <= until."""
        return range(self.start(since), until + 1, self.span) if self.span else range(1)


TEN_SECONDS: Final = Resolution("metrics.10s", 10_000)
MINUTE: Final = Resolution("metrics.1m", 60_000)
HOUR: Final = Resolution("metrics.1h", 3_600_000)
EVER: Final = Resolution("metrics.ever", 0)
TIMED: Final = (TEN_SECONDS, MINUTE, HOUR)
ALL: Final = (*TIMED, EVER)

MARKS: Final = "~metrics"  # how far pages were folded and when gauges were read, in this very store
DAY: Final = 86_400_000
_DIGITS = 10  # of seconds since 1970: until 2286


def key(start: int, section: Section, name: str = "") -> str:
    """The key of a paper in the bucket that begins then."""
    return f"{start // 1000:0{_DIGITS}d}/{section}/{name}"


def range_of(start: int) -> str:
    """All keys of this bucket and of later ones are equal to this or behind it."""
    return f"{start // 1000:0{_DIGITS}d}"


def parsed(text: str) -> tuple[int, str, str]:
    """Beginning, section and name of a key."""
    start, section, name = text.split("/", 2)
    return int(start) * 1000, section, name


def kept_since(settings: Settings, now: int) -> Iterator[tuple[Resolution, int | None]]:
    """For each width, the beginning of the oldest bucket that is still kept; None where all are."""
    kept = (settings.metrics_keep_fine, settings.metrics_keep_minutes, settings.metrics_keep_hours)
    for width, seconds in zip(TIMED, kept, strict=True):
        yield width, None if seconds is None else width.start(max(now - to_ms(seconds), 0))


# -- which buckets to read

_MOST_POINTS = 5000
# The longest window for which each step is the usual one: some hundred points whatever the window.
_USUAL_STEPS = (
    (15 * 60_000, 10_000),
    (2 * 3_600_000, 60_000),
    (12 * 3_600_000, 300_000),
    (7 * DAY, 3_600_000),
)


def usual_step(window: int) -> int:
    """How far apart the points of a series over so long a time are, if nobody says."""
    return next((step for longest, step in _USUAL_STEPS if window <= longest), DAY)


def checked_step(step: int, window: int) -> int:
    """A step that buckets can be added up to, and that makes a bearable number of points."""
    if step < TEN_SECONDS.span or step % TEN_SECONDS.span:
        raise InvalidJob(f"step: {step / 1000:g} seconds is not a multiple of 10, which is the finest there is")
    if window // step > _MOST_POINTS:
        raise InvalidJob(f"step: {step / 1000:g} seconds over this window makes more than {_MOST_POINTS} points")
    return step


def width_for(step: int) -> Resolution:
    """The widest buckets that a step can be made of."""
    return next(width for width in reversed(TIMED) if step % width.span == 0)


def width_within(window: int) -> Resolution:
    """The buckets to add up for one figure over the last so many milliseconds: fine enough, and not too many."""
    return TEN_SECONDS if window <= 15 * 60_000 else MINUTE if window <= 6 * 3_600_000 else HOUR


def since(width: Resolution, window: int, now: int) -> int:
    """Where a window begins that is over now: at the beginning of a bucket, and never later than it should."""
    return width.start(max(now - max(window, width.span), 0))
