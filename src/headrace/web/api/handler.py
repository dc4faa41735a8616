"""Serves an endpoint: checks the role, parses the request, calls the function, encodes the response."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import inspect
import logging
import re
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_args, get_origin
from urllib.parse import quote

import msgspec
from msgspec import Struct
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.errors import HeadraceError
from headrace.web.api.route_table import Endpoint
from headrace.web.problems import Refused, problem_response, refusal_of
from headrace.web.security.middleware import SAFE, RequestContext, context_of, refuse_forgery
from headrace.web.sse import wait_for_disconnect

log = logging.getLogger("headrace.web")
_encode = msgspec.json.Encoder(enc_hook=repr).encode
# Arguments of jobs, and addresses and secrets of channels and webhooks: an address may contain a password.
_PRIVATE = frozenset({"args", "kwargs", "metadata", "jobs", "url", "secret", "user", "password"})
_HIDDEN = "…"
_waiting_pool = ThreadPoolExecutor(max_workers=500, thread_name_prefix="headrace-web-waiting")
_NAME = re.compile(r"{(\w+)}")


class EndpointRoute(Route):
    """A route of one endpoint. A 405 response lists all methods of the path."""

    siblings: Sequence[EndpointRoute] = ()  # longest paths first

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, child = super().matches(scope)
        if match is not Match.NONE and self._belongs_to_longer_path(scope, child):
            return Match.NONE, {}
        return match, child

    def _belongs_to_longer_path(self, scope: Scope, child: Scope) -> bool:
        """Whether a name with slashes is part of a longer path; a client writes slashes in a name as %2F."""
        if not any("/" in str(name) for name in child["path_params"].values()):
            return False
        if b"%2f" in (scope.get("raw_path") or b"").lower():
            return False
        longer_routes = self.siblings[: self.siblings.index(self)]
        return any(
            Route.matches(route, scope)[0] is not Match.NONE for route in longer_routes if route.path != self.path
        )

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in (self.methods or ()):
            matching = [route for route in self.siblings if route.matches(scope)[0] is not Match.NONE]
            allowed = sorted({method for route in matching for method in route.methods or ()})
            raise HTTPException(405, headers={"Allow": ", ".join(allowed)})
        await super().handle(scope, receive, send)


def route_of(endpoint: Endpoint) -> EndpointRoute:
    # Ids of jobs and names of tasks may have slashes in them.
    path = _NAME.sub(r"{\1:path}", endpoint.path)
    return EndpointRoute(path, _handler(endpoint), methods=[endpoint.method], name=endpoint.name)


def _handler(endpoint: Endpoint) -> Callable[[Request], Awaitable[ASGIApp]]:
    call = _ApiCall(endpoint)

    async def handle(request: Request) -> ASGIApp:
        try:
            return await call(request)
        except Exception as error:  # every error becomes a problem document, also an unexpected one
            return problem_response(refusal_of(error), request.url.path)

    return handle


class _ApiCall:
    """Reads the signature of the endpoint once."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._body = None if endpoint.body is None else msgspec.json.Decoder(endpoint.body)
        self._query = endpoint.query
        self._lists = _list_fields(endpoint.query)

    async def __call__(self, request: Request) -> ASGIApp:
        endpoint, context = self._endpoint, context_of(request.scope)
        context.require(endpoint.role)
        if request.method not in SAFE:
            refuse_forgery(request.scope)
        given: dict[str, Any] = dict(request.path_params)
        if self._query is not None:
            given["query"] = self._read_query(request)
        if endpoint.streams is not None and (last := request.headers.get("last-event-id")):
            given["query"] = msgspec.structs.replace(given["query"], since=last)
        if self._body is not None:
            given["body"] = self._read_body(await request.body())
        # Jobs of remote workers have their own history.
        is_recorded = endpoint.writes and context.caller.role != "worker"
        function: Callable[..., Any] = self._call_recorded if is_recorded else endpoint.handle
        if endpoint.waits:
            result = await _await(request, functools.partial(function, **given), context)
        else:
            result = await run_in_threadpool(function, context, **given)
        return self._response(request, result)

    def _call_recorded(self, context: RequestContext, **given: Any) -> Any:
        """Call a function that writes, and record the caller and the outcome in the audit trail."""
        outcome = "failed"
        try:
            result = self._endpoint.handle(context, **given)
            outcome = "done"
            return result
        except Exception as error:
            outcome = refusal_of(error).kind
            raise
        finally:
            self._record(context, given, outcome)

    def _record(self, context: RequestContext, given: dict[str, Any], outcome: str) -> None:
        endpoint = self._endpoint
        target = " ".join(str(given[name]) for name in endpoint.path_params)
        detail = {} if "body" not in given else _audit_fields(given["body"])
        try:
            context.app.audit.record(context.caller.name, endpoint.name, target, outcome, detail)
        except HeadraceError as error:  # the change is done; answer in any case
            log.warning("%s by %s could not be recorded: %s", endpoint.name, context.caller.name, error)

    def _read_query(self, request: Request) -> Struct:
        assert self._query is not None
        given: dict[str, Any] = {}
        for name, value in request.query_params.multi_items():
            if name in self._lists:
                given.setdefault(name, []).extend(part for part in value.split(",") if part)
            elif name in given:
                raise Refused(422, "invalid-parameter", f"{name}: may be given only once", field=name)
            else:
                given[name] = value
        names = [field.encode_name for field in msgspec.structs.fields(self._query)]
        if unknown := given.keys() - {*names}:
            detail = f"there is no parameter {min(unknown)!r} here; {_list_names('parameters', names)}"
            raise Refused(422, "invalid-parameter", detail, field=min(unknown))
        try:
            return msgspec.convert(given, self._query, strict=False)
        except msgspec.ValidationError as error:
            raise _invalid("invalid-parameter", error, self._query) from None

    def _read_body(self, raw: bytes) -> Any:
        assert self._body is not None
        try:
            return self._body.decode(raw or b"{}")
        except msgspec.ValidationError as error:
            raise _invalid("invalid-body", error, self._endpoint.body) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Refused(400, "malformed-json", f"the body is not JSON: {error}") from None

    def _response(self, request: Request, result: Any) -> ASGIApp:
        endpoint = self._endpoint
        if endpoint.streams is not None:
            stream: ASGIApp = result
            return stream
        if endpoint.response_type is None:
            return Response(status_code=204)
        raw = _encode(result)
        headers = {}
        if endpoint.status == 201 and (created_id := getattr(result, "id", None)):
            headers["location"] = (
                f"{request.scope.get('root_path', '')}/{endpoint.location_path}/{quote(created_id, safe='')}"
            )
        if endpoint.method == "GET":
            etag = f'"{hashlib.blake2b(raw, digest_size=12).hexdigest()}"'
            headers["etag"], headers["cache-control"] = etag, "private, no-cache"
            if etag in request.headers.get("if-none-match", ""):
                return Response(status_code=304, headers=headers)
        return Response(raw, endpoint.status, headers, "application/json")


