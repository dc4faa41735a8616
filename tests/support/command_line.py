"""How the tests type commands: in this process through `main`, or as a real process where signals and pipes matter."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headrace import Headrace
from headrace.cli import main
from tests.support.waiting import PATIENCE

SRC = str(Path(__file__).parents[2] / "src")
_numbers = itertools.count(1)

SHOP = """
import time
from headrace import Headrace, PermanentError, current_job

app = Headrace()

@app.task
def add(a: int, b: int) -> int:
    return a + b

@app.task(redact=("password",))
def login(user: str, password: str) -> None:
    raise PermanentError("no \\x1b[31mentry")

@app.task
def talk() -> None:
    current_job().log("first", level="warning", x=1)
    current_job().log("second")

@app.task(retry=0)
def hold(marker: str) -> str:
    open(marker, "w").close()
    for _ in range(2000):
        time.sleep(0.01)
        if not __import__("os").path.exists(marker):
            return "let go"
    raise TimeoutError("nobody let it go")
"""


@contextlib.contextmanager
def open_shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    """A shell in a fresh folder. Its path is short: the bells of a store are sockets, and their names must be."""
    with tempfile.TemporaryDirectory(prefix="hr-") as folder:
        yield Shell(Path(folder).resolve(), monkeypatch, capsys)


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Shell:
    """A folder of its own, without settings from outside, and a prompt."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        for name in [name for name in os.environ if name.startswith("HEADRACE_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("HEADRACE_URL", "")  # so that whatever a command sets is taken back
        monkeypatch.delenv("HEADRACE_URL")
        monkeypatch.chdir(folder)
        monkeypatch.syspath_prepend(str(folder))

    def __call__(self, *arguments: str) -> Ran:
        self._capsys.readouterr()
        code = main(arguments)
        out, err = self._capsys.readouterr()
        return Ran(code, out, err)

    def answer(self, text: str) -> None:
        """Sit at a terminal and be ready to type this."""
        typed = io.StringIO(text)
        typed.isatty = lambda: True  # type: ignore[method-assign]
        self._monkeypatch.setattr(sys, "stdin", typed)

    def module(self, text: str = SHOP) -> str:
        """Write a module that no other test knows; its name."""
        name = f"shop_{os.getpid()}_{next(_numbers)}"
        (self.folder / f"{name}.py").write_text(text, "utf-8")
        return name

    def app(self) -> Headrace:
        """The store as a program sees it."""
        return Headrace(f"sqlite:///{self.folder / 'headrace.db'}", webhook_networks=["127.0.0.0/8"])

    # -- real processes

    def start(self, *arguments: str, **more: Any) -> subprocess.Popen[str]:
        """Start a command as a process."""
        return subprocess.Popen(
            [sys.executable, "-m", "headrace", *arguments],
            cwd=self.folder,
            env={**_environment(), **more.pop("env", {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            **more,
        )

    def run(self, *arguments: str, **more: Any) -> Ran:
        """Run a command as a process and wait for its end."""
        return finish(self.start(*arguments, **more))


def finish(process: subprocess.Popen[str]) -> Ran:
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"the command did not end:\n{out}\n{err}") from None
    return Ran(process.returncode, out, err)


def end(process: subprocess.Popen[str]) -> Ran:
    """Ask the process to stop, and wait for it."""
    process.send_signal(signal.SIGTERM)
    return finish(process)


def wait_for_line(process: subprocess.Popen[str], text: str) -> None:
    """Read what the process says on stderr until it says this."""
    assert process.stderr is not None
    heard = []
    for line in process.stderr:
        heard.append(line)
        if text in line:
            return
    raise AssertionError(f"it ended without saying {text!r}:\n{''.join(heard)}")


def _environment() -> dict[str, str]:
    outside = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    installed = importlib.util.find_spec("headrace")
    if installed is None or str(installed.origin).startswith(SRC):
        outside["PYTHONPATH"] = os.pathsep.join([SRC, *filter(None, [outside.get("PYTHONPATH")])])
    return outside
