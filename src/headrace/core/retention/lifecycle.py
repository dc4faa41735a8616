"""Lifecycle policies: how long a job may stay in a state, and how long it is kept when finished.

There are three layers: a task over its queue over the settings. The next layer down decides what one leaves unset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Literal, NamedTuple, Protocol

from msgspec import UNSET, Struct, UnsetType, structs

from headrace.core.retention.policy_fields import POLICY_FIELDS, OnStale
from headrace.core.text import nearest, short
from headrace.errors import InvalidJob

Kind = Literal["task", "queue"]
Span = float | timedelta | None | UnsetType
THRESHOLDS = ("max_scheduled", "max_waiting", "max_pending", "max_retrying", "max_running", "max_age")
DEFAULT = "default"  # the value that removes an operator's setting


class StoredPolicy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A Lifecycle as stored: milliseconds, None for no limit. Unset fields follow the next layer down."""

    max_scheduled: int | UnsetType | None = UNSET
    max_waiting: int | UnsetType | None = UNSET
    max_pending: int | UnsetType | None = UNSET
    max_retrying: int | UnsetType | None = UNSET
    max_running: int | UnsetType | None = UNSET
    max_age: int | UnsetType | None = UNSET
    on_stale: OnStale | UnsetType = UNSET
    keep_completed: int | UnsetType | None = UNSET
    keep_failed: int | UnsetType | None = UNSET
    keep_cancelled: int | UnsetType | None = UNSET
    archive: bool | UnsetType = UNSET
    remove_on_complete: bool | int | UnsetType = UNSET
    remove_on_fail: bool | int | UnsetType = UNSET

    def over(self, below: StoredPolicy) -> StoredPolicy:
        """This policy, with unset fields taken from `below`."""
        given = {name: value for name, value in structs.asdict(self).items() if value is not UNSET}
        return structs.replace(below, **given)


class Lifecycle(Struct, frozen=True, kw_only=True):
    """What happens to jobs that stay too long, and how long finished ones are kept.

    Times are seconds or a timedelta; None is no limit. `max_pending` and its like are how long a job may be in that
    state: a scheduled, pending or retrying one from the time it is due, a waiting one from its submission, a running
    one from its start. `max_age` counts from the time it was first due. A job past a limit is stale, and `on_stale`
    says what happens: "dead" fails it and creates a dead letter, "fail" only fails it, and "review" leaves it as it is
    and shows it. `keep_completed`, `keep_failed` and `keep_cancelled` are how long a finished job stays in the store
    before it is archived or, without `archive`, deleted.
    """

    max_scheduled: Span = UNSET
    max_waiting: Span = UNSET
    max_pending: Span = UNSET
    max_retrying: Span = UNSET
    max_running: Span = UNSET
    max_age: Span = UNSET
    on_stale: OnStale | UnsetType = UNSET
    keep_completed: Span = UNSET
    keep_failed: Span = UNSET
    keep_cancelled: Span = UNSET
    archive: bool | UnsetType = UNSET

    def __post_init__(self) -> None:
        self.policy()

    def policy(self) -> StoredPolicy:
        """The policy as stored; InvalidJob that names the field if a value is not allowed."""
        return StoredPolicy(**{name: _checked(name, value) for name, value in structs.asdict(self).items()})


class PolicyRow(Struct, frozen=True, array_like=True):
    """The policy of a task or a queue: `declared` by the code of the task, and over it `override` by an operator."""

    kind: Kind
    name: str
    declared: StoredPolicy = StoredPolicy()
    override: StoredPolicy = StoredPolicy()

    @property
    def policy(self) -> StoredPolicy:
        return self.override.over(self.declared)


class DefaultPolicy(Protocol):
    """The settings that apply to every job, unless its task or its queue sets something else.

    They are named as the fields of a policy, but `stale_pending` and its like are `max_pending` there.

    A protocol, as the settings import the options of tasks, which import this module.
    """

    @property
    def on_stale(self) -> OnStale: ...


def default_policy(settings: DefaultPolicy) -> StoredPolicy:
    """The policy where neither a task nor its queue sets anything: every field is set."""
    values = {name: getattr(settings, name.replace("max_", "stale_"), False) for name in POLICY_FIELDS}
    return StoredPolicy(**{name: _checked(name, value) for name, value in values.items()})


