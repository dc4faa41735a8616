"""A sealed text opens with its key, in its place, unchanged; and otherwise not at all. No key is ever shown."""

from __future__ import annotations

import base64
import copy
import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.codec import codec
from headrace.core.codec.encryption import Cipher, key_of
from headrace.core.codec.result_refs import ids_in
from headrace.core.settings.settings import Settings, resolve
from headrace.core.tasks.unique import UniqueKey
from headrace.errors import ConfigError, CorruptPayload
from tests.support.waiting import PATIENCE


def key(name: str, byte: int) -> str:
    return f"{name}:{base64.b64encode(bytes([byte]) * 32).decode()}"


OLD, NEW = key("2025", 1), key("2026", 2)
SEAL = Cipher([NEW, OLD])
TEXTS = st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape"))


@given(TEXTS, TEXTS, TEXTS)
def test_an_encrypted_text_decrypts_to_the_same_text(text: str, what: str, whom: str) -> None:
    encrypted = SEAL.encrypted(text, what, whom)
    assert SEAL.decrypted(encrypted, what, whom) == text
    assert key_of(encrypted) == "2026"
    assert list(json.loads(encrypted)) == ["$sealed"]


@given(st.text(min_size=12), st.text(), st.text(), st.text(), st.text())
def test_it_opens_nowhere_else(text: str, what: str, whom: str, other_what: str, other_whom: str) -> None:
    encrypted = SEAL.encrypted(text, what, whom)
    if f"{what}\n{whom}" == f"{other_what}\n{other_whom}":
        return
    with pytest.raises(CorruptPayload, match="does not open"):
        SEAL.decrypted(encrypted, other_what, other_whom)


