"""Files are written whole: new contents or the old ones, links and permissions kept, errors that name the path."""

import os
import stat
from pathlib import Path

import pytest

from sim import files
from sim.files import begins, copy, read_bytes, write_bytes, write_text


def test_a_file_is_made_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_text(path, "é")
    assert path.read_bytes() == "é".encode() and stat.S_IMODE(path.stat().st_mode) == 0o666 & ~_umask()
    path.chmod(0o640)
    write_bytes(path, b"new")
    assert path.read_bytes() == b"new" and stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["f"]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"


def test_no_more_is_read_than_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 3_000_000)
    assert read_bytes(tmp_path / "f", 3_000_000) == b"x" * 3_000_000 and read_bytes("/dev/null") == b""
    for path in (tmp_path / "f", "/dev/zero"):
        with pytest.raises(OSError, match="more than 2999999 bytes") as caught:
            read_bytes(path, 2_999_999)
        assert caught.value.filename == str(path)
    # No memory is asked for, for what a file only says that it has.
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 43)
    with pytest.raises(OSError, match="more than 536870912 bytes"):
        read_bytes(tmp_path / "huge")


def test_a_copy_is_made_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PIECE", 4)
    (tmp_path / "f").write_bytes(b"0123456789")
    copy(tmp_path / "f", tmp_path / "g")
    assert (tmp_path / "g").read_bytes() == b"0123456789"
    for other, is_begin in ((b"", True), (b"01234567", True), (b"01234x", False), (b"0123456789", True), (b"01234567890", False)):
        (tmp_path / "g").write_bytes(other)
        assert begins(tmp_path / "g", tmp_path / "f") is is_begin
    with pytest.raises(OSError, match="No such file") as caught:
        copy(tmp_path / "none", tmp_path / "g")
    assert caught.value.filename == str(tmp_path / "none")


def test_a_link_that_leads_to_itself_stays_one_too(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(OSError, match="symbolic links") as caught:
        write_text(tmp_path / "a", "new")
    assert caught.value.filename == str(tmp_path / "a") and (tmp_path / "a").is_symlink() and (tmp_path / "b").is_symlink()


def test_what_is_no_file_is_written_to() -> None:
    write_bytes("/dev/null", b"x")
    assert not os.path.isfile("/dev/null")


def test_a_reader_never_sees_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    path.write_text("old")
    seen: list[str] = []
    really = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (seen.append(path.read_text()), really(a, b)))
    write_text(path, "new")
    assert seen == ["old"] and path.read_text() == "new"


def test_a_failure_names_the_path_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_text("old")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_text(tmp_path / "f", "new")
    assert caught.value.filename == str(tmp_path / "f")
    assert os.listdir(tmp_path) == ["f"] and (tmp_path / "f").read_text() == "old"
    for path in (tmp_path / "none" / "f", tmp_path):
        with pytest.raises(OSError) as caught:
            write_text(path, "x")
        assert caught.value.filename == str(path)
