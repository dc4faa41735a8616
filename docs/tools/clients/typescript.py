"""Writes the TypeScript client: `head.ts`, an interface for each schema, a class for each resource."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from docs.tools.clients.document import Api, Operation, Parameter, Schema, first_line, reference

_HEAD = Path(__file__).with_name("head.ts")
_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def typescript_client(api: Api) -> str:
    """The text of the client."""
    parts = [_HEAD.read_text("utf-8").rstrip().replace("VERSION_OF_API", api.version)]
    for name, schema in api.schemas.items():
        comment = f"/** {_comment(first_line(schema.get('description', name)))} */\n"
        parts.append(comment + (_record(name, schema) if "properties" in schema else _alias(name, schema)))
    parts += [_interface(operation.query_type, operation.query) for operation in api.operations if operation.query]
    for tag, description in api.resources.items():
        own = [operation for operation in api.operations if operation.tag == tag]
        lines = [f"/** {_comment(description)} */", f"export class {_api(tag)} extends Resource {{"]
        parts.append("\n".join([*lines, "\n\n".join(map(_method, own)), "}"]))
    parts.append("\n".join(_client(api)))
    return "\n\n".join(parts) + "\n"


def type_of(schema: Schema) -> str:
    """The type of a schema."""
    if "$ref" in schema:
        return reference(schema)
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(map(type_of, schema["anyOf"])))
    kind = schema.get("type")
    if kind == "array":
        return f"Array<{type_of(schema['items']) if schema.get('items') else 'Json'}>"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"Record<string, {type_of(values) if isinstance(values, dict) else 'Json'}>"
    return _PLAIN.get(str(kind), "Json")


def _comment(text: str) -> str:
    return text.replace("*/", "* /")


def _alias(name: str, schema: Schema) -> str:
    return f"export type {name} = {type_of(schema)};"


def _record(name: str, schema: Schema) -> str:
    required = set(schema.get("required", ()))
    return _interface(name, [Parameter(field, kind, field in required) for field, kind in schema["properties"].items()])


def _interface(name: str, fields: list[Parameter]) -> str:
    lines = [f"  {field.name}{'' if field.required else '?'}: {type_of(field.schema)};" for field in fields]
    return "\n".join([f"export interface {name} {{", *lines, "}"])


def _api(tag: str) -> str:
    return f"{tag.capitalize()}Api"


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _method(operation: Operation) -> str:
    arguments = [f"{_camel(name)}: string" for name in operation.path_params]
    given = []
    if operation.query:
        optional = " = {}" if not any(field.required for field in operation.query) else ""
        arguments.append(f"query: {operation.query_type}{optional}")
        given.append("query")
    if operation.body is not None:
        arguments.append(f"body: {operation.body}{'' if operation.needs_body else ' = {}'}")
        given.append("body")
    path = operation.path
    for name in operation.path_params:
        path = path.replace(f"{{{name}}}", f"${{quoted({_camel(name)})}}")
    text = f"`{path}`" if operation.path_params else f'"{path}"'
    options = f", {{ {', '.join(given)} }}" if given else ""
    kind = "void" if operation.response is None else type_of(operation.response)
    lines = [f"  /** {_comment(operation.summary)} */"]
    if operation.streams:
        lines.append(f"  {_camel(operation.name)}({', '.join(arguments)}): AsyncGenerator<{kind}> {{")
        lines.append(f"    return this.listen<{kind}>({text}{options});")
    else:
        lines.append(f"  {_camel(operation.name)}({', '.join(arguments)}): Promise<{kind}> {{")
        lines.append(f'    return this.send<{kind}>("{operation.method}", {text}{options});')
    return "\n".join([*lines, "  }"])


def _client(api: Api) -> Iterator[str]:
    yield "/** A client of one headrace server; each property is a resource of its REST API. */"
    yield "export class HeadraceClient {"
    for tag in api.resources:
        yield f"  readonly {tag}: {_api(tag)};"
    yield ""
    yield '  constructor(url: string = "http://127.0.0.1:8080", options: ClientOptions = {}) {'
    yield "    const connection = new Connection(url, options);"
    for tag in api.resources:
        yield f"    this.{tag} = new {_api(tag)}(connection);"
    yield "  }"
    yield "}"