@given(st.data())
def test_not_one_bit_of_it_can_be_changed(data: st.DataObject) -> None:
    name, nonce, content = json.loads(SEAL.encrypted("pay 100", "call", "pay"))["$sealed"]
    parts = [base64.b64decode(nonce), base64.b64decode(content)]
    part = data.draw(st.integers(0, 1))
    place = data.draw(st.integers(0, len(parts[part]) * 8 - 1))
    raw = bytearray(parts[part])
    raw[place // 8] ^= 1 << (place % 8)
    parts[part] = bytes(raw)
    changed = json.dumps({"$sealed": [name, *(base64.b64encode(one).decode() for one in parts)]}, separators=(",", ":"))
    with pytest.raises(CorruptPayload, match="does not open"):
        SEAL.decrypted(changed, "call", "pay")


@pytest.mark.parametrize(
    "text",
    [
        '{"$sealed"',
        '{"$sealed":[]}',
        '{"$sealed":["2026","","",""]}',
        '{"$sealed":["2026","AAAA","AAAA"]}',
        '{"$sealed":["2026","!!","AAAA"]}',
        '{"$sealed":["2026","A","A"],"other":1}',
        '{"$sealed":7}',
        pytest.param('{"$sealed":["2026","AAAA","AAAA"],"promises":' + "[" * 100_000, id="nested"),
    ],
)
def test_a_damaged_one_is_reported_as_damaged(text: str) -> None:
    with pytest.raises(CorruptPayload, match="payload can't be read: its call is encrypted, and damaged"):
        SEAL.decrypted(text, "call", "pay")
    with pytest.raises(CorruptPayload, match="payload can't be read"):
        codec.decode_call(text)


def test_the_first_key_encrypts_and_all_of_them_decrypt() -> None:
    before = Cipher([OLD]).encrypted("x", "call", "pay")
    assert SEAL.decrypted(before, "call", "pay") == "x"
    assert (key_of(before), key_of(SEAL.encrypted("x", "call", "pay"))) == ("2025", "2026")


def test_what_was_stored_in_clear_is_read_in_clear() -> None:
    assert SEAL.decrypted('{"args":[1],"kwargs":{}}', "call", "pay") == '{"args":[1],"kwargs":{}}'
    assert key_of('{"args":[1],"kwargs":{}}') is None


def test_a_missing_key_is_named_with_what_to_do() -> None:
    encrypted = SEAL.encrypted('{"args":[1],"kwargs":{}}', "call", "pay")
    with pytest.raises(CorruptPayload, match=r"key '2026', and there are only '2025' here; add that key to encryption"):
        Cipher([OLD]).decrypted(encrypted, "call", "pay")
    for decode in (codec.decode, codec.decode_call):
        with pytest.raises(CorruptPayload, match="key '2026', and there are none here; add that key"):
            decode(encrypted)


def test_another_key_of_the_same_name_does_not_open_it() -> None:
    encrypted = Cipher([key("2026", 9)]).encrypted("x", "call", "pay")
    with pytest.raises(CorruptPayload, match="another key has this name"):
        SEAL.decrypted(encrypted, "call", "pay")


def test_the_same_text_never_encrypts_to_the_same() -> None:
    encrypted = {SEAL.encrypted("x", "call", "pay") for _ in range(1000)}
    assert len({json.loads(text)["$sealed"][1] for text in encrypted}) == 1000


def test_a_forked_process_never_repeats_its_parents_nonces() -> None:
    forked = copy.copy(SEAL)
    encrypted = [
        json.loads(one.encrypted("x", "call", "pay"))["$sealed"][1] for one in (SEAL, forked) for _ in range(500)
    ]
    assert len({*encrypted}) == 1000


def test_no_derived_key_is_used_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.core.codec.encryption._TEXTS_PER_SALT", 10)
    monkeypatch.setattr("headrace.core.codec.encryption._MAX_CACHED_SALTS", 3)
    fresh = Cipher([NEW])
    encrypted = [fresh.encrypted(str(n), "call", "pay") for n in range(100)]
    salts = [base64.b64decode(json.loads(text)["$sealed"][1])[:16] for text in encrypted]
    assert [salts.count(salt) for salt in dict.fromkeys(salts)] == [10] * 10
    assert [SEAL.decrypted(text, "call", "pay") for text in encrypted] == [str(n) for n in range(100)]
    assert len(fresh._ciphers) <= 3


def test_result_references_are_beside_an_encrypted_call_and_inside_it() -> None:
    call = '{"args":[{"$result":"job-1"},{"$results":["job-2","job-1"]}],"kwargs":{"note":"{\\"$result\\":\\"x\\"}"}}'
    encrypted = SEAL.encrypted(call, "call", "pay")
    assert ids_in(encrypted) == ids_in(call) == ["job-1", "job-2"]
    assert SEAL.decrypted(encrypted, "call", "pay") == call
    assert "promises" not in SEAL.encrypted(call, "result", "pay"), "only a call is given results"


def test_a_unique_key_can_only_be_computed_with_the_secret() -> None:
    one = UniqueKey("u", ("task", "pay", None))
    plain, own = one.of((), {}), one.of((), {}, SEAL.hash_key)
    assert own == one.of((), {}, Cipher([NEW]).hash_key)
    assert len({plain, own, one.of((), {}, Cipher([OLD]).hash_key)}) == 3


# -- keys


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["2026"], "number 1 is no key; write a name, a colon and 32 bytes in base64"),
        ([NEW, "old:c2hvcnQ="], "number 2 is no key"),
        ([NEW, f"b ad:{'A' * 43}="], "number 2 is no key"),
        ([f"x:{'*' * 43}="], "number 1 is no key"),
        ([NEW, key("2026", 3)], "two keys have the same name"),
        ([], "give at least one"),
    ],
)
def test_an_invalid_key_is_refused_without_showing_it(keys: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        Cipher(keys)
    for one in keys:
        assert one.partition(":")[2][:10] not in str(caught.value) or not one.partition(":")[2]


def test_a_key_needs_no_padding() -> None:
    assert Cipher([NEW.rstrip("=")]).decrypted(SEAL.encrypted("x", "a", "b"), "a", "b") == "x"


@pytest.mark.parametrize("value", [f"{NEW}, {OLD}", [NEW, OLD], (NEW, OLD)])
def test_keys_are_a_setting(value: Any) -> None:
    found = resolve({"encryption_keys": value}, {}, {}, "").settings
    assert found.encryption_keys == (NEW, OLD)
    environment = {"HEADRACE_ENCRYPTION_KEYS": f"{NEW},{OLD}"}
    assert resolve({}, environment, {}, "").settings.encryption_keys == (NEW, OLD)


def test_no_key_is_shown_by_settings_or_their_errors() -> None:
    secret = NEW.partition(":")[2]
    settings = Settings(encryption_keys=(NEW, OLD))
    for shown in (repr(settings), str(settings.shown()), repr(Cipher([NEW])), f"{settings}"):
        assert secret not in shown
        assert "2026" in shown
    for wrong in ([NEW, 5], {"a": NEW}, NEW + "x", f"{NEW};{OLD}"):
        with pytest.raises(ConfigError) as caught:
            resolve({"encryption_keys": wrong}, {}, {}, "")
        assert secret not in str(caught.value)


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE
    ).stdout


def test_cryptography_is_loaded_only_where_there_are_keys() -> None:
    code = "import sys; from headrace import Headrace; Headrace('memory://'{}); print('cryptography' in sys.modules)"
    assert run(code.format("")) == "False\n"
    assert run(code.format(f", encryption_keys=[{NEW!r}]")) == "True\n"


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(ConfigError, match=r"pip install 'headrace\[crypto\]'"):
        Cipher([NEW])
