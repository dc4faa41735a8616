"""Django's tasks on headrace: enqueued, run, and told by their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.surfaces.django.conftest import Run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("project")]
on_both = pytest.mark.engines("sqlite", "postgres")
on_sqlite = pytest.mark.engines("sqlite")
Script = Callable[..., Any]

DRAIN = "get_app().run_worker(drain=True)\n"


@on_both
def test_a_task_is_run_by_the_command_and_its_result_is_found_by_its_id(manage: Run, script: Script) -> None:
    told = script("result = add.enqueue(1, b=2); told |= {'id': result.id, 'status': result.status}")
    assert told["status"] == "READY"
    assert "shop.tasks.add" in manage("headrace", "jobs").stdout
    manage("headrace", "worker", "--drain")
    found = script(
        f"""
result = add.get_result({told["id"]!r})
told |= {{'status': result.status, 'value': result.return_value, 'attempts': result.attempts, 'args': result.args,
          'kwargs': result.kwargs, 'queue': result.task.queue_name,
          'order': result.enqueued_at <= result.started_at <= result.last_attempted_at <= result.finished_at}}
"""
    )
    assert found == {
        "status": "SUCCESSFUL",
        "value": 3,
        "attempts": 1,
        "args": [1],
        "kwargs": {"b": 2},
        "queue": "default",
        "order": True,
    }


@on_sqlite
def test_every_kind_of_task_runs(script: Script) -> None:
    told = script(
        f"""
User.objects.create(username='ann')
results = [greet.enqueue('ann'), count_users.enqueue(), connection_id.enqueue()]
{DRAIN}
for result in results:
    result.refresh()
told |= {{'values': [result.return_value for result in results], 'ids': [result.id for result in results]}}
"""
    )
    assert told["values"][:2] == [[1, told["ids"][0], "RUNNING", "ann"], 1]


@on_sqlite
def test_failures_are_told_with_their_class_and_traceback(script: Script) -> None:
    told = script(
        f"""
results = [refuse.enqueue('no'), collect.enqueue(), unstorable.enqueue()]
{DRAIN}
for result in results:
    result.refresh()
told |= {{'statuses': [result.status for result in results],
          'classes': [result.errors[0].exception_class.__name__ for result in results],
          'paths': [result.errors[0].exception_class_path for result in results],
          'places': ['tasks.py' in result.errors[0].traceback for result in results[:2]]}}
try:
    results[0].return_value
except ValueError as error:
    told['refused'] = str(error)
"""
    )
    assert told["statuses"] == ["FAILED"] * 3
    assert told["classes"] == ["KeyError", "Unpaid", "TypeError"]
    assert told["paths"][:2] == ["builtins.KeyError", "shop.tasks.Unpaid"]
    assert told["places"] == [True, True]
    assert told["refused"]


@on_both
def test_a_task_is_enqueued_with_the_transaction_or_not_at_all(script: Script) -> None:
    told = script(
        """
get_app().jobs.count()  # opens the store, which needs the lock that the transaction will hold
with transaction.atomic():
    User.objects.create(username='ann')
    kept = add.enqueue(1, 1)
    told['before'] = get_app().jobs.count()
try:
    with transaction.atomic():
        User.objects.create(username='bob')
        lost = add.enqueue(2, 2)
        raise RuntimeError
except RuntimeError:
    pass
told |= {'users': User.objects.count(), 'jobs': get_app().jobs.count()}
kept.refresh()
try:
    lost.refresh()
except Exception as error:
    told['lost'] = type(error).__name__
"""
    )
    assert told == {"before": 0, "users": 1, "jobs": 1, "lost": "TaskResultDoesNotExist"}


@on_sqlite
def test_priority_queue_and_time_reach_the_job(script: Script) -> None:
    told = script(
        """
from datetime import timedelta
from django.utils import timezone
later = timezone.now() + timedelta(hours=1)
jobs = [get_app().jobs.get(result.id) for result in (
    greet.enqueue('a'),
    add.using(priority=-7, queue_name='mail').enqueue(1, 2),
    add.using(run_after=later).enqueue(1, 2),
)]
told['jobs'] = [(job.queue, job.priority, job.state) for job in jobs]
told['is_later'] = abs(jobs[2].run_at - later) < timedelta(seconds=1)
told['timeout'] = get_app().find_task('shop.tasks.refuse').options.timeout
for wrong in (dict(queue_name='elsewhere'), dict(priority=101)):
    try:
        add.using(**wrong)
    except Exception as error:
        told.setdefault('refused', []).append(type(error).__name__)
