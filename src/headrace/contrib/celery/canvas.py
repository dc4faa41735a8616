"""Celery's canvas: signatures, chains, groups and chords, enqueued as flows of headrace.

All of a canvas is stored in one commit. A task that fails cancels what comes after it.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from headrace.contrib.celery.current import current_app
from headrace.contrib.celery.exceptions import CeleryError, refuse
from headrace.contrib.celery.flows import Fed, FlowBuilder
from headrace.contrib.celery.results import GroupResult
from headrace.core.text import short

_STARTS = ("countdown", "eta")


class CelerySignature:
    """A task with arguments and options, to be called later. `immutable` ones take no result of the task before."""

    def __init__(
        self,
        task: str,
        args: Any = (),
        kwargs: Any = None,
        options: Any = None,
        app: Any = None,
        immutable: bool = False,
    ) -> None:
        if args and not isinstance(args, list | tuple):
            raise CeleryError(f"args: expected a list or tuple, got {short(args)}; for one argument write (value,)")
        self.task = task
        self.args = tuple(args or ())
        self.kwargs = dict(kwargs or {})
        self.options = dict(options or {})
        self.immutable = immutable
        self.links = _listed(self.options.pop("link", None))
        self.errbacks = _listed(self.options.pop("link_error", None))
        self.app = app

    name = property(lambda self: self.task)

    @property
    def id(self) -> str | None:
        found: str | None = self.options.get("task_id")
        return found

    def clone(self, args: Any = (), kwargs: Any = None, **options: Any) -> CelerySignature:
        """A copy with further arguments, which come first, and options."""
        more = () if self.immutable else tuple(args or ())
        named = self.kwargs if self.immutable else {**self.kwargs, **(kwargs or {})}
        copy = CelerySignature(
            self.task, more + self.args, named, {**self.options, **options}, self.app, self.immutable
        )
        copy.links = self.links + copy.links
        copy.errbacks = self.errbacks + copy.errbacks
        return copy

    def set(self, immutable: bool | None = None, **options: Any) -> CelerySignature:
        self.immutable = self.immutable if immutable is None else immutable
        self.options |= options
        return self

    def link(self, callback: Any) -> Any:
        self.links = [*self.links, callback]
        return callback

    def link_error(self, errback: Any) -> Any:
        self.errbacks = [*self.errbacks, errback]
        return errback

    def on_error(self, errback: Any) -> CelerySignature:
        self.link_error(errback)
        return self

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Enqueue it, with what is linked to it."""
        whole, app = self.clone(args, kwargs, **options), _app_of(self)
        if app.conf.task_always_eager:
            return whole.apply(throw=app.conf.task_eager_propagates)
        if whole.links or whole.errbacks:
            return app.enqueue_flow(whole, whole.task)
        return app.enqueue(whole)

    def delay(self, *args: Any, **kwargs: Any) -> Any:
        return self.apply_async(args, kwargs)

    def apply(self, args: Any = None, kwargs: Any = None, throw: bool = False, **options: Any) -> Any:
        whole, app = self.clone(args, kwargs, **options), _app_of(self)
        result = app.local_task(whole.task).apply(whole.args, whole.kwargs, throw=throw, **whole.options)
        for callback in whole.links if result.successful() else ():
            callback.clone((result.result,)).apply(throw=throw)
        for errback in whole.errbacks if result.failed() else ():
            app.call_errback(errback, result)
        return result

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it here and now, as a plain function."""
        whole = self.clone(args, kwargs)
        return _app_of(self).local_task(self.task)(*whole.args, **whole.kwargs)

    def add_to(self, flow: FlowBuilder, fed: Fed | None, keep: bool, errbacks: list[Any]) -> Fed:
        """Add it to a flow: with the results before it as first argument, unless it is immutable."""
        node = flow.add(self, fed, keep=keep or bool(self.links or self.errbacks or errbacks))
        for callback in self.links:
            callback.add_to(flow, node, False, [])
        for errback in (*self.errbacks, *errbacks):
            flow.add_errback(node, errback)
        return node

    def __or__(self, other: Any) -> Any:
        return joined(self, other)

    def __repr__(self) -> str:
        given = [*map(short, self.args), *(f"{name}={short(value)}" for name, value in self.kwargs.items())]
        return f"{self.task}({', '.join(given)})"


class Canvas(ABC):
    """What chains, groups and chords share: they are enqueued and called alike."""

    kind = ""
    options: dict[str, Any]
    errbacks: list[Any]

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Enqueue all of it in one commit."""
        whole, app = self.clone(args, kwargs, **options), _app_of(self)
        if app.conf.task_always_eager:
            return whole.apply(throw=app.conf.task_eager_propagates)
        return app.enqueue_flow(whole, self.kind)

    def delay(self, *args: Any, **kwargs: Any) -> Any:
        return self.apply_async(args, kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.apply_async(args, kwargs)

    @abstractmethod
    def clone(self, args: Any = (), kwargs: Any = None, **options: Any) -> Any:
        """A copy with these arguments added."""

    @abstractmethod
    def apply(self, args: Any = None, kwargs: Any = None, throw: bool = False) -> Any:
        """Run all of it here."""

    @abstractmethod
    def parts(self) -> Iterator[Any]:
        """The signatures in it."""

    def set(self, **options: Any) -> Canvas:
        self.options |= options
        return self

    def link_error(self, errback: Any) -> Any:
        self.errbacks = [*self.errbacks, errback]
        return errback

    def on_error(self, errback: Any) -> Canvas:
        self.link_error(errback)
        return self

    def __or__(self, other: Any) -> Any:
        return joined(self, other)


class ChainSignature(Canvas):
    """Parts that run one after the other, each with the result of the one before."""

    kind = "chain"

    def __init__(self, *parts: Any, options: Any = None, errbacks: Any = ()) -> None:
        self.tasks = [_checked("chain", part) for part in _flat(parts)]
        if not self.tasks:
            raise CeleryError("chain: it is empty; give at least one signature, such as add.s(1, 2)")
        self.options = dict(options or {})
        self.errbacks = list(errbacks)

    def clone(self, args: Any = (), kwargs: Any = None, **options: Any) -> ChainSignature:
        first = self.tasks[0].clone(args, kwargs, **{**self.options, **options})
        return ChainSignature(first, *self.tasks[1:], errbacks=self.errbacks)

    def parts(self) -> Iterator[Any]:
        return iter(self.tasks)

    def link(self, callback: Any) -> Any:
        self.tasks[-1].link(callback)
        return callback

    def apply(self, args: Any = None, kwargs: Any = None, throw: bool = False) -> Any:
        first, *rest = (_with_errbacks(part, self.errbacks) for part in self.tasks)
        result = first.clone(args, kwargs).apply(throw=throw)
        for part in rest:
            if not result.successful():
                return result
            before, result = result, part.clone((result.get(),)).apply(throw=throw)
            result.parent = before
        return result

    def add_to(self, flow: FlowBuilder, fed: Fed | None, keep: bool, errbacks: list[Any]) -> Fed:
        before: list[Fed] = []
        for place, part in enumerate(self.tasks):
            fed = part.add_to(flow, fed, keep or place < len(self.tasks) - 1, [*self.errbacks, *errbacks])
            before.append(fed)
        flow.chained = flow.chained or before
        assert fed is not None  # a chain has at least one part
        return fed

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.tasks))


