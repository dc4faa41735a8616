"""The maintenance task of metrics: folds events into buckets, samples gauges, removes old buckets. Any worker may."""

from __future__ import annotations

from headrace.core.metrics import buckets
from headrace.core.settings.settings import Settings
from headrace.engines.protocol.engine import Engine
from headrace.runtime.documents import drop_documents
from headrace.runtime.event_log import last_cursor
from headrace.runtime.metrics.gauges import GaugeSampler
from headrace.runtime.metrics.rollup import Rollup

_EVERY = 5.0  # seconds
_DROP_EVERY, _BUCKETS_PER_DROP = 600_000, 500
_CATCH_UP = 20  # pieces that a reader folds at most


class MetricsCollector:
    """A maintenance task; a reader of the latest figures also calls it first."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings
        self._rollup = Rollup(engine, settings)
        self._sampler = GaugeSampler(engine)
        self._drop_at = engine.clock.now() + _DROP_EVERY
        self._newest: str | None = None

    def do(self) -> float:
        now = self._engine.clock.now()
        if self._is_unchanged():
            self._sampler.sample(now, quiet=True)
            if now < self._drop_at:
                return _EVERY
        elif (self._settings.events and self._rollup.fold(if_idle=True)) or self._sampler.sample():
            return 0.0
        if now < self._drop_at:
            return _EVERY
        if self.drop(now):
            return 0.0
        self._drop_at = now + _DROP_EVERY
        return _EVERY

    def _is_unchanged(self) -> bool:
        """Whether all events are folded, and the store is as it was at the last sample."""
        if not self._settings.events:
            return False
        before, self._newest = self._newest, last_cursor(self._engine.events)
        return before == self._newest and not self._rollup.left_to_others

    def catch_up(self) -> None:
        """Count all events so far, or many of them after a long pause."""
        pieces = range(_CATCH_UP if self._settings.events else 0)
        all(self._rollup.fold() for _ in pieces)
        self._sampler.sample(for_reader=True)

    def drop(self, now: int) -> bool:
        """Remove old buckets, some at a time; whether there are more."""
        dropped = [
            drop_documents(self._engine.document_store, width.kind, buckets.range_of(since), _BUCKETS_PER_DROP)
            for width, since in buckets.kept_since(self._settings, now)
            if since is not None
        ]
        return max(dropped, default=0) == _BUCKETS_PER_DROP
