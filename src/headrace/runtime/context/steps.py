"""The steps, sleeps and events of a job over all its runs: each step runs once, each event is delivered once.

A run reads the steps of earlier runs once, and stores each new step before it continues. It uses a StepStore, so the
same code works in a worker, a sandbox and a test.
"""

from __future__ import annotations

import inspect
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Protocol

import msgspec
from msgspec.structs import replace

from headrace.core.codec import codec
from headrace.core.jobs.budgets import Spending
from headrace.core.jobs.compensations import KIND, jobs_of
from headrace.core.jobs.compensations import encoded as encoded_job
from headrace.core.jobs.questions import Question, encoded
from headrace.core.jobs.records import Claim
from headrace.core.jobs.steps import AWAITING, NO_DEADLINE, OR, Awaited, Step, StepKind, Suspended, asleep, awaiting
from headrace.core.option_times import check_wait
from headrace.core.tasks.options import check_name
from headrace.core.tasks.signature import Signature
from headrace.core.text import short
from headrace.engines.shared.shield import shielded
from headrace.errors import InvalidJob, LeaseLost, ResultUnavailable
from headrace.runtime.context.joined_steps import JoinedSteps
from headrace.runtime.context.replaying import Replaying
from headrace.runtime.context.turns import Turns
from headrace.runtime.jobs.async_twin import in_thread

_UNSTORABLE = "$lost"  # in place of a result that could not be stored
_GAVE_UP = "no event {!r} came"
_REMINDER = "reminder of {!r} {}"
_FIRST = "first one: {}"
_OF_WAITS = (AWAITING, "no event ", "reminder of ", "first one: ")  # stored as sleeps by waits for events
_LONGEST_REASON = 500


class StepStore(Protocol):
    """The storage of steps, as a run needs it."""

    @property
    def largest(self) -> int:
        """How many bytes an encoded result may have."""
        ...

    def now(self) -> int: ...

    def steps(self, claim: Claim) -> list[Step]:
        """The stored steps of the job."""
        ...

    def save_step(self, claim: Claim, step: Step) -> bool:
        """Store the step; False if the lease is lost."""
        ...

    def charge(self, claim: Claim, flow: str, runs: Mapping[int, int]) -> Spending | None:
        """Count the costs of the job's runs, by their versions, in the budget of this flow; None if it has none."""
        ...

    @property
    def joined(self) -> JoinedSteps:
        """Steps in the transaction of a connection of the task; InvalidJob where it can have none."""
        ...


