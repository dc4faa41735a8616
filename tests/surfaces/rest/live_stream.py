"""A client of the event stream over HTTP."""

from __future__ import annotations

import json
from http.client import HTTPConnection, HTTPResponse
from typing import Any

from tests.support.waiting import PATIENCE


class Listening:
    """A client of server-sent events."""

    def __init__(self, port: int, path: str = "/api/v1/events", **headers: str) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self._connection.request("GET", path, headers=headers)
        self.response: HTTPResponse = self._connection.getresponse()

    def frame(self) -> dict[str, str]:
        """The next frame that is not a comment; {} at the end of the stream."""
        fields: dict[str, str] = {}
        while line := self.response.readline():
            text = line.decode().rstrip("\n")
            if not text and "data" in fields:
                return fields
            name, _, value = text.partition(": ")
            fields[name] = value
        return {}

    def event(self) -> Any:
        """The data of the next frame."""
        return json.loads(self.frame()["data"])

    def close(self) -> None:
        self.response.close()
        self._connection.close()

    def __enter__(self) -> Listening:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
