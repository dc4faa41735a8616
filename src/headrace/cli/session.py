"""One run of the command line: opens its app and store, and closes them at the end.

A command needs the store alone, or the app with its tasks. With `--url`, only the latter imports the user's code, so an
operator can inspect jobs while the code is broken.
"""

from __future__ import annotations

import os
from pathlib import Path

import headrace
from headrace.app.config import find_settings
from headrace.cli.app_loader import HOW_TO_NAME, load_app
from headrace.cli.env_file import VARIABLE, load_env
from headrace.core.urls import redacted_url
from headrace.errors import ConfigError


class Session:
    """The shared options, and the app opened for them."""

    def __init__(self) -> None:
        self.app: str | None = None
        self.url: str | None = None
        self.traceback = False
        self.env_file: str | None = None
        self._from_file: list[str] | None = None  # the variables that were read from it
        self.app_name: str | None = None
        self._opened: headrace.Headrace | None = None

    def store(self, *, may_create: bool = False, with_tasks: bool = False) -> headrace.Headrace:
        """The configured app or, without one, a bare app on the store. A missing store is an error.

        With --url alone no app is imported, unless the command wants its tasks.
        """
        self.read_env_file()
        if self._opened is None:
            is_bare = self.url and not self.app and not with_tasks
            self._opened = (self._bare() if is_bare else self._app_or_bare()).__enter__()  # close() ends it
        if not may_create and (missing := missing_file(self._opened)):
            raise ConfigError(
                f"there is no store at {missing} yet. Run this where the app runs, or name the app with --app or the "
                "store with --url; the first job or worker creates it"
            )
        return self._opened

    def application(self) -> headrace.Headrace:
        """The user's app with its tasks."""
        self.read_env_file()
        if self._opened is None:
            name, origin = self._find_app_name()
            if name is None:
                raise ConfigError(f"no app is named, so there are no tasks to run; {HOW_TO_NAME}")
            self._opened = self._load(name, origin).__enter__()
        return self._opened

    def read_env_file(self) -> None:
        """Set the variables of the file of --env-file or HEADRACE_ENV_FILE, once; close() removes them."""
        path = self.env_file or os.environ.get(VARIABLE)
        if path and self._from_file is None:
            self._from_file = load_env(path)

    def close(self) -> None:
        try:
            if self._opened is not None:
                self._opened.close()
        finally:
            for name in self._from_file or ():
                os.environ.pop(name, None)

    def _app_or_bare(self) -> headrace.Headrace:
        name, origin = self._find_app_name()
        if name is None:
            return self._bare()
        try:
            return self._load(name, origin)
        except ConfigError as error:
            hint = "" if self.url else "; with --url and without --app, commands that only read the store still work"
            raise ConfigError(f"{error}{hint}") from error

    def _bare(self) -> headrace.Headrace:
        return headrace.Headrace(self.url)

    def _find_app_name(self) -> tuple[str | None, str]:
        if self.app:
            return self.app, "from --app"
        found = find_settings({})
        return found.settings.app, f"from {found.origin.get('app', '')}"

    def _load(self, name: str, origin: str) -> headrace.Headrace:
        if self.url:
            os.environ["HEADRACE_URL"] = (
                self.url
            )  # read by `Headrace()` in the user's module, here and in child processes
        app = load_app(name, origin)
        self.app_name = name
        if self.url and not _uses_store(app, self.url):
            app_url = redacted_url(app.engine.url)
            raise ConfigError(f"app {name!r} is bound to {app_url}; leave --url out, or let it read HEADRACE_URL")
        return app


def _uses_store(app: headrace.Headrace, url: str) -> bool:
    with headrace.Headrace(url) as other:
        return other.engine.url == app.engine.url


def missing_file(app: headrace.Headrace) -> str | None:
    """The path of the store's file if it does not exist."""
    scheme, _, path = app.engine.url.partition(":///")
    return path if scheme == "sqlite" and not Path(path).exists() else None
