"""The executable cache: content, corruption, bounds, concurrent processes."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gnomon.backends.cache import ExecutableCache, cache_directory, cache_key, default_cache


@pytest.fixture
def cache(tmp_path: Path) -> ExecutableCache:
    return ExecutableCache(tmp_path / "cache")


def entry_file(cache: ExecutableCache) -> Path:
    (file,) = cache.directory.glob("*/*.bin")
    return file


def test_a_stored_entry_is_returned(cache: ExecutableCache) -> None:
    key = cache_key(b"program", "flags")
    assert cache.get(key) is None
    assert cache.is_empty()
    cache.put(key, b"executable")
    assert not cache.is_empty()
    assert cache.get(key) == b"executable"
    assert [entry.key for entry in cache.entries()] == [key]
    assert cache.size_bytes() == entry_file(cache).stat().st_size


def test_an_empty_payload_is_a_payload(cache: ExecutableCache) -> None:
    cache.put(cache_key("nothing"), b"")
    assert cache.get(cache_key("nothing")) == b""


def test_keys_depend_on_every_part_and_its_bounds() -> None:
    keys = [cache_key("ab", "c"), cache_key("a", "bc"), cache_key("abc"), cache_key("ab", "c", "")]
    assert len(set(keys)) == len(keys)
    assert cache_key(b"ab", "c") == cache_key("ab", b"c")


@pytest.mark.parametrize("damage", ["truncated", "flipped", "foreign", "empty"])
def test_a_damaged_entry_is_discarded(
    cache: ExecutableCache, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    key = cache_key("program")
    cache.put(key, b"executable" * 100)
    file = entry_file(cache)
    content = bytearray(file.read_bytes())
    if damage == "truncated":
        content = content[:-1]
    elif damage == "flipped":
        content[-5] ^= 1
    elif damage == "foreign":
        content = bytearray(b"not of this cache") * 10
    else:
        content = bytearray()
    file.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert cache.get(key) is None
    assert "damaged" in caplog.text
    assert not file.exists()
    cache.put(key, b"again")
    assert cache.get(key) == b"again"


def test_the_entry_unused_for_longest_is_evicted(tmp_path: Path) -> None:
    cache = ExecutableCache(tmp_path, max_bytes=5000)
    keys = [cache_key(str(number)) for number in range(4)]
    for age, key in enumerate(keys):
        cache.put(key, bytes(1000))
        os.utime(tmp_path / key[:2] / f"{key}.bin", (1000.0 + age, 1000.0 + age))
    assert cache.get(keys[0]) is not None  # reading makes it the newest
    cache.put(cache_key("4"), bytes(1000))
    assert cache.get(keys[1]) is None
    assert cache.get(keys[0]) is not None
    assert cache.size_bytes() <= 5000


def test_entries_beyond_the_bound_are_not_stored(tmp_path: Path) -> None:
    cache = ExecutableCache(tmp_path, max_bytes=1000)
    cache.put(cache_key("small"), bytes(100))
    cache.put(cache_key("large"), bytes(1000))
    assert cache.get(cache_key("large")) is None
    assert cache.get(cache_key("small")) is not None


def test_leftovers_of_killed_writers_are_removed(
    cache: ExecutableCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.put(cache_key("program"), b"executable")
    folder = entry_file(cache).parent
    stale, fresh = folder / ".partial-stale", folder / ".partial-fresh"
    stale.write_bytes(b"half")
    fresh.write_bytes(b"half")
    os.utime(stale, (0, 0))
    cache.put(cache_key("another"), b"executable")
    tomorrow = time.time() + 90_000
    os.utime(fresh, (tomorrow, tomorrow))
    monkeypatch.setattr(time, "time", lambda: tomorrow)
    cache.put(cache_key("a day later"), b"executable")
    assert not stale.exists()
    assert fresh.exists()


def fill(folder: Path, count: int) -> None:
    """Put entries into a cache's folder, as other versions of gnomon may have done."""
    folder.mkdir(mode=0o700)
    (folder / "one").write_bytes(b"of an older version" * 64)
    for shard in range(256):
        (folder / f"{shard:02x}").mkdir(mode=0o700)
    for number in range(count):
        key = cache_key(str(number))
        (folder / key[:2] / f"{key}.bin").hardlink_to(folder / "one")


def seconds_of_puts(cache: ExecutableCache, prefix: str) -> float:
    start = time.process_time()
    for number in range(50):
        cache.put(cache_key(prefix, str(number)), bytes(100))
    return time.process_time() - start


@pytest.mark.parametrize("count", [2000, pytest.param(50_000, marks=pytest.mark.slow)])
def test_a_put_costs_the_same_in_a_full_folder(
    tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, empty = ExecutableCache(tmp_path / "full"), ExecutableCache(tmp_path / "empty")
    fill(full.directory, count)
    full.put(cache_key("first"), b"executable")
    empty.put(cache_key("first"), b"executable")
    listed: list[object] = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(path) or scan(path))
    ExecutableCache(full.directory).put(cache_key("second"), b"executable")
    assert listed == []
    assert len(full.entries()) == count + 2
    if count > 10_000:
        best = {c: min(seconds_of_puts(c, str(i)) for i in range(5)) for c in (full, empty)}
        assert best[full] < 2 * best[empty]


def test_the_bound_holds_for_entries_of_every_history(tmp_path: Path) -> None:
    # Replaced, removed and older entries, and a record of the total that is lost or damaged.
    folder = tmp_path / "cache"
    fill(folder, 300)
    cache = ExecutableCache(folder, max_bytes=200_000)
    for number in range(150):
        cache.put(cache_key("new", str(number % 40)), bytes(3000 + number))
        if number % 30 == 10:
            cache.remove(cache_key("new", "3"))
        if number == 50:
            (folder / "size").unlink()
        if number in (75, 100):
            (folder / "size").write_bytes(b"x" * (3 if number == 75 else 10_000))
        assert cache.size_bytes() <= 200_000
    assert len(cache.entries()) >= 40


