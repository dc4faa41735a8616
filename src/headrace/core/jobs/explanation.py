"""Why a job is not running, as data: the cause in words, and what an operator can do about it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

RemedyVerb = Literal[
    "resume_queue",
    "resume_task",
    "start_worker",
    "resume_worker",
    "raise_queue_limit",
    "raise_task_limit",
    "promote_job",
    "retry_job",
    "send_signal",
    "answer_question",
    "show_dead_letter",
]


class Remedy(Struct, frozen=True, kw_only=True):
    """What an operator can do: a verb, the name or id it applies to, and the command line that does it.

    `words` lead to the command in the sentence; a remedy without them is not in it.
    """

    verb: RemedyVerb
    target: str
    command: str
    words: str = ""


class Explanation(Struct, frozen=True):
    """Why a job is not running now: the cause in one sentence, what can be done, and what else is known."""

    cause: str
    remedy: Remedy | None = None
    more: str = ""

    @property
    def sentence(self) -> str:
        """All of it as text, with the command in backticks."""
        if self.remedy is None or not self.remedy.words:
            return self.cause + self.more
        return f"{self.cause.removesuffix('.')}; {self.remedy.words} `{self.remedy.command}`.{self.more}"

    @property
    def text(self) -> str:
        """All of it without the command, for a surface that has a button for it."""
        return self.cause + self.more

    def plus(self, more: str) -> Explanation:
        """The same with one more sentence."""
        return Explanation(self.cause, self.remedy, self.more + more)
