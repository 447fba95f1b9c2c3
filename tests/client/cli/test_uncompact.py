"""`compactctl uncompact` and `compactctl mcp` over local logs, with the official MCP client."""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import pytest
from compact.cli import main
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
ALICE, BOB = "11111111-aaaa-4aaa-8aaa-111111111111", "22222222-bbbb-4bbb-8bbb-222222222222"


def claude_log(session: str, cwd: Path, code: str) -> str:
    """Return a log of Claude Code in which a compaction drops a rule, a decision and a value."""

    def line(kind: str, number: int, content: Any, **extra: Any) -> dict[str, Any]:
        message = {"role": kind, "content": content}
        if kind == "assistant":
            message |= {"id": f"msg-{number}", "model": "claude-opus-4-6"}
        at = f"2026-11-16T04:00:{number:02d}.000Z"
        common = {
            "sessionId": session,
            "cwd": str(cwd),
            "version": "2.1.0",
            "timestamp": at,
            "uuid": f"{session}-{number}",
        }
        return {**common, "type": kind, "message": message, **extra}

    def text(value: str) -> list[dict[str, str]]:
        return [{"type": "text", "text": value}]

    lines = [
        line("user", 1, f"Never deploy to {code}-prod on Fridays. Build the billing page. The key is {SECRET}."),
        line("assistant", 2, text(f"We decided to use {code}-queue for the events, because the broker is down.")),
        line("user", 3, "The staging port is 54877. What about the tests?"),
        line("assistant", 4, text("The tests pass.")),
        {
            **line("user", 5, ""), "type": "system", "subtype": "compact_boundary",
            "compactMetadata": {"trigger": "auto", "preTokens": 150_000, "postTokens": 4_000},
        },
        line("user", 6, "This session continues. The billing page is being built.", isCompactSummary=True),
        line("user", 7, "Go on."),
        line("assistant", 8, text("Working on it.")),
    ]  # fmt: skip
    return "\n".join(json.dumps(item) for item in lines) + "\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home directory with a log of each of two projects."""
    for name, session in {"alice": ALICE, "bob": BOB}.items():
        work = tmp_path / name
        work.mkdir()
        logs = tmp_path / ".claude" / "projects" / f"-{name}"
        logs.mkdir(parents=True)
        (logs / f"{session}.jsonl").write_text(claude_log(session, work, name.upper()))
    os.utime(tmp_path / ".claude" / "projects" / "-bob" / f"{BOB}.jsonl", (1, 1))
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_DATA_HOME", "PI_CODING_AGENT_DIR"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def test_lost_facts_are_printed_with_the_most_binding_first(home: Path, capsys: Any) -> None:
    assert main(["uncompact"]) == 0
    text = capsys.readouterr().out
    rule, decision = text.index("Never deploy to ALICE-prod"), text.index("We decided to use ALICE-queue")
    assert rule < decision and "54877" in text
    assert "turn 1, 2026-11-16T04:00:01.000Z" in text
    assert "BOB" not in text and SECRET not in text


def test_a_session_is_named_by_its_id_or_its_file(home: Path, capsys: Any) -> None:
    for name in (BOB, BOB[:8], str(home / ".claude" / "projects" / "-bob" / f"{BOB}.jsonl")):
        assert main(["uncompact", name]) == 0
        assert "BOB-queue" in capsys.readouterr().out
    assert main(["uncompact", "missing"]) == 3
    assert "missing" in capsys.readouterr().err


