"""The operations and schemas of the REST API, read from its OpenAPI document. Knows no language."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from headrace.web.api.openapi import document
from headrace.web.api.router import TABLES

Schema = dict[str, Any]


class Parameter(NamedTuple):
    """A parameter of the query."""

    name: str
    schema: Schema
    required: bool


class Operation(NamedTuple):
    """One method of a client."""

    tag: str
    name: str
    summary: str
    method: str
    path: str
    path_params: list[str]
    query: list[Parameter]
    body: str | None
    needs_body: bool
    response: Schema | None
    streams: bool

    @property
    def query_type(self) -> str:
        """The name of the type of its query."""
        return f"{_joined(self.tag)}{_joined(self.name)}Query"


class Api(NamedTuple):
    """The whole API: the version, the resources with their descriptions, the operations, the schemas by name."""

    version: str
    resources: dict[str, str]
    operations: list[Operation]
    schemas: dict[str, Schema]


def read_api() -> Api:
    """The API of this version of headrace."""
    found = json.loads(document(tuple(TABLES), "/api/v1"))
    operations = [
        _operation(method, path, one) for path, methods in found["paths"].items() for method, one in methods.items()
    ]
    resources = {tag["name"]: tag["description"] for tag in found["tags"]}
    return Api(found["info"]["version"], resources, operations, found["components"]["schemas"])


def _operation(method: str, path: str, one: dict[str, Any]) -> Operation:
    tag, _, name = one["operationId"].partition(".")
    body = one.get("requestBody")
    contents = [answer.get("content") or {} for code, answer in one["responses"].items() if code.startswith("20")]
    media = {kind: content["schema"] for answer in contents for kind, content in answer.items()}
    return Operation(
        tag=tag,
        name=name,
        summary=one["summary"],
        method=method.upper(),
        path=path,
        path_params=[each["name"] for each in one["parameters"] if each["in"] == "path"],
        query=[
            Parameter(each["name"], each["schema"], each["required"])
            for each in one["parameters"]
            if each["in"] == "query"
        ],
        body=None if body is None else reference(body["content"]["application/json"]["schema"]),
        needs_body=body is not None and body["required"],
        response=next(iter(media.values()), None),
        streams="text/event-stream" in media,
    )


def reference(schema: Schema) -> str:
    """The name of the schema that this one refers to."""
    return str(schema["$ref"]).rpartition("/")[2]


def first_line(text: str) -> str:
    """The first paragraph of a description in one line."""
    return " ".join(text.partition("\n\n")[0].split())


def _joined(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
