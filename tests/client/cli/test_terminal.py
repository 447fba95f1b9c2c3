"""Text from agents and servers never controls the terminal of a command."""

from __future__ import annotations

import json
import threading
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from compact.cli import main
from compact.cli.terminal import escape, escape_line
from hypothesis import given
from hypothesis import strategies as st

# Clipboard, clear screen, colors, right-to-left override, line separator, C1 control, tag.
HOSTILE = "a\x1b]52;c;ZXZpbA==\x07b\x1b[2Jc\x1b[8md\u202ee\u2028f\x9bg\U000e0041h\ri\x08j"
LINES = f"{HOSTILE}\n12:00:00  forged line"


def assert_harmless(text: str, *, lines: int | None = None) -> None:
    """Only characters that a terminal displays, and the colors of rich, which are off here."""
    assert text and not [char for char in text if char not in "\n\t" and not char.isprintable()]
    if lines is not None:
        assert len(text.splitlines()) == lines, text


@given(st.text() | st.sampled_from([HOSTILE, LINES]))
def test_escaped_text_has_nothing_that_a_terminal_interprets(text: str) -> None:
    """A JSON document has the same value after escaping."""
    unsafe = {"Cc", "Cs", "Zl", "Zp"}
    assert all(unicodedata.category(char) not in unsafe or char in "\n\t" for char in escape(text))
    assert not {"\n", "\t"} & set(escape_line(text))
    document = json.dumps({"session": text}, ensure_ascii=False)
    assert json.loads(escape(document)) == {"session": text}


@pytest.fixture
def hostile_server() -> Iterator[str]:
    """A server that sends one event whose texts contain control sequences."""
    from websockets.sync.server import serve

    event = {"seq": 1, "session": LINES, "kind": HOSTILE, "status": HOSTILE, "at": 0, "text": LINES, "name": LINES}

    def handle(socket: Any) -> None:
        socket.send(json.dumps({"type": "events", "seq": 1, "events": [event]}))
        socket.recv()

    with serve(handle, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()
        thread.join(5)


@pytest.mark.req("P-CLI-1")
@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_tail_escapes_events(
    hostile_server: str,
    arguments: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An event is one line, whatever its names contain."""
    monkeypatch.setenv("COLUMNS", "2000")
    assert main(["tail", "--url", hostile_server, "--token", "arip_x", "-n", "1", *arguments]) == 0
    out = capsys.readouterr().out
    assert_harmless(out, lines=1)
    if arguments:
        assert json.loads(out)["session"] == LINES


@pytest.mark.req("P-CLI-1")
@pytest.mark.parametrize("has_rich", [True, False])
@pytest.mark.parametrize("command", ["import", "import --json", "uncompact", "uncompact --json"])
def test_commands_escape_what_logs_contain(
    tmp_path: Path, command: str, has_rich: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session id, the texts and the name of the log contain control sequences."""
    if not has_rich:
        monkeypatch.setattr("compact.cli.output.find_spec", lambda name: None)
    monkeypatch.setenv("COMPACT_TOKEN_ESTIMATOR", "noop")
    log = tmp_path / "a\x1b[2Jb.jsonl"
    records = [
        {
            "type": kind, "sessionId": LINES, "uuid": f"u{number}", "timestamp": "2026-11-16T04:00:00Z",
            "version": "1.0", "cwd": "/srv", "message": {"role": kind, "content": f"{number} {LINES}"},
        }
        for number, kind in enumerate(["user", "assistant", "user"])
    ]  # fmt: skip
    log.write_text("\n".join([*map(json.dumps, records), "{not json"]) + "\n")
    name, *options = command.split()
    main([name, str(log), *options, *(["--dry-run"] if name == "import" else [])])
    captured = capsys.readouterr()
    assert_harmless(captured.out + captured.err)


@pytest.mark.parametrize("command", ["verify", "compact", "diff", "dry-run", "remember", "import"])
def test_errors_escape_the_name_of_a_file(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, f"/nowhere/{HOSTILE}.json"]) != 0
    captured = capsys.readouterr()
    assert_harmless(captured.out + captured.err, lines=1)
