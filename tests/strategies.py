"""Hypothesis strategies for agent conversations in every format, including common defects.

A conversation is drawn as format-independent steps and then written in a format, so that a property can be tested on
the same conversation in all formats.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

FORMATS = ("chat", "responses", "anthropic")

_words = st.sampled_from(
    [
        "deploy",
        "the",
        "parser",
        "must",
        "never",
        "drop",
        "table",
        "orders",
        "src/app/main.py",
        "ORD-1042",
        "fails",
        "with",
        "code",
        "17",
        "because",
        "cache",
        "is",
        "stale",
        "we",
        "decided",
        "to",
        "use",
        "Postgres",
        "instead",
        "TODO",
        "check",
        "https://example.org/x",
        "日本",
        "é",
        "𝄞",
        "naïve",
    ]
)
texts = st.lists(_words, min_size=1, max_size=60).map(" ".join)
long_texts = st.tuples(texts, st.integers(1, 12)).map(lambda pair: "\n".join([pair[0]] * pair[1]))


@dataclass
class Step:
    """One step of a conversation: a message, or a response with tool calls."""

    kind: str  # user, assistant, tools, system, developer
    text: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    """The name and the output of each call."""
    answered: int = 0
    """The number of calls that have an output."""
    protected: bool = False
    reasoning: bool = False


@st.composite
def steps(draw, *, max_size=24, orphans=True):
    """Draw a conversation. With `orphans`, some calls have no output."""
    kinds = draw(
        st.lists(
            st.sampled_from(["user", "assistant", "tools", "tools", "user", "user", "developer"]),
            min_size=min(8, max_size),
            max_size=max_size,
        )
    )
    conversation = [Step("system", draw(texts))]
    for kind in kinds:
        step = Step(kind, draw(texts), protected=draw(st.integers(0, 9)) == 0, reasoning=draw(st.booleans()))
        if kind == "tools":
            names = draw(st.lists(st.sampled_from(["read", "run", "manage_todo_list"]), min_size=1, max_size=3))
            step.calls = [(name, draw(long_texts)) for name in names]
            missing = draw(st.integers(0, 7)) == 0 and orphans
            step.answered = draw(st.integers(0, len(names) - 1)) if missing else len(names)
        conversation.append(step)
    return conversation


def write(conversation: list[Step], fmt: str) -> list[dict[str, Any]]:
    """Return the conversation's items in a provider's format."""
    items: list[dict[str, Any]] = []
    for number, step in enumerate(conversation):
        items.extend({"chat": _chat, "responses": _responses, "anthropic": _anthropic}[fmt](step, number))
    return items


def _meta(step: Step) -> dict[str, Any]:
    return {"meta": {"protected": True}} if step.protected else {}


def _chat(step: Step, number: int) -> list[dict[str, Any]]:
    if step.kind != "tools":
        return [{"role": step.kind, "content": step.text, **_meta(step)}]
    calls = [
        {"id": f"c{number}-{n}", "type": "function", "function": {"name": name, "arguments": json.dumps({"n": n})}}
        for n, (name, _) in enumerate(step.calls)
    ]
    outputs = [
        {"role": "tool", "tool_call_id": f"c{number}-{n}", "content": output}
        for n, (_, output) in enumerate(step.calls[: step.answered])
    ]
    return [{"role": "assistant", "content": None, "tool_calls": calls, **_meta(step)}, *outputs]


def _responses(step: Step, number: int) -> list[dict[str, Any]]:
    if step.kind != "tools":
        item: dict[str, Any] = {"role": step.kind, "content": step.text, **_meta(step)}
        if step.kind == "assistant":
            content = [{"type": "output_text", "text": step.text, "annotations": []}]
            item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": content, **_meta(step)}
        return [*_reasoning_items(step, number), item] if step.kind == "assistant" else [item]
    calls = [
        {"type": "function_call", "call_id": f"c{number}-{n}", "name": name, "arguments": json.dumps({"n": n})}
        for n, (name, _) in enumerate(step.calls)
    ]
    outputs = [
        {"type": "function_call_output", "call_id": f"c{number}-{n}", "output": output}
        for n, (_, output) in enumerate(step.calls[: step.answered])
    ]
    return [*_reasoning_items(step, number), *calls, *outputs]


def _reasoning_items(step: Step, number: int) -> list[dict[str, Any]]:
    return (
        [{"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "x" * 60}]
        if step.reasoning
        else []
    )


def _anthropic(step: Step, number: int) -> list[dict[str, Any]]:
    if step.kind != "tools":
        return [{"role": step.kind, "content": [{"type": "text", "text": step.text}], **_meta(step)}]
    blocks: list[dict[str, Any]] = []
    if step.reasoning:
        blocks.append({"type": "thinking", "thinking": "hm", "signature": "sig=="})
    blocks += [
        {"type": "tool_use", "id": f"c{number}-{n}", "name": name, "input": {"n": n}}
        for n, (name, _) in enumerate(step.calls)
    ]
    results = [
        {"type": "tool_result", "tool_use_id": f"c{number}-{n}", "content": output}
        for n, (_, output) in enumerate(step.calls[: step.answered])
    ]
    request = {"role": "assistant", "content": blocks, **_meta(step)}
    return [request, {"role": "user", "content": results}] if results else [request]
