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
from headrace.web.pages.request import PageRequest, Viewer, ours
from headrace.web.pages.templating import STATIC, Templates, compile_all
from headrace.web.pages.view import Action, ActionResult, Confirmation, View
from headrace.web.problems import Refused, problem_response, refusal_of

log = logging.getLogger("headrace.web")

PART = "X-Headrace-Part"  # a script requests a page without the frame
AGE = "X-Headrace-Age"  # the age of its counts in milliseconds
_FLASH = "headrace_flash"
_KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_ANYBODY = Viewer(name="", may_write=False, token="")


class PageRouter:
    """The pages of one app."""

    def __init__(
        self,
        app: Headrace,
        views: Sequence[View],
        actions: Sequence[Action],
        visitor_of: Callable[[Request], Viewer],
        refuse_forged: Callable[[Request, QueryParams], None],
        record: Callable[[PageRequest, Action, ActionResult], None],
    ) -> None:
        self._app = app
        self._views = views
        self._actions = actions
        self._visitor_of = visitor_of
        self._refuse_forged = refuse_forged
        self._record = record
        self._templates = Templates(views)
        self._page_cache = PageCache(app)
        self._files = {path.name: path.read_bytes() for path in STATIC.iterdir()}

    def routes(self) -> list[BaseRoute]:
        """All routes of the dashboard."""
        pages = [Route(view.path, self._page(view), methods=["GET"], name=view.template) for view in self._views]
        forms = [Route(action.path, self._form(action), methods=["POST"]) for action in self._actions]
        # Every path below: static files need no login, so an unknown one must not redirect to a page.
        files = Route("/static/{file:path}", self._static, methods=["GET"])
        return [files, Route("/palette", self._palette, methods=["GET"]), *forms, *pages]

    def warm_up(self) -> None:
        """Warm up: start counting the store and compile the templates."""
        self._page_cache.begin()
        compile_all()

    def _visit(self, request: Request, form: QueryParams | None = None) -> PageRequest:
        return PageRequest(request, self._app, self._page_cache.of_visit(), self._visitor_of(request), form)

    # -- pages

    def _page(self, view: View) -> Callable[[Request], Response]:
        def show(
            request: Request,
        ) -> Response:  # not a coroutine: Starlette calls it in a thread, because the store blocks
            began = time.perf_counter()
            response = page_of(request)
            response.headers["Server-Timing"] = f"page;dur={1000 * (time.perf_counter() - began):.1f}"
            return response

        def page_of(request: Request) -> Response:
            visit = self._visit(request)
            try:
                shown = {**view.show(visit), "view": view, "away_since": self._page_cache.away_since()}
                return self._rendered(visit, view.template, shown)
            except HeadraceError as error:
                return self.trouble(visit, error)
            except Exception as error:
                log.exception("the page %s failed", visit.path)
                return self.trouble(visit, error)

        return show

    def _rendered(self, visit: PageRequest, template: str, shown: Mapping[str, Any], status: int = 200) -> Response:
        flash = _flash_of(visit.request)
        part = PART in visit.request.headers
        told = {"flash": flash, "counted_at": visit.page_cache.counted_at}
        page = self._templates.render(template, visit, {**shown, **told}, part=part)
        response = HTMLResponse(page, status, headers=_headers(visit.page_cache.age()))
        if flash is not None and not part:
            response.delete_cookie(_FLASH, path=visit.root or "/")
        return response

    def trouble(self, visit: PageRequest, error: Exception) -> Response:
        """An error page."""
        status, title = _status_of(error)
        text = _told(error)
        if isinstance(error, NotFound):
            text = f"{visit.path} does not exist; it may have been deleted or archived."
        is_away = isinstance(error, EngineUnavailable)
        shown = {"status": status, "title": title, "text": text, "view": None, "away_since": None, "is_away": is_away}
        shown["known"] = self._page_cache.last_totals() if is_away else None
        response = self._rendered(visit, "trouble.html", shown, status)
        response.headers.update(refusal_of(error).headers if is_away else {})
        return response

    def nowhere(self, request: Request) -> Response:
        """The page of an unknown path."""
        return self.trouble(self._visit(request), NotFound(request.url.path))

    def bare(self, request: Request, template: str, shown: Mapping[str, Any], status: int = 200) -> Response:
        """A page without the frame, for any visitor."""
        visit = PageRequest(request, self._app, self._page_cache.of_visit(), _ANYBODY)
        return self._rendered(visit, template, shown, status)

    # -- actions

    def _form(self, action: Action) -> Callable[[Request], Any]:
        async def post(request: Request) -> Response:
            form = QueryParams((await request.body()).decode("utf-8", "replace"))
            visit = self._visit(request, form)
            try:
                self._refuse_forged(request, form)
            except Refused as refused:
                return await run_in_threadpool(self._refusing, visit, refused)
            return await run_in_threadpool(self._act, action, visit)

        return post

    def _act(self, action: Action, visit: PageRequest) -> Response:
        if not visit.visitor.may_write:
            return self._answer(visit, ActionResult("You have read-only access.", ok=False), 403)
        try:
            if action.ask is not None and not visit.said("confirmed") and (question := action.ask(visit)) is not None:
                return self._asking(visit, question)
            done = action.do(visit)
        except Exception as error:
            if not isinstance(error, HeadraceError):
                log.exception("the action %s failed", action.what)
            failed = ActionResult(_told(error), ok=False, target=visit.path)
            self._write_down(visit, action, failed)
            return self._answer(visit, failed, _status_of(error)[0])
        self._write_down(visit, action, done)
        self._page_cache.forget()
        return self._answer(visit, done, 200 if done.ok else 409)

    def _write_down(self, visit: PageRequest, action: Action, done: ActionResult) -> None:
        try:
            self._record(visit, action, done)
        except HeadraceError as error:  # the change is done; answer in any case
            log.warning("%s by %s could not be recorded: %s", action.what, visit.visitor.name, error)

    def _refusing(self, visit: PageRequest, refused: Refused) -> Response:
        if _wants_json(visit.request):
            return JSONResponse({"ok": False, "text": str(refused), "goto": None}, refused.status)
        return self.trouble(visit, refused)

    def _asking(self, visit: PageRequest, question: Confirmation) -> Response:
        if _wants_json(visit.request):
            told = {"ask": question.text, "detail": question.detail, "label": question.label}
            return JSONResponse({**told, "confirmed": question.confirmed})
        fields = [(name, value) for name, value in visit.form.multi_items() if name != "confirmed"]
        back = ours(visit.said("back")) or visit.at("/")
        shown = {"question": question, "fields": fields, "back": back, "view": None, "away_since": None}
        return self._rendered(visit, "ask.html", shown)

    def _answer(self, visit: PageRequest, done: ActionResult, status: int) -> Response:
        if _wants_json(visit.request):
            return JSONResponse({"ok": done.ok, "text": done.text, "goto": done.goto}, status)
        back = done.goto or ours(visit.said("back")) or visit.at("/")
        response = RedirectResponse(back, 303)
        told = quote(json.dumps([done.ok, done.text[:1000]]))
        secure = visit.request.url.scheme == "https"
        response.set_cookie(
            _FLASH, told, max_age=30, path=visit.root or "/", httponly=True, samesite="strict", secure=secure
        )
        return response

    # -- requests of scripts

    def _palette(self, request: Request) -> Response:
        visit = self._visit(request)
        try:
            found = command_palette.find(visit, self._views, visit.asked("q") or "")
        except HeadraceError as error:
            return problem_response(refusal_of(error), visit.path)
        return Response(
            msgspec.json.encode(found), media_type="application/json", headers={"Cache-Control": "no-store"}
        )

    async def _static(self, request: Request) -> Response:
        name = request.path_params["file"].partition("/")[2]  # after the version
        if name not in self._files:
            return Response(status_code=404)
        kind = _KINDS.get(name.rpartition(".")[2], "application/octet-stream")
        keep = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(self._files[name], media_type=kind, headers=keep)


def _headers(age: float) -> dict[str, str]:
    return {"Cache-Control": "no-store", "Vary": PART, AGE: str(round(1000 * age))}


def _wants_json(request: Request) -> bool:
    return "application/json" in request.headers.get("accept", "")


def _flash_of(request: Request) -> tuple[bool, str] | None:
    """The result of the last action, for pages without scripts."""
    try:
        ok, text = json.loads(unquote(request.cookies[_FLASH]))
    except (KeyError, ValueError, TypeError, RecursionError):
        return None
    return bool(ok), str(text)


def _told(error: Exception) -> str:
    known = isinstance(error, HeadraceError | Refused)
    return str(error) if known else "Internal error; see the log."


def _status_of(error: Exception) -> tuple[int, str]:
    if isinstance(error, NotFound):
        return 404, "Not here"
    if isinstance(error, Refused):
        return error.status, "Refused"
    if isinstance(error, EngineUnavailable):
        return 503, "The store does not answer"
    if isinstance(error, HeadraceError):
        return 400, "That can’t be done"
    return 500, "Something went wrong"
