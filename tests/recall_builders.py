"""Sessions and indexes for tests of recall."""

from __future__ import annotations

from typing import Any

from builders import chat_turns, small_manager, tool_pair
from compact.recall import PassageIndex

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def history(fact: str, turns: int = 30) -> list[dict[str, Any]]:
    first = [{"role": "user", "content": f"Remember for later. {fact}"}, {"role": "assistant", "content": "I will."}]
    return [*first, *tool_pair(1, f"row 17\n{fact}\nrow 18"), *(message.to_dict() for message in chat_turns(turns))]


def compacted_manager(fact: str, recorder: Any = None, **options: Any) -> Any:
    policy = {"story_pct": 0.0, **options.pop("policy", {})}
    manager = small_manager(recorder, policy=policy, **options)
    messages = history(fact)
    assert len(manager.preflight("s", messages)) < len(messages)
    return manager


def texts(passages: Any) -> str:
    return "\n".join(passage.text for passage in passages)


def search(index: PassageIndex, query: str, **options: Any) -> list[str]:
    passages = index.search(query, limit=5, max_tokens=500, count_tokens=lambda text: len(text) // 3, **options)
    return [passage.message_id for passage in passages]


def log_entry(number: int) -> str:
    return f"row {number} of the ledger has the value V-{number * 7} in table_{number % 900}\n" * 5
