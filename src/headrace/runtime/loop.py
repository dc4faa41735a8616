"""Runs `async def` tasks on one event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from headrace.core.model import Outcome
from headrace.core.outcomes import release
from headrace.runtime.context import current
from headrace.runtime.crew import Crew, Run
from headrace.runtime.plan import conclude, settle_delay


class Loop:
    """The event loop of one worker."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: dict[asyncio.Task[None], Run] = {}
        self._asked = 0.0
        self._answered = 0.0

    def wake(self) -> None:
        """Have waiting claims started; the loop itself starts with the first one."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._turn, name="headrace-loop", daemon=True)
                self._thread.start()
        self._loop.call_soon_threadsafe(self._fill)

    def stop(self, patience: float) -> None:
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(self._cancel_all)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(patience)

    # -- the watchdog's questions

    def blocked_for(self) -> float:
        """For how many seconds the loop has not answered."""
        if self._loop is None or not self._tasks:
            return 0.0
        now = time.monotonic()
        if self._asked > self._answered:
            return now - self._asked
        self._asked = now
        self._loop.call_soon_threadsafe(self._answer)
        return 0.0

    def blocker(self) -> tuple[Run | None, int | None]:
        """The run the loop is inside of just now, and the loop's thread."""
        task = asyncio.current_task(self._loop) if self._loop else None
        return self._tasks.get(task) if task else None, self._thread.ident if self._thread else None

    def _answer(self) -> None:
        self._answered = time.monotonic()

    # -- inside the loop's thread

    def _turn(self) -> None:
        loop = self._loop
        assert loop is not None
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            if self._tasks:
                loop.run_until_complete(asyncio.wait(list(self._tasks), timeout=1.0))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()

    def _fill(self) -> None:
        crew = self._crew
        while crew.ready_async and (slot := crew.take_slot()) is not None:
            try:
                claim, plan = crew.ready_async.popleft()
            except IndexError:  # taken back by the worker
                crew.free_slot(slot)
                return
            run = crew.begin(claim, plan, slot)
            task = asyncio.get_running_loop().create_task(self._perform(run), name=f"headrace-{claim.id}")
            self._tasks[task] = run
            run.abort = self._aborter(task)
            task.add_done_callback(self._over)

    def _aborter(self, task: asyncio.Task[None]) -> Any:
        loop = asyncio.get_running_loop()

        def abort(reason: str) -> None:
            loop.call_soon_threadsafe(task.cancel, reason)

        return abort

    def _over(self, task: asyncio.Task[None]) -> None:
        run = self._tasks.pop(task)
        if task.cancelled():
            if run.lost:
                self._crew.end(run, release(run.claim, "its lease was lost", self._crew.now()))
        elif (error := task.exception()) is not None:
            self._crew.end(run, conclude(run.plan, run.claim, error, self._crew.now))
        self._crew.return_slot(run.slot)
        self._fill()

    def _cancel_all(self) -> None:
        for task in list(self._tasks):
            task.cancel("the worker stops")

    async def _perform(self, run: Run) -> None:
        current.set(run.context)
        outcome = await self._outcome(run)
        self._crew.end(run, outcome)

    async def _outcome(self, run: Run) -> Outcome:
        claim, plan, now = run.claim, run.plan, self._crew.now
        try:
            args, kwargs = plan.arguments(claim)
            return plan.success(claim, await plan.task.function(*args, **kwargs), now())
        except asyncio.CancelledError as error:
            if run.context.cancel_requested:
                raise  # ended by the worker, which has recorded why
            failure: BaseException = error
        except BaseException as error:  # SystemExit of a task must not end the worker
            failure = error
        try:
            return plan.failure(claim, failure, await settle_delay(plan.delay(claim, failure)), now())
        except Exception:  # a broken backoff function: told by the sync path
            return conclude(plan, claim, failure, now)
