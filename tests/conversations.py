"""Deterministic agent conversations in chat format."""

from __future__ import annotations

from typing import Any


def conversation(turns: int) -> list[dict[str, Any]]:
    """A chat with a standing instruction and one long tool output per turn."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are a careful agent."}]
    messages.append({"role": "user", "content": "Never delete the table invoices_2026. Begin."})
    for number in range(turns):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": f'{{"n": {number}}}'}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": f"row {number}: " + "lorem ipsum dolor " * 40},
            {"role": "assistant", "content": f"Read part {number}."},
            {"role": "user", "content": f"Go on with part {number + 1}."},
        ]
    return messages
