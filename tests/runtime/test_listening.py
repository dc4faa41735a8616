"""Handlers of events in trouble: a store that goes away, handlers that raise, clocks that were wrong, backlogs."""

from __future__ import annotations

import msgspec
import pytest

from headrace import Happening, Headrace
from headrace.core.shelf import Paper
from headrace.runtime import listening
from headrace.runtime.listening import KIND, Place
from tests.runtime.kit import Gate, eventually


def _begin_at(app: Headrace, name: str, place: Place) -> None:
    assert app.engine.shelf.put([Paper(KIND, name, 0, msgspec.json.encode(place).decode())])


@pytest.mark.engines("sqlite")
def test_one_that_listens_everywhere_and_fails_at_first_is_not_told_what_was_before(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "_PAUSES", (0.01,))
    app.task_by_name("old").enqueue()
    gate, seen = Gate(), list[str | None]()
    _begin_at(app, "slow", Place("0"))
    app.on("job.enqueued", name="slow")(lambda event: gate.pass_through())

    def handle(event: Happening) -> None:
        seen.append(event.task)
        if len(seen) == 1:
            raise RuntimeError("not yet")

    app.on("job.enqueued", name="here", everywhere=True)(handle)
    with app.listening():
        gate.wait_until_reached()  # so that there is something to handle when it looks for the first time
        app.task_by_name("new").enqueue()
        gate.open()
        eventually(lambda: len(seen) >= 2, "it is tried again")
    assert seen == ["new", "new"]
