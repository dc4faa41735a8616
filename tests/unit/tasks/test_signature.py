"""A bad call is refused at enqueue by the parameter's name, and the worker gets exactly what was given."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
import math
import traceback
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, IntEnum, IntFlag, StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NewType, Protocol, TypedDict, TypeVar, cast

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.codec.codec import decode, decode_call, encode
from headrace.core.codec.models import same
from headrace.core.tasks.signature import Signature
from headrace.errors import CorruptPayload, InvalidJob, PayloadTooLarge

if typing.TYPE_CHECKING:
    from somewhere_else import Unknown  # type: ignore[import-not-found]

T = TypeVar("T")
UserId = NewType("UserId", int)


class Account(pydantic.BaseModel):
    password: str
    number: int


class Color(Enum):
    RED = "red"
    PAIR = (1, 2)


class Level(IntEnum):
    LOW = 1


class Mood(StrEnum):
    GOOD = "good"


class Right(IntFlag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass(frozen=True)
class Line:
    item: str
    price: Decimal
    amount: int = 1


@dataclasses.dataclass
class Order:
    id: int
    lines: list[Line]
    color: Color | None = None
    placed: datetime = None  # type: ignore[assignment]


@dataclasses.dataclass
class Tree:
    value: int
    children: list[Tree] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Derived(Line):
    pass


@dataclasses.dataclass(eq=False)
class Measured:
    width: float
    area: float = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.area = self.width**2


@dataclasses.dataclass
class Halved:
    amount: float

    def __post_init__(self) -> None:
        self.amount /= 2


@dataclasses.dataclass
class NeedsMore:
    a: int
    b: dataclasses.InitVar[int]


class Point(msgspec.Struct):
    x: int
    y: int = 0


class Cat(msgspec.Struct, tag=True):
    name: str


class Dog(msgspec.Struct, tag=True):
    name: str


@dataclasses.dataclass
class Apple:
    weight: int


@dataclasses.dataclass
class Pear:
    weight: int


@dataclasses.dataclass
class Heavy:
    weight: int
    tons: int = 0


class Spot(NamedTuple):
    x: int
    color: Color
    z: int = 0


class Address(pydantic.BaseModel):
    street: str


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(alias="fullName")
    born: date
    homes: list[Address] = []
    score: float = 0.0
    site: pydantic.AnyUrl | None = None

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def shout(self) -> str:
        return self.name.upper()


class Secret(pydantic.BaseModel):
    key: pydantic.SecretStr


class Names(pydantic.RootModel[list[str]]):
    pass


class Options(TypedDict):
    a: int


class Speaks(Protocol):
    def speak(self) -> None: ...


def given_as(annotation: Any, default: Any = inspect.Parameter.empty) -> Signature:
    """A task `work` with one parameter `it` of this annotation."""

    def work(it: Any) -> Any: ...

    parameter = inspect.Parameter("it", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation)
    work.__signature__ = inspect.Signature([parameter])  # type: ignore[attr-defined]
    return Signature.of(work)


def round_trip(signature: Signature, *args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of the function in the worker."""
    return signature.rebuild(*decode_call(signature.encode(args, kwargs)))


# -- binding ---------------------------------------------------------------------------------------------------


def plain(a, b=2): ...
def strict(a, /, b, *, c, d=4): ...
def gathers(a, *rest, k=1, **more): ...
def shadowed(a, /, **more): ...
def nothing(): ...
def everything(*args, **kwargs): ...


names = st.sampled_from(["a", "b", "c", "d", "k", "z"])


@given(
    st.sampled_from([plain, strict, gathers, shadowed, nothing, everything]),
    st.lists(st.integers(), max_size=4).map(tuple),
    st.dictionaries(names, st.integers(), max_size=4),
)
def test_a_call_is_refused_exactly_when_python_would_refuse_it(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    try:
        fn(*args, **kwargs)
    except TypeError:
        with pytest.raises(InvalidJob, match=rf"^{fn.__name__}\(\) "):
            Signature.of(fn).check(args, kwargs)
    else:
        assert Signature.of(fn).check(args, kwargs) == (args, kwargs)
        assert round_trip(Signature.of(fn), *args, **kwargs) == (args, kwargs)


@pytest.mark.parametrize(
    ("fn", "args", "kwargs", "message"),
    [
        (plain, (), {}, "plain() misses the argument 'a'"),
        (strict, (), {}, "strict() misses the arguments 'a', 'b', 'c'"),
        (plain, (1, 2, 3), {}, "plain() takes 2 positional arguments but 3 were given"),
        (plain, (1,), {"a": 2}, "plain() argument 'a' is given twice: by position and by name"),
        (plain, (1,), {"z": 2}, "plain() has no argument 'z'; it takes 'a', 'b'"),
        (strict, (), {"a": 1}, "strict() argument 'a' can be given by position only"),
        (nothing, (), {"z": 2}, "nothing() has no argument 'z'; it takes none by name"),
    ],
)
def test_a_call_that_does_not_bind_gets_an_error_with_the_cause(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], message: str
) -> None:
    for action in (Signature.of(fn).check, Signature.of(fn).encode):
        with pytest.raises(InvalidJob) as refused:
            action(args, kwargs)
        assert str(refused.value) == message