def test_a_total_that_cannot_be_recorded_is_counted(tmp_path: Path) -> None:
    cache = ExecutableCache(tmp_path / "cache", max_bytes=10_000)
    (cache.directory / "size").mkdir(parents=True)
    cache.directory.chmod(0o700)
    for number in range(20):
        cache.put(cache_key(str(number)), bytes(1000))
    assert 5_000 <= cache.size_bytes() <= 10_000


def test_clear_removes_everything(cache: ExecutableCache) -> None:
    for number in range(5):
        cache.put(cache_key(str(number)), b"x")
    assert cache.clear() == 5
    assert cache.entries() == []
    assert cache.clear() == 0


def test_a_folder_that_cannot_be_made_is_not_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = ExecutableCache(tmp_path / "file" / "cache")
    with caplog.at_level(logging.WARNING):
        cache.put(cache_key("program"), b"executable")
    assert "cannot be written" in caplog.text
    assert cache.get(cache_key("program")) is None
    assert cache.entries() == []


def test_a_bound_of_zero_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="GNOMON_CACHE=0"):
        ExecutableCache(tmp_path, max_bytes=0)


WRITER = """
import sys
from gnomon.backends.cache import ExecutableCache, cache_key
cache = ExecutableCache(sys.argv[1], max_bytes=40_000)
for turn in range(60):
    number = (turn * 7 + int(sys.argv[2])) % 12
    key = cache_key(str(number))
    found = cache.get(key)
    assert found is None or found == bytes([number]) * 5000, number
    cache.put(key, bytes([number]) * 5000)
    if turn % 20 == 19:
        cache.clear()
"""


def test_processes_at_once_never_read_a_wrong_entry(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(number)], stderr=subprocess.PIPE
        )
        for number in range(4)
    ]
    messages = [writer.communicate(timeout=60)[1].decode() for writer in writers]
    assert messages == [""] * 4
    assert [writer.returncode for writer in writers] == [0] * 4
    assert ExecutableCache(tmp_path).size_bytes() <= 40_000


def test_the_environment_chooses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GNOMON_CACHE_DIR", str(tmp_path / "own"))
    cache = default_cache()
    assert cache is not None
    assert cache.directory.is_relative_to(tmp_path / "own")
    monkeypatch.setenv("GNOMON_CACHE_MAX_BYTES", "12345")
    assert getattr(default_cache(), "max_bytes", None) == 12345
    monkeypatch.setenv("GNOMON_CACHE_MAX_BYTES", "plenty")
    with pytest.raises(ValueError, match="plenty"):
        default_cache()
    monkeypatch.setenv("GNOMON_CACHE", "0")
    assert default_cache() is None


def test_the_user_cache_folder_is_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("GNOMON_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "gnomon"


needs_posix = pytest.mark.skipif(os.name != "posix", reason="the permissions are POSIX's")


@needs_posix
def test_the_folders_are_made_for_the_user_alone(tmp_path: Path) -> None:
    cache = ExecutableCache(tmp_path / "some" / "cache")
    cache.put(cache_key("a"), b"code")
    file = entry_file(cache)
    for folder in (cache.directory, file.parent):
        assert folder.stat().st_mode & 0o777 == 0o700
    assert file.stat().st_mode & 0o077 == 0


@needs_posix
@pytest.mark.parametrize("which", ["parent", "cache", "shard"])
def test_a_folder_that_others_may_write_to_is_not_used(
    cache: ExecutableCache, which: str, caplog: pytest.LogCaptureFixture
) -> None:
    key = cache_key("program")
    cache.put(key, b"code")
    file = entry_file(cache)
    folders = {"parent": cache.directory.parent, "cache": cache.directory, "shard": file.parent}
    open_folder = folders[which]
    open_folder.chmod(0o777)
    with caplog.at_level(logging.WARNING):
        assert cache.get(key) is None
        content = file.read_bytes()
        cache.put(key, b"other")
    assert "others may write" in caplog.text and "chmod go-w" in caplog.text
    assert file.read_bytes() == content
    open_folder.chmod(0o700)
    assert cache.get(key) == b"code"


@needs_posix
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives away")
@pytest.mark.parametrize("what", ["folder", "file"])
def test_files_of_other_users_are_not_used(cache: ExecutableCache, what: str) -> None:
    key = cache_key("program")
    cache.put(key, b"code")
    os.chown(cache.directory if what == "folder" else entry_file(cache), 12345, -1)
    assert cache.get(key) is None


@needs_posix
@pytest.mark.parametrize("kind", ["link", "pipe", "device", "folder", "huge"])
def test_an_entry_must_be_a_regular_file_within_the_bound(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    cache = ExecutableCache(tmp_path / "cache", max_bytes=1000)
    key = cache_key("program")
    cache.put(key, b"code")
    file = entry_file(cache)
    elsewhere = tmp_path / "elsewhere"
    file.rename(elsewhere)
    if kind == "link":
        file.symlink_to(elsewhere)
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    elif kind == "folder":
        file.mkdir()
    else:
        file.write_bytes(elsewhere.read_bytes())
        os.truncate(file, 10**12)
    with caplog.at_level(logging.WARNING):
        assert cache.get(key) is None
    assert "is not used" in caplog.text


def test_an_unknown_user_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOMON_CACHE_DIR", "~nobody-has-this-name/cache")
    with pytest.raises(ValueError, match="GNOMON_CACHE_DIR='~nobody-has-this-name/cache'"):
        cache_directory()
