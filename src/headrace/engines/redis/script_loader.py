"""The Lua scripts: one in `scripts/ops` for each operation, linked with the parts in `scripts/lib` it needs."""

from __future__ import annotations

import hashlib
import pkgutil
from collections.abc import Sequence
from functools import cache, cached_property

from headrace.engines.redis.script_linker import (
    Piece,
    Statement,
    lazy_block_if,
    lazy_block_when_called,
    link,
    statements,
)

_PARTS = {
    "jobs/insert": ("write_new_jobs", "rare_inserts", "submit_jobs"),
    "flows/insert_graph": ("write_new_jobs", "rare_inserts", "submit_jobs", "dependencies", "write_graph"),
    "jobs/insert_unique": ("unique_keys", "write_new_jobs", "task_lanes", "rare_inserts", "submit_jobs"),
    "jobs/exchange": (
        "unknown_tasks",
        "start_jobs",
        "settle_dependencies",
        "settle_other",
        "settle_completed",
        "due_jobs",
        "promote_and_expire",
        "limited_claim",
    ),
    "jobs/save_step": ("step_records",),
    "jobs/reap": ("dead_letters", "release", "dependencies"),
    "retention/mark_stale": ("dead_letters", "dependencies"),
    "jobs/fail_damaged": ("dead_letters", "dependencies"),
    "jobs/release_unknown_claims": ("release",),
    "retention/list_finished": ("retention_holds",),
    "transfer/export_jobs_by_id": ("job_rows", "step_records"),
    "retention/delete_finished": ("unique_keys", "dependencies", "delete_job", "retention_holds", "hour_index"),
    "jobs/search_jobs": ("search", "job_rows"),
    "jobs/count_by_index": ("search",),
    "jobs/get_jobs": ("job_rows",),
    "queues/peek_queue": ("lane_heads", "job_rows"),
    "jobs/move_jobs": ("dead_letters", "unique_keys", "dependencies", "delete_job", "reopen_dependents", "search"),
    "queues/assign_task_lanes": ("task_lanes",),
    "queues/rate_state": ("rate_buckets",),
    "flows/list_dependencies": ("dependencies",),
    "jobs/list_steps": ("step_records",),
    "jobs/signal": ("step_records",),
    "transfer/export_jobs": ("search", "job_rows", "step_records"),
    "transfer/import_jobs": ("unique_keys", "write_new_jobs", "step_records"),
    "transfer/import_dependencies": ("dependencies", "write_graph"),
    "transfer/import_dead_letters": ("dead_letters",),
    "dead_letters/find": ("dead_letters",),
    "dead_letters/groups": ("dead_letters",),
    "dead_letters/stats": ("dead_letters",),
    "dead_letters/resolve": ("dead_letters",),
    "dead_letters/note": ("dead_letters",),
    "dead_letters/add": ("dead_letters", "dependencies"),
    "documents/put": ("documents",),
    "documents/remove": ("documents",),
    "documents/drop": ("documents",),
    "dead_letters/purge": ("dead_letters", "delete_dead_letter"),
    "dead_letters/remove": ("dead_letters", "delete_dead_letter"),
    "dead_letters/requeue": (
        "dead_letters",
        "unique_keys",
        "write_new_jobs",
        "rare_inserts",
        "submit_jobs",
        "dependencies",
        "reopen_dependents",
    ),
    "maintenance/integrity_counts": ("dependencies",),
    "maintenance/check_job_keys": ("dependencies",),
    "maintenance/trim_history": ("search",),
    "schedules/put_schedule": ("schedules",),
    "schedules/delete_schedule": ("schedules",),
    "schedules/due_schedules": ("schedules",),
    "schedules/fire_schedules": ("write_new_jobs", "rare_inserts", "submit_jobs", "schedules"),
}
# Rarely needed parts, with their own parts, and when each is created: if a condition holds at its place in the script,
# or at its first call. A part that an outer block already has is not repeated.
_IF_NEEDED = {
    "limited_claim": (
        ("lane_heads", "claim_order", "lane_rotation", "rate_buckets", "limits", "task_lanes"),
        "limit > 0 and ARGV[14] == '1' or needs_limited_claim()",
    ),
    "settle_dependencies": (
        ("dead_letters", "dependencies", "insert_spawned"),
        "ARGV[15] == '1' or call('EXISTS', HAS_DEPENDENCIES) == 1",
    ),
    "insert_spawned": (("write_new_jobs", "rare_inserts", "submit_jobs", "write_graph"), "ARGV[15] == '1'"),
}
_WHEN_CALLED: dict[str, tuple[str, ...]] = {
    "rare_inserts": ("unique_keys", "task_lanes"),
    "due_jobs": (),
    "unknown_tasks": (),
    "settle_other": ("dead_letters",),
}


class Script:
    """A script, linked when it is first used: a program that only submits needs one of sixty."""

    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def text(self) -> str:
        """The complete text, with the library in front."""
        return link(self.pieces)

    @property
    def pieces(self) -> list[Piece]:
        """The library, the script's parts, and its own file."""
        parts = ("base", *_PARTS.get(self.name, ()))
        return [*_pieces(parts, frozenset()), *_statements(f"ops/{self.name}")]

    @cached_property
    def sha(self) -> str:
        """The hash by which the server knows the script."""
        return hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


def load(name: str) -> Script:
    """The script of this name."""
    return Script(name)


def _pieces(parts: Sequence[str], around: frozenset[str]) -> list[Piece]:
    present = around.union(parts)
    found: list[Piece] = []
    for part in parts:
        if part in around:
            continue
        if part in _IF_NEEDED:
            below, condition = _IF_NEEDED[part]
            found.append(lazy_block_if(part, condition, [*_pieces(below, present), *_statements(f"lib/{part}")]))
        elif part in _WHEN_CALLED:
            found.append(
                lazy_block_when_called(part, [*_pieces(_WHEN_CALLED[part], present), *_statements(f"lib/{part}")])
            )
        else:
            found += _statements(f"lib/{part}")
    return found


@cache
def _statements(name: str) -> list[Statement]:
    # pkgutil: importlib.resources alone would take a tenth of the time of `import headrace`.
    data = pkgutil.get_data("headrace.engines.redis", f"scripts/{name}.lua")
    if data is None:
        raise FileNotFoundError(f"scripts/{name}.lua is missing from headrace.engines.redis")
    return statements(data.decode())