def test_at_most_100_positional_and_50_keyword_arguments_are_allowed() -> None:
    signature = Signature.of(everything)
    fifty = {f"k{number}": number for number in range(50)}
    assert signature.check((0,) * 100, fifty) == ((0,) * 100, fifty)
    for args, kwargs in (((0,) * 101, {}), ((), fifty | {"z": 1})):
        with pytest.raises(InvalidJob, match="at most 100 and 50 are allowed"):
            signature.check(args, kwargs)


def test_the_limits_hold_for_a_function_that_really_has_so_many_parameters() -> None:
    def wide() -> None: ...

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(f"p{number}", kind, default=0) for number in range(120)]
    wide.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with pytest.raises(InvalidJob, match="at most 100"):
        Signature.of(wide).check((0,) * 101, {})
    with pytest.raises(InvalidJob, match="and 50 are"):
        Signature.of(wide).check((), {f"p{n}": 0 for n in range(51)})
    assert Signature.of(wide).check((1,) * 100, {"p110": 1})


# -- annotations -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (int, [1, True, 10**30], ["1", 1.0, None, [1]]),
        (float, [1.5, 1, True, math.nan], ["1", None, Decimal(1)]),
        (bool, [True], [1, "true", None]),
        (str, ["x"], [1, b"x", None]),
        (bytes, [b"x", bytearray(b"x")], ["x"]),
        (date, [date(2026, 1, 2), datetime(2026, 1, 2)], ["2026-01-02"]),
        (datetime, [datetime(2026, 1, 2, tzinfo=UTC)], [date(2026, 1, 2), "2026-01-02T00:00:00Z"]),
        (Decimal, [Decimal("1.0")], [1.0, 1]),
        (None, [None], [0]),
        (list, [[1, "a"]], [(1,), "ab", {}]),
        (list[int], [[], [1, True]], [[1, "x"], [None], (1,)]),
        (list[list[int]], [[[1]]], [[["x"]], [1]]),
        (set[str], [{"a"}, set()], [{1}, ["a"]]),
        (tuple, [(1, "a")], [[1]]),
        (tuple[int, str], [(1, "a")], [(1,), (1, "a", 2), ("a", 1), [1, "a"]]),
        (tuple[int, ...], [(), (1, 2)], [("a",), [1]]),
        (tuple[()], [()], [(1,)]),
        (dict[str, int], [{}, {"a": 1}], [{"a": "x"}, {1: 1}, []]),
        (Mapping[str, list[int]], [{"a": [1]}], [{"a": ["x"]}, [("a", [1])]]),
        (Sequence[int], [[1], (1,)], [["x"], 1, {1}]),
        (Iterable[int], [[1], (1,), {1}, {1: 2}], [1, ["x"]]),
        (typing.Optional[int], [1, None], ["x"]),  # noqa: UP045
        (typing.Union[int, list[str]], [1, ["a"]], ["x", [1], None]),  # noqa: UP007
        (int | None, [1, None], ["x"]),
        (Literal["a", 1], ["a", 1], ["b", True, 1.0, None]),
        (Annotated[int, "a note"], [1], ["x"]),
        (UserId, [1], ["x"]),
        (Options, [{"a": 1}], [1, []]),
        (typing.List[int], [[1]], [["x"]]),  # noqa: UP006
        (typing.Dict[str, int], [{"a": 1}], [{"a": "x"}]),  # noqa: UP006
        (Color, [Color.RED], ["red", Mood.GOOD, None]),
        (Line, [Line("a", Decimal(1))], [{"item": "a", "price": Decimal(1)}, None]),
        (Point, [Point(1)], [{"x": 1}]),
    ],
)
def test_a_value_is_checked_against_its_annotation(annotation: Any, good: list[Any], bad: list[Any]) -> None:
    signature = given_as(annotation)
    for value in good:
        assert signature.check((value,), {}) == ((value,), {})
        assert signature.check((), {"it": value}) == ((), {"it": value})
        assert same(round_trip(signature, value)[0][0], value)
    for value in bad:
        for args, kwargs in (((value,), {}), ((), {"it": value})):
            with pytest.raises(InvalidJob, match=r"^work\(\) argument 'it'.*: expected .*, got "):
                signature.check(args, kwargs)


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (int, "x", "work() argument 'it': expected int, got str 'x'"),
        (int | None, 1.5, "work() argument 'it': expected int | None, got float 1.5"),
        (list[int], [1, 2, "x"], "work() argument 'it'[2]: expected int, got str 'x'"),
        (dict[str, list[int]], {"a b": [None]}, "work() argument 'it'['a b'][0]: expected int, got NoneType None"),
        (dict[str, int], {7: 1}, "work() argument 'it' key 7: expected str, got int 7"),
        (tuple[int, str], (1,), "work() argument 'it': expected tuple[int, str], got tuple (1,)"),
        (Literal["a"], "b", "work() argument 'it': expected one of 'a', got str 'b'"),
        (Line, 1, "work() argument 'it': expected Line, got int 1"),
    ],
)
def test_the_error_names_the_parameter_the_place_the_value_and_the_type(
    annotation: Any, value: Any, message: str
) -> None:
    with pytest.raises(InvalidJob) as refused:
        given_as(annotation).encode((value,), {})
    assert str(refused.value) == message


