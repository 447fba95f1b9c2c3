"""Session logs are found by directory, for every agent."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from agent_logs import GEMINI
from compact.agents.registry import AGENTS
from compact.cli.mcp.server import LocalTools
from compact.importers.discovery import find_sessions


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home directory in which all agents keep their logs."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for agent in AGENTS:
        monkeypatch.delenv(agent.variable, raising=False)
    return tmp_path


def test_a_log_that_names_its_directory_in_a_file_beside_it_is_found(home: Path) -> None:
    """Gemini CLI writes the directory into `.project_root`, not into the log."""
    shutil.copytree(GEMINI / "journal", home / ".gemini" / "tmp")
    directory = Path((home / ".gemini/tmp/shop/.project_root").read_text().strip())
    (log,) = find_sessions(directory)
    assert log.agent_name == "gemini-cli"
    assert find_sessions(directory / "another") == []
    assert find_sessions(home) == []


def test_a_directory_may_be_named_by_a_link(home: Path) -> None:
    """Another user's directory is not found by a path that leads out of the own one."""
    for name in ("alice", "bob"):
        (home / name).mkdir()
        project = home / ".gemini" / "tmp" / name
        shutil.copytree(GEMINI / "journal" / "shop", project)
        (project / ".project_root").write_text(str(home / name))
    (home / "link").symlink_to(home / "alice")
    (home / ".gemini/tmp/bob/.project_root").write_text(str(home / "alice" / ".." / "bob"))
    for directory in (home / "alice", home / "link"):
        assert [log.path.parents[1].name for log in find_sessions(directory)] == ["alice"]


def test_a_search_says_which_sessions_it_could_not_read(home: Path) -> None:
    projects = home / ".claude" / "projects" / "-work"
    projects.mkdir(parents=True)
    (projects / "broken.jsonl").write_text('{"neither": "Claude"}\n')
    assert "Session broken could not be read" in LocalTools(None).search("port")
