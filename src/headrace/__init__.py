"""headrace: background jobs that need nothing but a file.

The code has five layers, and a layer imports only the ones below it:

    errors.py     one exception tree
    core/         values and rules: pure, no I/O, no clock
    engines/      storage: the engine protocol, SQLite, PostgreSQL, Redis, group commit, wake-ups
    runtime/      execution: tasks, handles, workers, sandboxes, the supervisor
    app/          Headrace and its facades
    cli/ testing/ web/ contrib/ user interfaces; nothing imports them

Everything public is importable from here, from `headrace.testing` and from `headrace.contrib`; all other modules are
private.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from headrace.errors import (
    AlertChannelNotFound,
    AlertNotFound,
    AlertRuleNotFound,
    AlertSilenceNotFound,
    AppClosed,
    BreakerNotFound,
    BreakerOpen,
    BudgetExceeded,
    CancelJob,
    ConfigError,
    CorruptPayload,
    DeadLetterClosed,
    DeadLetterNotFound,
    DuplicateJob,
    EngineUnavailable,
    FlowNotFound,
    HeadraceError,
    InvalidAlert,
    InvalidJob,
    InvalidSchedule,
    JobCancelled,
    JobFailed,
    JobInterrupted,
    JobNotFound,
    JobTimeout,
    LeaseLost,
    NotFound,
    PayloadStoreUnavailable,
    PayloadTooLarge,
    PermanentError,
    QuestionNotFound,
    QueueFull,
    QueueNotEmpty,
    QueueNotFound,
    ReplayStopped,
    ResultUnavailable,
    RetryableError,
    RetryLater,
    ScheduleNotFound,
    SchemaMismatch,
    Snooze,
    StoreMoved,
    UnknownTask,
    UnsupportedByEngine,
    WebhookNotFound,
    WorkerNotFound,
)

if TYPE_CHECKING:
    from headrace.app.admin.backups import Backup, Restored
    from headrace.app.admin.erasure import Erasure
    from headrace.app.alerts.records import Alert, AlertChange, AlertChannel, AlertReading, AlertRule, AlertSilence
    from headrace.app.app import Headrace
    from headrace.app.breakers import BreakerStatus
    from headrace.app.dead_letters.records import (
        BulkRequeue,
        DeadGroup,
        DeadLetter,
        DeadNote,
        DeadPage,
        DeadStats,
        RequeueResult,
    )
    from headrace.app.events.webhooks import Webhook
    from headrace.app.jobs.jobs import JobPage
    from headrace.app.metrics.records import (
        DayMetrics,
        MetricDurations,
        MetricFigures,
        MetricPoint,
        MetricSeries,
        MetricsSnapshot,
        QueueMetrics,
        TaskMetrics,
        WorkerMetrics,
    )
    from headrace.app.metrics.task_stats import TaskStats
    from headrace.app.questions import OpenQuestion
    from headrace.app.queues.queues import Queue, QueueStats
    from headrace.app.retention.archive_records import (
        ArchiveMonth,
        ArchivePartition,
        ArchiveRun,
        ArchiveStats,
        TaskDurations,
    )
    from headrace.app.retention.lifecycle_records import LifecyclePolicy, PolicyLayers, StaleJob, StateAges
    from headrace.app.schedules.records import Schedule, ScheduleRun
    from headrace.app.workers import WorkerInfo
    from headrace.core.codec.result_refs import ParentFailure
    from headrace.core.events.event import Event
    from headrace.core.events.history import AttemptError, HistoryEntry
    from headrace.core.events.stream import Chunk
    from headrace.core.health.findings import Finding, StoragePart
    from headrace.core.health.process_stats import MemoryTrace
    from headrace.core.jobs.count import JobCount
    from headrace.core.jobs.explanation import Explanation, Remedy
    from headrace.core.jobs.queue_rules import KeyRules, QueueRules, TaskRules
    from headrace.core.jobs.states import State
    from headrace.core.metrics.scaling import QueueScale, StoreScale
    from headrace.core.retention.lifecycle import Lifecycle
    from headrace.core.settings.setting_types import AppSettings, WebOptions, WorkerSettings
    from headrace.core.tasks.injection import INJECTED
    from headrace.core.tasks.option_types import CallOptions, ScheduleOptions, TaskOptions
    from headrace.core.tasks.retry import Retry
    from headrace.core.tasks.unique import Cache, Unique
    from headrace.runtime.context.breaker import Breaker
    from headrace.runtime.context.current_job import JobContext, current_job, current_jobs
    from headrace.runtime.context.logs import JobContextFilter, JsonFormatter, TextFormatter, configure_logs
    from headrace.runtime.flows.chains import chain, group
    from headrace.runtime.flows.flow import Flow
    from headrace.runtime.jobs.flow_run import FlowRun
    from headrace.runtime.jobs.job import Job
    from headrace.runtime.jobs.services import LogEntry
    from headrace.runtime.jobs.task import Call, Task
    from headrace.runtime.worker.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "INJECTED",
    "Alert",
    "AlertChange",
    "AlertChannel",
    "AlertChannelNotFound",
    "AlertNotFound",
    "AlertReading",
    "AlertRule",
    "AlertRuleNotFound",
    "AlertSilence",
    "AlertSilenceNotFound",
    "AppClosed",
    "AppSettings",
    "ArchiveMonth",
    "ArchivePartition",
    "ArchiveRun",
    "ArchiveStats",
    "AttemptError",
    "Backup",
    "Breaker",
    "BreakerNotFound",
    "BreakerOpen",
    "BreakerStatus",
    "BudgetExceeded",
    "BulkRequeue",
    "Cache",
    "Call",
    "CallOptions",
    "CancelJob",
    "Chunk",
    "ConfigError",
    "CorruptPayload",
    "DayMetrics",
    "DeadGroup",
    "DeadLetter",
    "DeadLetterClosed",
    "DeadLetterNotFound",
    "DeadNote",
    "DeadPage",
    "DeadStats",
    "DuplicateJob",
    "EngineUnavailable",
    "Erasure",
    "Event",
    "Explanation",
    "Finding",
    "Flow",
    "FlowNotFound",
    "FlowRun",
    "Headrace",
    "HeadraceError",
    "HistoryEntry",
    "InvalidAlert",
    "InvalidJob",
    "InvalidSchedule",
    "Job",
    "JobCancelled",
    "JobContext",
    "JobContextFilter",
    "JobCount",
    "JobFailed",
    "JobInterrupted",
    "JobNotFound",
    "JobPage",
    "JobTimeout",
    "JsonFormatter",
    "KeyRules",
    "LeaseLost",
    "Lifecycle",
    "LifecyclePolicy",
    "LogEntry",
    "MemoryTrace",
    "MetricDurations",
    "MetricFigures",
    "MetricPoint",
    "MetricSeries",
    "MetricsSnapshot",
    "NotFound",
    "OpenQuestion",
    "ParentFailure",
    "PayloadStoreUnavailable",
    "PayloadTooLarge",
    "PermanentError",
    "PolicyLayers",
    "QuestionNotFound",
    "Queue",
    "QueueFull",
    "QueueMetrics",
    "QueueNotEmpty",
    "QueueNotFound",
    "QueueRules",
    "QueueScale",
    "QueueStats",
    "Remedy",
    "ReplayStopped",
    "RequeueResult",
    "Restored",
    "ResultUnavailable",
    "Retry",
    "RetryLater",
    "RetryableError",
    "Schedule",
    "ScheduleNotFound",
    "ScheduleOptions",
    "ScheduleRun",
    "SchemaMismatch",
    "Snooze",
    "StaleJob",
    "State",
    "StateAges",
    "StoragePart",
    "StoreMoved",
    "StoreScale",
    "Task",
    "TaskDurations",
    "TaskMetrics",
    "TaskOptions",
    "TaskRules",
    "TaskStats",
    "TextFormatter",
    "Unique",
    "UnknownTask",
    "UnsupportedByEngine",
    "WebOptions",
    "Webhook",
    "WebhookNotFound",
    "Worker",
    "WorkerInfo",
    "WorkerMetrics",
    "WorkerNotFound",
    "WorkerSettings",
    "chain",
    "configure_logs",
    "current_job",
    "current_jobs",
    "group",
]

# Each name but the errors is imported on first use: most programs need a few of these modules.
_NAMES_OF = {
    "headrace.app.admin.backups": "Backup Restored",
    "headrace.app.admin.erasure": "Erasure",
    "headrace.app.alerts.records": "Alert AlertChange AlertChannel AlertReading AlertRule AlertSilence",
    "headrace.app.app": "Headrace",
    "headrace.app.breakers": "BreakerStatus",
    "headrace.app.dead_letters.records": "BulkRequeue DeadGroup DeadLetter DeadNote DeadPage DeadStats RequeueResult",
    "headrace.app.events.webhooks": "Webhook",
    "headrace.app.jobs.jobs": "JobPage",
    "headrace.app.questions": "OpenQuestion",
    "headrace.app.metrics.records": (
        "DayMetrics MetricDurations MetricFigures MetricPoint MetricSeries MetricsSnapshot "
        "QueueMetrics TaskMetrics WorkerMetrics"
    ),
    "headrace.app.metrics.task_stats": "TaskStats",
    "headrace.app.queues.queues": "Queue QueueStats",
    "headrace.app.retention.archive_records": "ArchiveMonth ArchivePartition ArchiveRun ArchiveStats TaskDurations",
    "headrace.app.retention.lifecycle_records": "LifecyclePolicy PolicyLayers StaleJob StateAges",
    "headrace.app.schedules.records": "Schedule ScheduleRun",
    "headrace.app.workers": "WorkerInfo",
    "headrace.core.codec.result_refs": "ParentFailure",
    "headrace.core.events.event": "Event",
    "headrace.core.events.history": "AttemptError HistoryEntry",
    "headrace.core.events.stream": "Chunk",
    "headrace.core.health.findings": "Finding StoragePart",
    "headrace.core.health.process_stats": "MemoryTrace",
    "headrace.core.jobs.count": "JobCount",
    "headrace.core.jobs.explanation": "Explanation Remedy",
    "headrace.core.jobs.queue_rules": "KeyRules QueueRules TaskRules",
    "headrace.core.jobs.states": "State",
    "headrace.core.metrics.scaling": "QueueScale StoreScale",
    "headrace.core.retention.lifecycle": "Lifecycle",
    "headrace.core.settings.setting_types": "AppSettings WebOptions WorkerSettings",
    "headrace.core.tasks.injection": "INJECTED",
    "headrace.core.tasks.option_types": "CallOptions ScheduleOptions TaskOptions",
    "headrace.core.tasks.retry": "Retry",
    "headrace.core.tasks.unique": "Cache Unique",
    "headrace.runtime.context.breaker": "Breaker",
    "headrace.runtime.context.current_job": "JobContext current_job current_jobs",
    "headrace.runtime.context.logs": "JobContextFilter JsonFormatter TextFormatter configure_logs",
    "headrace.runtime.flows.chains": "chain group",
    "headrace.runtime.flows.flow": "Flow",
    "headrace.runtime.jobs.flow_run": "FlowRun",
    "headrace.runtime.jobs.job": "Job",
    "headrace.runtime.jobs.services": "LogEntry",
    "headrace.runtime.jobs.task": "Call Task",
    "headrace.runtime.worker.worker": "Worker",
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
