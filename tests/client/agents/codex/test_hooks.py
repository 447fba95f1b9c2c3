"""The hooks of Codex, which are in a file of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compact.agents.codex.hooks import HOOKS
from compact.cli import exit_codes, main

OTHER = {"hooks": [{"type": "command", "command": "say done", "statusMessage": "x"}]}


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_STATE_HOME", "ARIADNE_URL", "ARIADNE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_install_says_that_the_hooks_must_be_approved(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Codex runs no hook that the user has not reviewed. Other hooks stay."""
    file = home / "codex" / "hooks.json"
    file.parent.mkdir()
    text = json.dumps({"hooks": {"PreCompact": [OTHER], "Stop": [OTHER]}}, indent=4)
    file.write_text(text)
    assert main(["hooks", "install", "codex"]) == exit_codes.OK
    assert "/hooks" in capsys.readouterr().out
    hooks = json.loads(file.read_text())["hooks"]
    assert hooks["PreCompact"][0] == OTHER and hooks["Stop"] == [OTHER]
    assert set(HOOKS.installed(file.read_text())) == {"PreCompact", "PostCompact", "SessionStart", "SessionEnd"}
    # Codex warns about a longer one.
    assert hooks["SessionEnd"][0]["hooks"][0]["timeout"] <= 3
    assert main(["hooks", "uninstall", "codex"]) == exit_codes.OK
    assert file.read_text() == text


def test_a_scope_that_codex_does_not_have_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hooks", "install", "codex", "--scope", "local"]) == exit_codes.USAGE
    assert "user and project" in capsys.readouterr().err
    assert main(["hooks", "install", "codex", "--scope", "project"]) == exit_codes.OK
    assert "compactctl hooks run codex" in (home / ".codex" / "hooks.json").read_text()
