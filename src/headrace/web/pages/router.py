"""Turns views and actions into routes: errors become pages, results of actions become responses."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from headrace.app.app import Headrace
from headrace.errors import (
    EngineUnavailable,
    HeadraceError,
    NotFound,
)
from headrace.web.pages import command_palette
from headrace.web.pages.page_cache import PageCache
from headrace.web.pages.request import PageRequest, Viewer, local_url
from headrace.web.pages.templating import STATIC, Templates, compile_all
from headrace.web.pages.view import Action, ActionResult, Confirmation, View
from headrace.web.problems import Refused, problem_response, refusal_of

log = logging.getLogger("headrace.web")

PART = "X-Headrace-Part"  # a script requests a page without the frame
AGE = "X-Headrace-Age"  # the age of its counts in milliseconds
_FLASH = "headrace_flash"
_MEDIA_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_ANONYMOUS = Viewer(name="", may_write=False, token="")


class PageRouter:
    """The pages of one app."""

    def __init__(
        self,
        app: Headrace,
        views: Sequence[View],
        actions: Sequence[Action],
        viewer_of: Callable[[Request], Viewer],
        refuse_forged: Callable[[Request, QueryParams], None],
        record: Callable[[PageRequest, Action, ActionResult], None],
        label: str | None = None,
    ) -> None:
        self._app = app
        self._views = views
        self._actions = actions
        self._viewer_of = viewer_of
        self._refuse_forged = refuse_forged
        self._record = record
        self._templates = Templates(views, label)
        self._page_cache = PageCache(app)
        self._files = {path.name: path.read_bytes() for path in STATIC.iterdir()}

    def routes(self) -> list[BaseRoute]:
        """All routes of the dashboard."""
        pages = [
            Route(view.path, self._page_handler(view), methods=["GET"], name=view.template) for view in self._views
        ]
        forms = [Route(action.path, self._form_handler(action), methods=["POST"]) for action in self._actions]
        # Every path below: static files need no login, so an unknown one must not redirect to a page.
        files = Route("/static/{file:path}", self._static, methods=["GET"])
        return [files, Route("/palette", self._palette, methods=["GET"]), *forms, *pages]

    def warm_up(self) -> None:
        """Warm up: start counting the store and compile the templates."""
        self._page_cache.start_counting()
        compile_all()

    def _page_request(self, request: Request, form: QueryParams | None = None) -> PageRequest:
        return PageRequest(request, self._app, self._page_cache.for_request(), self._viewer_of(request), form)

    # -- pages

    def _page_handler(self, view: View) -> Callable[[Request], Response]:
        def show(
            request: Request,
        ) -> Response:  # not a coroutine: Starlette calls it in a thread, because the store blocks
            began = time.perf_counter()
            response = page_of(request)
            response.headers["Server-Timing"] = f"page;dur={1000 * (time.perf_counter() - began):.1f}"
            return response

        def page_of(request: Request) -> Response:
            page_request = self._page_request(request)
            try:
                variables = {
                    **view.show(page_request),
                    "view": view,
                    "unavailable_since": self._page_cache.unavailable_since(),
                }
                return self._render(page_request, view.template, variables)
            except HeadraceError as error:
                return self.error_page(page_request, error)
            except Exception as error:
                log.exception("the page %s failed", page_request.path)
                return self.error_page(page_request, error)

        return show

    def _render(
        self, page_request: PageRequest, template: str, variables: Mapping[str, Any], status: int = 200
    ) -> Response:
        flash = _flash_of(page_request.http)
        part = PART in page_request.http.headers
        common = {"flash": flash, "counted_at": page_request.page_cache.counted_at}
        page = self._templates.render(template, page_request, {**variables, **common}, part=part)
        response = HTMLResponse(page, status, headers=_headers(page_request.page_cache.age()))
        if flash is not None and not part:
            response.delete_cookie(_FLASH, path=page_request.root or "/")
        return response

    def error_page(self, page_request: PageRequest, error: Exception) -> Response:
        """An error page."""
        status, title = _status_of(error)
        text = _error_text(error)
        if isinstance(error, NotFound):
            text = f"{page_request.path} does not exist; it may have been deleted or archived."
        is_unavailable = isinstance(error, EngineUnavailable)
        variables = {
            "status": status,
            "title": title,
            "text": text,
            "view": None,
            "unavailable_since": None,
            "is_unavailable": is_unavailable,
        }
        variables["known"] = self._page_cache.last_totals() if is_unavailable else None
        response = self._render(page_request, "layout/error.html", variables, status)
        response.headers.update(refusal_of(error).headers if is_unavailable else {})
        return response

    def not_found(self, request: Request) -> Response:
        """The page of an unknown path."""
        return self.error_page(self._page_request(request), NotFound(request.url.path))

    def bare_page(self, request: Request, template: str, variables: Mapping[str, Any], status: int = 200) -> Response:
        """A page without the frame, for any viewer."""
        page_request = PageRequest(request, self._app, self._page_cache.for_request(), _ANONYMOUS)
        return self._render(page_request, template, variables, status)

    # -- actions

    def _form_handler(self, action: Action) -> Callable[[Request], Any]:
        async def post(request: Request) -> Response:
            form = QueryParams((await request.body()).decode("utf-8", "replace"))
            page_request = self._page_request(request, form)
            try:
                self._refuse_forged(request, form)
            except Refused as refused:
                return await run_in_threadpool(self._refused, page_request, refused)
            return await run_in_threadpool(self._run_action, action, page_request)

        return post

    def _run_action(self, action: Action, page_request: PageRequest) -> Response:
        if not page_request.viewer.may_write:
            return self._action_response(page_request, ActionResult("You have read-only access.", ok=False), 403)
        try:
            question = _question(action, page_request)
            if question is not None:
                return self._confirmation(page_request, question)
            done = action.run(page_request)
        except Exception as error:
            if not isinstance(error, HeadraceError):
                log.exception("the action %s failed", action.name)
            failed = ActionResult(_error_text(error), ok=False, target=page_request.path)
            self._record_action(page_request, action, failed)
            return self._action_response(page_request, failed, _status_of(error)[0])
        self._record_action(page_request, action, done)
        self._page_cache.invalidate()
        return self._action_response(page_request, done, 200 if done.ok else 409)

    def _record_action(self, page_request: PageRequest, action: Action, done: ActionResult) -> None:
        try:
            self._record(page_request, action, done)
        except HeadraceError as error:  # the change is done; answer in any case
            log.warning("%s by %s could not be recorded: %s", action.name, page_request.viewer.name, error)

    def _refused(self, page_request: PageRequest, refused: Refused) -> Response:
        if _wants_json(page_request.http):
            return JSONResponse({"ok": False, "text": str(refused), "goto": None}, refused.status)
        return self.error_page(page_request, refused)

    def _confirmation(self, page_request: PageRequest, question: Confirmation) -> Response:
        if _wants_json(page_request.http):
            answer = {"ask": question.text, "detail": question.detail, "label": question.label}
            return JSONResponse({**answer, "confirmed": question.value})
        fields = [(name, value) for name, value in page_request.form.multi_items() if name != "confirmed"]
        back = local_url(page_request.form_field("back")) or page_request.url("/")
        variables = {"question": question, "fields": fields, "back": back, "view": None, "unavailable_since": None}
        return self._render(page_request, "layout/confirm.html", variables)

    def _action_response(self, page_request: PageRequest, done: ActionResult, status: int) -> Response:
        if _wants_json(page_request.http):
            return JSONResponse({"ok": done.ok, "text": done.text, "goto": done.goto}, status)
        back = done.goto or local_url(page_request.form_field("back")) or page_request.url("/")
        response = RedirectResponse(back, 303)
        cookie = quote(json.dumps([done.ok, done.text[:1000]]))
        secure = page_request.http.url.scheme == "https"
        response.set_cookie(
            _FLASH, cookie, max_age=30, path=page_request.root or "/", httponly=True, samesite="strict", secure=secure
        )
        return response

    # -- requests of scripts

    def _palette(self, request: Request) -> Response:
        page_request = self._page_request(request)
        try:
            found = command_palette.find(page_request, self._views, page_request.query("q") or "")
        except HeadraceError as error:
            return problem_response(refusal_of(error), page_request.path)
        return Response(
            msgspec.json.encode(found), media_type="application/json", headers={"Cache-Control": "no-store"}
        )

    async def _static(self, request: Request) -> Response:
        name = request.path_params["file"].partition("/")[2]  # after the version
        if name not in self._files:
            return Response(status_code=404)
        media_type = _MEDIA_TYPES.get(name.rpartition(".")[2], "application/octet-stream")
        cache_headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(self._files[name], media_type=media_type, headers=cache_headers)


def _headers(age: float) -> dict[str, str]:
    return {"Cache-Control": "no-store", "Vary": PART, AGE: str(round(1000 * age))}


def _question(action: Action, page_request: PageRequest) -> Confirmation | None:
    """The question before the action; None if it is confirmed, or needs no confirmation."""
    if action.confirmation is None or page_request.form_field("confirmed"):
        return None
    return action.confirmation(page_request)


def _wants_json(request: Request) -> bool:
    return "application/json" in request.headers.get("accept", "")


def _flash_of(request: Request) -> tuple[bool, str] | None:
    """The result of the last action, for pages without scripts."""
    try:
        ok, text = json.loads(unquote(request.cookies[_FLASH]))
    except (KeyError, ValueError, TypeError, RecursionError):
        return None
    return bool(ok), str(text)


def _error_text(error: Exception) -> str:
    known = isinstance(error, HeadraceError | Refused)
    return str(error) if known else "Internal error; see the log."


def _status_of(error: Exception) -> tuple[int, str]:
    if isinstance(error, NotFound):
        return 404, "Not found"
    if isinstance(error, Refused):
        return error.status, "Refused"
    if isinstance(error, EngineUnavailable):
        return 503, "The store does not answer"
    if isinstance(error, HeadraceError):
        return 400, "Not possible"
    return 500, "Something went wrong"