def test_a_huge_value_makes_a_short_error() -> None:
    for value in ("x" * 10**6, 10**5000, [[0] * 1000] * 1000):
        with pytest.raises(InvalidJob) as refused:
            given_as(datetime).check((value,), {})
        assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "annotation",
    [Any, object, T, Speaks, Callable[[int], int], "Unknown", "list[Unknown]", "1 +", 5],
)
def test_an_annotation_that_says_nothing_checkable_allows_everything(annotation: Any) -> None:
    signature = given_as(annotation)
    for value in (None, 1, [1, "a"]):
        assert signature.check((value,), {}) == ((value,), {})


def test_one_annotation_that_cannot_be_resolved_does_not_spoil_the_others() -> None:
    def work(a: Unknown, b: int, c: list[Unknown]) -> Unknown: ...

    signature = Signature.of(work)
    signature.check(("anything", 1, 2), {})
    with pytest.raises(InvalidJob, match="argument 'b': expected int"):
        signature.check(("anything", "x", 2), {})
    with pytest.raises(InvalidJob, match=r"argument 'a': a Line .*annotation 'Unknown' can't be resolved here"):
        signature.encode((Line("a", Decimal(1)), 1, 2), {})


def test_none_is_accepted_where_it_is_the_default() -> None:
    assert given_as(int, default=None).check((None,), {}) == ((None,), {})
    assert round_trip(given_as(Line, default=None), None) == ((None,), {})
    with pytest.raises(InvalidJob, match="expected int, got NoneType"):
        given_as(int, default=5).check((None,), {})


def test_gathered_arguments_are_each_checked() -> None:
    def work(*numbers: int, **words: str) -> None: ...

    signature = Signature.of(work)
    assert signature.check((1, 2), {"a": "x"}) == ((1, 2), {"a": "x"})
    with pytest.raises(InvalidJob, match=r"^work\(\) argument 'numbers'\[1\]: expected int, got str 'x'$"):
        signature.check((1, "x"), {})
    with pytest.raises(InvalidJob, match=r"^work\(\) argument 'words'\['a'\]: expected str, got int 1$"):
        signature.check((), {"a": 1})


def test_an_iterator_is_not_used_up_by_looking_at_it() -> None:
    numbers = iter([1, 2])
    given_as(Iterable[str]).check((numbers,), {})
    assert [*numbers] == [1, 2]


# -- every kind of callable ------------------------------------------------------------------------------------


class Tool:
    def method(self, a: int) -> Line: ...  # type: ignore[empty-body]

    @classmethod
    def of_class(cls, a: int) -> None: ...

    @staticmethod
    def static(a: int) -> None: ...

    def __call__(self, a: int) -> None: ...


class Made:
    def __init__(self, a: int) -> None: ...


