"""`--env-file` and HEADRACE_ENV_FILE: what a `.env` file may say, and who wins."""

from __future__ import annotations

import os

import pytest

from headrace import ConfigError
from headrace.cli.env_file import load_env, parse_env
from tests.support.command_line import Shell


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("KEY=plain", "plain"),
        ("  KEY = spaced  ", "spaced"),
        ("export KEY=x", "x"),
        ("KEY=", ""),
        ("KEY=a=b", "a=b"),
        ("KEY=x # a comment", "x"),
        ("KEY=x#no comment", "x#no comment"),
        ("KEY=# only a comment", ""),
        ("KEY='as it is: $HOME \\n # \"'", 'as it is: $HOME \\n # "'),
        ('KEY="a\\nb\\t\\"c\\" \\\\ \\$"', 'a\nb\t"c" \\ $'),
        ('KEY="x"  # a comment', "x"),
        ("KEY=it's", "it's"),
        ("KEY=''", ""),
        ("\ufeffKEY=x", "x"),
        ("KEY=x\r", "x"),
        ('KEY="a\u2028b\x0cc"', "a\u2028b\x0cc"),
    ],
)
def test_a_line_is_a_key_and_a_value(line: str, value: str) -> None:
    assert parse_env(f"{line}\n", ".env") == {"KEY": value}


def test_comments_and_blank_lines_are_skipped_and_the_last_value_counts() -> None:
    assert parse_env("# one\n\n   \nA=1\nB=2\nA=3\n", ".env") == {"A": "3", "B": "2"}


@pytest.mark.parametrize(
    "line", ["secret", "=secret", "1A=secret", "A B=secret", "A-B=secret", "A='secret", 'A="secret', "A='se'cret"]
)
def test_a_wrong_line_is_named_by_its_number_and_shows_no_secret(line: str) -> None:
    with pytest.raises(ConfigError, match=r"^\.env, line 2: ") as caught:
        parse_env(f"A=1\n{line}\n", ".env")
    assert "secret" not in str(caught.value)


def test_variables_that_are_set_win(tmp_path: os.PathLike[str]) -> None:
    path = os.path.join(tmp_path, ".env")
    with open(path, "w", encoding="utf-8") as file:
        file.write("A=file\nB=file\n")
    environment = {"A": "outside"}
    assert load_env(path, environment) == ["B"]
    assert environment == {"A": "outside", "B": "file"}


def test_the_file_is_read_only_on_request(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    (shell.folder / ".env").write_text("HEADRACE_CONCURRENCY=7\n")
    (shell.folder / "other.env").write_text("HEADRACE_CONCURRENCY=9\n")

    def concurrency(*arguments: str) -> int:
        found: int = shell(*arguments, "--json").json["settings"]["concurrency"]["value"]
        assert "HEADRACE_CONCURRENCY" not in os.environ or arguments == ()
        return found

    assert concurrency("doctor") == 4
    assert concurrency("--env-file", ".env", "doctor") == 7
    assert concurrency("doctor", "--env-file", ".env") == 7
    monkeypatch.setenv("HEADRACE_ENV_FILE", "other.env")
    assert concurrency("doctor") == 9
    assert concurrency("--env-file", ".env", "doctor") == 7, "the option is nearer than the variable"
    assert concurrency("doctor", "--env-file", ".env") == 7
    monkeypatch.setenv("HEADRACE_CONCURRENCY", "2")
    found = shell("doctor", "--json").json["settings"]["concurrency"]
    assert found == {"value": 2, "origin": "HEADRACE_CONCURRENCY"}


def test_a_file_that_cannot_be_read_is_wrong_use(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = shell("--env-file", "nowhere.env", "jobs")
    assert (ran.code, "nowhere.env can't be read: No such file" in ran.err) == (2, True)
    (shell.folder / "bytes.env").write_bytes(b"A=\xff\n")
    assert "it is not text in UTF-8" in shell("--env-file", "bytes.env", "jobs").err
    (shell.folder / "nul.env").write_bytes(b"A='\0'\n")
    assert "has a NUL" in shell("--env-file", "nul.env", "jobs").err
    monkeypatch.setenv("HEADRACE_ENV_FILE", "gone.env")
    assert "gone.env can't be read" in shell("jobs").err
    report = shell("doctor", "--json")
    assert (report.code, "gone.env can't be read" in report.json["findings"][0]) == (1, True)
    assert shell("jobs", "--help").code == 0, "help needs no file"
