"""The words of other libraries, and what headrace calls the same. Errors add them to names they do not know."""

from __future__ import annotations

from typing import NamedTuple


class Word(NamedTuple):
    """A word of another library. `here` is what to write instead."""

    library: str
    here: str


# Options of decorators and calls.
OPTIONS: dict[str, Word] = {
    "countdown": Word("Celery", "`delay`"),
    "eta": Word("Celery", "`run_at`, with a time zone"),
    "max_retries": Word("Celery", "`retry=5`, or Retry(limit=5, ...)"),
    "default_retry_delay": Word("Celery", 'Retry(backoff="fixed", base=60)'),
    "autoretry_for": Word("Celery", "Retry(on=(OSError,))"),
    "dont_autoretry_for": Word("Celery", "Retry(never=(ValueError,))"),
    "retry_backoff": Word("Celery", 'Retry(backoff="exponential")'),
    "retry_backoff_max": Word("Celery", "Retry(cap=600)"),
    "retry_jitter": Word("Celery", "Retry(jitter=0.1)"),
    "retry_kwargs": Word("Celery", "`retry=Retry(...)`"),
    "rate_limit": Word("Celery", '`rate="10/min"`'),
    "time_limit": Word("Celery", '`timeout` with isolation="process"'),
    "soft_time_limit": Word("Celery", "`timeout`, and current_job().cancel_requested"),
    "ignore_result": Word("Celery", "`keep_result=False`"),
    "bind": Word("Celery", "current_job() inside the task"),
    "acks_late": Word("Celery", "always so: a job is done when its result is stored; `retry=0` is the opposite"),
    "reject_on_worker_lost": Word("Celery", "always so: the job of a killed worker runs again"),
    "task_id": Word("Celery", "`job_id`"),
    "routing_key": Word("Celery", "`queue`"),
    "exchange": Word("Celery", "`queue`"),
    "link": Word("Celery", "chain(first.bind(), second.bind())"),
    "link_error": Word("Celery", 'using(after=job, on_parent_failure="run")'),
    "serializer": Word("Celery", "not needed: arguments are stored as JSON"),
    "base": Word("Celery", "a decorator of your own, or @app.on(...) for events"),
    "track_started": Word("Celery", "always so: `job.state` is running"),
    "actor_name": Word("Dramatiq", "`name`"),
    "queue_name": Word("Dramatiq", "`queue`"),
    "min_backoff": Word("Dramatiq", "Retry(base=1), in seconds"),
    "max_backoff": Word("Dramatiq", "Retry(cap=600), in seconds"),
    "max_age": Word("Dramatiq", "`expires`, in seconds"),
    "store_results": Word("Dramatiq", "`keep_result`"),
    "on_failure": Word("Dramatiq", '@app.on("job.failed")'),
    "on_success": Word("Dramatiq", '@app.on("job.completed")'),
    "throws": Word("Dramatiq", "Retry(never=(ValueError,))"),
    "retry_when": Word("Dramatiq", "Retry(backoff=function): it returns a delay, or None for no retry"),
    "pipe_target": Word("Dramatiq", "chain(first.bind(), second.bind())"),
    "retries": Word("Huey", "`retry=5`, or Retry(limit=5, ...)"),
    "retry_delay": Word("Huey", 'Retry(backoff="fixed", base=60)'),
    "context": Word("Huey", "current_job() inside the task"),
    "on_complete": Word("Huey", '@app.on("job.completed")'),
    "job_timeout": Word("RQ", "`timeout`"),
    "result_ttl": Word("RQ", "`remove_on_complete=3600`, in seconds"),
    "failure_ttl": Word("RQ", "`remove_on_fail=3600`, in seconds"),
    "ttl": Word("RQ", "`expires`"),
    "depends_on": Word("RQ", "`after`"),
    "at_front": Word("RQ", "`priority=100`"),
    "description": Word("RQ", '`metadata={"description": "..."}`'),
    "meta": Word("RQ", "`metadata`"),
    "max_tries": Word("arq", "`retry=4` is 5 tries"),
    "keep_result_forever": Word("arq", "`keep_result`, and the setting `retention`"),
    "lock": Word("Procrastinate", "`concurrency_key` with app.queue(name).configure(key_concurrency=1)"),
    "queueing_lock": Word("Procrastinate", "`unique=Unique(...)`"),
    "schedule_in": Word("Procrastinate", "`delay`"),
    "schedule_at": Word("Procrastinate", "`run_at`, with a time zone"),
    "pass_context": Word("Procrastinate", "current_job() inside the task"),
    "aliases": Word("Procrastinate", "a second @app.task(name=...) for the same function"),
    "_defer_by": Word("arq", "`delay`"),
    "_defer_until": Word("arq", "`run_at`, with a time zone"),
    "_job_id": Word("arq", "`job_id`"),
    "_expires": Word("arq", "`expires`"),
    "_queue_name": Word("arq", "`queue`"),
}

