"""Unique jobs: which calls count as the same, and what happens to a second one.

`Unique` and `Cache` are the user's options. A `UniquePolicy` is their resolved form for one task: how a job's key is
computed, and the rule for its insert, with times relative to now. Pure: the caller passes the time and the call. Must
not know engines, tasks or the other options.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import timedelta
from hashlib import blake2b
from typing import Any, Literal

import msgspec
from msgspec import Struct

from headrace.core.clock import to_ms
from headrace.core.codec.decode import Tree
from headrace.core.codec.encode import ValueEncoder, lower
from headrace.core.jobs.states import NOT_STARTED, OPEN, State
from headrace.core.jobs.unique_rules import Act, UniqueCondition, UniqueRule
from headrace.core.text import nearest, short
from headrace.errors import ConfigError, InvalidJob

OnConflict = Literal["return_existing", "raise", "replace", "reschedule", "keep_last_if_running", "cancel_running"]

IDEMPOTENT_FOR = 86_400_000
_LONGEST = 100 * 365 * 86_400
LONGEST_KEY = 1000
_ACTS: dict[str, Act] = {
    "return_existing": "keep",
    "raise": "refuse",
    "replace": "replace",
    "reschedule": "reschedule",
    "keep_last_if_running": "replace",
    "cancel_running": "cancel",
}
_ASPECTS = ("args", "queue", "task")
_ordered = msgspec.json.Encoder(order="deterministic").encode


class Unique(Struct, frozen=True, kw_only=True):
    """Of several calls that are the same, only one is a job at a time.

    `by` says what makes them the same: "args" (all arguments), names of single parameters, "queue"; the task always
    does. `key` is a text to use instead, across tasks. A job counts while it is in one of `states` and, with a
    `window`, if it was enqueued no longer ago than that (seconds or a timedelta). By default, the states are those of
    an unfinished job; with a window, a completed one counts as well.

    `on_conflict` applies to the new call: "return_existing" returns the existing job, "raise" raises DuplicateJob,
    "replace" gives the existing job the new call's arguments and options, "reschedule" only its time; a started job
    stays as it is, also while it sleeps or waits between its steps. "keep_last_if_running" replaces a waiting job, and
    does not count a started one: so at most one waits behind it, with the latest call. "cancel_running" does the same,
    and cancels the started one: the latest call runs as soon as that has stopped.
    """

    by: Sequence[str] = ("args",)
    key: str | None = None
    states: Collection[State | str] | None = None
    window: float | timedelta | None = None
    on_conflict: OnConflict = "return_existing"

    def __post_init__(self) -> None:
        _check_by(self.by)
        if self.key is not None:
            check_key("unique key", self.key)
            if tuple(self.by) != ("args",):
                raise ConfigError("unique: by and key exclude each other; give one of them")
        if self.states is not None:
            _check_states(self.states)
        if self.window is not None:
            _check_seconds("unique window", self.window)
        if self.on_conflict not in _ACTS:
            raise ConfigError(
                f"unique on_conflict: expected one of {_listed(_ACTS)}, got {short(self.on_conflict)}",
                value=self.on_conflict,
            )
        if self.runs_alone and self.states is not None:
            raise ConfigError(f"unique: on_conflict={self.on_conflict!r} has its own states; leave states out")

    @property
    def runs_alone(self) -> bool:
        """Whether a job may wait behind one with its key that runs."""
        return self.on_conflict in ("keep_last_if_running", "cancel_running")

    @property
    def is_key_only(self) -> bool:
        """Whether it sets only what makes calls the same."""
        return self.states is None and self.window is None and self.on_conflict == "return_existing"


class Cache(Struct, frozen=True):
    """A call whose job completed less than `ttl` ago (seconds or a timedelta) returns that job.

    So does one whose job is not finished yet. A failed or cancelled job does not count. Calls are the same if all their
    arguments are, or those that `key` names as a tuple, or, if `key` is a text, if the texts are.
    """

    ttl: float | timedelta
    key: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        _check_seconds("cache ttl", self.ttl)
        if isinstance(self.key, str):
            check_key("cache key", self.key)
        elif self.key is not None and not _are_names(self.key):
            raise ConfigError(
                f"cache key: expected a text or a tuple of parameters' names, got {short(self.key)}", value=self.key
            )


# -- resolved


class UniqueWindow(Struct, frozen=True):
    """Jobs in these states that are no older than this many milliseconds."""

    states: tuple[State, ...]
    created: int | None = None
    finished: int | None = None

    def counted_from(self, now: int) -> UniqueCondition:
        # One more than the difference: after exactly a minute, a window of a minute is over.
        created = None if self.created is None else now - self.created + 1
        return UniqueCondition(self.states, created, None if self.finished is None else now - self.finished + 1)


class UniqueKey(Struct, frozen=True):
    """How to compute a job's key: a kind, which separates keys of different origin, some texts, and arguments."""

    kind: Literal["u", "i", "c"]
    texts: tuple[str | None, ...]
    arguments: Arguments | None = None

    def of(self, args: tuple[Any, ...], kwargs: dict[str, Any], secret: bytes = b"") -> str:
        """The key of a call that the task's signature has accepted; with a secret, it reveals no arguments."""
        values = None if self.arguments is None else self.arguments.of(args, kwargs)
        return f"{self.kind}-{blake2b(_steady([*self.texts, values]), digest_size=16, key=secret).hexdigest()}"


