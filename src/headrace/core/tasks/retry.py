"""Whether and when a failed attempt is repeated. Pure: the caller supplies randomness and time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, Literal, cast

from msgspec import Struct, structs

from headrace.core.jobs.records import RetryPolicy
from headrace.errors import ConfigError, JobTimeout, PermanentError, RetryableError, RetryLater

Delay = float | timedelta | None
BackoffKind = Literal["exponential", "fixed", "linear"]
BackoffFunction = Callable[[int, BaseException], Delay | Awaitable[Delay]]
ErrorKind = type[BaseException] | str

LONGEST_LIMIT = 100
_KINDS = ("exponential", "fixed", "linear")


def name_of(kind: ErrorKind) -> str:
    """The dotted name by which an exception class is stored and compared."""
    return kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"


PERMANENT_BY_DEFAULT = frozenset(
    map(
        name_of,
        (TypeError, ValueError, AttributeError, KeyError, ImportError, SyntaxError, AssertionError, PermanentError),
    )
)
# Errors of external data, although they are ValueErrors: a truncated answer may be whole next time.
RETRIED_BY_DEFAULT = frozenset({"json.decoder.JSONDecodeError", name_of(UnicodeError)})
_ALWAYS = frozenset(map(name_of, (RetryableError, RetryLater)))
_NEVER = frozenset({name_of(PermanentError)})
_TIMEOUT = name_of(JobTimeout)


class Retry(Struct, frozen=True, omit_defaults=True):
    """When a failed attempt runs again.

    `limit` is the number of runs after the first. `backoff` is "exponential", "fixed" or "linear" (from `base` seconds,
    by `factor`), a list of delays in seconds (the last one repeats), or a function of the attempt's number and the
    error, sync or async, that returns a delay or None: don't retry. Every delay is spread by ±`jitter` and kept between
    `floor` and `cap`.

    `on` and `never` name exception classes; the one nearest to the error's own class decides. With `on` given, errors
    it does not cover are not retried. Without either, programming errors (TypeError, ValueError, ...) are permanent and
    everything else is retried, also JSONDecodeError and UnicodeError.
    """

    limit: int = 3
    backoff: BackoffKind | Sequence[float] | BackoffFunction = "exponential"
    base: float = 1.0
    factor: float = 2.0
    cap: float = 3600.0
    floor: float = 0.1
    jitter: float = 0.1
    on: tuple[ErrorKind, ...] = ()
    never: tuple[ErrorKind, ...] = ()
    on_timeout: bool = True

    def __post_init__(self) -> None:
        _check(self)

    @property
    def max_attempts(self) -> int:
        return self.limit + 1

    def covers(self, error: BaseException) -> bool:
        """Whether this error is one to retry."""
        return self._covers_names([name_of(kind) for kind in type(error).__mro__])

    def _covers_names(self, ancestry: list[str]) -> bool:
        on, never = _names(self.on), _names(self.never)
        if not _NEVER.isdisjoint(ancestry):
            return False
        if not _ALWAYS.isdisjoint(ancestry):
            return True
        for name in ancestry:
            if name in never:
                return False
            if name in on:
                return True
        if _TIMEOUT in ancestry:
            return self.on_timeout
        return not on and _is_transient(ancestry)

    def delay(self, attempt: int, error: BaseException, spread: float) -> Delay | Awaitable[Delay]:
        """Seconds to wait after this attempt. `spread` in 0..1 is the caller's draw; a function's delay stays as is."""
        if callable(self.backoff):
            return self.backoff(attempt, error)
        return self.bounded(self._plain(max(attempt, 1)), spread)

    def bounded(self, seconds: float, spread: float) -> float:
        """The delay with its jitter, within floor and cap."""
        spread_out = seconds * (1 + self.jitter * (2 * spread - 1))
        return min(max(spread_out, self.floor), self.cap)

    def _plain(self, attempt: int) -> float:
        if not isinstance(self.backoff, str):
            delays = cast(Sequence[float], self.backoff)
            return delays[min(attempt, len(delays)) - 1]
        if self.backoff == "fixed":
            return self.base
        if self.backoff == "linear":
            return self.base * attempt
        try:
            return self.base * self.factor ** (attempt - 1)
        except OverflowError:  # far beyond any cap
            return self.cap

    def longest_wait(self) -> float | None:
        """The most seconds all retries together may wait; None if a function decides."""
        if callable(self.backoff):
            return None
        return sum(self.bounded(self._plain(attempt), 1.0) for attempt in range(1, self.limit + 1))

    def policy(self) -> RetryPolicy:
        """This retry as plain data, to store with one job."""
        if callable(self.backoff):
            raise ConfigError("a backoff function belongs on the task (@app.task(retry=...)), not on one call")
        backoff = self.backoff if isinstance(self.backoff, str) else [*map(float, self.backoff)]
        plain = {name: getattr(self, name) for name in _PLAIN_FIELDS}
        return RetryPolicy(backoff=backoff, on=tuple(_names(self.on)), never=tuple(_names(self.never)), **plain)


_PLAIN_FIELDS = ("limit", "base", "factor", "cap", "floor", "jitter", "on_timeout")


def from_policy(policy: RetryPolicy) -> Retry:
    """The Retry that was stored with a job."""
    return Retry(**structs.asdict(policy))


def as_retry(value: Any, usual: Retry | None = None) -> Retry:
    """A user's `retry`: a Retry, a number of retries, or None or False for none; the rest is from `usual`."""
    if isinstance(value, Retry):
        return value
    limit = 0 if value is None or value is False else value
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise ConfigError(f"retry: expected a Retry, a number of retries or None, got {value!r}", value=value)
    return structs.replace(usual or Retry(), limit=limit)


