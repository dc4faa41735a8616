"""Every setting, once: its name, its type, its default and its rule.

A name is the same everywhere: `lease` is the argument `Headrace(lease=...)`, the variable `HEADRACE_LEASE` and the key
of `[tool.headrace]` in pyproject.toml or of headrace.toml. Times are seconds. This module reads neither the environment
nor files; the caller passes their contents.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, Literal, get_args

import msgspec

from headrace.core import networks
from headrace.core.access import Credential, credentials
from headrace.core.codec.encryption import find_error, names_of
from headrace.core.dead_letters.records import MAX_REQUEUES, PRIORITY_BOOST, REASONS
from headrace.core.health.findings import MAINTENANCE_KINDS, MaintenanceKind
from headrace.core.health.probes import parse_address
from headrace.core.jobs.queue_rules import Strategy
from headrace.core.queues.fair_share import Order
from headrace.core.retention.archive import Interval
from headrace.core.retention.policy_fields import OnStale
from headrace.core.settings.checks import (
    LONGEST,
    are_channels,
    are_reasons,
    is_at_least,
    is_kept,
    is_label,
    is_local,
    is_path,
    is_pause,
    is_span,
    is_sql,
    is_time,
    weighted,
)
from headrace.core.settings.derived import implied
from headrace.core.settings.payload_rules import payload_rules
from headrace.core.settings.queue_weights import Queues, parse_queues
from headrace.core.tasks.labels import check_capabilities
from headrace.core.tasks.retry import LONGEST_LIMIT, BackoffKind, Retry
from headrace.core.text import nearest, short
from headrace.core.urls import redacted_url
from headrace.errors import ConfigError, InvalidJob

Secrets = Literal["web_auth", "web_tokens"]
SECRETS: tuple[Secrets, ...] = get_args(Secrets)
AUTO = "auto"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The effective settings of an app."""

    url: str = "sqlite:///headrace.db"
    app: str | None = None
    queues: Queues | None = None
    queue_order: Order = "weighted"
    strategy: Strategy | None = None
    capabilities: tuple[str, ...] = ()
    concurrency: int = 4
    processes: int = 1
    prefetch: int = 1000
    lease: float = 30.0
    heartbeat: float | None = None
    shutdown_timeout: float = 30.0
    timeout: float | None = 1800.0
    retry_limit: int = 3
    retry_backoff: BackoffKind = "exponential"
    retry_base: float = 1.0
    retry_factor: float = 2.0
    retry_cap: float = 3600.0
    retry_jitter: float = 0.1
    max_payload: int = 1_048_576
    payload_store: str | None = None
    payload_threshold: int = 65_536
    payload_limit: int = 268_435_456
    payload_grace: float = 604_800.0
    max_chunk: int = 65_536
    max_stream: int = 4_194_304
    durability: Literal["normal", "full"] = "normal"
    auto_migrate: bool = True
    spool: str | None = None
    spool_limit: int = 100_000
    dead_letters: bool | tuple[str, ...] = True
    max_requeues: int = MAX_REQUEUES
    priority_boost: int = PRIORITY_BOOST
    dead_requeue_after: float | None = None
    dead_requeue_factor: float = 2.0
    dead_requeue_limit: int = 2
    staleness: Literal["review", "enforce"] = "review"
    stale_check: float | None = 300.0
    stale_batch: int = 100
    stale_dry_run: bool = False
    stale_scheduled: float | None = 86_400.0
    stale_waiting: float | None = 3600.0
    stale_pending: float | None = 86_400.0
    stale_retrying: float | None = 1800.0
    stale_running: float | None = None
    stale_age: float | None = None
    on_stale: OnStale = "review"
    max_crashes: int | None = 3
    keep_completed: float | None = 604_800.0
    keep_failed: float | None = 2_592_000.0
    keep_cancelled: float | None = 604_800.0
    archive: bool = True
    archive_url: str | None = None
    archive_partition: Interval = "weekly"
    archive_keep: float | None = 15_552_000.0
    archive_check: float | None = 60.0
    job_history_size: int | None = None
    dead_keep: float | None = 2_592_000.0
    dead_pending_keep: float | None = 15_552_000.0
    dead_pending_max: int | None = 100_000
    maintenance: tuple[MaintenanceKind, ...] = MAINTENANCE_KINDS
    history_limit: int | None = 1000
    log_limit: int | None = 10_000
    max_size: int | None = None
    events: bool = True
    events_keep: float = 259_200.0
    events_limit: int = 1_000_000
    metrics: bool = True
    metrics_keep_fine: float | None = 604_800.0
    metrics_keep_minutes: float | None = 2_592_000.0
    metrics_keep_hours: float | None = 7_776_000.0
    target_wait: float = 60.0
    alert_check: float | None = 15.0
    alert_notify: tuple[str, ...] = ("log",)
    alert_channels: tuple[str, ...] = ()
    alert_keep: float = 7_776_000.0
    webhook_networks: tuple[str, ...] = ()
    encryption_keys: tuple[str, ...] = ()
    secret_words: tuple[str, ...] | None = ()
    importable: tuple[str, ...] = ()
    max_jobs: int | None = None
    max_memory: int | None = None
    trace_memory: float | None = None
    health_file: str | None = None
    health_port: int | str | None = None
    otel: bool = False
    log_format: Literal["human", "json"] = "human"
    log_level: str = "INFO"
    web_host: str = "127.0.0.1"
    web_port: int = 8080
    web_auth: tuple[str, ...] = ()
    web_tokens: tuple[str, ...] = ()
    web_read_only: bool = False
    web_label: str | None = None
    web_rate: float | None = 100.0
    web_max_body: int = 8_388_608
    web_trusted_proxies: tuple[str, ...] = ("127.0.0.1", "::1")

    def __post_init__(self) -> None:
        for rule, holds in _rules(self):
            if not holds:
                name = rule.partition(":")[0]
                raise ConfigError(rule, field=name, value=None if name in _UNSHOWN else getattr(self, name))
        for name in _NETWORKS:
            if error := networks.find_error(name, getattr(self, name)):
                raise ConfigError(error)
        for name in SECRETS:
            self.credentials(name)  # or ConfigError
        if self.health_port is not None:
            parse_address(self.health_port)  # or ConfigError

    @property
    def beat(self) -> float:
        """The effective heartbeat: a third of the lease, unless it is set."""
        return self.lease / 3 if self.heartbeat is None else self.heartbeat

    @property
    def retry(self) -> Retry:
        """The default retry policy, where neither the task nor the call sets one."""
        return Retry(**{name: getattr(self, f"retry_{name}") for name in _RETRY})

    def credentials(self, name: Secrets) -> tuple[Credential, ...]:
        """The HTTP credentials in one of the settings of secrets."""
        return credentials(name, getattr(self, name), named=name == "web_auth")

    def shown(self) -> dict[str, Any]:
        """The settings as they may be shown: only the names of keys and channels, and no password of a URL."""
        hidden: dict[str, Any] = {name: tuple(map(str, self.credentials(name))) for name in SECRETS}
        hidden["encryption_keys"] = tuple(names_of(self.encryption_keys))
        hidden["alert_channels"] = tuple(text.partition("=")[0] for text in self.alert_channels)
        hidden |= {name: redacted_url(url) for name in _URLS if (url := getattr(self, name)) is not None}
        return {**msgspec.structs.asdict(self), "heartbeat": self.beat, **hidden}

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in self.shown().items())})"


