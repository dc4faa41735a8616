"""Which tasks a worker knows, by the names it reports, and which names belong to headrace."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

RESERVED = "headrace."  # the prefix of headrace's own tasks


def is_reserved(task: str) -> bool:
    """Whether the task is headrace's own. Every worker knows those; users may not enqueue them."""
    return task.startswith(RESERVED)


def knows(names: Collection[str], task: str) -> bool:
    """Whether a worker that reports these names can run this task. "jobs.*" are all functions of a module."""
    if task in names or is_reserved(task):
        return True
    return any(name.endswith(".*") and task.startswith(name[:-1]) for name in names)


class KnownTasks:
    """Which tasks a worker knows. An engine claims only jobs of known tasks.

    `knows` answers from memory, as it is called inside a transaction. It returns None if only an import can decide.
    Then the name goes into `undecided`, and the claim takes nothing from that queue; the worker decides and claims
    again. `known_names` has each known name between line breaks: a script on the server can check it there.
    """

    def __init__(self, knows: Callable[[str], bool | None], known_names: Iterable[str] = ()) -> None:
        self._knows = knows
        self._known_names = set(known_names)
        self._text: str | None = None
        self.unknown: set[str] = set()
        self.undecided: set[str] = set()

    @property
    def known_names(self) -> str:
        """The known names as one text."""
        if self._text is None:
            self._text = "\n".join(["", *self._known_names, ""])
        return self._text

    def __contains__(self, task: str) -> bool:
        """Whether it is known. An undecided one is not."""
        if task in self._known_names:
            return True
        answer = self._knows(task)
        if answer:
            self.add(task)
        elif answer is None:
            self.undecided.add(task)
        else:
            self.unknown.add(task)
        return bool(answer)

    def add(self, task: str) -> None:
        """Add a known task."""
        self._known_names.add(task)
        self._text = None  # joined when it is read: a claim may add thousands
        self.unknown.discard(task)

    def forget(self, task: str) -> None:
        """Remove a task that is no longer known, so that the next claim checks it again."""
        self._known_names.discard(task)
        self._text = None

    def excludes(self, task: str) -> bool:
        """Whether the task is certainly unknown."""
        return task not in self and task not in self.undecided
