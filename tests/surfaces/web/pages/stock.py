"""A store with content for every page of the dashboard: flows, dead letters, schedules, alerts, terms, an archive."""

from __future__ import annotations

from typing import Any

from headrace import Headrace
from tests.support.waiting import PATIENCE
from tests.surfaces.web.pages.tasks import HOSTILE

PATHS = {
    "flows": "/flows",
    "flow": "/flows/{flow}",
    "dead": "/dead",
    "dead-group": "/dead?fingerprint={fingerprint}",
    "dead-none": "/dead?task=nothing",
    "letter": "/dead/{letter}",
    "letter-resolved": "/dead/{resolved}",
    "schedules": "/schedules",
    "schedule": "/schedules/nightly",
    "schedule-paused": "/schedules/paused",
    "schedule-new": "/new-schedule?try=yes&cron=0+2+*+*+*&tz=Europe/Vienna",
    "alerts": "/alerts",
    "rules": "/alerts/rules",
    "rule": "/alerts/rules/mine",
    "rule-new": "/alerts/new-rule?when=depth+>+1",
    "channel": "/alerts/channels/ops",
    "channel-new": "/alerts/new-channel",
    "webhooks": "/webhooks",
    "webhook": "/webhooks/{webhook}",
    "webhook-new": "/new-webhook",
    "lifecycle": "/lifecycle",
    "system": "/system",
}


def stock(app: Headrace, tasks: dict[str, Any]) -> dict[str, str]:
    """The ids of the content by name; the paths above use the names."""
    add, refuse = tasks["add"], tasks["refuse"]
    flow = app.flow("import")
    first, wrong = flow.add(add.bind(1, 2)), flow.add(refuse.bind(1))
    second, third = flow.add(add.bind(first, 3)), flow.add(add.bind(first, 4))
    flow.add(add.bind(second, third)).after(wrong)
    run = flow.enqueue()
    failed = [refuse.using(tags=(HOSTILE,), metadata={HOSTILE: HOSTILE}).enqueue(n) for n in range(3)]
    with app.worker(concurrency=2):
        run.wait(PATIENCE)
        for job in failed:
            job.wait(PATIENCE)
    dead_letters = app.dead.list()
    app.dead.note(dead_letters[0].id, HOSTILE, by="ann")
    app.dead.resolve(dead_letters[-1].id, "manually_resolved", by="ann", note="by hand")
    app.schedules.create("nightly", "add", args=[1, 2], cron="0 2 * * *", tz="Europe/Vienna")
    app.schedules.create("paused", "add", args=[1, 2], every=300)
    app.schedules.pause("paused")
    app.schedules.run_now("nightly")
    app.alerts.rules.create("mine", when="depth > 0", severity="critical", summary=HOSTILE)
    app.alerts.trigger("by-hand", "somebody saw smoke", severity="warning")
    app.alerts.evaluate()
    app.alerts.silence("mine", for_=60, by="ann", note=HOSTILE)
    app.lifecycle.configure(queue="sums", max_pending=0.001)
    app.alerts.channels.create("ops", kind="slack", url="https://chat.example.com/hook")
    hook = app.webhooks.create("https://example.com/hooks", ["job.failed"], queue="orders")
    return {
        "webhook": hook.id,
        "flow": run.id,
        "letter": dead_letters[0].id,
        "resolved": dead_letters[-1].id,
        "fingerprint": dead_letters[0].fingerprint,
        "job": dead_letters[0].job_id,
    }
