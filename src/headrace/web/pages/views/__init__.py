"""The pages of the dashboard, and what can be done on them."""

from __future__ import annotations

from headrace.web.pages.view import Action, View
from headrace.web.pages.views import enqueue, job, jobs, overview, queue, queues, worker, workers

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
]
ACTIONS: list[Action] = [
    *queue.ACTIONS,
    *worker.ACTIONS,
    *jobs.ACTIONS,
    *enqueue.ACTIONS,
    *job.ACTIONS,
]
