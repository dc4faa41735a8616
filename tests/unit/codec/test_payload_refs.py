"""References to payloads: what they say, which are refused, and how results are put into a call that is one."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.codec import codec, payload_refs
from headrace.core.codec.payload_refs import NotLoaded, PayloadRef
from headrace.core.codec.result_refs import ResultRef, ids_in
from headrace.errors import CorruptPayload

HOUR = 3_600_000
SPACE = "0123456789ab"


def path_of(job_id: str = "j1", now: int = 0) -> str:
    return payload_refs.new_path(SPACE, now, job_id, "call", "0" * 16)


@given(st.text("abcXYZ019_.:@/=-", min_size=1, max_size=128))
def test_the_job_of_a_path_is_the_one_it_was_made_for(job_id: str) -> None:
    path = path_of(job_id)
    assert payload_refs.job_of(path) == job_id
    assert path.count("/") == 2
    ref, promises = payload_refs.read(payload_refs.made(path, b"12", '"x"', "call"))
    assert (ref, promises) == (PayloadRef(path, 2, sha256(b"12").hexdigest()), ())


@pytest.mark.parametrize(
    "path",
    ["../../etc/passwd", "/etc/passwd", f"{SPACE}/1970010100/../../x.call.{'0' * 16}", f"{SPACE}/headrace.txt", ""],
)
def test_a_reference_leads_to_no_other_file(path: str) -> None:
    assert payload_refs.job_of(path) is None
    with pytest.raises(CorruptPayload, match="names no payload"):
        payload_refs.read(f'{{"$stored":["{path}",1,"{"0" * 64}"]}}')


DEEP = f'{{"$stored":["a",1,"b"],"promises":[{"[" * 3000}{"]" * 3000}]}}'


@pytest.mark.parametrize("text", ['{"$stored":1}', '{"$stored"', '{"$stored":["a",1,"b"],"more":1}', DEEP])
def test_a_damaged_reference_is_corrupt(text: str) -> None:
    with pytest.raises(CorruptPayload):
        payload_refs.read(text)


def test_a_user_s_own_value_is_no_reference() -> None:
    text = codec.encode({"$stored": [path_of(), 1, "0" * 64]})
    assert not payload_refs.is_reference(text)
    assert payload_refs.replaced(text, lambda *_: "wrong") == text
    inside = codec.encode(['{"$stored":["' + path_of() + '",1,"' + "0" * 64 + '"]}'])
    assert payload_refs.replaced(inside, lambda *_: "wrong") == inside


@pytest.mark.parametrize("data", [b"12", b"1234", b"124"])
def test_other_data_is_refused(data: bytes) -> None:
    ref = PayloadRef(path_of(), 3, sha256(b"123").hexdigest())
    ref.verify(b"123")
    with pytest.raises(CorruptPayload, match="payload 0123456789ab/1970010100/j1"):
        ref.verify(data)


def test_a_reference_stands_for_the_parents_of_its_call() -> None:
    text = codec.encode_call([ResultRef("p1"), [ResultRef("p2")], ResultRef("p1")], {})
    reference = payload_refs.made(path_of(), text.encode(), text, "call")
    assert ids_in(reference) == ids_in(text) == ["p1", "p2"]
    _, promises = payload_refs.read(reference)
    assert payload_refs.with_promises(text, promises) == text, "nothing is known of the results yet"
    filled = reference.replace('{"$result":"p1"}', '"one"').replace('{"$result":"p2"}', "[2]")
    _, promises = payload_refs.read(filled)
    assert codec.decode_call(payload_refs.with_promises(text, promises)) == (("one", [[2]], "one"), {})


def test_references_to_results_in_a_call_are_replaced() -> None:
    path = payload_refs.new_path(SPACE, 0, "parent", "result", "f" * 16)
    reference = payload_refs.made(path, b"1", "1", "result")
    loaded = payload_refs.replaced(f'{{"args":[{reference},{reference}]}}', lambda each, job_id: f'"{job_id}"')
    assert loaded == '{"args":["parent","parent"]}'


def test_a_page_refuses_what_it_can_not_bear() -> None:
    reference = payload_refs.made(path_of(), b"x" * 100, "x", "call")
    payload_refs.refuse_large(reference, 100)
    payload_refs.refuse_large(reference, None)
    payload_refs.refuse_large('"inline"', 0)
    with pytest.raises(NotLoaded, match="of 100 bytes is in the payload store"):
        payload_refs.refuse_large(reference, 99)


def test_a_folder_is_old_when_its_whole_hour_is() -> None:
    now = 1_000_000 * HOUR
    names = [
        payload_refs.new_path(SPACE, now - age * HOUR - 1, "j", "call", "0" * 16).split("/")[1] for age in (1, 2, 3)
    ]
    last = payload_refs.folder_before(now, 2 * HOUR)
    assert [name <= last for name in names] == [False, True, True]
