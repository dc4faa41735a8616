"""Every kind of payload store does the same with files, and a URL that names none is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace import ConfigError
from headrace.runtime.payloads.files import PayloadFiles, open_files
from headrace.runtime.payloads.memory_files import MemoryFiles


@pytest.fixture(params=["folder", "fsspec", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> PayloadFiles:
    if request.param == "folder":
        return open_files(f"file://{tmp_path}/with%20space")
    return MemoryFiles() if request.param == "memory" else open_files(f"memory://{tmp_path}")


def test_files_are_written_read_listed_and_deleted(files: PayloadFiles) -> None:
    assert files.list("a") == []
    files.add_folder("a")
    files.write("a/1/x", b"one")
    files.write("a/1/y", b"two")
    assert files.read("a/1/y") == b"two"
    assert (files.exists("a/1/x"), files.exists("a/1/z"), files.exists("b/1/x")) == (True, False, False)
    assert (files.list("a"), files.list("a/1")) == (["1"], ["x", "y"])
    with pytest.raises(FileNotFoundError):
        files.read("a/1/z")
    files.remove_folder("a/1")
    assert files.list("a/1") == ["x", "y"]
    files.delete(["a/1/x", "a/1/z", "a/1/y"])
    assert files.list("a/1") == []
    files.remove_folder("a/1")
    assert files.list("a") == []


def test_a_folder_that_is_not_mounted_is_not_filled(tmp_path: Path) -> None:
    files = open_files(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        files.write("a/1/x", b"one")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("file://relative", "should look like file:///absolute/path"),
        ("relative", "should look like file:///absolute/path"),
        ("nothing://x", "payload_store: 'nothing://x' can't be opened"),
        (
            "s3://key:secret@bucket",
            r"'s3://key:\*\*\*@bucket' can't be opened: ImportError: Install s3fs",
        ),
    ],
)
def test_a_url_that_names_no_store_is_refused(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        open_files(url)
    assert refused.value.field == "payload_store"
