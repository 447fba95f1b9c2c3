"""The commands compact, dry-run, diff and remember: what a compaction does to a conversation."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compact import events
from compact.cli import exit_codes, output
from compact.config import CompactConfig, load_config
from compact.config.sources import resolve
from compact.exceptions import ConfigError
from compact.exporters.callback import CallbackExporter
from compact.importers import Conversation, UnreadableLog, read_conversation
from compact.manager import CompactManager
from compact.messages import text_of
from compact.policy import CompactPolicy

_FATE_COLORS = {
    "kept": "green", "pinned": "cyan", "summarized": "magenta", "cleared": "yellow",
    "externalized": "blue", "dropped": "red", "truncated": "yellow",
}  # fmt: skip
_EXCERPT_LENGTH = 80


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one policy for a conversation."""

    name: str
    items: list[Any]
    tokens_before: int
    tokens_after: int
    triggered: bool
    ledger: list[dict[str, Any]]
    summary: str | None
    summary_tokens: int
    retention: float | None
    problem: str | None = None

    @property
    def saved_pct(self) -> float:
        return round(1 - self.tokens_after / self.tokens_before, 4) if self.tokens_before else 0.0

    @property
    def fates(self) -> dict[str, int]:
        return dict(Counter(entry["fate"] for entry in self.ledger))

    def to_dict(self) -> dict[str, Any]:
        return {
            "policy": self.name,
            "tokens_before": self.tokens_before,
            "tokens_after": self.tokens_after,
            "saved_pct": self.saved_pct,
            "triggered": self.triggered,
            "messages_after": len(self.items),
            "summary_tokens": self.summary_tokens,
            "weighted_retention": self.retention,
            "fates": self.fates,
            "problem": self.problem,
        }


def compact(options: argparse.Namespace) -> int:
    """Write the compacted messages, and the saving to stderr."""
    conversation = _read(options.file)
    note = None if options.if_needed else options.note
    outcome = _require_success(_compact(conversation, _config(options, conversation), "policy", note=note))
    text = json.dumps(outcome.items, indent=2, ensure_ascii=False, default=str) + "\n"
    if options.output:
        Path(options.output).write_text(text)
    if options.json:
        output.document({**outcome.to_dict(), "messages": outcome.items})
    elif not options.output:
        sys.stdout.write(text)
    compressed = sum(1 for entry in outcome.ledger if entry["fate"] not in ("kept", "pinned"))
    sys.stderr.write(
        f"{_tokens(outcome)} ({outcome.saved_pct:.1%} saved), "
        f"{compressed} of {len(conversation.items)} messages compressed\n"
    )
    return exit_codes.OK


def dry_run(options: argparse.Namespace) -> int:
    """Compare the configured policy with the given ones, one row each."""
    conversation = _read(options.file)
    config = _config(options, conversation)
    variants = [("settings", config)]
    variants += [(text, replace(config, policy=_changed_policy(config, text))) for text in options.policy]
    tracked = output.progress(variants, "compacting", is_json=options.json)
    outcomes = [_compact(conversation, variant, name) for name, variant in tracked]
    if options.json:
        output.document({"messages_before": len(conversation.items), "policies": [o.to_dict() for o in outcomes]})
        return exit_codes.OK
    columns = ("policy", "before", "after", "saved", "messages", "summary", "facts kept", "fates")
    title = f"{len(conversation.items)} messages, context window {output.number(config.max_context_tokens)} tokens"
    output.table(title, columns, [_policy_row(outcome) for outcome in outcomes], right=(1, 2, 3, 4, 5, 6))
    return exit_codes.OK


def diff(options: argparse.Namespace) -> int:
    """Print the fate of each message, then the summary."""
    conversation = _read(options.file)
    outcome = _require_success(_compact(conversation, _config(options, conversation), "policy"))
    if options.json:
        details = {"ledger": outcome.ledger, "summary": outcome.summary, "after": outcome.items}
        output.document({**outcome.to_dict(), **details})
        return exit_codes.OK
    out = output.console()
    if not outcome.ledger:
        out.print("Nothing to compact: every message is pinned or recent.", style="green")
        return exit_codes.OK
    rows = [
        _message_row(number, entry, conversation.items)
        for number, entry in enumerate(outcome.ledger, start=1)
        if options.all or entry["fate"] not in ("kept", "pinned")
    ]
    output.table("", ("#", "fate", "role", "tokens", "why", "message"), rows, right=(0, 3))
    out.print(f"\n{_tokens(outcome)}", style="bold")
    if outcome.summary:
        out.print(output.style(outcome.summary, "magenta"))
    return exit_codes.OK


def remember(options: argparse.Namespace) -> int:
    """Print the memory of an agent after its next request."""
    conversation = _read(options.file)
    manager = CompactManager(_config(options, conversation))
    manager.preflight("remember", conversation.items, tools=conversation.tools or None, format=conversation.format)
    memory = manager.remember("remember")
    if options.json:
        output.document(memory.to_dict())
    else:
        sys.stdout.write(f"{memory}\n")
    return exit_codes.OK


