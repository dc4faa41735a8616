"""What Ctrl-K finds: views, queues, tasks, workers, a job by its id, and what can be done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from headrace.errors import HeadraceError, JobNotFound
from headrace.web.pages.request import Visit
from headrace.web.pages.view import View
from headrace.web.pages.views.jobs import known_tasks

_MOST = 12


class Found(Struct, frozen=True, omit_defaults=True):
    """One entry: where it leads, or what it sends."""

    name: str
    kind: str
    icon: str
    goto: str = ""
    post: str = ""
    script: str = ""


def find(visit: Visit, views: Sequence[View], text: str) -> list[Found]:
    """The best few entries for what was typed."""
    text = text.strip()
    wanted = text.casefold().split()
    hits = [one for one in _everything(visit, views) if _matches(one, wanted)]
    hits.sort(key=lambda one: not one.name.casefold().startswith(text.casefold()))
    found = [*_job(visit, text), *hits][:_MOST]
    if text:
        found.append(Found(f"Jobs with “{text}” in their text", "search", "search", visit.at("/jobs", text=text)))
    return found


def _matches(one: Found, wanted: Sequence[str]) -> bool:
    name = f"{one.name} {one.kind}".casefold()
    return all(word in name for word in wanted)


def _job(visit: Visit, text: str) -> Iterator[Found]:
    if not text or " " in text:
        return
    try:
        job = visit.app.jobs.get(text)
    except (JobNotFound, HeadraceError):
        return
    yield Found(f"{job.task} {job.id}", job.state.value, job.state.value, visit.at(f"/jobs/{job.id}"))


def _everything(visit: Visit, views: Sequence[View]) -> Iterator[Found]:
    for view in views:
        if view.label:
            yield Found(view.label, "view", view.icon, visit.at(view.path))
    queues = visit.glance.names()
    for queue in queues:
        yield Found(queue.name, "queue", "queues", visit.at(f"/queues/{queue.name}"))
    for task in known_tasks(visit):
        yield Found(task, "task", "jobs", visit.at("/jobs", task=task))
    for worker in visit.glance.workers():
        yield Found(worker.id, "worker", "workers", visit.at(f"/workers/{worker.id}"))
    if visit.visitor.may_write:
        yield Found("Enqueue a job", "action", "plus", visit.at("/enqueue"))
        yield Found("New schedule", "action", "plus", visit.at("/new-schedule"))
        yield Found("New alert rule", "action", "plus", visit.at("/alerts/new-rule"))
        yield Found("New channel for alerts", "action", "plus", visit.at("/alerts/new-channel"))
        yield Found("New webhook", "action", "plus", visit.at("/new-webhook"))
        for queue in queues:
            verb, symbol = ("Resume", "play") if queue.paused else ("Pause", "pause")
            path = f"/queues/{queue.name}/{verb.lower()}"
            yield Found(f"{verb} queue {queue.name}", "action", symbol, post=visit.at(path))
    yield Found("Switch between dark and light", "action", "theme", script="theme")
