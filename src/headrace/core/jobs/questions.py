"""Questions of running jobs to people: what a job asks, how an answer has to look, and the record of an open one.

The type of the answer is kept as a JSON schema, because the process that takes the answer need not know the task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from headrace.core.documents import Document
from headrace.core.text import short
from headrace.errors import InvalidJob

# The documents of open questions. The key is the id of the job, which waits for one answer at a time.
KIND = "question"

_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


class Question(Struct, frozen=True, omit_defaults=True):
    """What a job asks. `answer` is the JSON schema of the answer, `remind` the milliseconds between reminders.

    `until` is when the wait times out.
    """

    text: str
    answer: dict[str, Any] = {}
    to: str | None = None
    remind: int | None = None
    until: int | None = None


class QuestionRecord(Struct, frozen=True):
    """The stored record of a question. `number` counts the waits for this event in the job.

    `question` is the encoded question, encrypted if the app has keys. Someone who answers sets `answered_by` and
    `answered_at` first, so that a second answer is refused.
    """

    name: str
    number: int
    asked_at: int
    question: str
    answered_by: str | None = None
    answered_at: int | None = None


class AnswerField(Struct, frozen=True):
    """One field of an answer. `name` is empty if the answer is a single value; `kind` is empty if it may be any."""

    name: str
    kind: str
    required: bool
    choices: tuple[Any, ...] = ()
    default: Any = None
    hint: str = ""


_records = msgspec.json.Decoder(QuestionRecord)
_questions = msgspec.json.Decoder(Question)


def document_of(job_id: str, record: QuestionRecord, version: int) -> Document:
    return Document(KIND, job_id, version, msgspec.json.encode(record).decode())


def record_of(document: Document) -> QuestionRecord:
    return _records.decode(document.value)


def encoded(question: Question) -> str:
    return msgspec.json.encode(question).decode()


def decoded(text: str) -> Question:
    return _questions.decode(text)


def schema_of(answer: Any) -> dict[str, Any]:
    """The JSON schema of a type: a plain type, a Literal, an enum, a dataclass, a TypedDict or a model."""
    if hasattr(answer, "model_json_schema"):
        of_pydantic: dict[str, Any] = answer.model_json_schema()
        return of_pydantic
    try:
        return msgspec.json.schema(answer)
    except (TypeError, RuntimeError) as error:
        raise InvalidJob(f"answer: a form can't be made of {answer!r} ({error})") from None


def fields_of(schema: Mapping[str, Any]) -> list[AnswerField]:
    """The fields of the form for an answer."""
    resolved = _resolved(schema, schema)
    if resolved.get("type") != "object" or "properties" not in resolved:
        return [_field("", resolved, True)]
    required = resolved.get("required", ())
    return [
        _field(name, _resolved(of_field, schema), name in required) for name, of_field in resolved["properties"].items()
    ]


def check_answer(schema: Mapping[str, Any], answer: Any) -> None:
    """Raise InvalidJob unless the answer has the fields and types of the schema, as far as a form shows them."""
    fields = fields_of(schema)
    if [field.name for field in fields] == [""]:
        _check(fields[0], answer)
        return
    if not isinstance(answer, dict):
        raise InvalidJob(
            f"answer: expected an object with {_named(field.name for field in fields)}, got {short(answer)}"
        )
    if unknown := answer.keys() - {field.name for field in fields}:
        raise InvalidJob(f"answer: unknown {_named(sorted(unknown))}; known are {_named(f.name for f in fields)}")
    for field in fields:
        if field.name in answer:
            _check(field, answer[field.name])
        elif field.required:
            raise InvalidJob(f"answer: {field.name!r} is missing")


def _check(field: AnswerField, value: Any) -> None:
    where = f"answer: {field.name!r}" if field.name else "answer"
    if field.choices:
        if not any(type(choice) is type(value) and choice == value for choice in field.choices):
            raise InvalidJob(f"{where}: expected one of {_named(field.choices)}, got {short(value)}")
        return
    fitting = _PYTHON_TYPES.get(field.kind)
    if fitting is not None and (not isinstance(value, fitting) or (isinstance(value, bool) and bool not in fitting)):
        raise InvalidJob(f"{where}: expected {field.kind}, got {short(value)}")


def _field(name: str, schema: Mapping[str, Any], required: bool) -> AnswerField:
    kind = schema.get("type", "")
    choices = (schema["const"],) if "const" in schema else tuple(schema.get("enum", ()))
    return AnswerField(
        name,
        kind if isinstance(kind, str) else "",
        required,
        choices,
        schema.get("default"),
        schema.get("description", ""),
    )


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema itself, in place of a reference to a definition."""
    reference = schema.get("$ref", UNSET)
    if reference is UNSET:
        return schema
    definitions: Mapping[str, Any] = root.get("$defs", {})
    found: Mapping[str, Any] = definitions.get(str(reference).rpartition("/")[2], {})
    return found


def _named(names: Any) -> str:
    return ", ".join(repr(name) for name in names)
