"""What ties jobs together, on its way from one store to another: flows, and bonds behind all jobs.

Knows stores by the engine seam alone. A bond is carried with its parent, which is marked as having kin.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from headrace.core.jobs.dependencies import Dependency, FlowRow
from headrace.core.jobs.records import JobRow
from headrace.core.jobs.transfer import JobExport
from headrace.engines.protocol.engine import Engine
from headrace.engines.protocol.maintenance import StoreView
from headrace.engines.protocol.queries import Queries

_AT_ONCE = 500
_OF_ITS_LIFE = ("state", "version", "attempt", "started_at", "finished_at", "worker", "kin")


def flow_pages(desk: Queries) -> Iterator[list[FlowRow]]:
    """Every flow of a store."""
    last = None
    while page := desk.flows(_AT_ONCE, last):
        yield [tally.flow for tally in page]
        reached = page[-1].flow.id
        if last is not None and reached >= last:  # a damaged id leads back
            return
        last = reached


def with_kin(page: Sequence[JobExport]) -> list[str]:
    """The jobs of a page that others wait for."""
    return [parcel.job.id for parcel in page if parcel.job.kin]


def bond_pages(desk: Queries, parents: Sequence[str]) -> Iterator[list[Dependency]]:
    """Every bond of these jobs as parents."""
    for start in range(0, len(parents), _AT_ONCE):
        some = parents[start : start + _AT_ONCE]
        known = set(some)
        if page := [bond for bond in desk.bonds(some) if bond.parent in known]:
            yield page


def carry_flows(source: StoreView, target: Engine) -> None:
    for page in flow_pages(source.desk):
        target.porter.unpack_flows(page)


def carry_bonds(source: StoreView, target: Engine, parents: Sequence[str], *, merged: bool) -> None:
    """As they are, but for those of a job whose id is taken at the target: what became of that one has to decide."""
    for page in bond_pages(source.desk, parents):
        names = sorted({name for bond in page for name in (bond.parent, bond.child)})
        there = {row.id: row for row in target.desk.get(names)}
        ours = {
            row.id
            for row in source.desk.get(names)
            if row.id in there
            and row.created_at == there[row.id].created_at
            and not (merged and lives_apart(row, there[row.id]))
        }
        target.porter.unpack_bonds([bond for bond in page if bond.parent in ours and bond.child in ours])


def tie_loose(target: Engine, bonds: Sequence[Dependency]) -> None:
    """Let what waits for a job whose id is taken at the target wait for the one there, or go on if that has ended."""
    for start in range(0, len(bonds), _AT_ONCE):
        target.plant([], bonds[start : start + _AT_ONCE])


def lives_apart(ours: JobRow, theirs: JobRow) -> bool:
    """Whether a job that is at both stores was run, moved or tied to others at one of them only."""
    return any(getattr(ours, name) != getattr(theirs, name) for name in _OF_ITS_LIFE)


def missing_flows(source: Engine, target: Engine) -> Iterator[str]:
    """The flows that are at the source only."""
    for page in flow_pages(source.desk):
        there = {tally.flow for tally in target.desk.flows(len(page), ids=[flow.id for flow in page])}
        yield from (flow.id for flow in page if flow not in there)


def missing_bonds(source: Engine, target: Engine, parents: Sequence[str], excused: Collection[str]) -> Iterator[str]:
    """The bonds that are at the source only, or are otherwise at the target, in words."""
    for page in bond_pages(source.desk, parents):
        asked = list({bond.parent for bond in page})
        there = set(target.desk.bonds(asked))
        for bond in page:
            if bond not in there and not {bond.parent, bond.child} & set(excused):
                yield f"{bond.parent} -> {bond.child}"
