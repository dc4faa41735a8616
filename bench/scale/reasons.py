"""Why a curve bends: computed from what the workers did, and what is known of the stores."""

from __future__ import annotations

from bench.places import Engine
from bench.scale.axes import AxisName

_BUSY, _IDLE = 0.8, 0.5  # of the cores they could have used

_EACH_QUEUE = "Each claim reads every queue of the store, with one look into the index of waiting jobs for each."
_CORES = "More processes than cores take turns on them; each also claims, renews its lease and maintains the store."
_BYTES = "Bytes are the limit: the jobs a second fall as their size grows."
_WAKES = f"{_CORES} The commits of each one notify all others."
_LANES = "The jobs of each key wait in a lane of their own; a claim reads the lanes, and the rate of each, one by one."

# By axis and rate, where needed with the engine.
_KNOWN: dict[tuple[AxisName, str], str] = {
    ("queues", "drain"): f"{_EACH_QUEUE} A worker of all queues also shares its slots among all of them.",
    ("queues", "p50"): f"{_EACH_QUEUE} An idle worker's retention reads them one by one, too.",
    (
        "queues",
        "enqueue",
    ): "The jobs of a batch go to as many places of the index, and their events are grouped by queue.",
    ("names", "drain"): "A worker tells the store with each claim which names it knows.",
    (
        "names",
        "drain sqlite",
    ): "A worker that meets a name for the first time looks it up, and events are grouped by name.",
    ("names", "p50"): "A worker tells the store with each claim and each heartbeat which names it knows.",
    ("names", "enqueue"): "What a task's options come to is worked out once for each, and events are grouped by name.",
    ("processes", "drain"): _CORES,
    ("processes", "drain sqlite"): f"{_CORES} One of them writes at a time.",
    ("processes", "drain postgres"): _WAKES,
    ("processes", "drain redis"): _WAKES,
    ("processes", "p50"): "Every idle worker wakes up for a job and asks for it; one gets it.",
    ("keys", "drain"): _LANES,
    ("keys", "enqueue"): "Each new key is a new lane in the index.",
    ("payload", "enqueue"): _BYTES,
    ("payload", "drain"): _BYTES,
    ("payload", "p50"): _BYTES,
    ("schedules", "drain"): "A worker that starts reads all schedules.",
    ("schedules", "p50"): "A worker that starts reads all schedules.",
}


def reason(axis: AxisName, rate: str, engine: Engine, cores: float, used: float | None) -> str:
    """Sentences about a bend: who was busy at it, and the known cause, if there is one."""
    about = "drain" if rate == "cost" else rate
    known = _KNOWN.get((axis, f"{about} {engine}")) or _KNOWN.get((axis, about), "")
    told = _who_was_busy(cores, used) if rate == "drain" and used is not None else ""
    return " ".join(text for text in (told, known) if text)


def _who_was_busy(cores: float, used: float) -> str:
    share, had = used / cores, f"{used:.1f} of {cores:g} core{'s' if cores > 1 else ''}"
    if share > _BUSY:
        return f"The workers kept {had} busy: their own processes are the limit."
    if share < _IDLE:
        return f"The workers used {had}: they waited for the store or for the machine."
    return f"The workers used {had}, and waited for the store the rest of the time."
