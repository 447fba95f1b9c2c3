"""Hooks of Claude Code: edits of settings files, and the hook itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from agent_logs import CLAUDE_CODE_SESSION as LOG
from compact.agents import jsonc
from compact.agents.claude_code.hooks import HOOKS
from compact.cli import exit_codes, main
from receiver import Answer, Receiver, eventually

COMMAND = f"/opt/bin/compactctl {HOOKS.call}"
OTHER = {"matcher": "manual", "hooks": [{"type": "command", "command": "echo a, b // c", "timeout": 60}]}
SETTINGS = [
    "{}",
    "{}\n",
    '{\n  "model": "opus"\n}\n',
    '{"model":"opus"}',
    '{\n\t"model": "opus",\n\t"env": {"A": "1"}\n}',
    '{\r\n    "model": "opus"\r\n}\r\n',
    '\ufeff{\n  "model": "opus"\n}\n',
    '// mine\n{\n  // the model\n  "model": "opus", /* old: "sonnet" */\n  "x": [1, 2] // last\n}\n// end\n',
    '{\n  "model": "opus",\n}\n',
    '{\n  "hooks": {\n    "Stop": [ ' + json.dumps(OTHER) + " ]\n  },\n  \"zeta\": 1,\n  \"alpha\": 2\n}\n",
    json.dumps({"hooks": {"PreCompact": [OTHER], "SessionEnd": [OTHER, OTHER]}}, indent=4),
    json.dumps({"hooks": {"PreCompact": [OTHER]}, "a": {"hooks": "not these"}}),
    '{\n      "hooks"  :\n  {\n "PreCompact"   : [\n' + json.dumps(OTHER) + " // keep\n ]\n  }\n}",
]  # fmt: skip


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_STATE_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "ARIADNE_URL", "ARIADNE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize("text", SETTINGS)
def test_install_adds_only_our_hooks_and_uninstall_restores_the_file(text: str) -> None:
    """Other hooks, key order, comments, indentation and line ends stay. Installing twice changes nothing."""
    before = jsonc.parse(text).value
    installed = HOOKS.add(text, COMMAND)
    after = jsonc.parse(installed).value
    assert set(HOOKS.installed(installed)) == set(HOOKS.events)
    assert HOOKS.add(installed, COMMAND) == installed
    assert {key: value for key, value in after.items() if key != "hooks"} == {
        key: value for key, value in before.items() if key != "hooks"
    }
    for name, groups in before.get("hooks", {}).items():
        assert after["hooks"][name][: len(groups)] == groups
    assert [key for key in after if key in before] == list(before)
    for comment in ("// mine", "// the model", '/* old: "sonnet" */', "// last", "// end", "// keep"):
        assert installed.count(comment) == text.count(comment)
    assert ("\r\n" in text) == ("\r\n" in installed)
    assert HOOKS.remove(installed) == text
    moved = HOOKS.add(installed, f"/new/compactctl {HOOKS.call}")
    assert set(HOOKS.installed(moved).values()) == {f"/new/compactctl {HOOKS.call}"}


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"hooks": []}', '{"hooks": {"PreCompact": {}}}', '{"a": 1} x', '{"a": 1, "a": 2}', "nonsense"]
)
def test_a_file_that_cannot_be_edited_safely_is_not_changed(
    text: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message says why, and what to do."""
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text(text)
    assert main(["hooks", "install", "claude-code"]) == exit_codes.FAILED
    assert "was not changed" in capsys.readouterr().err
    assert path.read_text() == text
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(("scope", "name"), [("user", "settings.json"), ("local", "settings.local.json")])
def test_install_status_and_uninstall(scope: str, name: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The old file is kept as a backup, with the mode of the original."""
    path = home / ".claude" / name
    assert main(["hooks", "status", "claude-code"]) == exit_codes.FAILED
    arguments = ["claude-code", "--scope", scope]
    assert main(["hooks", "install", *arguments]) == exit_codes.OK
    assert "ARIADNE_API_KEY" in capsys.readouterr().out
    path.write_text('{\n  "model": "opus" // mine\n}\n')
    path.chmod(0o600)
    assert main(["hooks", "install", *arguments, "--key", "secret-key"]) == exit_codes.OK
    assert path.stat().st_mode & 0o777 == 0o600
    (backup,) = path.parent.glob("*.bak")
    assert backup.stat().st_mode & 0o777 == 0o600
    assert "// mine" in backup.read_text()
    assert "secret-key" not in path.read_text()
    capsys.readouterr()
    assert main(["hooks", "status", "claude-code", "--json"]) == exit_codes.OK
    status = json.loads(capsys.readouterr().out)
    assert status["has_key"]
    assert [len(row["events"]) for row in status["hooks"] if row["scope"] == scope] == [4]
    assert main(["hooks", "uninstall", *arguments]) == exit_codes.OK
    assert path.read_text() == '{\n  "model": "opus" // mine\n}\n'
    server = home / ".local/state/compact/hooks/config/server.json"
    assert server.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_uninstall_removes_a_file_that_install_created(agent: str, home: Path) -> None:
    """The agent finds no file, as before."""
    path = home / {"claude-code": ".claude/settings.json", "codex": ".codex/hooks.json"}[agent]
    assert main(["hooks", "install", agent]) == exit_codes.OK
    assert path.is_file()
    assert main(["hooks", "uninstall", agent]) == exit_codes.OK
    assert not path.exists()


@pytest.mark.parametrize(
    "text",
    ["", "\n", "{}", '{"hooks": {}}', '{"hooks": {"PreCompact": []}}', '{\n  "hooks": {\n    "Stop": []\n  }\n}\n'],
)
def test_uninstall_restores_every_byte(text: str, home: Path) -> None:
    """Empty files, objects and lists are as before, and a later change of the user is not undone."""
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_bytes(text.encode())
    assert main(["hooks", "install", "claude-code"]) == exit_codes.OK
    assert main(["hooks", "uninstall", "claude-code"]) == exit_codes.OK
    assert path.read_bytes() == text.encode()
    assert main(["hooks", "install", "claude-code"]) == exit_codes.OK
    installed = path.read_text()
    path.write_text(installed.rstrip().removesuffix("}") + ', "model": "opus"}')
    assert main(["hooks", "uninstall", "claude-code"]) == exit_codes.OK
    assert jsonc.parse(path.read_text()).value["model"] == "opus"


def run_hook(event: dict[str, str], environment: dict[str, str]) -> float:
    """Run the hook as Claude Code does, and return the seconds until it returned."""
    started = time.monotonic()
    result = subprocess.run(
        [sys.executable, "-m", "compact.cli", "hooks", "run", "claude-code"],
        input=json.dumps(event).encode(),
        capture_output=True,
        env={**os.environ, **environment},
        timeout=60,
        check=True,
    )
    assert (result.stdout, result.stderr) == (b"", b"")
    return time.monotonic() - started


def interpreter_start_s() -> float:
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", "import json, subprocess"], check=True)
    return time.monotonic() - started


def test_the_hook_archives_the_prompt_before_the_compaction(home: Path) -> None:
    """The transcript is the prompt before the boundary, redacted. It is delivered after the hook has returned."""
    lines = LOG.read_bytes().splitlines(keepends=True)
    log = home / f"{LOG.stem}.jsonl"
    log.write_bytes(b"".join(lines[:17]))
    with Receiver() as receiver:
        environment = {"ARIADNE_URL": receiver.url, "ARIADNE_API_KEY": "k"}
        event = {
            "hook_event_name": "PreCompact",
            "session_id": LOG.stem,
            "transcript_path": str(log),
            "trigger": "auto",
        }
        run_hook(event, environment)
        log.write_bytes(b"".join(lines))
        requests = eventually(lambda: [r for r in receiver.requests if "transcripts" in r.path], 30)
        assert f"session={LOG.stem}" in requests[0].path
        assert "step=2" in requests[0].path
        prompt = [json.loads(line) for line in requests[0].raw.splitlines()]
        assert [message["id"] for message in prompt] == ["u1", "a1", "u2", "u3", "a5", "u4", "a7", "u5", "a8"]
        assert b"s3cr3t-Pa55" not in requests[0].raw
        jobs = home / ".local/state/compact/hooks"
        eventually(lambda: not list(jobs.glob("*.json*")), 30)


@pytest.mark.parametrize("kind", ["unreachable", "hanging", "broken input"])
def test_the_hook_returns_at_once_whatever_the_server_does(kind: str, home: Path) -> None:
    """The job stays on the disk. The time is measured beyond the start of an interpreter."""
    log = home / f"{LOG.stem}.jsonl"
    log.write_bytes(LOG.read_bytes())
    event = {"hook_event_name": "PreCompact", "session_id": "s", "transcript_path": str(log)}
    with Receiver(Answer(status=503)) as receiver:
        if kind == "hanging":
            receiver.answers = [receiver.hang()]
        url = "http://127.0.0.1:9" if kind == "unreachable" else receiver.url
        environment = {"ARIADNE_URL": url, "ARIADNE_API_KEY": "k"}
        message = {"a": "b"} if kind == "broken input" else event
        # Another try if the machine was busy. A hook that waits for the server fails each of them.
        assert any(run_hook(message, environment) - interpreter_start_s() < 1.0 for _ in range(3))
    if kind != "broken input":
        assert list((home / ".local/state/compact/hooks").glob("*.jsonl"))


def test_a_hook_loads_only_its_own_agent() -> None:
    """The agent waits for it. A name that no agent has finds nothing."""
    code = (
        "import sys; from compact.agents.hooks import hooks_of; from compact.cli.hooks.run import run; "
        "assert hooks_of('no-agent') is None; assert hooks_of('claude-code').before_compaction == 'PreCompact'; "
        "print([name for name in sys.modules if name.startswith(('compact.recording', 'compact.importers'))])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert result.stdout == "[]\n"
