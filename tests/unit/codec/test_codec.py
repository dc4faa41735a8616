"""Values come back as they were, nothing forges a tag, and a broken text is always a CorruptPayload."""

from __future__ import annotations

import dataclasses
import json
import math
import socket
import string
import subprocess
import sys
import threading
import uuid
from collections import Counter, OrderedDict, defaultdict, namedtuple
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.core.codec.codec import (
    checksum,
    decode,
    decode_call,
    encode,
    encode_call,
    verify,
)
from headrace.errors import CorruptPayload, InvalidJob, PayloadTooLarge

LIMIT = 1_048_576
ZONES = ["UTC", "Europe/Vienna", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "Australia/Lord_Howe"]
TAGS = ["$int", "$float", "$datetime", "$date", "$time", "$timedelta", "$decimal", "$uuid", "$bytes"]
TAGS += ["$tuple", "$set", "$frozenset", "$dict", "$", "$object"]


def identical(one: Any, other: Any) -> bool:
    """Equal, of the same types all the way down, and equal in what `==` overlooks: -0.0, nan, fold, zone."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return repr(one) == repr(other)
    if isinstance(one, Decimal):
        return str(one) == str(other)
    if isinstance(one, (datetime, time)):
        zones = [getattr(value.tzinfo, "key", value.utcoffset()) for value in (one, other)]
        return (
            one.replace(tzinfo=None) == other.replace(tzinfo=None) and one.fold == other.fold and zones[0] == zones[1]
        )
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(identical, one, other))
    if isinstance(one, dict):
        return identical([*one.items()], [*other.items()])
    if isinstance(one, (set, frozenset)):
        return one == other and Counter(map(type, one)) == Counter(map(type, other))
    return bool(one == other)


offsets = st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone)
zones = st.none() | st.just(UTC) | offsets | st.sampled_from(ZONES).map(ZoneInfo)
datetimes = st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1))
texts = st.text() | st.sampled_from([*TAGS, "2026-01-02T03:04:05Z", '"$tuple"', "null", "\x00"])
hashables = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=10**700, max_value=10**900)
    | st.floats(allow_nan=False)
    | texts
    | st.binary()
    | st.dates()
    | st.timedeltas()
    | st.uuids()
    | st.decimals(allow_nan=False)
    | st.tuples(st.times(), zones, st.integers(0, 1)).map(lambda t: t[0].replace(tzinfo=t[1], fold=t[2]))
    | st.tuples(datetimes, zones, st.integers(0, 1)).map(lambda t: t[0].replace(tzinfo=t[1], fold=t[2])),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=8,
)
values = st.recursive(
    hashables | st.floats() | st.decimals() | st.sets(hashables, max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(texts, inner, max_size=4)
        | st.dictionaries(hashables, inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
    ),
    max_leaves=12,
)


# -- round trips -----------------------------------------------------------------------------------------------


@given(values)
@example({"$tuple": [1, 2]})
@example({"$dict": [["a", 1]]})
@example({"$datetime": "2026-01-01", "other": 1})
@example({"": {"$": 1}})
@example([float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 5e-324, 1e308])
@example([datetime(2026, 1, 2, tzinfo=timezone(timedelta(microseconds=n))) for n in (1, -1, 10**6 + 1)])
@example([time(1, tzinfo=timezone(timedelta(microseconds=n))) for n in (1, -1, 10**6 + 1)])
@example(timedelta.min)
@example(timedelta.max)
@example(Decimal("sNaN123"))
@example(Decimal("-0E+7"))
@example(-(2**2048))
@example(2**2048 - 1)
def test_a_value_comes_back_as_what_it_was(value: Any) -> None:
    assert identical(decode(encode(value)), value)


@given(st.lists(values, max_size=4).map(tuple), st.dictionaries(texts, values, max_size=3))
@example((1, "a"), {"$dict": [], "x": None})
@example((), {"$tuple": []})
@example((float("nan"), "\x00", 10**5000), {})
def test_a_call_comes_back_as_what_it_was(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    assert identical(decode_call(encode_call(args, kwargs)), (args, kwargs))


@given(values)
def test_the_text_is_compact_json_that_any_language_reads(value: Any) -> None:
    text = encode(value)
    tree = json.loads(text, parse_int=str, parse_constant=pytest.fail)
    assert json.loads(json.dumps(tree)) == tree
    assert encode_call((1, "a b"), {"k": [True, None]}) == '{"args":[1,"a b"],"kwargs":{"k":[true,null]}}'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, 6, UTC), '{"$datetime":"2026-01-02T03:04:05.000006+00:00"}'),
        (datetime(2026, 1, 2), '{"$datetime":"2026-01-02T00:00:00"}'),
        (
            datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Vienna"), fold=1),
            '{"$datetime":"2026-10-25T02:30:00+01:00[Europe/Vienna][fold=1]"}',
        ),
        (time(1, 2, tzinfo=ZoneInfo("UTC")), '{"$time":"01:02:00+00:00[UTC]"}'),
        (date(2026, 1, 2), '{"$date":"2026-01-02"}'),
        (timedelta(microseconds=-1), '{"$timedelta":"-0.000001"}'),
        (timedelta(days=1, seconds=2), '{"$timedelta":"86402.000000"}'),
        (Decimal("1.10"), '{"$decimal":"1.10"}'),
        (uuid.UUID(int=1), '{"$uuid":"00000000-0000-0000-0000-000000000001"}'),
        (b"\x00\xff", '{"$bytes":"AP8="}'),
        ((1, (2,)), '{"$tuple":[1,{"$tuple":[2]}]}'),
        ({3, 1}, '{"$set":[1,3]}'),
        ({1: "a"}, '{"$dict":[[1,"a"]]}'),
        ({"$x": 1}, '{"$dict":[["$x",1]]}'),
        (math.inf, '{"$float":"inf"}'),
        (1.0, "1.0"),
        ("2026-01-02T00:00:00", '"2026-01-02T00:00:00"'),
    ],
)
def test_the_stored_form_stays_as_it_is_because_jobs_in_stores_have_it(value: Any, text: str) -> None:
    assert encode(value) == text
    assert identical(decode(text), value)


def test_the_fold_and_the_zone_decide_the_instant_after_a_round_trip() -> None:
    second = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Vienna"), fold=1)
    back = decode(encode([second, second.replace(fold=0)]))
    assert [moment.utcoffset() for moment in back] == [timedelta(hours=1), timedelta(hours=2)]


@pytest.mark.parametrize("digits", [616, 617, 618, 640, 641, 4299, 4301, 20_000])
@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_of_any_length_survives_whatever_python_allows_to_print(digits: int, sign: int) -> None:
    number, before = sign * 10 ** (digits - 1), sys.get_int_max_str_digits()
    try:
        for writer in (0, 640, 4300):
            sys.set_int_max_str_digits(writer)
            text = encode_call((number,), {})
            for reader in (0, 640, 4300):
                sys.set_int_max_str_digits(reader)
                assert decode_call(text) == ((number,), {})
    finally:
        sys.set_int_max_str_digits(before)


def test_equal_sets_have_equal_texts_in_every_process() -> None:
    program = "from headrace.core.codec.codec import encode; print(encode({*'abcdefgh', 1, None, (2,)}))"
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(texts) == 1


def test_subclasses_that_equal_their_plain_form_are_written_as_that() -> None:
    class Moment(datetime):
        def isoformat(self, *args: Any, **kwargs: Any) -> str:
            return "now"

    point = namedtuple("point", "x y")
    given = [OrderedDict(a=1), defaultdict(int, b=2), point(1, 2), bytearray(b"x"), Moment(2026, 1, 2)]
    assert identical(decode(encode(given)), [{"a": 1}, {"b": 2}, (1, 2), b"x", datetime(2026, 1, 2)])


def test_encoding_leaves_the_value_alone() -> None:
    value = {"a": [1, (2, {3})], 4: {"$x": b"5"}}
    before = repr(value)
    encode(value)
    assert repr(value) == before


# -- refusals --------------------------------------------------------------------------------------------------


class Label(str):
    __slots__ = ()


class Count(int):
    pass


class Ratio(float):
    pass


class Nowhere(tzinfo):
    def utcoffset(self, when: datetime | None) -> None:
        return None

    tzname = dst = utcoffset


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (lambda: 1, "a function"),
        ((number for number in [1]), "a generator"),
        (threading.Lock(), "a lock"),
        (object(), "an object"),
        (Broken(), "a Broken"),
        (int, "a type"),
        (json, "a module"),
        (1j, "a complex"),
        (range(3), "a range"),
        (memoryview(b""), "a memoryview"),
        (Label("x"), "pass str(value)"),
        (Count(1), "pass int(value)"),
        (Ratio(1), "pass float(value)"),
        ("a\ud800", "lone surrogate at position 1"),
        (datetime(2026, 1, 1, tzinfo=Nowhere()), "no offset"),
        (time(1, tzinfo=Nowhere()), "no offset"),
    ],
)
def test_what_has_no_place_in_json_is_refused_by_its_path(value: Any, named: str) -> None:
    with pytest.raises(InvalidJob) as refused:
        encode_call((0, {"items": [1, {"odd key": (2, value)}]}), {})
    assert str(refused.value).startswith("args[1].items[1]['odd key'][1]: ")
    assert named in str(refused.value)
    with pytest.raises(InvalidJob, match=r"^kwargs\.x: "):
        encode_call((), {"x": value})
    with pytest.raises(InvalidJob, match=r"^result: "):
        encode(value, where="result", models=True)


def test_an_open_socket_is_refused() -> None:
    with socket.socket() as connection, pytest.raises(InvalidJob, match=r"^args\[0\]: a socket can't be stored"):
        encode_call((connection,), {})


@pytest.mark.parametrize("value", ["\ud800", {"\ud800": 1}, ["é\udfff"], {("\ud800",): 1}])
def test_a_lone_surrogate_is_refused_wherever_it_hides(value: Any) -> None:
    with pytest.raises(InvalidJob, match="surrogate"):
        encode(value)
    with pytest.raises(InvalidJob, match="surrogate"):
        encode_call((value,), {})


def test_a_value_that_contains_itself_is_refused() -> None:
    circle: list[Any] = []
    circle.append({"again": [circle, circle]})
    with pytest.raises(InvalidJob, match=r"^value\[0\]\.again\[0\].*….*contains itself"):
        encode(circle)


def nested(levels: int, wrap: Any) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = wrap(value)
    return value


@pytest.mark.parametrize(
    ("wrap", "deepest"),
    [(lambda v: [v], 200), (lambda v: {"k": v}, 200), (lambda v: (v,), 100), (lambda v: {1: v}, 66)],
)
def test_the_deepest_value_that_is_accepted_can_be_read_and_one_level_more_is_refused(wrap: Any, deepest: int) -> None:
    assert decode(encode(nested(deepest, wrap))) == nested(deepest, wrap)
    with pytest.raises(InvalidJob, match="deeper than 200"):
        encode(nested(deepest + 1, wrap))
    with pytest.raises(InvalidJob, match="deeper than 200"):
        encode_call((), {"a": nested(10_000, wrap)})


def test_the_deepest_call_that_is_accepted_can_be_read() -> None:
    moment = datetime(2026, 1, 2)
    call = (nested(199, lambda v: [v, moment]),), {"k": nested(200, lambda v: {"a": v, "b": moment})}
    assert decode_call(encode_call(*call)) == call


@pytest.mark.parametrize("levels", [250, 700, 5_000, 100_000])
@pytest.mark.parametrize(("start", "end"), [("[", "]"), ('{"a":', "}"), ("[[],", "]"), ('{"$tuple":[', "]}")])
def test_a_text_deeper_than_any_that_is_written_is_refused_by_every_python(start: str, end: str, levels: int) -> None:
    text = start * levels + "1" + end * levels
    with pytest.raises(CorruptPayload, match="nested too deeply"):
        decode(text)
    with pytest.raises(CorruptPayload, match="nested too deeply"):
        decode_call(f'{{"args":[{text}],"kwargs":{{}}}}')


def test_brackets_in_a_text_are_not_depth() -> None:
    values: list[Any] = ["[" * 5_000, ["[{" * 5_000], [[]] * 5_000, [[[{}]]] * 300]
    for value in values:
        assert decode(encode(value)) == value
        assert decode_call(encode_call((value,), {"k": value})) == ((value,), {"k": value})


def test_a_keyword_that_is_not_text_is_refused() -> None:
    with pytest.raises(InvalidJob, match="1 is not a str"):
        encode_call((), {1: 2})  # type: ignore[dict-item]


# -- models ----------------------------------------------------------------------------------------------------


class Color(Enum):
    RED = "red"
    PAIR = (1, 2)


class Level(IntEnum):
    HIGH = 3


class Mood(StrEnum):
    GOOD = "good"


@dataclasses.dataclass
class Line:
    item: str
    price: Decimal


@dataclasses.dataclass
class Order:
    lines: list[Line]
    color: Color
    at: datetime


class Point(msgspec.Struct):
    x: int


class Cat(msgspec.Struct, tag=True):
    name: str


class Person(pydantic.BaseModel):
    name: str
    born: date
    home: pydantic.AnyUrl | None = None


ORDER = Order([Line("tea", Decimal("1.50"))], Color.PAIR, datetime(2026, 1, 2, tzinfo=UTC))
MODELS = [Color.RED, Level.HIGH, Mood.GOOD, ORDER, Point(1), Cat("Tom"), Person(name="Ann", born=date(2000, 1, 2))]


@pytest.mark.parametrize("model", MODELS)
def test_a_model_is_refused_where_no_annotation_can_rebuild_it(model: Any) -> None:
    for value in (model, [model], {"k": model}, {model: 1} if isinstance(model, Enum) else (model,)):
        with pytest.raises(InvalidJob, match="annotate the parameter so that the worker can rebuild it"):
            encode(value)
        with pytest.raises(InvalidJob, match="annotate the parameter"):
            encode_call((value,), {})


def test_models_are_written_as_their_plain_fields_with_tags_inside() -> None:
    assert decode(encode(MODELS, models=True)) == [
        "red",
        3,
        "good",
        {
            "lines": [{"item": "tea", "price": Decimal("1.50")}],
            "color": (1, 2),
            "at": datetime(2026, 1, 2, tzinfo=UTC),
        },
        {"x": 1},
        {"type": "Cat", "name": "Tom"},
        {"name": "Ann", "born": date(2000, 1, 2), "home": None},
    ]


def test_a_field_only_pydantic_can_write_is_written_as_pydantic_writes_it() -> None:
    person = Person(name="Ann", born=date(2000, 1, 2), home=pydantic.AnyUrl("https://example.org/"))
    text = encode(person, models=True)
    assert decode(text)["home"] == "https://example.org/"
    # The attempt that failed halfway counts for nothing.
    assert encode(person, models=True, limit=len(text)) == text


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int


class Fixed(list[int]):
    def __hash__(self) -> int:  # type: ignore[override]
        return 1


@pytest.mark.parametrize("member", [Frozen(1), (1, Frozen(1)), Fixed([1])])
def test_a_set_or_a_key_that_could_not_be_read_again_is_refused(member: Any) -> None:
    for value in ({member}, frozenset({member}), {member: 1}):
        with pytest.raises(InvalidJob, match="pass a list instead of the set"):
            encode(value, models=True)


def test_a_model_with_a_field_that_can_not_be_stored_is_refused_by_the_path_to_the_field() -> None:
    with pytest.raises(InvalidJob, match=r"^value\.lines\[0\]\.price: an object can't be stored"):
        encode(dataclasses.replace(ORDER, lines=[Line("tea", object())]), models=True)  # type: ignore[arg-type]


def test_a_model_whose_own_code_fails_is_refused() -> None:
    class Grumpy(pydantic.BaseModel):
        @pydantic.model_serializer
        def refuse(self) -> Any:
            raise RuntimeError("not today")

    with pytest.raises(InvalidJob, match="not today"):
        encode(Grumpy(), models=True)


# -- broken texts ----------------------------------------------------------------------------------------------

junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(string.printable),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(TAGS) | st.text(max_size=3), inner, max_size=2)
        | st.lists(st.lists(inner, min_size=2, max_size=2), max_size=2).map(lambda pairs: {"$dict": pairs})
    ),
    max_leaves=8,
)


def read(text: Any) -> None:
    for reader in (decode, decode_call):
        try:
            reader(text)
        except CorruptPayload as error:
            reason = str(error)
        else:
            reason = "readable"
        assert 0 < len(reason) < 300


@given(st.text() | junk.map(json.dumps) | junk.map(lambda tree: json.dumps({"args": [tree], "kwargs": {}})))
@example('{"args":[],"kwargs":{"$tuple":[]}}')
@example('{"args":[],"kwargs":{"$dict":[[1,2]]}}')
@example('{"$dict":[[[],1]]}')
@example('{"$set":[{}]}')
@example('"\ud800"')
@example("[" * 100_000)
@example('{"$tuple":[' * 5_000 + "]}" * 5_000)
@example('{"$tuple":[' * 400 + "]}" * 400)
def test_reading_any_text_gives_a_value_or_a_corrupt_payload_and_nothing_else(text: str) -> None:
    read(text)


@given(values, st.data())
def test_a_text_with_a_damaged_character_is_read_or_refused(value: Any, data: st.DataObject) -> None:
    text = encode(value)
    place = data.draw(st.integers(0, len(text) - 1))
    read(text[:place] + data.draw(st.text(max_size=2)) + text[place + 1 :])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1,]",
        "NaN",
        "1e999",
        '{"$nothing":1}',
        '{"$int":12}',
        '{"$int":"zz"}',
        '{"$float":"1"}',
        '{"$float":[]}',
        '{"$datetime":"yesterday"}',
        '{"$datetime":5}',
        '{"$datetime":"2026-01-01T00:00:00[Mars/Base]"}',
        '{"$datetime":"2026-01-01T00:00:00[../../etc/passwd]"}',
        '{"$datetime":"2026-01-01T00:00:00[/etc/localtime]"}',
        '{"$datetime":"2026-01-01T00:00:00[America]"}',
        '{"$datetime":"2026-01-01T00:00:00[UTC"}',
        '{"$datetime":"2026-01-01T00:00:00[offset=x]"}',
        '{"$datetime":"2026-01-01T00:00:00[offset=90000]"}',
        '{"$date":"2026-02-30"}',
        '{"$time":"25:00"}',
        '{"$timedelta":"1.0000001"}',
        '{"$timedelta":"99999999999999999"}',
        '{"$timedelta":"٣"}',
        '{"$decimal":"ten"}',
        '{"$decimal":1.5}',
        '{"$uuid":"x"}',
        '{"$bytes":"?"}',
        '{"$bytes":"A"}',
        '{"$tuple":{}}',
        '{"$tuple":"ab"}',
        '{"$set":[[1]]}',
        '{"$dict":[[1]]}',
        '{"$dict":[1]}',
        '{"$dict":{"a":1}}',
        '{"$tuple":[],"b":1}',
        '{"b":1,"$tuple":[]}',
        "[" * 5_000 + "]" * 5_000,
    ],
)
def test_a_payload_that_no_encoder_wrote_is_refused(text: str) -> None:
    with pytest.raises(CorruptPayload, match=r"^payload can't be read: "):
        decode(text)


@pytest.mark.parametrize(
    "text", ["[]", '{"args":{}}', '{"args":[],"kwargs":[]}', '{"args":[],"kwargs":{},"more":1}', '{"args":null}']
)
def test_a_call_of_another_shape_is_refused(text: str) -> None:
    with pytest.raises(CorruptPayload):
        decode_call(text)


def test_a_call_written_by_another_language_may_leave_out_what_is_empty() -> None:
    assert decode_call("{}") == ((), {})
    assert decode_call('{"args": [1]}') == ((1,), {})
    assert decode_call("{}")[1] is not decode_call("{}")[1]


# -- size and checksum -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [40, LIMIT])
def test_encoding_with_a_limit_refuses_one_byte_more_than_the_limit(limit: int) -> None:
    frame = len(encode_call(("",), {}))
    assert len(encode_call(("x" * (limit - frame),), {}, limit=limit)) == limit
    assert len(encode("x" * (limit - 2), limit=limit)) == limit
    with pytest.raises(PayloadTooLarge):
        encode_call(("x" * (limit - frame + 1),), {}, limit=limit)
    with pytest.raises(PayloadTooLarge):
        encode("x" * (limit - 1), limit=limit)


@given(values)
def test_the_early_estimate_never_refuses_what_fits(value: Any) -> None:
    text = encode(value)
    assert encode(value, limit=len(text.encode())) == text


def test_a_huge_value_is_refused_before_it_is_encoded() -> None:
    class Counting(list[int]):
        looked_at = 0

        def __iter__(self) -> Any:
            Counting.looked_at += 1
            return super().__iter__()

    with pytest.raises(PayloadTooLarge, match="more than 1,048,576"):
        encode([[0] * 600_000, [0] * 600_000, Counting([1])], limit=LIMIT)
    assert Counting.looked_at == 0


def test_a_value_that_fans_out_without_end_is_refused_in_a_moment() -> None:
    bomb: list[Any] = ["x" * 10]
    for _ in range(100):
        bomb = [bomb] * 10
    with pytest.raises(PayloadTooLarge):
        encode(bomb, limit=LIMIT)


@given(st.text(st.characters()))
@example("\ud800")
def test_the_checksum_detects_a_changed_text(text: str) -> None:
    verify(text, checksum(text))
    with pytest.raises(CorruptPayload, match="checksum"):
        verify(text + "x", checksum(text))


def test_the_checksum_is_the_crc32_that_other_programs_compute() -> None:
    assert checksum("123456789") == 0xCBF43926
