"""Whom headrace is measured beside: what to install for each, and at which settings it is at its best.

The settings were found by trying on two cores: more threads or more jobs at once made it no faster, or slower.
"""

from __future__ import annotations

from msgspec import Struct

from bench.places import Engine

_ASYNC_POSTGRES = ("psycopg[binary]", "psycopg-pool", "uvloop")
_REDIS = ("redis", "hiredis")


class Peer(Struct, frozen=True):
    """One peer at one setting. `module` is its program in `bench.children.peers`."""

    title: str
    module: str
    packages: tuple[str, ...]
    option: str = "-"
    keeps: bool = True  # results or, where it knows none, records of finished jobs
    share: float = 0.2  # of the jobs of a drain: a slow one shows its rate with fewer
    counts: bool = True  # whether it does enough of the same work to be called the best peer

    @property
    def package(self) -> str:
        """Its name in the registry."""
        return self.packages[0].partition("[")[0]


_DRAMATIQ = ("dramatiq", *_REDIS)
_TASKIQ = ("taskiq", "taskiq-redis", "uvloop", *_REDIS)


def peers_of(engine: Engine, durability: str) -> tuple[Peer, ...]:
    """All that are known for the engine."""
    if engine == "sqlite":
        as_it_comes = Peer("huey, as it comes", "huey", ("huey",), "full 1", share=0.05, counts=False)
        same = Peer("huey, same durability", "huey", ("huey",), f"{durability} 1")
        return (same, as_it_comes)
    return _POSTGRES_PEERS if engine == "postgres" else _REDIS_PEERS


_POSTGRES_PEERS = (
    Peer("pgqueuer", "pgqueuer", ("pgqueuer[asyncpg]", "uvloop"), share=1.0),
    Peer("chancy", "chancy", ("chancy", *_ASYNC_POSTGRES)),
    Peer("procrastinate", "procrastinate", ("procrastinate", *_ASYNC_POSTGRES), "20", share=0.05),
    Peer("huey", "huey", ("huey", "psycopg[binary]"), "8", share=0.1),
)
_REDIS_PEERS = (
    Peer("dramatiq", "dramatiq", _DRAMATIQ, "results 16"),
    Peer("dramatiq, no results", "dramatiq", _DRAMATIQ, "16", keeps=False, counts=False),
    Peer("huey", "huey", ("huey", *_REDIS), "1"),
    Peer("taskiq", "taskiq", _TASKIQ, "stream 100"),
    Peer("taskiq, no acknowledgment", "taskiq", _TASKIQ, "list 100", counts=False),
    Peer("saq", "saq", ("saq", "typing-extensions", "uvloop", *_REDIS), "50", share=0.1),
    Peer("arq", "arq", ("arq", "uvloop", "hiredis"), "100", share=0.05),
    Peer("RQ", "rq", ("rq", *_REDIS), share=0.03),
    Peer("Celery", "celery", ("celery[redis]", "hiredis"), share=0.05),
)
