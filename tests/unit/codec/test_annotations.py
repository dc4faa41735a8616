"""Annotations that are seldom met: what they say is checked and rebuilt, and what can't be understood fits all."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable
from enum import Enum
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, TypeVar

import pytest

from headrace.core.codec.annotations import TypeMismatch, shape_of

if typing.TYPE_CHECKING:
    from somewhere_else import Unknown  # type: ignore[import-not-found]

T = TypeVar("T")


class Color(Enum):
    RED = "red"


class Place(NamedTuple):
    x: int
    color: Color = Color.RED


@dataclasses.dataclass
class Box(Generic[T]):
    inside: T


@dataclasses.dataclass
class Parcel:
    sender: Unknown
    color: Color


class Alias:
    """As Python 3.12 makes one of `type Tree = dict[str, Tree] | Color`: its value is computed later."""

    @property
    def __value__(self) -> Any:
        return dict[str, self] | Color  # type: ignore[valid-type]


class Unasked(type):
    """A class that isinstance() can't use."""

    def __instancecheck__(cls, value: Any) -> bool:
        raise TypeError("no")


class Odd(metaclass=Unasked): ...


def refusal(annotation: Any, value: Any, *, rebuilt: bool = False) -> str:
    """The message for a value that does not fit."""
    shape = shape_of(annotation)
    with pytest.raises(TypeMismatch) as refused:
        shape.rebuilt(value) if rebuilt else shape.fit(value)
    return refused.value.message(hide=False)


def test_none_and_notes_are_looked_through() -> None:
    assert refusal(None, 0) == ": expected NoneType, got int 0"
    shape_of(None).fit(None)
    noted = Annotated[list[Annotated[int, "inner"]], "outer"]
    assert refusal(noted, ["x"]) == "[0]: expected int, got str 'x'"
    shape_of(noted).fit([1])


def test_an_alias_is_what_it_stands_for_and_may_hold_itself() -> None:
    shape = shape_of(Alias())
    assert shape.rebuilt("red") is Color.RED
    assert refusal(Alias(), 7) == ": expected dict[str, anything] | Color, got int 7"
    deep: dict[str, Any] = {"a": {"b": {"c": 1}}}
    shape.fit(deep)
    assert shape.rebuilt(deep) == deep


@pytest.mark.parametrize("annotation", [Odd, ClassVar[int], "Unknown", T])
def test_an_unclear_annotation_fits_everything(annotation: Any) -> None:
    shape = shape_of(annotation)
    for value in (1, "x", None, [1]):
        shape.fit(value)
        assert shape.rebuilt(value) is value


def test_a_generic_model_is_rebuilt_as_the_plain_one() -> None:
    assert shape_of(Box[int]).rebuilt({"inside": 7}) == Box(7)
    assert refusal(Box[int], 7) == ": expected Box, got int 7"


def test_what_can_be_iterated_but_is_no_list_stays_as_it_is() -> None:
    shape = shape_of(Iterable[Color])
    assert shape.rebuilt(["red"]) == [Color.RED]
    assert shape.rebuilt({"red": 1}) == {"red": 1}
    assert refusal(Iterable[Color], 7, rebuilt=True) == ": expected Iterable[Color], got int 7"


def test_a_named_tuple_is_made_of_a_tuple_alone() -> None:
    assert shape_of(Place).rebuilt((1, "red")) == Place(1, Color.RED)
    assert refusal(Place, [1, "red"], rebuilt=True).startswith(": expected Place, got list")
    assert refusal(Place, (1, "blue"), rebuilt=True).startswith("[1]: expected Color, got str 'blue'")
    assert "positional arguments" in refusal(Place, (1, "red", 3), rebuilt=True)


def test_a_model_with_a_name_that_only_type_checkers_know_is_made_of_plain_values() -> None:
    assert shape_of(Parcel).rebuilt({"sender": {"a": 1}, "color": "red"}) == Parcel({"a": 1}, "red")  # type: ignore[arg-type]


def test_a_model_of_an_older_pydantic_is_validated_without_unknown_arguments() -> None:
    class Older:
        model_fields: ClassVar = {"n": None}
        model_dump = None

        @classmethod
        def model_validate(cls, value: Any) -> Any:
            return SimpleNamespace(n=value["n"] + 1)

    assert shape_of(Older).rebuilt({"n": 1}).n == 2


def test_a_model_error_without_a_text_is_named_by_its_type() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("not even that")

    @dataclasses.dataclass
    class Strict:
        n: int

        def __post_init__(self) -> None:
            raise Mute

    assert refusal(Strict, {"n": 1}, rebuilt=True) == ": expected Strict, got dict {'n': 1} (Mute: )"
