"""The pages and actions of the dashboard."""

from __future__ import annotations

from headrace.web.pages.view import Action, View
from headrace.web.pages.views import (
    alert_channels,
    alert_rules,
    alerts,
    dead,
    dead_letter,
    enqueue,
    flows,
    job,
    jobs,
    lifecycle,
    overview,
    questions,
    queues,
    schedule,
    schedules,
    system,
    tasks,
    webhooks,
    workers,
)

# In the order of the navigation. The first matching path wins.
VIEWS: list[View] = [
    *overview.VIEWS,
    *queues.VIEWS,
    *tasks.VIEWS,
    *workers.VIEWS,
    *jobs.VIEWS,
    *enqueue.VIEWS,
    *job.VIEWS,
    *questions.VIEWS,
    *flows.VIEWS,
    *schedules.VIEWS,
    *schedule.VIEWS,
    *dead.VIEWS,
    *dead_letter.VIEWS,
    *alert_rules.VIEWS,
    *alert_channels.VIEWS,
    *webhooks.VIEWS,
    *alerts.VIEWS,
    *lifecycle.VIEWS,
    *system.VIEWS,
]
ACTIONS: list[Action] = [
    *queues.ACTIONS,
    *tasks.ACTIONS,
    *workers.ACTIONS,
    *jobs.ACTIONS,
    *enqueue.ACTIONS,
    *job.ACTIONS,
    *questions.ACTIONS,
    *flows.ACTIONS,
    *schedule.ACTIONS,
    *dead.ACTIONS,
    *dead_letter.ACTIONS,
    *alert_rules.ACTIONS,
    *alert_channels.ACTIONS,
    *webhooks.ACTIONS,
    *alerts.ACTIONS,
    *lifecycle.ACTIONS,
    *system.ACTIONS,
]
