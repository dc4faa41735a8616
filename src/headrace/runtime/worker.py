"""A worker: one thread that settles what is finished and claims what can be started, in one call each turn.

An idle worker settles at once, a busy one in large batches, with no timer: runners ring when little is left to do.
Between turns it sleeps at the bell until the next job is due.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from headrace.core import outcomes
from headrace.core.clock import Clock
from headrace.core.model import Claim, Lease, Note, WorkerRow
from headrace.core.seal import Seal
from headrace.core.settings import Settings
from headrace.engines.archive import Archive
from headrace.engines.protocol import Engine
from headrace.errors import EngineUnavailable, HeadraceError
from headrace.runtime.chores import chores_of
from headrace.runtime.crew import Crew
from headrace.runtime.keeper import Companion, Keeper
from headrace.runtime.loop import Loop
from headrace.runtime.naming import new_worker_id
from headrace.runtime.plan import Planner
from headrace.runtime.preemption import run_in_the_way
from headrace.runtime.pulse import Pulse, end_run
from headrace.runtime.remembering import Remembering
from headrace.runtime.sandbox import Sandboxes
from headrace.runtime.sealing import sealed_note
from headrace.runtime.task import Task
from headrace.runtime.telling import WITHIN, Greeter
from headrace.runtime.threads import Threads
from headrace.runtime.timekeeper import Timekeeper
from headrace.runtime.trade import STALLED, Trade
from headrace.runtime.wear import is_worn_out
from headrace.runtime.worker_news import WorkerNews, serves_in_words

log = logging.getLogger("headrace.worker")

_UPKEEP = 1.0
_REAP_AT_ONCE = 1000
_OUTAGE_FIRST, _OUTAGE_LONGEST = 0.1, 2.0
_LAST_WORDS = 5.0  # how long a worker that stops tries to hand in what is left


class Worker:
    """Runs jobs with threads of this process, from start() to stop()."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        find_task: Callable[[str], Task[..., Any, Any] | None],
        task_names: Callable[[], Iterable[str]],
        clock: Clock,
        *,
        declare: Callable[[], object] = lambda: None,
        archive: Callable[[], Archive | None] | None = None,
        listener: Callable[[str], Companion] | None = None,
        drain: bool = False,
        at_most: int | None = None,
        seal: Seal | None = None,
    ) -> None:
        self.worker = self.id = new_worker_id()
        self._engine = engine
        self._settings = settings
        self._task_names = task_names
        self._declare = declare
        self._archive = archive
        self._listener = listener
        self._clock = clock
        self._drain = drain
        self._at_most = at_most
        self._find_task = find_task
        self._seal = seal
        remembering = Remembering(engine, settings.lease, seal)
        self.steps, self.remember = remembering.steps, remembering.remember
        self.largest = settings.max_payload
        self._started_at = clock.now()
        self._state = "starting"
        self._paused = False
        self._stop_at: float | None = None
        self._next_upkeep = self._ordered_at = self._outage = self._outage_ends = 0.0
        self._news = WorkerNews(engine, self.id, tells=settings.events)
        self._thread: threading.Thread | None = None
        self.stopped = threading.Event()
        self.recycle = False

    # -- from outside

    def start(self) -> Worker:
        """Sign on and begin to work, in threads of their own. One that works already goes on as it is."""
        if self.stopped.is_set():
            raise HeadraceError("this worker has stopped; make a new one")
        if self._thread is not None:
            return self
        self._bell = self._engine.listen("work", self._settings.queues or ())
        self._crew = Crew(self._settings.concurrency, self._clock, self._bell.ring, self)
        planner = Planner(self._find_task, self._settings.timeout, self._settings.max_payload, self._seal)
        self._trade = Trade(self.id, self._engine, self._crew, planner, self._settings, self._at_most)
        self._sandboxes = Sandboxes()
        self._threads = Threads(self._crew, self._sandboxes)
        self._loop = Loop(self._crew)
        self._crew.wake_loop = self._loop.wake
        self._state = "running"  # signed on as such, so that nobody reads "starting" until the first beat
        described = self.describe()
        self._crew.presence = self._presence = self._engine.attend(described)
        self._pulse = Pulse(
            self._engine, self._crew, self._threads, self._loop, self, self._settings.lease, self._settings.heartbeat
        )
        # Who only works off what is there fires nothing, and so makes no new work; it leaves the chores to others.
        fires = not self._drain and self._at_most is None
        chores = chores_of(self._engine, self._settings, self._archive, planner.removing) if fires else ()
        keeper = Keeper(chores, has_jobs=lambda: bool(self._crew.running or self._crew.waiting))
        timekeepers = [Timekeeper(self._engine, self._declare)] if fires else []
        self._pulse.watch(self._crew.sign, keeper.sign, *(each.sign for each in timekeepers))
        listeners = [self._listener(self.id)] if self._listener is not None else []
        # Who listens comes first, and so hears that its own worker has started.
        self._start([*listeners, Greeter(self._engine, described), *timekeepers, keeper])
        log.info(
            "worker %s started: concurrency %d, %s",
            self.id,
            self._settings.concurrency,
            serves_in_words(self._settings),
        )
        return self

    def _start(self, companions: Sequence[Companion]) -> None:
        """Start all, or none: if one can't, those that are at work already would go on without a worker."""
        self._companions: list[Companion] = []
        self._thread = threading.Thread(target=self._work, name="headrace-worker", daemon=True)
        try:
            for companion in companions:
                companion.start()
                self._companions.append(companion)
            self._pulse.start()
            self._thread.start()
        except BaseException:
            self._close()
            self.stopped.set()
            raise

    def request_stop(self, patience: float | None = None) -> None:
        """Begin to stop: finish what runs within `patience` seconds, give the rest back. Safe in signal handlers."""
        limit = self._settings.shutdown_timeout if patience is None else patience
        deadline = time.monotonic() + limit
        self._stop_at = deadline if self._stop_at is None else min(self._stop_at, deadline)
        if self._thread is not None:
            self._bell.ring()

    def stop(self, patience: float | None = None) -> None:
        """Stop and wait until it is done."""
        self.request_stop(patience)
        if self._thread is None:  # it was never started
            self.stopped.set()
        self.join()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the worker has stopped."""
        return self.stopped.wait(timeout)

    @property
    def completed(self) -> int:
        """How many jobs it has completed."""
        return self._trade.completed

    @property
    def failed(self) -> int:
        """How many jobs failed for good in its hands."""
        return self._trade.failed

    def pause(self) -> None:
        """Start no more jobs; those that run go on."""
        self._order("pause")

    def resume(self) -> None:
        """Start jobs again."""
        self._order("run")

    def __enter__(self) -> Worker:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- what the pulse and the contexts need

    def describe(self) -> WorkerRow:
        settings = self._settings
        return WorkerRow(
            id=self.id,
            host=socket.gethostname(),
            pid=os.getpid(),
            started_at=self._started_at,
            seen_at=self._clock.now(),
            state="stopping" if self._stop_at is not None else "paused" if self._paused else self._state,
            wish="run",
            queues=msgspec.json.encode(settings.queues or {}).decode(),
            concurrency=settings.concurrency,
            running=len(self._crew.running),
            completed=self._trade.completed,
            failed=self._trade.failed,
            tasks=msgspec.json.encode(sorted(self._task_names())).decode(),
            heartbeat=int(settings.heartbeat * 1000),
            capabilities=msgspec.json.encode(settings.capabilities).decode(),
        )

    def held(self) -> Iterable[Claim]:
        return list(self._trade.held.values())

    def drop(self, lease: Lease) -> None:
        self._trade.held.pop((lease.id, lease.version), None)

    def _order(self, wish: str) -> None:
        self._engine.desk.wish(self.id, wish)
        self._ordered_at = time.monotonic()
        self.obey(wish, self._ordered_at)

    def obey(self, wish: str, asked_at: float) -> None:
        """Do as an operator wishes, unless that was asked before a wish that is fulfilled already."""
        if asked_at < self._ordered_at:
            return
        if wish == "stop" and self._stop_at is None:
            log.info("worker %s was asked to stop", self.id)
            self.request_stop()
        if (wish == "pause") != self._paused:
            self._paused = wish == "pause"
            log.info("worker %s %s", self.id, "paused" if self._paused else "resumed")
            self._bell.ring()

    def now(self) -> int:
        return self._clock.now()

    def note(self, note: Note) -> None:
        self._crew.notes.append(sealed_note(self._seal, note))

    def renew(self, claim: Claim) -> bool:
        return self._pulse.renew_one(claim)

    # -- the thread

    def _work(self) -> None:
        try:
            while self._stop_at is None:
                self._bell.wait(self._guarded_turn())
            self._wind_down()
        except BaseException:
            log.exception("worker %s ends after an error", self.id)
        finally:
            try:
                self._close()
            finally:
                self.stopped.set()  # whoever waits for the end must not wait for ever, whatever went wrong in it

    def _guarded_turn(self) -> float | None:
        """A turn that survives the store being away, and anything else. Meanwhile no ring hurries the next one."""
        self._crew.sign.back_in(_OUTAGE_LONGEST)  # the longest pause there is
        left = self._outage_ends - time.monotonic()
        if left > 0:
            return left
        try:
            pause = self._turn()
            self._news.worked()
            self._outage = 0.0
            return pause
        except EngineUnavailable as error:
            self._trade.recovery.lost()
            self._news.failed(error)
            self._outage = min(max(self._outage * 2, _OUTAGE_FIRST), _OUTAGE_LONGEST)
            log.warning("the store is not available: %s; trying again in %.1f s", error, self._outage)
        except Exception as error:
            self._news.failed(error)
            self._outage = 1.0
            log.exception("a turn of worker %s failed; it goes on", self.id)
        self._outage_ends = time.monotonic() + self._outage
        return self._outage

    def _turn(self) -> float | None:
        """Settle and claim once; the seconds to sleep, unless rung."""
        crew, trade = self._crew, self._trade
        room = 0 if self._paused or self._stop_at is not None else trade.room()
        if room == 0 and not self._paused and (patience := trade.patience()) > 0:
            return patience
        claims, next_at = trade.exchange(room)
        if self._paused:  # meanwhile, or with jobs at hand that were fetched before
            trade.give_back(claims)
        else:
            crew.place(trade.planned(claims))
        self._threads.ensure()
        self._upkeep()
        if len(claims) == room > 0 and crew.waiting <= crew.low_water:
            return 0.0
        trade.give_back_if_stalled()
        if (
            not trade.held
            and not crew.done
            and (trade.sated or (self._drain and (trade.store_is_empty or self._paused)))
        ):
            self._news.drained(trade)
            self.request_stop()
        return self._pause(next_at)

    def _pause(self, next_at: int | None) -> float:
        until_upkeep = max(self._next_upkeep - time.monotonic(), 0.0)
        if self._trade.has_news:
            until_upkeep = min(until_upkeep, WITHIN)
        if self._crew.waiting:
            return min(until_upkeep, STALLED)
        self._trade.idle()
        return until_upkeep if next_at is None else min(until_upkeep, max(next_at - self._clock.now(), 0) / 1000)

    # -- upkeep that any worker may do at any time

    def _upkeep(self) -> None:
        if time.monotonic() < self._next_upkeep:
            return
        self._next_upkeep = time.monotonic() + _UPKEEP
        for job in self._engine.reap(_REAP_AT_ONCE, self._settings.max_crashes):
            log.warning("job %s: taken over from worker %s, now %s", job.id, job.worker, job.state)
            self._trade.store_is_empty = False
        self._news.drained(self._trade)
        if not self._paused and not self._trade.sated and self._settings.strategy in (None, "priority"):
            self._make_way()
        if is_worn_out(self.id, self._settings, self._trade.claimed):
            self.recycle = True
            self.request_stop()

    def _make_way(self) -> None:
        found = run_in_the_way(self._crew, self._engine.desk, self._settings.queues)
        if found is not None and not self._paused:  # it may have been paused while it looked
            run, urgent = found
            log.info("job %s makes way for the more urgent %s", run.claim.id, urgent.id, extra=run.about)
            outcome = outcomes.release(run.claim, f"made way for the more urgent {urgent.id}", self._clock.now())
            self._trade.first = urgent.queue
            end_run(self._crew, self._threads, run, outcome, "a more urgent job needs its slot")

    # -- the end

    def _wind_down(self) -> None:
        """Give back what was not begun, let runs finish until the deadline, release the rest."""
        crew = self._crew
        crew.sign.over()
        log.info("worker %s stops: %d jobs are running", self.id, len(crew.running))
        while True:
            self._trade.give_back()
            if self._stop_at is not None and time.monotonic() >= self._stop_at:
                self._release_runs()
            pause = self._guarded_settle()
            if not crew.running and not crew.done and not self._trade.held:
                return
            left = (self._stop_at or 0.0) - time.monotonic()
            if left < -_LAST_WORDS:
                log.error("worker %s could not hand in %d outcomes: the store is away", self.id, len(crew.done))
                return
            self._bell.wait(min(pause, max(left, 0.01)))

    def _guarded_settle(self) -> float:
        try:
            self._trade.exchange(0)
            return _UPKEEP
        except EngineUnavailable as error:
            log.warning("the store is not available: %s", error)
            return _OUTAGE_FIRST

    def _release_runs(self) -> None:
        for run in list(self._crew.running.values()):
            log.warning("job %s (%s) did not finish in time; released", run.claim.id, run.claim.task, extra=run.about)
            outcome = outcomes.release(run.claim, "its worker was stopped", self._clock.now())
            end_run(self._crew, self._threads, run, outcome, "the worker stops")

    def _close(self) -> None:
        self._state = "stopped"
        with contextlib.ExitStack() as steps:  # from the last to the first, each one even if another fails
            steps.callback(self._bell.close)
            steps.callback(self._presence.close)
            steps.callback(self._sign_off)
            steps.callback(self._sandboxes.stop)
            steps.callback(self._pulse.stop)
            steps.callback(self._loop.stop, 1.0)
            steps.callback(self._threads.stop)
            for companion in self._companions:
                steps.callback(companion.stop)
        log.info("worker %s stopped: %d completed, %d failed", self.id, self._trade.completed, self._trade.failed)

    def _sign_off(self) -> None:
        with contextlib.suppress(EngineUnavailable):
            self._engine.sign_off(self.id)

    def __repr__(self) -> str:
        return f"<Worker {self.id} {self._state}>"