def _compact(conversation: Conversation, config: CompactConfig, name: str, note: str | None = "dry run") -> Outcome:
    """Compact a conversation with a note, or only if a trigger requires it if there is no note."""
    recorded: dict[str, dict[str, Any]] = {}
    exporter = CallbackExporter(lambda event: recorded.__setitem__(event["event"], event))
    manager = CompactManager(replace(config, exporter=exporter, storage=None))
    arguments: dict[str, Any] = {"tools": conversation.tools or None, "format": conversation.format}
    items: list[Any] = conversation.items
    problem = None
    try:
        if note is None:
            items = manager.preflight("s", conversation.items, **arguments)
        else:
            items = manager.manual_compact("s", conversation.items, note=note, **arguments)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"

    def part(event: type[events.Event], name: str) -> dict[str, Any]:
        return recorded.get(event.name, {}).get(name) or {}

    check = part(events.CheckEvent, "properties")
    estimate = part(events.TokenEstimateEvent, "properties").get("t_est", 0)
    return Outcome(
        name=name,
        items=items,
        tokens_before=check.get("tokens_before") or estimate,
        tokens_after=check.get("tokens_after") or estimate,
        triggered=events.PrunedMessagesEvent.name in recorded,
        ledger=part(events.PrunedMessagesEvent, "payload").get("ledger") or [],
        summary=part(events.SummaryCreatedEvent, "payload").get("summary"),
        summary_tokens=part(events.SummaryCreatedEvent, "properties").get("summary_tokens", 0),
        retention=part(events.RetentionEvent, "properties").get("weighted_retention"),
        problem=problem,
    )


def _require_success(outcome: Outcome) -> Outcome:
    if outcome.problem:
        raise exit_codes.Stop(exit_codes.NO_ROOM, outcome.problem)
    return outcome


def _read(name: str) -> Conversation:
    """Return the conversation in a file or on stdin. Errors name the file."""
    source = "stdin" if name == "-" else name
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return read_conversation(content.decode("utf-8"))
    except OSError as error:
        problem = f"{error.strerror}." if error.strerror else str(error)
    except UnicodeDecodeError:
        problem = "This is not UTF-8 text."
    except UnreadableLog as error:
        problem = str(error)
    raise exit_codes.Stop(exit_codes.UNREADABLE, f"{source}: {problem}")


def _config(options: argparse.Namespace, conversation: Conversation) -> CompactConfig:
    """Return the configuration from the settings, overridden by the log and then by the command line."""
    policy = {
        "strategy": options.strategy,
        "renderer": options.renderer,
        "keep_recent_turns": options.keep_turns,
        "keep_tool_io_pairs": options.keep_pairs,
    }
    overrides: dict[str, Any] = {
        "policy": {name: value for name, value in policy.items() if value is not None},
        "model": options.model or conversation.model,
        "max_context_tokens": options.max_tokens or conversation.window_tokens,
    }
    # These commands send and archive nothing, even if the settings name an exporter and a storage.
    return load_config(
        options.config,
        telemetry={"exporter": "none"},
        storage={"adapter": "none"},
        **{name: value for name, value in overrides.items() if value},
    )


def _changed_policy(config: CompactConfig, text: str) -> CompactPolicy:
    """Return the configured policy with the changes of one `--policy` option."""
    changes: dict[str, Any] = {}
    for part in text.split(","):
        name, separator, value = part.partition("=")
        if not separator:
            raise ConfigError("--policy", f"must be NAME=VALUE[,NAME=VALUE…], not {part!r}")
        changes[name.strip()] = value.strip()
    return resolve(environ={}, code={"policy": {**config.policy.to_dict(), **changes}}).settings.policy


def _policy_row(outcome: Outcome) -> tuple[Any, ...]:
    return (
        outcome.name,
        output.number(outcome.tokens_before),
        output.number(outcome.tokens_after),
        f"{outcome.saved_pct:.0%}",
        len(outcome.items),
        output.number(outcome.summary_tokens),
        "–" if outcome.retention is None else f"{outcome.retention:.0%}",
        ", ".join(f"{count} {fate}" for fate, count in outcome.fates.items()) or outcome.problem or "",
    )


def _message_row(number: int, entry: dict[str, Any], items: list[dict[str, Any]]) -> tuple[Any, ...]:
    fate = output.style(entry["fate"], _FATE_COLORS.get(entry["fate"], ""))
    text = _excerpt(items[number - 1]) if number <= len(items) else ""
    return number, fate, entry["role"], output.number(entry["tokens"]), entry["rule"], text


def _excerpt(item: dict[str, Any]) -> str:
    content = item.get("content") or item.get("output") or item.get("arguments") or ""
    text = " ".join(text_of(content).split())
    return text if len(text) <= _EXCERPT_LENGTH else text[: _EXCERPT_LENGTH - 1] + "…"


def _tokens(outcome: Outcome) -> str:
    return f"{output.number(outcome.tokens_before)} → {output.number(outcome.tokens_after)} tokens"
