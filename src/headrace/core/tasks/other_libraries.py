"""The words of other libraries, and what headrace calls the same. Errors add them to names they do not know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


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
    "soft_time_limit": Word("Celery", "`timeout` with interrupt=True"),
    "ignore_result": Word("Celery", "`keep_result=False`"),
    "bind": Word("Celery", "current_job() inside the task"),
    "acks_late": Word("Celery", "always so: a job is done when its result is stored; `retry=0` is the opposite"),
    "reject_on_worker_lost": Word("Celery", "always so: the job of a killed worker runs again"),
    "task_id": Word("Celery", "`job_id`"),
    "routing_key": Word("Celery", "`queue`"),
    "exchange": Word("Celery", "`queue`"),
    "link": Word("Celery", "chain(first.bind(), second.bind())"),
    "link_error": Word("Celery", 'using(after=job, on_parent_failure="only")'),
    "serializer": Word("Celery", "not needed: arguments are stored as JSON"),
    "base": Word("Celery", "@app.around_attempt, or @app.on(...) for events"),
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
    "max_tries": Word("arq", "`retry=4`, for 5 tries,"),
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
TASK_ATTRIBUTES: dict[str, Word] = {
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


# Attributes of an app.
APP_ATTRIBUTES: dict[str, Word] = {
    "send_task": Word("Celery", 'app.enqueue("name", ...)'),
    "AsyncResult": Word("Celery", "app.jobs.get(id)"),
    "conf": Word("Celery", "app.settings, and the arguments of Headrace()"),
    "control": Word("Celery", "app.workers(), app.pause_worker(id), app.stop_worker(id)"),
    "autodiscover_tasks": Word("Celery", "an import of the modules where the app is created"),
    "add_periodic_task": Word("Celery", "@app.cron(...), or app.schedules.create(...)"),
    "worker_main": Word("Celery", "app.run_worker()"),
    "actor": Word("Dramatiq", "@app.task"),
    "add_middleware": Word("Dramatiq", "@app.around_attempt and @app.around_enqueue"),
    "enqueue_in": Word("RQ", "task.using(delay=60).enqueue(...)"),
    "enqueue_at": Word("RQ", "task.using(run_at=moment).enqueue(...)"),
    "enqueue_call": Word("RQ", "app.enqueue(function, ...)"),
    "fetch_job": Word("RQ", "app.jobs.get(id)"),
    "periodic_task": Word("Huey", '@app.cron("*/5 * * * *")'),
    "db_task": Word("Huey", "@app.task"),
    "lock_task": Word("Huey", "@app.task(concurrency=1)"),
    "pre_execute": Word("Huey", "@app.around_attempt"),
    "post_execute": Word("Huey", "@app.around_attempt"),
    "on_startup": Word("Huey", "@app.on_worker_start"),
    "on_shutdown": Word("Huey", "@app.on_worker_stop"),
    "enqueue_job": Word("arq", 'app.enqueue("name", ...)'),
    "periodic": Word("Procrastinate", '@app.cron("*/5 * * * *")'),
    "job_manager": Word("Procrastinate", "app.jobs"),
    "run_worker_async": Word("Procrastinate", "`headrace worker`, or app.lifespan(worker=True)"),
    "open_async": Word("Procrastinate", "not needed: the app opens its store at the first use"),
}
# Attributes of a job: what other libraries call a result, a message or a handle.
JOB_ATTRIBUTES: dict[str, Word] = {
    "get": Word("Celery", "job.result(timeout=10)"),
    "ready": Word("Celery", "job.refresh().is_finished"),
    "successful": Word("Celery", 'job.refresh().state == "completed"'),
    "failed": Word("Celery", 'job.refresh().state == "failed"'),
    "status": Word("Celery", "job.refresh().state"),
    "info": Word("Celery", "job.refresh().progress"),
    "traceback": Word("Celery", "job.errors[-1].traceback"),
    "revoke": Word("Celery", "job.cancel()"),
    "forget": Word("Celery", "job.delete()"),
    "task_id": Word("Celery", "job.id"),
    "return_value": Word("RQ", "job.result()"),
    "get_status": Word("RQ", "job.refresh().state"),
    "get_id": Word("RQ", "job.id"),
    "is_failed": Word("RQ", 'job.refresh().state == "failed"'),
    "exc_info": Word("RQ", "job.errors[-1].traceback"),
    "requeue": Word("RQ", "job.retry()"),
    "meta": Word("RQ", "job.metadata"),
    "func_name": Word("RQ", "job.task"),
    "enqueued_at": Word("RQ", "job.created_at"),
    "ended_at": Word("RQ", "job.finished_at"),
    "get_result": Word("Dramatiq", "job.result(timeout=10)"),
    "message_id": Word("Dramatiq", "job.id"),
    "restore": Word("Huey", "job.retry()"),
    "abort": Word("arq", "job.cancel()"),
    "job_id": Word("arq", "job.id"),
}
# Attributes of current_job().
CONTEXT_ATTRIBUTES: dict[str, Word] = {
    "request": Word("Celery", "current_job() itself"),
    "retry": Word("Celery", "`raise RetryLater(delay=30)`"),
    "retries": Word("Celery", "current_job().attempt, from 1"),
    "update_state": Word("Celery", "current_job().progress(...)"),
    "replace": Word("Celery", "current_job().spawn(call)"),
    "meta": Word("RQ", "current_job().metadata"),
    "save_meta": Word("RQ", "current_job().progress(...)"),
    "message_id": Word("Dramatiq", "current_job().id"),
    "job_id": Word("arq", "current_job().id"),
    "job_try": Word("arq", "current_job().attempt"),
    "should_abort": Word("Procrastinate", "current_job().cancel_requested"),
}


def unknown_attribute(owner: str, words: Mapping[str, Word]) -> Callable[[object, str], Any]:
    """The `__getattr__` of a class, called only for names that do not exist. It reads no attribute: a copy has none."""

    def refuse(self: object, name: str) -> Any:
        if hasattr(type(self), name):  # a property or slot that raised AttributeError: show that error
            return object.__getattribute__(self, name)
        hint = _hint(words.get(name), name)
        raise AttributeError(f"{owner} has no {name!r}{f': {hint}' if hint else ''}", name=name, obj=self)

    return refuse


def option_hint(name: object) -> str:
    """`Celery's countdown is ... here`, for an option that headrace does not know; empty for other words."""
    return _hint(OPTIONS.get(name) if isinstance(name, str) else None, name)


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
