"""Many who listen to events, in one process: `listeners PORT FEW ALL STALLED`.

So many listen to one queue, so many to everything, and so many take nothing of what they are sent. From the word to the
end of the standard input, each notes how old an event is when it comes. It reports how often that was, the longest and,
in the place of the processor's time, the 99th percentile, in seconds.
"""

from __future__ import annotations

import asyncio
import re
import socket
import sys
import time
from datetime import datetime

_AT = re.compile(rb'"at":"([^"]+)"')
_ASK = "GET /api/v1/events?types=job.completed{} HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def listen(port: int, which: str, ages: list[float], connected: asyncio.Event) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    writer.write(_ASK.format(which).encode())
    await reader.readuntil(b"retry: 2000")
    connected.set()
    while chunk := await reader.read(1 << 18):
        if found := _AT.findall(chunk):
            ages.append(time.time() - datetime.fromisoformat(found[-1].decode()).timestamp())


def stall(port: int) -> socket.socket:
    """Ask for everything, with little room, and never read it."""
    stalled = socket.socket()
    stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stalled.connect(("127.0.0.1", port))
    stalled.sendall(_ASK.format("").encode())
    return stalled


async def run(port: int, few: int, everything: int, stalled: int) -> None:
    ages: list[float] = []
    whiches = ["&queue=probe"] * few + [""] * everything
    waiting = [stall(port) for _ in range(stalled)]
    there = [asyncio.Event() for _ in whiches]
    tasks = [
        asyncio.create_task(listen(port, *each)) for each in zip(whiches, [ages] * len(whiches), there, strict=True)
    ]
    for one in there:
        await one.wait()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    ages.clear()
    await asyncio.to_thread(sys.stdin.readline)
    ages.sort()
    left = sum(task.done() for task in tasks)
    if left or not ages:
        sys.exit(f"{left} listeners were dropped that took everything, {len(ages)} events came")
    print(f'{{"jobs": {len(ages)}, "seconds": {ages[-1]}, "processor": {ages[len(ages) * 99 // 100]}}}', flush=True)
    for each in waiting:
        each.close()
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(run(*map(int, sys.argv[1:])))