class UniquePolicy(Struct, frozen=True):
    """The unique policy for the jobs of one task under one set of options."""

    key: UniqueKey
    spans: tuple[UniqueWindow, ...]
    act: Act = "keep"

    def rule(self, now: int) -> UniqueRule:
        return UniqueRule(tuple(span.counted_from(now) for span in self.spans), self.act)


class Arguments(Struct, frozen=True):
    """Reads the relevant arguments from a call. Equal arguments read the same, however the call is written."""

    task: str
    signature: inspect.Signature
    names: tuple[str, ...] | None
    """Which ones; None is all of them."""
    field: str = "unique by"

    def of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Tree]:
        bound = self.signature.bind(*args, **kwargs)
        given = set(bound.arguments)
        bound.apply_defaults()
        values = {name: value for name, value in bound.arguments.items() if name in given or _is_storable(value)}
        if self.names is not None:
            values = {name: self._one(name, values) for name in self.names}
        return {name: lower(ValueEncoder(models=True, limit=None), value) for name, value in values.items()}

    def _one(self, name: str, values: dict[str, Any]) -> Any:
        if name in self.signature.parameters:
            return values.get(name)  # None: a default that can't be stored, which no call can give
        gathering = _gathering(self.signature)
        if gathering is None or name not in values[gathering]:
            raise InvalidJob(
                f"{self.field}: this call of {self.task!r} has no argument {name!r} by name; "
                "pass it by name, or leave it out of the key"
            )
        return values[gathering][name]


def arguments(task: str, function: Callable[..., Any], names: Sequence[str] | None, field: str) -> Arguments:
    """A reader of these arguments, or InvalidJob that names the existing parameters."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # some builtins have no signature
        signature = inspect.signature(lambda *args, **kwargs: None)
    wrong = [name for name in names or () if name not in signature.parameters]
    if wrong and _gathering(signature) is None:
        near = nearest(wrong[0], signature.parameters)
        meant = f" (did you mean {near!r}?)" if near else ""
        known = f"it has {_listed(signature.parameters)}" if signature.parameters else "it has none"
        raise InvalidJob(f"{field}: {task!r} has no parameter {wrong[0]!r}{meant}; {known}", value=wrong[0])
    return Arguments(task, signature, None if names is None else tuple(names), field)


def _gathering(signature: inspect.Signature) -> str | None:
    """The name of the function's `**kwargs`, if it has such."""
    kind = inspect.Parameter.VAR_KEYWORD
    return next((name for name, parameter in signature.parameters.items() if parameter.kind is kind), None)


def _is_storable(default: Any) -> bool:
    try:
        lower(ValueEncoder(models=True, limit=None), default)
    except Exception:  # any value, such as a sentinel: a caller can't give it either
        return False
    return True


