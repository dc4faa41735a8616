"""What Django's documentation promises about tasks, promise by promise, for the backend of headrace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("project")]
on_both = pytest.mark.engines("sqlite", "postgres")
on_sqlite = pytest.mark.engines("sqlite")
Script = Callable[..., Any]

DRAIN = "get_app().run_worker(drain=True, concurrency=1)\n"


@on_sqlite
def test_the_backend_tells_what_it_can(script: Script) -> None:
    told = script(
        """
from headrace.contrib.django import HeadraceBackend
from headrace.contrib.django.task_api import BaseTaskBackend, task_backends
backend = task_backends['default']
told |= {
    'is_one': [isinstance(backend, HeadraceBackend), isinstance(backend, BaseTaskBackend)],
    'can': [getattr(backend, f'supports_{what}') for what in ('defer', 'async_task', 'get_result', 'priority')],
    'alias': backend.alias,
    'queues': sorted(backend.queues),
    'of_task': add.get_backend() is backend,
    'unknown': [error_of(lambda: task_backends['nowhere']), error_of(lambda: add.using(backend='nowhere'))],
}
"""
    )
    assert all("nowhere" in said and said.startswith("InvalidTaskBackend") for said in told.pop("unknown"))
    assert told == {
        "is_one": [True, True],
        "can": [True] * 4,
        "alias": "default",
        "queues": ["default", "mail"],
        "of_task": True,
    }


@on_sqlite
def test_a_task_is_what_its_decorator_says_and_a_copy_what_using_says(script: Script) -> None:
    told = script(
        """
import asyncio
from dataclasses import FrozenInstanceError
def about(task):
    return [task.name, task.module_path, task.priority, task.queue_name, task.backend, task.run_after,
            task.takes_context]
other = greet.using(priority=9, queue_name='default')
told |= {'add': about(add), 'greet': about(greet), 'other': about(other), 'same': greet.using().func is greet.func}
told['called'] = [add.call(1, 2), asyncio.run(add.acall(3, 4)), count_users.call()]
told['frozen'] = error_of(lambda: setattr(add, 'priority', 3))
told['static'] = error_of(lambda: task(run_after=None)(echo.func))
now = add.using(backend='now').enqueue(2, 3)
told['elsewhere'] = [now.status, now.return_value, get_app().jobs.count()]
"""
    )
    assert told["add"] == ["add", "shop.tasks.add", 0, "default", "default", None, False]
    assert told["greet"] == ["greet", "shop.tasks.greet", 5, "mail", "default", None, True]
    assert told["other"] == ["greet", "shop.tasks.greet", 9, "default", "default", None, True]
    assert (told["same"], told["called"]) == (True, [3, 7, 0])
    assert told["frozen"].startswith("FrozenInstanceError")
    assert told["static"].startswith("TypeError")
    assert told["elsewhere"] == ["SUCCESSFUL", 5, 0]


@on_sqlite
def test_an_invalid_task_is_refused_where_it_is_made(script: Script) -> None:
    told = script(
        """
from datetime import datetime
from shop import tasks as module
def make():
    def local(): pass
    return local
made = {
    'local': lambda: task(make()), 'lambda': lambda: task(lambda: 1), 'builtin': lambda: task(len),
    'context': lambda: task(takes_context=True)(module.without_context),
    'queue': lambda: task(queue_name='elsewhere')(module.plain), 'using queue': lambda: add.using(queue_name='x'),
    'high': lambda: add.using(priority=101), 'low': lambda: task(priority=-101)(module.plain),
    'half': lambda: add.using(priority=1.5), 'naive': lambda: add.using(run_after=datetime(2030, 1, 1)),
}
told['refused'] = {name: error_of(act) for name, act in made.items()}
told['accepted'] = [error_of(act) for act in (
    lambda: task(takes_context=True)(module.plain), lambda: task(module.coroutine),
    lambda: add.using(priority=100), lambda: add.using(priority=-100),
)]
"""
    )
    for name, said in told["refused"].items():
        assert str(said).startswith("InvalidTask"), name
    assert told["accepted"] == [None] * 4


@on_both
def test_a_result_follows_its_job_from_ready_to_its_end(script: Script) -> None:
    told = script(
        f"""
