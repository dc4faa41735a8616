"""The list of queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.core.queues.rules_text import format_rules
from headrace.web.pages.page_cache import totals
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import View
from headrace.web.pages.views.overview import drained_in


def show(visit: PageRequest) -> Mapping[str, Any]:
    queues = visit.page_cache.queues()
    text = (visit.asked("q") or "").casefold()
    shown = [stats for stats in queues if text in stats.queue.casefold()]
    return {
        "queues": shown,
        "all": len(queues),
        "count": totals(shown),
        "rules": {stats.queue: format_rules(stats.rules) for stats in shown},
        "drained": drained_in(visit),
    }


VIEWS = [View(path="/queues", template="queues.html", show=show, label="Queues", icon="queues", key="q")]