class StepLog:
    """The steps of a job as one run knows them."""

    def __init__(self, claim: Claim, step_store: StepStore, replaying: Replaying | None = None) -> None:
        self._claim = claim
        self._replaying = replaying
        self._step_store = step_store
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str, int], Step] | None = None
        self._used: Counter[tuple[str, str]] = Counter()
        self._undone: Counter[str] = Counter()
        self._registering = threading.Lock()
        self._waiting = Turns()  # coroutines of a job may wait at once
        self._taken = set[tuple[str, int]]()  # the events that waits for the first of several chose in earlier runs
        self._suspension: Suspended | None = None
        self._compensated = set[str]()
        self._patches: dict[str, bool] = {}
        self._compensations: list[str] = []

    # -- steps

    def begin(self, name: str) -> Step | None:
        """Begin a step of this run; returns the stored step if it ran before."""
        known = self._recall("step", check_name("step", name), self._number_of(name))
        if self._next("step", name) > 1:
            raise InvalidJob(
                f"step {name!r}: this run already has a step of this name; "
                "give each step its own name, in a loop for example f'charge {n}'"
            )
        if known is None and self._replaying is not None:
            self._replaying.begin(name)
        return known

    def undo(self, name: str) -> None:
        """The step failed and may run again."""
        self._used["step", name] -= 1

    @shielded
    def finish(self, name: str, function: Callable[..., Any], value: Any) -> Any:
        """Store the result of a step, and return it as later runs will get it."""
        return result_of(self._store(self._done(name, value)), function)

    def _done(self, name: str, value: Any) -> Step:
        where = f"result of step {name!r}"
        try:
            text = (
                None if value is None else codec.encode(value, models=True, limit=self._step_store.largest, where=where)
            )
        except InvalidJob as error:
            # The step is done; an unstorable result must not make it run again.
            text = msgspec.json.encode({_UNSTORABLE: str(error)}).decode()
        return self._step("step", name, self._number_of(name), text)

    def _number_of(self, name: str) -> int:
        """The number of a step of this name: 1, and one more each time that its compensation has begun."""
        self._recall("step", name, 1)
        return 1 + self._undone[name]

    # -- changes of the code

    def patched(self, name: str) -> bool:
        """Whether no run was past this point before the patch was made."""
        if check_name("patch", name) not in self._patches:
            is_new = self._recall("patch", name, 1) is not None or not self._is_replaying()
            if is_new:
                self._keep("patch", name, 1, None)
            self._patches[name] = is_new
        return self._patches[name]

    def _is_replaying(self) -> bool:
        """Whether an earlier run stored a step, a sleep or a question that this run has not reached yet."""
        with self._lock:
            return any(
                self._used["sleep", awaiting(name)] == 0 if kind == "question" else self._used[kind, name] == 0
                for kind, name, _ in self._known or ()
                if kind in ("step", "question") or (kind == "sleep" and not name.startswith(_OF_WAITS))
            )

    # -- compensations

    def compensate(self, name: str, submit: Callable[[list[str]], str]) -> None:
        """Register the compensation of a step once. `submit` makes its job; it gets those registered before."""
        number = self._number_of(check_name("compensation", name))
        with self._registering:
            if self._recall(KIND, name, number) is None and name not in self._compensated:
                job_id = submit(self._compensations)
                self._keep(KIND, name, number, encoded_job(job_id))
                self._compensated.add(name)
                self._compensations.append(job_id)

    # -- steps in a transaction of the task

    def begin_in(self, connection: Any, name: str) -> Step | None:
        """Like begin(), for a step in this connection's transaction."""
        if (known := self.begin(name)) is None:
            self._step_store.joined.begin(connection, self._claim)
        return known

    async def abegin_in(self, connection: Any, name: str) -> Step | None:
        if (known := await in_thread(self.begin, name)) is None:
            await self._step_store.joined.abegin(connection, self._claim)
        return known

    def finish_in(self, connection: Any, name: str, function: Callable[..., Any], value: Any) -> Any:
        """Like finish(); the result counts when the transaction is committed."""
        step = self._done(name, value)
        return result_of(self._held(step, self._step_store.joined.save(connection, self._claim, step)), function)

    async def afinish_in(self, connection: Any, name: str, function: Callable[..., Any], value: Any) -> Any:
        step = self._done(name, value)
        held = await self._step_store.joined.asave(connection, self._claim, step)
        return result_of(self._held(step, held), function)

    # -- times and events

    def sleep(self, seconds: Any, name: str | None) -> None:
        """Return if the time since the first run came here is over; else suspend the run."""
        span = check_wait("sleep", seconds)
        named = "sleep" if name is None else check_name("sleep", name)
        until = self._end_of(named, self._next("sleep", named), span)
        if self._step_store.now() < until:
            raise self._suspended(until, asleep(name))

    def wait_event(
        self, name: str, timeout: Any, question: Question | None = None, remind: Callable[[], None] | None = None
    ) -> Any:
        """The data of the next event of this name, in order of arrival; suspends the run if there is none.

        A wait that times out takes no event: one that comes later is for the next wait. With a question, people are
        asked for the event, and `remind` is called after each interval without it.
        """
        span = None if timeout is None else check_wait("timeout", timeout)
        reason = awaiting(check_name("event", name))
        with self._waiting:  # one after the other, so that each run gives them the same events
            return self._event(name, reason, span, question, remind)

    def _event(
        self, name: str, reason: str, span: int | None, question: Question | None, remind: Callable[[], None] | None
    ) -> Any:
        wait = self._next("sleep", reason)
        # Checked first: a late event must not change what earlier runs have seen.
        if self._recall("sleep", _GAVE_UP.format(name), wait) is not None:
            _time_out(name, span)
        if (event := self._received(name)) is not None:
            return _decoded(event)
        until = self._step_store.now() + NO_DEADLINE if span is None else self._end_of(reason, wait, span)
        if self._step_store.now() >= until:
            self._read_anew()
            if (event := self._received(name)) is not None:  # it came during this run
                return _decoded(event)
            self._keep("sleep", _GAVE_UP.format(name), wait, None)
            _time_out(name, span)
        if question is not None and self._suspension is None:  # a job asks one question at a time
            asked = replace(question, until=None if span is None else until)
            until = min(until, self._ask(name, wait, asked, remind))
        raise self._suspended(until, reason, ((name, self._unused(name)),))

    def _received(self, name: str) -> Step | None:
        """The next event of this name, which this run has received by that; None if it has not come."""
        with self._lock:
            number = self._unused(name)
            event = (self._known or {}).get(("event", name, number))
            if event is not None:
                self._used["event", name] = number
            return event

    def wait_first(self, names: tuple[Any, ...], timeout: Any) -> tuple[str, Any]:
        """The first event to come of these names, and its data; suspends the run if there is none."""
        span = None if timeout is None else check_wait("timeout", timeout)
        reason = awaiting(*(check_name("event", name) for name in names))
        if not 2 <= len(set(names)) == len(names) or len(reason) > _LONGEST_REASON:
            raise InvalidJob(
                f"wait_first: expected two or more different names of events, of {_LONGEST_REASON} characters in all, "
                f"got {short(names)}",
                value=names,
            )
        with self._waiting:
            first = self._chosen(names, reason, self._next("sleep", reason), span)
        if first is None:
            _time_out(OR.join(names), span)
        event = self._recall("event", *first)
        assert event is not None  # it had come when it was chosen
        return event.name, _decoded(event)

    def _chosen(self, names: tuple[str, ...], reason: str, wait: int, span: int | None) -> tuple[str, int] | None:
        """The name and the number of the event that came first, None if none came in time."""
        if (known := self._recall("sleep", _FIRST.format(reason), wait)) is not None:
            first = _decoded(known)
        else:
            awaited = tuple((name, self._unused(name)) for name in names)
            if (first := self._first_of(awaited)) is None:
                until = self._step_store.now() + NO_DEADLINE if span is None else self._end_of(reason, wait, span)
                if self._step_store.now() < until:
                    raise self._suspended(until, reason, awaited)
                self._read_anew()  # one may have come during this run
                first = self._first_of(awaited)
            # Stored: what later runs find must not depend on what has come by then.
            self._keep("sleep", _FIRST.format(reason), wait, codec.encode(first))
        if first is None:
            return None
        name, number = first
        with self._lock:
            self._used["event", name] = max(self._used["event", name], number)
        return name, number

    def _first_of(self, awaited: Awaited) -> tuple[str, int] | None:
        """The one of these events that the store has first; it has them in their order."""
        with self._lock:
            come = ((name, number) for kind, name, number in self._known or () if kind == "event")
            return next((event for event in come if event in awaited), None)

    def _unused(self, name: str) -> int:
        """The number of the next event of this name."""
        number = self._used["event", name] + 1
        while (name, number) in self._taken:
            number += 1
        return number

    def _suspended(self, until: int, reason: str, awaits: Awaited | None = None) -> Suspended:
        """Ends the run. Of coroutines that wait at once, the first one decides for what, and asks its question."""
        with self._lock:
            first = self._suspension = self._suspension or Suspended(until, reason, awaits)
        return Suspended(first.until, first.reason, first.awaits)

    def _ask(self, name: str, wait: int, question: Question, remind: Callable[[], None] | None) -> int:
        """Ask the question, and remind of it if that is due; returns when the next reminder is."""
        # Stored in every run that waits: its record may be gone, such as after the job failed and was retried.
        asked = self._recall("question", name, wait) or self._step("question", name, wait, encoded(question))
        self._store(asked)
        if question.remind is None:
            return asked.at + NO_DEADLINE
        waited = max(self._step_store.now() - asked.at, 0)
        intervals = waited // question.remind
        reminder = _REMINDER.format(name, wait)
        if remind is not None and intervals > 0 and self._recall("sleep", reminder, intervals) is None:
            remind()
            self._keep("sleep", reminder, intervals, None)
        return asked.at + (intervals + 1) * question.remind

    def _end_of(self, name: str, number: int, span: int) -> int:
        """When this time is over, counted from the first run that came here."""
        known = self._recall("sleep", name, number)
        if known is None:
            known = self._keep("sleep", name, number, str(self._step_store.now() + span))
        return int(_decoded(known))

    # -- the store

    def _next(self, kind: StepKind, name: str) -> int:
        with self._lock:
            self._used[kind, name] += 1
            return self._used[kind, name]

    def _recall(self, kind: StepKind, name: str, number: int) -> Step | None:
        with self._lock:  # two threads of a job read it once
            known = self._read() if self._known is None else self._known
            return known.get((kind, name, number))

    def _read_anew(self) -> None:
        with self._lock:
            self._read()

    def _read(self) -> dict[tuple[str, str, int], Step]:
        steps = self._step_store.steps(self._claim)
        self._known = {(step.kind, step.name, step.number): step for step in steps}
        self._undone = Counter(step.name for step in steps if step.kind == KIND and step.value is None)
        self._compensations = jobs_of(steps)
        chosen = (_decoded(step) for step in steps if step.name.startswith(_FIRST.format("")))
        self._taken = {tuple(first) for first in chosen if first is not None}
        return self._known

    def _keep(self, kind: StepKind, name: str, number: int, text: str | None) -> Step:
        return self._store(self._step(kind, name, number, text))

    def _step(self, kind: StepKind, name: str, number: int, text: str | None) -> Step:
        checksum = None if text is None else codec.checksum(text)
        return Step(kind, name, number, self._step_store.now(), text, checksum)

    def _store(self, step: Step) -> Step:
        return self._held(step, self._step_store.save_step(self._claim, step))

    def _held(self, step: Step, held: bool) -> Step:
        if not held:
            raise LeaseLost(
                f"job {self._claim.id}: its lease is lost, so {step.kind} {step.name!r} was not stored; "
                "stop working on it",
                job_id=self._claim.id,
            )
        return step


