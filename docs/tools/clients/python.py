"""Writes the Python client: `head.py`, a TypedDict for each schema, a class for each resource."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from docs.tools.clients.document import Api, Operation, Parameter, Schema, first_line, reference

_HEAD = Path(__file__).with_name("head.py")
_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def python_client(api: Api) -> str:
    """The text of the client."""
    parts = [_HEAD.read_text("utf-8").rstrip().replace("VERSION_OF_API", api.version)]
    parts += [f"{name} = {type_of(schema)}" for name, schema in api.schemas.items() if "properties" not in schema]
    parts += [_record(name, schema) for name, schema in api.schemas.items() if "properties" in schema]
    parts += [_query(operation) for operation in api.operations if operation.query]
    for tag, description in api.resources.items():
        own = [operation for operation in api.operations if operation.tag == tag]
        parts.append("\n\n".join([f'class {_api(tag)}(_Resource):\n    """{description}"""', *map(_method, own)]))
    parts.append("\n".join(_client(api)))
    return "\n\n\n".join(parts) + "\n"


def type_of(schema: Schema) -> str:
    """The type annotation of a schema."""
    if "$ref" in schema:
        return reference(schema)
    if "enum" in schema:
        return f"Literal[{', '.join(map(_quoted, schema['enum']))}]"
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(map(type_of, schema["anyOf"])))
    kind = schema.get("type")
    if kind == "array":
        return f"list[{type_of(schema['items']) if schema.get('items') else 'Any'}]"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"dict[str, {type_of(values) if isinstance(values, dict) else 'Any'}]"
    return _PLAIN.get(str(kind), "Any")


def _quoted(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _record(name: str, schema: Schema) -> str:
    required = set(schema.get("required", ()))
    fields = [Parameter(field, kind, field in required) for field, kind in schema["properties"].items()]
    return _typed_dict(name, first_line(schema.get("description", name)), fields)


def _query(operation: Operation) -> str:
    return _typed_dict(operation.query_type, f"Parameters of `{operation.tag}.{operation.name}`.", operation.query)


def _typed_dict(name: str, description: str, fields: list[Parameter]) -> str:
    lines = [f"class {name}(TypedDict):", f'    """{description}"""', ""]
    for field in fields:
        kind = type_of(field.schema)
        lines.append(f"    {field.name}: {kind if field.required else f'NotRequired[{kind}]'}")
    return "\n".join(lines).rstrip()


def _api(tag: str) -> str:
    return f"{tag.capitalize()}Api"


def _method(operation: Operation) -> str:
    arguments = ["self", *(f"{name}: str" for name in operation.path_params)]
    given = []
    if operation.path_params:
        arguments.append("/")
    if operation.query:
        arguments.append(f"**query: Unpack[{operation.query_type}]")
        given.append("query=query")
    if operation.body is not None:
        arguments.append(f"**body: Unpack[{operation.body}]")
        given.append("body=body")
    kind = "None" if operation.response is None else type_of(operation.response)
    path = operation.path
    for name in operation.path_params:
        path = path.replace(f"{{{name}}}", f"{{_quoted({name})}}")
    text = f'f"{path}"' if operation.path_params else f'"{path}"'
    call = ", ".join([f'"{operation.method}"', text, *given])
    body = f'return cast("{kind}", self._send({call}))' if operation.response is not None else f"self._send({call})"
    if operation.streams:
        call = ", ".join([text, *given])
        kind, body = f"Iterator[{kind}]", f"return self._stream({call})"
    lines = [f"    def {operation.name}({', '.join(arguments)}) -> {kind}:", f'        """{operation.summary}"""']
    return "\n".join([*lines, f"        {body}"])


def _client(api: Api) -> Iterator[str]:
    yield "class HeadraceClient:"
    yield '    """A client of one headrace server; each attribute is a resource of its REST API."""'
    yield ""
    yield "    def __init__("
    yield '        self, url: str = "http://127.0.0.1:8080", *, token: str | None = None, timeout: float = 30.0'
    yield "    ) -> None:"
    yield '        """`url` is where `headrace web` serves or an app mounts it; `timeout` is in seconds."""'
    yield "        connection = _Connection(url, token, timeout)"
    for tag in api.resources:
        yield f"        self.{tag} = {_api(tag)}(connection)"
