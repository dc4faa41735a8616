"""Errors as RFC 9457 problem documents. Tracebacks are never sent."""

from __future__ import annotations

import http
import logging

import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from headrace import errors

log = logging.getLogger("headrace.web")
MEDIA_TYPE = "application/problem+json"


class Problem(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A problem document. `type` is the stable name of the error; `detail` is for people.

    `field` is the invalid field of the body or parameter, if there is one.
    """

    type: str
    title: str
    status: int
    detail: str
    field: str | None = None
    instance: str | None = None


class Refused(Exception):
    """Raised to respond with a problem."""

    def __init__(
        self, status: int, kind: str, detail: str, headers: dict[str, str] | None = None, field: str | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.headers, self.field = status, kind, headers or {}, field


# The first match decides: subclasses come before their parents.
STATUSES: tuple[tuple[type[BaseException], int], ...] = (
    (ClientDisconnect, 400),  # disconnected while sending the body; the response is not read
    (errors.NotFound, 404),
    (errors.PayloadTooLarge, 413),
    (errors.DuplicateJob, 409),
    (errors.DeadLetterClosed, 409),
    (errors.QueueNotEmpty, 409),
    (errors.LeaseLost, 409),
    (errors.ResultUnavailable, 409),
    (errors.QueueFull, 429),
    (errors.InvalidJob, 422),
    (errors.InvalidSchedule, 422),
    (errors.InvalidAlert, 422),
    (errors.UnsupportedByEngine, 501),
    (errors.StoreMoved, 503),
    (errors.SchemaMismatch, 503),
    (errors.EngineUnavailable, 503),
    (errors.AppClosed, 503),
    (errors.CorruptPayload, 422),
    (errors.ConfigError, 422),
    (TimeoutError, 504),
)
_RETRY_AFTER = {429: "1", 503: "5"}


def refusal_of(error: BaseException) -> Refused:
    """The problem of an error. An unexpected error is logged, and its details are not sent."""
    if isinstance(error, Refused):
        return error
    for kind, status in STATUSES:
        if isinstance(error, kind):
            headers = {"retry-after": _RETRY_AFTER[status]} if status in _RETRY_AFTER else {}
            field = getattr(error, "field", None)
            return Refused(status, _kebab_case(type(error).__name__), str(error), headers, field)
    log.error("a request failed", exc_info=error)
    return Refused(500, "internal-error", "internal error; see the log of the web process")


def problem_response(refused: Refused, instance: str | None = None) -> Response:
    """The response of a problem."""
    problem = Problem(
        type=f"urn:headrace:{refused.kind}",
        title=http.HTTPStatus(refused.status).phrase,
        status=refused.status,
        detail=str(refused),
        field=refused.field,
        instance=instance,
    )
    return Response(msgspec.json.encode(problem), refused.status, refused.headers, MEDIA_TYPE)


def _kebab_case(name: str) -> str:
    return "".join(f"-{char.lower()}" if char.isupper() else char for char in name).lstrip("-")
