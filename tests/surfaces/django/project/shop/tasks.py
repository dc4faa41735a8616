"""Tasks of every kind."""

from __future__ import annotations

import os

from django.contrib.auth.models import User
from django.db import connection

from headrace import Retry
from headrace.contrib.django import job_options
from headrace.contrib.django.task_api import ROOT

if ROOT == "django.tasks":
    from django.tasks import task
else:
    from django_tasks import task


@task
def add(a, b):
    return a + b


@task(takes_context=True, queue_name="mail", priority=5)
def greet(context, name):
    return [context.attempt, context.task_result.id, context.task_result.status, name]


@task
async def count_users():
    return await User.objects.acount()


@task
@job_options(retry=2, timeout=30)
def refuse(text):
    raise KeyError(text)


class Unpaid(Exception):
    pass


@task
@job_options(retry=0)
def collect():
    raise Unpaid("again")


@task
def connection_id():
    User.objects.count()
    return [os.getpid(), id(connection.connection)]


@task
def unstorable():
    return object()


@task
def echo(*args, **kwargs):
    return [args, kwargs]


@task
def nothing():
    return None


@task(takes_context=True)
@job_options(retry=Retry(1, backoff=[0.0], floor=0.0))
def second_time(context):
    if context.attempt == 1:
        raise Unpaid("at first")
    return [context.attempt, len(context.task_result.errors)]


ran: list[object] = []


@task
def note(text):
    ran.append(text)


class Outer:
    def method(self):
        pass


def plain(context, a):
    return a


def without_context(a):
    return a


async def coroutine(a):
    return a