_SECRET = ("encryption_keys", "alert_channels", *SECRETS)
_NETWORKS = ("webhook_networks", "web_trusted_proxies")
_URLS = ("url", "archive_url", "payload_store")
_UNSHOWN = (*_SECRET, *_URLS)
_RETRY = ("limit", "backoff", "base", "factor", "cap", "jitter")
_RETRY_NUMBERS = ("retry_base", "retry_factor", "retry_cap")
_METRICS = tuple(f"metrics_keep_{what}" for what in ("fine", "minutes", "hours"))
_KEPT = ("keep_completed", "keep_failed", "keep_cancelled", "archive_keep", "dead_keep", "dead_pending_keep", *_METRICS)
_STALE = tuple(f"stale_{what}" for what in ("scheduled", "waiting", "pending", "retrying", "running", "age"))


def _rules(s: Settings) -> list[tuple[str, bool]]:
    return [
        (f"concurrency: {s.concurrency} must be at least 1", s.concurrency >= 1),
        (f"processes: {s.processes} must be at least 1", s.processes >= 1),
        (f"prefetch: {s.prefetch} must be from 0 to 10000", 0 <= s.prefetch <= 10_000),
        (f"lease: {s.lease:g} must be from 0.1 to 86400 seconds", 0.1 <= s.lease <= 86_400),
        (f"heartbeat: {s.beat:g} must be positive and shorter than the lease", 0 < s.beat < s.lease),
        (f"shutdown_timeout: {s.shutdown_timeout:g} must not be negative", s.shutdown_timeout >= 0),
        (f"timeout: {s.timeout} must be positive, or none", s.timeout is None or s.timeout > 0),
        (f"retry_limit: {s.retry_limit} must be from 0 to {LONGEST_LIMIT}", 0 <= s.retry_limit <= LONGEST_LIMIT),
        *((f"{name}: {getattr(s, name):g} must be 0 or more", 0 <= getattr(s, name) < inf) for name in _RETRY_NUMBERS),
        (f"retry_jitter: {s.retry_jitter:g} must be from 0 to 1", 0 <= s.retry_jitter <= 1),
        (f"max_payload: {s.max_payload} must be at least 1024 bytes", s.max_payload >= 1024),
        *payload_rules(s),
        (f"max_chunk: {s.max_chunk} must be at least 64 bytes", s.max_chunk >= 64),
        (f"max_stream: {s.max_stream} must be at least 1024 bytes", s.max_stream >= 1024),
        (f"max_jobs: {s.max_jobs} must be at least 1", s.max_jobs is None or s.max_jobs >= 1),
        (f"max_memory: {s.max_memory} must be at least 32 (megabytes)", s.max_memory is None or s.max_memory >= 32),
        (f"trace_memory: {s.trace_memory} must be at least 0.1 seconds, or none", is_pause(s.trace_memory)),
        ("queues: give at least one queue with a weight of 1 or more", weighted(s.queues)),
        (
            f"health_file: {s.health_file!r} should be the path of a file",
            s.health_file is None or is_path(s.health_file),
        ),
        (f"spool: {s.spool!r} should be the path of a file", s.spool is None or is_path(s.spool)),
        (
            "spool: only for a server (postgresql, redis); a local store is never unavailable",
            s.spool is None or not is_local(s.url),
        ),
        (f"spool_limit: {s.spool_limit} must be at least 1", s.spool_limit >= 1),
        (f"dead_requeue_after: {s.dead_requeue_after} must be positive, or none", is_time(s.dead_requeue_after)),
        (f"dead_requeue_factor: {s.dead_requeue_factor:g} must be from 1 to 100", 1 <= s.dead_requeue_factor <= 100),
        (f"history_limit: {s.history_limit} must be at least 20, or none", is_at_least(20, s.history_limit)),
        (f"log_limit: {s.log_limit} must be at least 20, or none", is_at_least(20, s.log_limit)),
        (f"max_size: {s.max_size} must be at least 1 (megabyte), or none", is_at_least(1, s.max_size)),
        (f"events_keep: {s.events_keep:g} must be at least 1 second", 1 <= s.events_keep <= LONGEST),
        (f"events_limit: {s.events_limit} must be at least 1000 events", s.events_limit >= 1000),
        (f"dead_letters: name reasons out of {', '.join(REASONS)}", are_reasons(s.dead_letters)),
        (f"max_requeues: {s.max_requeues} must be 0 or more", s.max_requeues >= 0),
        (f"priority_boost: {s.priority_boost} must be from -200 to 200", -200 <= s.priority_boost <= 200),
        (f"stale_batch: {s.stale_batch} must be from 1 to 10000 jobs", 1 <= s.stale_batch <= 10_000),
        (f"job_history_size: {s.job_history_size} must be at least 1, or none", is_at_least(1, s.job_history_size)),
        (f"dead_pending_max: {s.dead_pending_max} must be at least 1, or none", is_at_least(1, s.dead_pending_max)),
        (f"dead_requeue_limit: {s.dead_requeue_limit} must be from 1 to 20", 1 <= s.dead_requeue_limit <= 20),
        (f"stale_check: {s.stale_check} must be at least 0.1 seconds, or none", is_pause(s.stale_check)),
        *((f"{name}: {getattr(s, name)} must be positive, or none", is_span(getattr(s, name))) for name in _STALE),
        (f"max_crashes: {s.max_crashes} must be at least 1, or none", s.max_crashes is None or s.max_crashes >= 1),
        (f"archive_check: {s.archive_check} must be at least 0.1 seconds, or none", is_pause(s.archive_check)),
        ("archive_url: name a store in SQL: sqlite:///file.db or postgresql://…", is_sql(s.archive_url)),
        *((f"{name}: {getattr(s, name)} must be 0 or more, or none", is_kept(getattr(s, name))) for name in _KEPT),
        (f"target_wait: {s.target_wait:g} must be from 1 second to a year", 1 <= s.target_wait <= 366 * 86_400),
        (f"alert_check: {s.alert_check} must be at least 0.1 seconds, or none", is_pause(s.alert_check)),
        (f"alert_keep: {s.alert_keep} must be positive", is_span(s.alert_keep)),
        (
            "alert_channels: write NAME=URL with slack+https://, webhook+https:// or smtp://",
            are_channels(*s.alert_channels),
        ),
        (find_error(s.encryption_keys) or "", find_error(s.encryption_keys) is None),
        (f"web_port: {s.web_port} must be from 0 to 65535", 0 <= s.web_port <= 65_535),
        (f"web_label: {s.web_label!r} must have 1 to 24 characters, or none", is_label(s.web_label)),
        (f"web_rate: {s.web_rate} must be at least 1 (request a second), or none", is_at_least(1, s.web_rate)),
        (f"web_max_body: {s.web_max_body} must be at least 1024 bytes", s.web_max_body >= 1024),
    ]


