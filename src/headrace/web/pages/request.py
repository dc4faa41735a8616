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
    has_session: bool = False  # whether there is a session to log out of


class PageRequest:
    """A request as views use it."""

    def __init__(
        self,
        http_request: Request,
        app: Headrace,
        page_cache: PageCache,
        viewer: Viewer,
        form: QueryParams | None = None,
    ) -> None:
        self.http = http_request
        self.app = app
        self.page_cache = page_cache
        self.viewer = viewer
        self.form = form or QueryParams()
        now = to_datetime(app.clock.now())
        assert now is not None
        self.now: datetime = now

    @property
    def path(self) -> str:
        """The path inside the dashboard, without the mount path."""
        root = self.root
        path: str = self.http.url.path
        return path.removeprefix(root) or "/"

    @property
    def root(self) -> str:
        return str(self.http.scope.get("root_path", "")).rstrip("/")

    def path_param(self, name: str) -> str:
        """A part of the path, such as the id of a job."""
        return str(self.http.path_params[name])

    def query(self, name: str) -> str | None:
        """A parameter of the query; None if it is missing or empty."""
        return self.http.query_params.get(name, "").strip() or None

    def form_field(self, name: str) -> str | None:
        """A field of the form; None if it is missing or empty."""
        return self.form.get(name, "").strip() or None

    def url(self, path: str, /, **parameters: object) -> str:
        """The URL of a page, with the mount path."""
        given = {name: str(value) for name, value in parameters.items() if value not in (None, "")}
        return f"{self.root}{quote(path, safe='/')}" + (f"?{urlencode(given)}" if given else "")

    def url_with(self, **changes: object) -> str:
        """The URL of this page with query parameters changed, or removed if None."""
        return self.url(self.path, **{**self.http.query_params, **changes})


def local_url(url: str | None) -> str | None:
    """The URL, if it stays on this host."""
    return url if url and url.startswith("/") and not url.startswith(("//", "/\\")) else None
