"""Walks the axes of an engine, step by step, and writes down each step when it is over."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from msgspec import Struct, structs

from bench import history, machine
from bench.ground import Ground, Store
from bench.scale import probing, schedules
from bench.scale.axes import Axis, load_of
from bench.scale.processors import wait_for_quiet
from bench.scale.rates import Rates
from bench.scale.readings import Reading, Readings, best

_MOST_TEXT = 500


class Extent(Struct, frozen=True):
    """How far a run goes, and how often it looks."""

    up_to: float
    probe: int
    rounds: int
    quiet: float | None = None  # percent others may use; steps that were read then are not measured again
    patience: float = 0  # seconds to wait for such a moment


def walk(ground: Ground, axis: Axis, extent: Extent, readings: Readings, tell: Callable[[str], None]) -> None:
    """The steps of one axis, until the last or the first that fails: a larger one would fail, too."""
    with _shared(ground, axis) as shared:
        before = 0
        for step in axis.steps(extent.up_to):
            if extent.quiet is not None and readings.has(ground.engine, axis.name, step):
                continue
            began = time.monotonic()
            reading = _reading(ground, axis, shared, before, step, extent)
            readings.add(reading)
            told = reading.error or ", ".join(f"{rate} {value:,.4g}" for rate, value in reading.rates.items())
            tell(f"{ground.engine}, {step:,} {axis.unit}, {time.monotonic() - began:.0f} s: {told}")
            if reading.error:
                break
            before = step


@contextlib.contextmanager
def _shared(ground: Ground, axis: Axis) -> Iterator[Store | None]:
    """The store of all steps, where each adds to the one before."""
    if not axis.keeps_store:
        yield None
        return
    with ground.store() as store:
        yield store


def _reading(ground: Ground, axis: Axis, shared: Store | None, before: int, step: int, extent: Extent) -> Reading:
    reading = Reading(ground.engine, axis.name, step, {})
    try:
        with contextlib.nullcontext(shared) if shared else ground.store() as store:
            rates = _rates(ground, store, axis, before, step, extent)
    except Exception as error:  # told in the report; the other axes are still worth measuring
        return structs.replace(reading, load=machine.load(), error=_told(error))
    return structs.replace(reading, rates=rates, load=machine.load())


def _told(error: Exception) -> str:
    """What failed, and the last words, which give the cause."""
    text = f"{type(error).__name__}: {error}"
    return text if len(text) <= _MOST_TEXT else f"{text[:100]} ... {text[100 - _MOST_TEXT :]}"


def _rates(ground: Ground, store: Store, axis: Axis, before: int, step: int, extent: Extent) -> Rates:
    load = load_of(axis.name, step, extent.probe)
    probing.prepare(store, load)
    grown = _grow(ground, store, axis, before, step)
    taken = []
    for _ in range(extent.rounds):
        probing.top_up(ground, store, load)
        if extent.quiet is not None:
            wait_for_quiet(extent.quiet, extent.patience)
        taken.append(probing.probe(ground, store, load) | _fired(store, axis))
    return grown | best(taken)


def _grow(ground: Ground, store: Store, axis: Axis, before: int, step: int) -> Rates:
    """What does not come by topping up."""
    if axis.name == "finished":
        history.build(ground, store, step - before)
    if axis.name == "schedules":
        return schedules.grow(store, before, step)
    return {}


def _fired(store: Store, axis: Axis) -> Rates:
    return schedules.fire(store) if axis.name == "schedules" else {}
