"""Jobs that wait for jobs: any graph, any order of ends, failures, revivals and deletes, against a plain model."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headrace.core.jobs.dependencies import HELD, PARENT_FAILED, Dependency, FlowRow, Policy
from headrace.core.jobs.records import Claim, Filter, Outcome
from headrace.core.jobs.states import FINAL, State, Trigger
from headrace.errors import InvalidJob
from tests.conformance.flows.dependency_model import Family, Member
from tests.support.builders import NOW, fail, give_up, new_job, release, retry, rows, succeed, want
from tests.support.engines import new_store

LEASE = 100
POLICY = st.sampled_from(["cancel", "cancel", "run", "only", "hold"])
PICK = st.integers(0, 10_000)
# Each new job with the places of its parents, among the new ones before it and those that are there.
GRAPH = st.lists(st.lists(st.tuples(PICK, POLICY), max_size=3), min_size=1, max_size=5)


class FamilyMachine(RuleBasedStateMachine):
    """Does the same to a store and to the model, and compares."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.at_end = ExitStack()
        self.engine = new_store(kind, self.at_end).open()
        self.family = Family()
        self.now = NOW
        self.count = 0
        self.claims: dict[str, Claim] = {}

    def teardown(self) -> None:
        self.at_end.close()

    # -- new jobs

    @initialize(graph=GRAPH)
    def there_is_a_graph(self, graph: list[list[tuple[int, Policy]]]) -> None:
        self.insert_graph(graph)

    @rule(graph=GRAPH)
    @precondition(lambda self: len(self.family.members) < 20)
    def insert_graph(self, graph: list[list[tuple[int, Policy]]]) -> None:
        jobs, edges = [], []
        for picks in graph:
            name = self._fresh_id()
            known = list(self.family.members)
            parents = {known[pick % len(known)]: policy for pick, policy in picks if known}
            jobs.append(new_job(name, state=State.WAITING if parents else None, flow="f", max_attempts=2))
            edges += [Dependency(parent, name, policy) for parent, policy in parents.items()]
            self.family.add(name, parents, 2)
        self.engine.insert(jobs, edges=edges, flow=FlowRow("f", "family", NOW), now=self.now)
        self.family.settle_down()

    @rule(pick=PICK, after=st.none() | PICK, policy=POLICY)
    def add_a_child_that_one_waits_for(self, pick: int, after: int | None, policy: Policy) -> None:
        """The new one may itself wait for any other; what would close a circle is refused, and nothing is stored."""
        names = list(self.family.members)
        if not names:
            return
        elder, name = names[pick % len(names)], self._fresh_id()
        others: dict[str, Policy] = {} if after is None else {names[after % len(names)]: "run"}
        edges = [Dependency(name, elder, policy), *(Dependency(other, name, "run") for other in others)]
        job = new_job(name, state=State.WAITING if others else None)
        ended = self.family.members[elder].state in FINAL
        if ended or others.keys() & {elder, *self.family.descendants(elder)}:
            with pytest.raises(InvalidJob):
                self.engine.insert([job], edges=edges, now=self.now)
            return
        self.engine.insert([job], edges=edges, now=self.now)
        self.family.add(name, others)
        self.family.add_under(elder, {name: policy})
        self.family.settle_down()

    # -- runs

    @rule(limit=st.integers(1, 4))
    def claim(self, limit: int) -> None:
        for claim in self.engine.exchange([], want(limit, lease=LEASE), now=self.now).claims:
            member = self.family.members[claim.id]
            assert member.state in (State.PENDING, State.SCHEDULED, State.RETRYING), "it was not its turn"
            member.state = State.RUNNING
            member.attempt += 1
            self.claims[claim.id] = claim
        for member in self.family.those(State.RETRYING):
            member.state = State.PENDING  # all are due at once

    @rule(picks=st.lists(st.tuples(PICK, st.sampled_from(["succeed"] * 4 + ["fail", "retry", "give up", "release"]))))
    @precondition(lambda self: self.claims)
    def settle(self, picks: list[tuple[int, str]]) -> None:
        outcomes: dict[str, Outcome] = {}
        for pick, how in picks:
            claim = list(self.claims.values())[pick % len(self.claims)]
            outcomes.setdefault(claim.id, self._outcome(claim, how))
        refused = {o.id for o in self.engine.exchange(list(outcomes.values()), None, now=self.now).refused}
        for name, outcome in outcomes.items():
            claim = self.claims.pop(name)
            member = self.family.members.get(name)
            holds = member is not None and member.state is State.RUNNING
            assert (name in refused) == (not holds)
            if member is not None and holds:
                self._settled(member, outcome)
        self.family.settle_down()

    @rule(pick=PICK, policy=POLICY, count=st.integers(1, 3))
    @precondition(lambda self: self.claims)
    def succeed_and_leave_some_behind(self, pick: int, policy: Policy, count: int) -> None:
        claim = list(self.claims.values())[pick % len(self.claims)]
        names = [self._fresh_id() for _ in range(count)]
        outcome = Outcome(
            claim.id,
            claim.version,
            Trigger.SUCCEED,
            State.COMPLETED,
            self.now,
            result='"done"',
            result_checksum=9,
            finished_at=self.now,
            spawned=tuple(new_job(name, max_attempts=2) for name in names),
            edges=tuple(Dependency(name, claim.id, policy) for name in names),
        )
        refused = self.engine.exchange([outcome], None, now=self.now).refused
        del self.claims[claim.id]
        member = self.family.members.get(claim.id)
        if member is None or member.state is not State.RUNNING:
            assert refused
            return
        assert not refused
        for name in names:
            self.family.add(name, {}, 2)
        self.family.add_under(claim.id, dict.fromkeys(names, policy))
        self.family.succeeds(claim.id)
        self.family.settle_down()

    @rule()
    def every_lease_runs_out(self) -> None:
        self.now += LEASE + 1
        self.engine.reap(1000, now=self.now)
        for member in self.family.those(State.RUNNING):
            self.family.ends(member.id, State.PENDING if member.attempt < member.max_attempts else State.FAILED)
        self.family.settle_down()

    # -- operators

    @rule(pick=PICK, event=st.sampled_from([Trigger.CANCEL, Trigger.REVIVE, Trigger.PROMOTE_NOW, Trigger.DELETE]))
    def move(self, pick: int, event: Trigger) -> None:
        names = list(self.family.members)
        if not names:
            return
        member = self.family.members[names[pick % len(names)]]
        moved = self.engine.queries.move(Filter(ids=(member.id,)), event, 1, now=self.now)
        assert bool(moved) == _may(member, event)
        if not moved:
            return
        if event is Trigger.CANCEL:
            self.family.ends(member.id, State.CANCELLED)
        elif event is Trigger.REVIVE:
            self.family.revive(member.id)
        elif event is Trigger.PROMOTE_NOW:
            self.family.promote_now(member.id)
        else:
            self.family.delete(member.id)
        self.family.settle_down()

    # -- what must be

    @invariant()
    def the_store_is_what_the_model_says(self) -> None:
        found = rows(self.engine)
        assert {name: row.state for name, row in found.items()} == {
            member.id: member.state for member in self.family.members.values()
        }
        held = {name for name, row in found.items() if row.reason == HELD and row.state is State.WAITING}
        assert held == {member.id for member in self.family.members.values() if member.held}
        lost = {name for name, row in found.items() if row.reason == PARENT_FAILED}
        assert lost == {m.id for m in self.family.those(State.CANCELLED) if m.by_parent}

    @invariant()
    def bonds_are_what_the_model_says(self) -> None:
        edges = {
            (edge.parent, edge.child, edge.policy) for edge in self.engine.flow_store.edges(list(self.family.members))
        }
        assert edges == {(p, m.id, tie.policy) for m in self.family.members.values() for p, tie in m.ties.items()}

    @invariant()
    def the_flow_counts_its_jobs(self) -> None:
        members = [row for row in rows(self.engine).values() if row.flow == "f"]
        tallies = self.engine.flow_store.flows(10)
        assert sum(sum(tally.jobs.values()) for tally in tallies) == len(members)
        assert len(tallies) == (1 if members else 0)

    def _outcome(self, claim: Claim, how: str) -> Outcome:
        if how == "retry" and claim.attempt < 2:
            return retry(claim, self.now, at=self.now)
        makers = {"succeed": succeed, "fail": fail, "give up": give_up, "release": release}
        return makers.get(how, fail)(claim, at=self.now)

    def _settled(self, member: Member, outcome: Outcome) -> None:
        if outcome.event is Trigger.SUCCEED:
            self.family.succeeds(member.id)
        elif outcome.event is Trigger.RELEASE:
            member.attempt -= 1
            member.state = State.PENDING
        else:
            self.family.ends(member.id, outcome.state)

    def _fresh_id(self) -> str:
        self.count += 1
        return f"j{self.count:03}"


def _may(member: Member, event: Trigger) -> bool:
    if event is Trigger.CANCEL:
        return member.state not in FINAL
    if event is Trigger.REVIVE:
        return member.state in FINAL
    if event is Trigger.PROMOTE_NOW:
        waits = member.state is State.WAITING and not member.over
        return waits or member.state in (State.SCHEDULED, State.RETRYING)
    return member.state is not State.RUNNING


@pytest.mark.slow_on("postgres")
@pytest.mark.parametrize("examples", [10, pytest.param(40, marks=pytest.mark.slow)])
def test_every_family_ends_as_the_model_says(engine_name: str, examples: int) -> None:
    run_state_machine_as_test(
        lambda: FamilyMachine(engine_name),  # type: ignore[arg-type]
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