import asyncio
results = dict(good=nothing.enqueue(), bad=collect.enqueue(), later=second_time.enqueue())
def about(result):
    return [result.status, result.is_finished, result.attempts, len(result.errors), len(result.worker_ids),
            [at is not None for at in (result.enqueued_at, result.started_at, result.finished_at)],
            error_of(lambda: result.return_value)]
told['before'] = [about(result) for result in results.values()]
{DRAIN}
told['stale'] = results['good'].status
results['good'].refresh()
asyncio.run(results['bad'].arefresh())
results['later'] = asyncio.run(second_time.aget_result(results['later'].id))
told['after'] = [about(result) for result in results.values()]
told['values'] = [results['good'].return_value, results['later'].return_value]
told['error'] = [results['bad'].errors[0].exception_class is Unpaid, 'again' in results['bad'].errors[0].traceback]
told['frozen'] = error_of(lambda: setattr(results['good'], 'status', 'READY'))
"""
    )
    unfinished = ["READY", False, 0, 0, 0, [True, False, False], "ValueError: Task has not finished yet"]
    assert told["before"] == [unfinished] * 3
    assert told["stale"] == "READY", "a result is as of its last refresh"
    assert told["after"] == [
        ["SUCCESSFUL", True, 1, 0, 1, [True] * 3, None],
        ["FAILED", True, 1, 1, 1, [True] * 3, "ValueError: Task failed"],
        ["SUCCESSFUL", True, 2, 1, 2, [True] * 3, None],
    ]
    assert told["values"] == [None, [2, 1]]
    assert told["error"] == [True, True]
    assert told["frozen"].startswith("FrozenInstanceError")


@on_both
def test_a_result_that_is_not_there_is_told_by_every_way_to_it(script: Script) -> None:
    told = script(
        """
import asyncio
app = get_app()
foreign = app.task(name='shop.tasks.plain')(lambda: None).enqueue()  # importable, and no task of Django
unknown = app.enqueue('not.importable', 1)
ids = ('01a1f06d-5f44-7cf2-8032-08e62635ff2b', 'nonsense', '', 'a b/c\\x00', foreign.id, unknown.id)
told['sync'] = [error_of(lambda: add.get_result(each)).partition(':')[0] for each in ids]
told['async'] = [error_of(lambda: asyncio.run(add.aget_result(each))).partition(':')[0] for each in ids]
told['backend'] = [error_of(lambda: add.get_backend().get_result(each)).partition(':')[0] for each in ids]
result = add.enqueue(1, 2)
told['mismatch'] = [error_of(lambda: note.get_result(result.id)),
                    error_of(lambda: asyncio.run(note.aget_result(result.id)))]
app.jobs.get(result.id).cancel()
app.jobs.get(result.id).delete()
told['deleted'] = [error_of(result.refresh), error_of(lambda: asyncio.run(result.arefresh()))]
"""
    )
    for way in ("sync", "async", "backend"):
        assert told[way] == ["TaskResultDoesNotExist"] * 6
    assert all(said.startswith("TaskResultMismatch") for said in told["mismatch"])
    assert all(said.startswith("TaskResultDoesNotExist") for said in told["deleted"])


@on_both
def test_arguments_and_values_are_json_as_django_makes_it(script: Script) -> None:
    told = script(
        f"""
