"""`headrace demo`: the two-minute tour, on a temporary store with real worker processes.

It prints each step and checks its outcome; an unexpected outcome ends the demo with 1.
"""

from __future__ import annotations

import contextlib
import importlib
import sqlite3
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import click

from headrace.app.app import Headrace
from headrace.cli.demo.environment import TIMEOUT, DemoEnvironment, DemoFailed, open_environment, wait_until
from headrace.cli.demo.web import serve_shop
from headrace.cli.options import example, shared
from headrace.cli.output import clean, on_terminal, paint, remark, say
from headrace.core.jobs.states import State
from headrace.errors import JobFailed

_PAGES = 20
_TICKS = 5000
_FIRES = 3
_MAILS, _RATE = 6, 10
_TAKEOVER_TIMEOUT = 20.0  # seconds, well below the lease: takeover must not wait for it to expire
_MAX_DELAY = 10.0  # seconds; usually a few milliseconds, unless the machine pauses


@click.command("demo", epilog=example("headrace demo", "headrace demo --web", "headrace demo --keep"))
@click.option("--web", is_flag=True, help="Open a sample shop with workers and the dashboard instead, until Ctrl-C.")
@click.option("--port", type=click.IntRange(1, 65_535), help="With --web: the port; by default 8080, or a free one.")
@click.option("--keep", is_flag=True, help="Keep the store for inspection.")
@shared
def demo(web: bool, port: int | None, keep: bool) -> int:
    """A two-minute tour on a temporary file. It does not touch your own store."""
    if port is not None and not web:
        raise click.UsageError("--port is for --web")
    with open_environment(keep) as environment:
        if web:
            return serve_shop(environment, port)
        # Import only now: the module opens the store in HEADRACE_URL, which `open_environment` has set.
        tasks = importlib.import_module("headrace.cli.demo.tasks")
        try:
            _Tour(environment, tasks).run()
        except Exception:
            remark(clean(environment.log_tails()))
            raise
        finally:
            tasks.app.close()
        _print_next_steps(environment, keep)
    return 0