def _is_transient(ancestry: list[str]) -> bool:
    """Whether an error that no rule names may pass by itself; the nearest class decides."""
    for name in ancestry:
        if name in RETRIED_BY_DEFAULT:
            return True
        if name in PERMANENT_BY_DEFAULT:
            return False
    return True


def _names(kinds: Iterable[ErrorKind]) -> frozenset[str]:
    return frozenset(map(name_of, kinds))


def _check(retry: Retry) -> None:
    if type(retry.limit) is not int or not 0 <= retry.limit <= LONGEST_LIMIT:
        raise ConfigError(f"retry limit: expected 0..{LONGEST_LIMIT}, got {retry.limit!r}", value=retry.limit)
    for field in ("base", "factor", "cap", "floor", "jitter"):
        _check_number(field, getattr(retry, field))
    if retry.jitter > 1:
        raise ConfigError(f"retry jitter: expected a share 0..1, got {retry.jitter!r}", value=retry.jitter)
    _check_backoff(retry.backoff)
    for field in ("on", "never"):
        _check_kinds(field, getattr(retry, field))


def _check_kinds(field: str, kinds: Any) -> None:
    if not isinstance(kinds, tuple | list):
        raise ConfigError(f"retry {field}: expected a tuple such as (OSError,), got {kinds!r}", value=kinds)
    for kind in kinds:
        if not isinstance(kind, str) and not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise ConfigError(f"retry {field}: expected exception classes, got {kind!r}", value=kind)


def _check_number(field: str, value: Any) -> None:
    if not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ConfigError(f"retry {field}: expected a number of 0 or more, got {value!r}", value=value)


def _check_backoff(backoff: Any) -> None:
    if callable(backoff) or backoff in _KINDS:
        return
    if isinstance(backoff, str) or not isinstance(backoff, Sequence) or not backoff:
        raise ConfigError(
            f"retry backoff: expected one of {_KINDS}, a list of delays or a function, got {backoff!r}", value=backoff
        )
    for seconds in backoff:
        _check_number("backoff", seconds)
