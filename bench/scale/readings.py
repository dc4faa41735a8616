"""What was read, in a file that grows line by line: an end in the middle loses nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.places import Engine
from bench.scale.axes import AxisName


class Reading(Struct, frozen=True):
    """The rates of an engine at one step of an axis, or why there are none."""

    engine: Engine
    axis: AxisName
    step: int
    rates: dict[str, float]
    load: str = ""  # of the machine, when it was over
    error: str = ""


class Readings:
    """The readings of a folder, its runs' facts included. What is measured again replaces what was there."""

    def __init__(self, folder: Path) -> None:
        self._lines = folder / "readings.jsonl"
        self._facts = folder / "facts.json"
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, reading: Reading) -> None:
        with self._lines.open("ab") as file:
            file.write(msgspec.json.encode(reading) + b"\n")

    def all(self) -> list[Reading]:
        """The newest reading of each step, a failed one only if there is no other."""
        kept: dict[tuple[str, str, int], Reading] = {}
        for reading in self._read():
            name = (reading.axis, reading.engine, reading.step)
            if not reading.error or name not in kept:
                kept[name] = reading
        return sorted(kept.values(), key=lambda reading: (reading.axis, reading.engine, reading.step))

    def facts(self) -> dict[str, str]:
        return msgspec.json.decode(self._facts.read_bytes(), type=dict[str, str]) if self._facts.exists() else {}

    def add_facts(self, facts: dict[str, str]) -> None:
        self._facts.write_bytes(msgspec.json.encode(self.facts() | facts))

    def _read(self) -> Iterable[Reading]:
        lines = self._lines.read_bytes().splitlines() if self._lines.exists() else []
        return [msgspec.json.decode(line, type=Reading) for line in lines]


def curve(readings: Iterable[Reading], axis: str, engine: str, rate: str) -> list[tuple[float, float]]:
    """The points of one rate, by step."""
    return [
        (reading.step, reading.rates[rate])
        for reading in readings
        if reading.axis == axis and reading.engine == engine and rate in reading.rates
    ]
