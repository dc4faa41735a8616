"""Claims and completes a job of its own queue again and again, and reports how long the slowest claim took.

prober PAUSE

It answers as `bare` does: how many claims it made, in `seconds` the longest of them, in `processor` the 99th
percentile.
"""

from __future__ import annotations

import select
import sys
import time

from bench.stage import store, wait_for_go
from bench.tasks import open_subject
from headrace.core.codec import codec
from headrace.core.jobs import ids, outcomes
from headrace.core.jobs.records import ClaimRequest, NewJob, QueueShare
from headrace.core.jobs.states import State

_QUEUE = "probe"


def main(pause: str) -> None:
    subject = open_subject(*store())
    engine = subject.app.engine
    want = ClaimRequest("prober", 1, 30_000, (QueueShare(_QUEUE, 1),), others=False)
    delays = []
    with subject.app:
        payload = subject.noop.signature.encode((1,), {}, limit=1024)
        wait_for_go()
        while not select.select([sys.stdin], [], [], float(pause))[0]:
            now = time.time_ns() // 1_000_000
            shared = ("probe", _QUEUE, State.PENDING, 0, now, payload, codec.checksum(payload), now, now, 3)
            engine.insert([NewJob(ids.new_id(now), *shared)])
            began = time.perf_counter()
            claims = engine.exchange((), want).claims
            delays.append(time.perf_counter() - began)
            engine.exchange([outcomes.succeed(claim, None, None, now) for claim in claims], None)
    delays.sort()
    p99 = delays[int(len(delays) * 0.99)]
    print(f'{{"jobs": {len(delays)}, "seconds": {delays[-1]}, "processor": {p99}}}', flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
