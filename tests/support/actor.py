"""A second process for the suite: opens the same store, does one act, and dies when told to.

It says what it did through its pipe, and waits for a word where an act says so. Whoever started it may kill it at any
moment; that is the point.
"""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.connection import Connection

from headrace.engines.protocol.engine import Engine
from tests.support.builders import NOW, claim, worker_row
from tests.support.engines import KINDS
from tests.support.waiting import PATIENCE


def hold(
    pipe: Connection, engine: Engine, worker: str, jobs: int, begun: int, settled: int = 0, ended: int = 0
) -> None:
    """Sign on, claim some jobs, begin a few of them, settle or only end a few of these, and sit there."""
    liveness = engine.register_worker(worker_row(worker, concurrency=max(jobs, 1)))
    claims = claim(engine, jobs, worker=worker)
    places = [liveness.begin(claimed.ref) for claimed in claims[:begun]]
    for number, place in enumerate(places[: settled + ended]):
        assert place is not None
        if number < settled:
            liveness.settled(place)
        else:
            liveness.ended(place, claims[number].ref)
    pipe.send([claimed.id for claimed in claims])
    pipe.recv()


def drain(pipe: Connection, engine: Engine, worker: str, size: int) -> None:
    """At a word, claim in small batches until nothing is left."""
    pipe.send("ready")
    pipe.recv()
    taken: list[str] = []
    while claims := claim(engine, size, worker=worker):
        taken += [claimed.id for claimed in claims]
    pipe.send(taken)


def ring(pipe: Connection, engine: Engine, topic: str) -> None:
    pipe.send("ready")
    pipe.recv()
    engine.ring(topic)
    pipe.send("rung")


def listen(pipe: Connection, engine: Engine, topic: str) -> None:
    """Have a bell, tell so, and tell again when it rang."""
    bell = engine.listen(topic)
    pipe.send("ready")
    pipe.send(bell.wait(PATIENCE))
    pipe.recv()


def pause(pipe: Connection, engine: Engine, queue: str) -> None:
    engine.queries.pause_queue(queue, True)
    pipe.send(NOW)


ACTS: dict[str, Callable[..., None]] = {act.__name__: act for act in (hold, drain, ring, listen, pause)}


def perform(pipe: Connection, kind: str, address: str, act: str, *arguments: object) -> None:
    ACTS[act](pipe, KINDS[kind].open(address), *arguments)