# Attributes of tasks.
ATTRIBUTES: dict[str, Word] = {
    "apply_async": Word("Celery", "task.using(delay=60).enqueue(...)"),
    "apply": Word("Celery", "task(...), or `with inline(app):` in tests"),
    "s": Word("Celery", "task.bind(...)"),
    "si": Word("Celery", "task.bind(...).detached()"),
    "subtask": Word("Celery", "task.bind(...)"),
    "request": Word("Celery", "current_job()"),
    "update_state": Word("Celery", "current_job().progress(...)"),
    "AsyncResult": Word("Celery", "app.jobs.get(id)"),
    "chunks": Word("Celery", "app.enqueue_many([...])"),
    "starmap": Word("Celery", "app.enqueue_many([...])"),
    "send": Word("Dramatiq", "task.enqueue(...)"),
    "send_with_options": Word("Dramatiq", "task.using(...).enqueue(...)"),
    "message": Word("Dramatiq", "task.bind(...)"),
    "message_with_options": Word("Dramatiq", "task.using(...).bind(...)"),
    "fn": Word("Dramatiq", "task.function"),
    "schedule": Word("Huey", "task.using(delay=60).enqueue(...)"),
    "call_local": Word("Huey", "task(...)"),
    "map": Word("Huey", "app.enqueue_many([...])"),
    "revoke": Word("Huey", "app.pause_task(name), or job.cancel() for one job"),
    "restore": Word("Huey", "app.resume_task(name)"),
    "is_revoked": Word("Huey", "app.task_rules()[name].paused"),
    "then": Word("Huey", "chain(first.bind(), second.bind())"),
    "enqueue_in": Word("RQ", "task.using(delay=60).enqueue(...)"),
    "enqueue_at": Word("RQ", "task.using(run_at=moment).enqueue(...)"),
    "enqueue_many": Word("RQ", "app.enqueue_many([task.bind(...), ...])"),
    "enqueue_job": Word("arq", "task.enqueue(...)"),
    "defer": Word("Procrastinate", "task.enqueue(...)"),
    "defer_async": Word("Procrastinate", "task.aenqueue(...)"),
    "batch_defer": Word("Procrastinate", "app.enqueue_many([task.bind(...), ...])"),
    "batch_defer_async": Word("Procrastinate", "app.aenqueue_many([task.bind(...), ...])"),
    "configure": Word("Procrastinate", "task.using(...)"),
}


def option_hint(name: object) -> str:
    """`Celery's countdown is ... here`, for an option that headrace does not know; empty for other words."""
    return _hint(OPTIONS.get(name) if isinstance(name, str) else None, name)


def attribute_hint(name: str) -> str:
    """The same for an attribute of a task."""
    return _hint(ATTRIBUTES.get(name), name)


def _hint(word: Word | None, name: object) -> str:
    if word is None:
        return ""
    owner = f"{word.library}'" if word.library.endswith("s") else f"{word.library}'s"
    rest = word.here.removeprefix("always so: ")
    if rest != word.here:
        return f"{owner} `{name}` is always on here: {rest}"
    if word.here.startswith("not needed"):
        return f"{owner} `{name}` is {word.here}"
    return f"{owner} `{name}` is {word.here} here"