given = ((1, (2, 3)), b'bytes', None, 1.5, {{'a': (1,)}}, 'ü\U0001f600')
names = dict(task=2, args=[3], kwargs={{'x': 4}}, queue='q', priority=9, connection='c', job_id='j', call=5)
result = echo.enqueue(*given, **names)
told['at_once'] = [result.args, result.kwargs]
{DRAIN}
result.refresh()
found = echo.get_result(result.id)
told |= {{'value': result.return_value, 'found': [found.args, found.kwargs]}}
told['refused'] = [error_of(lambda: echo.enqueue(bad)) for bad in (object(), {{1, 2}}, b'\\xff')]
told['refused'].append(error_of(lambda: echo.enqueue(bad=object())))
told['jobs'] = get_app().jobs.count()
"""
    )
    args = [[1, [2, 3]], "bytes", None, 1.5, {"a": [1]}, "ü\U0001f600"]
    names = {"task": 2, "args": [3], "kwargs": {"x": 4}, "queue": "q", "priority": 9}
    names |= {"connection": "c", "job_id": "j", "call": 5}
    assert told["at_once"] == told["found"] == told["value"] == [args, names]
    assert [said.partition(":")[0] for said in told["refused"]] == ["TypeError", "TypeError", "ValueError", "TypeError"]
    assert told["jobs"] == 1


@on_both
def test_priorities_order_tasks_and_run_after_holds_them_back(script: Script) -> None:
    told = script(
        f"""
from datetime import timedelta
from django.utils import timezone
from shop.tasks import ran
now = timezone.now()
later = note.using(run_after=now + timedelta(hours=1)).enqueue('later')
note.using(run_after=now - timedelta(hours=1), priority=1).enqueue('past')
for priority in (-100, 0, 100):
    note.using(priority=priority).enqueue(priority)
{DRAIN}
later.refresh()
told |= {{'ran': ran, 'later': later.status}}
"""
    )
    assert told == {"ran": [100, "past", 0, -100], "later": "READY"}


@on_sqlite
def test_a_job_that_an_operator_moved_still_has_its_result(script: Script) -> None:
    told = script(
        """
result = add.enqueue(1, 2)
get_app().jobs.get(result.id).update(queue='elsewhere')
result.refresh()
told['status'] = result.status
"""
    )
    assert told == {"status": "READY"}


@on_sqlite
def test_a_project_with_naive_times_gets_naive_times(script: Script) -> None:
    told = script(
        f"""
from datetime import datetime, timedelta
from django.utils import timezone
from shop.tasks import ran
later = note.using(run_after=datetime.now() + timedelta(hours=1)).enqueue('later')
result = note.using(run_after=datetime.now() - timedelta(minutes=1)).enqueue('now')
told['near'] = abs(result.enqueued_at - timezone.now()) < timedelta(minutes=1)
{DRAIN}
result.refresh()
told |= {{'ran': ran, 'naive': [at.tzinfo is None for at in (
    result.enqueued_at, result.started_at, result.last_attempted_at, result.finished_at)]}}
""",
        SHOP_NAIVE_TIMES="1",
    )
    assert told == {"near": True, "ran": ["now"], "naive": [True] * 4}


@on_both
def test_everything_that_enqueues_joins_the_open_transaction(script: Script) -> None:
    """Also as the first thing that a process does, when the store is not open yet."""
    told = script(
        """
app = get_app()
from headrace import chain, group
bound = app.find_task('shop.tasks.nothing').bind
def fill():
    app.enqueue('shop.tasks.add', 1, 2)
    app.enqueue_many([bound(), bound()])
    group([bound(), bound()]).enqueue()
    chain(bound(), bound().detached()).enqueue()
    nothing.enqueue()
try:
    with transaction.atomic():
        User.objects.create(username='ann')
        told['unseen'] = app.jobs.count()
        fill()
        raise RuntimeError
except RuntimeError:
    told['lost'] = app.jobs.count()
with transaction.atomic():
    User.objects.create(username='bob')
    fill()
told |= {'kept': app.jobs.count(), 'users': [user.username for user in User.objects.all()]}
"""
    )
    assert told == {"unseen": 0, "lost": 0, "kept": 8, "users": ["bob"]}
