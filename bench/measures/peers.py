"""How fast others get through the same jobs."""

from __future__ import annotations

from bench import draining, racing
from bench.board import Score
from bench.ground import Ground
from bench.measure import Figure, Goal, Measure, Ratio, Readings
from bench.peers import Peer
from bench.places import Engine

_GOALS: dict[Engine, Goal] = {
    "sqlite": Goal("at least", 10),
    "postgres": Goal("at least", 2),
    "redis": Goal("at least", 3),
}
_COUNTS = {1: "one process", 2: "two processes"}


def peers(ground: Ground) -> Readings:
    """Jobs that do nothing, stored before, through one and two worker processes of headrace and of each peer.

    Results are kept by all who can; headrace keeps the records of its jobs as well. Two processes of a peer are
    compared with two of ours. Filling the store is not timed. A peer's clock starts with its first finished job and
    stops when the store knows that all are over; ours starts with the worker.
    """
    readings: Readings = {}
    for processes in _COUNTS:
        score = _headrace(ground, processes)
        readings |= {f"headrace {processes}": score.rate, f"headrace {processes} effort": score.effort}
    readings |= racing.ask_each(ground, lambda peer: _rates(ground, peer))
    if rivals := ground.rivals():
        readings |= {f"best {count}": max(readings[_key(peer, count)] for peer in rivals) for count in _COUNTS}
    return readings


def _headrace(ground: Ground, processes: int) -> Score:
    with ground.store() as store:
        draining.fill(store, ground.sizes.jobs, lambda subject: subject.noop)
        return draining.drain(ground, store, ground.sizes.jobs, processes=processes)


def _rates(ground: Ground, peer: Peer) -> Readings:
    readings: Readings = {}
    for processes in _COUNTS:
        rate, effort = racing.drain(ground, peer, int(ground.sizes.jobs * peer.share), processes)
        readings |= {_key(peer, processes): rate, f"{_key(peer, processes)} effort": effort}
    return readings


def _key(peer: Peer, processes: int) -> str:
    return f"{peer.title} {processes}"


def measure(engine: Engine, candidates: tuple[Peer, ...]) -> Measure:
    """The measure of an engine beside these."""
    ours = [Figure(f"headrace {count}", f"headrace, {words}") for count, words in _COUNTS.items()]
    theirs = [
        Figure(_key(peer, count), f"{peer.title}, {words}") for peer in candidates for count, words in _COUNTS.items()
    ]
    efforts = [Figure("headrace 1 effort", "processor time a job, headrace", "µs")] + [
        Figure(f"{_key(peer, 1)} effort", f"processor time a job, {peer.title}", "µs") for peer in candidates
    ]
    best = [
        Ratio(f"headrace {count}", f"best {count}", f"headrace / best peer, {words}", _GOALS[engine])
        for count, words in _COUNTS.items()
    ]
    each = [
        Ratio(f"headrace {count}", _key(peer, count), f"headrace / {peer.title}, {words}")
        for peer in candidates
        for count, words in _COUNTS.items()
    ]
    return Measure("peers", peers, (*ours, *theirs, *efforts), (*best, *each))
