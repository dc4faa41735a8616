"""A worker: one thread that settles finished jobs and claims new ones, in one call per exchange.

An idle worker settles at once, a busy one in large batches. No timer is needed: runners ring the bell when little work
is left. Between exchanges the thread waits at the bell until the next job is due.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from headrace.core.clock import Clock
from headrace.core.events.stream import StreamLimits
from headrace.core.health.probes import Health
from headrace.core.jobs.records import Claim, WorkerRow
from headrace.core.settings.settings import Settings
from headrace.core.text import counted
from headrace.core.worker_commands import act_of, log_level_of
from headrace.engines.protocol.archive import Archive
from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable, HeadraceError
from headrace.runtime.context.logs import CommandedLevels
from headrace.runtime.context.step_store import RetryingStepStore
from headrace.runtime.jobs.hooks import Hooks
from headrace.runtime.jobs.task import Task
from headrace.runtime.maintenance.loop import MaintenanceLoop, Service
from headrace.runtime.maintenance.pause_factor import PauseFactor
from headrace.runtime.maintenance.tasks import maintenance_tasks_of
from headrace.runtime.payloads.payloads import Payloads, limit_of
from headrace.runtime.process.memory import needs_recycling
from headrace.runtime.process.outage_log import outage_log
from headrace.runtime.process.worker_id import new_worker_id, settings_text, worker_row
from headrace.runtime.schedules.scheduler import Scheduler
from headrace.runtime.worker.events import WITHIN, WorkerEvents
from headrace.runtime.worker.exchange import STALLED, WorkerExchange
from headrace.runtime.worker.execution import RunSpecs
from headrace.runtime.worker.heartbeat import Heartbeat
from headrace.runtime.worker.idle import IdleState
from headrace.runtime.worker.preemption import preempt, run_to_preempt
from headrace.runtime.worker.runners.event_loop import EventLoop
from headrace.runtime.worker.runners.sandbox import Sandboxes
from headrace.runtime.worker.runners.threads import Threads
from headrace.runtime.worker.shutdown import stop_at_exit, wind_down
from headrace.runtime.worker.state import WorkerState
from headrace.runtime.worker.status_events import StatusEvents
from headrace.runtime.worker.wait_for_store import OUTAGE_LONGEST, Outage, await_store
from headrace.runtime.worker.worker_scope import WorkerScope

log = logging.getLogger("headrace.worker")
_MAINTAIN_EVERY, _REAP_AT_ONCE = 1.0, 1000


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
        payloads: Payloads | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        self.worker = self.id = new_worker_id()
        self._engine = engine
        self._settings = settings
        self._task_names = task_names
        self._declare, self._archive, self._listener = declare, archive, listener
        self._clock = clock
        self._drain, self._at_most = drain, at_most
        self._find_task = find_task
        self._payloads, self._hooks = payloads, hooks or Hooks()
        self._cipher = None if payloads is None else payloads.cipher
        step_store = RetryingStepStore(engine, settings.lease, self._cipher)
        self.steps, self.save_step, self.joined = step_store.steps, step_store.save_step, step_store.joined
        self.charge = step_store.charge
        self.largest = settings.max_payload
        self.stream_limits = StreamLimits(settings.max_chunk, settings.max_stream)
        self._started_at = clock.now()
        self._state = "starting"
        self._paused = False
        self._stop_at: float | None = None
        self._log_levels = CommandedLevels()
        self._maintain_at = self._commanded_at = 0.0
        self._outage = Outage(outage_log(engine))
        self._idle = IdleState(clock)
        self.leases_end = self._idle.leases_end
        self.now = clock.now
        self._status_events = StatusEvents(engine, self.id, enabled=settings.events)
        self._thread: threading.Thread | None = None
        self.stopped = threading.Event()
        self.recycle = False
        self._forget_exit: Callable[[], None] = lambda: None

    # -- from outside

    def start(self) -> Worker:
        """Register the worker and start its threads. A running worker is left as it is."""
        if self.stopped.is_set():
            raise HeadraceError("this worker has stopped; make a new one")
        if self._thread is not None:
            return self
        is_drain = self._drain or self._at_most is not None  # it ends by itself, so it does not wait for the store
        if not is_drain and not await_store(
            lambda: self._engine.unregister_worker(self.id), lambda: self._stop_at is not None, self._outage.log
        ):
            self.stopped.set()
            return self
        self._bell = self._engine.listen("work", self._settings.queues or ())
        self._worker_state = WorkerState(self._settings.concurrency, self._clock, self._bell.ring, self, self._cipher)
        self.note, self.has_stream_room = self._worker_state.note, self._worker_state.streams.has_room
        self._loop = EventLoop(self._worker_state)
        self._scope = WorkerScope(self._hooks, self._loop.run)
        undo = (lambda: self._loop.stop(1.0), self._bell.close, self.stopped.set)
        self._scope.start(self, map(self._find_task, self._task_names()), undo)
        limits = (self._settings.timeout, limit_of(self._payloads, self._settings))
        run_specs = RunSpecs(self._find_task, *limits, self._payloads, self._scope.function_of)
        how = (run_specs, self._settings, self._at_most, self._task_names)
        self._exchange = WorkerExchange(self.id, self._engine, self._worker_state, *how)
        self.store_lost = self._exchange.slow_start.lost  # an idle worker also starts slowly after an outage
        self._sandboxes = Sandboxes()
        self._threads = Threads(self._worker_state, self._sandboxes)
        self._worker_state.wake_loop = self._loop.wake
        self._state = "running"  # a reader would see "starting" until the first heartbeat
        described = self.describe()
        self._worker_state.liveness = self._liveness = self._engine.register_worker(described)
        self._heartbeat = Heartbeat(
            self._engine, self._worker_state, self._threads, self._loop, self, self._settings.lease, self._settings.beat
        )
        # A draining worker fires no schedules and does no maintenance.
        maintained = (self._engine, self._settings, self._archive, run_specs.removing, self._payloads)
        maintenance_tasks = () if is_drain else maintenance_tasks_of(*maintained)
        pause_factor = PauseFactor(self._engine, self.id, self._worker_state)
        maintenance = MaintenanceLoop(maintenance_tasks, self._worker_state.has_jobs, pause_factor, self._outage.log)
        schedulers = [] if is_drain else [Scheduler(self._engine, self._declare)]
        self._heartbeat.watch_threads(
            self._worker_state.loop_liveness, maintenance.loop_liveness, *(each.loop_liveness for each in schedulers)
        )
        # Event handlers start before WorkerEvents, so that they receive the event of their own worker.
        handlers = [] if self._listener is None else [self._listener(self.id)]
        self._start([*handlers, WorkerEvents(self._engine, described), *schedulers, maintenance])
        self._log("worker.started", f"started: {settings_text(self._settings)}")
        return self

    def _start(self, services: Sequence[Service]) -> None:
        """Start all services or none: a failed start must not leave some of them running without a worker."""
        self._services: list[Service] = []
        self._thread = threading.Thread(target=self._work, name="headrace-worker", daemon=True)
        try:
            for service in services:
                service.start()
                self._services.append(service)
            self._heartbeat.start()
            self._forget_exit = stop_at_exit(self)  # before the thread, which may end at once
            self._thread.start()
        except BaseException:
            self._close()
            self.stopped.set()
            raise

    def request_stop(self, patience: float | None = None) -> None:
        """Begin to stop: running jobs have `patience` seconds, the rest are released. Safe in signal handlers."""
        limit = self._settings.shutdown_timeout if patience is None else patience
        deadline = time.monotonic() + limit
        self._stop_at = deadline if self._stop_at is None else min(self._stop_at, deadline)
        if self._thread is not None:
            self._bell.ring()

    def stop(self, patience: float | None = None) -> None:
        """Stop and wait until the worker has stopped."""
        self.request_stop(patience)
        if self._thread is None:  # never started
            self.stopped.set()
        self.join()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the worker has stopped."""
        return self.stopped.wait(timeout)

    @property
    def is_stalled(self) -> bool:
        """Whether the loop that claims and settles has hung for long, although the process lives."""
        return self._thread is not None and self._heartbeat.is_stalled(self._worker_state.loop_liveness)

    @property
    def health(self) -> Health:
        """Whether its threads make progress, and whether it takes jobs. The store is not asked."""
        if self._thread is None:
            return Health(live=True, reason=f"the worker is {self._condition}", worker=self.id)
        return self._heartbeat.health(self.id, self._condition, self._worker_state.loop_liveness)

    @property
    def completed(self) -> int:
        """How many jobs this worker has completed."""
        return 0 if self._thread is None else self._exchange.completed

    @property
    def failed(self) -> int:
        """How many jobs failed for good in this worker."""
        return 0 if self._thread is None else self._exchange.failed

    def pause(self) -> None:
        """Start no more jobs; running ones go on."""
        self._command("pause")

    def resume(self) -> None:
        """Start jobs again."""
        self._command("run")

    def __enter__(self) -> Worker:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- for the heartbeat and the job contexts

    @property
    def _condition(self) -> str:
        return "stopping" if self._stop_at is not None else "paused" if self._paused else self._state

    def describe(self) -> WorkerRow:
        done = (self._worker_state.running, self._exchange.completed, self._exchange.failed)
        return worker_row(
            self.id, self._condition, self._settings, self._task_names(), done, self._started_at, self._clock.now()
        )

    def _command(self, command: str) -> None:
        if self._thread is None:
            raise HeadraceError("this worker has not started")
        self._engine.queries.command_worker(self.id, command)
        self._commanded_at = time.monotonic()
        self.apply_command(command, self._commanded_at)

    def apply_command(self, command: str, requested_at: float) -> None:
        """Apply an operator's command, unless it is older than the last one given in this process."""
        if requested_at < self._commanded_at:
            return
        self._log_levels.follow(log_level_of(command), self._log)
        act = act_of(command)
        if act == "stop" and self._stop_at is None:
            self._log("worker.stopping", "was asked to stop")
            self.request_stop()
        if (act == "pause") != self._paused:
            self._paused, change = (True, "paused") if act == "pause" else (False, "resumed")
            self._log(f"worker.{change}", change)
            self._bell.ring()

    def _log(self, event: str, text: str) -> None:
        log.info("worker %s %s", self.id, text, extra={"event": event, "worker": self.id})

    def renew(self, claim: Claim) -> bool:
        return self._heartbeat.renew_one(claim)

    # -- the thread

    def _work(self) -> None:
        try:
            while self._stop_at is None:
                self._idle.note_ring(self._bell.wait(self._run_guarded()))
            self._worker_state.loop_liveness.stop_watching()
            self._log("worker.stopping", f"stops: {counted(self._worker_state.running, 'job is', 'jobs are')} running")
            wind_down(self.id, self._worker_state, self._exchange, self._threads, self._bell, lambda: self._stop_at)
        except BaseException:
            log.exception("worker %s stops after an error", self.id)
        finally:
            try:
                self._close()
            finally:
                self.stopped.set()  # even after an error: join() must not wait forever

    def _run_guarded(self) -> float | None:
        """Run one exchange; survives an outage and any other error. Rings do not shorten the pause after an error."""
        self._worker_state.loop_liveness.expect_within(OUTAGE_LONGEST)  # the longest pause
        if (left := self._outage.left) > 0:
            return left
        try:
            pause = self._run_once()
            self._status_events.worked()
            self._outage.over()
        except EngineUnavailable as error:
            self._exchange.slow_start.lost()
            self._status_events.failed(error)
            pause = self._outage.longer(error)
        except Exception as error:
            self._status_events.failed(error)
            pause = self._outage.lasts(1.0)
            log.exception("an exchange of worker %s failed; continuing", self.id)
        return pause

    def _run_once(self) -> float | None:
        """Settle and claim once; returns the seconds to sleep unless rung."""
        worker_state, exchange = self._worker_state, self._exchange
        if self._is_idle() and not (self._idle.is_over or exchange.task_lookup.has_grown()):
            self._maintain()
            return self._pause(self._idle.next_at)
        capacity = 0 if self._paused or self._stop_at is not None else exchange.capacity()
        if capacity == 0 and not self._paused and (wait := exchange.settle_wait()) > 0:
            return wait
        self._idle.end()
        attempts, next_at = exchange.exchange(capacity)
        self._idle.note_exchange(len(attempts), next_at)
        if self._paused:  # paused meanwhile, or with prefetched jobs
            exchange.give_back(attempts)
        else:
            worker_state.place(exchange.runs(attempts))
        is_filling = worker_state.gathering and len(attempts) == capacity and exchange.fill()
        self._threads.ensure()
        self._maintain()
        if is_filling or (len(attempts) == capacity > 0 and worker_state.waiting <= worker_state.low_water):
            return 0.0
        exchange.give_back_if_stalled()
        is_over = exchange.job_limit_reached or (self._drain and (exchange.store_is_empty or self._paused))
        if is_over and not worker_state.held() and not worker_state.done:
            if self._at_most is None and exchange.job_limit_reached:  # reached max_jobs
                log.info("worker %s has run %s and is recycled", self.id, counted(exchange.claimed, "job"))
                self.recycle = True
            self._status_events.drained(exchange)
            self.request_stop()
        return self._pause(next_at)

    def _is_idle(self) -> bool:
        """Whether nothing runs or waits to be sent. A draining worker is never idle."""
        worker_state, exchange = self._worker_state, self._exchange
        if self._drain or self._at_most or worker_state.has_jobs():
            return False
        return not (worker_state.done or worker_state.notes or exchange.has_events or worker_state.held())

    def _pause(self, next_at: int | None) -> float:
        state = self._worker_state
        until_then = min(max(self._maintain_at - time.monotonic(), 0.0), state.streams.pause, state.gathering.pause)
        if self._exchange.has_events:
            until_then = min(until_then, WITHIN)
        if state.waiting:
            return min(until_then, STALLED)
        self._exchange.idle()
        return until_then if next_at is None else min(until_then, max(next_at - self._clock.now(), 0) / 1000)

    # -- maintenance that any worker may do at any time

    def _maintain(self) -> None:
        if time.monotonic() < self._maintain_at:
            return
        self._maintain_at = time.monotonic() + _MAINTAIN_EVERY
        may_reap = not self._is_idle() or self._idle.is_time_to_reap() or self._liveness.sees_dead()
        dead_letters = self._settings.dead_letters
        for job in (
            self._engine.reap(_REAP_AT_ONCE, self._settings.max_crashes, dead_letters=dead_letters) if may_reap else ()
        ):
            about = {"event": "job.stalled", "job": job.id, "queue": job.queue}
            log.warning("job %s: taken from worker %s, now %s", job.id, job.worker, job.state, extra=about)
            self._exchange.store_is_empty = False
        self._status_events.drained(self._exchange)
        if not self._paused and not self._exchange.job_limit_reached and self._settings.strategy in (None, "priority"):
            self._preempt()
        if needs_recycling(self.id, self._settings):
            self.recycle = True
            self.request_stop()

    def _preempt(self) -> None:
        found = run_to_preempt(self._worker_state, self._engine, self._settings.queues)
        if found is not None and not self._paused:  # it may have been paused meanwhile
            self._exchange.first = preempt(self._worker_state, self._threads, *found)

    # -- the end

    def _close(self) -> None:
        self._state = "stopped"
        self._forget_exit()
        with contextlib.ExitStack() as steps:  # runs in reverse order, each one even if another fails
            steps.callback(self._bell.close)
            steps.callback(self._liveness.close)
            steps.enter_context(contextlib.suppress(EngineUnavailable))
            steps.callback(self._engine.unregister_worker, self.id)
            steps.callback(self._sandboxes.stop)
            steps.callback(self._heartbeat.stop)
            steps.callback(self._loop.stop, 1.0)
            steps.callback(self._threads.stop)
            steps.callback(self._scope.stop, self)
            for service in self._services:
                steps.callback(service.stop)
        self._log("worker.stopped", f"stopped: {self._exchange.completed} completed, {self._exchange.failed} failed")

    def __repr__(self) -> str:
        return f"<Worker {self.id} {self._state}>"
