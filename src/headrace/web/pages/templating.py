"""The Jinja environment: filters and globals. Autoescape is on; an unknown name is an error."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from headrace.core.jobs.states import State, Trigger
from headrace.core.tasks.arguments import line_of
from headrace.web.pages import charts, formatting
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import View

_FOLDER = Path(__file__).parent
STATIC = _FOLDER / "static"
# The events of a history in the words of a reader; one that is not here is its own word.
EVENT_WORDS = {
    Trigger.SUBMIT.value: "enqueued",
    Trigger.PROMOTE.value: "due",
    Trigger.UNBLOCK.value: "parents finished",
    Trigger.CLAIM.value: "started",
    Trigger.SUCCEED.value: "completed",
    Trigger.RETRY.value: "failed, to be retried",
    Trigger.SNOOZE.value: "snoozed",
    Trigger.RELEASE.value: "given back",
    Trigger.FAIL.value: "failed",
    Trigger.LEASE_EXPIRED.value: "worker lost",
    Trigger.CANCEL.value: "cancelled",
    Trigger.CANCEL_REQUEST.value: "asked to stop",
    Trigger.SUPERSEDE.value: "takes the place of another",
    Trigger.EXPIRE.value: "expired",
    Trigger.REVIVE.value: "retried by an operator",
    Trigger.PROMOTE_NOW.value: "promoted by an operator",
    Trigger.UPDATE.value: "changed by an operator",
    Trigger.QUESTION.value: "asked",
    Trigger.COMPENSATION.value: "can be undone",
    Trigger.COST.value: "reported its cost",
}
_FILTERS = ("brief", "exact", "share", "size", "span", "stamp", "iso", "short_id", "plain_json")


def static_version(folder: Path = STATIC) -> str:
    """A hash of the static files, for URLs that browsers may cache forever."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def coded(text: str) -> Markup:
    """A sentence with backticks rendered as code."""
    parts = text.split("`")
    return Markup().join(
        escape(part) if index % 2 == 0 else Markup("<code>{}</code>").format(part) for index, part in enumerate(parts)
    )


@functools.cache
def environment() -> Environment:
    """The environment of this process, shared by all apps, so that templates compile once."""
    env = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    env.filters |= {name: getattr(formatting, name) for name in _FILTERS}
    env.filters["of_states"] = lambda stats: {state: getattr(stats, state) for state in State}
    env.filters["coded"] = coded
    env.filters["arguments_line"] = line_of
    env.globals |= {"charts": charts, "STATES": list(State), "EVENT_WORDS": EVENT_WORDS, "version": static_version()}
    return env


def compile_all() -> None:
    """Compile every template, so that the first request does not wait."""
    env = environment()
    for name in env.list_templates():
        env.get_template(name)


class Templates:
    """Renders pages, whole or without the frame."""

    def __init__(self, views: Sequence[View], label: str | None = None) -> None:
        self._navigation = [view for view in views if view.label]
        self._label = label or ""

    def render(
        self, template: str, request: PageRequest, view_variables: Mapping[str, Any], *, part: bool = False
    ) -> str:
        """Render a page; with `part`, without the frame."""
        variables = {
            "base": "layout/without_frame.html" if part else "layout/frame.html",
            "request": request,
            "url": request.url,
            "now": request.now,
            "distance": lambda moment: formatting.distance(moment, request.now),
            "navigation": self._navigation,
            "theme": _theme(request),
            "label": self._label,
            "label_color": label_color(self._label),
            "topics": (),
            "flash": None,
            **view_variables,
        }
        return environment().get_template(template).render(variables)


def label_color(label: str) -> str:
    """The color of an environment: red for production, amber for one before it, green for others."""
    name = label.casefold()
    if name.startswith(("prod", "live")):
        return "bad"
    return "warn" if name.startswith(("stag", "pre", "uat", "qa")) else "good"


def _theme(request: PageRequest) -> str:
    """The theme from the cookie, so that a page does not flash in the wrong one."""
    theme = request.http.cookies.get("headrace_theme", "")
    return theme if theme in ("light", "dark") else "auto"
