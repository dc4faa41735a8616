"""Arguments and results as text, and back: compact JSON, its size and its checksum.

Values beyond plain JSON are tagged (see `decode`), so every value comes back as what it was. Decoding builds values of
fixed types only: no text, however made, can name code to import or run. This module does not know what a task is or
what its parameters are called; `signature` does.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from types import NoneType
from typing import Any

import msgspec

from headrace.core.codec import encryption, payload_refs
from headrace.core.codec.decode import Tree, ensure_shallow, lift
from headrace.core.codec.encode import NotEncodable, ValueEncoder, lower, lower_items, step_to, too_large
from headrace.core.text import short, why
from headrace.errors import CorruptPayload, InvalidJob, PayloadTooLarge

# A text this short can't hold an integer that some Python would refuse to read (see encode.LONGEST_PLAIN_INT).
_MAX_PLAIN_BYTES = 600
_PLAIN = frozenset({str, int, bool, NoneType})


class _Call(msgspec.Struct, forbid_unknown_fields=True):
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    given: tuple[int, str] | None = None  # the parents whose results are among the arguments, only for error texts


_dump = msgspec.json.Encoder().encode
_load = msgspec.json.Decoder().decode
_load_call = msgspec.json.Decoder(_Call).decode


def encode(value: Any, *, models: bool = False, limit: int | None = None, where: str = "value") -> str:
    """The text of one value. Raises InvalidJob naming the path, which starts with `where`.

    With `models`, Enum members, dataclasses, msgspec Structs and pydantic models are written as their plain
    fields. With a `limit` in bytes, a value that is too large is refused, mostly before it is encoded.
    """
    if type(value) in _PLAIN and (text := _dump_short(value, limit)):
        return text
    try:
        return dump_tree(lower(ValueEncoder(models, limit), value), limit)
    except PayloadTooLarge as error:
        raise too_large(error.size, error.limit or 0, where) from None
    except Exception as error:  # any error is reported, see refusal
        raise refusal(where, error) from None


def refusal(where: str, error: Exception) -> InvalidJob:
    """The error for a value that could not be encoded; some of the encoding runs the value's own code."""
    if isinstance(error, InvalidJob):
        return error
    if isinstance(error, NotEncodable):
        return InvalidJob(f"{where}{error.path}: {error.reason}")
    if isinstance(error, RecursionError):
        return InvalidJob(f"{where}: nested too deeply; pass flatter data")
    return InvalidJob(f"{where}: can't be encoded: {why(error)}")


def decode(text: str) -> Any:
    """The value of a text that `encode` made. Raises CorruptPayload, and nothing else."""
    try:
        tree = _load(text)
        ensure_shallow(text, tree)
        # Most texts hold no tag. One scan of the text is far cheaper than a walk through the value.
        return lift(tree) if '"$' in text else tree
    except Exception as error:
        raise _corrupt(error, text) from error


def encode_call(
    args: Sequence[Any], kwargs: Mapping[str, Any], *, models: bool = False, limit: int | None = None
) -> str:
    """The text of a call: {"args":[…],"kwargs":{…}}."""
    is_plain = _all_plain(args) and (not kwargs or (_all_plain(kwargs.values()) and _plain_names(kwargs)))
    if is_plain and (text := _dump_short({"args": args, "kwargs": kwargs}, limit)):
        return text
    return _encode_call_by_walking(args, kwargs, ValueEncoder(models, limit, call=True))


def _dump_short(tree: Tree, limit: int | None) -> str | None:
    """The text of plain values; None if it is long, or has something that only a walk can name or tag."""
    try:
        raw = _dump(tree)
    except ValueError:  # a lone surrogate or an endless integer
        return None
    return raw.decode() if len(raw) <= _MAX_PLAIN_BYTES and (limit is None or len(raw) <= limit) else None


def _all_plain(values: Iterable[Any]) -> bool:
    for value in values:
        kind = type(value)
        if kind not in _PLAIN and (kind is not float or value - value != 0.0):
            return False
    return True


def _plain_names(kwargs: Mapping[str, Any]) -> bool:
    for name in kwargs:  # noqa: SIM110 - a generator costs more than everything else in a small call
        if type(name) is not str or name[:1] == "$":
            return False
    return True


def _encode_call_by_walking(args: Sequence[Any], kwargs: Mapping[str, Any], encoder: ValueEncoder) -> str:
    place = "args"
    try:
        positional = lower_items(encoder, args)
        place = "kwargs"
        named = {name: _lower_named(encoder, name, value) for name, value in kwargs.items()}
        return dump_call(positional, named, encoder.limit)
    except Exception as error:  # any error is reported, see refusal
        raise refusal(place, error) from None


def _lower_named(encoder: ValueEncoder, name: str, value: Any) -> Tree:
    try:
        return lower(encoder, value)
    except NotEncodable as error:
        raise error.inside(step_to(name)) from None


def dump_call(args: Sequence[Tree], kwargs: Mapping[str, Tree], limit: int | None = None) -> str:
    """The text of a call whose values have been lowered."""
    for name in kwargs:
        if type(name) is not str:
            raise InvalidJob(f"the keyword argument name {short(name)} is not a str")
    named = kwargs if _plain_names(kwargs) else {"$dict": [[*pair] for pair in kwargs.items()]}
    try:
        return dump_tree({"args": args, "kwargs": named}, limit)
    except UnicodeEncodeError:  # all values have been lowered, so it is a name
        raise InvalidJob(f"keyword arguments: one of {short(list(kwargs))} has a lone surrogate in its name") from None


def dump_tree(tree: Tree, limit: int | None = None) -> str:
    raw = _dump(tree)
    if limit is not None and len(raw) > limit:
        raise too_large(len(raw), limit)
    return raw.decode()


def decode_call(text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a text that `encode_call` made. Raises CorruptPayload, and nothing else."""
    try:
        call = _load_call(text)
        ensure_shallow(text, call.args, call.kwargs)
        if '"$' not in text:
            return call.args, call.kwargs
        args, kwargs = lift(list(call.args)), lift(call.kwargs)
    except Exception as error:
        raise _corrupt(error, text) from error
    if type(kwargs) is not dict or any(type(name) is not str for name in kwargs):
        raise CorruptPayload("payload can't be read: kwargs is not an object with names")
    return tuple(args), kwargs


def _corrupt(error: Exception, text: str) -> CorruptPayload:
    """The stored text is at fault: it names a value that can't be built."""
    if (key := encryption.key_of(text)) is not None:  # a reader with keys has decrypted it before
        return encryption.locked(key)
    if payload_refs.MARK in text:  # nor does one with a payload store meet a reference
        return CorruptPayload(f"payload can't be read: it is in a payload store; {payload_refs.NOT_SET}")
    if isinstance(error, RecursionError):
        return CorruptPayload("payload can't be read: nested too deeply")
    if isinstance(error, (CorruptPayload, msgspec.MsgspecError)):
        return CorruptPayload(f"payload can't be read: {str(error)[:120]}")
    return CorruptPayload(f"payload can't be read: {why(error)}")


def checksum(text: str) -> int:
    """CRC-32 of the text as UTF-8."""
    # A damaged store may hold what no encoder wrote, so even a lone surrogate must have a checksum.
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def is_whole(text: str, expected: int) -> bool:
    """Whether the text matches the checksum."""
    return checksum(text) == expected


def verify(text: str, expected: int) -> None:
    """Refuse a text that does not match the checksum."""
    found = checksum(text)
    if found != expected:
        raise CorruptPayload(f"payload is damaged: its checksum is {found}, {expected} was stored with it")