class GroupSignature(Canvas):
    """Parts that run side by side."""

    kind = "group"

    def __init__(self, *parts: Any, options: Any = None, errbacks: Any = ()) -> None:
        self.tasks = [_checked("group", part) for part in _flat(parts)]
        self.options = dict(options or {})
        self.errbacks = list(errbacks)

    def clone(self, args: Any = (), kwargs: Any = None, **options: Any) -> GroupSignature:
        every = {**self.options, **options}
        return GroupSignature([part.clone(args, kwargs, **every) for part in self.tasks], errbacks=self.errbacks)

    def parts(self) -> Iterator[Any]:
        return iter(self.tasks)

    def apply(self, args: Any = None, kwargs: Any = None, throw: bool = False) -> Any:
        done = [_with_errbacks(part, self.errbacks).clone(args, kwargs).apply(throw=throw) for part in self.tasks]
        return GroupResult(str(uuid.uuid4()), done)

    def add_to(self, flow: FlowBuilder, fed: Fed | None, keep: bool, errbacks: list[Any]) -> Fed:
        return flow.in_group([part.add_to(flow, fed, keep, [*self.errbacks, *errbacks]) for part in self.tasks], fed)

    def __len__(self) -> int:
        return len(self.tasks)

    def __repr__(self) -> str:
        return f"group({', '.join(map(repr, self.tasks))})"


