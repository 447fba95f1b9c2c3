"""The uncompact command: print what the last compactions of a session dropped."""

from __future__ import annotations

import argparse
import sys

from compact.cli import exit_codes, output
from compact.cli.server_api import ServerApi
from compact.estimators import TiktokenEstimator
from compact.importers import read_conversation, read_log
from compact.importers.conversation import Conversation
from compact.importers.discovery import get_session
from compact.importers.uncompaction import LogIndex, LostItem, lost_items, render_items
from compact.recall import render_passages

_LIMIT = 10


def uncompact(options: argparse.Namespace) -> int:
    """Print the lost facts, or the passages that match --query."""
    if options.server:
        return _uncompact_server(options)
    conversation, session = _read(options.session)
    count_tokens = TiktokenEstimator().count_tokens
    if options.query:
        passages = LogIndex(conversation).search(
            options.query, limit=_LIMIT, max_tokens=options.max_tokens, count_tokens=count_tokens
        )
        if options.json:
            output.document({"session": session, "query": options.query, "passages": [p.to_dict() for p in passages]})
        else:
            sys.stdout.write(render_passages(passages) + "\n")
        return exit_codes.OK
    items, notes = lost_items(conversation, last=options.last)
    _print(session, items, notes, options)
    return exit_codes.OK


def _read(name: str | None) -> tuple[Conversation, str]:
    if name == "-":
        conversation = read_conversation(sys.stdin.read())
        return conversation, conversation.session_id or "stdin"
    log = get_session(name)
    conversation, skipped = read_log(log.path)
    for line in skipped:
        if not line.is_incomplete:
            sys.stderr.write(f"compactctl: {log.path}: line {line.line} {line.reason} and was skipped\n")
    return conversation, conversation.session_id or log.session_id


def _uncompact_server(options: argparse.Namespace) -> int:
    api = ServerApi(options.url, options.token)
    session = options.session or api.newest_compacted_session()
    if options.query:
        results = api.search(options.query, session=session, limit=_LIMIT)
        if options.json:
            output.document({"session": session, "query": options.query, "results": results})
        else:
            lines = [f"[{result['type']}, {result['at']}] {_snippet(result)}" for result in results]
            sys.stdout.write(("\n".join(lines) or "Nothing in this session matches.") + "\n")
        return exit_codes.OK
    items, notes = api.lost_items(session, last=options.last)
    _print(session, items, notes, options)
    return exit_codes.OK


def _snippet(result: dict[str, object]) -> str:
    parts = result.get("snippet")
    return "".join(str(part["text"]) for part in parts) if isinstance(parts, list) else ""


def _print(session: str, items: list[LostItem], notes: list[str], options: argparse.Namespace) -> None:
    if options.json:
        output.document({"session": session, "notes": notes, "items": [item.to_dict() for item in items]})
        return
    count_tokens = TiktokenEstimator().count_tokens
    text = render_items(items, notes, max_tokens=options.max_tokens, count_tokens=count_tokens)
    sys.stdout.write(f"{text}\n")
