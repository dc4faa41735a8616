"""When a schedule fires: its nominal times, what is due now, and what is caught up after an outage.

Pure: the caller passes `now`; times are milliseconds since 1970 in UTC. Knows nothing of stores, jobs or workers.
Cron times follow the zone's clocks by the rules in `dst`; `every` and `at` count real time, whatever clocks do.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import chain, islice, pairwise, takewhile
from typing import Any, Literal, NamedTuple

import msgspec

from headrace.core.clock import to_datetime
from headrace.core.schedules import parse
from headrace.core.schedules.cron import parsed
from headrace.core.schedules.dst import Gap, Overlap, ZonedCron
from headrace.core.schedules.zones import next_change, zone
from headrace.core.text import short
from headrace.errors import InvalidSchedule

CatchUp = Literal["none", "latest", "limited", "all"]
RunOverlap = Literal["allow", "skip", "queue"]

GRACE = 60_000  # an occurrence that is late by no more was not missed, even with catch_up="none"
SHORTEST_INTERVAL = 100
MOST_FIRES, MOST_FIRES_AT_ONCE = 2**53, 1000
MOST_SKIPS_NAMED = 100
_DAY = 86_400_000
_JITTER_CHECK_RUNS = 100
_ID_PART = re.compile(r"[A-Za-z0-9_.:@/=-]{1,100}")


class Timing(msgspec.Struct, frozen=True, omit_defaults=True):
    """The times of a schedule, as stored. Exactly one of cron, every and at is set; `timing` checks that."""

    cron: str | None = None
    every: int | None = None
    at: int | None = None
    tz: str = "UTC"
    start: int | None = None  # inclusive, like end
    end: int | None = None
    limit: int | None = None  # how often it fires at most; skipped runs don't count
    jitter: int = 0
    dst_gap: Gap = "shift"
    dst_overlap: Overlap = "first"
    catch_up: CatchUp = "limited"
    catch_up_limit: int = 10
    catch_up_window: int = _DAY
    overlap: RunOverlap = "allow"


class Due(NamedTuple):
    """The due occurrences to fire or skip, oldest first, and the next one to wait for."""

    fire: list[int]
    skip: list[int]
    skipped_more: int  # older than those in `skip`
    next_occurrence: int | None


def timing(
    *,
    cron: str | None = None,
    every: float | timedelta | None = None,
    at: datetime | None = None,
    tz: Any = None,
    start: datetime | None = None,
    end: datetime | None = None,
    limit: int | None = None,
    jitter: float | timedelta = 0,
    dst_gap: Gap = "shift",
    dst_overlap: Overlap = "first",
    catch_up: CatchUp = "limited",
    catch_up_limit: int = 10,
    catch_up_window: float | timedelta = 86_400,
    overlap: RunOverlap = "allow",
    now: int,
) -> Timing:
    """The timing a user describes, or InvalidSchedule that names the field. Durations in seconds or as timedelta.

    An `end` in the past is allowed: a schedule declared in code must not break its program once it is over.
    """
    given = [name for name, value in (("cron", cron), ("every", every), ("at", at)) if value is not None]
    if len(given) != 1:
        raise InvalidSchedule(f"give exactly one of cron, every and at, not {' and '.join(given) or 'none of them'}")
    checked = Timing(
        cron=None if cron is None else parse.expression(cron),
        every=None if every is None else parse.duration("every", every, SHORTEST_INTERVAL),
        at=parse.moment("at", at),
        tz=parse.zone_name(tz),
        start=parse.moment("start", start),
        end=parse.moment("end", end),
        limit=None if limit is None else parse.count("limit", limit, 1, MOST_FIRES),
        jitter=parse.duration("jitter", jitter, 0),
        dst_gap=parse.choice("dst_gap", dst_gap, Gap),
        dst_overlap=parse.choice("dst_overlap", dst_overlap, Overlap),
        catch_up=parse.choice("catch_up", catch_up, CatchUp),
        catch_up_limit=parse.count("catch_up_limit", catch_up_limit, 1, MOST_FIRES_AT_ONCE),
        catch_up_window=parse.duration("catch_up_window", catch_up_window, 0),
        overlap=parse.choice("overlap", overlap, RunOverlap),
    )
    _check_range(checked, now)
    _check_jitter(checked, now)
    return _without_defaults(checked)


def _without_defaults(checked: Timing) -> Timing:
    """Only a default itself, not its equal, is left out of the JSON; equal timings must be equal texts."""
    defaults = Timing()
    fields = msgspec.structs.asdict(checked).items()
    return Timing(**{name: value for name, value in fields if value != getattr(defaults, name)})


def _check_range(given: Timing, now: int) -> None:
    if given.at is not None and given.at <= now:
        at = to_datetime(given.at)
        raise InvalidSchedule(f"at: {at} is not in the future; to run at once, enqueue a job", value=at)
    if given.start is not None and given.end is not None and given.end < given.start:
        end = to_datetime(given.end)
        raise InvalidSchedule(f"end: {end} lies before start, {to_datetime(given.start)}", value=end)
    if given.start is None and given.at is None and given.end is not None:
        given = msgspec.structs.replace(given, end=None)  # it may be over by now
    if next_after(given, (now if given.start is None else given.start) - 1, now) is None:
        open_ended = given.end is None and given.at is None
        reason = "dst_gap='skip' leaves out every run" if open_ended else "no run lies between start and end"
        raise InvalidSchedule(f"{_named(given)} never fires: {reason}; change the times")


def _check_jitter(given: Timing, now: int) -> None:
    """A jitter longer than the time between two runs would mix up their order."""
    if not given.jitter:
        return
    open_ended = msgspec.structs.replace(given, end=None)
    runs = upcoming(open_ended, now, now, _JITTER_CHECK_RUNS)
    shortest = min((later - earlier for earlier, later in pairwise(runs)), default=given.jitter)
    if given.jitter > shortest:
        raise InvalidSchedule(
            f"jitter: {given.jitter / 1000:g} seconds is longer than the {shortest / 1000:g} seconds between two runs; "
            "use less",
            value=given.jitter / 1000,
        )


def _named(given: Timing) -> str:
    if given.cron is not None:
        return f"cron {short(given.cron)}"
    return "at" if given.every is None else f"every {given.every / 1000:g} seconds"


# -- nominal times


def next_after(timing: Timing, after: int, anchor: int) -> int | None:
    """The first nominal occurrence later than `after`. `every` counts from `start`, or from `anchor` without one."""
    return next(_rising(timing, after, anchor), None)


def upcoming(timing: Timing, after: int, anchor: int, n: int) -> list[int]:
    """The next `n` occurrences later than `after`, fewer if there are no more. The limit does not apply."""
    return list(islice(_rising(timing, after, anchor), n))


def next_dst_transition(tz: str, after: int) -> int | None:
    """When the zone's clocks next change, later than `after`; None if not within two years."""
    zone(tz)
    return next_change(tz, after, 2 * 366 * _DAY)


