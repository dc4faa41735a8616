"""What a view and an action are. The frame turns them into routes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from headrace.web.pages.request import PageRequest


class View(Struct, frozen=True, kw_only=True):
    """A page: its path, what it shows, and where it stands in the navigation, if it has a label.

    `key` is what to press after g. A view tells what concerns it with `topics` among what it shows, such as
    "queue:emails" or "job:…"; without them, it is fresh after anything that happened.
    """

    path: str
    template: str
    show: Callable[[PageRequest], Mapping[str, Any]]
    label: str = ""
    icon: str = ""
    key: str = ""
    badge: Callable[[PageRequest], int] | None = None


class Confirmation(Struct, frozen=True):
    """What to ask before something is done that can't be undone."""

    text: str
    label: str
    detail: str = ""
    confirmed: str = "yes"  # what is sent back with the answer


class ActionResult(Struct, frozen=True):
    """What an action came to: said to whoever did it, and written to the audit trail."""

    text: str
    goto: str | None = None
    ok: bool = True
    target: str = ""


class Action(Struct, frozen=True, kw_only=True):
    """What a form does. `what` is its name in the audit trail; `ask` returns the question, if there is one to ask."""

    path: str
    what: str
    do: Callable[[PageRequest], ActionResult]
    ask: Callable[[PageRequest], Confirmation | None] | None = None