def effective(task: StoredPolicy, queue: StoredPolicy, settings: DefaultPolicy) -> StoredPolicy:
    """The policy for the jobs of a task in a queue: every field is set.

    An explicit threshold of a task or a queue is meant to act: unless one of them sets `on_stale`, stale jobs become
    dead letters. That applies to their own thresholds; for those of the settings see `core.retention.staleness`.
    """
    stated = task.over(queue)
    if stated.on_stale is UNSET and any(getattr(stated, name) is not UNSET for name in THRESHOLDS):
        stated = structs.replace(stated, on_stale="dead")
    return stated.over(default_policy(settings))


class StaleLimit(NamedTuple):
    """A threshold in milliseconds, and what happens to a job past it."""

    most: int
    action: OnStale


class Policies:
    """The policies of all tasks and queues of a store, as they were when read."""

    def __init__(self, rows: Iterable[PolicyRow], settings: DefaultPolicy) -> None:
        self._rows = {(row.kind, row.name): row for row in rows}
        self._settings = settings
        self._known: dict[tuple[str, str], StoredPolicy] = {}
        self._limits: dict[tuple[str, str, str], tuple[StaleLimit | None, StaleLimit | None]] = {}

    def of(self, task: str, queue: str) -> StoredPolicy:
        """The policy for the jobs of this task in this queue: every field is set."""
        known = self._known.get((task, queue))
        if known is None:
            known = effective(self.row("task", task).policy, self.row("queue", queue).policy, self._settings)
            self._known[task, queue] = known
        return known

    def limits(self, task: str, queue: str, name: str) -> tuple[StaleLimit | None, StaleLimit | None]:
        """The limits of such a job by the threshold of this name, and by that of its age; None for no limit."""
        known = self._limits.get((task, queue, name))
        if known is None:
            known = self._limits[task, queue, name] = (
                self._limit(task, queue, name),
                self._limit(task, queue, "max_age"),
            )
        return known

    def _limit(self, task: str, queue: str, name: str) -> StaleLimit | None:
        """A threshold of the settings acts by the `on_stale` of the settings, unless the task or queue sets one."""
        stated, effective_policy = (
            self.row("task", task).policy.over(self.row("queue", queue).policy),
            self.of(task, queue),
        )
        most, action = getattr(effective_policy, name), effective_policy.on_stale
        if not isinstance(most, int) or action is UNSET:
            return None
        return StaleLimit(
            most, self._settings.on_stale if getattr(stated, name) is UNSET and stated.on_stale is UNSET else action
        )

    def row(self, kind: Kind, name: str) -> PolicyRow:
        return self._rows.get((kind, name)) or PolicyRow(kind, name)

    def layers(self, task: str | None, queue: str | None) -> Iterator[tuple[str, StoredPolicy]]:
        """The layers of the policy, the nearest first; without the settings, which set everything."""
        named: tuple[tuple[Kind, str | None], ...] = (("task", task), ("queue", queue))
        for kind, name in named:
            if name is not None:
                row = self.row(kind, name)
                yield f"{kind}, by an operator", row.override
                yield f"{kind}, by its code", row.declared


def with_declared(rows: Iterable[PolicyRow], declared: Mapping[str, StoredPolicy]) -> list[PolicyRow]:
    """The stored policies, with those declared in this code in place of the earlier ones."""
    known = {(row.kind, row.name): row for row in rows}
    for name, policy in declared.items():
        row = known.get(("task", name), PolicyRow("task", name))
        known["task", name] = structs.replace(row, declared=policy)
    return [row for row in known.values() if row.policy != StoredPolicy()]


def changed_policy(before: StoredPolicy, given: Mapping[str, Any]) -> StoredPolicy:
    """An operator's policy with the given changes; the value "default" removes a field."""
    if not given:
        raise InvalidJob(f"configure() needs at least one of {', '.join(POLICY_FIELDS)}")
    for name in given:
        if name not in POLICY_FIELDS:
            near = nearest(name, POLICY_FIELDS)
            meant = f" (did you mean {near!r}?)" if near else ""
            raise InvalidJob(
                f"lifecycle: unknown field {short(name)}{meant}; fields are {', '.join(POLICY_FIELDS)}", field=name
            )
    values = {name: UNSET if value == DEFAULT else _checked(name, value) for name, value in given.items()}
    return structs.replace(before, **values)


def _checked(name: str, value: Any) -> Any:
    check = POLICY_FIELDS[name].check
    assert check is not None
    return UNSET if value is UNSET else check(name, value)
