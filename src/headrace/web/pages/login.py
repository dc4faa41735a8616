"""Mounts the dashboard: login page, role check, audit trail of actions."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from headrace.app.app import Headrace
from headrace.web.pages.request import PageRequest, Viewer, local_url
from headrace.web.pages.router import PageRouter
from headrace.web.pages.view import Action, ActionResult
from headrace.web.pages.views import ACTIONS, VIEWS
from headrace.web.problems import Refused, problem_response
from headrace.web.security import sessions
from headrace.web.security.middleware import FORM_FIELD, context_of, refuse_forgery

_TITLES = {401: "Please log in", 403: "Not allowed", 429: "Too many requests", 500: "Something went wrong"}
_ADVICE = {
    "closed": "Give the dashboard users with `web_auth`, or mount it behind your own login: `app.asgi(auth=function)`."
}


def dashboard(app: Headrace, label: str | None = None) -> PageRouter:
    """The dashboard of an app."""
    return PageRouter(app, VIEWS, ACTIONS, viewer_of, refuse_forged, record, label)


def routes(router: PageRouter, *, has_login: bool) -> list[BaseRoute]:
    """All routes of the dashboard; the last one matches every path."""
    pages = LoginPages(router)
    login = [
        Route("/login", pages.show, methods=["GET"]),
        Route("/login", pages.login, methods=["POST"]),
        Route("/logout", pages.logout, methods=["POST"]),
    ]
    return [
        *(login if has_login else [Route("/login", _home, methods=["GET"])]),
        Route("/dashboard", _home, methods=["GET"]),
        *router.routes(),
        Route("/{path:path}", router.not_found, methods=["GET"]),
    ]


def viewer_of(request: Request) -> Viewer:
    """The viewer of a page. The role worker is refused, because its token is on many machines."""
    context = context_of(request.scope)
    context.require("viewer")
    return Viewer(
        name=context.caller.name,
        may_write=context.is_allowed("admin"),
        token=context.form_token,
        has_session=context.caller.method == "session" and context.caller.name != "anonymous",
    )


def refuse_forged(request: Request, form: QueryParams) -> None:
    refuse_forgery(request.scope, form.get(FORM_FIELD))


def record(request: PageRequest, action: Action, done: ActionResult) -> None:
    """Record an action in the audit trail."""
    outcome = "done" if done.ok else "refused"
    request.app.audit.record(request.viewer.name, action.name, done.target, outcome, {"message": done.text})


async def _home(request: Request) -> Response:
    """Redirect to the dashboard."""
    return RedirectResponse(f"{request.scope.get('root_path', '')}/", 303)


class LoginPages:
    """Login and logout."""

    def __init__(self, router: PageRouter) -> None:
        self._router = router

    def show(self, request: Request) -> Response:
        return self._router.bare_page(
            request, "layout/login.html", {"wrong": None, "name": "", "next": _next(request.query_params)}
        )

    async def login(self, request: Request) -> Response:
        form = QueryParams((await request.body()).decode("utf-8", "replace"))
        name = form.get("name", "")
        try:
            caller = await run_in_threadpool(sessions.sign_in, request, name, form.get("password", ""))
        except Refused as refused:
            shown = {"wrong": str(refused), "name": name, "next": _next(form)}
            return await run_in_threadpool(self._router.bare_page, request, "layout/login.html", shown, refused.status)
        root = str(request.scope.get("root_path", ""))
        response = RedirectResponse(_next(form) or f"{root}/", 303)
        sessions.set_cookie(response, request, caller)
        return response

    async def logout(self, request: Request) -> Response:
        try:
            refuse_forged(request, QueryParams((await request.body()).decode("utf-8", "replace")))
        except Refused as refused:
            return problem_response(refused)
        response = RedirectResponse(f"{request.scope.get('root_path', '')}/login", 303)
        sessions.delete_cookie(response, request)
        return response

    def refusal(self, request: Request, refused: Refused) -> Response:
        """A page for a browser whose request was refused."""
        advice = _ADVICE.get(refused.kind, "")
        variables = {"title": _TITLES.get(refused.status, "Refused"), "text": _sentence(str(refused)), "advice": advice}
        response = self._router.bare_page(request, "layout/refused.html", variables, refused.status)
        response.headers.update(refused.headers)
        return response


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".")


def _next(given: QueryParams) -> str:
    return local_url(given.get("next")) or ""
