"""compactctl: every command, its table and JSON output, and its exit codes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from compact import CompactConfig, CompactManager, CompactPolicy, FileStorage
from compact.cli import exit_codes, main
from receiver import Receiver

LOGS = Path(__file__).resolve().parents[2] / "fixtures" / "logs"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ARIADNE_URL", "ARIADNE_API_KEY", "ARIADNE_API_TOKEN", "COMPACT_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COMPACT_SPOOL_DIR", str(tmp_path / "spool"))
    monkeypatch.setenv("COMPACT_TOKEN_ESTIMATOR", "noop")


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A chat of thirty turns, long enough for any policy to compact something."""
    items: list[dict[str, Any]] = [{"role": "system", "content": "You fix code. Never touch main."}]
    for n in range(30):
        items += [
            {"role": "user", "content": f"Please read file{n}.py. " + "The limit is 900 EUR. " * 20},
            {"role": "assistant", "content": f"I decided to use plan {n}. " + "Because it is simple. " * 20},
        ]
    file = tmp_path / "history.json"
    file.write_text(json.dumps(items))
    return file


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(list(argv))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.req("P-CLI-1", "R-MAN-1")
def test_compact_writes_shorter_messages_and_reports_the_saving(
    history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The messages stay in their format. The saving goes to stderr."""
    code, out, err = run(capsys, "compact", str(history))
    messages = json.loads(out)
    assert code == exit_codes.OK
    assert messages[0]["role"] == "system"
    assert any("<COMPACT-SUMMARY" in message["content"] for message in messages)
    assert "tokens (" in err
    assert "messages compressed" in err
    code, out, _ = run(capsys, "compact", str(history), "-o", "out.json", "--json")
    result = json.loads(out)
    assert result["saved_pct"] >= 0.4
    assert json.loads(Path("out.json").read_text()) == result["messages"]
    code, out, _ = run(capsys, "compact", str(history), "--if-needed")
    assert json.loads(out) == json.loads(history.read_text())


@pytest.mark.req("P-CLI-1")
def test_dry_run_compares_policies(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each policy is one row. No file is written."""
    before = sorted(path.name for path in Path().iterdir())
    code, out, _ = run(
        capsys, "dry-run", str(history), "--policy", "keep_recent_turns=1", "--policy", "renderer=bridge"
    )
    assert code == exit_codes.OK
    assert "keep_recent_turns=1" in out
    assert "renderer=bridge" in out
    code, out, _ = run(capsys, "dry-run", str(history), "--policy", "story_pct=0", "--json")
    settings, changed = json.loads(out)["policies"]
    assert changed["tokens_after"] <= settings["tokens_after"] < settings["tokens_before"]
    assert sorted(path.name for path in Path().iterdir()) == before
    assert run(capsys, "dry-run", str(history), "--policy", "nonsense")[0] == exit_codes.FAILED


@pytest.mark.req("P-CLI-1")
def test_diff_shows_the_fate_of_every_message(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON has the whole ledger. The table has the compacted messages and the summary."""
    code, out, _ = run(capsys, "diff", str(history), "--json")
    ledger = json.loads(out)["ledger"]
    assert code == exit_codes.OK
    assert len(ledger) == 61
    assert {entry["fate"] for entry in ledger} >= {"pinned", "kept", "summarized"}
    code, out, _ = run(capsys, "diff", str(history))
    assert "summarized" in out
    assert "<COMPACT-SUMMARY" in out


@pytest.mark.req("P-CLI-1", "P-MEM-1")
def test_remember_shows_the_current_memory(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The memory has a summary, pinned and recent messages. The conversation can come from stdin."""
    code, out, _ = run(capsys, "remember", str(history), "--max-tokens", "5000")
    assert code == exit_codes.OK
    assert "What I remember now" in out
    assert "Never touch main" in out
    command = [sys.executable, "-m", "compact.cli", "remember", "-", "--json"]
    with history.open() as stdin:
        result = subprocess.run(command, stdin=stdin, capture_output=True, text=True, check=True)
    assert len(json.loads(result.stdout)["recent"]) > 2


@pytest.mark.req("P-CLI-1")
def test_failures_have_the_documented_exit_codes(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each failure is one line on stderr without a traceback."""
    Path("empty.json").write_text("{}")
    assert run(capsys, "diff", "empty.json")[0] == exit_codes.UNREADABLE
    assert run(capsys, "diff", "missing.json")[0] == exit_codes.UNREADABLE
    code, _, err = run(capsys, "compact", str(history), "--max-tokens", "1501")
    assert code == exit_codes.NO_ROOM
    assert err.count("\n") == 1
    with pytest.raises(SystemExit) as wrong:
        main(["nonsense"])
    assert wrong.value.code == exit_codes.USAGE
    capsys.readouterr()
    assert run(capsys, "tail")[0] == exit_codes.USAGE
    assert run(capsys, "tail", "--token", "t", "--url", "http://127.0.0.1:1", "--json")[0] == exit_codes.UNREACHABLE


@pytest.mark.req("P-CLI-1")
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b'{"a": 1\n', "not valid JSON"),
        (b"{}", "No conversation"),
    ],
)
@pytest.mark.parametrize("command", ["diff", "remember"])
def test_errors_name_the_file(
    command: str, content: bytes | None, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each error is the file and a sentence, without a number of the system or the name of a codec."""
    if content is not None:
        Path("talk.json").write_bytes(content)
    code, _, err = run(capsys, command, "talk.json")
    assert code == exit_codes.UNREADABLE
    assert err.startswith("compactctl: talk.json: ")
    assert problem in err
    assert "codec" not in err
    assert "[Errno" not in err


@pytest.mark.req("P-CLI-1", "S-CFG-1")
def test_config_checks_settings_and_shows_their_sources(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An invalid setting is named by its path, and a misspelled variable is reported."""
    Path("compact.yaml").write_text("policy: {keep_recent_turns: 3}\n")
    monkeypatch.setenv("COMPACT_TRIGGER_PCT", "0.9")
    monkeypatch.setenv("COMPACT_TRIGER_PCT", "0.9")
    code, out, err = run(capsys, "config", "show")
    assert code == exit_codes.OK
    assert "environment COMPACT_TRIGGER_PCT" in out
    assert "file compact.yaml" in out
    assert "COMPACT_TRIGER_PCT is not a setting. Did you mean COMPACT_TRIGGER_PCT?" in err
    settings = {row["setting"]: row for row in json.loads(run(capsys, "config", "show", "--json")[1])["settings"]}
    assert settings["policy.keep_recent_turns"]["value"] == "3"
    assert run(capsys, "config", "check")[0] == exit_codes.FAILED
    monkeypatch.setenv("COMPACT_TRIGGER_PCT", "9")
    monkeypatch.setenv("COMPACT_STORAGE_ADAPTER", "s3")
    code, _, err = run(capsys, "config", "check")
    assert code == exit_codes.FAILED
    assert "policy.trigger_pct must be 0.0-1.0" in err
    assert "COMPACT_TRIGER_PCT is not a setting" in err
    assert json.loads(run(capsys, "config", "check", "--json")[1])["ok"] is False
    assert run(capsys, "config", "check", "nowhere.yaml")[0] == exit_codes.FAILED
    for name in ("COMPACT_TRIGER_PCT", "COMPACT_TRIGGER_PCT", "COMPACT_STORAGE_ADAPTER"):
        monkeypatch.delenv(name)
    assert run(capsys, "config", "check")[0] == exit_codes.OK


@pytest.mark.req("P-CLI-1")
def test_verify_detects_changed_missing_and_unlisted_files(capsys: pytest.CaptureFixture[str], history: Path) -> None:
    """An untouched archive passes. A path that does not exist is unreadable."""
    policy = CompactPolicy(keep_recent_turns=1)
    manager = CompactManager(CompactConfig("gpt-5", 128_000, policy=policy, storage=FileStorage("archive")))
    manager.manual_compact("s1", json.loads(history.read_text()))
    assert run(capsys, "verify", "archive")[0] == exit_codes.OK
    transcript = Path("archive/s1/transcript-pre-compact-001.jsonl")
    body = transcript.read_bytes()
    transcript.write_bytes(body.replace(b"900", b"800", 1))
    code, out, _ = run(capsys, "verify", "archive", "--json")
    assert code == exit_codes.FAILED
    assert {check["check"] for check in json.loads(out)["checks"] if not check["ok"]} == {"sha256", "event"}
    transcript.unlink()
    assert "missing" in run(capsys, "verify", "archive")[1]
    transcript.with_name("transcript-pre-compact-009.jsonl").write_bytes(body)
    assert "not listed" in run(capsys, "verify", "archive")[1]
    Path("x.zip").write_bytes(b"not a zip")
    assert run(capsys, "verify", "x.zip")[0] == exit_codes.FAILED
    assert run(capsys, "verify", "nowhere")[0] == exit_codes.UNREADABLE


@pytest.mark.req("P-CLI-1")
def test_import_sends_redacted_logs(capsys: pytest.CaptureFixture[str]) -> None:
    """Each log in a directory becomes a session. Importing twice sends the same events."""
    with Receiver() as receiver:
        code, out, _ = run(capsys, "import", str(LOGS), "--url", receiver.url, "--key", "k", "--json")
        sent = receiver.events
        assert code == exit_codes.OK
        assert {log["session"] for log in json.loads(out)["logs"]} == {"5a8c2f10-cc", "0199-codex"}
        assert run(capsys, "import", str(LOGS), "--url", receiver.url, "--key", "k")[0] == exit_codes.OK
        assert receiver.events[len(sent) :] == sent
    assert "sk-abc123" not in json.dumps(sent)
    assert {"generation", "tool", "compact.summary_created"} <= {event.get("kind") for event in sent}
    assert run(capsys, "import", str(LOGS / "codex.jsonl"), "--dry-run")[0] == exit_codes.OK
    assert run(capsys, "import", ".")[0] == exit_codes.UNREADABLE


@pytest.fixture
def websocket() -> Iterator[tuple[str, list[Any]]]:
    """A websocket server that sends two frames and closes. The next connection gets the frames that follow."""
    from websockets.asyncio.server import serve

    seen: list[Any] = []
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    port: list[int] = []

    def event(seq: int) -> dict[str, Any]:
        return {
            "seq": seq,
            "session": "s1",
            "kind": "compact.check",
            "status": "ok",
            "at": 1_700_000_000_000,
            "text": f"event {seq}",
        }

    async def handle(socket: Any) -> None:
        seen.append((socket.request.path, socket.request.headers.get("Authorization")))
        first = 1 if len(seen) == 1 else 3
        await socket.send(json.dumps({"type": "hello", "seq": first - 1}))
        for seq in (first, first + 1):
            await socket.send(json.dumps({"type": "events", "seq": seq, "events": [event(seq)]}))
            assert await socket.recv() == "ack"

    async def main_loop() -> None:
        async with serve(handle, "127.0.0.1", 0) as server:
            port.append(next(iter(server.sockets)).getsockname()[1])
            ready.set()
            await asyncio.get_running_loop().create_future()

    def target() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(main_loop())

    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    assert ready.wait(10)
    yield f"http://127.0.0.1:{port[0]}", seen
    loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
    thread.join(5)
    loop.close()


@pytest.mark.req("P-CLI-1", "K-UI-2")
def test_tail_reconnects_without_missing_an_event(
    websocket: tuple[str, list[Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Filters go to the server, frames are acknowledged, and a new connection starts after the last event."""
    url, seen = websocket
    code, out, _ = run(capsys, "tail", "--url", url, "--token", "arip_x", "--kind", "compact.", "--json", "-n", "3")
    assert code == exit_codes.OK
    assert [json.loads(line)["seq"] for line in out.splitlines()] == [1, 2, 3]
    assert seen[0] == ("/ws/tail/?kind=compact.", "Bearer arip_x")
    assert seen[1][0] == "/ws/tail/?kind=compact.&after=2"


@pytest.mark.req("P-CLI-1")
def test_doctor_reports_problems(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """An unreachable server is a failed check, as is an invalid setting. Each exits with 1."""
    code, out, _ = run(capsys, "doctor", "--url", "http://127.0.0.1:1", "--json")
    result = json.loads(out)
    findings = {finding["what"]: finding["state"] for finding in result["findings"]}
    assert (code, result["ok"]) == (exit_codes.FAILED, False)
    assert (findings["token counting"], findings["server"]) == ("ok", "problem")
    monkeypatch.setattr(httpx, "get", lambda *_, **__: httpx.Response(200, json={"ready": True, "version": "9"}))
    assert run(capsys, "doctor", "--url", "http://127.0.0.1:1")[0] == exit_codes.OK
    monkeypatch.setenv("COMPACT_TRIGGER_PCT", "9")
    assert run(capsys, "doctor", "--url", "http://127.0.0.1:1")[0] == exit_codes.FAILED


def test_commands_without_rich_say_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, history: Path
) -> None:
    """The server's environment has no rich. Doctor prints plain lines, because it reports what is missing."""
    monkeypatch.setitem(sys.modules, "rich", None)
    code, out, _ = run(capsys, "doctor", "--url", "http://127.0.0.1:1")
    assert code == exit_codes.FAILED
    assert "problem  server: http://127.0.0.1:1 is unreachable" in out
    assert "missing  rich: optional: pip install 'compact-client[cli]'" in out
    code, _, err = run(capsys, "diff", str(history))
    assert code == exit_codes.USAGE
    assert "This command needs the package rich: pip install 'compact-client[cli]'" in err


def test_doctor_explains_an_address_that_is_not_ariadne(capsys: pytest.CaptureFixture[str]) -> None:
    """The receiver answers GET requests with an HTML error page, like any other web server."""
    with Receiver() as other:
        code, out, _ = run(capsys, "doctor", "--url", f"{other.url}/wrong", "--json")
    finding = next(finding for finding in json.loads(out)["findings"] if finding["what"] == "server")
    assert (code, finding["state"]) == (exit_codes.FAILED, "problem")
    assert f"{other.url}/wrong/readyz returned 501, but not from an Ariadne server" in finding["detail"]


@pytest.mark.parametrize(
    ("answer", "what", "expected"),
    [
        (httpx.ConnectError("[Errno 111] Connection refused"), "server", "nothing listens there"),
        (httpx.ConnectError("[Errno -2] Name or service not known"), "server", "host name cannot be resolved"),
        (httpx.ConnectTimeout("timed out"), "server", "no answer within 2 s"),
        ({"ready": False, "database": "unavailable", "channel_layer": "ok"}, "server", "is not ready (database)"),
        ({"ready": True, "version": "9.9"}, "server", "version 9.9"),
        ({"ready": True, "time": "2020-01-01T00:00:00+00:00"}, "clock", "ahead of the server"),
        ({"ready": True}, "ingest key", "ari_wron… was rejected (401)"),
    ],
)
def test_doctor_explains_the_server(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, answer: Any, what: str, expected: str
) -> None:
    """Each finding says what is wrong and what to do."""

    def respond(*_: object, **__: object) -> httpx.Response:
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(200 if answer["ready"] else 503, json=answer)

    monkeypatch.setattr(httpx, "get", respond)
    monkeypatch.setattr(httpx, "post", lambda *_, **__: httpx.Response(401, json={}))
    _, out, _ = run(capsys, "doctor", "--url", "http://127.0.0.1:1", "--key", "ari_wrong_key", "--json")
    details = [finding["detail"] for finding in json.loads(out)["findings"] if finding["what"] == what]
    assert expected in " ".join(details)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_covers_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The script is generated from the parser."""
    _, out, _ = run(capsys, "completion", shell)
    for word in ("dry-run", "tail", "verify", "config", "max-tokens"):
        assert word in out


def test_bash_completes_options_and_files(capsys: pytest.CaptureFixture[str]) -> None:
    """The generated function is called the way bash calls it."""
    _, script, _ = run(capsys, "completion", "bash")
    Path("history.json").write_text("[]")
    script += """
    COMP_WORDS=(compactctl dry-run --po); COMP_CWORD=2; _shtab_compactctl; echo "${COMPREPLY[@]}"
    COMP_WORDS=(compactctl dry-run hist); COMP_CWORD=2; _shtab_compactctl; echo "${COMPREPLY[@]}"
    """
    result = subprocess.run(["bash"], input=script, capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["--policy", "history.json"]


def test_help_of_every_command_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    """It also lists the exit codes."""
    for name in (
        "compact",
        "dry-run",
        "diff",
        "remember",
        "tail",
        "import",
        "doctor",
        "verify",
        "config",
        "completion",
    ):
        with pytest.raises(SystemExit):
            main([name, "--help"])
        text = capsys.readouterr().out
        assert "example:" in text
        assert "exit codes:" in text


@pytest.mark.req("P-CLI-1", "K-UI-3")
def test_verify_checks_a_signed_bundle(capsys: pytest.CaptureFixture[str]) -> None:
    """A bundle passes with the server's key and with no other."""
    from client.test_bundle import PUBLIC_KEY, make_bundle

    Path("bundle.zip").write_bytes(make_bundle())
    key = PUBLIC_KEY.hex()
    assert run(capsys, "verify", "bundle.zip", "--key", key)[0] == exit_codes.OK
    assert run(capsys, "verify", "bundle.zip", "--key", "00" * 32)[0] == exit_codes.FAILED


def test_verify_says_which_extra_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checking a signature needs cryptography, which is optional."""
    from client.test_bundle import make_bundle

    Path("bundle.zip").write_bytes(make_bundle())
    monkeypatch.setitem(sys.modules, "cryptography", None)
    code, _, err = run(capsys, "verify", "bundle.zip", "--json")
    assert code == exit_codes.USAGE
    assert "pip install 'compact-client[verify]'" in err
