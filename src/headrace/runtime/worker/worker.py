"""A worker: one thread that settles what is finished and claims what can be started, in one call each turn.

An idle worker settles at once, a busy one in large batches, with no timer: runners ring when little is left to do.
Between turns it sleeps at the bell until the next job is due.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from headrace.core.clock import Clock
from headrace.core.codec.encryption import Cipher
from headrace.core.jobs.records import Claim, JobNote, Lease, WorkerRow
from headrace.core.settings.settings import Settings
from headrace.core.worker_commands import act_of, log_level_of
from headrace.engines.protocol.archive import Archive
from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable, HeadraceError
from headrace.runtime.context.logs import WishedLevels
from headrace.runtime.context.step_store import RetryingStepStore
from headrace.runtime.jobs.encryption import encrypted_note
from headrace.runtime.jobs.task import Task
from headrace.runtime.maintenance.loop import MaintenanceLoop, Service
from headrace.runtime.maintenance.pace import MaintenancePace
from headrace.runtime.maintenance.tasks import maintenance_tasks_of
from headrace.runtime.process.recycling import is_worn_out
from headrace.runtime.process.worker_id import entry_of, new_worker_id, what_it_serves
from headrace.runtime.schedules.scheduler import Scheduler
from headrace.runtime.worker.event_loop import EventLoop
from headrace.runtime.worker.events import WITHIN, WorkerEvents
from headrace.runtime.worker.exchange import STALLED, WorkerExchange
from headrace.runtime.worker.execution import RunSpecs
from headrace.runtime.worker.exit_hook import stop_at_exit
from headrace.runtime.worker.heartbeat import Heartbeat, release_runs
from headrace.runtime.worker.idle import IdleState
from headrace.runtime.worker.preemption import make_way, run_in_the_way
from headrace.runtime.worker.sandbox import Sandboxes
from headrace.runtime.worker.state import WorkerState
from headrace.runtime.worker.status_events import StatusEvents
from headrace.runtime.worker.threads import Threads
from headrace.runtime.worker.wait_for_store import OUTAGE_FIRST, OUTAGE_LONGEST, await_store

log = logging.getLogger("headrace.worker")
_UPKEEP, _REAP_AT_ONCE = 1.0, 1000
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
        listener: Callable[[str], Service] | None = None,
        drain: bool = False,
        at_most: int | None = None,
        cipher: Cipher | None = None,
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
        self._cipher = cipher
        remembering = RetryingStepStore(engine, settings.lease, cipher)
        self.steps, self.remember = remembering.steps, remembering.remember
        self.largest = settings.max_payload
        self._started_at = clock.now()
        self._state = "starting"
        self._paused = False
        self._stop_at: float | None = None
        self._log_levels = WishedLevels()
        self._next_upkeep = self._ordered_at = self._outage = self._outage_ends = 0.0
        self._rest = IdleState(clock)
        self.leases_end = self._rest.leases_end
        self.now = clock.now
        self._news = StatusEvents(engine, self.id, tells=settings.events)
        self._thread: threading.Thread | None = None
        self.stopped = threading.Event()
        self.recycle = False
        self._forget_exit: Callable[[], None] = lambda: None

    # -- from outside

    def start(self) -> Worker:
        """Sign on and begin to work, in threads of their own. One that works already goes on as it is."""
        if self.stopped.is_set():
            raise HeadraceError("this worker has stopped; make a new one")
        if self._thread is not None:
            return self
        is_drain = self._drain or self._at_most is not None  # it ends by itself, and does not wait
        if not is_drain and not await_store(
            lambda: self._engine.unregister_worker(self.id), lambda: self._stop_at is not None
        ):
            self.stopped.set()
            return self
        self._bell = self._engine.listen("work", self._settings.queues or ())
        self._worker_state = WorkerState(self._settings.concurrency, self._clock, self._bell.ring, self)
        planner = RunSpecs(self._find_task, self._settings.timeout, self._settings.max_payload, self._cipher)
        mine = (self._settings, self._at_most, self._task_names)
        self._worker_exchange = WorkerExchange(self.id, self._engine, self._worker_state, planner, *mine)
        self.store_lost = self._worker_exchange.recovery.lost  # an idle worker, too, comes back slowly
        self._sandboxes = Sandboxes()
        self._threads = Threads(self._worker_state, self._sandboxes)
        self._loop = EventLoop(self._worker_state)
        self._worker_state.wake_loop = self._loop.wake
        self._state = "running"  # signed on as such, so that nobody reads "starting" until the first beat
        described = self.describe()
        self._worker_state.presence = self._presence = self._engine.register_worker(described)
        self._heartbeat = Heartbeat(
            self._engine, self._worker_state, self._threads, self._loop, self, self._settings.lease, self._settings.beat
        )
        # Who only works off what is there fires nothing, and so makes no new work; it leaves the chores to others.
        maintenance_tasks = (
            () if is_drain else maintenance_tasks_of(self._engine, self._settings, self._archive, planner.removing)
        )
        keeper = MaintenanceLoop(
            maintenance_tasks, self._worker_state.has_jobs, MaintenancePace(self._engine, self.id, self._worker_state)
        )
        timekeepers = [] if is_drain else [Scheduler(self._engine, self._declare)]
        self._heartbeat.watch(self._worker_state.sign, keeper.sign, *(each.sign for each in timekeepers))
        listeners = [] if self._listener is None else [self._listener(self.id)]
        # Who listens comes first, and so hears that its own worker has started.
        self._start([*listeners, WorkerEvents(self._engine, described), *timekeepers, keeper])
        self._say("worker.started", f"started: {what_it_serves(self._settings)}")
        return self

    def _start(self, companions: Sequence[Service]) -> None:
        """Start all, or none: if one can't, those that are at work already would go on without a worker."""
        self._companions: list[Service] = []
        self._thread = threading.Thread(target=self._work, name="headrace-worker", daemon=True)
        try:
            for service in companions:
                service.start()
                self._companions.append(service)
            self._heartbeat.start()
            self._forget_exit = stop_at_exit(self)  # before the thread, which may be over at once
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
    def is_stalled(self) -> bool:
        """Whether the loop that fetches and settles jobs has stood still for long, although the process lives."""
        return self._heartbeat.is_stalled(self._worker_state.sign)

    @property
    def completed(self) -> int:
        """How many jobs it has completed."""
        return self._worker_exchange.completed

    @property
    def failed(self) -> int:
        """How many jobs failed for good in its hands."""
        return self._worker_exchange.failed

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
        state = "stopping" if self._stop_at is not None else "paused" if self._paused else self._state
        done = (len(self._worker_state.running), self._worker_exchange.completed, self._worker_exchange.failed)
        return entry_of(self.id, state, self._settings, self._task_names(), done, self._started_at, self._clock.now())

    def held(self) -> Iterable[Claim]:
        return list(self._worker_exchange.held.values())

    def drop(self, lease: Lease) -> None:
        self._worker_exchange.held.pop((lease.id, lease.version), None)

    def _order(self, wish: str) -> None:
        self._engine.queries.wish(self.id, wish)
        self._ordered_at = time.monotonic()
        self.apply_command(wish, self._ordered_at)

    def apply_command(self, wish: str, asked_at: float) -> None:
        """Do as an operator wishes, unless that was asked before a wish that is fulfilled already."""
        if asked_at < self._ordered_at:
            return
        self._log_levels.follow(log_level_of(wish), self._say)
        act = act_of(wish)
        if act == "stop" and self._stop_at is None:
            self._say("worker.stopping", "was asked to stop")
            self.request_stop()
        if (act == "pause") != self._paused:
            self._paused, told = (True, "paused") if act == "pause" else (False, "resumed")
            self._say(f"worker.{told}", told)
            self._bell.ring()

    def _say(self, event: str, told: str) -> None:
        log.info("worker %s %s", self.id, told, extra={"event": event, "worker": self.id})

    def note(self, note: JobNote) -> None:
        self._worker_state.notes.append(encrypted_note(self._cipher, note))

    def renew(self, claim: Claim) -> bool:
        return self._heartbeat.renew_one(claim)

    # -- the thread

    def _work(self) -> None:
        try:
            while self._stop_at is None:
                self._rest.heard(self._bell.wait(self._guarded_turn()))
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
        self._worker_state.sign.back_in(OUTAGE_LONGEST)  # the longest pause there is
        left = self._outage_ends - time.monotonic()
        if left > 0:
            return left
        try:
            pause = self._turn()
            self._news.worked()
            self._outage = 0.0
            return pause
        except EngineUnavailable as error:
            self._worker_exchange.recovery.lost()
            self._news.failed(error)
            self._outage = min(max(self._outage * 2, OUTAGE_FIRST), OUTAGE_LONGEST)
            log.warning("the store is not available: %s; trying again in %.1f s", error, self._outage)
        except Exception as error:
            self._news.failed(error)
            self._outage = 1.0
            log.exception("a turn of worker %s failed; it goes on", self.id)
        self._outage_ends = time.monotonic() + self._outage
        return self._outage

    def _turn(self) -> float | None:
        """Settle and claim once; the seconds to sleep, unless rung."""
        worker_state, worker_exchange = self._worker_state, self._worker_exchange
        if self._is_idle() and not (self._rest.is_over or worker_exchange.knowledge.has_grown()):
            self._staleness_store()
            return self._pause(self._rest.next_at)
        room = 0 if self._paused or self._stop_at is not None else worker_exchange.room()
        if room == 0 and not self._paused and (patience := worker_exchange.patience()) > 0:
            return patience
        self._rest.end()
        claims, next_at = worker_exchange.exchange(room)
        self._rest.turned(len(claims), next_at)
        if self._paused:  # meanwhile, or with jobs at hand that were fetched before
            worker_exchange.give_back(claims)
        else:
            worker_state.place(worker_exchange.planned(claims))
        self._threads.ensure()
        self._staleness_store()
        if len(claims) == room > 0 and worker_state.waiting <= worker_state.low_water:
            return 0.0
        worker_exchange.give_back_if_stalled()
        is_over = worker_exchange.job_limit_reached or (
            self._drain and (worker_exchange.store_is_empty or self._paused)
        )
        if is_over and not worker_exchange.held and not worker_state.done:
            if self._at_most is None and worker_exchange.job_limit_reached:  # by max_jobs
                log.info("worker %s has run %d jobs and makes room for a fresh one", self.id, worker_exchange.claimed)
                self.recycle = True
            self._news.drained(worker_exchange)
            self.request_stop()
        return self._pause(next_at)

    def _is_idle(self) -> bool:
        """Whether nothing runs, or is to be handed in or told. Who works off what is there asks until it is empty."""
        worker_state, worker_exchange = self._worker_state, self._worker_exchange
        return not (
            self._drain
            or self._at_most
            or worker_exchange.held
            or worker_state.done
            or worker_state.notes
            or worker_exchange.has_news
        )

    def _pause(self, next_at: int | None) -> float:
        until_upkeep = max(self._next_upkeep - time.monotonic(), 0.0)
        if self._worker_exchange.has_news:
            until_upkeep = min(until_upkeep, WITHIN)
        if self._worker_state.waiting:
            return min(until_upkeep, STALLED)
        self._worker_exchange.idle()
        return until_upkeep if next_at is None else min(until_upkeep, max(next_at - self._clock.now(), 0) / 1000)

    # -- upkeep that any worker may do at any time

    def _staleness_store(self) -> None:
        if time.monotonic() < self._next_upkeep:
            return
        self._next_upkeep = time.monotonic() + _UPKEEP
        may_reap = not self._is_idle() or self._rest.is_time_to_reap() or self._presence.sees_dead()
        letters = self._settings.dead_letters
        for job in self._engine.reap(_REAP_AT_ONCE, self._settings.max_crashes, letters=letters) if may_reap else ():
            about = {"event": "job.stalled", "job": job.id, "queue": job.queue}
            log.warning("job %s: taken over from worker %s, now %s", job.id, job.worker, job.state, extra=about)
            self._worker_exchange.store_is_empty = False
        self._news.drained(self._worker_exchange)
        if (
            not self._paused
            and not self._worker_exchange.job_limit_reached
            and self._settings.strategy in (None, "priority")
        ):
            self._make_way()
        if is_worn_out(self.id, self._settings):
            self.recycle = True
            self.request_stop()

    def _make_way(self) -> None:
        found = run_in_the_way(self._worker_state, self._engine.queries, self._settings.queues)
        if found is not None and not self._paused:  # it may have been paused while it looked
            self._worker_exchange.first = make_way(self._worker_state, self._threads, *found)

    # -- the end

    def _wind_down(self) -> None:
        """Give back what was not begun, let runs finish until the deadline, release the rest."""
        worker_state = self._worker_state
        worker_state.sign.over()
        self._say("worker.stopping", f"stops: {len(worker_state.running)} jobs are running")
        while True:
            self._worker_exchange.give_back()
            if self._stop_at is not None and time.monotonic() >= self._stop_at:
                release_runs(worker_state, self._threads)
            pause = self._guarded_settle()
            if not worker_state.running and not worker_state.done and not self._worker_exchange.held:
                return
            left = (self._stop_at or 0.0) - time.monotonic()
            if left < -_LAST_WORDS:
                log.error("worker %s could not hand in %d outcomes: the store is away", self.id, len(worker_state.done))
                return
            self._bell.wait(min(pause, max(left, 0.01)))

    def _guarded_settle(self) -> float:
        try:
            self._worker_exchange.exchange(0)
            return _UPKEEP
        except EngineUnavailable as error:
            log.warning("the store is not available: %s", error)
            return OUTAGE_FIRST

    def _close(self) -> None:
        self._state = "stopped"
        self._forget_exit()
        with contextlib.ExitStack() as steps:  # from the last to the first, each one even if another fails
            steps.callback(self._bell.close)
            steps.callback(self._presence.close)
            steps.callback(self._unregister_worker)
            steps.callback(self._sandboxes.stop)
            steps.callback(self._heartbeat.stop)
            steps.callback(self._loop.stop, 1.0)
            steps.callback(self._threads.stop)
            for service in self._companions:
                steps.callback(service.stop)
        self._say(
            "worker.stopped",
            f"stopped: {self._worker_exchange.completed} completed, {self._worker_exchange.failed} failed",
        )

    def _unregister_worker(self) -> None:
        with contextlib.suppress(EngineUnavailable):
            self._engine.unregister_worker(self.id)

    def __repr__(self) -> str:
        return f"<Worker {self.id} {self._state}>"
