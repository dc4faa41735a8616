"""Scripts name the fields of records: numbers and positions follow the classes, a misspelt name is an error."""

from __future__ import annotations

import msgspec
import pytest

from headrace.core.jobs.records import HistoryRow, LogLine, NewJob, Outcome
from headrace.engines.redis.script_records import RECORDS, StoredJob, expand, head
from headrace.engines.redis.serialization import Record


@pytest.mark.parametrize(
    ("macro", "text"),
    [
        ("local _, $LogLine = take(x, #$LogLine)", "local _, at, attempt, level, message, fields = take(x, 5)"),
        ("$LogLine(l)", "l.at, l.attempt, l.level, l.message, l.fields"),
        ("$LogLine[..level]{}", "{at = at, attempt = attempt, level = level}"),
        ("#$LogLine[attempt..message]", "3"),
        ("$LogLine[message..](l) = $LogLine[message..]", "l.message, l.fields = message, fields"),
        ("x[$LogLine.level]", "x[3]"),
        ("$LogLine[message..]:differs(l)", "(l.message ~= message or l.fields ~= fields)"),
        ("{$LogLine[message..]:names}", "{'message', 'fields'}"),
        ("$Version(j) = $next_version(j.version, now)", "j.updated_at, j.version = now, j.version + 1"),
        ("$LogLine:head .. a", "'\\149' .. a"),
        ("#$LogLine:head", "1"),
        ("$Record:head", f"'\\220\\000\\{len(RECORDS['Record'].__struct_fields__):03d}'"),
        ("#$Record:head", "3"),
        ("a = $Text.HELD, #$Text.HELD", "a = 'held', 4"),
        ("a .. b, '$[{', '{\"$sealed\"'", "a .. b, '$[{', '{\"$sealed\"'"),
    ],
)
def test_a_name_stands_for_the_fields(macro: str, text: str) -> None:
    assert expand(macro) == text


@pytest.mark.parametrize(
    "macro", ["$Nothing", "$LogLine.nothing", "$LogLine[..nothing]", "$LogLine[nothing..]", "$Text.NOTHING"]
)
def test_a_name_that_does_not_exist_is_an_error(macro: str) -> None:
    with pytest.raises((KeyError, ValueError)):
        expand(macro)


def test_the_defaults_are_those_of_the_class() -> None:
    usual = msgspec.msgpack.encode(Outcome("a", 1, "succeed", "completed", 1))  # type: ignore[arg-type]  # only a text
    defaults = expand("$Outcome[awaits..]:defaults").strip("'")

    assert usual.endswith(bytes(int(byte) for byte in defaults.split("\\")[1:]))


@pytest.mark.parametrize("record", [LogLine, NewJob, HistoryRow, StoredJob])
def test_the_head_is_that_of_the_encoder(record: type[msgspec.Struct]) -> None:
    size = len(record.__struct_fields__)

    assert msgspec.msgpack.encode([None] * size).startswith(head(size))


def test_a_part_of_the_record_is_read_in_its_order() -> None:
    stored = RECORDS["Record"].__struct_fields__

    assert Record.__struct_fields__ == stored[: len(Record.__struct_fields__)]


def test_a_stored_job_is_its_number_its_record_its_payload_record_and_the_rest() -> None:
    together = ("seq", *RECORDS["Record"].__struct_fields__, *RECORDS["Payload"].__struct_fields__)

    assert RECORDS["ClaimedJob"].__struct_fields__ == together
    assert StoredJob.__struct_fields__[: len(together)] == together