def unique_key(unique: Unique, task: str, function: Callable[..., Any], queue: str) -> UniqueKey:
    """The key that distinguishes the calls of a task."""
    if unique.key is not None:
        return UniqueKey("u", ("key", unique.key))
    names = None if "args" in unique.by else tuple(sorted(set(unique.by) - set(_ASPECTS)))
    reads = None if names == () else arguments(task, function, names, "unique by")
    return UniqueKey("u", ("task", task, queue if "queue" in unique.by else None), reads)


def for_unique(unique: Unique, key: UniqueKey) -> UniquePolicy:
    window = None if unique.window is None else to_ms(unique.window)
    return UniquePolicy(key, (UniqueWindow(_states_of(unique), window),), _ACTS[unique.on_conflict])


def for_debounce(key: UniqueKey) -> UniquePolicy:
    return UniquePolicy(key, (UniqueWindow(_in_order(NOT_STARTED)),), "replace")


def for_throttle(key: UniqueKey, window: int) -> UniquePolicy:
    return UniquePolicy(key, (UniqueWindow(tuple(State), window),))


def for_idempotency(text: str) -> UniquePolicy:
    return UniquePolicy(
        UniqueKey("i", (text,)), (UniqueWindow(_in_order(OPEN)), UniqueWindow(tuple(State), IDEMPOTENT_FOR))
    )


def for_cache(cache: Cache, task: str, function: Callable[..., Any]) -> UniquePolicy:
    if isinstance(cache.key, str):
        key = UniqueKey("c", (task, cache.key))
    else:
        key = UniqueKey("c", (task, None), arguments(task, function, cache.key, "cache key"))
    return UniquePolicy(
        key, (UniqueWindow(_in_order(OPEN)), UniqueWindow((State.COMPLETED,), finished=to_ms(cache.ttl)))
    )


def _states_of(unique: Unique) -> tuple[State, ...]:
    if unique.runs_alone:
        return _in_order(NOT_STARTED)
    if unique.states is not None:
        return _in_order(map(State, unique.states))
    return _in_order(OPEN if unique.window is None else OPEN | {State.COMPLETED})


def _in_order(states: Iterable[State]) -> tuple[State, ...]:
    chosen = frozenset(states)
    return tuple(state for state in State if state in chosen)


# -- equal values, equal bytes


def _steady(tree: Tree) -> bytes:
    raw = _ordered(tree)
    return _ordered(_sorted_pairs(tree)) if b'"$dict"' in raw else raw


def _sorted_pairs(tree: Tree) -> Tree:
    """The tree with the pairs of every $dict in an order that does not depend on how the dict was made."""
    if isinstance(tree, list):
        return [_sorted_pairs(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    settled = {name: _sorted_pairs(item) for name, item in tree.items()}
    if isinstance(pairs := settled.get("$dict"), list):
        settled["$dict"] = sorted(pairs, key=_ordered)
    return settled


# -- what is allowed


def check_key(field: str, value: Any) -> str:
    """A key as a text of the user's own."""
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_KEY:
        raise ConfigError(f"{field}: expected a text of 1 to {LONGEST_KEY} characters, got {short(value)}", value=value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{field}: {short(value)} has a lone surrogate, which is no character", value=value) from None
    return value


def _check_by(by: Any) -> None:
    if not _are_names(by):
        raise ConfigError(
            f"unique by: expected a tuple such as ('args',) or ('user_id', 'queue'), got {short(by)}; "
            "('task',) makes all calls of a task the same",
            value=by,
        )


def _are_names(value: Any) -> bool:
    return isinstance(value, tuple | list) and bool(value) and all(isinstance(name, str) for name in value)


def _check_states(states: Any) -> None:
    listed = list(states) if isinstance(states, tuple | list | set | frozenset) else []
    wrong = [state for state in listed if state not in tuple(State)]
    if wrong or not listed:
        got = short(wrong[0] if wrong else states)
        raise ConfigError(f"unique states: expected a tuple of {_listed(State)}, got {got}", value=states)


def _check_seconds(field: str, value: Any) -> None:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0.001 <= seconds <= _LONGEST:
        raise ConfigError(
            f"{field}: expected seconds (or a timedelta) from 0.001 to {_LONGEST:g}, got {short(value)}", value=value
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
