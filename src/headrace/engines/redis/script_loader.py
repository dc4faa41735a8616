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
from headrace.engines.redis.script_records import expand

_PARTS = {
    "jobs/insert": ("jobs/insert_one", "jobs/insert_batch"),
    "flows/insert_graph": (
        "jobs/write_new_jobs",
        "jobs/rare_inserts",
        "jobs/submit_jobs",
        "flows/dependencies",
        "flows/write_graph",
    ),
    "jobs/insert_unique": (
        "jobs/unique_keys",
        "jobs/write_new_jobs",
        "queues/task_lanes",
        "jobs/rare_inserts",
        "jobs/submit_jobs",
        "flows/propagation",
    ),
    "jobs/exchange": (
        "jobs/unknown_tasks",
        "jobs/start_jobs",
        "queues/used_units",
        "flows/settle_dependencies",
        "jobs/settle_other",
        "jobs/settle_completed",
        "jobs/due_jobs",
        "jobs/promote_and_expire",
        "queues/limited_claim",
    ),
    "jobs/save_step": ("jobs/step_records",),
    "jobs/apply": (
        "dead_letters/letters",
        "jobs/insertion",
        "jobs/deletion",
        "flows/propagation",
        "flows/reopening",
    ),
    "jobs/fail_damaged": ("dead_letters/dead_letters", "flows/dependencies"),
    "retention/list_finished": ("retention_holds",),
    "transfer/export_jobs_by_id": ("jobs/job_rows", "jobs/step_records"),
    "retention/delete_finished": (
        "jobs/unique_keys",
        "flows/dependencies",
        "jobs/delete_job",
        "retention_holds",
        "jobs/hour_index",
    ),
    "jobs/search_jobs": ("jobs/search", "jobs/job_rows"),
    "jobs/count_by_index": ("jobs/search",),
    "jobs/get_jobs": ("jobs/job_rows",),
    "queues/peek_queue": ("queues/lane_heads", "jobs/job_rows"),
    "queues/assign_task_lanes": ("queues/task_lanes",),
    "queues/limit_state": ("queues/rate_buckets",),
    "flows/list_dependencies": ("flows/dependencies",),
    "jobs/list_steps": ("jobs/step_records",),
    "jobs/signal": ("jobs/step_records",),
    "transfer/export_jobs": ("jobs/search", "jobs/job_rows", "jobs/step_records"),
    "transfer/import_jobs": ("jobs/unique_keys", "jobs/write_new_jobs", "jobs/step_records"),
    "transfer/import_dependencies": ("flows/dependencies", "flows/write_graph"),
    "transfer/import_dead_letters": ("dead_letters/dead_letters",),
    "dead_letters/find": ("dead_letters/dead_letters",),
    "dead_letters/groups": ("dead_letters/dead_letters",),
    "dead_letters/stats": ("dead_letters/dead_letters",),
    "documents/put": ("documents",),
    "dead_letters/delete": ("dead_letters/dead_letters",),
    "maintenance/integrity_counts": ("flows/dependencies",),
    "maintenance/check_job_keys": ("flows/dependencies",),
    "maintenance/trim_history": ("jobs/search",),
    "schedules/put_schedule": ("schedules",),
    "schedules/delete_schedule": ("schedules",),
    "schedules/due_schedules": ("schedules",),
    "schedules/fire_schedules": ("jobs/write_new_jobs", "jobs/rare_inserts", "jobs/submit_jobs", "schedules"),
}
# Rarely needed parts, with their own parts, and when each is created: if a condition holds at its place in the script,
# or at its first call. A part that an outer block already has is not repeated.
_IF_NEEDED = {
    "queues/limited_claim": (
        (
            "queues/lane_heads",
            "queues/claim_order",
            "queues/lane_rotation",
            "queues/rate_buckets",
            "queues/limits",
            "queues/task_lanes",
        ),
        "limit > 0 and ARGV[14] == '1' or needs_limited_claim()",
    ),
    "queues/used_units": (("queues/rate_buckets",), "ARGV[21] ~= ''"),
    "flows/settle_dependencies": (
        ("dead_letters/dead_letters", "flows/dependencies", "flows/insert_spawned"),
        "ARGV[15] == '1' or call('EXISTS', HAS_DEPENDENCIES) == 1",
    ),
    "flows/insert_spawned": (
        ("jobs/write_new_jobs", "jobs/rare_inserts", "jobs/submit_jobs", "flows/write_graph"),
        "ARGV[15] == '1'",
    ),
}
_WHEN_CALLED: dict[str, tuple[str, ...]] = {
    "jobs/insert_batch": ("jobs/write_new_jobs", "jobs/rare_inserts", "jobs/submit_jobs"),
    "jobs/rare_inserts": ("jobs/unique_keys", "queues/task_lanes"),
    "jobs/due_jobs": (),
    "jobs/insertion": ("jobs/write_new_jobs", "jobs/rare_inserts", "jobs/submit_jobs"),
    "jobs/deletion": ("jobs/unique_keys", "flows/dependencies", "jobs/delete_job"),
    "dead_letters/letters": ("dead_letters/dead_letters",),
    "flows/propagation": ("flows/dependencies",),
    "flows/reopening": ("jobs/unique_keys", "flows/dependencies", "flows/reopen_dependents"),
    "jobs/unknown_tasks": (),
    "jobs/settle_other": ("dead_letters/dead_letters",),
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
        name, own = part.rpartition("/")[2], _statements(f"lib/{part}")
        if part in _IF_NEEDED:
            below, condition = _IF_NEEDED[part]
            found.append(lazy_block_if(name, condition, [*_pieces(below, present), *own]))
        elif part in _WHEN_CALLED:
            found.append(lazy_block_when_called(name, [*_pieces(_WHEN_CALLED[part], present), *own]))
        else:
            found += own
    return found


@cache
def _statements(name: str) -> list[Statement]:
    # pkgutil: importlib.resources alone would take a tenth of the time of `import headrace`.
    data = pkgutil.get_data("headrace.engines.redis", f"scripts/{name}.lua")
    if data is None:
        raise FileNotFoundError(f"scripts/{name}.lua is missing from headrace.engines.redis")
    return statements(expand(data.decode()))
