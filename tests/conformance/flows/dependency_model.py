"""What becomes of jobs that wait for jobs, told once more and in the plainest way.

Everything is looked at again after every change, until nothing changes: no order of work, no flags for speed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.core.jobs.dependencies import Policy
from headrace.core.jobs.states import FINAL, State

BAD = (State.FAILED, State.CANCELLED)


@dataclass
class Tie:
    """One parent of a member."""

    policy: Policy
    met: bool = False  # it blocks no more


@dataclass
class Member:
    """A job of the family."""

    id: str
    state: State
    ties: dict[str, Tie] = field(default_factory=dict)
    over: bool = False  # its own run has succeeded
    held: bool = False
    by_parent: bool = False  # it was cancelled only because of a parent
    attempt: int = 0
    max_attempts: int = 3

    @property
    def is_blocked(self) -> bool:
        return any(not tie.met for tie in self.ties.values())


class Family:
    """All jobs of a store, and the rules."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}

    def those(self, *states: State) -> list[Member]:
        return [member for member in self.members.values() if member.state in states]

    def descendants(self, name: str) -> set[str]:
        found: set[str] = set()
        front = {name}
        while front:
            front = {m.id for m in self.members.values() if front & m.ties.keys()} - found
            found |= front
        return found

    # -- what happens

    def add(self, name: str, parents: dict[str, Policy], max_attempts: int = 3) -> None:
        state = State.WAITING if parents else State.PENDING
        ties = {parent: Tie(policy) for parent, policy in parents.items()}
        self.members[name] = Member(name, state, ties, max_attempts=max_attempts)

    def add_under(self, name: str, children: dict[str, Policy]) -> None:
        """Let a member that has not ended wait for these, which were added just now."""
        member = self.members[name]
        member.ties |= {child: Tie(policy) for child, policy in children.items()}
        if member.state in (State.PENDING, State.SCHEDULED, State.RETRYING):
            member.state = State.WAITING

    def ends(self, name: str, state: State) -> None:
        self.members[name].state = state
        self.members[name].held = False

    def succeeds(self, name: str) -> None:
        member = self.members[name]
        member.over = True
        member.state = State.WAITING if member.is_blocked else State.COMPLETED

    def revive(self, name: str) -> None:
        member = self.members[name]
        self._back(member)
        for parent, tie in member.ties.items():
            tie.met |= self.members[parent].state in FINAL
        member.state = State.WAITING if member.is_blocked else State.PENDING
        self._wait_again(name)

    def promote_now(self, name: str) -> None:
        member = self.members[name]
        for tie in member.ties.values() if member.state is State.WAITING else ():
            tie.met = True
        member.state = State.PENDING
        member.held = False

    def delete(self, name: str) -> None:
        if self.members[name].state not in FINAL:
            self.ends(name, State.CANCELLED)
            self.settle_down()
        del self.members[name]
        for member in self.members.values():
            member.ties.pop(name, None)

    # -- what follows

    def settle_down(self) -> None:
        """Until nothing follows any more."""
        while any(self._look_at(member) for member in self.members.values()):
            pass

    def _look_at(self, member: Member) -> bool:
        lost = False
        changed = False
        for name, tie in member.ties.items():
            parent = self.members[name].state
            if not tie.met and (parent is State.COMPLETED or (parent in BAD and tie.policy in ("run", "only"))):
                tie.met = changed = True
            if not tie.met and parent in BAD:
                lost |= tie.policy == "cancel"
                if tie.policy == "hold" and member.state is State.WAITING and not member.held:
                    member.held = changed = True
        if member.state is not State.WAITING:
            return changed
        if lost:
            member.state, member.by_parent, member.held = State.CANCELLED, True, False
            return True
        if member.ties and not member.is_blocked and not member.held:
            member.state = self._freed(member)
            return True
        return changed

    def _freed(self, member: Member) -> State:
        """Its state when no parent blocks it any more."""
        if member.over:
            return State.COMPLETED
        only = [self.members[name].state for name, tie in member.ties.items() if tie.policy == "only"]
        return State.CANCELLED if only and not any(state in BAD for state in only) else State.PENDING

    def _back(self, member: Member) -> None:
        member.by_parent = member.held = member.over = False
        member.attempt = 0

    def _wait_again(self, name: str) -> None:
        for child in self.members.values():
            if name not in child.ties or not (child.state is State.WAITING or child.by_parent):
                continue
            child.ties[name].met = False
            others = [(self.members[p].state, tie) for p, tie in child.ties.items()]
            if child.held and not any(state in BAD and tie.policy == "hold" for state, tie in others):
                child.held = False
            if child.by_parent and not any(state in BAD and tie.policy == "cancel" for state, tie in others):
                self._back(child)
                child.state = State.WAITING
                self._wait_again(child.id)
