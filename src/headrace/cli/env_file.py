"""Reads a `.env` file: KEY=VALUE lines. Only on request, and variables that exist already win.

    # a comment
    HEADRACE_URL=postgresql://shop@db/shop     # a comment after a blank
    export NAME='taken as it is: $HOME # \\n'
    TEXT="with escapes: \\n \\t \\" \\\\"

There is no expansion of `$NAME`, and a value ends with its line.
"""

from __future__ import annotations

import os
import re
from collections.abc import MutableMapping
from pathlib import Path

from headrace.errors import ConfigError

VARIABLE = "HEADRACE_ENV_FILE"
_LINE = re.compile(r"(?:export\s+)?(?P<name>[^=\s#]+)\s*=[ \t]*(?P<value>.*)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_QUOTED = re.compile(r"""(?:'(?P<plain>[^']*)'|"(?P<escaped>(?:[^"\\]|\\.)*)")[ \t]*(?:\#.*)?""")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def parse_env(text: str, name: str) -> dict[str, str]:
    """The variables in the text; ConfigError with the number of a wrong line, but not its value."""
    found: dict[str, str] = {}
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text.removeprefix("\ufeff")), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _LINE.fullmatch(stripped)
        if match is None or not _NAME.fullmatch(match["name"]):
            raise ConfigError(f"{name}, line {number}: write KEY=VALUE, with a key of letters, digits and _")
        found[match["name"]] = _value(match["value"], f"{name}, line {number}")
    return found


def _value(text: str, where: str) -> str:
    if not text.startswith(("'", '"')):
        return re.split(r"(?:^|\s)#", text, maxsplit=1)[0].strip()
    match = _QUOTED.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"{where}: the quote {text[0]} has to be closed on the same line, and only a comment may follow"
        )
    if match["plain"] is not None:
        return match["plain"]
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), match["escaped"])


def load_env(path: str, environment: MutableMapping[str, str] | None = None) -> list[str]:
    """Set the variables of a file that are not set yet, and return their names."""
    environment = os.environ if environment is None else environment
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise ConfigError(f"--env-file: {path} can't be read: {reason}") from None
    fresh = {name: value for name, value in parse_env(text, path).items() if name not in environment}
    if wrong := [name for name, value in fresh.items() if "\0" in value]:
        raise ConfigError(f"{path}: {wrong[0]} has a NUL in it, which no variable can have")
    environment.update(fresh)
    return list(fresh)
