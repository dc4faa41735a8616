"""The table of endpoints. A row is one decorated function, from which everything else follows: routing, the role check,
parameters and body, the response, the audit trail and the OpenAPI document.

    @table.post("/queues/{queue}/pause")
    def pause(context: RequestContext, queue: str) -> QueueStats:
        "Pause a queue."

Names in the path are parameters of the function. `query` is a Struct whose fields are the query's parameters, `body`
one that the JSON body must match; a body that is made of a record is given to the decorator. The first line of the
docstring is the summary. Functions are plain and blocking; they are called in a thread.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from types import NoneType
from typing import Any, TypeVar, get_type_hints

from msgspec import Struct

from headrace.core.access import Role

F = TypeVar("F", bound=Callable[..., Any])
_NAMES = re.compile(r"{(\w+)}")


class Endpoint(Struct, frozen=True, kw_only=True):
    """One row. An endpoint that `writes` is recorded in the audit trail. An endpoint with `streams` returns server-sent
    events with data of this type. An endpoint that `waits` may block for long and runs in a separate thread pool."""

    method: str
    path: str
    role: Role
    tag: str
    handle: Callable[..., Any]
    status: int = 200
    example: Any = None
    writes: bool = False
    streams: Any = None
    waits: bool = False
    made_body: type[Struct] | None = None

    @property
    def name(self) -> str:
        """Its name in the audit trail, and its `operationId`."""
        return f"{self.tag}.{self.handle.__name__}"

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.handle) or "").partition("\n\n")[0].replace("\n", " ")

    @property
    def description(self) -> str:
        return (inspect.getdoc(self.handle) or "").partition("\n\n")[2]

    @property
    def location_path(self) -> str:
        """The path of the created resource: running a schedule creates a job."""
        return "jobs" if self.path.endswith("/run-now") else self.path.strip("/").partition("/")[0]

    @property
    def path_params(self) -> dict[str, Any]:
        """The names in its path with their types."""
        hints = get_type_hints(self.handle, include_extras=True)
        return {name: hints[name] for name in _NAMES.findall(self.path)}

    @property
    def query(self) -> type[Struct] | None:
        return get_type_hints(self.handle).get("query")

    @property
    def body(self) -> Any:
        return self.made_body or get_type_hints(self.handle).get("body")

    @property
    def response_type(self) -> Any:
        """The type of its response, None if it has no body."""
        response_type = self.streams or get_type_hints(self.handle)["return"]
        return None if response_type is NoneType else response_type


class Table:
    """The endpoints of one resource."""

    def __init__(self, tag: str, description: str) -> None:
        self.tag = tag
        self.description = description
        self._rows: list[Endpoint] = []

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._rows)

    def get(self, path: str, *, role: Role = "viewer", streams: Any = None) -> Callable[[F], F]:
        return self._row("GET", path, role, streams=streams)

    def post(
        self,
        path: str,
        *,
        role: Role = "admin",
        status: int = 200,
        example: Any = None,
        writes: bool = True,
        waits: bool = False,
        body: type[Struct] | None = None,
    ) -> Callable[[F], F]:
        return self._row("POST", path, role, status=status, example=example, writes=writes, waits=waits, made_body=body)

    def put(self, path: str, *, example: Any = None) -> Callable[[F], F]:
        return self._row("PUT", path, "admin", example=example, writes=True)

    def patch(self, path: str, *, example: Any = None, body: type[Struct] | None = None) -> Callable[[F], F]:
        return self._row("PATCH", path, "admin", example=example, writes=True, made_body=body)

    def delete(self, path: str, *, status: int = 204) -> Callable[[F], F]:
        return self._row("DELETE", path, "admin", status=status, writes=True)

    def _row(self, method: str, path: str, role: Role, **options: Any) -> Callable[[F], F]:
        def add(handle: F) -> F:
            self._rows.append(Endpoint(method=method, path=path, role=role, tag=self.tag, handle=handle, **options))
            return handle

        return add
