"""A question in a task: what `wait_event(ask=...)` accepts, and the answer as the type it declares."""

from __future__ import annotations

from typing import Any

from headrace.core.codec.annotations import TypeMismatch, shape_of
from headrace.core.jobs.questions import Question, schema_of
from headrace.core.option_times import LONGEST_WAIT, check_seconds
from headrace.core.tasks.options import check_name, check_text
from headrace.errors import InvalidJob

_SHORTEST_REMINDER = 1


def question_of(ask: str | None, answer: Any, to: str | None, remind: Any) -> Question | None:
    """The question of a wait; None if it waits for an event that no person is asked for."""
    if ask is None:
        if to is not None or remind is not None or answer is not bool:
            raise InvalidJob("wait_event: answer, to and remind need ask, the text of the question")
        return None
    interval = None if remind is None else check_seconds("remind", remind, _SHORTEST_REMINDER, LONGEST_WAIT)
    return Question(check_text("ask", ask), schema_of(answer), None if to is None else check_name("to", to), interval)


def answer_of(name: str, answer: Any, value: Any) -> Any:
    """The answer as an instance of its type. An event that `app.signal` sent is checked only here."""
    try:
        return shape_of(answer).rebuilt(value)
    except TypeMismatch as error:
        raise InvalidJob(f"event {name!r}{error.message(hide=False)}") from None
