"""The list of workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import View


def show(visit: PageRequest) -> Mapping[str, Any]:
    workers = visit.page_cache.workers()
    alive = [worker for worker in workers if not worker.silent]
    return {
        "workers": workers,
        "slots": sum(worker.concurrency for worker in alive),
        "busy": sum(worker.running for worker in alive),
        "hosts": len({worker.host for worker in alive}),
        "topics": ("worker", "job"),
    }


VIEWS = [View(path="/workers", template="workers.html", show=show, label="Workers", icon="workers", key="w")]
