"""A second process for the suite: opens the same store, does one act, and dies when told to.

    python -m tests.support.actor KIND ADDRESS ACT ARGUMENT...

It says what it did as one line of JSON on stdout, and waits for a line on stdin where an act says so. Whoever
started it may kill it at any moment; that is the point.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import msgspec

from headrace.engines.protocol import Engine
from tests.support.builders import NOW, claim, worker_row
from tests.support.engines import KINDS
from tests.support.waiting import PATIENCE


def say(value: object) -> None:
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def wait_for_a_word() -> None:
    sys.stdin.readline()


def hold(engine: Engine, worker: str, jobs: str, begun: str, settled: str = "0", ended: str = "0") -> None:
    """Sign on, claim some jobs, begin a few of them, settle or only end a few of these, and sit there."""
    presence = engine.attend(worker_row(worker, concurrency=max(int(jobs), 1)))
    claims = claim(engine, int(jobs), worker=worker)
    places = [presence.begin(claimed.ref) for claimed in claims[: int(begun)]]
    for number, place in enumerate(places[: int(settled) + int(ended)]):
        assert place is not None
        if number < int(settled):
            presence.settled(place)
        else:
            presence.ended(place, claims[number].ref)
    say([claimed.id for claimed in claims])
    wait_for_a_word()


def drain(engine: Engine, worker: str, size: str) -> None:
    """At a word, claim in small batches until nothing is left."""
    say("ready")
    wait_for_a_word()
    taken: list[str] = []
    while claims := claim(engine, int(size), worker=worker):
        taken += [claimed.id for claimed in claims]
    say(taken)


def ring(engine: Engine, topic: str) -> None:
    say("ready")
    wait_for_a_word()
    engine.ring(topic)
    say("rung")


def listen(engine: Engine, topic: str) -> None:
    """Have a bell, tell so, and tell again when it rang."""
    bell = engine.listen(topic)
    say("ready")
    say(bell.wait(PATIENCE))
    wait_for_a_word()


def pause(engine: Engine, queue: str) -> None:
    engine.desk.pause_queue(queue, True)
    say(NOW)


ACTS: dict[str, Callable[..., None]] = {act.__name__: act for act in (hold, drain, ring, listen, pause)}


def main(kind: str, address: str, act: str, *arguments: str) -> None:
    ACTS[act](KINDS[kind].open(address), *arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
