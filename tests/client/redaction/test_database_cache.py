"""The cache of Hyperscan's database: used by the next process, and only if no one else can have written it."""

from __future__ import annotations

from pathlib import Path

import pytest
from compact.redaction import DEFAULT_RULES, database_cache
from compact.redaction.prefilter import AdaptivePrefilter, HyperscanPrefilter, LiteralPrefilter, NotCached

pytest.importorskip("hyperscan")
RULES = DEFAULT_RULES[:12]
TEXT = "-----BEGIN RSA PRIVATE KEY-----\nAuthorization: Bearer abcdefgh12345678"


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "compact"


def test_the_next_process_finds_the_same_without_compiling(folder: Path) -> None:
    with pytest.raises(NotCached):
        HyperscanPrefilter(RULES, is_compiled=False)
    compiled = HyperscanPrefilter(RULES)
    loaded = HyperscanPrefilter(RULES, is_compiled=False)
    assert loaded.hits(TEXT) == compiled.hits(TEXT) != []
    adaptive = AdaptivePrefilter(RULES)
    assert adaptive.hits(TEXT) == compiled.hits(TEXT) and isinstance(adaptive._current, HyperscanPrefilter)
    assert folder.stat().st_mode & 0o777 == 0o700
    with pytest.raises(NotCached):
        HyperscanPrefilter(RULES[:6], is_compiled=False)


@pytest.mark.parametrize("damage", ["content", "truncated", "file mode", "folder mode"])
def test_a_file_that_cannot_be_trusted_is_not_loaded(folder: Path, damage: str) -> None:
    HyperscanPrefilter(RULES)
    file = max(folder.glob("*.hsdb"), key=lambda file: file.stat().st_size)
    data = file.read_bytes()
    if damage == "content":
        file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif damage == "truncated":
        file.write_bytes(data[: len(data) // 2])
    elif damage == "file mode":
        file.chmod(0o666)
    else:
        folder.chmod(0o777)
    with pytest.raises(NotCached):
        HyperscanPrefilter(RULES, is_compiled=False)
    adaptive = AdaptivePrefilter(RULES)
    assert adaptive.hits(TEXT) and isinstance(adaptive._current, LiteralPrefilter)


def test_a_folder_that_cannot_be_written_is_no_error(folder: Path) -> None:
    folder.parent.joinpath("compact").write_text("a file in place of the folder")
    assert HyperscanPrefilter(RULES).hits(TEXT)


def test_only_the_newest_files_are_kept(folder: Path) -> None:
    for number in range(25):
        database_cache.write_database(f"{number}", b"x")
    assert len(list(folder.iterdir())) == 20 and database_cache.read_database("24") == b"x"