_ARE_NONE = (
    *("timeout", "max_jobs", "max_memory", "trace_memory", "job_history_size", "dead_pending_max"),
    *("spool", "payload_store", "health_file", "health_port", "strategy"),
    *("dead_requeue_after", "stale_check", "alert_check", "max_crashes", "history_limit", "log_limit", "max_size"),
    *("archive_url", "archive_check"),
    *("secret_words", "web_label", "web_rate"),
)
_MAY_BE_NONE = (*_ARE_NONE, *_STALE, *_KEPT)
_LISTS = (
    *("dead_letters", "importable", "capabilities", "maintenance", "encryption_keys", "secret_words"),
    *("alert_notify", "alert_channels"),
    *_NETWORKS,
    *SECRETS,
)
_MAY_BE_EMPTY = ("maintenance", *_NETWORKS)
NAMES = Settings.__struct_fields__
_SWITCH = {"true": True, "1": True, "false": False, "0": False, "none": False}
_NOT_SETTINGS = ("HEADRACE_TEST_", "HEADRACE_DEBUG", "HEADRACE_ENV_FILE")  # of the tests and the command line
_TYPES: dict[str, Any] = {field.name: field.type for field in msgspec.structs.fields(Settings)}


class ResolvedSettings(msgspec.Struct, frozen=True):
    """Settings and, for each one that is not the default, where it came from."""

    settings: Settings
    origin: dict[str, str]


