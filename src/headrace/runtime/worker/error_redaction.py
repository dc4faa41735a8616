"""The error redactor of a running job: it masks declared secrets, and values whose names look secret."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.core.codec import codec
from headrace.core.codec.error_redaction import ErrorRedactor, redactor_of
from headrace.core.codec.redaction import MASK, redact_call
from headrace.core.codec.secret_names import WORDS
from headrace.core.jobs.records import Claim, JobOptions
from headrace.errors import HeadraceError
from headrace.runtime.jobs.encryption import loaded_claim
from headrace.runtime.jobs.task import Task
from headrace.runtime.payloads.payloads import Payloads

_options = msgspec.json.Decoder(JobOptions)


def redactor_over(claim: Claim, task: Task[..., Any, Any] | None, payloads: Payloads | None = None) -> ErrorRedactor:
    """The redactor of this job; an empty one if its arguments can't be read, as no error can quote them then."""
    try:
        args, kwargs = codec.decode_call(loaded_claim(payloads, claim).payload)
        options = _options.decode(claim.options) if claim.options else JobOptions()
    except (HeadraceError, msgspec.MsgspecError):
        return ErrorRedactor()
    rest = min((~place for place in options.redact_args if place < 0), default=len(args))
    hidden = [MASK if n in options.redact_args or n >= rest else value for n, value in enumerate(args)]
    declared = () if task is None else task.options.redact or ()
    names, words = frozenset((*options.redact, *declared)), WORDS if task is None else task.submits.words
    positional = None if task is None else task.signature.positional
    return redactor_of((args, kwargs), redact_call(positional, hidden, kwargs, names, words))
