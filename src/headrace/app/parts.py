"""The parts of an app, each imported on first use: many programs only enqueue and need none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from headrace.app.registry import Registry
from headrace.app.services.services import Services
from headrace.core.settings.settings import Settings
from headrace.engines.protocol.engine import Engine
from headrace.runtime.jobs.task import Task
from headrace.runtime.submit.submitter import Submitter

if TYPE_CHECKING:
    from headrace.app.admin.admin import Admin
    from headrace.app.admin.audit import Audit
    from headrace.app.alerts.alerts import Alerts
    from headrace.app.breakers import Breakers
    from headrace.app.dead_letters.dead import Dead
    from headrace.app.events.events import EventStream
    from headrace.app.events.webhooks import Webhooks
    from headrace.app.flows import Flows
    from headrace.app.metrics.metrics import Metrics
    from headrace.app.metrics.task_stats import TaskStats
    from headrace.app.questions import Questions
    from headrace.app.retention.lifecycle import Lifecycles
    from headrace.app.schedules.schedules import Schedules
    from headrace.app.workers import WorkerInfo
    from headrace.runtime.flows.chains import Group


class AppParts(Protocol):
    """The attributes of an app that its parts use."""

    engine: Engine
    settings: Settings
    services: Services
    submitter: Submitter
    registry: Registry
    tasks: dict[str, Task[..., Any, Any]]

    @property
    def audit(self) -> Audit: ...

    @property
    def metrics(self) -> Metrics: ...

    @property
    def webhooks(self) -> Webhooks: ...

    def workers(self) -> list[WorkerInfo]: ...

    def task_by_name(self, name: str) -> Task[..., Any, Any]: ...


def schedules(app: AppParts) -> Schedules:
    """The schedules of this app's store."""
    from headrace.app.schedules.schedules import Schedules

    return Schedules(app.services, app.submitter, app.registry.as_task, app.tasks)


def flows(app: AppParts) -> Flows:
    """The flows of this app's store."""
    from headrace.app.flows import Flows

    return Flows(app.services)


def mapped(task: Task[..., Any, Any], items: Iterable[Any], at_most: int | None) -> Group:
    """A call of the task for each item."""
    from headrace.runtime.flows import chains

    return chains.mapped(task, items, at_most)


def dead(app: AppParts) -> Dead:
    """The dead letters of this app's store: jobs that failed for good."""
    from headrace.app.dead_letters.dead import Dead

    return Dead(app.services, app.task_by_name, app.settings)


def lifecycle(app: AppParts) -> Lifecycles:
    """Retention, the archive and stale jobs of this app's store."""
    from headrace.app.retention.lifecycle import Lifecycles

    return Lifecycles(app.services, app.settings, app.tasks)


def alerts(app: AppParts) -> Alerts:
    """Alerts, their rules, channels and silences."""
    from headrace.app.alerts.alerts import Alerts

    return Alerts(app.services, app.settings)


def metrics(app: AppParts) -> Metrics:
    """Metrics of this app's store."""
    from headrace.app.metrics.metrics import Metrics

    return Metrics(app.services, app.settings)


def task_stats(app: AppParts, only: str | None = None) -> list[TaskStats]:
    """Each task with its numbers and rules; with `only`, that one."""
    from headrace.app.metrics.task_stats import task_stats as read_stats

    known = {*app.registry.names(), *(name for worker in app.workers() for name in worker.tasks)}
    figures = app.metrics.by_task() if app.settings.events else {}
    return read_stats(app.engine, app.services.clock.now(), known, figures, app.registry.batches(), only)


def admin(app: AppParts) -> Admin:
    """Backups, checks and maintenance of this app's store."""
    from headrace.app.admin.admin import Admin

    return Admin(app.services, app.settings)


def audit(app: AppParts) -> Audit:
    """The audit trail of changes over HTTP."""
    from headrace.app.admin.audit import Audit

    return Audit(app.services)


def questions(app: AppParts) -> Questions:
    """Questions that jobs ask people, and the answers."""
    from headrace.app.questions import Questions

    return Questions(app.services, lambda: app.audit)


def breakers(app: AppParts) -> Breakers:
    """Circuit breakers at which calls have failed."""
    from headrace.app.breakers import Breakers

    return Breakers(app.services, lambda: app.audit)


def webhooks(app: AppParts) -> Webhooks:
    """Webhooks: HTTP endpoints that receive events."""
    from headrace.app.events.webhooks import Webhooks

    return Webhooks(app.services, app.registry.builtin)


def events(app: AppParts) -> EventStream:
    """Events of this app's store: `for event in app.events(): ...`."""
    from headrace.app.events.events import EventStream

    return EventStream(lambda: app.engine, app.webhooks)


def declared_task(app: AppParts, name: str) -> Task[..., Any, Any]:
    """A task to enqueue by name; if its code is unknown here, with the index that a worker declared.

    For surfaces: it may read the store, which `app.task_by_name()` does not.
    """
    task = app.task_by_name(name)
    task.indexed = task.indexed or app.services.index_of(name)
    return task