def resolve(
    arguments: Mapping[str, Any],
    environment: Mapping[str, str],
    file: Mapping[str, Any],
    file_name: str,
    *,
    cpus: int = 1,
) -> ResolvedSettings:
    """Arguments over HEADRACE_* variables over the file. An unknown or bad setting is an error that names it.

    An argument of None was not given, except where None means something: no timeout, no such limit. A spool belongs to
    the server it was set for: a nearer URL without one, such as that of a test, drops it. A concurrency of "auto" is
    the number of CPUs.
    """
    values: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for place in (_in_file(file, file_name), _in_environment(environment), _in_arguments(arguments)):
        nearer = {name: _converted(name, value, where) for name, (value, where, _) in place.items()}
        if is_local(nearer.get("url", "")) and "spool" not in nearer:
            values.pop("spool", None)
            origin.pop("spool", None)
        values |= nearer
        origin |= {name: found for name, (_, _, found) in place.items()}
    if values.get("concurrency") == AUTO:
        values["concurrency"] = cpus
    for name, (value, found) in implied(values).items():
        values[name], origin[name] = value, found
    return ResolvedSettings(Settings(**values), origin)


# For each setting of a source: its value, its name in errors, and its origin.
_Place = dict[str, tuple[Any, str, str]]


def _in_file(file: Mapping[str, Any], file_name: str) -> _Place:
    return {name: (value, f"{name} in {file_name}", file_name) for name, value in file.items()}