async def coroutine(a: int) -> Line: ...  # type: ignore[empty-body]


def decorated_source(a: int) -> None: ...


@functools.wraps(decorated_source)
def decorated(*args: Any, **kwargs: Any) -> None: ...


@pytest.mark.parametrize(
    "fn",
    [
        coroutine,
        decorated,
        Tool().method,
        Tool.of_class,
        Tool.static,
        Tool(),
        Made,
        functools.partial(coroutine),
        lambda a: None,
    ],
)
def test_every_kind_of_callable_has_a_signature(fn: Callable[..., Any]) -> None:
    signature = Signature.of(fn)
    assert signature.check((1,), {}) == ((1,), {})
    with pytest.raises(InvalidJob):
        signature.check((1, 2), {})
    if getattr(fn, "__name__", "") != "<lambda>":
        with pytest.raises(InvalidJob, match="argument 'a': expected int"):
            signature.check(("x",), {})


def test_a_builtin_without_a_signature_accepts_any_call() -> None:
    with pytest.raises(ValueError, match="no signature"):
        inspect.signature(dict.update)
    signature = Signature.of(dict.update)
    assert round_trip(signature, 1, "x", k=(2,)) == ((1, "x"), {"k": (2,)})
    with pytest.raises(InvalidJob, match="at most 100"):
        signature.check((0,) * 101, {})


def test_classes_local_to_a_function_are_found_when_it_uses_them() -> None:
    @dataclasses.dataclass
    class Local:
        a: int
        next: Local | None = None

    def work(it: Local) -> None:
        assert isinstance(it, Local)

    assert round_trip(Signature.of(work), Local(1, Local(2))) == ((Local(1, Local(2)),), {})


# -- models ----------------------------------------------------------------------------------------------------

LINE = Line("tea", Decimal("1.50"))
ORDER = Order(7, [LINE, Line("milk", Decimal(1), 2)], Color.PAIR, datetime(2026, 1, 2, tzinfo=UTC))
ANN = Person(fullName="Ann", born=date(2000, 1, 2), homes=[Address(street="Ring 1")], score=math.nan)
LINKED = Person(fullName="Bob", born=date(2000, 1, 2), site=pydantic.AnyUrl("https://example.org/"))


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Color, Color.PAIR),
        (Level, Level.LOW),
        (Mood, Mood.GOOD),
        (Right, Right.READ | Right.WRITE),
        (Line, LINE),
        (Order, ORDER),
        (Tree, Tree(1, [Tree(2), Tree(3, [Tree(4)])])),
        (Measured, Measured(math.nan)),
        (Point, Point(1, 2)),
        (Cat | Dog, Dog("Rex")),
        (list[Cat | Dog], [Cat("Tom"), Dog("Rex")]),
        (Spot, Spot(1, Color.RED)),
        (Person, ANN),
        (Person, LINKED),
        (Names, Names(["a"])),
        (list[Order], [ORDER, ORDER]),
        (dict[str, Line], {"a": LINE, "$b": LINE}),
        (dict[Color, Level], {Color.PAIR: Level.LOW}),
        (tuple[int, Line], (1, LINE)),
        (tuple[Line, ...], (LINE, LINE)),
        (set[Color], {Color.RED, Color.PAIR}),
        (frozenset[Color], frozenset({Color.RED})),
        (Sequence[Line], [LINE]),
        (Sequence[Line], (LINE,)),
        (Line | None, LINE),
        (Line | None, None),
        (Line | int | None, 5),
        (Line | Point, Point(1)),
        (Point | Line, LINE),
        (Heavy | Apple, Apple(1)),
        (Apple | Heavy, Heavy(1)),
        (Line | dict[str, int], {"a": 1}),
        (list[Line] | Line, [LINE]),
        (Literal[Color.RED, "x"], Color.RED),
        (Literal[Color.RED, "x"], "x"),
        (Annotated[Line, "note"], LINE),
    ],
)
def test_a_model_reaches_the_worker_as_what_it_was(annotation: Any, value: Any) -> None:
    signature = given_as(annotation)
    for args, kwargs in (((value,), {}), ((), {"it": value})):
        again = round_trip(signature, *args, **kwargs)
        assert same(again, (args, kwargs))
        assert type((*again[0], *again[1].values())[0]) is type(value)


