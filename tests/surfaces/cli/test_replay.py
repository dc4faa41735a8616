"""`headrace jobs replay` runs a stored job here: its result, its log, its traceback and the debugger."""

from __future__ import annotations

import pytest

from headrace.testing import drain
from tests.support.command_line import Shell

SHOP = """
from headrace import Headrace, PermanentError, current_job

app = Headrace()
is_broken = True

def charge(number: int) -> str:
    return f"receipt {number}"

def mail(receipt: str, password: str) -> str:
    if is_broken:
        raise PermanentError(f"no mail for {receipt} with {password}")
    print("mails")
    return receipt

@app.task(retry=0, redact=("password",))
def ship(number: int, password: str) -> dict[str, str]:
    job = current_job()
    receipt = job.step("charge", charge, number)
    job.log("charged", receipt=receipt, password=password)
    return {"mailed": job.step("mail", mail, receipt, password), "password": password}

@app.task
def rest() -> None:
    current_job().sleep(60)

@app.task
def leave() -> None:
    raise SystemExit(5)

@app.task
def odd() -> object:
    return object()
"""


@pytest.fixture
def module(shell: Shell) -> str:
    return shell.module(SHOP)


@pytest.fixture
def stored(shell: Shell, module: str) -> str:
    """The id of a job that has failed."""
    shop = __import__(module)
    with shop.app:
        shop.ship.using(job_id="order-7").enqueue(7, password="hunter2")
        for name in ("rest", "leave", "odd"):
            getattr(shop, name).using(job_id=f"job-{name}").enqueue()
        drain(shop.app)
    return "order-7"


def test_the_traceback_and_the_log_are_printed_without_secrets(shell: Shell, module: str, stored: str) -> None:
    ran = shell("--app", module, "jobs", "replay", stored)
    assert (ran.code, ran.out) == (1, "")
    assert "INFO    charged receipt='receipt 7' password='***'" in ran.err
    assert ran.err.splitlines()[1] == "Traceback (most recent call last):"
    assert ran.err.splitlines()[2].endswith(f'{module}.py", line 21, in ship')
    assert ran.err.endswith("PermanentError: no mail for receipt 7 with ***\n")


def test_the_result_is_printed(shell: Shell, module: str, stored: str) -> None:
    vars(__import__(module))["is_broken"] = False
    ran = shell("--app", module, "jobs", "replay", stored)
    assert (ran.code, ran.out) == (0, "mails\n{'mailed': 'receipt 7', 'password': '***'}\n")
    ran = shell("--app", module, "jobs", "replay", stored, "--json")
    assert ran.json == {"id": "order-7", "result": {"mailed": "receipt 7", "password": "***"}}
    assert ran.err.endswith("mails\n"), "what the task prints stays out of the document"


def test_a_result_that_can_not_be_stored_is_an_error(shell: Shell, module: str, stored: str) -> None:
    ran = shell("--app", module, "jobs", "replay", "job-odd")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: the task returned what no worker can store: result: an object can't be")


def test_it_says_where_it_stops(shell: Shell, module: str, stored: str) -> None:
    ran = shell("--app", module, "jobs", "replay", stored, "--recorded-only")
    assert ran.code == 1
    assert ran.err.splitlines()[-1] == (
        f"error: the replay of job order-7 stopped at {shell.folder / module}.py:21: step 'mail' has no recorded "
        "result; it would run without recorded_only (--recorded-only)"
    )
    assert "it sleeps; a worker suspends the job here" in shell("--app", module, "jobs", "replay", "job-rest").err


def test_a_task_that_exits_has_a_traceback_too(shell: Shell, module: str, stored: str) -> None:
    ran = shell("--app", module, "jobs", "replay", "job-leave")
    assert (ran.code, ran.err.splitlines()[-1]) == (1, "SystemExit: 5")


def test_the_debugger_needs_a_terminal_and_opens_where_the_task_raised(shell: Shell, module: str, stored: str) -> None:
    ran = shell("--app", module, "jobs", "replay", stored, "--pdb")
    assert (ran.code, "debugger: stdin is not a terminal" in ran.err) == (2, True)
    shell.answer("p receipt + '!'\nquit\n")
    ran = shell("--app", module, "jobs", "replay", stored, "--pdb")
    assert (ran.code, "'receipt 7!'" in ran.out) == (1, True)
    assert ran.err.endswith("PermanentError: no mail for receipt 7 with ***\n")


def test_without_an_app_there_is_no_task_to_run(shell: Shell, module: str, stored: str) -> None:
    ran = shell("jobs", "replay", stored)
    assert (ran.code, "no app is named, so there are no tasks to run" in ran.err) == (2, True)
    assert "no job has the id 'unknown'" in shell("--app", module, "jobs", "replay", "unknown").err
