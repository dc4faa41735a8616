"""What was read, in a file that grows line by line: an end in the middle loses nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from bench.places import Engine
from bench.scale.axes import AxisName
from bench.scale.rates import DISTURBANCES, SIZES, TIMES, Rates


class Reading(Struct, frozen=True):
    """The rates of an engine at one step of an axis, or why there are none."""

    engine: Engine
    axis: AxisName
    step: int
    rates: dict[str, float]
    load: str = ""  # of the machine, when it was over
    error: str = ""


class Readings:
    """The readings of a folder, its runs' facts included.

    Of a step that is measured again, the best of each rate counts: whatever else the machine does makes it slower only.
    Readings during which others used more than `quiet` percent of the processors don't count.
    """

    def __init__(self, folder: Path, quiet: float = 100) -> None:
        self._lines = folder / "readings.jsonl"
        self._facts = folder / "facts.json"
        self._quiet = quiet
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, reading: Reading) -> None:
        with self._lines.open("ab") as file:
            file.write(msgspec.json.encode(reading) + b"\n")

    def all(self) -> list[Reading]:
        """One reading of each step, in order; a failed one only if there is no other."""
        found: defaultdict[tuple[str, str, int], list[Reading]] = defaultdict(list)
        for reading in self._read():
            found[reading.axis, reading.engine, reading.step].append(reading)
        return [_combined(found[step]) for step in sorted(found)]

    def has(self, engine: Engine, axis: AxisName, step: int) -> bool:
        """Whether the step was read without an error."""
        return any((one.engine, one.axis, one.step, one.error) == (engine, axis, step, "") for one in self._read())

    def facts(self) -> dict[str, str]:
        return msgspec.json.decode(self._facts.read_bytes(), type=dict[str, str]) if self._facts.exists() else {}

    def add_facts(self, facts: dict[str, str]) -> None:
        self._facts.write_bytes(msgspec.json.encode(self.facts() | facts))

    def _read(self) -> Iterable[Reading]:
        lines = self._lines.read_bytes().splitlines() if self._lines.exists() else []
        found = (msgspec.json.decode(line, type=Reading) for line in lines)
        return [reading for reading in found if reading.rates.get("others", 0) <= self._quiet]


def _combined(taken: Sequence[Reading]) -> Reading:
    """All readings of one step as one, with the load of the last."""
    whole = [reading for reading in taken if not reading.error]
    return structs.replace(whole[-1], rates=best([reading.rates for reading in whole])) if whole else taken[-1]


def best(taken: Sequence[Rates]) -> Rates:
    """The best of each rate: the shortest time, the smallest size, the least disturbance.

    `cores` is that of the best drain.
    """
    found = {
        rate: (min if rate in TIMES | SIZES | DISTURBANCES else max)(rates[rate] for rates in taken if rate in rates)
        for rate in dict.fromkeys(rate for rates in taken for rate in rates)
    }
    if "cores" in found:
        found["cores"] = max((rates["drain"], rates["cores"]) for rates in taken if "cores" in rates)[1]
    return found


def curve(readings: Iterable[Reading], axis: str, engine: str, rate: str) -> list[tuple[float, float]]:
    """The points of one rate, by step."""
    return [
        (reading.step, reading.rates[rate])
        for reading in readings
        if reading.axis == axis and reading.engine == engine and rate in reading.rates
    ]
