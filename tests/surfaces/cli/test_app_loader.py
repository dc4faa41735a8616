"""The app is imported by its name, and the error for a wrong name says what to do."""

from __future__ import annotations

import pytest

from tests.support.command_line import SHOP, Shell

TWO = "from headrace import Headrace\nfirst = Headrace()\nsecond = Headrace()\n"
RENAMED = "from headrace import Headrace\njobs = also = Headrace()\n"
NESTED = "from headrace import Headrace\nclass Site:\n    app = Headrace()\n"


def test_the_app_is_named_before_or_after_the_command_or_in_the_environment_or_in_a_file(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = shell.module()
    bad_call = ("enqueue", "add", '["x", 2]')  # refused only by an app that knows the task
    assert "expected int" in shell("--app", f"{name}:app", *bad_call).err
    assert "expected int" in shell(*bad_call, "--app", f"{name}:app").err
    monkeypatch.setenv("HEADRACE_APP", f"{name}:app")
    assert "expected int" in shell(*bad_call).err
    monkeypatch.delenv("HEADRACE_APP")
    (shell.folder / "pyproject.toml").write_text(f'[tool.headrace]\napp = "{name}:app"\n')
    assert "expected int" in shell(*bad_call).err
    (shell.folder / "headrace.toml").write_text(f'app = "{name}"\n')
    assert "expected int" in shell(*bad_call).err


@pytest.mark.parametrize(
    ("text", "attribute"),
    [(RENAMED, ""), (RENAMED, ":also"), (TWO, ":second"), (NESTED, ":Site.app")],
)
def test_the_only_app_of_a_module_needs_no_name(shell: Shell, text: str, attribute: str) -> None:
    assert shell("--app", shell.module(text) + attribute, "migrate").code == 0


@pytest.mark.parametrize(
    ("text", "attribute", "expected"),
    [
        (TWO, "", "{name}:first, {name}:second"),
        (TWO, ":third", "has no 'third'; its apps are {name}:first"),
        ("x = 1\n", "", "app = Headrace()"),
        ("app = 1\n", ":app", "is a int, not a Headrace app"),
        ("import not_installed\n", ":app", "No module named 'not_installed'"),
        ("def broken(:\n", ":app", "SyntaxError"),
        ("raise SystemExit(3)\n", ":app", "SystemExit: 3"),
        ("\n\n1 / 0\n", ":app", "{name}.py:3"),
        ("from headrace import Headrace\napp = Headrace(lese=1)\n", ":app", "did you mean lease"),
    ],
)
def test_a_module_without_an_app_is_an_error_of_one_line(
    shell: Shell, text: str, attribute: str, expected: str
) -> None:
    name = shell.module(text)
    ran = shell("--app", name + attribute, "worker", "--once")
    assert ran.code == 2
    assert expected.format(name=name) in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("app", "expected"),
    [
        ("not_there:app", "no module 'not_there'"),
        ("not_there.deep:app", "no module 'not_there'"),
        ("shop.py", "such as 'shop'"),
        ("src/shop.py:app", "such as 'src.shop'"),
        (":app", "module:attribute"),
        ("a b:app", "module:attribute"),
    ],
)
def test_the_error_for_a_wrong_name_shows_the_right_form(shell: Shell, app: str, expected: str) -> None:
    ran = shell("--app", app, "worker")
    assert ran.code == 2
    assert expected in ran.err
    assert "--app" in ran.err


def test_the_error_for_a_missing_module_names_the_folder(shell: Shell) -> None:
    assert str(shell.folder) in shell("--app", "not_there", "worker").err


def test_a_worker_without_an_app_explains_how_to_name_one(shell: Shell) -> None:
    ran = shell("worker")
    assert ran.code == 2
    for way in ("--app", "HEADRACE_APP", "[tool.headrace]"):
        assert way in ran.err


def test_a_store_can_be_read_while_the_code_is_broken(shell: Shell) -> None:
    shell("enqueue", "x", "--job-id", "here")
    name = shell.module("1 / 0\n")
    (shell.folder / "pyproject.toml").write_text(f'[tool.headrace]\napp = "{name}"\n')
    refused = shell("jobs")
    assert refused.code == 2
    assert "--url" in refused.err
    assert "here" in shell("--url", "sqlite:///headrace.db", "jobs").out


def test_an_app_follows_the_url_on_the_command_line(shell: Shell) -> None:
    name = shell.module()
    ran = shell("--app", name, "--url", "sqlite:///other.db", "enqueue", "add", "[1, 2]", "--job-id", "there")
    assert ran.code == 0
    assert (shell.folder / "other.db").exists()
    assert "there" in shell("--url", "sqlite:///other.db", "jobs").out


def test_a_module_that_prints_on_import_does_not_change_the_output(shell: Shell) -> None:
    name = shell.module("print('loading')\n" + SHOP)
    ran = shell("--app", name, "enqueue", "add", "[1, 2]", "--job-id", "mine")
    assert ran.out == "mine\n"
    assert "loading" in ran.err


def test_a_url_that_the_app_does_not_follow_is_refused_and_not_ignored(shell: Shell) -> None:
    name = shell.module("from headrace import Headrace\napp = Headrace('sqlite:///own.db')\n")
    ran = shell("--app", name, "--url", "sqlite:///other.db", "worker", "--once")
    assert ran.code == 2
    assert "own.db" in ran.err


def test_a_missing_store_is_an_error_and_is_not_created_by_reading(shell: Shell) -> None:
    for command in (
        ("jobs",),
        ("queues",),
        ("queues", "pause", "mail"),
        ("workers",),
        ("why", "x"),
        ("jobs", "cancel", "x"),
    ):
        ran = shell(*command)
        assert ran.code == 2
        assert "there is no store at" in ran.err
        assert "--url" in ran.err
    assert list(shell.folder.iterdir()) == []


@pytest.mark.parametrize(
    "url", ["postgresql://me:hunter2@127.0.0.1:1/db", "redis://me:hunter2@127.0.0.1:1/0", "nosuch://me:hunter2@host/db"]
)
def test_a_password_in_a_url_is_never_shown(shell: Shell, url: str) -> None:
    for command in (("jobs",), ("doctor",), ("doctor", "--json")):
        ran = shell("--url", url, *command)
        assert ran.code != 0
        assert "hunter2" not in ran.out + ran.err
        assert url.partition(":")[0] in ran.out + ran.err


def test_a_setting_that_does_not_exist_is_named(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CONCURENCY", "3")
    ran = shell("jobs")
    assert ran.code == 2
    assert "HEADRACE_CONCURENCY" in ran.err
    assert "did you mean concurrency" in ran.err
