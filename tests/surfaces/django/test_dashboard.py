"""The dashboard and the list of the admin, behind Django's login and permissions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.surfaces.django.conftest import Run

pytestmark = [pytest.mark.slow, pytest.mark.engines("sqlite"), pytest.mark.usefixtures("project")]
Script = Callable[..., Any]

USERS = """
from django.contrib.auth.models import Permission
from django.test import AsyncClient, Client

def user(name, *permissions, **more):
    made = User.objects.create_user(name, password='x', **more)
    made.user_permissions.set(Permission.objects.filter(content_type__app_label='headrace', codename__in=permissions))
    return made

def visit(name=None, **more):
    client = Client(enforce_csrf_checks=True, headers={'host': 'shop.example.com', 'accept': 'text/html'}, **more)
    if name:
        client.force_login(User.objects.get(username=name))
    return client

user('ann', 'change_job', is_staff=True)
user('bob', 'view_job', is_staff=True)
user('eve', is_staff=True)
User.objects.create_superuser('root', password='x')
job_id = add.enqueue(1, 2).id
"""
HERE = "{'origin': 'http://shop.example.com'}"


def test_each_user_may_do_what_their_permissions_say(script: Script) -> None:
    told = script(
        f"""{USERS}
pages = ('/background/', '/background/queues', f'/background/jobs/{{job_id}}', '/background/api/v1/queues')
for name in ('ann', 'bob', 'eve', 'root'):
    there = visit(name)
    told[name] = [there.get(page).status_code for page in pages]
    told[name].append(there.post('/background/api/v1/queues/mail/pause', {{}}, 'application/json').status_code)
told['who'] = [entry.who for entry in get_app().audit.list() if entry.outcome == 'done']
told['why'] = visit('eve').get('/background/').content.decode()
"""
    )
    assert told["ann"] == told["root"] == [200, 200, 200, 200, 200]
    assert told["bob"] == [200, 200, 200, 200, 403]
    assert told["eve"] == [403] * 5
    assert sorted(told["who"]) == ["ann", "root"]
    assert "headrace.view_job" in told["why"]


def test_a_visitor_is_sent_to_the_login_and_a_script_is_told(script: Script) -> None:
    told = script(
        f"""{USERS}
there = visit()
told['page'] = there.get('/background/queues?sort=name').headers['Location']
told['bare'] = there.get('/background').headers['Location']
told['rest'] = there.get('/background/api/v1/queues').status_code
told['form'] = there.post('/background/queues/mail/pause', headers={HERE}).status_code
told['health'] = there.get('/background/healthz').json()
"""
    )
    assert told == {
        "page": "/admin/login/?next=/background/queues%3Fsort%3Dname",
        "bare": "/background/",
        "rest": 401,
        "form": 401,
        "health": {"status": "ok"},
    }


def test_a_form_of_another_site_is_refused(script: Script) -> None:
    told = script(
        f"""{USERS}
there = visit('ann')
elsewhere = ({{'origin': 'https://evil.example.com'}}, {{}}, {HERE} | {{'sec-fetch-site': 'cross-site'}})
told['codes'] = [there.post('/background/queues/mail/pause', headers=each).status_code for each in elsewhere]
told['paused'] = get_app().queue('mail').stats().paused
"""
    )
    assert told == {"codes": [403, 403, 403], "paused": False}


def test_links_scripts_and_messages_work_below_the_path(script: Script) -> None:
    told = script(
        f"""{USERS}
import re
there = visit('ann')
page = there.get('/background/').content.decode()
css = re.search(r'href="(/background/static/[^"]+css)"', page)[1]
told['css'] = there.get(css).headers['Content-Type']
done = there.post('/background/queues/mail/pause', headers={HERE})
told['flash'] = 'headrace_flash' in done.cookies and done.cookies['headrace_flash']['path']
made = there.post('/background/api/v1/jobs', {{'task': 'a/b', 'args': [1]}}, 'application/json')
told['made'] = made.headers['Location']
told['found'] = there.get(told['made']).json()['args']
told['live'] = there.get('/background/live').status_code
told['odd'] = 'jobs/ü' in there.get('/background/jobs/%C3%BC').content.decode()
"""
    )
    assert told["css"].startswith("text/css")
    assert told["flash"] == "/background"
    assert told["made"].startswith("/background/api/v1/jobs/")
    assert (told["found"], told["live"], told["odd"]) == ([1], 204, True)


def test_it_works_under_asgi(script: Script) -> None:
    told = script(
        f"""{USERS}
import asyncio
from asgiref.sync import sync_to_async

async def visit_async():
    client = AsyncClient()
    told['login'] = (await client.get('/background/', headers={{'accept': 'text/html'}})).status_code
    await sync_to_async(client.force_login)(bob)
    told['page'] = (await client.get('/background/')).status_code
    several = await asyncio.gather(*(client.get('/background/queues') for _ in range(4)))
    told['several'] = [each.status_code for each in several]

bob = User.objects.get(username='bob')
asyncio.run(visit_async())
"""
    )
    assert told == {"login": 303, "page": 200, "several": [200] * 4}


def test_the_admin_lists_jobs_and_leads_to_the_dashboard(script: Script) -> None:
    told = script(
        f"""{USERS}
there = visit('bob')
told['index'] = there.get('/admin/').content.decode()
told['list'] = there.get('/admin/headrace/job/').content.decode()
told['failed'] = there.get('/admin/headrace/job/?state=failed').content.decode()
told['wrong'] = there.get('/admin/headrace/job/?state=<b>').content.decode()
told['job'] = there.get(f'/admin/headrace/job/{{job_id}}/change/').headers['Location']
told['add'] = there.get('/admin/headrace/job/add/').status_code
told['eve'] = visit('eve').get('/admin/headrace/job/').status_code
told['id'] = job_id
"""
    )
    assert "/admin/headrace/job/" in told["index"]
    assert f'<a href="/background/jobs/{told["id"]}">' in told["list"]
    assert "shop.tasks.add" in told["list"]
    assert "Open the dashboard" in told["list"]
    assert "No jobs." in told["failed"]
    assert "errornote" in told["wrong"]
    assert "<b>" not in told["wrong"]
    assert told["job"] == f"/background/jobs/{told['id']}"
    assert (told["add"], told["eve"]) == (403, 403)


def test_the_model_without_a_table_disturbs_no_command(manage: Run) -> None:
    assert "headrace" not in manage("dumpdata", "--natural-foreign", "headrace").stdout
    manage("makemigrations", "--check", "--dry-run")
    assert "no issues" in manage("check").stdout


def test_a_project_without_a_login_is_told_what_is_missing(script: Script) -> None:
    told = script(
        f"""{USERS}
from django.test import override_settings
with override_settings(MIDDLEWARE=[]):
    try:
        visit().get('/background/')
    except Exception as error:
        told['error'] = f'{{type(error).__name__}}: {{error}}'
"""
    )
    assert told["error"].startswith("ImproperlyConfigured")
    assert "AuthenticationMiddleware" in told["error"]


def test_without_the_packages_of_the_web_the_error_names_the_extra(script: Script) -> None:
    told = script(
        """
import sys
sys.modules['starlette.exceptions'] = None
try:
    import headrace.contrib.django.urls
except Exception as error:
    told['error'] = str(error)
"""
    )
    assert "pip install 'headrace[web]'" in told["error"]
