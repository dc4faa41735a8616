"""The OpenAPI 3.1 document, generated from the table of endpoints."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from headrace import __version__
from headrace.web.api.route_table import Endpoint, Table
from headrace.web.problems import MEDIA_TYPE, Problem

_REF = "#/components/schemas/{name}"
_DESCRIPTION = """Jobs, queues, workers, schedules, flows and dead letters of one headrace store.

Times are RFC 3339, durations are seconds. Lists continue with `cursor`. Errors are RFC 9457 problem JSON.
Secrets in arguments and results are redacted; types that JSON lacks are tagged, as in `{"$date": …}`.
A write needs a bearer token. With basic authentication or a session it needs `Content-Type: application/json` or any
`X-Requested-With`, which a page of another site can't send."""
_SECURITY: list[dict[str, list[str]]] = [{"basic": []}, {"bearer": []}, {}]
_REFUSALS = {
    "400": "The request is malformed.",
    "401": "The credentials are wrong or missing.",
    "403": "The caller's role does not allow this.",
    "404": "The resource does not exist.",
    "409": "The state of the resource does not allow this.",
    "413": "The body or a value in it is too large.",
    "422": "A value is invalid; `detail` names it.",
    "429": "Too many requests, or the queue is full.",
    "501": "This store does not support this.",
    "503": "The store is not available.",
    "504": "The request timed out.",
}


@functools.cache
def document(tables: Sequence[Table], root: str) -> bytes:
    """The document in JSON; `root` is where the API is mounted."""
    return msgspec.json.format(msgspec.json.encode(_document(tables, root)), indent=1)


def _document(tables: Sequence[Table], root: str) -> dict[str, Any]:
    endpoints = [endpoint for table in tables for endpoint in table]
    types = [
        kind
        for endpoint in endpoints
        for kind in (endpoint.query, endpoint.body, endpoint.response_type)
        if kind is not None
    ]
    schemas, components = msgspec.json.schema_components([*types, Problem], ref_template=_REF)
    refs = iter(schemas)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        query = next(refs) if endpoint.query is not None else None
        body = next(refs) if endpoint.body is not None else None
        response = next(refs) if endpoint.response_type is not None else None
        parameters = _parameters(endpoint, query, components)
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, parameters, body, response)
    problem = {MEDIA_TYPE: {"schema": {"$ref": _REF.format(name="Problem")}}}
    queries = {endpoint.query.__name__ for endpoint in endpoints if endpoint.query is not None}
    return {
        "openapi": "3.1.0",
        "info": {"title": "headrace", "version": __version__, "description": _DESCRIPTION},
        "servers": [{"url": root}],
        "security": _SECURITY,
        "tags": [{"name": table.tag, "description": table.description} for table in tables],
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in components.items() if name not in queries},
            "responses": {code: {"description": text, "content": problem} for code, text in _REFUSALS.items()},
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _operation(endpoint: Endpoint, parameters: list[Any], body: Any, response: Any) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "tags": [endpoint.tag],
        "summary": endpoint.summary,
        "description": f"{endpoint.description}\n\nNeeds the role `{endpoint.role}`.".strip(),
        "parameters": parameters,
        "responses": _responses(endpoint, response),
    }
    if body is not None:
        content: dict[str, Any] = {"schema": body}
        if endpoint.example is not None:
            content["example"] = endpoint.example
        operation["requestBody"] = {"required": _is_required(endpoint.body), "content": {"application/json": content}}
    return operation


def _responses(endpoint: Endpoint, response: Any) -> dict[str, Any]:
    responses: dict[str, Any] = {"204": {"description": "Done."}}
    if response is not None:
        media = "text/event-stream" if endpoint.streams is not None else "application/json"
        responses = {str(endpoint.status): {"description": "Done.", "content": {media: {"schema": response}}}}
    if endpoint.method == "GET" and endpoint.streams is None:
        responses["304"] = {"description": "Unchanged since the ETag in If-None-Match."}
    return responses | {code: {"$ref": f"#/components/responses/{code}"} for code in _REFUSALS}


def _parameters(endpoint: Endpoint, query: Any, components: dict[str, Any]) -> list[Any]:
    parameters: list[Any] = [
        {"name": name, "in": "path", "required": True, "schema": msgspec.json.schema(kind) | {"minLength": 1}}
        for name, kind in endpoint.path_params.items()
    ]
    if query is None:
        return parameters
    schema = components[query["$ref"].rpartition("/")[2]]
    for name, kind in schema["properties"].items():
        parameters.append({"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": kind})
    return parameters


def _is_required(body: type[Struct]) -> bool:
    return any(field.required for field in msgspec.structs.fields(body))
