"""`compactctl mcp install` and `uninstall` in the settings of each agent, byte by byte."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from compact.agents.agent import Agent
from compact.agents.jsonc import Unsafe
from compact.agents.registry import BY_NAME, WITH_MCP
from compact.cli import exit_codes, main

COMMAND = ["/opt/compact ctl/compactctl", "mcp", '--directory=a "b" \\ é 😀']
JSON_AGENTS = {"claude-code": "mcpServers", "gemini-cli": "mcpServers", "opencode": "mcp"}
JSON_SETTINGS = [
    "",
    "{}",
    "{}\n",
    '{"a": 1}',
    '{"a":{"KEY":1}}',
    '{\n\t"theme":   "dark",\n\t"KEY": {\n\t\t"other": {"command": "x", "args": [1,2]}\n\t},\n\t"é": "ü"\n}\n',
    '{\r\n  "a": 1\r\n}\r\n',
    "\ufeff{}",
    '{\n  // servers of the team\n  "KEY": {\n    "db": {"command": "x"}, // read only\n  },\n}\n',
]
TOML_SETTINGS = [
    "",
    'model = "gpt-5"',
    'model = "gpt-5"\n',
    'model = "gpt-5"\n\n\n# the end',
    'model = "gpt-5"\r\n\r\n[tui]\r\ntheme = "é"\r\n',
    '[mcp_servers.other]\ncommand = "x"\nargs = [\n  "a", # first\n]\n',
    '[mcp_servers]\n[mcp_servers."x.y"]\ncommand = "x"\n',
    'notes = """\n[mcp_servers.ariadne]\n"""\n',
    "[a]\nb = [[1], [2]]\n[[list]]\nname = 'x' # [mcp_servers.ariadne]\n",
]


def toml_agent() -> Agent:
    return BY_NAME["codex"]


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize("text", JSON_SETTINGS)
@pytest.mark.parametrize("name", JSON_AGENTS)
def test_json_settings_keep_every_byte_of_the_user(name: str, text: str) -> None:
    """Key order, comments, indentation and line ends stay, and removing the server restores the text."""
    text = text.replace("KEY", JSON_AGENTS[name])
    settings = BY_NAME[name].mcp
    assert settings is not None
    server = settings.entry(COMMAND)
    added = settings.add(text, server)
    assert settings.installed(added) == server
    assert settings.add(added, server) == added
    for line in text.splitlines():
        assert line.strip(" \t},{\r") in added
    if text:
        assert settings.remove(added) == text


@pytest.mark.parametrize("text", TOML_SETTINGS)
def test_toml_settings_keep_every_byte_of_the_user(text: str) -> None:
    """The tables of the user stay, also if a text looks like our table."""
    settings = toml_agent().mcp
    assert settings is not None
    server = settings.entry(COMMAND)
    added = settings.add(text, server)
    assert added.startswith(text)
    assert tomllib.loads(added)["mcp_servers"]["ariadne"] == server
    assert settings.add(added, server) == added
    assert ("\r\n" in text) == ("\r\n" in added)
    assert settings.remove(added) == text
    moved = settings.add(added, settings.entry(["/new/compactctl", "mcp"]))
    assert tomllib.loads(moved)["mcp_servers"]["ariadne"]["command"] == "/new/compactctl"
    assert settings.remove(moved) == text


def test_what_was_added_after_our_table_stays() -> None:
    """Codex adds tables of its own at the end, also below ours. Those of our server go with it."""
    settings = toml_agent().mcp
    assert settings is not None
    text = 'model = "gpt-5"\n'
    added = settings.add(text, settings.entry(COMMAND))
    own = '[mcp_servers.ariadne.env]\nA = "1"\n'
    others = '\n# trusted\n[projects."/home/dev"]\ntrust_level = "trusted"\n'
    assert settings.remove(added + own + others) == text + others
    assert settings.remove(added + others + own) == text + others.rstrip("\n") + "\n"


@pytest.mark.parametrize(
    "text",
    ["a = ", "mcp_servers = 1", "mcp_servers = {other = {command = 'x'}}", "[mcp_servers]\nariadne = {command = 'x'}"],
)
def test_toml_that_cannot_be_edited_by_lines_is_left_alone(text: str, home: Path) -> None:
    """A parser checks each result. The message names the file and the reason."""
    settings = toml_agent().mcp
    assert settings is not None
    with pytest.raises(Unsafe):
        settings.add(text, settings.entry(COMMAND))
    file = home / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text(text)
    assert main(["mcp", "install", "codex"]) == exit_codes.FAILED
    assert file.read_text() == text
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("text", ['{"a": 1 // comment\n "b": 2}', "[]", '{"mcpServers": []}', "{"])
def test_json_that_cannot_be_edited_safely_is_left_alone(
    text: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / "claude.json"
    file.write_text(text)
    assert main(["mcp", "install", "--settings", str(file)]) == exit_codes.FAILED
    assert "was not changed" in capsys.readouterr().err
    assert file.read_text() == text


@pytest.mark.parametrize("agent", WITH_MCP, ids=lambda agent: agent.name)
def test_install_status_and_uninstall(agent: Agent, home: Path, capsys: Any) -> None:
    """A file with private permissions keeps them, as its backup does. A file that was not there is removed again."""
    assert agent.mcp is not None
    file = agent.mcp.settings_file("user")
    assert home in file.parents
    text = "[x]\n" if file.suffix == ".toml" else '{"x": {}, "mcp": {}, "mcpServers": {}}'
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text(text)
    file.chmod(0o600)
    assert main(["mcp", "status", agent.name]) == exit_codes.FAILED
    for _ in range(2):
        assert main(["mcp", "install", agent.name, "--all-projects"]) == exit_codes.OK
    (backup,) = file.parent.glob(f"{file.name}.*.bak")
    assert {path.stat().st_mode & 0o777 for path in (file, backup)} == {0o600}
    capsys.readouterr()
    assert main(["mcp", "status", agent.name]) == exit_codes.OK
    assert "mcp --all-projects" in capsys.readouterr().out
    assert main(["mcp", "uninstall", agent.name]) == exit_codes.OK
    assert file.read_text() == text
    file.unlink()
    assert main(["mcp", "install", agent.name]) == exit_codes.OK
    assert main(["mcp", "uninstall", agent.name]) == exit_codes.OK
    assert not file.exists()


@pytest.mark.parametrize("agent", WITH_MCP, ids=lambda agent: agent.name)
def test_settings_of_a_project_name_no_path_of_this_machine(agent: Agent, home: Path, capsys: Any) -> None:
    """They are shared with people whose programs are elsewhere."""
    assert main(["mcp", "install", agent.name, "--scope", "project", "--json"]) == exit_codes.OK
    answer = json.loads(capsys.readouterr().out)
    assert (home / answer["file"]).is_file()
    assert str(home) not in json.dumps(answer["server"])
    command = answer["server"]["command"]
    assert (command[0] if isinstance(command, list) else command) == "compactctl"


def test_opencode_uses_the_file_with_comments_where_it_exists(home: Path) -> None:
    file = home / ".config" / "opencode" / "opencode.jsonc"
    file.parent.mkdir(parents=True)
    file.write_text("{\n  // mine\n}\n")
    assert main(["mcp", "install", "opencode"]) == exit_codes.OK
    assert "// mine" in file.read_text() and '"local"' in file.read_text()
    assert not file.with_suffix(".json").exists()
