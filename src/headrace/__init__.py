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

from headrace.app.app import Headrace
from headrace.app.jobs.jobs import JobPage
from headrace.app.queues.queues import Queue, QueueStats
from headrace.app.workers import WorkerInfo
from headrace.core.codec.result_refs import ParentFailure
from headrace.core.events.history import AttemptError, HistoryEntry
from headrace.core.jobs.count import JobCount
from headrace.core.jobs.explanation import Explanation, Remedy
from headrace.core.jobs.queue_rules import QueueRules, TaskRules
from headrace.core.jobs.states import State
from headrace.core.retention.lifecycle import Lifecycle
from headrace.core.tasks.injection import INJECTED
from headrace.core.tasks.retry import Retry
from headrace.core.tasks.unique import Cache, Unique
from headrace.errors import (
    AlertChannelNotFound,
    AlertNotFound,
    AlertRuleNotFound,
    AlertSilenceNotFound,
    AppClosed,
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
    JobNotFound,
    JobTimeout,
    LeaseLost,
    NotFound,
    PayloadTooLarge,
    PermanentError,
    QueueFull,
    QueueNotEmpty,
    QueueNotFound,
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
from headrace.runtime.context.current_job import JobContext, current_job
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.services import LogEntry
from headrace.runtime.jobs.task import Call, Task

if TYPE_CHECKING:
    from headrace.app.admin.backups import Backup, Restored
    from headrace.app.alerts.records import (
        Alert,
        AlertChange,
        AlertChannel,
        AlertReading,
        AlertRule,
        AlertSilence,
    )
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
    from headrace.app.retention.archive_records import (
        ArchiveMonth,
        ArchivePartition,
        ArchiveRun,
        ArchiveStats,
        TaskDurations,
    )
    from headrace.app.retention.lifecycle_records import LifecyclePolicy, PolicyLayers, StaleJob, StateAges
    from headrace.app.schedules.records import Schedule, ScheduleRun
    from headrace.core.events.event import Event
    from headrace.core.health.findings import Finding, StoragePart
    from headrace.core.health.process_stats import MemoryTrace
    from headrace.core.settings.setting_types import AppSettings, WebOptions, WorkerSettings
    from headrace.core.tasks.option_types import CallOptions, ScheduleOptions, TaskOptions
    from headrace.runtime.context.logs import JobContextFilter, JsonFormatter, TextFormatter, configure_logs
    from headrace.runtime.flows.chains import chain, group
    from headrace.runtime.flows.flow import Flow
    from headrace.runtime.jobs.flow_run import FlowRun
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
    "BulkRequeue",
    "Cache",
    "Call",
    "CallOptions",
    "CancelJob",
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
    "JobNotFound",
    "JobPage",
    "JobTimeout",
    "JsonFormatter",
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
    "ParentFailure",
    "PayloadTooLarge",
    "PermanentError",
    "PolicyLayers",
    "Queue",
    "QueueFull",
    "QueueMetrics",
    "QueueNotEmpty",
    "QueueNotFound",
    "QueueRules",
    "QueueScale",
    "QueueStats",
    "Remedy",
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
    "group",
]


# Imported on first use: a program that only enqueues needs none of them.
_LATER = {
    "Alert": "headrace.app.alerts.records",
    "AlertChange": "headrace.app.alerts.records",
    "AlertChannel": "headrace.app.alerts.records",
    "AlertReading": "headrace.app.alerts.records",
    "AlertRule": "headrace.app.alerts.records",
    "AlertSilence": "headrace.app.alerts.records",
    "ArchiveMonth": "headrace.app.retention.archive_records",
    "ArchivePartition": "headrace.app.retention.archive_records",
    "ArchiveRun": "headrace.app.retention.archive_records",
    "ArchiveStats": "headrace.app.retention.archive_records",
    "Backup": "headrace.app.admin.backups",
    "BulkRequeue": "headrace.app.dead_letters.records",
    "DayMetrics": "headrace.app.metrics.records",
    "DeadGroup": "headrace.app.dead_letters.records",
    "DeadLetter": "headrace.app.dead_letters.records",
    "DeadNote": "headrace.app.dead_letters.records",
    "DeadPage": "headrace.app.dead_letters.records",
    "DeadStats": "headrace.app.dead_letters.records",
    "Finding": "headrace.core.health.findings",
    "Flow": "headrace.runtime.flows.flow",
    "FlowRun": "headrace.runtime.jobs.flow_run",
    "Event": "headrace.core.events.event",
    "TextFormatter": "headrace.runtime.context.logs",
    "JobContextFilter": "headrace.runtime.context.logs",
    "JsonFormatter": "headrace.runtime.context.logs",
    "LifecyclePolicy": "headrace.app.retention.lifecycle_records",
    "MemoryTrace": "headrace.core.health.process_stats",
    "MetricDurations": "headrace.app.metrics.records",
    "MetricFigures": "headrace.app.metrics.records",
    "MetricPoint": "headrace.app.metrics.records",
    "MetricSeries": "headrace.app.metrics.records",
    "MetricsSnapshot": "headrace.app.metrics.records",
    "QueueMetrics": "headrace.app.metrics.records",
    "QueueScale": "headrace.core.metrics.scaling",
    "StoreScale": "headrace.core.metrics.scaling",
    "RequeueResult": "headrace.app.dead_letters.records",
    "Restored": "headrace.app.admin.backups",
    "PolicyLayers": "headrace.app.retention.lifecycle_records",
    "Schedule": "headrace.app.schedules.records",
    "ScheduleRun": "headrace.app.schedules.records",
    "StaleJob": "headrace.app.retention.lifecycle_records",
    "StateAges": "headrace.app.retention.lifecycle_records",
    "StoragePart": "headrace.core.health.findings",
    "TaskDurations": "headrace.app.retention.archive_records",
    "TaskMetrics": "headrace.app.metrics.records",
    "TaskStats": "headrace.app.metrics.task_stats",
    "Webhook": "headrace.app.events.webhooks",
    "AppSettings": "headrace.core.settings.setting_types",
    "CallOptions": "headrace.core.tasks.option_types",
    "ScheduleOptions": "headrace.core.tasks.option_types",
    "TaskOptions": "headrace.core.tasks.option_types",
    "WebOptions": "headrace.core.settings.setting_types",
    "WorkerSettings": "headrace.core.settings.setting_types",
    "Worker": "headrace.runtime.worker.worker",
    "WorkerMetrics": "headrace.app.metrics.records",
    "chain": "headrace.runtime.flows.chains",
    "configure_logs": "headrace.runtime.context.logs",
    "group": "headrace.runtime.flows.chains",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    return getattr(importlib.import_module(_LATER[name]), name)