def _rising(timing: Timing, after: int, anchor: int) -> Iterator[int]:
    end = parse.LAST_MOMENT if timing.end is None else timing.end
    if timing.start is not None:
        after = max(after, timing.start - 1)
    return takewhile(lambda occurrence: occurrence <= end, _unbounded(timing, after, anchor))


def _unbounded(timing: Timing, after: int, anchor: int) -> Iterator[int]:
    if timing.at is not None:
        return iter([timing.at] if timing.at > after else [])
    if timing.every is not None:
        base = anchor if timing.start is None else timing.start
        steps = max((after - base) // timing.every + 1, 0)
        return iter(range(base + steps * timing.every, parse.LAST_MOMENT, timing.every))
    return _wall_clock(timing).rising(after)


def _falling(timing: Timing, before: int, floor: int, anchor: int) -> Iterator[int]:
    """The occurrences of floor <= occurrence < before, latest first."""
    if timing.end is not None:
        before = min(before, timing.end + 1)
    if timing.start is not None:
        floor = max(floor, timing.start)
    if timing.every is not None:
        return reversed(_steps(timing, timing.every, floor, before, anchor))
    if timing.at is not None:
        return iter([timing.at] if floor <= timing.at < before else [])
    return _wall_clock(timing).falling(before, floor)


def _count(timing: Timing, first: int, end: int, anchor: int) -> int:
    """How many occurrences lie in first <= occurrence < end; `due` never counts beyond the schedule's own range."""
    if timing.every is not None:
        return len(_steps(timing, timing.every, first, end, anchor))
    return 0 if timing.at is not None else _wall_clock(timing).count(first, end)


def _steps(timing: Timing, every: int, first: int, end: int, anchor: int) -> range:
    base = anchor if timing.start is None else timing.start
    return range(base + max(-((base - first) // every), 0) * every, end, every)


def _wall_clock(timing: Timing) -> ZonedCron:
    return ZonedCron(parsed(timing.cron or ""), timing.tz, timing.dst_gap, timing.dst_overlap)


# -- what is due


def due_at(timing: Timing, schedule_id: str, occurrence: int) -> int:
    """The occurrence plus its jitter, which is the same in every process: drawn from a hash."""
    if not timing.jitter:
        return occurrence
    return occurrence + int(_digest(f"{schedule_id}\n{occurrence}"), 16) % (timing.jitter + 1)


def due(timing: Timing, schedule_id: str, occurrence: int, now: int, fired: int, anchor: int) -> Due:
    """What to fire and what to skip, from the stored next `occurrence` on, and the occurrence to store instead.

    By `catch_up`, of all that are due:
    - "none": the newest fires if it is late by a minute at most.
    - "latest": the newest fires, however late.
    - "limited": the newest fires, however late, and those before it that are not older than `catch_up_window`,
      `catch_up_limit` in all.
    - "all": every one fires, the oldest first and a thousand at most; `next_occurrence` is then due already.

    The rest is skipped. `skip` names the newest hundred of those and `skipped_more` counts the others; for cron, the
    count may be off by the few that a change of the clocks moved to one instant. After `limit` runs nothing follows.
    The stored occurrence always counts, even if the zone's rules have changed since it was computed.
    """
    left = MOST_FIRES_AT_ONCE if timing.limit is None else timing.limit - fired
    if left <= 0:
        return Due([], [], 0, None)
    if due_at(timing, schedule_id, occurrence) > now:
        return Due([], [], 0, occurrence)
    newest = _newest_due(timing, schedule_id, occurrence, now, anchor)
    if timing.catch_up == "all":
        missed = takewhile(lambda one: one <= newest, chain([occurrence], _rising(timing, occurrence, anchor)))
        fire = list(islice(missed, min(left, MOST_FIRES_AT_ONCE)))
        skip, more, newest = list[int](), 0, fire[-1]
    else:
        fire, skip, more = _split(timing, schedule_id, occurrence, newest, now, left, anchor)
    used_up = timing.limit is not None and fired + len(fire) >= timing.limit
    return Due(fire, skip, more, None if used_up else next_after(timing, newest, anchor))


def _newest_due(timing: Timing, schedule_id: str, occurrence: int, now: int, anchor: int) -> int:
    """The last occurrence for which it and all before it are due."""
    # Occurrences older than the longest jitter are due; the rest are checked one by one.
    newest = next(_falling(timing, now - timing.jitter + 1, occurrence, anchor), occurrence)
    for later in islice(_rising(timing, newest, anchor), MOST_FIRES_AT_ONCE):
        if due_at(timing, schedule_id, later) > now:
            break
        newest = later
    return newest


def _split(
    timing: Timing, schedule_id: str, occurrence: int, newest: int, now: int, left: int, anchor: int
) -> tuple[list[int], list[int], int]:
    """The occurrences that fire, those skipped by name, and how many more are skipped."""
    max_fires = min(left, timing.catch_up_limit if timing.catch_up == "limited" else 1)
    if timing.catch_up == "none" and now - due_at(timing, schedule_id, newest) > GRACE:
        max_fires = 0
    before = _falling(timing, newest, occurrence + 1, anchor)
    missed = chain([newest], before, [occurrence] if newest > occurrence else [])
    newest_first = list(islice(missed, max_fires + MOST_SKIPS_NAMED))
    oldest_to_fire = min(newest, now - timing.catch_up_window)
    fire = [one for one in newest_first[:max_fires] if one >= oldest_to_fire]
    skip = newest_first[len(fire) :][:MOST_SKIPS_NAMED]
    oldest_named = newest_first[len(fire) + len(skip) - 1]
    # The stored occurrence counts by itself: by the rules it may no longer be one.
    more = 1 + _count(timing, occurrence + 1, oldest_named, anchor) if oldest_named > occurrence else 0
    return fire[::-1], skip[::-1], more


def occurrence_id(schedule_id: str, occurrence: int) -> str:
    """The id of the job of an occurrence, the same in every process: `nightly:20261115T020000Z`."""
    moment = to_datetime(occurrence)
    assert moment is not None
    fraction = f".{occurrence % 1000:03d}" if occurrence % 1000 else ""
    head = schedule_id
    if not _ID_PART.fullmatch(schedule_id):  # ids have rules; the digest distinguishes two schedules
        head = f"{re.sub('[^A-Za-z0-9_.:@/=-]', '_', schedule_id)[:80]}={_digest(schedule_id)}"
    return f"{head}:{moment:%Y%m%dT%H%M%S}{fraction}Z"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
