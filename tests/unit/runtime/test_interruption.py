"""An interruption ends the function of its run, and never what the thread does before or after it."""

from __future__ import annotations

import itertools
import logging
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, cast

import pytest

from headrace import JobInterrupted
from headrace.engines.shared import shield
from headrace.engines.shared.shield import shielded, shields
from headrace.runtime.worker.attempt import Attempt
from headrace.runtime.worker.runners import interruption as module
from headrace.runtime.worker.runners.interruption import Interruption, interruptible
from headrace.runtime.worker.runners.sandbox import Sandbox
from tests.support.waiting import PATIENCE, eventually


def spin() -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        pass


class Ran:
    """A thread that runs the function once, as a run that may be interrupted."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.value: Any = None
        self.error: BaseException | None = None
        self.interruption: Interruption
        self._function = interruptible(function)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._ready.wait(PATIENCE)

    def _run(self) -> None:
        self.interruption = Interruption()
        with self.interruption.installed():
            self._ready.set()
            try:
                self.value = self._function()
            except BaseException as error:
                self.error = error

    def end(self) -> Ran:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self


def test_it_raises_in_the_function_which_may_clean_up() -> None:
    cleaned = threading.Event()
    began = threading.Event()

    def function() -> None:
        try:
            began.set()
            spin()
        finally:
            cleaned.set()

    ran = Ran(function)
    assert began.wait(PATIENCE)
    assert ran.interruption.interrupt()
    assert isinstance(ran.end().error, JobInterrupted)
    assert cleaned.is_set()
    assert not ran.interruption.interrupt()


def test_an_exception_that_was_caught_is_not_raised_again() -> None:
    began, caught, go_on = threading.Event(), threading.Event(), threading.Event()

    def function() -> str:
        try:
            began.set()
            spin()
        except JobInterrupted:
            caught.set()
        assert go_on.wait(PATIENCE)
        return "partial"

    ran = Ran(function)
    assert began.wait(PATIENCE)
    ran.interruption.interrupt()
    assert caught.wait(PATIENCE)
    ran.interruption.interrupt()
    go_on.set()
    assert ran.end().value == "partial"


def test_an_interruption_before_the_function_begins_keeps_it_from_beginning() -> None:
    interruption, began = Interruption(), []
    assert interruption.interrupt()
    with interruption.installed(), pytest.raises(JobInterrupted):
        interruptible(lambda: began.append(1))()
    assert not began


def test_shielded_code_around_the_function_runs_whether_it_is_interrupted_or_not() -> None:
    """As in a hook that uses the store."""
    steps: list[str] = []
    note = shielded(steps.append)
    interruption = Interruption()
    with interruption.installed():
        note("before")
        assert interruption.interrupt()
        note("interrupted")
        with pytest.raises(JobInterrupted):
            interruptible(lambda: note("began"))()
        note("after")
    assert steps == ["before", "interrupted", "after"]


def test_shielded_code_runs_to_its_end_before_the_exception_comes() -> None:
    began, go_on, steps = threading.Event(), threading.Event(), []

    @shielded
    def inner() -> None:
        steps.append("inner")

    @shielded
    def outer() -> None:
        began.set()
        assert go_on.wait(PATIENCE)
        inner()
        steps.append("outer")

    def function() -> None:
        outer()
        steps.append("after")

    ran = Ran(function)
    assert began.wait(PATIENCE)
    assert ran.interruption.interrupt()
    go_on.set()
    assert isinstance(ran.end().error, JobInterrupted)
    assert steps == ["inner", "outer"]
    assert not shields


def test_an_interrupted_function_may_call_shielded_code_while_it_cleans_up() -> None:
    began, steps = threading.Event(), []

    @shielded
    def report() -> None:
        steps.append("reported")

    def function() -> None:
        try:
            began.set()
            spin()
        finally:
            report()

    ran = Ran(function)
    assert began.wait(PATIENCE)
    ran.interruption.interrupt()
    assert isinstance(ran.end().error, JobInterrupted)
    assert steps == ["reported"]


def test_a_log_handler_is_left_before_the_exception_comes() -> None:
    began, go_on, handled = threading.Event(), threading.Event(), []

    class Slow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            began.set()
            assert go_on.wait(PATIENCE)
            handled.append(record.getMessage())

    log = logging.getLogger("headrace.tests.interruption")
    handler = Slow()
    log.addHandler(handler)

    def function() -> None:
        log.warning("hello")
        spin()

    ran = Ran(function)
    assert began.wait(PATIENCE)
    assert ran.interruption.interrupt()
    go_on.set()
    assert isinstance(ran.end().error, JobInterrupted)
    log.removeHandler(handler)
    assert handled == ["hello"]


def test_an_exception_that_is_on_its_way_when_the_function_returns_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    sending, send, go_on, after = (threading.Event() for _ in range(4))
    raised: list[type[BaseException]] = []

    def raise_late(thread: int, error: type[BaseException]) -> None:
        sending.set()
        assert send.wait(PATIENCE)
        raised.append(error)
        raise_in_thread(thread, error)

    raise_in_thread = module.raise_in_thread
    monkeypatch.setattr(module, "raise_in_thread", raise_late)

    def run_twice() -> list[str]:
        interruption = Interruption()
        with interruption.installed():
            ran.append(interruption)
            found = [interruptible(first)()]
        after.set()
        for _ in range(1000):
            found.append("next job") if not found[1:] else None
        return found

    def first() -> str:
        assert go_on.wait(PATIENCE)
        return "first job"

    ran: list[Interruption] = []
    found: list[list[str]] = []
    thread = threading.Thread(target=lambda: found.append(run_twice()))
    thread.start()
    eventually(lambda: ran)
    other = threading.Thread(target=ran[0].interrupt)
    other.start()
    assert sending.wait(PATIENCE)
    go_on.set()
    assert not after.wait(0.02)
    send.set()
    other.join(PATIENCE)
    thread.join(PATIENCE)
    assert raised == [JobInterrupted]
    assert found == [["first job", "next job"]]


def test_an_exception_that_is_on_its_way_comes_before_shielded_code_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    sending, send, go_on, done = threading.Event(), threading.Event(), threading.Event(), threading.Event()
    raise_in_thread = module.raise_in_thread

    def raise_late(thread: int, error: type[BaseException]) -> None:
        sending.set()
        assert send.wait(PATIENCE)
        raise_in_thread(thread, error)

    monkeypatch.setattr(module, "raise_in_thread", raise_late)
    operation = shielded(done.set)

    def function() -> None:
        assert go_on.wait(PATIENCE)
        operation()

    ran = Ran(function)
    other = threading.Thread(target=ran.interruption.interrupt)
    eventually(lambda: ran.interruption._token, "the beginning")
    other.start()
    assert sending.wait(PATIENCE)
    go_on.set()
    assert not done.wait(0.02)
    send.set()
    other.join(PATIENCE)
    assert isinstance(ran.end().error, JobInterrupted)
    assert not done.is_set()


def test_a_result_that_was_returned_is_kept_if_the_exception_comes_after_that() -> None:
    class Late(Interruption):
        def _end(self) -> None:
            if not self._is_sent:
                self._token.pop()
                self._is_due = self._is_sent = True
                raise JobInterrupted
            super()._end()

    interruption = Late()
    with interruption.installed():
        assert interruptible(lambda: "done")() == "done"
        assert not interruption.interrupt()


class AtStep(Interruption):
    """Interrupts itself at the given bytecode of its call, of what it calls and of shielded code."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.steps_left = step

    def trace(self, frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code.co_filename not in (module.__file__, shield.__file__, __file__):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.steps_left -= 1
            if self.steps_left == 0:
                self.interrupt()
        return self.trace

    def _raise(self) -> None:
        self._is_sent = True  # before the exception, which comes at once, and here
        super()._raise()


def test_it_may_come_at_any_bytecode() -> None:
    @shielded
    def operation() -> None:
        held.append(1)
        nothing()
        held.pop()

    def nothing() -> None: ...

    def function() -> str:
        operation()
        operation()
        return "done"

    held: list[int] = []
    ends: dict[str, int] = {"done": 0, "interrupted": 0}
    before = sys.gettrace()
    for step in range(1, 5000):
        run = AtStep(step)
        with run.installed():
            sys.settrace(run.trace)
            try:
                ends[interruptible(function)()] += 1
            except JobInterrupted:
                ends["interrupted"] += 1
            finally:
                sys.settrace(before)
        nothing()
        assert not held, step
        assert not shields
        if run.steps_left > 0:
            break
    assert run.steps_left > 0
    assert ends["interrupted"] > 100
    assert ends["done"] > 10, ends


@pytest.mark.parametrize("runs", [2000, pytest.param(50_000, marks=pytest.mark.slow)])
def test_no_exception_escapes_from_runs_that_end_while_they_are_interrupted(
    runs: int,
) -> None:
    """Also around their end, in shielded code, and in their own handling of errors."""
    switches = sys.getswitchinterval()
    sys.setswitchinterval(0.000001)
    try:
        storm(runs)
    finally:
        sys.setswitchinterval(switches)


class Storm:
    """Runs of all kinds, one after the other in one thread."""

    def __init__(self, runs: int) -> None:
        self.current: list[Interruption] = []
        self.ends = dict.fromkeys(("returned", "raised", "interrupted"), 0)
        self.stray: list[BaseException] = []
        self.over = threading.Event()
        self._runs = runs
        self._deadline = time.monotonic() + PATIENCE  # on a busy machine the interrupter may come late
        self._open: list[int] = []

    def work(self) -> None:
        try:
            for number in itertools.count():
                if number >= self._runs and (min(self.ends.values()) > 10 or time.monotonic() > self._deadline):
                    break
                self.ends[self._end_of_run(number)] += 1
                assert not self._open
        except BaseException as error:
            self.stray.append(error)
        self.over.set()

    def _end_of_run(self, number: int) -> str:
        interruption = Interruption()
        with interruption.installed():
            self.current[:] = [interruption]
            try:
                assert interruptible(self._function)(number) == number
            except JobInterrupted:
                return "interrupted"
            except ValueError:
                return "raised"
            return "returned"

    def _function(self, number: int) -> int:
        for _ in range(number % 7):
            self._operation()
        if number % 5 == 0:
            raise ValueError(number)
        return number

    @shielded
    def _operation(self) -> None:
        self._open.append(1)
        for _ in range(5):
            pass
        self._open.pop()


def storm(runs: int) -> None:
    storm = Storm(runs)
    thread = threading.Thread(target=storm.work)
    thread.start()
    while not storm.over.is_set():
        for interruption in storm.current:
            interruption.interrupt()
        storm.over.wait(0.00001)
    thread.join(PATIENCE)
    assert not storm.stray
    assert sum(storm.ends.values()) >= runs
    assert min(storm.ends.values()) > 10, storm.ends
    assert not shields


def test_without_the_means_of_the_interpreter_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_raiser", lambda: None)
    assert not module.can_interrupt()
    module.raise_in_thread(threading.get_ident(), JobInterrupted)


def test_an_interrupt_does_not_wait_for_a_child_that_does_not_read_its_job() -> None:
    """It is sent after the job; the heartbeat kills a child that is still running at the end of its time."""
    sandbox, run = Sandbox.__new__(Sandbox), cast(Attempt, object())
    sandbox._lock, sandbox._sending, sandbox._run = threading.Lock(), threading.Lock(), run
    with sandbox._sending:
        assert sandbox._interrupt_during(run)
    assert sandbox._to_interrupt is run
    assert not sandbox._lock.locked()
