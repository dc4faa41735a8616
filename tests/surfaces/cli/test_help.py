"""A newcomer finds their way: help with examples that work, suggestions, versions, one style of error and exit code."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from headrace import __version__
from headrace.cli.command_list import _MEANT, GROUPS, MODULES
from headrace.cli.root import load_all, root
from headrace.cli.session import Session
from tests.support.cases import check_each
from tests.support.command_line import Shell
from tests.support.measuring import unless_measured


def every_command(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from every_command(child, (*path, name))


COMMANDS = dict(every_command(load_all()))
ROOT = Path(__file__).parents[3]
LEAVES = {path: command for path, command in COMMANDS.items() if not isinstance(command, click.Group)}
RUN_UNTIL_STOPPED = {("worker",), ("web",), ("mcp",), ("demo",)}


def examples(command: click.Command) -> list[str]:
    lines = (command.epilog or "").splitlines()
    return [line.strip() for line in lines if line.strip().startswith("headrace ")]


def parse(arguments: list[str]) -> click.Context:
    """Parse down to the command, without running any."""
    context = root.make_context("headrace", list(arguments), obj=Session())
    while isinstance(context.command, click.Group) and (rest := [*context._protected_args, *context.args]):
        name, command, rest = context.command.resolve_command(context, rest)
        assert command is not None
        context = command.make_context(name, rest, parent=context)
    return context


def test_every_command_helps_with_an_example(shell: Shell) -> None:
    def check(path: tuple[str, ...]) -> None:
        ran = shell(*path, "--help")
        assert ran.code == 0
        assert "Example" in ran.out
        assert f"Usage: headrace {' '.join(path)}".strip() in ran.out
        assert COMMANDS[path].help, "it says what it does"

    check_each(COMMANDS, check)


def test_an_example_in_the_help_is_a_command_that_exists(shell: Shell) -> None:
    def check(line: str) -> None:
        arguments = shlex.split(line, comments=True)[1:]
        context = parse(arguments)
        assert context.command_path.startswith("headrace ")

    check_each([line for command in COMMANDS.values() for line in examples(command)], check)


def test_the_app_and_the_store_can_be_named_before_and_after_any_command() -> None:
    def check(path: tuple[str, ...]) -> None:
        names = {option for parameter in LEAVES[path].params for option in parameter.opts}
        assert {"--app", "--url", "--env-file", "--traceback"} <= names
        assert names & {"--app", "--url", "--env-file", "--traceback"} <= {
            option for parameter in root.params for option in parameter.opts
        }

    check_each(LEAVES, check)


def test_every_command_that_prints_data_prints_json_too() -> None:
    def check(path: tuple[str, ...]) -> None:
        assert "--json" in {option for parameter in LEAVES[path].params for option in parameter.opts}

    check_each(sorted(set(LEAVES) - RUN_UNTIL_STOPPED), check)


def test_the_bare_command_shows_the_way(shell: Shell) -> None:
    ran = shell()
    assert (ran.code, ran.err) == (0, "")
    assert "headrace demo" in ran.out
    assert "_HEADRACE_COMPLETE=bash_source" in ran.out


def test_commands_are_listed_by_group_and_no_line_is_cut(shell: Shell) -> None:
    out = shell().out
    assert [title for title in GROUPS if f"\n{title}:\n" in out] == list(GROUPS)
    lines = [(name, text) for commands in GROUPS.values() for name, (_, text) in commands.items()]
    assert [text for _, text in lines if len(text) > 60 or not text.endswith(".")] == []
    assert all(f"  {name.ljust(max(map(len, MODULES)))}  {text}\n" in out for name, text in lines)
    assert len(lines) == len(COMMANDS[()].commands) if isinstance(COMMANDS[()], click.Group) else False


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        (("dashboard",), "web"),
        (("UI",), "web"),
        (("job",), "jobs"),
        (("wrker",), "worker"),
        (("status",), "top"),
        (("purge",), "queues clear"),
        (("dashbord",), "web"),
        (("flower",), "web"),
        (("jobs", "retyr"), "retry"),
        (("queues", "lst"), "list"),
        (("alerts", "channels", "lst"), None),
        (("worker", "--shutdwn-timeout", "3"), "--shutdown-timeout"),
        (("frobnicate",), None),
    ],
)
def test_a_mistyped_command_or_option_gets_a_hint(shell: Shell, typed: tuple[str, ...], hint: str | None) -> None:
    ran = shell(*typed)
    assert ran.code == 2
    assert ran.err.count(f"Did you mean '{hint}'?" if hint else "Did you mean") == (1 if hint else 0)


def test_every_hint_names_a_command_that_exists() -> None:
    for words in set(_MEANT.values()):
        if not words.startswith("--"):
            assert tuple(words.split()) in COMMANDS, words
    assert not set(_MEANT) & set(MODULES)


def test_every_command_to_install_an_extra_is_quoted_for_the_shell() -> None:
    unquoted = re.compile(r"""pip install (?!['"])\S*headrace\[""")
    texts = {path: path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py")}
    texts |= {path: path.read_text("utf-8") for path in (ROOT / "docs").rglob("*.md")}
    assert len(texts) > 300
    assert [str(path) for path, text in texts.items() if unquoted.search(text)] == []
    assert unquoted.search("pip install headrace[web]")


def test_the_version_is_printed(shell: Shell) -> None:
    assert shell("--version") == (0, f"headrace {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("wrker",), "worker"),
        (("jobs", "--stat", "failed"), "--state"),
        (("jobs", "shw"), "'shw'"),
        (("queues", "peek"), "NAME"),
        (("why",), "ID"),
        (("why", "a", "b"), "b"),
        (("why", "a", "b:c"), "b:c"),
        (("worker", "-c", "many"), "many"),
        (("jobs", "list", "--limit", "0"), "limit"),
        (("bench", "--seconds", "0"), "seconds"),
        (("worker", "--log-level", "loud"), "loud"),
    ],
)
def test_wrong_use_ends_with_2_and_says_where_help_is(shell: Shell, arguments: tuple[str, ...], expected: str) -> None:
    ran = shell(*arguments)
    assert ran.code == 2
    assert ran.out == ""
    first, second = ran.err.splitlines()
    assert first.startswith("error: ")
    assert expected in first
    assert second.startswith("try: headrace ")
    assert second.endswith("--help")


def test_the_error_for_an_app_without_its_option_shows_the_right_command(shell: Shell) -> None:
    ran = shell("worker", "shop.jobs:app")
    assert ran.code == 2
    assert ran.err.splitlines()[1] == "try: headrace worker --app shop.jobs:app"


def test_an_expected_error_is_one_line_and_its_traceback_is_shown_on_demand(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell("enqueue", "x")
    plain = shell("why", "nobody")
    assert (plain.code, plain.out, plain.err.count("\n")) == (1, "", 1)
    assert plain.err.startswith("error: no job has the id 'nobody'; it may have been deleted")
    for ran in (shell("--traceback", "why", "nobody"), shell("why", "nobody", "--traceback")):
        assert ran.code == 1
        assert "Traceback (most recent call last)" in ran.err
        assert ran.err.endswith(plain.err)
    monkeypatch.setenv("HEADRACE_DEBUG", "1")
    assert "Traceback" in shell("why", "nobody").err


def test_an_unexpected_error_is_one_line_as_well(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "store", lambda self, **how: 1 / 0)
    ran = shell("jobs")
    assert ran == (1, "", "error: unexpected ZeroDivisionError: division by zero (--traceback shows where)\n")


def test_ctrl_c_ends_any_command_quietly(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Session, **how: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Session, "store", interrupted)
    ran = shell("jobs")
    assert ran.code == 1
    assert ran.err.split() == ["stopped"]


def test_completion_knows_commands_and_states(shell: Shell) -> None:
    def complete(typed: str) -> str:
        position = str(len(typed.split()) - (0 if typed.endswith(" ") else 1))
        environment = {"_HEADRACE_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": position}
        return shell.run(env=environment).out

    assert "plain,worker" in complete("headrace wor")
    assert "plain,failed" in complete("headrace jobs list --state fai")


@unless_measured
def test_listing_jobs_imports_neither_rich_nor_the_worker() -> None:
    check = (
        "import sys; sys.path[:0] = sys.argv[1:]; import headrace.cli; "
        "print([name for name in ('rich', 'asyncio', 'multiprocessing', 'headrace.runtime.worker.worker') "
        "if name in sys.modules])"
    )
    source = str(Path(__file__).parents[3] / "src")
    done = subprocess.run([sys.executable, "-c", check, source], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