def test_each_parameter_is_rebuilt_by_its_own_annotation() -> None:
    def work(a: int, line: Line, *more: Line, k: Color = Color.RED, **named: Point) -> None: ...

    given = (1, LINE, LINE), {"k": Color.PAIR, "p": Point(1), "$q": Point(2)}
    assert round_trip(Signature.of(work), *given[0], **given[1]) == given


def test_a_fresh_call_is_not_rebuilt_twice() -> None:
    signature = given_as(list[Order])
    args, _ = signature.rebuild(([ORDER],), {})
    assert args[0][0] is ORDER


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (Any, LINE, r"argument 'it': a Line .*annotate the parameter"),
        (int, Level.LOW, r"argument 'it': a Level .*annotate the parameter .*its \.value"),
        (str, Mood.GOOD, r"argument 'it': a Mood .*annotate the parameter"),
        (list, [LINE], r"argument 'it'\[0\]: a Line .*annotate the parameter"),
        (
            Line,
            Derived("a", Decimal(1)),
            r"argument 'it': a Derived would reach the worker as a different value \(a Line\)",
        ),
        (Apple | Pear, Pear(1), r"argument 'it': a Pear would reach .* \(an Apple\)"),
        (int | Level, 1, r"argument 'it': an int would reach .* \(a Level\)"),
        (Halved, Halved(8.0), r"argument 'it': a Halved would reach"),
        (NeedsMore, NeedsMore(1, 2), r"argument 'it': expected NeedsMore, got dict .*missing 1 required"),
        (Secret, Secret(key=pydantic.SecretStr("x")), r"argument 'it': a Secret would reach"),
        (set[Line], {LINE}, r"argument 'it': .*pass a list instead of the set"),
        (Line, Line("a", cast(Any, "1")), r"argument 'it'\.price: expected Decimal, got str '1'"),
        (list[Line], [LINE, Line("a", cast(Any, object()))], r"argument 'it'\[1\]\.price: an object can't be stored"),
    ],
)
def test_a_model_the_worker_could_not_rebuild_is_refused_at_enqueue(annotation: Any, value: Any, message: str) -> None:
    with pytest.raises(InvalidJob, match=message):
        given_as(annotation).encode((value,), {})


def test_what_cannot_be_stored_is_refused_by_the_name_of_its_parameter() -> None:
    def work(first: Any, *rest: Any, **named: Any) -> None: ...

    signature = Signature.of(work, name="shop.work")
    for args, kwargs, place in (
        (({"items": [0, Path]},), {}, r"'first'\.items\[1\]: a type"),
        ((1, 2, object()), {}, r"'rest'\[1\]: an object"),
        ((1,), {"k": lambda: 1}, r"'named'\['k'\]: a function"),
        ((), {"first": "\ud800"}, r"'first': the text has a lone surrogate"),
    ):
        with pytest.raises(InvalidJob, match=rf"^shop\.work\(\) argument {place}"):
            signature.encode(args, kwargs)


def test_a_call_over_the_limit_is_refused() -> None:
    for annotation in (str, str | Line):
        text = given_as(annotation).encode(("x" * 50,), {})
        assert given_as(annotation).encode(("x" * 50,), {}, limit=len(text)) == text
        with pytest.raises(PayloadTooLarge):
            given_as(annotation).encode(("x" * 50,), {}, limit=len(text) - 1)


# -- in the worker ---------------------------------------------------------------------------------------------


def test_a_call_without_models_passes_untouched() -> None:
    args, kwargs = (1, [2]), {"k": {"a": 1}}
    again = Signature.of(everything).rebuild(args, kwargs)
    assert again[0] is args
    assert again[1] is kwargs


@pytest.mark.parametrize(
    ("annotation", "stored", "message"),
    [
        (Line, {"item": "a"}, r"argument 'it': expected Line, got dict .*missing 1 required .*'price'"),
        (Line, {"item": "a", "price": Decimal(1), "gone": 1}, r"argument 'it': expected Line.*gone"),
        (Line, {"item": "a", "price": 1}, r"argument 'it'\.price: expected Decimal, got int 1"),
        (Order, {"id": 1, "lines": [{}]}, r"argument 'it'\.lines\[0\]: expected Line"),
        (Line | None, {"item": 5, "price": Decimal(1)}, r"argument 'it'\.item: expected str, got int 5"),
        (Color, "blue", r"argument 'it': expected Color, got str 'blue'"),
        (Point, {"x": "1"}, r"argument 'it'\.x: expected int"),
        (Cat, {"type": "Dog", "name": "x"}, r"argument 'it': expected Cat"),
        (Spot, (1, "red", 2, 3), r"argument 'it': expected Spot"),
        (Person, {"name": "Ann"}, r"argument 'it': expected Person, got dict"),
        (list[Color], "red", r"argument 'it': expected list\[Color\], got str 'red'"),
        (tuple[Color, int], ("red",), r"argument 'it': expected tuple\[Color, int\]"),
        (dict[str, Color], ["red"], r"argument 'it': expected dict\[str, Color\]"),
    ],
)
def test_data_that_no_longer_fits_its_model_is_refused_by_parameter(annotation: Any, stored: Any, message: str) -> None:
    with pytest.raises(CorruptPayload, match=rf"^work\(\) {message}"):
        given_as(annotation).rebuild((stored,), {})


