"""What a worker process costs while it has nothing to do."""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.child import Child
from bench.draining import CONCURRENCY, prepare
from bench.ground import Ground
from bench.measure import Figure, Goal, Measure, Ratio, Readings
from bench.measures.latency import wait_for_worker
from bench.tasks import Subject, open_subject

_SETTLE = 1.0
_SLOWEST = 200


def idle(ground: Ground) -> Readings:
    """Processor time and memory of a worker process: just started, and after it has run a drain's worth of jobs.

    Workers idle most of their lives, on machines that have other things to do. The second look shows whether
    anything stays behind. Linux only: it reads /proc.
    """
    with ground.store() as store:
        prepare(store)
        with Child(ground, store, "worker", "serve", CONCURRENCY, 0) as child:
            child.wait_until_ready()
            subject = open_subject(store.url, store.durability)
            wait_for_worker(subject, child)
            subject.app.close()
            cpu, memory = _look_at(child.pid, ground.sizes.idle_seconds)
            _work_through(subject, ground.sizes.jobs, child)
            cpu_after, memory_after = _look_at(child.pid, ground.sizes.idle_seconds)
            child.terminate()
    return {"cpu": cpu, "cpu after": cpu_after, "memory": memory, "memory after": memory_after}


def _work_through(subject: Subject, jobs: int, child: Child) -> None:
    with subject.app:
        subject.fill(jobs)
        deadline = time.monotonic() + 30 + jobs / _SLOWEST
        while (finished := subject.finished()) < jobs:
            child.check()
            if time.monotonic() > deadline:
                raise child.failure(f"finished only {finished} of {jobs} jobs")
            time.sleep(0.2)


def _look_at(pid: int, seconds: float) -> tuple[float, float]:
    """The process's share of one core in percent, and its resident memory in MB."""
    time.sleep(_SETTLE)
    memory = _resident_megabytes(pid)
    began, used = time.monotonic(), _processor_seconds(pid)
    time.sleep(seconds)
    return 100 * (_processor_seconds(pid) - used) / (time.monotonic() - began), memory


def _processor_seconds(pid: int) -> float:
    # Fields 14 and 15, counted after the name, which may hold spaces and brackets itself.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    try:
        # The kernel's clock of that process: the same time without the grain of 10 ms.
        return time.clock_gettime((~pid << 3) | 2)
    except (OSError, OverflowError):
        return ticks


def _resident_megabytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(kilobytes) / 1024


MEASURE = Measure(
    "idle",
    idle,
    (
        Figure("cpu", "processor, after start", "%", Goal("at most", 0.5)),
        Figure("cpu after", "processor, after the jobs", "%", Goal("at most", 0.5)),
        Figure("memory", "memory, after start", "MB", Goal("at most", 40)),
        Figure("memory after", "memory, after the jobs", "MB"),
    ),
    (Ratio("memory after", "memory", "memory after the jobs / after start"),),
)
