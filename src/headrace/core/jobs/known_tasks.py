"""Which tasks a worker knows, by the names that it tells of itself, and which names are headrace's own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

RESERVED = "headrace."  # names of tasks of our own, which act with what only we know


def is_reserved(task: str) -> bool:
    """Whether the task is headrace's own. Every worker knows those; nobody else may enqueue them."""
    return task.startswith(RESERVED)


def knows(names: Collection[str], task: str) -> bool:
    """Whether a worker that tells these names could run this task. "jobs.*" are all functions of a module."""
    if task in names or is_reserved(task):
        return True
    return any(name.endswith(".*") and task.startswith(name[:-1]) for name in names)


class KnownTasks:
    """Which of the tasks that it meets a worker knows. An engine asks before it claims, and claims no job of another.

    `knows` answers from memory: it is asked inside of a transaction. None is its answer if only an import can tell.
    Then the name is put into `undecided`, and the claim takes nothing from that queue. Who claims decides, and comes
    again. `familiar` are known names, each between line breaks: a server that knows them need not ask.
    """

    def __init__(self, knows: Callable[[str], bool | None], familiar: Iterable[str] = ()) -> None:
        self._knows = knows
        self._familiar = set(familiar)
        self.familiar = "\n".join(["", *self._familiar, ""])
        self.unknown: set[str] = set()
        self.undecided: set[str] = set()

    def __contains__(self, task: str) -> bool:
        """Whether it is known. One that is undecided is not."""
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
        """Ask again when it is met: it was known, and is not any more."""
        self._familiar.discard(task)
        self.familiar = self.familiar.replace(f"\n{task}\n", "\n")

    def excludes(self, task: str) -> bool:
        """Whether it is certain that the task is not known."""
        return task not in self and task not in self.undecided
