"""The command palette (Ctrl-K): views, queues, tasks, workers, jobs by id, and actions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from headrace.errors import HeadraceError, JobNotFound
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import View
from headrace.web.pages.views.jobs import known_tasks

_MOST = 12


class PaletteEntry(Struct, frozen=True, omit_defaults=True):
    """One entry: a link, or a form to send."""

    name: str
    kind: str
    icon: str
    goto: str = ""
    post: str = ""
    script: str = ""


def find(visit: PageRequest, views: Sequence[View], text: str) -> list[PaletteEntry]:
    """The best entries for the typed text."""
    text = text.strip()
    wanted = text.casefold().split()
    hits = [one for one in _everything(visit, views) if _matches(one, wanted)]
    hits.sort(key=lambda one: not one.name.casefold().startswith(text.casefold()))
    found = [*_job(visit, text), *hits][:_MOST]
    if text:
        found.append(
            PaletteEntry(f"Jobs with “{text}” in their text", "search", "search", visit.at("/jobs", text=text))
        )
    return found


def _matches(one: PaletteEntry, wanted: Sequence[str]) -> bool:
    name = f"{one.name} {one.kind}".casefold()
    return all(word in name for word in wanted)


def _job(visit: PageRequest, text: str) -> Iterator[PaletteEntry]:
    if not text or " " in text:
        return
    try:
        job = visit.app.jobs.get(text)
    except (JobNotFound, HeadraceError):
        return
    yield PaletteEntry(f"{job.task} {job.id}", job.state.value, job.state.value, visit.at(f"/jobs/{job.id}"))


def _everything(visit: PageRequest, views: Sequence[View]) -> Iterator[PaletteEntry]:
    for view in views:
        if view.label:
            yield PaletteEntry(view.label, "view", view.icon, visit.at(view.path))
    queues = visit.page_cache.names()
    for queue in queues:
        yield PaletteEntry(queue.name, "queue", "queues", visit.at(f"/queues/{queue.name}"))
    for task in known_tasks(visit):
        yield PaletteEntry(task, "task", "jobs", visit.at("/jobs", task=task))
    for worker in visit.page_cache.workers():
        yield PaletteEntry(worker.id, "worker", "workers", visit.at(f"/workers/{worker.id}"))
    if visit.visitor.may_write:
        yield PaletteEntry("Enqueue a job", "action", "plus", visit.at("/enqueue"))
        yield PaletteEntry("New schedule", "action", "plus", visit.at("/new-schedule"))
        yield PaletteEntry("New alert rule", "action", "plus", visit.at("/alerts/new-rule"))
        yield PaletteEntry("New channel for alerts", "action", "plus", visit.at("/alerts/new-channel"))
        yield PaletteEntry("New webhook", "action", "plus", visit.at("/new-webhook"))
        for queue in queues:
            verb, symbol = ("Resume", "play") if queue.paused else ("Pause", "pause")
            path = f"/queues/{queue.name}/{verb.lower()}"
            yield PaletteEntry(f"{verb} queue {queue.name}", "action", symbol, post=visit.at(path))
    yield PaletteEntry("Switch between dark and light", "action", "theme", script="theme")
