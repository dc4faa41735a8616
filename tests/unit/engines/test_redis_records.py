"""Records of Redis are read several at a time: wherever one of them was cut, the reader says so and raises nothing."""

from __future__ import annotations

import msgspec

from headrace.engines.redis import serialization
from headrace.engines.redis.script_records import RECORDS

_TIME = 1_795_000_000_000
_VALUES = {
    "state": "pending",
    "version": 1,
    "attempt": 0,
    "queue": "plain",
    "lane": "",
    "id": "01a21c73-b227",
    "task": "add",
    "priority": 0,
    "rank": _TIME,
    "max_attempts": 4,
    "created_at": _TIME,
    "run_at": _TIME,
    "crashes": 0,
    "releases": 0,
}
_STORED = msgspec.msgpack.encode([_VALUES.get(name) for name in RECORDS["Record"].__struct_fields__])
_HEAD, _RECORD = _STORED[:3], _STORED[3:]


def test_whole_records_are_read() -> None:
    found = serialization.records(2, _RECORD + _HEAD + _RECORD)
    assert found is not None
    assert [record.id for record in found] == ["01a21c73-b227"] * 2


def test_a_record_that_was_cut_is_damaged_wherever_it_was_cut() -> None:
    for length in range(len(_RECORD)):
        assert serialization.records(2, _RECORD[:length] + _HEAD + _RECORD) is None, length
        assert serialization.record(_RECORD[:length]) is None, length


def test_a_record_with_a_changed_byte_raises_nothing() -> None:
    for place in range(len(_RECORD)):
        for bit in range(8):
            changed = bytearray(_RECORD)
            changed[place] ^= 1 << bit
            serialization.records(2, bytes(changed) + _HEAD + _RECORD)
            serialization.record(bytes(changed))