def test_json_has_every_item(home: Path, capsys: Any) -> None:
    assert main(["uncompact", ALICE, "--json", "--max-tokens", "10"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["session"] == ALICE
    assert {"constraint", "decision"} <= {item["kind"] for item in document["items"]}
    assert document["items"][0]["turn"] == 1


def test_the_output_says_what_did_not_fit(home: Path, capsys: Any) -> None:
    assert main(["uncompact", ALICE, "--max-tokens", "90"]) == 0
    assert "more did not fit" in capsys.readouterr().out


def test_a_query_finds_passages(home: Path, capsys: Any) -> None:
    assert main(["uncompact", ALICE, "--query", "staging port"]) == 0
    text = capsys.readouterr().out
    assert "54877" in text and "turn 2" in text
    assert main(["uncompact", ALICE, "--query", "deploy key", "--json"]) == 0
    assert SECRET not in capsys.readouterr().out


def test_the_server_is_read_with_an_api_token(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Without a name, the newest session with a compaction is used. A wrong token is one line on stderr."""
    number = {"kind": "number", "text": "54877", "sentence": "The staging port is 54877."}
    lost = [number, {"kind": "constraint", "text": "Never deploy on Fridays."}]
    answers: dict[str, Any] = {
        "/api/sessions/": {"results": [{"id": "idle", "compaction_count": 0}, {"id": "a b", "compaction_count": 2}]},
        "/api/sessions/a b/compactions/": {"results": [{"n": 1, "started_at": None, "facts_lost": lost}]},
        "/api/search/": {"results": [{"type": "message", "at": "now", "snippet": [{"text": "port 54877"}]}]},
    }  # fmt: skip

    def answer(request: httpx.Request) -> httpx.Response:
        if request.headers["Authorization"] != "Bearer arip_good":
            return httpx.Response(401)
        return httpx.Response(200, json=answers[request.url.path])

    transport, client = httpx.MockTransport(answer), httpx.Client
    monkeypatch.setattr(httpx, "Client", lambda **options: client(transport=transport, **options))
    assert main(["uncompact", "--server", "--token", "arip_good"]) == 0
    text = capsys.readouterr().out
    assert text.index("Never deploy") < text.index("The staging port is 54877.")
    assert main(["uncompact", "a b", "--server", "--token", "arip_good", "--query", "port"]) == 0
    assert "port 54877" in capsys.readouterr().out
    assert main(["uncompact", "--server", "--token", "arip_bad"]) == 4
    monkeypatch.delenv("ARIADNE_API_TOKEN", raising=False)
    assert main(["uncompact", "--server"]) == 2


def mcp_server(home: Path, directory: Path, *arguments: str) -> StdioServerParameters:
    environment = {**os.environ, "HOME": str(home)}
    command = ["-m", "compact.cli", "mcp", "--directory", str(directory), *arguments]
    return StdioServerParameters(command=sys.executable, args=command, env=environment)


async def call(client: Client, name: str, **arguments: Any) -> str:
    result = await client.call_tool(name, arguments)
    return "".join(block.text for block in result.content)


@pytest.mark.parametrize(
    ("name", "arguments", "hint"),
    [
        ("recall", {"query": "x", "session": "no-such-session"}, "Call list_sessions"),
        ("uncompact", {"session": BOB}, "Call list_sessions"),
        ("explain_compaction", {"n": 9}, "there is no number 9"),
        ("recall", {"query": "x", "session_id": ALICE}, "session_id"),
    ],
)
async def test_errors_reach_the_model_with_a_hint(
    name: str, arguments: dict[str, Any], hint: str, home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The result says that it is an error, and nothing is written to stderr."""
    async with Client(mcp_server(home, home / "alice")) as client:
        result = await client.call_tool(name, arguments)
    assert result.is_error
    assert hint in "".join(block.text for block in result.content)
    assert "Traceback" not in capfd.readouterr().err


async def test_the_server_has_a_version_and_strict_schemas(home: Path) -> None:
    """A client that checks arguments itself knows that there are no others."""
    async with Client(mcp_server(home, home / "alice")) as client:
        tools = (await client.list_tools()).tools
        assert client.server_info.version == version("compact-client")
    assert all(tool.input_schema["additionalProperties"] is False for tool in tools)


async def test_the_official_client_uses_every_tool_over_stdio(home: Path) -> None:
    """The server shows only sessions of its directory."""
    async with Client(mcp_server(home, home / "alice")) as client:
        tools = await client.list_tools()
        assert {tool.name for tool in tools.tools} == {
            "recall", "uncompact", "explain_compaction", "list_sessions", "search",
        }  # fmt: skip
        sessions = await call(client, "list_sessions")
        assert ALICE in sessions and BOB not in sessions
        assert '"Never deploy to ALICE-prod on Fridays. Build the billing page.' in sessions
        assert f"{home / 'alice'}, 3 calls, 1 compaction" in sessions
        assert "2026-" in sessions and SECRET not in sessions
        recalled = await call(client, "recall", query="staging port")
        assert "54877" in recalled and ALICE in recalled and "turn 2" in recalled
        lost = await call(client, "uncompact", session=ALICE)
        assert "Never deploy to ALICE-prod" in lost and SECRET not in lost
        explained = await call(client, "explain_compaction", session=ALICE, n=1)
        assert "150,000 → 4,000 tokens" in explained
        assert "ALICE-queue" in await call(client, "search", query="queue broker")
        for name in (BOB, str(home / ".claude" / "projects" / "-bob" / f"{BOB}.jsonl")):
            assert "BOB-" not in await call(client, "recall", query="queue broker", session=name)
        assert "BOB-" not in await call(client, "search", query="BOB-queue")
