"""What the inspector says about one span: a sentence, facts, the prompt before and after, texts.

Pure over what it is given. Text of an agent is included only where the reader may see it; the caller says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from viewer.sessions.checks import (
    CHECK,
    DECISION,
    ERROR,
    ESTIMATE,
    PARTS,
    PRUNED,
    RETENTION,
    SUMMARY,
    Check,
    Checks,
    SpanRow,
    whole,
)
from viewer.sessions.queries import FullSpan
from viewer.sessions.sentences import describe, percent, sentence

PART_LABELS = {
    "system": "System",
    "developer": "Developer",
    "tools_schema": "Tool schemas",
    "memory": "Memory",
    "history": "History",
    "user_input": "User input",
}


def inspect(found: FullSpan, checks: Checks, *, may_payload: bool) -> dict[str, Any]:
    span = found.row
    check = checks.holding(span.key)
    payload = found.payload if isinstance(found.payload, Mapping) else {}
    compactions = checks.compactions()
    number = compactions.index(check) + 1 if check is not None and check in compactions else None
    return {
        "span": span,
        "key": span.key,
        "check": check,
        "number": number,
        "title": title(span, number),
        "headline": headline(span.kind, check) or describe(span) or failure(span, found.has_payload),
        "facts": facts(span.kind, span.data),
        "policy": policy(check) if span.kind in {CHECK, DECISION, "compact.policy_applied"} else [],
        "parts": parts(check) if span.kind in {CHECK, DECISION, ESTIMATE, PRUNED} else [],
        # Operators may read summaries; every other text needs its own right.
        "summary": str(payload.get("summary", "")) if span.kind == SUMMARY else "",
        "errors": check.errors if check is not None and span.kind in {CHECK, ERROR, SUMMARY} else [],
        "by_kind": retention_rows(span.data) if span.kind == RETENTION else [],
        "raw": json.dumps(span.data, indent=2, ensure_ascii=False, sort_keys=True),
        "has_payload": found.has_payload,
        "may_payload": may_payload,
    }


def title(span: SpanRow, number: int | None) -> str:
    """What the span is called: a check that compacted by its number, our own kinds by their words."""
    if number and span.kind == CHECK:
        return f"Compaction {number}"
    if span.kind.startswith("compact.") and span.name in {"", span.kind}:
        return label(span.kind.removeprefix("compact."))
    return span.name or span.kind or "Span"


def headline(kind: str, check: Check | None) -> str:
    return sentence(check) if check is not None and kind in {CHECK, DECISION, ESTIMATE, PRUNED} else ""


def failure(span: SpanRow, has_payload: bool) -> str:
    """For a failed span that says nothing of it among its properties."""
    if span.status != "error":
        return ""
    return "This failed. What it said is in its payload." if has_payload else "This failed, and said no more."


def facts(kind: str, data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The flat properties of a span as label and value; nested ones are in the raw data."""
    skipped = {"policy", "breakdown", "breakdown_after", "layers", "fates", "by_kind", "cache", "kept", "reductions"}
    rows = []
    for name, value in data.items():
        if name in skipped or isinstance(value, dict | list) or value is None or value == "" or _is_json(value):
            continue
        rows.append((label(name), readable(name, value)))
    for name in ("kept", "layers", "fates", "cache"):
        nested = data.get(name)
        if isinstance(nested, Mapping):
            told = ", ".join(f"{label(k).lower()} {readable(k, v)}" for k, v in nested.items())
            rows.append((label(name), told))
    return rows


def _is_json(value: Any) -> bool:
    """An object or a list written into a text, as tracers whose attributes cannot nest do it."""
    return isinstance(value, str) and value[:1] in {"{", "["} and value[-1:] in {"}", "]"}


def policy(check: Check | None) -> list[tuple[str, str]]:
    if check is None:
        return []
    return [(label(name), readable(name, value)) for name, value in check.policy.items() if value not in (None, "")]


def parts(check: Check | None) -> list[dict[str, Any]]:
    """The prompt by part, before and after, with each part's share of the window."""
    if check is None or not check.before:
        return []
    after = check.after_parts
    return [
        {"name": name, "label": PART_LABELS[name], "before": check.parts[i], "after": after[i] if after else None}
        for i, name in enumerate(PARTS)
    ]


def retention_rows(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    by_kind = data.get("by_kind")
    if not isinstance(by_kind, Mapping):
        return []
    rows: list[dict[str, Any]] = []
    for kind, counts in by_kind.items():
        if not isinstance(counts, Mapping):
            continue
        row = {name: whole(counts.get(name)) for name in ("found", "kept", "restored", "lost")}
        rows.append({"kind": label(str(kind)), "safe": row["kept"] + row["restored"], **row})
    return rows


def label(name: str) -> str:
    """latency_ms → Latency."""
    words = name.removesuffix("_ms").removesuffix("_pct").replace("_", " ").replace(".", " ").strip()
    return {"t est": "Estimate", "max tokens": "Window"}.get(words, words[:1].upper() + words[1:])


def readable(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_pct") and isinstance(value, int | float):
        return percent(float(value))
    if name.endswith("_ms") and isinstance(value, int | float):
        return f"{value:,.0f} ms"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3g}"
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    return str(value)
