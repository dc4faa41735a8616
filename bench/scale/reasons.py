"""Why a curve bends: computed from what the workers did, and what is known of the stores."""

from __future__ import annotations

from bench.places import Engine
from bench.scale.axes import AxisName

_BUSY, _IDLE = 0.8, 0.5  # of the cores they could have used

_KNOWN: dict[tuple[AxisName, str], str] = {}


def reason(axis: AxisName, rate: str, engine: Engine, cores: float, used: float | None) -> str:
    """Sentences about a bend: who was busy at it, and the known cause, if there is one."""
    known = _KNOWN.get((axis, f"{rate} {engine}")) or _KNOWN.get((axis, rate), "")
    told = _who_was_busy(cores, used) if rate == "drain" and used is not None else ""
    return " ".join(text for text in (told, known) if text)


def _who_was_busy(cores: float, used: float) -> str:
    share, had = used / cores, f"{used:.1f} of {cores:g} core{'s' if cores > 1 else ''}"
    if share > _BUSY:
        return f"The workers kept {had} busy: their own processes are the limit."
    if share < _IDLE:
        return f"The workers used {had}: they waited for the store or for the machine."
    return f"The workers used {had}, and waited for the store the rest of the time."