async def _await(request: Request, function: Callable[[RequestContext], Any], context: RequestContext) -> Any:
    """Call a function that may block for long, and signal it when the client disconnects."""
    disconnected = threading.Event()
    watcher = asyncio.create_task(_watch_disconnect(request.receive, disconnected))
    try:
        waiting = functools.partial(function, msgspec.structs.replace(context, is_disconnected=disconnected.is_set))
        return await asyncio.get_running_loop().run_in_executor(_waiting_pool, waiting)
    finally:
        disconnected.set()  # some servers cancel the request instead of sending a disconnect
        watcher.cancel()


async def _watch_disconnect(receive: Receive, disconnected: threading.Event) -> None:
    with contextlib.suppress(Refused):  # an unexpected body
        await wait_for_disconnect(receive)
        disconnected.set()


def _audit_fields(body: Struct) -> dict[str, Any]:
    """The fields of a body for the audit trail: only given and non-private ones."""
    fields = msgspec.to_builtins(body)
    given: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
    return {name: _HIDDEN if name in _PRIVATE else value for name, value in given.items()}


def _list_fields(query: type[Struct] | None) -> frozenset[str]:
    """The parameters that may be repeated or given as a,b,c."""
    if query is None:
        return frozenset()
    return frozenset(field.encode_name for field in msgspec.structs.fields(query) if _is_list(field.type))


def _is_list(kind: Any) -> bool:
    return get_origin(kind) in (tuple, list) or any(map(_is_list, get_args(kind)))


def _invalid(kind: str, error: msgspec.ValidationError, model: Any) -> Refused:
    """The error text with its place; for an unknown field, also the known ones."""
    text, _, place = str(error).partition(" - at `$")
    place = place.rstrip("`").lstrip(".")
    field = place
    if unknown := _UNKNOWN.search(text):
        field = ".".join(filter(None, (place, unknown.group(1))))
        text += "; " + _list_names("fields", _names_at(model, place))
    elif missing := _REQUIRED.search(text):
        field = ".".join(filter(None, (place, missing.group(1))))
    return Refused(422, kind, f"{place}: {text}" if place else text, field=field or None)


_UNKNOWN = re.compile(r"contains unknown field `([^`]*)`")
_REQUIRED = re.compile(r"missing required field `([^`]*)`")


def _names_at(model: Any, place: str) -> list[str]:
    """The fields allowed at this place of a body, such as `jobs[0].retry`."""
    for name in filter(None, re.split(r"\.|\[[^]]*\]", place)):
        fields = {field.encode_name: field.type for kind in _structs(model) for field in msgspec.structs.fields(kind)}
        model = fields.get(name)
    return [name for kind in _structs(model) for name in _own_first(kind)]


def _own_first(kind: type[Struct]) -> list[str]:
    """The fields of a Struct, and behind them those that it shares with others."""
    own = inspect.get_annotations(kind)
    fields = sorted(msgspec.structs.fields(kind), key=lambda field: field.name not in own)
    return [field.encode_name for field in fields]


def _structs(kind: Any) -> list[type[Struct]]:
    """The Structs in a type."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        return [kind]
    return [struct for part in get_args(kind) for struct in _structs(part)]


def _list_names(what: str, names: list[str]) -> str:
    return f"{what} are {', '.join(names)}" if names else f"it takes no {what}"
