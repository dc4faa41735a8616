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
    """Which tasks a worker knows. An engine asks before it claims, and claims only jobs of known tasks.

    `knows` answers from memory, as it is called inside a transaction. It returns None if only an import can decide.
    Then the name goes into `undecided`, and the claim takes nothing from that queue; the worker decides and claims
    again. `familiar` are known names, each between line breaks: a server that has them need not ask.
    """

    def __init__(self, knows: Callable[[str], bool | None], familiar: Iterable[str] = ()) -> None:
        self._knows = knows
        self._familiar = set(familiar)
        self.familiar = "\n".join(["", *self._familiar, ""])
        self.unknown: set[str] = set()
        self.undecided: set[str] = set()

    def __contains__(self, task: str) -> bool:
        """Whether it is known. An undecided one is not."""
        if task in self._familiar:
            return True
        answer = self._knows(task)
        if answer:
            self.learn(task)
        elif answer is None:
            self.undecided.add(task)
        else:
            self.unknown.add(task)
        return bool(answer)

    def learn(self, task: str) -> None:
        """Know this task from now on."""
        self._familiar.add(task)
        self.familiar += f"{task}\n"
        self.unknown.discard(task)

    def forget(self, task: str) -> None:
        """Ask again when it is met: it was known, and no longer is."""
        self._familiar.discard(task)
        self.familiar = self.familiar.replace(f"\n{task}\n", "\n")

    def excludes(self, task: str) -> bool:
        """Whether the task is certainly unknown."""
        return task not in self and task not in self.undecided