class _Tour:
    """The tour. Each method is a step; `_completed` counts the jobs that must be completed at the end."""

    def __init__(self, environment: DemoEnvironment, tasks: ModuleType) -> None:
        self._environment = environment
        self._tasks = tasks
        self._app: Headrace = tasks.app
        self._completed = 0
        self._step = 0

    def run(self) -> None:
        say(f"{paint('headrace demo', bold=True)}: jobs in one SQLite file, workers as processes beside it.")
        self._start()
        self._function()
        self._coroutines()
        self._sandbox()
        self._retries()
        self._dead_letter()
        self._delay()
        self._schedule()
        self._limit()
        self._crash()
        self._bulk()
        self._stop()

    def _start(self) -> None:
        self._print_title("A store and a worker")
        self._print_code("headrace worker -c 4", prompt="$")
        pid = self._environment.start_worker(self._app)
        self._print_output(f"process {pid} has registered; the store is {self._environment.folder / 'demo.db'}")

    def _function(self) -> None:
        self._print_title("A function becomes a job")
        self._print_code("add.enqueue(2, 3).result()")
        started = time.monotonic()
        result = self._tasks.add.enqueue(2, 3).result(TIMEOUT)
        _expect(result, 5, "the sum")
        self._completed += 1
        self._print_output(f"{result}, from another process, in {(time.monotonic() - started) * 1000:.0f} ms")

    def _coroutines(self) -> None:
        self._print_title("Coroutines share one event loop")
        self._print_code(f"app.enqueue_many([fetch.bind(page) for page in range({_PAGES})])")
        fetch = self._tasks.fetch
        jobs = self._app.enqueue_many([fetch.bind(page) for page in range(_PAGES)])
        results = [job.result(TIMEOUT) for job in jobs]
        _expect(results, [f"page {page}" for page in range(_PAGES)], "the pages")
        self._completed += _PAGES
        self._print_output(f"{len(jobs)} results, stored in one commit and run a few at a time")

    def _sandbox(self) -> None:
        self._print_title('Heavy work in a process of its own: @app.task(isolation="process")')
        self._print_code("crunch.enqueue(100_000).result()")
        pid, total = self._tasks.crunch.enqueue(100_000).result(TIMEOUT)
        _expect(total, 333328333350000, "the sum of squares")
        _expect(pid in {worker.pid for worker in self._app.workers()}, False, "run by the worker itself")
        self._completed += 1
        self._print_output(f"{total}, computed in process {pid}, which a timeout could have killed without harm")

    def _retries(self) -> None:
        self._print_title("A task that fails twice is tried again")
        self._print_code("flaky.enqueue().result()")
        job = self._tasks.flaky.enqueue()
        result = job.result(TIMEOUT)
        _expect((job.refresh().attempt, len(job.errors)), (3, 2), "attempts and errors")
        self._completed += 1
        for error in job.errors:
            self._print_output(f"attempt {error.attempt} failed: {error.type}: {error.message}")
        self._print_output(result)

    def _dead_letter(self) -> None:
        self._print_title("A task that fails for good is not forgotten")
        self._print_code("doomed.enqueue(4711).result()")
        job = self._tasks.doomed.enqueue(4711)
        try:
            job.result(TIMEOUT)
        except JobFailed as error:
            self._print_output(f"JobFailed: {error.error_message}")
        _expect(job.refresh().state, State.FAILED, "the state of a job that can't succeed")
        _expect(self._dead_letters(), [job.id], "the dead letters")
        self._print_output("its dead letter is kept for you: headrace dead show, headrace dead requeue")

    def _delay(self) -> None:
        self._print_title("One option delays a job")
        self._print_code('remind.using(delay=1).enqueue("stretch").why()')
        job = self._tasks.remind.using(delay=1).enqueue("stretch")
        _expect(job.state, State.SCHEDULED, "the state of a delayed job")
        self._print_output(job.why())
        _expect(job.result(TIMEOUT), "stretch", "the reminder")
        late = (job.refresh().started_at - job.run_at).total_seconds()
        _expect(0 <= late < _MAX_DELAY, True, f"a delayed job starts on time, and this one {late} s after it")
        self._completed += 1
        self._print_output(f"it ran {late * 1000:.0f} ms after its time, never before")

    def _schedule(self) -> None:
        self._print_title("A schedule enqueues jobs again and again")
        self._print_code(f'app.schedules.create("beat", remind.bind("breathe"), every=0.5, limit={_FIRES})')
        schedules = self._app.schedules
        schedules.create("beat", self._tasks.remind.bind("breathe"), every=0.5, limit=_FIRES)
        wait_until(lambda: schedules.get("beat").fired == _FIRES, f"the schedule has fired {_FIRES} times")
        # After a pause of the machine, one job makes up for all missed runs; their history has no job.
        runs = [run for run in schedules.history("beat") if run.job_id]
        jobs = [self._app.jobs.get(str(run.job_id)) for run in runs]
        _expect([job.result(TIMEOUT) for job in jobs], ["breathe"] * _FIRES, "the reminders")
        late = max((job.created_at - run.at).total_seconds() for job, run in zip(jobs, runs, strict=True))
        _expect(late < _MAX_DELAY, True, f"a schedule fires on time, and this one {late} s after it")
        self._completed += _FIRES
        self._print_output(f"{_FIRES} jobs, the latest {late * 1000:.0f} ms after its time; any live worker fires it")
        self._print_code('app.schedules.preview(cron="0 9 * * MON", tz="America/New_York", n=1)')
        [monday] = schedules.preview(cron="0 9 * * MON", tz="America/New_York", n=1)
        self._print_output(f"{monday:%A %Y-%m-%d %H:%M %Z}")

    def _limit(self) -> None:
        self._print_title("A rate limit over all workers, changed while they run")
        self._print_code(f'app.queue("mail").configure(rate="{_RATE}/s", burst=1)')
        self._app.queue("mail").configure(rate=f"{_RATE}/s", burst=1)
        remind = self._tasks.remind.using(queue="mail")
        jobs = self._app.enqueue_many([remind.bind("mail") for _ in range(_MAILS)])
        _expect([job.result(TIMEOUT) for job in jobs], ["mail"] * _MAILS, "the mails")
        starts = [(job.refresh().started_at or job.created_at).timestamp() for job in jobs]
        took = max(starts) - min(starts)
        least = (_MAILS - 1) / _RATE
        _expect(took > least - 0.01, True, f"{_MAILS} jobs at {_RATE} a second take {least} s, and took {took}")
        self._print_output(f"{_MAILS} jobs in {took:.1f} s, spaced by the clock of the store")

    def _crash(self) -> None:
        self._print_title("A worker is killed in the middle of a job")
        self._environment.start_worker(self._app)
        self._print_code("job = render.enqueue(frames=15)    # 1.5 seconds of work; two workers are up")
        job = self._tasks.render.enqueue(frames=15)
        wait_until(lambda: job.refresh().progress is not None, "the job reports progress")
        first, pid = job.worker, self._pid_of(job.worker)
        self._print_code(f"kill -9 {pid}    # at {job.progress:.0%}", prompt="$")
        self._environment.kill(pid)
        took = wait_until(lambda: job.refresh().attempt == 2, "another worker takes the job over", _TAKEOVER_TIMEOUT)
        self._print_output(f"the other worker took over within {took:.1f} s")
        _expect(job.result(TIMEOUT), 15, "the frames rendered")
        _expect((job.refresh().attempt, job.worker != first), (2, True), "second attempt, by another worker")
        self._completed += 1
        self._print_output("finished at attempt 2 by the other worker; a late result of the first one would be refused")

    def _bulk(self) -> None:
        self._print_title(f"{_TICKS:,} jobs at once")
        self._print_code(f"app.enqueue_many([tick.bind(n) for n in range({_TICKS})])")
        started = time.monotonic()
        self._app.enqueue_many([self._tasks.tick.bind(number) for number in range(_TICKS)])
        self._print_output(f"stored in {time.monotonic() - started:.2f} s, in one commit: all of them or none")
        with _progress_bar(_TICKS) as show:
            wait_until(lambda: show(self._completed_ticks()) == _TICKS, "all of them have run", 60.0)
        ran = self._seconds_to_run("tick")
        self._completed += _TICKS
        self._print_output(f"run by one worker process in {ran:.2f} s: {_TICKS / ran:,.0f} jobs a second")

    def _stop(self) -> None:
        self._print_title("SIGTERM: the worker finishes what it runs, and ends")
        _expect(self._environment.stop_workers(), [0], "the exit codes of the workers")
        found = self._app.queue("default").stats()
        open_jobs = found.pending + found.running + found.scheduled + found.retrying + found.waiting
        _expect((found.completed, found.failed, open_jobs), (self._completed, 1, 0), "completed, failed, open")
        self._print_output(f"every job is accounted for: {found.completed:,} completed, {found.failed} failed, 0 lost")

    # -- queries

    def _completed_ticks(self) -> int:
        return self._app.jobs.count(task="tick", state=State.COMPLETED)

    def _seconds_to_run(self, task: str) -> float:
        """From the first start to the last finish of these jobs."""
        jobs = self._app.jobs.find(task=task, limit=_TICKS)
        started = min(job.started_at for job in jobs if job.started_at)
        finished = max(job.finished_at for job in jobs if job.finished_at)
        return max((finished - started).total_seconds(), 0.001)

    def _pid_of(self, worker_id: str | None) -> int:
        found = next((worker.pid for worker in self._app.workers() if worker.id == worker_id), None)
        if found is None:
            raise DemoFailed(f"worker {worker_id} runs a job but is not listed")
        return found

    def _dead_letters(self) -> list[str]:
        with contextlib.closing(sqlite3.connect(self._environment.folder / "demo.db")) as db:
            return [
                job_id for (job_id,) in db.execute("SELECT job_id FROM headrace_dead_letters WHERE status = 'pending'")
            ]

    # -- output

    def _print_title(self, text: str) -> None:
        self._step += 1
        say(f"\n{paint(f'{self._step:>2}  {text}', bold=True)}")

    def _print_code(self, text: str, prompt: str = ">") -> None:
        say(f"    {paint(f'{prompt} {text}', 'cyan')}")

    def _print_output(self, text: str) -> None:
        say(f"      {clean(text)}")


