"""Files are written whole: new contents or the old ones, links and permissions kept, errors that name the path."""

import os
import stat
from pathlib import Path

import pytest

from sim.files import write_bytes, write_text


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
