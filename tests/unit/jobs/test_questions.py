"""The type of an answer as a schema, the fields of its form, and the check of an answer."""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import Any, Literal, TypedDict

import msgspec
import pytest

from headrace import InvalidJob
from headrace.core.jobs.questions import AnswerField, check_answer, fields_of, schema_of


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Decision(msgspec.Struct):
    approved: bool
    note: str = ""
    amount: float | None = None


@dataclasses.dataclass
class Address:
    street: str
    number: int


class Place(TypedDict):
    street: str


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (bool, [("", "boolean", True, ())]),
        (str, [("", "string", True, ())]),
        (int, [("", "integer", True, ())]),
        (Any, [("", "", True, ())]),
        (list[str], [("", "array", True, ())]),
        (Literal["pay", "refuse"], [("", "", True, ("pay", "refuse"))]),
        (Colour, [("", "", True, ("blue", "red"))]),
        (Address, [("street", "string", True, ()), ("number", "integer", True, ())]),
        (Place, [("street", "string", True, ())]),
        (
            Decision,
            [("approved", "boolean", True, ()), ("note", "string", False, ()), ("amount", "", False, ())],
        ),
    ],
)
def test_a_form_has_the_fields_of_the_type(kind: Any, fields: list[tuple[Any, ...]]) -> None:
    found = fields_of(schema_of(kind))
    assert [(one.name, one.kind, one.required, one.choices) for one in found] == fields


def test_a_pydantic_model_has_its_fields_and_descriptions() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Approval(pydantic.BaseModel):  # type: ignore[name-defined, misc]  # pydantic may be missing
        approved: bool = pydantic.Field(description="pay it?")

    assert fields_of(schema_of(Approval)) == [AnswerField("approved", "boolean", True, hint="pay it?")]


def test_a_type_without_a_form_is_refused() -> None:
    with pytest.raises(InvalidJob, match="a form can't be made of"):
        schema_of(object())


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (bool, True),
        (bool, False),
        (float, 3),
        (Literal[1, 2], 1),
        (Any, {"any": ["thing"]}),
        (Decision, {"approved": False}),
        (Decision, {"approved": True, "note": "fine", "amount": None}),
    ],
)
def test_an_answer_of_the_type_is_accepted(kind: Any, answer: Any) -> None:
    check_answer(schema_of(kind), answer)


@pytest.mark.parametrize(
    ("kind", "answer", "message"),
    [
        (bool, 1, "answer: expected boolean, got 1"),
        (int, True, "answer: expected integer, got True"),
        (int, 1.5, "answer: expected integer, got 1.5"),
        (str, None, "answer: expected string, got None"),
        (Literal[1, 2], True, "answer: expected one of 1, 2, got True"),
        (Colour, "green", "answer: expected one of 'blue', 'red', got 'green'"),
        (Decision, True, "answer: expected an object with 'approved', 'note', 'amount', got True"),
        (Decision, {}, "answer: 'approved' is missing"),
        (Decision, {"approved": "yes"}, "answer: 'approved': expected boolean, got 'yes'"),
        (Decision, {"approved": True, "Note": ""}, "answer: unknown 'Note'; known are 'approved', 'note', 'amount'"),
    ],
)
def test_another_answer_is_refused_by_field(kind: Any, answer: Any, message: str) -> None:
    with pytest.raises(InvalidJob) as refused:
        check_answer(schema_of(kind), answer)
    assert str(refused.value) == message


def test_a_schema_that_refers_to_nothing_accepts_anything() -> None:
    check_answer({"$ref": "#/$defs/Gone"}, 7)
