"""compact, dry-run, diff, remember: what a compaction does to a conversation."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compact.cli import exit_codes, output
from compact.config import CompactConfig, load_config
from compact.exceptions import ConfigError
from compact.exporters.callback import CallbackExporter
from compact.importers import Conversation, read_conversation
from compact.manager import CompactManager
from compact.messages import text_of

_FATES = {
    "kept": "green", "pinned": "cyan", "summarized": "magenta", "cleared": "yellow",
    "externalized": "blue", "dropped": "red", "truncated": "yellow",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one policy makes of a conversation."""

    name: str
    items: list[Any]
    before: int
    after: int
    triggered: bool
    ledger: list[dict[str, Any]]
    summary: str | None
    summary_tokens: int
    retention: float | None
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        fates: dict[str, int] = {}
        for entry in self.ledger:
            fates[entry["fate"]] = fates.get(entry["fate"], 0) + 1
        return {
            "policy": self.name, "tokens_before": self.before, "tokens_after": self.after,
            "saved_pct": round(1 - self.after / self.before, 4) if self.before else 0.0, "triggered": self.triggered,
            "messages_after": len(self.items), "summary_tokens": self.summary_tokens, "retention_pct": self.retention,
            "fates": fates, "problem": self.problem,
        }  # fmt: skip


def compact(options: argparse.Namespace) -> int:
    conversation = _read(options.file)
    config = _config(options, conversation)
    outcome = _run(conversation, config, "policy", note=None if options.if_needed else options.note)
    if outcome.problem:
        raise exit_codes.Stop(exit_codes.NO_ROOM, outcome.problem)
    text = json.dumps(outcome.items, indent=2, ensure_ascii=False, default=str) + "\n"
    if options.output:
        Path(options.output).write_text(text)
    told = outcome.to_dict()
    if options.json:
        output.document({**told, "messages": outcome.items})
    elif not options.output:
        sys.stdout.write(text)
    compressed = sum(1 for entry in outcome.ledger if entry["fate"] not in ("kept", "pinned"))
    sys.stderr.write(
        f"{output.number(outcome.before)} → {output.number(outcome.after)} tokens ({told['saved_pct']:.1%} saved), "
        f"{compressed} of {len(conversation.items)} messages compressed\n"
    )
    return exit_codes.OK


def dry_run(options: argparse.Namespace) -> int:
    conversation = _read(options.file)
    config = _config(options, conversation)
    variants = [("settings", config)]
    variants += [(text, replace(config, policy=_changed(config, text))) for text in options.policy]
    outcomes = [_run(conversation, variant, name) for name, variant in _progress(variants, options)]
    if options.json:
        output.document({"messages_before": len(conversation.items), "policies": [o.to_dict() for o in outcomes]})
        return exit_codes.OK
    rows = []
    for outcome in outcomes:
        told = outcome.to_dict()
        kept = "–" if outcome.retention is None else f"{outcome.retention:.0%}"
        fates = ", ".join(f"{count} {fate}" for fate, count in told["fates"].items()) or outcome.problem or ""
        after = output.number(outcome.after)
        rows.append(
            (outcome.name, output.number(outcome.before), after, f"{told['saved_pct']:.0%}", len(outcome.items),
             output.number(outcome.summary_tokens), kept, fates)
        )  # fmt: skip
    columns = ("policy", "before", "after", "saved", "messages", "summary", "facts kept", "fates")
    title = f"{len(conversation.items)} messages, window {output.number(config.max_context_tokens)}"
    output.table(title, columns, rows, right=(1, 2, 3, 4, 5, 6))
    return exit_codes.OK


