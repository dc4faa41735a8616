"""When a circuit breaker lets a call through. Pure.

After some failures in a row it is open for a time; then one call tries, and the others wait for its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from headrace.core.damaged_records import read_or
from headrace.core.documents import Document
from headrace.core.option_times import SHORTEST, check_seconds
from headrace.core.text import counted, short
from headrace.errors import InvalidJob

KIND = "breakers"
BreakerState = Literal["failing", "open", "trying"]
MOST_FAILURES, LONGEST_OPEN = 1000, 86_400


class BreakerRule(Struct, frozen=True):
    """After how many failures in a row a breaker opens, and for how many milliseconds."""

    failures: int
    open_for: int


def checked_breaker(failures: Any, open_for: Any, on: Any) -> tuple[BreakerRule, tuple[type[Exception], ...]]:
    """The rule of a breaker and the exceptions that count, or InvalidJob."""
    if type(failures) is not int or not 1 <= failures <= MOST_FAILURES:
        raise InvalidJob(f"failures: expected 1 to {MOST_FAILURES}, got {short(failures)}", value=failures)
    kinds = tuple(on) if isinstance(on, Iterable) else (on,)
    if not kinds or not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
        raise InvalidJob(f"on: expected exceptions, such as (ConnectionError,), got {short(on)}", value=on)
    return BreakerRule(failures, check_seconds("open_for", open_for, SHORTEST, LONGEST_OPEN)), kinds


class BreakerRecord(Struct, frozen=True, omit_defaults=True):
    """What all processes know of a breaker; without a document it is closed, and nothing has failed."""

    failures: int = 0
    error: str = ""  # the type of the last one: a message may have secrets of its job
    open_until: int = 0
    trial_until: int = 0  # a call tries whether the service is back; if its process dies, the trial ends then

    def state(self, now: int) -> BreakerState:
        """Open while it refuses calls, then trying until a call succeeds; failing if it has not opened yet."""
        if self.open_until > now:
            return "open"
        return "trying" if self.open_until else "failing"

    def is_trying(self, now: int) -> bool:
        """Whether a call tries now."""
        return self.trial_until > now

    def wait(self, now: int, retry: int) -> int:
        """Milliseconds until a call may try again; 0 if it may now. During a trial, look again after `retry`."""
        if self.open_until > now:
            return self.open_until - now
        return retry if self.is_trying(now) else 0

    def tried(self, rule: BreakerRule, now: int) -> BreakerRecord:
        """The record when a call begins to try."""
        return structs.replace(self, trial_until=now + rule.open_for)

    def after_failure(self, rule: BreakerRule, error: str, now: int) -> BreakerRecord:
        """The record after a failure. One of a call that began before it opened changes nothing."""
        if self.open_until > now:
            return self
        failures = self.failures + 1
        open_until = now + rule.open_for if failures >= rule.failures else 0
        return BreakerRecord(failures, error, open_until)

    def closes(self, now: int) -> bool:
        """Whether a success closes it, or forgets its failures: it is not one from before it opened."""
        return self.failures > 0 and self.open_until <= now


CLOSED = BreakerRecord()
_decode = msgspec.json.Decoder(BreakerRecord).decode


def record_of(document: Document | None) -> BreakerRecord:
    """The record of a stored breaker; a damaged one counts as closed."""
    return CLOSED if document is None else read_or(_decode, document.value, CLOSED)


def summary_of(state: BreakerState, failures: int, error: str) -> str:
    """What is wrong in a few words: `open after 5 failures (ConnectionError)`."""
    counted_failures = counted(failures, "failure")
    if state == "failing":
        return f"{counted_failures} in a row ({error})"
    return f"{'open' if state == 'open' else 'trying again'} after {counted_failures} ({error})"


def document_of(name: str, version: int, record: BreakerRecord) -> Document:
    """The record as a document."""
    return Document(KIND, name, version, msgspec.json.encode(record).decode())
