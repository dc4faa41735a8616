"""headrace: background jobs that need nothing but a file.

The house has five floors, and a floor imports only the ones below it:

    errors.py     one exception tree
    core/         values and rules: pure, no I/O, never reads a clock
    engines/      where jobs live: the seam (protocol.py), SQLite, PostgreSQL, Redis, group commit, the bells
    runtime/      running jobs: tasks, handles, workers, sandboxes, the supervisor
    app/          Headrace and its facades
    cli/ testing/ web/ contrib/ surfaces; nothing imports them

Everything public is importable from here, from `headrace.testing` and from `headrace.contrib`; all other modules are
private.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from headrace.app.app import Headrace
from headrace.app.jobs import JobPage
from headrace.app.queues import Queue, QueueStats
from headrace.app.workers import WorkerInfo
from headrace.core.count import JobCount
from headrace.core.lifecycle import Lifecycle
from headrace.core.promises import ParentFailure
from headrace.core.regulation import QueueRules, TaskRules
from headrace.core.retry import Retry
from headrace.core.states import State
from headrace.core.story import AttemptError, Entry
from headrace.core.unique import Cache, Unique
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
from headrace.runtime.context import JobContext, current_job
from headrace.runtime.job import Job
from headrace.runtime.job_hub import LogEntry
from headrace.runtime.task import Call, Task

if TYPE_CHECKING:
    from headrace.app.alert_records import (
        Alert,
        AlertChange,
        AlertChannel,
        AlertReading,
        AlertRule,
        AlertSilence,
    )
    from headrace.app.archive_records import ArchiveMonth, ArchivePartition, ArchiveRun, ArchiveStats, TaskDurations
    from headrace.app.backups import Backup, Restored
    from headrace.app.dead_records import (
        BulkRequeue,
        DeadGroup,
        DeadLetter,
        DeadNote,
        DeadPage,
        DeadStats,
        RequeueResult,
    )
    from headrace.app.lifecycle_records import LifecycleTerms, SaidTerms, StaleJob, StateAges
    from headrace.app.metric_records import (
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
    from headrace.app.schedule_records import Schedule, ScheduleRun
    from headrace.app.webhooks import Webhook
    from headrace.core.care import Finding, StoragePart
    from headrace.core.happenings import Happening
    from headrace.core.vitals import MemoryTrace
    from headrace.runtime.chains import chain, group
    from headrace.runtime.flow import Flow
    from headrace.runtime.flow_run import FlowRun
    from headrace.runtime.logs import HumanLines, JobFields, JsonLines, configure_logs
    from headrace.runtime.worker import Worker

__version__ = "0.1.0"

__all__ = [
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
    "ArchiveMonth",
    "ArchivePartition",
    "ArchiveRun",
    "ArchiveStats",
    "AttemptError",
    "Backup",
    "BulkRequeue",
    "Cache",
    "Call",
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
    "Entry",
    "Finding",
    "Flow",
    "FlowNotFound",
    "FlowRun",
    "Happening",
    "Headrace",
    "HeadraceError",
    "HumanLines",
    "InvalidAlert",
    "InvalidJob",
    "InvalidSchedule",
    "Job",
    "JobCancelled",
    "JobContext",
    "JobCount",
    "JobFailed",
    "JobFields",
    "JobNotFound",
    "JobPage",
    "JobTimeout",
    "JsonLines",
    "LeaseLost",
    "Lifecycle",
    "LifecycleTerms",
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
    "Queue",
    "QueueFull",
    "QueueMetrics",
    "QueueNotEmpty",
    "QueueNotFound",
    "QueueRules",
    "QueueStats",
    "RequeueResult",
    "Restored",
    "ResultUnavailable",
    "Retry",
    "RetryLater",
    "RetryableError",
    "SaidTerms",
    "Schedule",
    "ScheduleNotFound",
    "ScheduleRun",
    "SchemaMismatch",
    "Snooze",
    "StaleJob",
    "State",
    "StateAges",
    "StoragePart",
    "StoreMoved",
    "Task",
    "TaskDurations",
    "TaskMetrics",
    "TaskRules",
    "Unique",
    "UnknownTask",
    "UnsupportedByEngine",
    "Webhook",
    "WebhookNotFound",
    "Worker",
    "WorkerInfo",
    "WorkerMetrics",
    "WorkerNotFound",
    "chain",
    "configure_logs",
    "current_job",
    "group",
]


# Loaded when they are first used: a program that only enqueues has need of none of them.
_LATER = {
    "Alert": "headrace.app.alert_records",
    "AlertChange": "headrace.app.alert_records",
    "AlertChannel": "headrace.app.alert_records",
    "AlertReading": "headrace.app.alert_records",
    "AlertRule": "headrace.app.alert_records",
    "AlertSilence": "headrace.app.alert_records",
    "ArchiveMonth": "headrace.app.archive_records",
    "ArchivePartition": "headrace.app.archive_records",
    "ArchiveRun": "headrace.app.archive_records",
    "ArchiveStats": "headrace.app.archive_records",
    "Backup": "headrace.app.backups",
    "BulkRequeue": "headrace.app.dead_records",
    "DayMetrics": "headrace.app.metric_records",
    "DeadGroup": "headrace.app.dead_records",
    "DeadLetter": "headrace.app.dead_records",
    "DeadNote": "headrace.app.dead_records",
    "DeadPage": "headrace.app.dead_records",
    "DeadStats": "headrace.app.dead_records",
    "Finding": "headrace.core.care",
    "Flow": "headrace.runtime.flow",
    "FlowRun": "headrace.runtime.flow_run",
    "Happening": "headrace.core.happenings",
    "HumanLines": "headrace.runtime.logs",
    "JobFields": "headrace.runtime.logs",
    "JsonLines": "headrace.runtime.logs",
    "LifecycleTerms": "headrace.app.lifecycle_records",
    "MemoryTrace": "headrace.core.vitals",
    "MetricDurations": "headrace.app.metric_records",
    "MetricFigures": "headrace.app.metric_records",
    "MetricPoint": "headrace.app.metric_records",
    "MetricSeries": "headrace.app.metric_records",
    "MetricsSnapshot": "headrace.app.metric_records",
    "QueueMetrics": "headrace.app.metric_records",
    "RequeueResult": "headrace.app.dead_records",
    "Restored": "headrace.app.backups",
    "SaidTerms": "headrace.app.lifecycle_records",
    "Schedule": "headrace.app.schedule_records",
    "ScheduleRun": "headrace.app.schedule_records",
    "StaleJob": "headrace.app.lifecycle_records",
    "StateAges": "headrace.app.lifecycle_records",
    "StoragePart": "headrace.core.care",
    "TaskDurations": "headrace.app.archive_records",
    "TaskMetrics": "headrace.app.metric_records",
    "Webhook": "headrace.app.webhooks",
    "Worker": "headrace.runtime.worker",
    "WorkerMetrics": "headrace.app.metric_records",
    "chain": "headrace.runtime.chains",
    "configure_logs": "headrace.runtime.logs",
    "group": "headrace.runtime.chains",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    return getattr(importlib.import_module(_LATER[name]), name)
