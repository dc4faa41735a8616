"""The folder of liveness files for a store without a folder: no other user can change it."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path

import pytest

from headrace.engines.shared import liveness_file
from headrace.engines.shared.liveness_file import LivenessFile, find_dead, local_folder, remove_file
from headrace.errors import ConfigError
from tests.support.processes import Child

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no owners of files")


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder of the test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def base(temporary: Path) -> Path:
    return temporary / f"headrace-{os.getuid()}"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_folder_is_this_users_alone(base: Path) -> None:
    folder = local_folder("a store")
    assert folder.parent == base
    assert (mode(base), mode(folder)) == (0o700, 0o700)


def test_an_open_umask_does_not_open_the_folder() -> None:
    before = os.umask(0)
    try:
        folder = local_folder("a store")
    finally:
        os.umask(before)
    assert (mode(folder.parent), mode(folder)) == (0o700, 0o700)


def test_workers_of_one_store_meet_and_those_of_two_do_not() -> None:
    assert local_folder("a store") == local_folder("a store")
    assert local_folder("a store") != local_folder("another")


@pytest.mark.parametrize("identity", ["../../etc", "a/b", "", "ä" * 500])
def test_whatever_the_identity_is_the_folder_lies_where_it_should(base: Path, identity: str) -> None:
    assert local_folder(identity).resolve().parent == base.resolve()


@pytest.mark.parametrize("which", ["base", "folder"])
def test_a_folder_that_others_may_write_to_is_refused_with_what_to_do(which: str) -> None:
    folder = local_folder("a store")
    (folder if which == "folder" else folder.parent).chmod(0o770)
    with pytest.raises(ConfigError, match=r"not a folder of this user alone; remove it, or set TMPDIR"):
        local_folder("a store")


def test_a_folder_of_another_user_is_refused(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = os.getuid() + 1
    base.with_name(f"headrace-{stranger}").mkdir(0o700)
    monkeypatch.setattr(os, "getuid", lambda: stranger)
    with pytest.raises(ConfigError, match="not a folder of this user alone"):
        local_folder("a store")


@pytest.mark.parametrize("which", ["base", "folder"])
def test_a_link_in_its_place_is_refused(temporary: Path, which: str) -> None:
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir(0o700)
    folder = local_folder("a store")
    folder.rmdir()
    link = folder
    if which == "base":
        folder.parent.rmdir()
        link = folder.parent
    link.symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="not a folder of this user alone"):
        local_folder("a store")
    assert list(elsewhere.iterdir()) == []


def test_a_file_in_its_place_is_refused(base: Path) -> None:
    base.touch(0o600)
    with pytest.raises(ConfigError, match="not a folder of this user alone"):
        local_folder("a store")


def test_no_temporary_folder_at_all_is_reported_with_what_to_do(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "removed"))
    with pytest.raises(ConfigError, match=r"temporary folder: .*; set TMPDIR"):
        local_folder("a store")


def test_a_link_in_the_place_of_a_sign_of_life_is_not_followed(temporary: Path) -> None:
    folder, victim = local_folder("a store"), temporary / "victim"
    victim.write_text("precious")
    (folder / "w1.alive").symlink_to(victim)
    with pytest.raises(OSError, match="w1"):
        LivenessFile(folder, "w1")
    assert find_dead(folder) == {}
    assert victim.read_text() == "precious"


def test_a_worker_is_dead_when_its_process_is_and_its_begun_claims_are_known() -> None:
    folder = local_folder("a store")
    living = LivenessFile(folder, "living")
    living.begin(11)

    def begin_and_die(_: object) -> object:
        dying = LivenessFile(folder, "dying")
        _, place, _ = dying.begin(21), dying.begin(22), dying.begin(23)
        dying.settled(place or 0)
        return find_dead(folder)

    child = Child(begin_and_die)
    assert child.hear() == {}
    child.end()
    assert find_dead(folder) == {"dying": {21, 23}}
    remove_file(folder, "dying")
    assert find_dead(folder) == {}
    living.close()
    assert list(folder.iterdir()) == []


def test_a_damaged_sign_of_life_does_not_hide_the_others() -> None:
    folder = local_folder("a store")
    (folder / "torn.alive").write_bytes((21).to_bytes(8, sys.byteorder) + b"\x01\x02\x03")
    (folder / "empty.alive").touch()
    (folder / "folder.alive").mkdir()
    (folder / "whole.alive").write_bytes((31).to_bytes(8, sys.byteorder))
    assert find_dead(folder) == {"torn": {21}, "whole": {31}}


def test_a_removed_liveness_folder_reports_no_worker_as_dead() -> None:
    folder = local_folder("a store")
    folder.rmdir()
    assert find_dead(folder) == {}
    remove_file(folder, "w1")


def test_without_file_locks_no_worker_is_declared_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = local_folder("a store")
    LivenessFile(folder, "w1").close()
    (folder / "w2.alive").write_bytes(b"\0" * 8)
    assert find_dead(folder) == {"w2": set()}
    monkeypatch.setattr(liveness_file, "locks", None)
    assert find_dead(folder) == {}