def diff(options: argparse.Namespace) -> int:
    conversation = _read(options.file)
    outcome = _run(conversation, _config(options, conversation), "policy")
    if outcome.problem:
        raise exit_codes.Stop(exit_codes.NO_ROOM, outcome.problem)
    if options.json:
        output.document(
            {**outcome.to_dict(), "ledger": outcome.ledger, "summary": outcome.summary, "after": outcome.items}
        )
        return exit_codes.OK
    if not outcome.ledger:
        output.console().print("nothing to compact: all of it is pinned or recent", style="green")
        return exit_codes.OK
    rows = []
    for number, entry in enumerate(outcome.ledger, start=1):
        if entry["fate"] in ("kept", "pinned") and not options.all:
            continue
        fate = output.styled(entry["fate"], _FATES.get(entry["fate"], ""))
        text = _brief(conversation.items[number - 1]) if number <= len(conversation.items) else ""
        rows.append((number, fate, entry["role"], output.number(entry["tokens"]), entry["rule"], text))
    output.table("", ("#", "fate", "role", "tokens", "why", "message"), rows, right=(0, 3))
    out = output.console()
    out.print(f"\n{output.number(outcome.before)} → {output.number(outcome.after)} tokens", style="bold")
    if outcome.summary:
        from rich.text import Text

        out.print(Text(outcome.summary, style="magenta"))
    return exit_codes.OK


def remember(options: argparse.Namespace) -> int:
    conversation = _read(options.file)
    config = _config(options, conversation)
    manager = CompactManager(config)
    manager.preflight("remember", conversation.items, tools=conversation.tools or None, format=conversation.format)
    memory = manager.remember("remember")
    if options.json:
        output.document(memory.to_dict())
    else:
        sys.stdout.write(f"{memory}\n")
    return exit_codes.OK


def _run(conversation: Conversation, config: CompactConfig, name: str, note: str | None = "dry run") -> Outcome:
    events: list[dict[str, Any]] = []
    manager = CompactManager(replace(config, exporter=CallbackExporter(events.append), storage=None))
    arguments: dict[str, Any] = {"tools": conversation.tools or None, "format": conversation.format}
    problem = None
    items: list[Any] = conversation.items
    try:
        if note is None:
            items = manager.preflight("s", conversation.items, **arguments)
        else:
            items = manager.manual_compact("s", conversation.items, note=note, **arguments)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    found = {event["event"]: event for event in events}
    check = found.get("compact.check", {}).get("properties", {})
    pruned = found.get("compact.pruned_messages", {})
    created = found.get("compact.summary_created", {})
    estimate = found.get("compact.token_estimate", {}).get("properties", {}).get("t_est", 0)
    return Outcome(
        name,
        items,
        check.get("tokens_before") or estimate,
        check.get("tokens_after") or estimate,
        bool(pruned),
        (pruned.get("payload") or {}).get("ledger") or [],
        (created.get("payload") or {}).get("summary"),
        created.get("properties", {}).get("summary_tokens", 0),
        found.get("compact.retention", {}).get("properties", {}).get("retention_pct"),
        problem,
    )


def _read(name: str) -> Conversation:
    text = sys.stdin.read() if name == "-" else Path(name).read_text()
    return read_conversation(text)


def _config(options: argparse.Namespace, conversation: Conversation) -> CompactConfig:
    policy = {
        field: value
        for field, value in (
            ("strategy", options.strategy), ("renderer", options.renderer),
            ("keep_recent_turns", options.keep_turns), ("keep_tool_io_pairs", options.keep_pairs),
        )
        if value is not None
    }  # fmt: skip
    code: dict[str, Any] = {"policy": policy} if policy else {}
    if options.model or conversation.model:
        code["model"] = options.model or conversation.model
    if options.max_tokens or conversation.window_tokens:
        code["max_context_tokens"] = options.max_tokens or conversation.window_tokens
    # A trial run sends nothing and archives nothing, whatever the settings say.
    return load_config(options.config, telemetry={"exporter": "none"}, storage={"adapter": "none"}, **code)


def _changed(config: CompactConfig, text: str) -> Any:
    from compact.config.settings import resolve

    changes: dict[str, Any] = {}
    for part in text.split(","):
        name, separator, value = part.partition("=")
        if not separator:
            raise ConfigError("--policy", f"is NAME=VALUE[,NAME=VALUE…], not {part!r}")
        changes[name.strip()] = value.strip()
    return resolve(environ={}, code={"policy": {**config.policy.to_dict(), **changes}}).settings.policy


def _progress(variants: list[Any], options: argparse.Namespace) -> Any:
    if options.json or not sys.stderr.isatty():
        return variants
    from rich.progress import track

    return track(variants, description="compacting", console=output.console(to_stderr=True), transient=True)


def _brief(item: Any) -> str:
    text = " ".join(text_of(item.get("content") or item.get("output") or item.get("arguments") or "").split())
    return text if len(text) <= 80 else text[:79] + "…"
