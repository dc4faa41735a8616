"""Moves that succeed, and such that are cut off."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.app.transfer.move import CopyStep, StoreCopy
from headrace.engines.protocol.engine import Engine

JOBS = 700  # more than two pages


ELSEWHERE = "postgresql://elsewhere/db"


class Stopped(Exception):
    """The move was cut off here."""


def move(source: Engine, target: Engine) -> StoreCopy:
    """A whole move that is expected to succeed."""
    made = StoreCopy(source, target)
    finish(made)
    return made


def stop_at(number: int) -> Callable[[CopyStep], None]:
    """Cut the move off after so many jobs."""

    def look(step: CopyStep) -> None:
        if step.stage == "copying" and step.done >= number:
            raise Stopped

    return look


def cut_off(source: Engine, target: Engine, number: int, *, into_used: bool = False) -> None:
    with pytest.raises(Stopped):
        StoreCopy(source, target, into_used=into_used, progress=stop_at(number)).run(0)


def finish(made: StoreCopy) -> None:
    """Run a transfer to the end."""
    made.run(0)
    assert made.verify().differences == []
    made.open()


def unchanged(*engines: Engine) -> bool:
    return all(engine.transfer.store_status() is None for engine in engines)
