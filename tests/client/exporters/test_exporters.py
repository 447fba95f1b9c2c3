"""Console, callback and several at once: readable, harmless, in order."""

from __future__ import annotations

import io
from typing import Any

import pytest
from compact.exporters import CallbackExporter, ConsoleExporter, MultiExporter

DECISION: dict[str, Any] = {
    "ts": "2026-11-16T04:12:00.123Z",
    "session_id": "s1",
    "event": "compact.trigger_decision",
    "status": "ok",
    "properties": {
        "triggered": True,
        "reason": "108,800 of 128,000 tokens is at least 85%",
        "kept": {"pinned": 2, "recent_turns": 6},
        "pruned_count": 47,
    },
}


@pytest.mark.req("P-EXP-1")
def test_the_console_reads_like_a_log() -> None:
    """Time, session, what was decided and why, on one line without colour in a file."""
    stream = io.StringIO()
    ConsoleExporter(stream).emit(DECISION)
    assert stream.getvalue() == (
        "04:12:00.123 s1  trigger_decision  compact: 108,800 of 128,000 tokens is at least 85%; "
        "prune 47, keep pinned 2, recent_turns 6\n"
    )


def test_colour_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal gets colour unless NO_COLOR is set."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    ConsoleExporter(stream).emit(DECISION)
    assert "\x1b[35m" in stream.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    ConsoleExporter(plain).emit(DECISION)
    assert "\x1b" not in plain.getvalue()


@pytest.mark.parametrize(
    ("name", "properties", "words"),
    [
        ("compact.token_estimate", {"t_est": 96, "max_tokens": 1280, "usage_pct": 0.075}, "96 of 1,280 tokens (7.5%)"),
        ("compact.trigger_decision", {"triggered": False, "reason": "under"}, "no: under"),
        (
            "compact.summary_created",
            {"strategy": "task_state", "input_messages": 40, "summary_tokens": 480, "compression_ratio": 12.5},
            "task_state: 40 messages into 480 tokens, 12.5 to 1",
        ),
        (
            "compact.pruned_messages",
            {"pruned_count": 40, "tokens_before": 9000, "tokens_after": 1000, "layers": {"pinned": 1}},
            "40 messages pruned, 9,000 → 1,000 tokens; pinned 1",
        ),
        ("compact.archival", {"storage_adapter": "fs", "path": "a/b"}, "fs: a/b"),
        ("compact.error", {"error_type": "X", "message": "m", "fallback": "pruning-only"}, "X: m (then: pruning-only)"),
        ("compact.warning", {"severity": "high", "message": "redaction is off"}, "high: redaction is off"),
        ("compact.check", {"turn": 3, "tokens_before": 10, "tokens_after": 5}, "turn 3: 10 → 5 tokens"),
        ("compact.cleared", {"tokens_freed": 12, "details": {"x": 1}}, "tokens_freed 12"),
    ],
)  # fmt: skip
def test_every_event_is_told_in_a_few_words(name: str, properties: dict[str, Any], words: str) -> None:
    """The line says what a person would want to know of the event."""
    stream = io.StringIO()
    ConsoleExporter(stream).emit({"event": name, "session_id": "s", "ts": "", "properties": properties})
    assert stream.getvalue().rstrip().endswith(words)


@pytest.mark.req("S-RED-1")
def test_the_console_shows_no_secret() -> None:
    """Even an event that nobody redacted."""
    stream = io.StringIO()
    ConsoleExporter(stream).emit({"event": "compact.warning", "properties": {"message": "api_key=sk-abc123"}})
    assert "sk-abc123" not in stream.getvalue()


@pytest.mark.req("P-EXP-1")
def test_several_exporters_get_every_event(capsys: pytest.CaptureFixture[str]) -> None:
    """One that fails is told on stderr, and the next still gets its event."""
    seen: list[dict[str, Any]] = []

    class Broken:
        def emit(self, event: dict[str, Any]) -> None:
            raise RuntimeError("api_key=sk-abc123")

    def failing(event: dict[str, Any]) -> None:
        raise ValueError("no")

    multi = MultiExporter([Broken(), CallbackExporter(failing)], CallbackExporter(seen.append))
    multi.emit(DECISION)
    assert seen == [DECISION]
    said = capsys.readouterr().err
    assert "Broken failed: RuntimeError: api_key=<REDACTED>" in said
    assert "callback failed: ValueError: no" in said
    assert multi.flush()
    multi.close()
