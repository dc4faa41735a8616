"""What becomes of each word of Celery: it carries over, it changes, or it has no equal. The notes say what to do."""

from __future__ import annotations

from typing import Literal, NamedTuple

Verdict = Literal["carries over", "changes", "does not"]


class Rule(NamedTuple):
    """The verdict about a word, and a note for the reader."""

    verdict: Verdict
    note: str = ""


SAME = Rule("carries over")
_ALWAYS = Rule("carries over", "it is always so")
_CLEAN = Rule("changes", "it has no effect")
_QUEUE = Rule("does not", "there are no exchanges; name the queue with queue=")
_JSON = Rule("changes", "arguments are stored as JSON; another serializer is refused")

TASK_OPTIONS: dict[str, Rule] = {
    **dict.fromkeys(("name", "bind", "max_retries", "default_retry_delay", "autoretry_for", "retry_backoff"), SAME),
    **dict.fromkeys(("retry_backoff_max", "retry_jitter", "retry_kwargs", "ignore_result", "queue", "priority"), SAME),
    **dict.fromkeys(("dont_autoretry_for", "expires", "base"), SAME),
    "rate_limit": Rule("changes", "it holds for all workers together, not for each"),
    "time_limit": Rule("changes", "the task runs in a process of its own, which is killed"),
    "soft_time_limit": Rule("changes", "the task runs in a process of its own"),
    "acks_late": _ALWAYS,
    "reject_on_worker_lost": _ALWAYS,
    "track_started": _ALWAYS,
    "serializer": _JSON,
    **dict.fromkeys(("acks_on_failure_or_timeout", "compression", "send_events", "throws", "typing", "trail"), _CLEAN),
    **dict.fromkeys(("store_errors_even_if_ignored", "resultrepr_maxsize", "pydantic", "shared", "lazy"), _CLEAN),
    **dict.fromkeys(("routing_key", "exchange"), _QUEUE),
}
CALL_OPTIONS: dict[str, Rule] = {
    **dict.fromkeys(("args", "kwargs", "countdown", "eta", "expires", "queue", "priority", "task_id"), SAME),
    **dict.fromkeys(("link", "link_error", "ignore_result", "time_limit", "headers"), SAME),
    **dict.fromkeys(("retry", "retry_policy", "compression", "shadow", "add_to_parent", "producer"), _CLEAN),
    **dict.fromkeys(("routing_key", "exchange", "router"), _QUEUE),
    "serializer": _JSON,
    "soft_time_limit": Rule("does not", "set it for the task: @app.task(soft_time_limit=...)"),
    "connection": Rule("does not", "leave it out: the app has the store"),
}
CALLS: dict[str, Rule] = {
    **dict.fromkeys(("delay", "apply_async", "send_task", "apply", "s", "si", "signature", "subtask"), SAME),
    **dict.fromkeys(("link_error", "on_error", "register_task", "AsyncResult", "config_from_object"), SAME),
    "retry": Rule("carries over", "the job keeps its arguments"),
    "update_state": Rule("carries over", "for the running task itself"),
    "autodiscover_tasks": Rule("carries over", "the modules are imported when a worker starts"),
    "add_periodic_task": Rule("carries over", "every worker fires it; there is no Beat"),
    "chunks": Rule("does not", "use a group(...), or app.headrace.enqueue_many([...])"),
    "starmap": Rule("does not", "use a group(...), or app.headrace.enqueue_many([...])"),
    "xmap": Rule("does not", "use a group(...), or app.headrace.enqueue_many([...])"),
    "replace": Rule("does not", "use headrace.current_job().spawn(call)"),
    "add_to_chord": Rule("does not", "use headrace.current_job().spawn(call)"),
    "worker_main": Rule("changes", "run `headrace worker --app module:app`"),
}
# These names are too common to be reported for any object: only with `self`, a task or a signature before the dot.
ONLY_OF_TASKS = frozenset({"s", "replace", "retry", "apply", "signature", "starmap", "chunks"})
CONTROL: dict[str, Rule] = {
    "revoke": Rule("carries over", "the job is cancelled; a task in a process of its own is killed"),
    "rate_limit": SAME,
    "inspect": Rule("does not", "use app.headrace.workers() and app.headrace.jobs.find(state='running')"),
    "purge": Rule("does not", "use app.headrace.queue(name).clear()"),
    "broadcast": Rule("does not", "use app.headrace.stop_worker(id), pause_worker(id)"),
    "ping": Rule("does not", "use app.headrace.workers()"),
    "shutdown": Rule("does not", "use app.headrace.stop_worker(id)"),
}
NAMES: dict[str, Rule] = {
    **dict.fromkeys(("Celery", "shared_task", "Task", "chain", "group", "chord", "signature", "subtask"), SAME),
    **dict.fromkeys(("crontab", "schedule", "AsyncResult", "GroupResult", "EagerResult", "get_task_logger"), SAME),
    **dict.fromkeys(("Ignore", "Reject", "Retry", "MaxRetriesExceededError", "SoftTimeLimitExceeded"), SAME),
    **dict.fromkeys(("current_app", "current_task", "signals", "Signature", "TimeoutError"), SAME),
    "TaskRevokedError": Rule("carries over", "it is headrace's JobCancelled"),
    "solar": Rule("does not", "compute the time and use apply_async(eta=...)"),
    "states": Rule("changes", 'compare with the text: result.state == "SUCCESS"'),
    "uuid": Rule("changes", "use Python's uuid.uuid4"),
    "xmap": Rule("does not", "use a group(...)"),
    "chunks": Rule("does not", "use a group(...)"),
    "bootsteps": Rule("does not", "use the signals worker_ready and worker_shutdown"),
    "Context": Rule("changes", "import it from headrace.contrib.celery.tasks"),
}
SIGNALS = frozenset({
    "task_prerun", "task_postrun", "task_success", "task_failure", "task_retry", "worker_init", "worker_process_init",
    "worker_ready", "worker_shutdown",
})  # fmt: skip
OTHER_SIGNAL = Rule("does not", 'use @app.headrace.on("job.*") or "worker.*", which sees all processes')
SETTINGS: dict[str, Rule] = {
    **dict.fromkeys(("beat_schedule", "timezone", "task_routes", "task_default_queue", "task_ignore_result"), SAME),
    **dict.fromkeys(("task_time_limit", "task_soft_time_limit", "task_always_eager", "imports", "include"), SAME),
    **dict.fromkeys(("task_eager_propagates", "task_default_rate_limit", "task_default_priority"), SAME),
    **dict.fromkeys(("task_serializer", "result_serializer", "accept_content"), _JSON),
    "enable_utc": Rule("carries over", "times are always stored in UTC"),
    "task_acks_late": _ALWAYS,
    "task_reject_on_worker_lost": _ALWAYS,
    "task_track_started": _ALWAYS,
    "task_annotations": Rule("does not", "set the options in @app.task(...)"),
    "broker_url": Rule("changes", "give the URL of the store: Celery(broker=...)"),
    "result_backend": Rule("changes", "leave it out: the store keeps the results"),
    "result_expires": Rule("changes", "use the setting `retention`, or remove_on_complete of a task"),
    "worker_concurrency": Rule("changes", "use `headrace worker --processes` and `--concurrency`"),
    "worker_prefetch_multiplier": Rule("changes", "not needed; `headrace worker --prefetch` limits it"),
    "worker_max_tasks_per_child": Rule("changes", "use `headrace worker --max-jobs`"),
    "worker_max_memory_per_child": Rule("changes", "use `headrace worker --max-memory`, in megabytes"),
    "broker_transport_options": Rule("changes", "leave it out: leases are renewed, there is no visibility timeout"),
    "task_queues": Rule("changes", "leave it out: a queue exists with its first job"),
    "task_default_exchange": _QUEUE,
    "task_default_routing_key": _QUEUE,
    "beat_scheduler": Rule("does not", "every worker fires schedules; `headrace schedules` edits them"),
}
SERIALIZERS = ("task_serializer", "result_serializer")
OTHER_SERIALIZER = Rule("does not", "arguments and results are stored as JSON; use json")
OTHER_SETTING = Rule("changes", "it has no effect")
