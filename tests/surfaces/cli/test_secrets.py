"""No secret is printed: no key, no redacted argument, no value whose name sounds like a secret."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace import Headrace, InvalidJob, PermanentError, current_job
from headrace.cli import job_view
from headrace.cli.commands.dead_letters.dead import _facts, _record
from headrace.errors import ConfigError
from headrace.testing import drain
from tests.support.command_line import Shell

SECRET = "hunter2"
KEY = f"2026:{'A' * 43}="


def fill(app: Headrace) -> None:
    """A job that completes, one that fails and a schedule, with secrets in every place there is for them."""

    def sign_in(user: str, password: str, *tokens: str, options: dict[str, Any]) -> dict[Any, Any]:
        job = current_job()
        job.progress({"api_key": SECRET, "step": 1})
        job.log("signed in", cookie=SECRET, user=user)
        if user == "bob":
            raise PermanentError("no entry")
        return {"accessToken": SECRET, "user": user, 7: [("Authorization", SECRET)]}

    task = app.task(name="sign_in", retry=0)(sign_in)
    given: tuple[Any, ...] = (SECRET, SECRET, SECRET)
    options = {"deep": [{"client_secret": SECRET, "port": 1}], "headers": [("X-Auth-Token", SECRET)]}
    metadata = {"session_token": SECRET, "by": "me"}
    for user, job_id in (("ann", "done-0001"), ("bob", "dead-0001")):
        task.using(job_id=job_id, metadata=metadata).enqueue(user, *given, options=options)
    app.schedules.create("daily", task.bind("ann", *given, options=options), every=3600)
    drain(app)


COMMANDS: Sequence[Sequence[str]] = [
    *(["jobs", *error] for error in ([], ["show", "done-0001"], ["show", "dead-0001"], ["logs", "done-0001"])),
    *(["jobs", "history", "dead-0001"], ["why", "dead-0001"], ["dead"], ["dead", "show", "dead-0001"]),
    *(["schedules"], ["schedules", "show", "daily"], ["doctor"]),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("as_json", [False, True])
def test_no_value_whose_name_sounds_like_a_secret_is_printed(
    shell: Shell, command: Sequence[str], as_json: bool
) -> None:
    with shell.app() as app:
        fill(app)
    ran = shell(*command, *(["--json"] if as_json else []))
    assert ran.out
    assert SECRET not in ran.out + ran.err


def test_other_values_are_printed(shell: Shell) -> None:
    with shell.app() as app:
        fill(app)
    record = shell("jobs", "show", "done-0001", "--json").json
    assert record["args"] == ["ann", "***", "***", "***"]
    assert record["kwargs"]["options"]["deep"] == [{"client_secret": "***", "port": 1}]
    assert (record["metadata"], record["progress"]) == (
        {"session_token": "***", "by": "me"},
        {"api_key": "***", "step": 1},
    )
    assert shell("jobs", "logs", "done-0001", "--json").json[0]["fields"] == {"cookie": "***", "user": "ann"}


def test_secret_words_can_be_switched_off_and_extended(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    with shell.app() as app:
        app.task_by_name("work").using(job_id="job-00001").enqueue(password="x", diagnosis="flu")

    def shown() -> Any:
        return shell("jobs", "show", "job-00001", "--json").json["kwargs"]

    assert shown() == {"password": "***", "diagnosis": "flu"}
    monkeypatch.setenv("HEADRACE_SECRET_WORDS", "diagnosis")
    assert shown() == {"password": "***", "diagnosis": "***"}
    monkeypatch.setenv("HEADRACE_SECRET_WORDS", "none")
    assert shown() == {"password": "x", "diagnosis": "flu"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"password": 12345678},
        {"deep": [{"api_key": 12345678}]},
        {"headers": {"authorization": 12345678}},
    ],
)
def test_an_error_of_enqueue_shows_no_secret(wrong: dict[str, Any]) -> None:
    with closing(Headrace("memory://")) as app:

        @app.task
        def work(
            *, password: str = "", deep: list[dict[str, str]] | None = None, headers: dict[str, str] | None = None
        ) -> None: ...

        with pytest.raises(InvalidJob, match=r"work\(\) argument '.*'.*: expected .*, got \*\*\*") as caught:
            work.enqueue(**wrong)
        assert "12345678" not in str(caught.value)


NAMES = st.sampled_from(["declared", "Password", "api_key", "x-auth-token", "note"])
LEAF = st.integers() | st.text("abc", max_size=3)
HIDDEN = st.builds(lambda name: {name: SECRET}, NAMES.filter(lambda name: name != "note"))
VALUES = st.recursive(
    LEAF | HIDDEN,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(NAMES | st.integers(), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(VALUES, VALUES, st.booleans())
def test_no_rendered_record_has_a_secret_whatever_its_shape(value: Any, more: Any, fails: bool) -> None:
    with closing(Headrace("memory://")) as app:

        @app.task(redact=("declared",), retry=0)
        def work(declared: str, value: Any, *passwords: str, **rest: Any) -> Any:
            current_job().progress({"value": value})
            current_job().log("line", value=value, declared=SECRET)
            if fails:
                raise PermanentError("broken")
            return value

        job = work.using(metadata={"more": more}).enqueue(SECRET, value, SECRET, SECRET, more=more, token=SECRET)
        drain(app)
        job.refresh()
        shown: list[Any] = [
            job_view.full_record(job),
            [*job_view.facts(job)],
            job_view.row(job, job.created_at),
            job.why(),
        ]
        shown += [(job_view.log_record(line, job), job_view.log_text(line, job)) for line in job.logs()]
        shown += [(_record(dead_letter), [*_facts(dead_letter)]) for dead_letter in app.dead.list(status=None)]
        assert SECRET not in repr(shown)


def test_a_process_without_the_task_prints_no_secret_either(shell: Shell) -> None:
    with shell.app() as app:

        def work(user: str, declared: str, pin: int, *passwords: str) -> None: ...

        app.task(name="work", redact=("declared",))(work).using(job_id="job-00001").enqueue("ann", "a", 1, "b", "c")
    assert shell("jobs", "show", "job-00001", "--json").json["args"] == ["ann", "***", "***", "***", "***"]


# -- encryption keys


def encrypted(shell: Shell) -> None:
    with Headrace(f"sqlite:///{shell.folder / 'headrace.db'}", encryption_keys=[KEY]) as app:

        @app.task(name="work")
        def work(text: str) -> str:
            current_job().progress({"at": text})
            current_job().log(text)
            return text

        work.using(job_id="job-00001").enqueue("n33dle")
        drain(app)


def test_with_the_key_all_is_shown(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    encrypted(shell)
    monkeypatch.setenv("HEADRACE_ENCRYPTION_KEYS", KEY)
    record = shell("jobs", "show", "job-00001", "--json").json
    assert (record["args"], record["result"], record["progress"]) == (["n33dle"], "n33dle", {"at": "n33dle"})
    assert "'n33dle'" in shell("jobs", "show", "job-00001").out
    assert shell("jobs", "logs", "job-00001", "--json").json[0]["message"] == "n33dle"


def test_without_the_key_the_missing_key_is_named(shell: Shell) -> None:
    encrypted(shell)
    record = shell("jobs", "show", "job-00001", "--json").json
    assert record["args"] is None
    for error in (record["unreadable"], record["result"]["$unreadable"], record["progress"]["$unreadable"]):
        assert "encrypted with key '2026', and there are none here; add that key to encryption_keys" in error
    page = shell("jobs", "show", "job-00001")
    assert page.code == 0
    assert page.out.count("encrypted with key '2026'") == 2
    assert shell("jobs").code == 0
    logs = shell("jobs", "logs", "job-00001")
    assert logs.code != 0
    assert "encrypted with key '2026'" in logs.err


def test_text_is_not_searched_in_what_is_encrypted_and_says_so(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    encrypted(shell)
    assert "encrypted" not in shell("jobs", "--text", "work").err
    monkeypatch.setenv("HEADRACE_ENCRYPTION_KEYS", KEY)
    ran = shell("jobs", "--text", "n33dle", "--json")
    assert ran.json["jobs"] == []
    assert "--text does not search encrypted arguments" in ran.err
    assert [job["id"] for job in shell("jobs", "--text", "work", "--json").json["jobs"]] == ["job-00001"]


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_doctor_names_the_keys_and_shows_none(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    encrypted(shell)
    monkeypatch.setenv("HEADRACE_ENCRYPTION_KEYS", KEY)
    ran = shell("doctor", *flags)
    assert "A" * 43 not in ran.out + ran.err
    assert "2026" in ran.out
    if flags:
        shown = json.loads(ran.out)["settings"]["encryption_keys"]
        assert shown == {"value": ["2026"], "origin": "HEADRACE_ENCRYPTION_KEYS"}


def test_doctor_finds_jobs_that_can_not_be_read_and_those_that_are_not_encrypted(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    encrypted(shell)
    ran = shell("doctor")
    assert ran.code != 0
    assert "1 of the newest jobs are encrypted with key '2026', which this app does not have" in " ".join(
        ran.out.split()
    )
    monkeypatch.setenv("HEADRACE_ENCRYPTION_KEYS", KEY)
    assert "of the newest jobs" not in shell("doctor").out
    with shell.app() as app:
        monkeypatch.delenv("HEADRACE_ENCRYPTION_KEYS")
        app.enqueue("work", "sealed")
    with shell.app() as app:
        app.enqueue("work", "in clear")
    monkeypatch.setenv("HEADRACE_ENCRYPTION_KEYS", KEY)
    remarks = shell("doctor", "--json").json["remarks"]
    assert [text for text in remarks if "1 of the newest jobs are not encrypted" in text]


def test_a_bad_key_is_refused_without_being_shown(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_ENCRYPTION_KEYS", f"{KEY}{SECRET}")
    ran = shell("jobs")
    assert ran.code != 0
    assert "encryption_keys: number 1 is no key; write a name, a colon and 32 bytes in base64" in ran.err
    assert SECRET not in ran.err
    with pytest.raises(ConfigError):
        Headrace("memory://", encryption_keys=[SECRET])