class Chord(Canvas):
    """A header, whose results are the first argument of the body, as a list."""

    kind = "chord"

    def __init__(self, header: Any, body: Any = None, options: Any = None, errbacks: Any = ()) -> None:
        self.header = header if isinstance(header, GroupSignature) else GroupSignature(header)
        self.body = body
        self.options = dict(options or {})
        self.errbacks = list(errbacks)

    def __call__(self, body: Any = None, *args: Any, **kwargs: Any) -> Any:
        chosen = self.body if body is None else body
        return Chord(self.header, chosen, self.options, self.errbacks).apply_async(args, kwargs)

    def clone(self, args: Any = (), kwargs: Any = None, **options: Any) -> Chord:
        if self.body is None:
            raise CeleryError("chord: it has no body; write chord(header, body), or chord(header)(body)")
        every = {**self.options, **options}
        start = {name: value for name, value in every.items() if name in _STARTS}
        rest = {name: value for name, value in every.items() if name not in _STARTS}
        return Chord(self.header.clone(args, kwargs, **start), self.body.clone(**rest), errbacks=self.errbacks)

    def parts(self) -> Iterator[Any]:
        return iter((self.header, self.body) if self.body is not None else (self.header,))

    def link(self, callback: Any) -> Any:
        self.body.link(callback)
        return callback

    def apply(self, args: Any = None, kwargs: Any = None, throw: bool = False) -> Any:
        header = _with_errbacks(self.header, self.errbacks).clone(args, kwargs).apply(throw=throw)
        failed: Any = next((one for one in header if not one.successful()), None)
        body = _with_errbacks(self.body, self.errbacks)
        return failed if failed is not None else body.clone((header.get(),)).apply(throw=throw)

    def add_to(self, flow: FlowBuilder, fed: Fed | None, keep: bool, errbacks: list[Any]) -> Fed:
        every = [*self.errbacks, *errbacks]
        return self.body.add_to(flow, self.header.add_to(flow, fed, True, every), keep, every)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"chord({self.header!r}, {self.body!r})"


chain, group, chord = ChainSignature, GroupSignature, Chord


def signature(task: Any, args: Any = (), kwargs: Any = None, app: Any = None, **how: Any) -> Any:
    """A signature by the name of a task, or a copy of one."""
    if isinstance(task, CelerySignature | Canvas):
        return task.clone(args, kwargs)
    options = {**how.pop("options", {})}
    return CelerySignature(
        getattr(task, "name", task), args, kwargs, {**options}, app or getattr(task, "app", None), **how
    )


subtask = signature


def joined(left: Any, right: Any) -> Any:
    """`left | right`, as Celery reads it: a group with something after it is a chord."""
    right = _checked("|", right)
    if isinstance(left, ChainSignature):
        return ChainSignature(
            *left.tasks, *(right.tasks if isinstance(right, ChainSignature) else [right]), errbacks=left.errbacks
        )
    if isinstance(left, GroupSignature) and not isinstance(right, ChainSignature):
        return Chord(left, right, errbacks=left.errbacks)
    return ChainSignature(left, *(right.tasks if isinstance(right, ChainSignature) else [right]))


def _checked(where: str, part: Any) -> Any:
    if isinstance(part, CelerySignature | Canvas):
        return part
    if hasattr(part, "signature") and hasattr(part, "delay"):
        raise CeleryError(f"{where}: {part!r} is a task; give a signature of it, such as {part.name}.s()")
    if hasattr(part, "bind") or hasattr(part, "options"):
        raise refuse(where, f"{short(part)} is headrace's own; use headrace.chain and headrace.group with task.bind()")
    raise CeleryError(f"{where}: expected signatures such as add.s(1, 2), got {short(part)}")


def _flat(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """The parts as given: one by one, or all of them in one list or generator."""
    single = parts[0] if len(parts) == 1 else None
    return tuple(single) if isinstance(single, Iterable) and not isinstance(single, str) else parts


def _with_errbacks(part: Any, errbacks: list[Any]) -> Any:
    """The part with these errbacks too; itself without any."""
    if not errbacks:
        return part
    copy = part.clone()
    copy.errbacks = [*copy.errbacks, *errbacks]
    return copy


def _listed(given: Any) -> list[Any]:
    return [] if given is None else list(given) if isinstance(given, list | tuple) else [given]


def _app_of(part: Any) -> Any:
    """The app of the first signature that has one, else the current app."""
    left = [part]
    while left:
        one = left.pop(0)
        if isinstance(one, CelerySignature):
            if one.app is not None:
                return one.app
        else:
            left += one.parts()
    return current_app()
