"""The compactions that `watch` and `import` show at their end."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_logs import CLAUDE_CODE, CLAUDE_CODE_SESSION, CODEX
from compact.cli import exit_codes, main
from receiver import Answer, Receiver

SESSION = CLAUDE_CODE_SESSION.stem


class Server(Receiver):
    """Accepts events and transcripts."""

    def spans(self) -> dict[str, str]:
        """Return the kind of each span."""
        events = [event for request in self.requests if request.path == "/ingest" for event in request.events]
        return {event["span_id"]: event["kind"] for event in events if event["type"] == "span"}


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(Answer()) as receiver:
        yield receiver


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_STATE_HOME", "ARIADNE_URL", "ARIADNE_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.req("A-CAP-1")
def test_watch_prints_the_worst_compactions_with_their_losses_and_addresses(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each address names the span of the compaction that the server has. Secrets are redacted."""
    assert main(["watch", "--once", "--url", server.url, "--key", "k", str(CLAUDE_CODE), str(CODEX)]) == 3
    text = capsys.readouterr().out
    _, _, report = text.partition("The compactions that lost the most:\n")
    blocks = report.strip().split("\n\n")
    assert len(blocks) == 4, "three compactions, and what to do"
    lost = [int(block.split(" of ")[0]) for block in blocks[:3]]
    assert lost == sorted(lost, reverse=True)
    assert f"7 of 10 facts lost in compaction 2 of {SESSION}" in blocks[0]
    assert "constraint Never drop the table orders_2024" in blocks[0]
    for block in blocks[:3]:
        address = block.splitlines()[-1].strip()
        assert address.startswith(f"{server.url}/sessions/")
        assert server.spans()[address.split("/")[-2]] == "compact.check"
    assert f"compactctl uncompact {shlex.quote(str(CLAUDE_CODE_SESSION))}" in blocks[3]
    assert blocks[3].endswith(f"All sessions: {server.url}/")
    assert "s3cr3t-Pa55" not in text


def test_values_inside_a_shown_sentence_are_not_shown_again(capsys: pytest.CaptureFixture[str]) -> None:
    """The second place belongs to another loss. A dry run has no addresses."""
    main(["watch", "--dry-run", "--json", str(CLAUDE_CODE)])
    worst = json.loads(capsys.readouterr().out)["worst_compactions"]
    assert [loss["url"] for loss in worst] == [None, None]
    texts = [item["text"] for item in worst[0]["lost"]]
    assert len(texts) == 3
    assert not any(text in other for text in texts for other in texts if text != other)
    main(["import", "--dry-run", str(CLAUDE_CODE)])
    assert "http" not in capsys.readouterr().out


def test_credentials_of_the_address_are_not_printed(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """The key may be a part of the address."""
    url = server.url.replace("://", "://ariadne:secret-key@")
    assert main(["import", "--url", url, str(CODEX)]) == exit_codes.OK
    text = capsys.readouterr().out
    assert f"{server.url}/sessions/" in text
    assert "secret-key" not in text


def test_logs_without_compactions_print_only_the_address_of_the_server(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "short.jsonl"
    log.write_bytes(b"".join(CLAUDE_CODE_SESSION.read_bytes().splitlines(keepends=True)[:5]))
    assert main(["import", "--url", server.url, "--key", "k", str(log)]) == exit_codes.OK
    text = capsys.readouterr().out
    assert "facts lost" not in text
    assert text.endswith(f"All sessions: {server.url}/\n")
