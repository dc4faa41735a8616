"""Light rows of jobs: what a list or a state check needs, without long arguments and results.

A light row has LEFT_OUT in their place. A reader that needs them reads the full row and completes the light one.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from headrace.core.jobs.records import JobRow, NewJob

LONGEST: Final = 1000  # bytes of arguments, or of a result, that a light row still includes
LONG: Final = ("payload", "result")
LEFT_OUT: Final = ""  # no JSON is empty


def lacks_payload(row: JobRow) -> bool:
    return row.payload == LEFT_OUT and row.seq > 0  # a row without seq is not in a store, so it is complete


def lacks_result(row: JobRow) -> bool:
    return row.result == LEFT_OUT and row.seq > 0


def with_known(row: JobRow, before: NewJob | JobRow) -> JobRow:
    """A light row with the values of the previous row, where they are still the same."""
    if lacks_payload(row) and before.checksum == row.checksum:
        row = replace(row, payload=before.payload)
    if lacks_result(row) and isinstance(before, JobRow) and before.result_checksum == row.result_checksum:
        row = replace(row, result=before.result)
    return row


def completed(row: JobRow, whole: JobRow) -> JobRow:
    """A light row with its missing values; if the job has changed since, its result is gone."""
    row = replace(row, payload=whole.payload, checksum=whole.checksum)
    return replace(row, result=whole.result) if whole.version == row.version else row
