"""The pages of the dashboard, and what can be done on them."""

from __future__ import annotations

from headrace.web.pages.view import Action, View
from headrace.web.pages.views import (
    alerts,
    channels,
    dead,
    enqueue,
    flows,
    job,
    jobs,
    letter,
    lifecycle,
    overview,
    queue,
    queues,
    rules,
    schedule,
    schedules,
    system,
    webhooks,
    worker,
    workers,
)

# In the order of the navigation. Of two paths that match, the first is taken.
VIEWS: list[View] = [
    *overview.VIEWS,
    *queues.VIEWS,
    *queue.VIEWS,
    *workers.VIEWS,
    *worker.VIEWS,
    *jobs.VIEWS,
    *enqueue.VIEWS,
    *job.VIEWS,
    *flows.VIEWS,
    *schedules.VIEWS,
    *schedule.VIEWS,
    *dead.VIEWS,
    *letter.VIEWS,
    *rules.VIEWS,
    *channels.VIEWS,
    *webhooks.VIEWS,
    *alerts.VIEWS,
    *lifecycle.VIEWS,
    *system.VIEWS,
]
ACTIONS: list[Action] = [
    *queue.ACTIONS,
    *worker.ACTIONS,
    *jobs.ACTIONS,
    *enqueue.ACTIONS,
    *job.ACTIONS,
    *flows.ACTIONS,
    *schedule.ACTIONS,
    *dead.ACTIONS,
    *letter.ACTIONS,
    *rules.ACTIONS,
    *channels.ACTIONS,
    *webhooks.ACTIONS,
    *alerts.ACTIONS,
    *lifecycle.ACTIONS,
    *system.ACTIONS,
]