"""
    )
    assert told["jobs"] == [["mail", 5, "pending"], ["mail", -7, "pending"], ["default", 0, "scheduled"]]
    assert (told["is_later"], told["timeout"]) == (True, 30_000)
    assert [name.removesuffix("Error") for name in told["refused"]] == ["InvalidTask"] * 2  # Django 6 has no "Error"


@on_sqlite
def test_arguments_that_are_no_json_are_refused_at_once(script: Script) -> None:
    told = script(
        """
try:
    add.enqueue(object(), 1)
except TypeError as error:
    told['refused'] = str(error)
told['jobs'] = get_app().jobs.count()
"""
    )
    assert told["jobs"] == 0
    assert "object" in told["refused"]


@on_sqlite
def test_all_threads_share_one_app_and_coroutines_enqueue(script: Script) -> None:
    told = script(
        """
import asyncio, threading
apps = [get_app()]
threads = [threading.Thread(target=lambda: apps.append(get_app())) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
result = asyncio.run(add.aenqueue(1, 2))
told |= {'apps': len(set(map(id, apps))), 'many': len(apps), 'found': asyncio.run(add.aget_result(result.id)).status}
try:
    count_users.get_result(result.id)
except Exception as error:
    told['mismatch'] = type(error).__name__
"""
    )
    assert told == {"apps": 1, "many": 4, "found": "READY", "mismatch": "TaskResultMismatch"}


@on_both
def test_connections_of_a_worker_are_closed_when_they_are_too_old(script: Script) -> None:
    told = script(
        f"""
connection.settings_dict['CONN_MAX_AGE'] = 0
results = [connection_id.enqueue() for _ in range(2)]
closed = []
from django.db.backends.base.base import BaseDatabaseWrapper
close = BaseDatabaseWrapper.close
BaseDatabaseWrapper.close = lambda self: (closed.append(1), close(self))[1]
{DRAIN}
told['closed'] = len(closed)
"""
    )
    assert told["closed"] >= 2


@on_both
def test_signals_are_sent_when_tasks_start_and_finish(script: Script) -> None:
    told = script(
        f"""
from headrace.contrib.django.task_api import signals
seen = []
def note(kind):
    def receive(sender, task_result, **_):
        seen.append([kind, sender.__name__, task_result.id, str(task_result.status)])
    return receive
receivers = {{kind: note(kind) for kind in ('task_enqueued', 'task_started', 'task_finished')}}
for kind, receive in receivers.items():
    getattr(signals, kind).connect(receive)
def broken(**_):
    raise ValueError('a receiver')
signals.task_started.connect(broken)
results = [add.enqueue(1, b=2), count_users.enqueue(), refuse.enqueue('no')]
{DRAIN}
results[0].refresh()
told |= {{'seen': seen, 'ids': [result.id for result in results], 'value': results[0].return_value}}
"""
    )
    assert told["value"] == 3
    for result_id, status in zip(told["ids"], ("SUCCESSFUL", "SUCCESSFUL", "FAILED"), strict=True):
        assert [(kind, state) for kind, sender, of, state in told["seen"] if of == result_id] == [
            ("task_enqueued", "READY"),
            ("task_started", "RUNNING"),
            ("task_finished", status),
        ], told["seen"]
    assert {sender for _, sender, _, _ in told["seen"]} == {"HeadraceBackend"}


@on_sqlite
def test_a_retried_task_finishes_once(script: Script) -> None:
    told = script(
        f"""
from headrace.contrib.django import job_options
from headrace.contrib.django.task_api import signals
seen = []
def started(task_result, **_): seen.append(('started', task_result.attempts))
def finished(task_result, **_): seen.append(('finished', task_result.attempts))
signals.task_started.connect(started)
signals.task_finished.connect(finished)
result = collect.enqueue()
{DRAIN}
told |= {{'seen': seen}}
"""
    )
    *starts, finish = told["seen"]
    assert starts == [["started", number] for number in range(1, len(starts) + 1)]
    assert finish == ["finished", len(starts)]