def test_a_field_added_since_takes_its_default() -> None:
    assert given_as(Line).rebuild(({"item": "a", "price": Decimal(1)},), {}) == ((Line("a", Decimal(1)),), {})
    assert given_as(Spot).rebuild(((1, "red"),), {}) == ((Spot(1, Color.RED),), {})


def test_arguments_the_function_no_longer_has_pass_for_the_call_itself_to_refuse() -> None:
    assert given_as(Line).rebuild((LINE, 1), {"gone": 2}) == ((LINE, 1), {"gone": 2})


def test_a_result_is_rebuilt_by_the_return_annotation_or_left_plain() -> None:
    def work() -> list[Order]: ...  # type: ignore[empty-body]

    stored = decode(encode([ORDER], models=True))
    assert Signature.of(work).rebuild_result(stored) == [ORDER]
    assert Signature.of(work).rebuild_result([{"id": 1}]) == [{"id": 1}]
    assert Signature.of(coroutine).rebuild_result({"item": "a", "price": Decimal(1)}) == Line("a", Decimal(1))
    assert Signature.of(everything).rebuild_result({"a": 1}) == {"a": 1}
    assert not asyncio.iscoroutine(Signature.of(coroutine).rebuild_result(1))


# -- for people ------------------------------------------------------------------------------------------------


def test_names_give_the_parameter_of_every_value_even_of_a_bad_call() -> None:
    assert Signature.of(gathers).names((1, 2, 3), {"k": 4, "x": 5}) == {"a": 1, "rest": [2, 3], "k": 4, "x": 5}
    assert Signature.of(plain).names((1, 2, 3), {"a": 4}) == {"a": 1, "b": 2, "2": 3, "kwargs.a": 4}
    assert Signature.of(dict.update).names((1,), {"a": 2}) == {"args": [1], "a": 2}
    assert Signature.of(plain).names((), {}) == {}


def test_positional_names_are_in_order_with_the_gathering_one_last() -> None:
    assert Signature.of(gathers).positional == ("a", "*rest")
    assert Signature.of(strict).positional == ("a", "b")


def test_the_value_of_a_redacted_parameter_is_in_no_error() -> None:
    def login(user: str, password: int, key: Color) -> None: ...

    signature = Signature.of(login, redact=("Password", "KEY"))
    for args in ((1, 2, Color.RED), ("ann", "hunter2", Color.RED), ("ann", 2, "hunter2")):
        with pytest.raises(InvalidJob) as refused:
            signature.check(args, {})
        assert "hunter2" not in str(refused.value)
    with pytest.raises(CorruptPayload) as broken:
        signature.rebuild(("ann", 2, "hunter2"), {})
    assert "hunter2" not in str(broken.value)


def test_a_secret_inside_of_a_model_is_in_no_error_either() -> None:
    def login(account: Account, others: list[dict[str, int]] | None = None) -> None: ...

    signature = Signature.of(login, redact=("password",))
    secret = {"password": "hunter2", "number": "none"}
    for args in ((secret,), (Account(password="a", number=1), [{"password": "hunter2"}])):
        with pytest.raises(InvalidJob, match=r"argument '(account|others)'") as refused:
            signature.check(args, {})
        assert "hunter2" not in str(refused.value)
    for stored in (secret, {"password": ["hunter2"], "number": 1}):
        with pytest.raises(CorruptPayload, match="argument 'account'") as broken:
            signature.rebuild((stored,), {})
        assert "hunter2" not in "".join(traceback.format_exception(broken.value))
    with pytest.raises(CorruptPayload, match="hunter2"):  # without redaction the value is shown
        Signature.of(login).rebuild((secret,), {})
