"""The commands by group: the module of each, and its line in `headrace --help`, for which no module is loaded."""

from __future__ import annotations

from headrace.core.text import nearest

_STORE = "commands.store.maintenance"
GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Run": {
        "demo": ("demo.demo", "A two-minute tour on a temporary file."),
        "worker": ("commands.workers.worker", "Run workers until SIGTERM or Ctrl-C."),
        "web": ("commands.web", "Serve the REST API and the dashboard."),
        "mcp": ("mcp.mcp", "Serve the store to AI assistants over MCP."),
        "enqueue": ("commands.jobs.enqueue", "Submit a job and print its id."),
        "signal": ("commands.jobs.signal", "Send an event to a job that waits for it."),
        "from-celery": ("commands.from_celery", "Check what of a Celery project carries over."),
    },
    "Look": {
        "top": ("top.top", "Watch queues, workers and failures on the whole screen."),
        "why": ("commands.jobs.jobs", "Explain why a job is not running."),
        "metrics": ("commands.metrics", "Show rates, errors and times, and the workers wanted."),
        "events": ("commands.events", "Show past events, or follow new ones."),
        "doctor": ("commands.store.doctor", "Check settings, store, workers and queues."),
    },
    "Look and act": {
        "jobs": ("commands.jobs.jobs", "List, show and change jobs."),
        "questions": ("commands.jobs.questions", "List and answer the questions of jobs."),
        "queues": ("commands.queues", "Show, pause, resume and configure queues."),
        "tasks": ("commands.tasks", "Pause, resume and configure tasks."),
        "breakers": ("commands.breakers", "List and reset circuit breakers."),
        "workers": ("commands.workers.workers", "Show, check, pause and stop workers."),
        "schedules": ("commands.schedules", "Show, pause, run, create and delete schedules."),
        "flows": ("commands.flows", "Show, draw, cancel and retry flows."),
    },
    "Failures and alerts": {
        "dead": ("commands.dead_letters.dead", "Inspect and requeue jobs that failed for good."),
        "stale": ("commands.retention.stale", "List jobs that stay too long in a state."),
        "alerts": ("commands.alerts.alerts", "List alerts; manage rules, channels and silences."),
        "webhooks": ("commands.webhooks", "Send events to HTTP endpoints."),
    },
    "Retention": {
        "lifecycle": ("commands.retention.lifecycle", "Show and change staleness and retention."),
        "archive": ("commands.retention.archive", "Archive or delete finished jobs past their retention."),
        "erase": ("commands.retention.erase", "Erase all that is held about a person or a tenant."),
        "partitions": ("commands.retention.archive", "List the partitions of the archive, oldest first."),
    },
    "Store": {
        "migrate": ("commands.store.doctor", "Bring the tables up to date."),
        "check": (_STORE, "Check the store for damage, orphans and zombies."),
        "storage": (_STORE, "List tables or keys with their sizes."),
        "backup": (_STORE, "Back up the store to one file, while it is in use."),
        "restore": (_STORE, "Restore a backup into a store."),
        "copy": ("commands.store.copy", "Move to another store."),
        "optimize": (_STORE, "Update statistics and reclaim free space."),
        "checkpoint": (_STORE, "Truncate the write-ahead log of an SQLite file."),
        "bench": ("commands.bench", "Measure a temporary SQLite file on your disk."),
    },
}
MODULES = {name: module for group in GROUPS.values() for name, (module, _) in group.items()}
# What other tools call it, or what a newcomer might type.
_MEANT = {
    "dashboard": "web",
    "ui": "web",
    "flower": "web",
    "serve": "web",
    "server": "web",
    "api": "web",
    "run": "worker",
    "start": "worker",
    "work": "worker",
    "consume": "worker",
    "status": "top",
    "monitor": "top",
    "watch": "top",
    "stats": "metrics",
    "scale": "metrics scale",
    "health": "doctor",
    "alive": "workers alive",
    "ping": "workers alive",
    "inspect": "workers",
    "list": "jobs",
    "ls": "jobs",
    "show": "jobs show",
    "cancel": "jobs cancel",
    "retry": "jobs retry",
    "delete": "jobs delete",
    "logs": "jobs show",
    "purge": "queues clear",
    "clear": "queues clear",
    "forget": "erase",
    "gdpr": "erase",
    "pause": "queues pause",
    "resume": "queues resume",
    "submit": "enqueue",
    "add": "enqueue",
    "send": "enqueue",
    "call": "enqueue",
    "cron": "schedules",
    "beat": "schedules",
    "scheduler": "schedules",
    "dlq": "dead",
    "failed": "dead",
    "requeue": "dead requeue",
    "init": "migrate",
    "upgrade": "migrate",
    "setup": "migrate",
    "export": "backup",
    "dump": "backup",
    "import": "restore",
    "move": "copy",
    "vacuum": "optimize",
    "version": "--version",
    "help": "--help",
}


def meant(typed: str, known: list[str], *, is_root: bool) -> str | None:
    """The command that was probably meant, out of those known; at the top also by other names."""
    if is_root and (other := _MEANT.get(typed.lower())):
        return other
    return nearest(typed.lower(), known) or (nearest_meaning(typed) if is_root else None)


def nearest_meaning(typed: str) -> str | None:
    """The command whose other name is close to what was typed."""
    near = nearest(typed.lower(), _MEANT)
    return None if near is None else _MEANT[near]
