"""Small documents that are written all or none, by version."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from headrace.core.documents import Document
from headrace.engines.protocol.engine import Engine
from headrace.runtime.documents import drop_documents
from tests.support.engines import StoreUnderTest


def test_a_document_is_kept_by_kind_and_key(engine: Engine) -> None:
    assert engine.document_store.put(
        [Document("rule", "a ☃", 0, '{"x": "\\u00e9 ☃"}'), Document("rule", "b", 0, ""), Document("x", "a", 0, "1")]
    )
    assert engine.document_store.get("rule", ["b", "a ☃", "none", "b"]) == [
        Document("rule", "a ☃", 1, '{"x": "\\u00e9 ☃"}'),
        Document("rule", "b", 1, ""),
    ]
    assert engine.document_store.get("none", ["a"]) == []
    assert engine.document_store.get("rule", []) == []


def test_who_has_not_seen_the_newest_version_changes_nothing(engine: Engine) -> None:
    assert engine.document_store.put([Document("rule", "a", 0, "first")])
    assert not engine.document_store.put([Document("rule", "a", 0, "late")])
    assert engine.document_store.put([Document("rule", "a", 1, "second")])
    assert not engine.document_store.put([Document("rule", "a", 1, "late")])
    assert not engine.document_store.put([Document("rule", "gone", 3, "late")])
    assert engine.document_store.get("rule") == [Document("rule", "a", 2, "second")]


def test_documents_are_put_all_or_none(engine: Engine) -> None:
    engine.document_store.put([Document("rule", "b", 0, "old"), Document("rule", "c", 0, "old")])
    for outdated in (Document("rule", "b", 7, "x"), Document("rule", "d", 1, "x"), Document("rule", "b", 0, "x")):
        assert not engine.document_store.put([Document("rule", "a", 0, "x"), outdated, Document("rule", "c", 1, "x")])
        assert [(document.key, document.version, document.value) for document in engine.document_store.get("rule")] == [
            ("b", 1, "old"),
            ("c", 1, "old"),
        ]
    assert engine.document_store.put(
        [Document("rule", "c", 1, "new"), Document("rule", "a", 0, "new"), Document("other", "b", 0, "new")]
    )
    assert [document.value for document in engine.document_store.get("rule")] == ["new", "old", "new"]


def test_to_put_nothing_is_no_mistake(engine: Engine) -> None:
    assert engine.document_store.put([])
    assert engine.document_store.put((), [])


def test_documents_are_removed_all_or_none(engine: Engine) -> None:
    engine.document_store.put([Document("rule", key, 0, "x") for key in "abc"])
    assert not engine.document_store.put((), [Document("rule", "a", 1, ""), Document("rule", "b", 2, "")])
    assert not engine.document_store.put((), [Document("rule", "a", 1, ""), Document("rule", "none", 0, "")])
    assert len(engine.document_store.get("rule")) == 3
    assert engine.document_store.put((), [Document("rule", "a", 1, ""), Document("rule", "b", 1, "")])
    assert [document.key for document in engine.document_store.get("rule")] == ["c"]
    assert engine.document_store.put([Document("rule", "a", 0, "anew")])


def test_browsing_goes_by_the_bytes_of_keys_both_ways(engine: Engine) -> None:
    keys = ["", "0001", "0002", "0010", "A", "a", "aa", "é", "☃"]
    engine.document_store.put([Document("time", key, 0, key) for key in reversed(keys)])
    engine.document_store.put([Document("timf", "0000", 0, ""), Document("tim", "zzz", 0, "")])
    document_store = engine.document_store

    def found(*args: object, **how: object) -> list[str]:
        return [document.key for document in document_store.get("time", *args, **how)]  # type: ignore[arg-type]

    assert found() == keys
    assert found(newest_first=True) == keys[::-1]
    assert found(first="0002") == keys[2:]
    assert found(first="0002", last="aa") == ["0002", "0010", "A", "a"]
    assert found(first="0002", last="aa", newest_first=True) == ["a", "A", "0010", "0002"]
    assert found(first="0002", last="aa", limit=2) == ["0002", "0010"]
    assert found(first="0002", last="aa", limit=2, newest_first=True) == ["a", "A"]
    assert found(first="b", last="a") == []
    assert found(["b", "aa", "A"]) == ["A", "aa"]
    assert found(["b", "aa", "A"], newest_first=True) == ["aa", "A"]
    assert found(limit=0) == []


def test_the_first_documents_are_dropped_and_no_others(engine: Engine) -> None:
    engine.document_store.put([Document("time", f"{number:04}", 0, "x") for number in range(10)])
    engine.document_store.put([Document("timd", "0000", 0, ""), Document("timf", "0000", 0, "")])
    assert drop_documents(engine.document_store, "time", "0005", 3) == 3
    assert drop_documents(engine.document_store, "time", "0005", 3) == 2
    assert drop_documents(engine.document_store, "time", "0005", 3) == 0
    assert drop_documents(engine.document_store, "time", "9", 0) == 0
    assert [document.key for document in engine.document_store.get("time")] == [
        "0005",
        "0006",
        "0007",
        "0008",
        "0009",
    ]
    assert engine.document_store.kinds() == ["timd", "time", "timf"]


def test_kinds_are_those_that_have_papers(engine: Engine) -> None:
    assert engine.document_store.kinds() == []
    engine.document_store.put([Document(kind, "x", 0, "") for kind in ("b", "a:1", "a:0", "~own")])
    assert engine.document_store.kinds() == ["a:0", "a:1", "b", "~own"]
    assert engine.document_store.kinds("a:") == ["a:0", "a:1"]
    drop_documents(engine.document_store, "a:1", "z", 10)
    engine.document_store.put((), [Document("b", "x", 1, "")])
    assert engine.document_store.kinds() == ["a:0", "~own"]


def test_of_many_who_count_at_once_nobody_is_lost(store: StoreUnderTest) -> None:
    """Each reads and writes until its write holds: the classic lost update, on two documents in either order."""

    def count(engine: Engine, keys: tuple[str, str]) -> None:
        for _ in range(10):
            done = False
            while not done:
                found = {document.key: document for document in engine.document_store.get("sum", keys)}
                none = Document("sum", "", 0, "0")
                seen = [(key, found.get(key, none)) for key in keys]
                done = engine.document_store.put(
                    [Document("sum", k, p.version, str(int(p.value) + 1)) for k, p in seen]
                )

    engines = [store.open() for _ in range(4)]
    orders = [("a", "b"), ("b", "a")] * 2
    threads = [threading.Thread(target=count, args=pair) for pair in zip(engines, orders, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert engines[0].document_store.get("sum") == [Document("sum", "a", 40, "40"), Document("sum", "b", 40, "40")]


@pytest.mark.engines("postgres", "redis")
def test_a_store_that_is_cleared_has_no_papers(engine: Engine) -> None:
    engine.document_store.put([Document("rule", "a", 0, "x")])
    engine.maintenance.restore(Path("nowhere"), lambda: None, replace=True)
    assert engine.document_store.kinds() == []
    assert engine.document_store.get("rule") == []


def test_documents_are_stored_and_deleted_together(engine: Engine) -> None:
    engine.document_store.put([Document("rule", "a", 0, "x"), Document("rule", "b", 0, "x")])
    change = [Document("rule", "a", 1, "y"), Document("other", "c", 0, "new")]
    for late in (Document("rule", "b", 2, ""), Document("rule", "none", 0, "")):
        assert not engine.document_store.put(change, [late])
    assert not engine.document_store.put([Document("rule", "a", 2, "y")], [Document("rule", "b", 1, "")])
    assert [document.value for document in engine.document_store.get("rule")] == ["x", "x"]
    assert engine.document_store.put(change, [Document("rule", "b", 1, "")])
    assert engine.document_store.get("rule") == [Document("rule", "a", 2, "y")]
    assert engine.document_store.get("other") == [Document("other", "c", 1, "new")]


def test_a_long_value_comes_back_as_it_is(engine: Engine) -> None:
    for size in (500, 520, 100_000):
        value = '{"é": "' + "x☃" * (size // 2) + '"}'
        assert engine.document_store.put([Document("long", str(size), 0, value)])
        assert engine.document_store.get("long", [str(size)]) == [Document("long", str(size), 1, value)]
        assert engine.document_store.put([Document("long", str(size), 1, value[::-1])])
        assert engine.document_store.get("long", [str(size)]) == [Document("long", str(size), 2, value[::-1])]
