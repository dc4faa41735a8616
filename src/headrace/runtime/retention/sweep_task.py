"""Runs retention continuously: any worker archives and removes due finished jobs, a small piece at a time.

The worker that runs it records this in the store, and others skip it meanwhile: two at once would do no harm, but twice
the work.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator

from headrace.core.clock import to_ms
from headrace.core.settings.settings import Settings
from headrace.core.text import counted
from headrace.engines.protocol.archive import Archive
from headrace.engines.protocol.engine import Engine
from headrace.runtime.event_log import last_cursor
from headrace.runtime.retention.last_run import last_run
from headrace.runtime.retention.removal import RetentionCounts
from headrace.runtime.retention.remove_on_finish import RemoveOnFinish
from headrace.runtime.retention.sweep import RetentionSweep
from headrace.runtime.retention.sweep_event import emit_run, error_text, record_run

log = logging.getLogger("headrace.maintenance")

_TOO_LONG = 180.0  # seconds
_RECORD_EVERY, _RECORD_HOLDS = 5_000, 20_000
_QUIET_FACTOR = 30  # how many times the pause to wait after a run that found nothing, while there are no new events
_IDLE_FACTOR = 10  # how many times the duration of a run that found nothing to wait until the next one


class RetentionTask:
    """Maintenance task. `wanted` are queues where this worker has met jobs to be removed on finish."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        every: float,
        archive: Callable[[], Archive | None],
        wanted: Collection[str] = (),
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._every = every
        self._archive = archive
        self._removals = RemoveOnFinish(engine, wanted)
        self._sweep: RetentionSweep | None = None
        self._pieces: Iterator[None] | None = None
        self._error: str | None = None  # kept until a run ends
        self._newest: str | None = None  # the newest event when the run began
        self._quiet: tuple[int, str] | None = None  # when a run began that found nothing, and the newest event then

    def do(self) -> float:
        self._removals.note()
        if self._pieces is None:
            if self._is_quiet():
                return self._every
            if not self._begin():
                return min(self._every, _RECORD_HOLDS / 1000)
        began = time.perf_counter()
        try:
            next(self._pieces or iter(()))
        except StopIteration:
            self._pieces = None
            return self._end()
        except Exception as error:
            self._pieces = self._quiet = None  # an interrupted run begins anew
            self._error = error_text(error)
            self._record(_RECORD_HOLDS)
            self._report(self._error)
            raise
        self._worked += time.perf_counter() - began
        if self._engine.clock.now() >= self._recorded_at + _RECORD_EVERY:
            self._record(_RECORD_HOLDS)
        return 0.0

    def _is_quiet(self) -> bool:
        """Whether the next run can wait: the last one found nothing to do, and nothing has happened since."""
        self._newest = last_cursor(self._engine.events) if self._settings.events else None
        if self._quiet is None or self._newest is None:
            return False
        began, newest = self._quiet
        return newest == self._newest and 0 <= self._engine.clock.now() - began < _QUIET_FACTOR * to_ms(self._every)

    def _begin(self) -> bool:
        now, last = self._engine.clock.now(), last_run(self._engine.document_store)
        # A time in the future comes from a wrong clock.
        if last is not None and last.at <= now + _RECORD_HOLDS and now < last.until:
            return False
        if self._sweep is None:
            self._sweep = RetentionSweep(self._engine, self._settings, self._archive())
        self._counts, self._began, self._worked = RetentionCounts(), now, 0.0
        self._pieces = self._sweep.walk(self._counts, wanted=self._removals.queues(), full_scan=False)
        self._record(_RECORD_HOLDS)
        return True

    def _end(self) -> float:
        took = (self._engine.clock.now() - self._began) / 1000
        pause, self._error = self._every, None
        if self._counts.anything:
            log.info("%s in %.1f s", _format_counts(self._counts), took)
            self._quiet = None
        else:
            self._quiet = None if self._newest is None else (self._began, self._newest)
            pause = max(pause, self._worked * _IDLE_FACTOR)
        if took > _TOO_LONG:
            log.warning(
                "retention took %.0f s, %.0f s of it at work: it pauses a lot to cost little; "
                "`headrace archive --apply` does not pause, and tasks with archive=False are removed faster",
                *(took, self._worked),
            )
        self._record(to_ms(pause))
        self._report()
        return pause

    def _report(self, error: str | None = None) -> None:
        emit_run(self._engine, self._settings, self._counts, self._engine.clock.now() - self._began, error)

    def _record(self, leave_for: int) -> None:
        self._recorded_at = self._engine.clock.now()
        record_run(self._engine, self._settings, self._counts, self._began, leave_for, self._error)


def _format_counts(counts: RetentionCounts) -> str:
    done_counts = {
        "archived": (counts.archived, "job"),
        "deleted": (counts.deleted, "job"),
        "expired": (counts.expired, "dead letter"),
        "removed": (counts.dead_letters, "dead letter"),
        "dropped": (len(counts.dropped), "partition"),
    }
    return ", ".join(f"{counted(count, what)} {done}" for done, (count, what) in done_counts.items() if count)
