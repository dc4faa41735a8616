"""A described field says what its type and its entry say, and what is stored has the fields that are described."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Struct

from headrace.core.alerts.alert import AlertRuleRow
from headrace.core.alerts.rules import ALERT_RULE
from headrace.core.fields import checked, entry, fields_of
from headrace.core.jobs.queue_rules import QueueRules, TaskRules
from headrace.core.queues.rule_fields import QUEUE_RULES, TASK_RULES
from headrace.core.retention.lifecycle import StoredPolicy
from headrace.core.retention.policy_fields import POLICY_FIELDS
from headrace.core.schedules.schedule import Timing
from headrace.core.schedules.timing_fields import TIMING
from headrace.core.tasks.option_fields import JOB_OPTIONS
from headrace.core.tasks.options import OPTION_NAMES
from headrace.runtime.alerts.channels import CHANNEL_FIELDS, Channel


def _small(name: str, value: Any) -> Any:
    return value


Small = Annotated[int, checked(_small, minimum=1)]


class Described(Struct):
    count: Annotated[Small | None, entry("How many.", "N", "Count", "no limit")] = None
    word: Annotated[Literal["a", "b"] | None, entry("Which.", label="Word")] = None
    share: float = 0.5
    is_on: bool | None = None


def test_a_field_says_what_its_type_and_its_entry_say() -> None:
    fields = fields_of(Described)
    assert list(fields) == ["count", "word", "share", "is_on"]
    count, word = fields["count"], fields["word"]
    assert (count.kind, count.choices, count.check) == (int, (), _small)
    assert (count.text, count.metavar, count.label, count.hint) == ("How many.", "N", "Count", "no limit")
    assert (word.kind, word.choices, word.check, word.metavar) == (str, ("a", "b"), None, None)


def test_a_plain_field_has_a_type_and_no_texts() -> None:
    fields = fields_of(Described)
    assert (fields["share"].kind, fields["share"].text) == (float, "")
    assert fields["is_on"].kind is bool


def test_what_is_stored_has_the_fields_that_users_write() -> None:
    bursts = {"burst", "key_burst"}
    assert set(QUEUE_RULES) - bursts == set(QueueRules.__struct_fields__) - {"keys"}  # set one by one
    assert set(TASK_RULES) - bursts == set(TaskRules.__struct_fields__) - {"paused"}
    assert set(POLICY_FIELDS) == set(StoredPolicy.__struct_fields__)
    assert set(ALERT_RULE) == set(AlertRuleRow.__struct_fields__) - {"name"}
    assert set(TIMING) == set(Timing.__struct_fields__)
    assert set(CHANNEL_FIELDS) == set(Channel.__struct_fields__) - {"name", "kind", "networks", "trouble"}
    assert set(JOB_OPTIONS) <= set(OPTION_NAMES)


def test_every_field_that_users_write_says_what_it_means() -> None:
    for fields in (QUEUE_RULES, TASK_RULES, POLICY_FIELDS, ALERT_RULE, TIMING, CHANNEL_FIELDS, JOB_OPTIONS):
        assert [name for name, field in fields.items() if not field.text.endswith(".")] == []
