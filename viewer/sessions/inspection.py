"""The inspector's view of one span: a sentence, properties, the prompt before and after, and texts.

Pure. The caller passes the span and the checks as the reader sees them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from compact.events import PROMPT_PARTS
from compact.reading.parts import strip_summary_marks

from viewer.kinds import CHECK, TURN, Kind, Panel, kind_of
from viewer.numbers import format_percent, to_count
from viewer.sessions.checks import Check
from viewer.sessions.descriptions import describe_check, describe_span
from viewer.sessions.queries import FullSpan
from viewer.sessions.session_checks import SessionChecks
from viewer.sessions.spans import SpanRow

PART_LABELS = {
    "system": "System",
    "developer": "Developer",
    "tools_schema": "Tool schemas",
    "memory": "Memory",
    "history": "History",
    "user_input": "User input",
}
# Nested properties that have a panel of their own, or are only in the raw data.
_HIDDEN = {"policy", "breakdown", "breakdown_after", "layers", "fates", "by_kind", "cache", "kept", "reductions"}
_FLATTENED = ("kept", "layers", "fates", "cache")
# A span can have any number of attributes. The raw data has all of them.
_MAX_PROPERTIES = 200


def inspect(full_span: FullSpan, checks: SessionChecks) -> dict[str, Any]:
    """Return the context of `_inspector.html`, without the messages of the span."""
    span, kind = full_span.row, kind_of(full_span.row.kind)
    check = checks.check_of_span(span.key)
    # A turn shows the decision of its check.
    shown_kind = kind
    if check is None and span.kind == TURN:
        check, shown_kind = checks.check_below(span), kind_of(CHECK)
    payload = full_span.payload if isinstance(full_span.payload, Mapping) else {}
    compactions = checks.compactions()
    number = compactions.index(check) + 1 if check is not None and check in compactions else None
    panels = check_panels(shown_kind, check)
    by_kind = retention_rows(span.data) if Panel.RETENTION in kind.panels else []
    facts = properties(span.data)
    return {
        "span": span,
        "kind": kind,
        "key": span.key,
        "check": check,
        "number": number,
        "has_decision": bool(by_kind or any(panels.values())),
        "title": title(span, number),
        "headline": headline(full_span, check, shown_kind),
        "facts": facts[:_MAX_PROPERTIES],
        "hidden_fact_count": max(0, len(facts) - _MAX_PROPERTIES),
        "summary": strip_summary_marks(str(payload.get("summary", ""))) if Panel.SUMMARY in kind.panels else "",
        "by_kind": by_kind,
        **panels,
        "raw": json.dumps(span.data, indent=2, ensure_ascii=False, sort_keys=True),
        "has_payload": full_span.has_payload,
    }


def check_panels(kind: Kind, check: Check | None) -> dict[str, Any]:
    """Return the panels that describe the check of a span. They are empty if the span has none."""
    panels = kind.panels if check is not None else frozenset()
    return {
        "policy": policy(check) if check and Panel.POLICY in panels else [],
        "parts": prompt_parts(check) if check and Panel.PROMPT in panels else [],
        "errors": check.errors if check and Panel.ERRORS in panels else [],
    }


def headline(full_span: FullSpan, check: Check | None, kind: Kind) -> str:
    """Return the sentence of the check, the line of the span, a sentence about its failure, or one about its kind."""
    span = full_span.row
    if check is not None and Panel.PROMPT in kind.panels:
        return describe_check(check)
    line = describe_span(span) or describe_failure(span, full_span.has_payload)
    return line or (kind.description if kind.is_compaction else "")


def title(span: SpanRow, number: int | None) -> str:
    """Return the number of a compaction, the label of a compaction event, or the name of any other span."""
    if number and span.kind == CHECK:
        return f"Compaction {number}"
    kind = kind_of(span.kind)
    if kind.is_compaction and span.name in {"", span.kind}:
        return kind.label[:1].upper() + kind.label[1:]
    return span.name or span.kind or "Span"


def describe_failure(span: SpanRow, has_payload: bool) -> str:
    """Return a sentence for a failed span whose properties have no error message."""
    if span.status != "error":
        return ""
    return "Failed. See the payload for details." if has_payload else "Failed without an error message."


def properties(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the flat properties of a span as labels and values. Nested ones are in the raw data."""
    rows = [
        (label(name), format_value(name, value))
        for name, value in data.items()
        if name not in _HIDDEN
        and not isinstance(value, dict | list)
        and value not in (None, "")
        and not _is_json(value)
    ]
    for name in _FLATTENED:
        nested = data.get(name)
        if isinstance(nested, Mapping):
            text = ", ".join(f"{label(key).lower()} {format_value(key, value)}" for key, value in nested.items())
            rows.append((label(name), text))
    return rows


def _is_json(value: Any) -> bool:
    """Return True for JSON in a string, which tracers without nested attributes send."""
    return isinstance(value, str) and value[:1] in {"{", "["} and value[-1:] in {"}", "]"}


def policy(check: Check) -> list[tuple[str, str]]:
    return [(label(name), format_value(name, value)) for name, value in check.policy.items() if value not in (None, "")]


def prompt_parts(check: Check) -> list[dict[str, Any]]:
    """Return the size of each part of the prompt, before and after. Without reported parts, the prompt is one part."""
    if not check.before:
        return []
    if not check.has_parts:
        return [{"name": "history", "label": "Whole prompt", "before": check.before, "after": check.after}]
    before, after = check.parts, check.after_parts
    return [
        {"name": name, "label": PART_LABELS[name], "before": before[i], "after": after[i] if after else None}
        for i, name in enumerate(PROMPT_PARTS)
    ]


def retention_rows(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    by_kind = data.get("by_kind")
    if not isinstance(by_kind, Mapping):
        return []
    rows: list[dict[str, Any]] = []
    for kind, counts in by_kind.items():
        if not isinstance(counts, Mapping):
            continue
        row = {name: to_count(counts.get(name)) for name in ("found", "kept", "restored", "lost")}
        rows.append({"kind": label(str(kind)), "safe": row["kept"] + row["restored"], **row})
    return rows


_LABELS = {"t est": "Estimate", "max tokens": "Window", "id": "ID", "keep tool io pairs": "Keep tool I/O pairs"}


def label(name: str) -> str:
    """latency_ms → Latency."""
    words = name.removesuffix("_ms").removesuffix("_pct").replace("_", " ").replace(".", " ").strip()
    return _LABELS.get(words, words[:1].upper() + words[1:])


def format_value(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_pct") and isinstance(value, int | float):
        return format_percent(float(value))
    if name.endswith("_ms") and isinstance(value, int | float):
        return f"{value:,.0f} ms"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3g}"
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    return str(value)
