"""One request to the dashboard. Independent of templates."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from msgspec import Struct
from starlette.datastructures import QueryParams

from headrace.core.clock import to_datetime
from headrace.web.pages.page_cache import PageCache

if TYPE_CHECKING:
    from starlette.requests import Request

    from headrace.app.app import Headrace


class Viewer(Struct, frozen=True):
    """The user, and the anti-forgery token of forms."""

    name: str
    may_write: bool
    token: str
    may_leave: bool = False  # whether there is a session to log out of


class PageRequest:
    """A request as views use it."""

    def __init__(
        self, request: Request, app: Headrace, page_cache: PageCache, visitor: Viewer, form: QueryParams | None = None
    ) -> None:
        self.request = request
        self.app = app
        self.page_cache = page_cache
        self.visitor = visitor
        self.form = form or QueryParams()
        now = to_datetime(app.clock.now())
        assert now is not None
        self.now: datetime = now

    @property
    def path(self) -> str:
        """The path inside the dashboard, without the mount path."""
        root = self.root
        path: str = self.request.url.path
        return path.removeprefix(root) or "/"

    @property
    def root(self) -> str:
        return str(self.request.scope.get("root_path", "")).rstrip("/")

    def name(self, which: str) -> str:
        """A part of the path, such as the id of a job."""
        return str(self.request.path_params[which])

    def asked(self, name: str) -> str | None:
        """A parameter of the query; None if it is missing or empty."""
        return self.request.query_params.get(name, "").strip() or None

    def said(self, name: str) -> str | None:
        """A field of the form; None if it is missing or empty."""
        return self.form.get(name, "").strip() or None

    def at(self, path: str, /, **query: object) -> str:
        """The URL of a page, with the mount path."""
        given = {name: str(value) for name, value in query.items() if value not in (None, "")}
        return f"{self.root}{quote(path, safe='/')}" + (f"?{urlencode(given)}" if given else "")

    def here(self, **changes: object) -> str:
        """The URL of this page with query parameters changed, or removed if None."""
        return self.at(self.path, **{**self.request.query_params, **changes})


def ours(address: str | None) -> str | None:
    """The URL, if it stays on this host."""
    return address if address and address.startswith("/") and not address.startswith(("//", "/\\")) else None
