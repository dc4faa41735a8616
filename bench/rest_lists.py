"""How long GET /api/v1/jobs takes on a store with many jobs, by filter.

python -m bench.rest_lists URL [JOBS]
"""

from __future__ import annotations

import asyncio
import sys
import time
from statistics import quantiles

import httpx

from headrace import Headrace
from headrace.core.codec import checksum
from headrace.core.ids import new_id
from headrace.core.model import NewJob
from headrace.core.states import State

QUERIES = (
    "",
    "limit=1000",
    "state=pending",
    "state=completed",
    "queue=q3",
    "queue=q3&state=pending",
    "task=task-2",
    "tag=rare",
    "tag=even",
    "worker=nobody",
    "text=0000",
    "text=nowhere-at-all",
    "since=2020-01-01T00:00:00Z&until=2020-01-02T00:00:00Z",
    "queue=q3&total=true",
)
_BATCH = 5000
_RUNS = 40


def fill(app: Headrace, jobs: int) -> None:
    """So many jobs in ten queues, of five tasks, a third of them for tomorrow; straight into the store."""
    now = app.clock.now()
    for start in range(0, jobs, _BATCH):
        app.engine.insert([_job(n, now) for n in range(start, min(start + _BATCH, jobs))])


def _job(n: int, now: int) -> NewJob:
    tags = '["even"]' if n % 2 == 0 else '["rare"]' if n % 100_001 == 0 else None
    later = n % 3 == 0
    payload = f'{{"args":[{n}],"kwargs":{{}}}}'
    return NewJob(
        new_id(now),
        f"task-{n % 5}",
        f"q{n % 10}",
        State.SCHEDULED if later else State.PENDING,
        0,
        0,
        payload,
        checksum(payload),
        now,
        now + 86_400_000 * later,
        4,
        tags=tags,
    )


async def measure(app: Headrace) -> None:
    transport = httpx.ASGITransport(app.asgi(rate=None), client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
        for query in QUERIES:
            times = []
            for _ in range(_RUNS):
                began = time.perf_counter()
                answer = await client.get(f"/api/v1/jobs?{query}")
                times.append(1000 * (time.perf_counter() - began))
                assert answer.status_code == 200, answer.text
                if sum(times) > 4000:
                    break
            p95 = quantiles(times, n=20)[-1] if len(times) > 1 else times[0]
            found = len(answer.json()["jobs"])
            p50 = sorted(times)[len(times) // 2]
            print(f"{query or '(all)':58} {found:5} jobs   p50 {p50:8.1f} ms   p95 {p95:8.1f} ms", flush=True)


def main() -> None:
    url, jobs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    with Headrace(url, events=False) as app:
        have = app.jobs.count()
        began = time.perf_counter()
        fill(app, jobs - have)
        print(f"{url.partition(':')[0]}: {app.jobs.count():,} jobs, filled in {time.perf_counter() - began:.0f} s")
        asyncio.run(measure(app))


if __name__ == "__main__":
    main()
