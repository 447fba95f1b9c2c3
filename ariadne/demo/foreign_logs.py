"""Logs of two coding agents that compact by themselves, as Claude Code and Codex write them.

Claude Code's summary omits a rule and a decision. The summary of Codex is encrypted, so only the provider can read it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from compact import AriadneStorage
from compact.exporters.redaction import RedactingExporter
from compact.importers import ingest_events, read_conversation
from compact.protocols import Exporter
from compact.redaction.outbound import OutboundRedactor

from ariadne.demo.clock import PastClock
from ariadne.demo.filler import source_file

_CLAUDE_SESSION = "claude-code-dark-mode"
_CODEX_SESSION = "codex-flaky-login-test"
# The user's message, the file that the agent reads, and the agent's answer.
_CLAUDE_TURNS = (
    (
        "Add a dark mode to the settings page. Never change tokens.css, the design team owns it.",
        "src/settings.tsx",
        "I read settings.tsx. The colors come from tokens.css, so I will use its variables.",
    ),
    (
        "Store the choice per user, not per browser.",
        "src/api/profile.ts",
        "Decision: the choice goes into profile.theme, because profiles sync across devices.",
    ),
    (
        "Our staging user is qa-17@example.org, test with it.",
        "tests/settings.spec.ts",
        "The test signs in as that user and switches the theme twice.",
    ),
    (
        "The switch flickers on load.",
        "src/app.tsx",
        "The theme is read before the first paint now. Open: the print style still uses the light colors.",
    ),
)
_CLAUDE_SUMMARY = (
    "This session is being continued from a previous conversation. The user asked for a dark mode on the settings "
    "page. settings.tsx, profile.ts and app.tsx were read and changed. The flicker on load is fixed."
)
_CODEX_TURNS = (
    (
        "The login test fails about once in 20 runs. Find the cause.",
        "tests/login_test.py",
        "The test waits 2 s for an e-mail.",
    ),
    (
        "Do not raise the timeout.",
        "app/mail.py",
        "Mail is sent by a background job, so the test now waits for the job.",
    ),
    (
        "Run it 100 times.",
        "tests/conftest.py",
        "100 of 100 runs passed.",
    ),
)


@dataclass(frozen=True, slots=True)
class ForeignLog:
    """A session of another agent and the time since it began."""

    session_id: str
    ago: timedelta
    records: Callable[[PastClock], Iterator[dict[str, Any]]]


def send(log: ForeignLog, exporter: Exporter, storage: AriadneStorage) -> None:
    """Import a log with its transcripts, in the same way as `compactctl watch`."""
    redacting_exporter = RedactingExporter(exporter, OutboundRedactor())
    lines = [json.dumps(record) for record in log.records(PastClock(log.ago))]
    conversation = read_conversation("\n".join(lines))
    for event in ingest_events(conversation, session_id=log.session_id, archive=storage.save_transcript):
        redacting_exporter.emit(event)


def _claude_code_log(clock: PastClock) -> Iterator[dict[str, Any]]:
    count = 0

    def record(kind: str, **content: Any) -> dict[str, Any]:
        nonlocal count
        count += 1
        clock.spend(9)
        ids = {"uuid": f"record-{count}", "parentUuid": f"record-{count - 1}" if count > 1 else None}
        common = {"sessionId": _CLAUDE_SESSION, "version": "2.1.0", "cwd": "/home/dev/shop", "isSidechain": False}
        return {**common, **ids, "type": kind, "timestamp": _timestamp(clock), **content}

    def answer(number: int, block: dict[str, Any], tokens: int) -> dict[str, Any]:
        usage = {
            "input_tokens": 900,
            "cache_read_input_tokens": max(0, tokens - 900),
            "cache_creation_input_tokens": 0,
            "output_tokens": 60,
        }
        message = {"id": f"msg_{number}", "role": "assistant", "model": "claude-sonnet-4-5", "content": [block]}
        return record("assistant", message={**message, "type": "message", "usage": usage})

    tokens = 20_500  # system prompt and tool schemas of the agent
    for number, (ask, path, reply) in enumerate(_CLAUDE_TURNS):
        tool = {
            "type": "tool_use",
            "id": f"toolu_{number}",
            "name": "Read",
            "input": {"file_path": f"/home/dev/shop/{path}"},
        }
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": source_file(path, lines=70)}
        yield record("user", message={"role": "user", "content": ask})
        yield answer(2 * number, tool, tokens)
        yield record("user", message={"role": "user", "content": [result]})
        yield answer(2 * number + 1, {"type": "text", "text": reply}, tokens + 900)
        tokens += 950
    metadata = {"trigger": "manual", "preTokens": 24_300, "postTokens": 20_700}
    yield record("system", subtype="compact_boundary", content="Conversation compacted", compactMetadata=metadata)
    yield record("user", isCompactSummary=True, message={"role": "user", "content": _CLAUDE_SUMMARY})
    yield record("user", message={"role": "user", "content": "Now the print style."})
    yield answer(99, {"type": "text", "text": "I will define the colors in tokens.css."}, 20_800)


def _codex_log(clock: PastClock) -> Iterator[dict[str, Any]]:

    def record(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        clock.spend(11)
        return {"timestamp": _timestamp(clock), "type": kind, "payload": payload}

    def message(role: str, text: str) -> dict[str, Any]:
        kind = "input_text" if role == "user" else "output_text"
        return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}

    def token_count(tokens: int) -> dict[str, Any]:
        usage = {
            "input_tokens": tokens,
            "cached_input_tokens": tokens - 2_000,
            "output_tokens": 80,
            "total_tokens": tokens,
        }
        info = {"total_token_usage": usage, "last_token_usage": usage, "model_context_window": 272_000}
        return record("event_msg", {"type": "token_count", "info": info})

    meta = {"id": _CODEX_SESSION, "cwd": "/home/dev/portal", "originator": "codex_cli_rs", "cli_version": "0.50.0"}
    yield record("session_meta", meta)
    yield record("turn_context", {"cwd": "/home/dev/portal", "model": "gpt-5-codex"})
    for number, (ask, path, reply) in enumerate(_CODEX_TURNS):
        arguments = json.dumps({"command": ["cat", path]})
        call = {"type": "function_call", "name": "shell", "arguments": arguments, "call_id": f"call_{number}"}
        output = {"type": "function_call_output", "call_id": f"call_{number}", "output": source_file(path, lines=60)}
        yield record("response_item", message("user", ask))
        yield record("response_item", call)
        yield token_count(14_000 + 800 * number)
        yield record("response_item", output)
        yield record("response_item", message("assistant", reply))
        yield token_count(14_800 + 800 * number)
    asks = [message("user", ask) for ask, _, _ in _CODEX_TURNS]
    history = [*asks, {"type": "compaction", "encrypted_content": "gAAAAABmX2xhYnk"}]
    yield record("compacted", {"message": "", "replacement_history": history})
    yield record("response_item", message("user", "Write the commit message."))
    yield record("response_item", message("assistant", "tests: Wait for the mail job instead of a fixed time"))
    yield token_count(14_300)


def _timestamp(clock: PastClock) -> str:
    return clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")


LOGS = (
    ForeignLog(_CLAUDE_SESSION, timedelta(days=1, hours=6), _claude_code_log),
    ForeignLog(_CODEX_SESSION, timedelta(hours=4), _codex_log),
)
