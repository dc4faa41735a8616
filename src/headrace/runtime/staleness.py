"""Looks for jobs that stay too long, and does what their terms say: any worker, in small batches.

What was read may be past when it is acted upon, so every judgment is of a version: a job that has moved on meanwhile is
left alone. Two workers may look at the same time; the second one finds nothing left to do.
"""

from __future__ import annotations

import contextlib
import logging
import random
from collections import Counter

import msgspec
from msgspec import Struct, structs

from headrace.core.damage import read_or, readable
from headrace.core.lifecycle import TermsBook
from headrace.core.settings import Settings
from headrace.core.shelf import Paper
from headrace.core.staleness import Finding, judgment, verdict, watch
from headrace.core.words import why
from headrace.engines.protocol import Engine
from headrace.errors import EngineUnavailable

log = logging.getLogger("headrace.keeper")

BATCH = 100  # judgments of one commit
_LOOKS = 2000  # jobs of one look: some ten milliseconds, most of them where nearly all are stale
_FIRST_AT_MOST = 60.0  # seconds
_SURVEY = "~survey"


class Surveyed(Struct, frozen=True):
    """What the last survey of any worker found. `error` is why the newest one could not go on."""

    at: int
    stale: int = 0
    nearly: int = 0
    error: str | None = None


_surveyed = msgspec.json.Decoder(Surveyed)


def last_survey(engine: Engine) -> Surveyed | None:
    """What was last recorded of one."""
    papers = engine.shelf.get(_SURVEY, ["stale"])
    return next(readable(_surveyed.decode, (paper.value for paper in papers)), None)


class Survey:
    """One walk through all open jobs, by the terms as they were at its beginning."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        rows = engine.upkeep.terms()
        self._engine = engine
        self._book = TermsBook(rows, settings)
        self._now = engine.clock.now()
        self._watch = watch(rows, settings, self._now)
        self._cursor: str | None = None
        self.is_over = False

    def look(self) -> list[Finding]:
        """What the next stretch of it has of stale and nearly stale jobs."""
        page = self._engine.upkeep.aged(self._watch, _LOOKS, self._cursor)
        self._cursor, self.is_over = page.cursor, page.cursor is None
        return [found for job in page.jobs if (found := verdict(job, self._book, self._now)) is not None]


def apply(engine: Engine, findings: list[Finding]) -> list[bool]:
    """Do what is to be done about these stale jobs, in one commit; for each whether it is done."""
    # One that was noted for review in this version before is not noted again.
    new = [finding for finding in findings if not _is_noted(finding)]
    done = iter(engine.upkeep.judge([judgment(finding) for finding in new]))
    return [_is_noted(finding) or next(done) for finding in findings]


def _is_noted(finding: Finding) -> bool:
    return finding.action == "review" and finding.job.reviewed


class Staleness:
    """A chore: a survey every so often, some of it in each piece of work."""

    def __init__(self, engine: Engine, settings: Settings, every: float) -> None:
        self._engine = engine
        self._settings = settings
        self._every = every
        self._is_first = True
        self._survey: Survey | None = None
        self._stale: list[Finding] = []
        self._counts: Counter[str] = Counter()

    def do(self) -> float:
        if self._is_first:  # not all workers of a deploy at the same moment
            self._is_first = False
            return random.uniform(0.0, min(self._every, _FIRST_AT_MOST))
        try:
            self._go_on()
        except Exception as error:
            self._record(error)
            raise
        if self._stale or self._survey is not None:
            return 0.0
        self._record()
        self._tell()
        return self._every

    def _go_on(self) -> None:
        if self._stale:
            self._act()
        else:
            self._look()

    def _record(self, error: Exception | None = None) -> None:
        """Keep what was found for others to see. Who comes second has found the same."""
        shelf, now = self._engine.shelf, self._engine.clock.now()
        # A store that is away takes no word either.
        with contextlib.suppress(EngineUnavailable):
            known = next(iter(shelf.get(_SURVEY, ["stale"])), None)
            told = Surveyed(now, self._counts["stale"], self._counts["nearly stale"])
            if error is not None:
                before = Surveyed(now) if known is None else read_or(_surveyed.decode, known.value, Surveyed(now))
                told = structs.replace(before, at=now, error=why(error))
            text = msgspec.json.encode(told).decode()
            shelf.put([Paper(_SURVEY, "stale", 0 if known is None else known.version, text)])

    def _look(self) -> None:
        survey = self._survey = self._survey or Survey(self._engine, self._settings)
        found = survey.look()
        self._stale = [finding for finding in found if finding.is_stale and not _is_noted(finding)]
        self._counts["stale"] += sum(finding.is_stale for finding in found)
        self._counts["nearly stale"] += sum(not finding.is_stale for finding in found)
        if survey.is_over:
            self._survey = None

    def _act(self) -> None:
        some = self._stale[:BATCH]
        done = apply(self._engine, some)
        del self._stale[:BATCH]
        for finding, is_done in zip(some, done, strict=True):
            self._counts[finding.action if is_done else "moved on"] += 1
            if is_done and finding.action != "review":
                log.warning("job %s (%s) is stale: %s", finding.job.id, finding.job.task, finding.in_words())

    def _tell(self) -> None:
        counts, self._counts = self._counts, Counter()
        told = "%d stale jobs: %d dead letters, %d failed, %d new for review, %d moved on; %d nearly stale"
        names = ("stale", "dead", "fail", "review", "moved on", "nearly stale")
        changed = any(counts[name] for name in names[1:4])
        level = logging.WARNING if changed else logging.INFO if counts.total() else logging.DEBUG
        log.log(level, told, *(counts[name] for name in names))
