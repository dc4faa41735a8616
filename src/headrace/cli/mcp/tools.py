"""The table of tools. A row is one decorated function, from which its name, description, schema and checks follow.

    @tools.reads
    def why(context: ToolContext, given: JobId) -> Any:
        "Explain why a job is not running."

`given` is a Struct whose fields are the arguments. A function that acts is refused unless actions are allowed, and is
recorded in the audit trail.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, get_type_hints

import msgspec
from msgspec import Struct

from headrace.app.app import Headrace
from headrace.errors import HeadraceError, InvalidJob

log = logging.getLogger("headrace.mcp")
F = TypeVar("F", bound=Callable[..., Any])
WHO = "mcp"  # in the audit trail, and as the operator of dead letters


class ToolContext(Struct, frozen=True):
    """The app that a tool reads or changes, and the client's name."""

    app: Headrace
    client: str = ""


class Tool(Struct, frozen=True, kw_only=True):
    """One row. A tool with an `action` changes the store; the action is its name in the audit trail."""

    function: Callable[..., Any]
    action: str | None = None
    destroys: bool = False

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def arguments(self) -> type[Struct]:
        kind: type[Struct] = get_type_hints(self.function)["given"]
        return kind

    def listed(self) -> dict[str, Any]:
        """Its entry in `tools/list`."""
        return {
            "name": self.name,
            "description": " ".join((inspect.getdoc(self.function) or "").split()),
            "inputSchema": _schema(self.arguments),
            "annotations": {
                "readOnlyHint": self.action is None,
                "destructiveHint": self.destroys,
                "openWorldHint": False,
            },
        }

    def call(self, context: ToolContext, arguments: Any) -> Any:
        """Check the arguments and run the function; a wrong argument raises InvalidJob."""
        try:
            given = msgspec.convert({} if arguments is None else arguments, self.arguments)
        except msgspec.ValidationError as error:
            known = ", ".join(field.encode_name for field in msgspec.structs.fields(self.arguments)) or "none"
            raise InvalidJob(f"{self.name}: {error}; its arguments are: {known}") from None
        return self.function(context, given) if self.action is None else self._act(context, given)

    def _act(self, context: ToolContext, given: Struct) -> Any:
        outcome = "failed"
        try:
            result = self.function(context, given)
            outcome = "done"
            return result
        except HeadraceError as error:
            outcome = type(error).__name__
            raise
        finally:
            self._record(context, given, outcome)

    def _record(self, context: ToolContext, given: Struct, outcome: str) -> None:
        required = [field.name for field in msgspec.structs.fields(given) if field.required]
        target = " ".join(str(getattr(given, name)) for name in required)
        detail = {name: value for name, value in msgspec.to_builtins(given).items() if value is not None}
        try:
            context.app.audit.record(WHO, str(self.action), target, outcome, detail | {"client": context.client})
        except HeadraceError as error:  # the change is done; answer in any case
            log.warning("%s could not be recorded: %s", self.action, error)


class ToolTable:
    """The tools by name, in the order of their definition."""

    def __init__(self) -> None:
        self._rows: dict[str, Tool] = {}

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._rows.values())

    def get(self, name: str) -> Tool | None:
        return self._rows.get(name)

    def reads(self, function: F) -> F:
        """Add a tool that changes nothing."""
        return self._add(Tool(function=function), function)

    def acts(self, action: str, *, destroys: bool = False) -> Callable[[F], F]:
        """Add a tool that changes the store."""
        return lambda function: self._add(Tool(function=function, action=action, destroys=destroys), function)

    def _add(self, tool: Tool, function: F) -> F:
        self._rows[tool.name] = tool
        return function


def _schema(kind: type[Struct]) -> dict[str, Any]:
    """The JSON schema of the arguments, as one object with its definitions."""
    (reference,), components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    schema = dict(components.pop(reference["$ref"].rpartition("/")[2]))
    schema.pop("title", None)
    schema["properties"] = {name: _without_null(one) for name, one in schema["properties"].items()}
    return {**schema, "$defs": components} if components else schema


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an optional argument without its null, which makes the list of tools twice as long."""
    options = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    return options[0] if len(options) == 1 else schema
