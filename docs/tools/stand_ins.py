"""What the examples need and a machine may lack: servers for their URLs, and just enough of FastAPI, Flask and Django.

A page that imports the REST client gets it from `clients/`, and a server of `headrace web` in the folder of the page.

An example's server is a real one, which the tests start. A framework is stood in for where it is not installed: that
shows that the headrace side of an example works, and proves nothing about the framework.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

# -- servers

_URL = re.compile(r"""\b(postgresql|redis)((?:\+\w+)?)://[^\s"'`]+""")
_CLIENT, _WEB = "headrace_client", "http://127.0.0.1:8080"
_ENGINES = {"postgresql": "postgres", "redis": "redis"}


def engines_in(text: str) -> set[str]:
    """The engines whose servers the examples in this text need."""
    return {_ENGINES[match[1]] for match in _URL.finditer(text)}


def on_real_servers(text: str) -> str:
    """The text with its URLs leading to a database, or a prefix, that the page has to itself."""
    if _CLIENT in text and _WEB in text:
        text = text.replace(_WEB, _web())
    return _URL.sub(_served, text)


@functools.cache
def _web() -> str:
    """The URL of a dashboard of the current folder, which ends with this process."""
    command = [sys.executable, "-m", "headrace", "web", "--port", "0"]
    served = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    atexit.register(_end, served)
    assert served.stderr is not None
    found = next((match for line in served.stderr if (match := re.search(r"http://127\.0\.0\.1:\d+", line))), None)
    assert found is not None, "headrace web did not start"
    return found[0]


def _end(served: subprocess.Popen[str]) -> None:
    served.kill()
    served.communicate()


def _served(match: re.Match[str]) -> str:
    given = dict(parse_qsl(urlsplit(match[0]).query))
    if match[1] == "redis":
        place = urlsplit(_redis())
        given |= parse_qsl(place.query)  # its prefix goes before that of the example
    else:
        place = urlsplit(_postgres())
    return place._replace(scheme=match[1] + match[2], query=urlencode(given)).geturl()


@functools.cache
def _postgres() -> str:
    from tests.support import servers  # only pages that have such a URL need it, and the drivers behind it

    return servers.postgres_url(own_database=True)


@functools.cache
def _redis() -> str:
    from tests.support import servers

    return servers.redis_url()


# -- frameworks


class _Site:
    """A web application: whatever decorates a handler leaves it as it is."""

    def __init__(self, *args: Any, **options: Any) -> None: ...

    def route(self, path: str, **options: Any) -> Callable[[Any], Any]:
        return lambda handler: handler

    get = post = route


class _HTTPError(Exception):
    def __init__(self, status_code: int) -> None:
        super().__init__(status_code)


class _Transaction:
    @staticmethod
    def on_commit(call: Callable[[], Any]) -> None:
        call()

    @staticmethod
    def atomic(function: Callable[..., Any]) -> Callable[..., Any]:
        return function


def _nothing(*args: Any, **options: Any) -> None: ...


_MODULES: dict[str, dict[str, dict[str, Any]]] = {
    "fastapi": {"fastapi": {"FastAPI": _Site, "HTTPException": _HTTPError}},
    "flask": {"flask": {"Flask": _Site}},
    "django": {
        "django": {"setup": _nothing},
        "django.db": {"transaction": _Transaction, "connection": None, "close_old_connections": _nothing},
        "django.http": {"JsonResponse": dict},
    },
    # Of the reader's own.
    "shop.settings": {"shop": {}, "shop.settings": {"SECRET_KEY": "example", "USE_TZ": True}},
}


def install(text: str) -> None:
    """Put those in place that the text speaks of and that are missing."""
    if _CLIENT in text:
        sys.path.append(str(Path(__file__).parents[2] / "clients" / "python"))
    for wanted, modules in _MODULES.items():
        if wanted in text and not _is_there(wanted):
            for name, members in modules.items():
                module = sys.modules[name] = ModuleType(name)
                vars(module).update(members)


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # nor is the package it would be in
        return False