def result_of(step: Step, function: Callable[..., Any]) -> Any:
    """The step's result, decoded by the function's return annotation."""
    if step.value is not None and step.value.startswith(f'{{"{_UNSTORABLE}"'):
        reason = msgspec.json.decode(step.value)[_UNSTORABLE]
        raise ResultUnavailable(f"step {step.name!r} was done and is not done again, but {reason}; return plain data")
    value = _decoded(step)
    return value if value is None else Signature.of(function).rebuild_result(value)


def refuse_coroutines(name: str, function: Callable[..., Any]) -> None:
    """Refuse coroutine functions before the call: a step that was never awaited would count as done."""
    if inspect.iscoroutinefunction(function):
        raise InvalidJob(f"step {name!r}: its function is a coroutine; use `await current_job().astep(...)`")


def refuse_awaitable(name: str, value: Any) -> None:
    """The same for a function that returned an awaitable."""
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()  # it is never awaited, and Python would warn
        refuse = f"step {name!r}: its function returned an awaitable; use `await current_job().astep(...)`"
        raise InvalidJob(refuse)


def _decoded(step: Step) -> Any:
    if step.value is None:
        return None
    codec.verify(step.value, step.checksum or 0)
    return codec.decode(step.value)


def _time_out(name: str, span: int | None) -> NoReturn:
    within = "" if span is None else f" within {span / 1000:g} s"
    raise TimeoutError(f"event {name!r} did not come{within}")
