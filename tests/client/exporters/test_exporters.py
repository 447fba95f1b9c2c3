"""The console, callback and multi exporters."""

from __future__ import annotations

import io
from typing import Any

import pytest
from compact.events import CATALOG, Event
from compact.events.reading import read
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
def test_console_prints_one_line_per_event() -> None:
    """A line has the time, the session, the decision and its reason, without color in a file."""
    stream = io.StringIO()
    ConsoleExporter(stream).emit(DECISION)
    assert stream.getvalue() == (
        "04:12:00.123 s1  trigger_decision  Compact: 108,800 of 128,000 tokens is at least 85%\n"
    )


def test_color_is_used_on_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines on a terminal have color unless NO_COLOR is set."""

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
        ("compact.trigger_decision", {"triggered": False, "reason": "under"}, "No compaction: under"),
        (
            "compact.summary_created",
            {"strategy": "task_state", "input_messages": 40, "summary_tokens": 480, "compression_ratio": 12.5},
            "40 messages summarized in 480 tokens",
        ),
        (
            "compact.pruned_messages",
            {"pruned_count": 40, "tokens_before": 9000, "tokens_after": 1000, "layers": {"pinned": 1}},
            "40 messages removed, 9,000 → 1,000 tokens",
        ),
        ("compact.archival", {"storage_adapter": "fs", "path": "a/b"}, "Transcript stored in fs: a/b"),
        ("compact.error", {"error_type": "X", "message": "m", "fallback": "prune"}, "X: m (fallback: prune)"),
        ("compact.warning", {"code": "redaction_disabled", "message": "it is off"}, "redaction_disabled: it is off"),
        ("compact.check", {"turn": 3, "tokens_before": 10, "tokens_after": 5}, "10 → 5 tokens"),
        ("custom.event", {"count": 3, "nested": {"x": 1}}, "count 3"),
        ("compact.cleared", {"tokens_freed": 12, "details": {"x": 1}}, "12 tokens freed"),
    ],
)  # fmt: skip
def test_line_shows_the_most_important_properties(name: str, properties: dict[str, Any], words: str) -> None:
    """Each kind of event has its own short description."""
    stream = io.StringIO()
    ConsoleExporter(stream).emit({"event": name, "session_id": "s", "ts": "", "properties": properties})
    assert stream.getvalue().rstrip().endswith(words)


@pytest.mark.parametrize("event_class", CATALOG, ids=lambda event_class: event_class.name)
def test_every_event_class_has_a_line(event_class: type[Event]) -> None:
    """The table of sentences covers the catalog, and a sentence tolerates missing properties."""
    assert "None" not in read(event_class, {}).line()


@pytest.mark.req("S-RED-1")
def test_console_redacts_secrets() -> None:
    """Secrets are redacted even if the event was not."""
    stream = io.StringIO()
    ConsoleExporter(stream).emit({"event": "compact.warning", "properties": {"message": "api_key=sk-abc123"}})
    assert "sk-abc123" not in stream.getvalue()


@pytest.mark.req("P-EXP-1")
def test_multi_exporter_sends_every_event_to_all(capsys: pytest.CaptureFixture[str]) -> None:
    """A failing exporter is logged, and the next one still receives the event."""
    seen: list[dict[str, Any]] = []

    class Broken:
        def emit(self, event: dict[str, Any]) -> None:
            raise RuntimeError("api_key=sk-abc123")

    def fail(event: dict[str, Any]) -> None:
        raise ValueError("no")

    multi = MultiExporter([Broken(), CallbackExporter(fail)], CallbackExporter(seen.append))
    multi.emit(DECISION)
    assert seen == [DECISION]
    log = capsys.readouterr().err
    assert "Broken failed: RuntimeError: api_key=<REDACTED>" in log
    assert "callback failed: ValueError: no" in log
    assert multi.flush()
    multi.close()
