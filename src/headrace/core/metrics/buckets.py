"""Metric buckets in the document store: their widths and their keys.

A bucket of ten seconds, of a minute or of an hour begins at a multiple of its width, in UTC. The bucket `EVER` holds
everything since the beginning. One document is all of one queue in one bucket; the workers of a bucket are one
document, and so are its gauges. A key begins with the bucket's time, so that old ones are removed in one statement.
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
    """The width of a bucket in milliseconds, and the kind of its documents."""

    kind: str
    span: int

    def start(self, at: int) -> int:
        """When the bucket of this moment begins."""
        return at // self.span * self.span if self.span else 0

    def starts(self, since: int, until: int) -> range:
        """The starts of the buckets that overlap since <= moment <= until."""
        return range(self.start(since), until + 1, self.span) if self.span else range(1)


TEN_SECONDS: Final = Resolution("metrics.10s", 10_000)
MINUTE: Final = Resolution("metrics.1m", 60_000)
HOUR: Final = Resolution("metrics.1h", 3_600_000)
EVER: Final = Resolution("metrics.ever", 0)
TIMED: Final = (TEN_SECONDS, MINUTE, HOUR)
ALL: Final = (*TIMED, EVER)

MARKS: Final = "~metrics"  # the last page of the rollup and the time of the last gauges, in this store
DAY: Final = 86_400_000
_DIGITS = 10  # of seconds since 1970: until 2286


def key(start: int, section: Section, name: str = "") -> str:
    """The key of a document in the bucket that begins then."""
    return f"{start // 1000:0{_DIGITS}d}/{section}/{name}"


def range_of(start: int) -> str:
    """The lower bound of all keys of this bucket and of later ones."""
    return f"{start // 1000:0{_DIGITS}d}"


def parsed(text: str) -> tuple[int, str, str]:
    """Start, section and name of a key."""
    start, section, name = text.split("/", 2)
    return int(start) * 1000, section, name


def kept_since(settings: Settings, now: int) -> Iterator[tuple[Resolution, int | None]]:
    """For each width, the start of the oldest bucket to keep; None where all are kept."""
    kept = (settings.metrics_keep_fine, settings.metrics_keep_minutes, settings.metrics_keep_hours)
    for width, seconds in zip(TIMED, kept, strict=True):
        yield width, None if seconds is None else width.start(max(now - to_ms(seconds), 0))


# -- which buckets to read

_MAX_POINTS = 5000
# The longest window for which each step is the default: some hundred points whatever the window.
_USUAL_STEPS = (
    (15 * 60_000, 10_000),
    (2 * 3_600_000, 60_000),
    (12 * 3_600_000, 300_000),
    (7 * DAY, 3_600_000),
)


def usual_step(window: int) -> int:
    """The default step of a series over so long a time."""
    return next((step for longest, step in _USUAL_STEPS if window <= longest), DAY)


def checked_step(step: int, window: int) -> int:
    """A step that is a multiple of the buckets, and makes at most _MAX_POINTS points."""
    if step < TEN_SECONDS.span or step % TEN_SECONDS.span:
        raise InvalidJob(
            f"step: {step / 1000:g} seconds is not a multiple of 10, which is the finest there is", value=step / 1000
        )
    if window // step > _MAX_POINTS:
        raise InvalidJob(
            f"step: {step / 1000:g} seconds over this window makes more than {_MAX_POINTS} points", value=step / 1000
        )
    return step


def width_for(step: int) -> Resolution:
    """The widest buckets that divide a step."""
    return next(width for width in reversed(TIMED) if step % width.span == 0)


def width_within(window: int) -> Resolution:
    """The buckets to sum for one figure over the last so many milliseconds: fine enough, and not too many."""
    return TEN_SECONDS if window <= 15 * 60_000 else MINUTE if window <= 6 * 3_600_000 else HOUR


def since(width: Resolution, window: int, now: int) -> int:
    """The start of a window that ends now: the start of a bucket, never later than requested."""
    return width.start(max(now - max(window, width.span), 0))
