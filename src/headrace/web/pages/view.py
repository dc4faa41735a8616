"""Views and actions. The router turns them into routes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from headrace.web.pages.request import PageRequest


class View(Struct, frozen=True, kw_only=True):
    """A page: its path, its function, and its place in the navigation, if it has a label.

    `key` is the shortcut after g. A view returns `topics`, such as "queue:emails" or "job:…", to be updated on their
    changes; without them, it is updated on every change.
    """

    path: str
    template: str
    show: Callable[[PageRequest], Mapping[str, Any]]
    label: str = ""
    icon: str = ""
    key: str = ""
    badge: Callable[[PageRequest], int] | None = None


class Confirmation(Struct, frozen=True):
    """The question before an irreversible action."""

    text: str
    label: str
    detail: str = ""
    value: str = "yes"  # the form value of a confirmation


class ActionResult(Struct, frozen=True):
    """The result of an action, shown to the user and recorded in the audit trail."""

    text: str
    goto: str | None = None
    ok: bool = True
    target: str = ""


class Action(Struct, frozen=True, kw_only=True):
    """The action of a form. The audit trail has its `name`. `confirmation` returns the question, if one is needed."""

    path: str
    name: str
    run: Callable[[PageRequest], ActionResult]
    confirmation: Callable[[PageRequest], Confirmation | None] | None = None
