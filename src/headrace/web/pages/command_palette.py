"""The command palette (Ctrl-K): views, queues, tasks, workers, jobs by id, and actions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from headrace.errors import HeadraceError, JobNotFound
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import View
from headrace.web.pages.views.jobs import known_tasks

_MAX_HITS = 12


class PaletteEntry(Struct, frozen=True, omit_defaults=True):
    """One entry: a link, or a form to send."""

    name: str
    kind: str
    icon: str
    goto: str = ""
    post: str = ""
    script: str = ""


def find(request: PageRequest, views: Sequence[View], text: str) -> list[PaletteEntry]:
    """The best entries for the typed text."""
    text = text.strip()
    words = text.casefold().split()
    hits = [entry for entry in _all_entries(request, views) if _matches(entry, words)]
    hits.sort(key=lambda entry: not entry.name.casefold().startswith(text.casefold()))
    found = [*_job(request, text), *hits][:_MAX_HITS]
    if text:
        found.append(
            PaletteEntry(f"Jobs with “{text}” in their text", "search", "search", request.url("/jobs", text=text))
        )
    return found


def _matches(entry: PaletteEntry, words: Sequence[str]) -> bool:
    name = f"{entry.name} {entry.kind}".casefold()
    return all(word in name for word in words)


def _job(request: PageRequest, text: str) -> Iterator[PaletteEntry]:
    if not text or " " in text:
        return
    try:
        job = request.app.jobs.get(text)
    except (JobNotFound, HeadraceError):
        return
    yield PaletteEntry(f"{job.task} {job.id}", job.state.value, job.state.value, request.url(f"/jobs/{job.id}"))


def _all_entries(request: PageRequest, views: Sequence[View]) -> Iterator[PaletteEntry]:
    for view in views:
        if view.label:
            yield PaletteEntry(view.label, "view", view.icon, request.url(view.path))
    queues = request.page_cache.queue_rows()
    for queue in queues:
        yield PaletteEntry(queue.name, "queue", "queues", request.url(f"/queues/{queue.name}"))
    for task in known_tasks(request):
        yield PaletteEntry(task, "task", "tasks", request.url(f"/tasks/{task}"))
    for worker in request.page_cache.workers():
        yield PaletteEntry(worker.id, "worker", "workers", request.url(f"/workers/{worker.id}"))
    if request.viewer.may_write:
        yield PaletteEntry("Enqueue a job", "action", "plus", request.url("/enqueue"))
        yield PaletteEntry("New schedule", "action", "plus", request.url("/new-schedule"))
        yield PaletteEntry("New alert rule", "action", "plus", request.url("/alerts/new-rule"))
        yield PaletteEntry("New channel for alerts", "action", "plus", request.url("/alerts/new-channel"))
        yield PaletteEntry("New webhook", "action", "plus", request.url("/new-webhook"))
        for queue in queues:
            verb, symbol = ("Resume", "play") if queue.paused else ("Pause", "pause")
            path = f"/queues/{queue.name}/{verb.lower()}"
            yield PaletteEntry(f"{verb} queue {queue.name}", "action", symbol, post=request.url(path))
    yield PaletteEntry("Switch between dark and light", "action", "theme", script="theme")
