"""Event retention: a maintenance task that removes the oldest events, by age and by number."""

from __future__ import annotations

from headrace.core.clock import to_ms
from headrace.core.settings.settings import Settings
from headrace.engines.protocol.engine import Engine

_PAUSE = 60.0
_PAGES_PER_RUN = 500


class EventTrim:
    """Maintenance task: removes a few pages of events at a time. Of several workers, the second finds nothing to do."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._keep = to_ms(settings.events_keep)
        self._most = settings.events_limit

    def do(self) -> float:
        before = self._engine.clock.now() - self._keep
        return 0.0 if self._engine.events.trim(before, self._most, _PAGES_PER_RUN) == _PAGES_PER_RUN else _PAUSE
