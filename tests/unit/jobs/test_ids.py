"""Ids are valid UUIDv7, always greater than the last one, and never made twice: not by threads, not by a fork."""

from __future__ import annotations

import os
import threading
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.jobs import ids
from headrace.core.jobs.ids import check_id, new_id, new_ids, time_of
from headrace.errors import InvalidJob

NOW = 1_800_000_000_000


@pytest.fixture(autouse=True)
def fresh() -> None:
    """The times in these tests jump about; each test starts as a new process does."""
    ids._source.reset_after_fork()


@given(st.lists(st.integers(0, 2**48 - 2), min_size=1, max_size=30))
def test_ids_increase_whatever_the_clock_does(times: list[int]) -> None:
    ids._source.reset_after_fork()
    made = [new_id(now) for now in times]
    assert made == sorted(set(made))
    assert [time_of(job_id) for job_id in made] == [max(times[: i + 1]) for i in range(len(times))]


@given(st.integers(0, 2**48 - 1))
def test_an_id_is_a_version_7_uuid_of_its_time(now: int) -> None:
    ids._source.reset_after_fork()
    text = new_id(now)
    parsed = uuid.UUID(text)
    assert (str(parsed), parsed.version, parsed.variant) == (text, 7, uuid.RFC_4122)
    assert parsed.int >> 80 == now == time_of(text) == time_of(text.upper())
    assert check_id(text) == text


def test_ids_of_one_millisecond_are_in_order_and_go_on_whatever_the_clock_does() -> None:
    made = [*new_ids(NOW, 10_000), *new_ids(NOW - 5, 3), new_id(NOW)]
    assert made == sorted(set(made))
    assert {time_of(job_id) for job_id in made} == {NOW}


def test_ids_made_at_once_differ_in_every_one_of_their_last_digits() -> None:
    """Redis's Lua hashes a text by every third or fourth character: ids have to differ there."""
    made = new_ids(NOW, 1000)
    assert all(len({job_id[place] for job_id in made}) == 16 for place in range(-9, 0))


def test_ids_made_together_are_those_made_one_by_one() -> None:
    [first] = new_ids(NOW, 1)
    together = new_ids(NOW, 3)
    ids._source._low = int(first[-12:], 16)
    assert [first, *together] == [new_id(NOW) for _ in range(4)]
    assert new_ids(NOW, 0) == []


def test_when_a_millisecond_is_used_up_the_next_one_is_borrowed() -> None:
    first = new_id(NOW)
    ids._source._low = ids._LOW_END - 1
    last, *more = new_ids(NOW, 3)
    assert last.endswith("-ffffffffffff")
    assert [first, last, *more] == sorted({first, last, *more})
    assert [time_of(job_id) for job_id in (last, *more)] == [NOW, NOW + 1, NOW + 1]


def test_a_time_no_id_can_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="now_ms is 281474976710656"):
        new_id(2**48)


def test_two_processes_do_not_meet_although_a_user_seeds_the_random_numbers() -> None:
    import random

    made = set()
    for _ in range(200):
        random.seed(1)
        ids._source.reset_after_fork()
        made.add(new_id(NOW)[14:])
    assert len(made) == 200
    # 73 bits are drawn; in 200 draws each of them is seen as 0 and as 1.
    numbers = [int(tail.replace("-", ""), 16) for tail in made]
    ones = zeros = 0
    for number in numbers:
        ones |= number
        zeros |= ~number & (2**76 - 1)
    assert (ones & zeros).bit_count() == 73


def test_threads_never_share_an_id_and_each_sees_its_own_increase() -> None:
    made: list[list[str]] = [[] for _ in range(8)]
    start = threading.Barrier(len(made))

    def work(ids: list[str]) -> None:
        start.wait()
        for step in range(500):
            ids.append(new_id(NOW + step // 100))
            ids.extend(new_ids(NOW, 3))

    threads = [threading.Thread(target=work, args=(ids,)) for ids in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(ids == sorted(ids) for ids in made)
    assert len({job_id for ids in made for job_id in ids}) == 8 * 500 * 4


def ids_of_a_child(count: int) -> list[str]:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, "\n".join(new_ids(NOW, count)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        made = pipe.read().split("\n")
    os.waitpid(pid, 0)
    return made


def test_a_forked_child_repeats_neither_its_parent_nor_its_siblings() -> None:
    new_id(NOW)
    first, second, own = ids_of_a_child(500), ids_of_a_child(500), new_ids(NOW, 500)
    assert len({*first, *second, *own}) == 1500
    # Counting on from the parent's place would keep its head.
    assert len({job_id[:24] for job_id in (first[0], second[0], own[0])}) == 3


def test_a_child_forked_while_an_id_is_being_made_does_not_hang() -> None:
    with ids._source._lock:
        assert len(ids_of_a_child(1)) == 1


@pytest.mark.parametrize("text", ["a", "A-b_c.d:e@f/g=h", "0", "x" * 128, "order:2026/11@shop=7"])
def test_a_user_may_choose_an_id_of_letters_digits_and_a_few_signs(text: str) -> None:
    assert check_id(text) == text


@pytest.mark.parametrize("text", ["", "x" * 129, "a b", "a\n", "é", "a'b", "a;b", "a\x00", "٣", "a\\b", None, 5, b"a"])
def test_any_other_id_is_refused_with_the_rule(text: object) -> None:
    with pytest.raises(InvalidJob, match=r"job_id is .*1 to 128 letters"):
        check_id(text)


@pytest.mark.parametrize(
    "text", ["", "order-7", str(uuid.UUID(int=4, version=4)), "0" * 36, "019b7d6f-0000-7000-c000-000000000000"]
)
def test_an_id_of_another_kind_has_no_time(text: str) -> None:
    assert time_of(text) is None
