"""The settings as type checkers and editors know them, when they are given by name.

`settings.py` has their defaults and rules; a test keeps the names equal. A list may also be text with commas.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, TypedDict

from headrace.core.health.findings import MaintenanceKind
from headrace.core.jobs.queue_rules import Strategy
from headrace.core.queues.fair_share import Order
from headrace.core.retention.archive import Interval
from headrace.core.retention.policy_fields import OnStale
from headrace.core.tasks.retry import BackoffKind


class WorkerSettings(TypedDict, total=False):
    """The settings that a worker reads: `app.worker()`, `app.run_worker()` and `app.lifespan()` take them."""

    queues: Mapping[str, int] | Collection[str] | str | None
    queue_order: Order
    strategy: Strategy | None
    capabilities: Collection[str] | str
    concurrency: int | Literal["auto"]
    processes: int
    prefetch: int
    lease: float
    heartbeat: float | None
    shutdown_timeout: float
    timeout: float | None
    retry_limit: int
    retry_backoff: BackoffKind
    retry_base: float
    retry_factor: float
    retry_cap: float
    retry_jitter: float
    max_chunk: int
    max_stream: int
    dead_letters: bool | Collection[str] | str
    dead_requeue_after: float | None
    dead_requeue_factor: float
    dead_requeue_limit: int
    staleness: Literal["review", "enforce"]
    stale_check: float | None
    stale_batch: int
    stale_dry_run: bool
    stale_scheduled: float | None
    stale_waiting: float | None
    stale_pending: float | None
    stale_retrying: float | None
    stale_running: float | None
    stale_age: float | None
    on_stale: OnStale
    max_crashes: int | None
    keep_completed: float | None
    keep_failed: float | None
    keep_cancelled: float | None
    archive: bool
    archive_partition: Interval
    archive_keep: float | None
    archive_check: float | None
    job_history_size: int | None
    dead_keep: float | None
    dead_pending_keep: float | None
    dead_pending_max: int | None
    maintenance: Collection[MaintenanceKind] | str
    history_limit: int | None
    log_limit: int | None
    max_size: int | None
    events: bool
    events_keep: float
    events_limit: int
    metrics: bool
    metrics_keep_fine: float | None
    metrics_keep_minutes: float | None
    metrics_keep_hours: float | None
    target_wait: float
    alert_check: float | None
    alert_notify: Collection[str] | str
    alert_channels: Collection[str] | str
    alert_keep: float
    max_jobs: int | None
    max_memory: int | None
    trace_memory: float | None
    health_file: str | None
    health_port: int | str | None


class AppSettings(WorkerSettings, total=False):
    """All settings but the URL: `Headrace(url, ...)` takes them."""

    app: str | None
    max_payload: int
    payload_store: str | None
    payload_threshold: int
    payload_limit: int
    payload_grace: float
    durability: Literal["normal", "full"]
    auto_migrate: bool
    spool: str | None
    spool_limit: int
    max_requeues: int
    priority_boost: int
    archive_url: str | None
    webhook_networks: Collection[str] | str
    encryption_keys: Collection[str] | str
    secret_words: Collection[str] | str | None
    importable: Collection[str] | str
    otel: bool
    log_format: Literal["human", "json"]
    log_level: str
    web_host: str
    web_port: int
    web_auth: Collection[str] | str
    web_tokens: Collection[str] | str
    web_read_only: bool
    web_label: str | None
    web_rate: float | None
    web_max_body: int
    web_trusted_proxies: Collection[str] | str


class WebOptions(TypedDict, total=False):
    """The options of `app.asgi()` and `app.wsgi()`: the settings `web_*` without `web_`, and how it is mounted."""

    prefix: str
    auth: Callable[..., Any] | Collection[str] | str
    login_url: str
    host: str
    port: int
    tokens: Collection[str] | str
    read_only: bool
    label: str | None
    rate: float | None
    max_body: int
    trusted_proxies: Collection[str] | str
