"""A result reference is found in a stored call wherever it is, and nothing else is taken for one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.codec import codec
from headrace.core.codec.result_refs import MARK, ParentFailure, ResultRef, failure_text, filled, ids_in, result_refs_in
from headrace.core.jobs.states import State
from headrace.core.tasks.signature import Signature
from headrace.errors import InvalidJob

ONE, OTHER = ResultRef("job-1"), ResultRef("0197b6f3-5c1e-7d2a-9c3e-0a1b2c3d4e5f")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(['{"$result":"x"}', "$result", MARK]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("$result"), inner),
    max_leaves=12,
)


class Handle:
    """Stands for the result of a job, as handles and nodes do."""

    result_ref_id = "job-9"


@dataclass(frozen=True)
class Order:
    number: int


@given(JSON)
def test_no_value_of_a_user_is_taken_for_a_result_reference(value: Any) -> None:
    text = codec.encode_call((value,), {})
    assert MARK not in text
    assert ids_in(text) == []
    assert filled(text, pytest.fail) == text
    assert codec.decode_call(text) == ((value,), {})


@given(JSON, JSON)
def test_a_result_replaces_its_reference_whatever_it_and_its_neighbors_are(beside: Any, result: Any) -> None:
    text = codec.encode_call((beside, ONE, [ONE, OTHER]), {"k": {"deep": (OTHER,)}})
    texts = {"job-1": codec.encode(result), OTHER.id: codec.encode([result])}
    assert ids_in(text) == ["job-1", OTHER.id]
    whole = codec.decode_call(filled(text, texts.__getitem__))
    assert whole == ((beside, result, [result, [result]]), {"k": {"deep": ([result],)}})


def test_a_list_of_result_references_takes_no_more_bytes_than_their_ids() -> None:
    text = codec.encode_call(([ResultRef(f"job-{number}") for number in range(1000)],), {})
    assert len(text) < 1000 * len('"job-999",') + 100
    assert len(ids_in(text)) == 1000
    assert codec.decode_call(filled(text, lambda job_id: job_id.removeprefix("job-")))[0] == (list(range(1000)),)


def test_the_arguments_of_a_call_are_a_list_also_if_all_are_result_references() -> None:
    text = codec.encode_call((ONE, OTHER), {})
    assert codec.decode_call(text) == ((ONE, OTHER), {})


def test_what_is_read_back_stands_for_the_same_result() -> None:
    text = codec.encode_call(([ONE, OTHER],), {"x": ONE})
    args, kwargs = codec.decode_call(text)
    assert (args, kwargs) == (([ONE, OTHER],), {"x": ONE})
    assert codec.encode_call(args, kwargs) == text
    assert repr(ONE) == "<result of job-1>"


def test_a_handle_is_a_result_reference_in_a_call_and_nowhere_else() -> None:
    assert ids_in(codec.encode_call((Handle(),), {})) == ["job-9"]
    with pytest.raises(InvalidJob, match="Handle"):
        codec.encode(Handle())


@pytest.mark.parametrize("value", [{ONE}, frozenset({ONE}), {ONE: 1}, {(1, ONE)}], ids=repr)
def test_a_result_reference_can_be_no_member_of_a_set_and_no_key(value: Any) -> None:
    with pytest.raises(InvalidJob, match="pass a list"):
        codec.encode_call((value,), {})


def test_result_references_are_found_in_any_nesting_in_the_given_order() -> None:
    assert result_refs_in([1, (ONE,), {"a": [OTHER, "x"]}, ONE], {"b": ONE}) == [ONE, OTHER, ONE, ONE]
    assert result_refs_in([1, "x"], {}) == []


# -- by annotation


def task(number: int, orders: list[Order], either: Order | None = None) -> None: ...


def test_a_result_reference_fits_any_annotation_and_its_neighbors_are_still_checked() -> None:
    signature = Signature.of(task)
    text = signature.encode((ONE, [ONE, Order(2)]), {"either": OTHER})
    assert ids_in(text) == ["job-1", OTHER.id]
    with pytest.raises(InvalidJob, match=r"orders.*\[1\]"):
        signature.encode((ONE, [ONE, "no order"]), {})
    with pytest.raises(InvalidJob, match="misses"):
        signature.encode((ONE,), {})


def test_models_are_rebuilt_from_results() -> None:
    signature = Signature.of(task)
    text = signature.encode((1, [Handle(), Order(2)]), {"either": ONE})
    args, kwargs = codec.decode_call(filled(text, lambda job_id: '{"number":7}'))
    assert signature.rebuild(args, kwargs) == ((1, [Order(7), Order(2)]), {"either": Order(7)})


def test_a_failure_passes_for_any_annotation_and_stays_what_it_is() -> None:
    failure = ParentFailure("job-1", "fetch", State.FAILED, "ValueError", 'no "quotes" \n')
    signature = Signature.of(task)
    text = signature.encode((ONE, [ONE, OTHER]), {"either": ONE})
    args, kwargs = codec.decode_call(filled(text, lambda job_id: failure_text(failure)))
    assert signature.rebuild(args, kwargs) == ((failure, [failure, failure]), {"either": failure})
    assert codec.decode(codec.encode(failure)) == failure


def test_an_unresolved_result_reference_passes_the_annotation() -> None:
    signature = Signature.of(task)
    args, kwargs = codec.decode_call(signature.encode((ONE, [ONE, Order(2)]), {"either": OTHER}))
    assert signature.rebuild(args, kwargs) == ((ONE, [ONE, Order(2)]), {"either": OTHER})