def _expect(found: Any, expected: Any, what: str) -> None:
    if found != expected:
        raise DemoFailed(f"{what}: expected {expected!r}, got {found!r}")


@contextlib.contextmanager
def _progress_bar(total: int) -> Iterator[Any]:
    """A progress bar on a terminal, nothing in a pipe. `show` returns its argument."""
    if not on_terminal():
        yield lambda done: done
        return
    from rich.progress import Progress  # only ever needed here

    with Progress(transient=True) as progress:
        bar = progress.add_task("      running", total=total)

        def show(done: int) -> int:
            progress.update(bar, completed=done)
            return done

        yield show


def _print_next_steps(environment: DemoEnvironment, keep: bool) -> None:
    say(f"\n{paint('That was all real.', bold=True)} What to try next:")
    if keep:
        say(f"    headrace --url {environment.url} jobs --state failed")
        say(f"    headrace --url {environment.url} jobs history ID")
        say(f"    rm -r {environment.folder}        # when you are done")
        return
    say("    headrace demo --web         # a living shop, with the dashboard")
    say("    headrace demo --keep        # and then inspect its store")
    say("    headrace bench              # how fast is this machine?")
    say("    write shop.py:              from headrace import Headrace")
    say("                                app = Headrace()")
    say("                                @app.task")
    say("                                def add(a: int, b: int) -> int: return a + b")
    say("    headrace --app shop worker  # and in another terminal:")
    say("    headrace --app shop enqueue add '[1, 2]' --wait 5")