def _in_environment(environment: Mapping[str, str]) -> _Place:
    return {
        variable.removeprefix("HEADRACE_").lower(): (text, variable, variable)
        for variable, text in environment.items()
        if variable.startswith("HEADRACE_") and not variable.startswith(_NOT_SETTINGS)
    }


def _in_arguments(arguments: Mapping[str, Any]) -> _Place:
    given = {name: value for name, value in arguments.items() if value is not None or name in _MAY_BE_NONE}
    return {name: (value, name, "argument") for name, value in given.items()}


def _converted(name: str, value: Any, where: str) -> Any:
    if name not in NAMES:
        near = nearest(name, NAMES)
        hint = f"; did you mean {near}?" if near else f"; settings are {', '.join(NAMES)}"
        raise ConfigError(f"{where}: there is no setting {name!r}{hint}", field=name)
    if name == "queues":
        return parse_queues(value)
    if name == "concurrency" and value == AUTO:
        return value
    if name in _MAY_BE_EMPTY and isinstance(value, str) and value.lower() == "none":
        return ()
    if isinstance(value, str) and value.lower() in ("none", "") and name in _MAY_BE_NONE:
        return None
    if name == "dead_letters" and isinstance(value, str) and value.lower() in _SWITCH:
        return _SWITCH[value.lower()]
    if name in _LISTS and isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    try:
        converted = msgspec.convert(value, _TYPES[name], strict=not isinstance(value, str))
        return check_capabilities(where, converted) if name == "capabilities" else converted
    except (msgspec.ValidationError, UnicodeEncodeError) as error:  # bytes that are not text, for a number or a word
        value = "***" if name in _SECRET else value
        text = f"{where}: {short(value)} is not valid: {_expected(name, value) or error}"
        raise ConfigError(text, field=name, value=value) from None
    except InvalidJob as error:
        raise ConfigError(str(error), field=name, value=value) from None


def choices_of(name: str) -> tuple[str, ...]:
    """The values that a setting may have; none if it is not an enumeration."""
    kinds = (_TYPES[name], *get_args(_TYPES[name]))
    return next(
        (choices for kind in kinds if (choices := get_args(kind)) and all(type(choice) is str for choice in choices)),
        (),
    )


def _expected(name: str, value: Any) -> str:
    choices = choices_of(name)
    none = ", or none" if name in _MAY_BE_NONE else ""
    if not choices:
        kinds = (_TYPES[name], *get_args(_TYPES[name]))
        texts = {bool: "true or false", int: "a whole number", float: "a number"}
        return next((f"use {text}{none}" for kind, text in texts.items() if kind in kinds), "")
    near = nearest(value, choices) if isinstance(value, str) else None
    return f"use one of {', '.join(choices)}{none}" + (f" (did you mean {near}?)" if near else "")
